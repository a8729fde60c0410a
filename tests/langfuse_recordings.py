"""Makes the state out of a recorded exchange in which a server must answer it as recorded.

For a list: the rows that were shown; rows that were not (the recording was shortened, or there were further pages), made
up as copies of the last one in the places where they must have been; and for every condition of the request a decoy that
breaks this one condition and stands before all the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from langfuse_standin import LangfuseStandin
from langfuse_standin.checks import cursor_json
from langfuse_standin.clock import iso, to_ms

DIALECT_OF = {
    "v3_225_4": "3.225",
    "v4_16_dual": "4.16-dual",
    "v4_16_events_only": "4.16-events-only",
    "v4_16_cloud_region": "4.16-dual",
}
Row = dict[str, Any]


class Knowledge:
    """What all recordings of one database say of its scores, configs, queues and datasets."""

    def __init__(self, shared: Path, version: str) -> None:
        self.scores: dict[str, Row] = {}
        self.configs: dict[str, Row] = {}
        self.queues: dict[str, Row] = {}
        self.datasets: dict[str, Row] = {}
        self.items: dict[str, Row] = {}
        for path in sorted((shared / "recordings" / "langfuse").glob(f"{version}*/**/*.json")):
            recording = json.loads(path.read_text())
            if isinstance(recording, dict) and isinstance(recording.get("response"), dict):
                self._learn(recording["request"], recording["response"].get("body"))

    def _learn(self, request: Any, body: Any) -> None:
        if not isinstance(body, dict) or not isinstance(request, dict):
            return
        path = request["path"].split("?")[0]
        rows = body.get("data") if isinstance(body.get("data"), list) else [body]
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict) or "id" not in row:
                continue
            if path.startswith(("/api/public/v3/scores", "/api/public/v2/scores", "/api/public/scores")):
                if request["method"] == "GET":
                    self.scores.setdefault(row["id"], {}).update(words_of(row))
            elif path.startswith("/api/public/score-configs"):
                self.configs.setdefault(row["id"], row)
            elif path == "/api/public/annotation-queues" or (path.count("/") == 4 and "annotation-queues" in path):
                self.queues.setdefault(row["id"], row)
            elif path.startswith("/api/public/v2/datasets"):
                self.datasets.setdefault(row["id"], row)
            elif path.startswith("/api/public/dataset-items"):
                self.items.setdefault(row["id"], row)


def words_of(row: Mapping[str, Any]) -> Row:
    """A recorded score, of any of the three reads, in the words of ``add_score``."""
    words = {key: value for key, value in row.items() if key not in ("projectId", "subject", "stringValue", "trace")}
    words.pop("_deprecation", None)
    if subject := row.get("subject"):
        words |= {
            "trace": {"traceId": subject["id"]},
            "observation": {"observationId": subject["id"], "traceId": subject.get("traceId")},
            "session": {"sessionId": subject["id"]},
            "experiment": {"datasetRunId": subject["id"]},
        }[subject["kind"]]
    if "stringValue" in row:  # v1, v2
        if row["dataType"] == "BOOLEAN":
            words["value"] = bool(row["value"])
        elif row["dataType"] != "NUMERIC":
            words["value"] = row["stringValue"]
            words["number"] = float(row.get("value", 0))
    return words


class Scene:
    """One recorded exchange and the server that must answer it."""

    def __init__(self, folder: str, recording: Row, knowledge: Knowledge, server: LangfuseStandin) -> None:
        self.folder = folder
        self.request, self.response = recording["request"], recording["response"]
        self.path = self.request["path"].split("?")[0]
        self.query: Row = self.request.get("query") or {}
        self.body = self.response.get("body")
        self.knowledge, self.server = knowledge, server
        shortened = recording.get("shortened")
        self.rows: list[Row] = self.body["data"] if isinstance(self.body, dict) and "data" in self.body else []
        self.count = int(shortened.split(" from ")[1].split()[0]) if shortened else len(self.rows)
        self._made = 0
        for name, value in self.query.items():
            if isinstance(value, str) and "...(shortened from" in value:
                whole = value.split("...(shortened")[0].split(",")[:-1]
                asked = [knowledge.scores[row["id"]][name] for row in self.rows]
                self.query[name] = ",".join([*whole, *asked])

    # scores

    def scores_v3(self) -> None:
        known = [self._known(row) for row in self.rows]
        cursor = self.body["meta"].get("cursor")
        after = []
        hidden = self.count - len(known)
        if cursor:
            position = cursor_json(cursor)
            if hidden:  # the last row of the page is known from the cursor alone
                last = {**self._copy(known), "id": position["lastId"], "timestamp": position["lastTimestamp"]}
                after = [*self._fill(known, hidden - 1), last]
            after += self._fill([*known, *after], 1)
        else:
            after = self._fill(known, hidden)
        self._put([*known, *after], self._decoys_v3([*known, *after]))

    def _known(self, row: Row) -> Row:
        words = {**self.knowledge.scores.get(row["id"], {}), **words_of(row)}
        for name, key in _SUBJECTS.items():
            asked = self._wanted(name) if "/v3/" in self.path else []
            if asked and words.get(key) is None:
                words[key] = asked[0]
        return words

    def _wanted(self, name: str) -> list[str]:
        """What a v3 request asks of one column, as a list; the recording may have shortened it."""
        return [one for one in str(self.query.get(name, "")).split(",") if one]

    def _copy(self, rows: list[Row]) -> Row:
        """A row that fits the request as the recorded ones do."""
        if rows:
            return deepcopy({**rows[-1]})
        words: Row = {"id": "made-up", "name": "made-up", "value": 1.0, "traceId": "t", "timestamp": iso(_LATE)}
        fitting = {"name": "name", "source": "source", "environment": "environment", "configId": "configId"}
        fitting |= {"queueId": "queueId", **_SUBJECTS}
        for name, key in fitting.items():
            if asked := self._wanted(name):
                words[key] = asked[0]
        if {"sessionId", "datasetRunId"} & set(words):
            del words["traceId"]
        return words

    def _fill(self, before: list[Row], count: int) -> list[Row]:
        """``count`` copies, each a millisecond older than the one before."""
        ids = self._wanted("id") or self._wanted("scoreIds")
        used = {row["id"] for row in before}
        free = [one for one in ids if one not in used]
        made = []
        for n in range(count):
            copy = self._copy([*before, *made])
            copy["timestamp"] = iso(to_ms(copy["timestamp"]) - 1)
            if not ids:
                copy["id"] = self._new_id("older")
            elif n < len(free):
                copy["id"] = free[n]
            else:  # nothing else can match: an older version under another name
                copy["name"] = f"{copy['name']} before"
            made.append(copy)
        return made

    def _new_id(self, what: str) -> str:
        self._made += 1
        return f"{what}-{self._made}"

    def _put(self, rows: list[Row], decoys: list[Row]) -> None:
        # the newest version of an id is written last
        self.server.add_scores([*rows[::-1], *decoys])

    def _decoys_v3(self, rows: list[Row]) -> list[Row]:
        return list(self._decoys(rows, v3=True))

    def _decoys(self, rows: list[Row], *, v3: bool) -> Iterator[Row]:
        base = deepcopy(rows[0]) if rows else self._copy([])
        if rows and "toTimestamp" not in self.query:
            base["timestamp"] = iso(to_ms(base["timestamp"]) + 1)
        for name in self.query:
            if not str(self.query[name]):
                continue
            for change in self._breaks(name):
                yield {**base, "id": self._new_id(f"decoy-{name}"), **change}
        for source in {"API", "EVAL", "ANNOTATION"} - {one.upper() for one in self._wanted("source")}:
            if "source" in self.query:
                yield {**base, "id": self._new_id("decoy-source"), "source": source}
        for data_type, value in _VALUES.items():
            if "dataType" in self.query and data_type != str(self.query["dataType"]).upper():
                yield {**base, "id": self._new_id("decoy-type"), "dataType": data_type, "value": value}
        if "value" in self.query and (v3 or "operator" in self.query):
            yield {**base, "id": self._new_id("decoy-value"), **_other_value(base)}
        if self.query.get("fromTimestamp"):
            moment = to_ms(str(self.query["fromTimestamp"])) - 1
            yield {**base, "id": self._new_id("decoy-from"), "timestamp": moment}
        if "toTimestamp" in self.query:
            yield {**base, "id": self._new_id("decoy-to"), "timestamp": to_ms(self.query["toTimestamp"])}
        if "cursor" in self.query:
            position = cursor_json(self.query["cursor"])
            at = {**base, "timestamp": position["lastTimestamp"]}
            yield {**at, "id": position["lastId"]}
            yield {**at, "id": position["lastId"] + "z"}

    def _breaks(self, name: str) -> list[Row]:
        if "/v3/" in self.path:
            return _BREAKS_V3.get(name, [])
        ignored = name in _SUBJECTS if self.path == "/api/public/scores" else name == "experimentId"
        return [] if ignored else _BREAKS_PAGED.get(name, [])

    def scores_paged(self, *, v1: bool) -> None:
        known = [self._known(row) for row in self.rows]
        meta = self.body["meta"]
        joined = v1 or "trace" in str(self.query.get("fields", "trace"))
        before = (meta["page"] - 1) * meta["limit"]
        newer = []
        if known:
            for n in range(before):
                copy = deepcopy(known[0])
                copy |= {"id": self._new_id("newer"), "timestamp": iso(to_ms(copy["timestamp"]) + before - n)}
                newer.append(copy)
        rows = [*newer, *known]
        rows += self._fill(rows, meta["totalItems"] - len(rows))
        decoys = list(self._decoys(rows, v3=False))
        top = iso(max((to_ms(row["timestamp"]) for row in rows), default=_LATE))
        plain = {"id": "", "name": "n", "value": 1, "timestamp": top}
        if rows:
            plain = {**plain, **{k: v for k, v in rows[0].items() if k not in ("traceId", "observationId")}}
        if joined:
            decoys.append({**plain, "id": self._new_id("no-trace"), "traceId": "not-in-the-traces-table"})
        if v1:
            alone = {key: value for key, value in plain.items() if key not in _SUBJECTS.values()}
            decoys.append({**alone, "id": self._new_id("session"), "sessionId": "s"})
            decoys.append({**alone, "id": self._new_id("run"), "datasetRunId": "r"})
            correction = {"dataType": "CORRECTION", "value": "c", "traceId": "t"}
            decoys.append({**alone, **correction, "id": self._new_id("correction")})
        self._traces(rows, decoys)
        self._put(rows, decoys)

    def _traces(self, rows: list[Row], decoys: list[Row]) -> None:
        parts = {row["traceId"]: row["trace"] for row in self.rows if row.get("trace") and row["traceId"]}
        for row in [*rows, *decoys]:
            trace = row.get("traceId")
            if trace and trace != "not-in-the-traces-table" and trace not in self.server.project.state.traces:
                part = parts.get(trace, {})
                if trace.startswith("other-"):
                    part = {**next(iter(parts.values()), {}), **_OTHER_TRACES[trace]}
                self.server.add_trace(trace, **{key: value for key, value in part.items() if value is not None})

    def score(self) -> None:
        """A single score, with versions of another name and of other scores about it."""
        if self.response["status"] != 200:
            return
        words = words_of(self.body)
        older = {**words, "name": "before", "timestamp": to_ms(words["timestamp"]) - 1, "value": words["value"]}
        self.server.add_scores([older, words, {**words, "id": words["id"] + "-other", "name": "other"}])

    # the rest

    def configs(self) -> None:
        self.server.project.state.configs += deepcopy(sorted(self._configs(), key=lambda one: one["createdAt"]))

    def _configs(self) -> list[Row]:
        return list(self.knowledge.configs.values())

    def queues(self) -> None:
        self.server.project.state.queues += deepcopy(list(self.knowledge.queues.values()))

    def paged(self, stored: list[Row], rows: list[Row], **decoy: Any) -> None:
        """Rows of a list that shows the last first, the unseen ones of other pages, and a decoy."""
        meta = self.body["meta"]
        newer = (meta["page"] - 1) * meta["limit"]
        older = meta["totalItems"] - newer - len(rows)
        model = rows[0] if rows else {}
        stored += [{**deepcopy(model), "id": self._new_id("older")} for _ in range(older)]
        stored += deepcopy(rows[::-1])
        stored += [{**deepcopy(model), "id": self._new_id("newer")} for _ in range(newer)]
        if decoy:
            stored.append({**deepcopy(model), "id": self._new_id("decoy"), **decoy})


_LATE = to_ms("2026-11-30T23:00:00Z")
_SUBJECTS = {
    "traceId": "traceId",
    "sessionId": "sessionId",
    "observationId": "observationId",
    "experimentId": "datasetRunId",
}
_VALUES = {"NUMERIC": 1, "BOOLEAN": True, "CATEGORICAL": "decoy", "TEXT": "decoy", "CORRECTION": "decoy"}
_OTHER_TRACES: dict[str, Row] = {
    "other-userId": {"userId": "somebody else"},
    "other-traceTags": {"tags": ["another tag"]},
}
_BREAKS_V3: dict[str, list[Row]] = {
    "id": [{}],
    "name": [{"name": "decoy"}, {"name": ""}],
    "environment": [{"environment": "decoy"}],
    "configId": [{"configId": "decoy"}, {"configId": None}],
    "queueId": [{"queueId": "decoy"}, {"queueId": None}],
    "traceId": [{"traceId": "decoy"}, {"traceId": None, "sessionId": "s"}],
    "sessionId": [{"sessionId": "decoy"}],
    "observationId": [{"observationId": "decoy"}, {"observationId": None}],
    "experimentId": [{"datasetRunId": "decoy"}],
}
_BREAKS_PAGED: dict[str, list[Row]] = {
    **_BREAKS_V3,
    "id": [],
    "scoreIds": [{}],
    "datasetRunId": [{"datasetRunId": "decoy"}],
    "userId": [{"traceId": "other-userId"}],
    "traceTags": [{"traceId": "other-traceTags"}],
    "filter": [{"name": "decoy"}],
}


def _other_value(base: Row) -> Row:
    value = base["value"]
    return {"value": (not value) if isinstance(value, bool) else "decoy" if isinstance(value, str) else -1000}
