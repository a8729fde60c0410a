"""Results back to Langfuse: scores on items and runs, and a report trace that carries every number.

A score that is posted again under its id is the same score only as long as its name and the day of its time stay: both are
fixed when it is first written, and the whole of it is sent each time. Langfuse answers before it stores and drops what it
does not like without a word, so only reading back proves a write. All of ours lie in the environment ``calibrate`` and
carry a mark, by which every pull leaves them out and an unpush finds them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import polars as pl

from calibrate_langfuse.client import Langfuse, NotOffered, Refused, encoded, log
from calibrate_langfuse.listing import Reads, iso, ms_of
from calibrate_langfuse.numbers import Number, numbers
from calibrate_langfuse.records import ENVIRONMENT, MARKER, PREFIX, Row, clean
from calibrate_langfuse.server import Abilities
from calibrate_plugin.connector import Pushed, Results, Scope, SettingsError, SourceSettings, Unavailable, Write
from calibrate_plugin.model import Report

#: A batch stays below this many scores and bytes; a body above 1 MB is refused.
BATCH = 200
BATCH_BYTES = 900_000
#: Seconds until what was accepted must show, and as many more per score: a large batch delays what comes after it.
DEADLINE = 60.0
DEADLINE_EACH = 0.05
#: A report trace at most this often, in milliseconds.
REPORT_EVERY = 3_600_000
#: Langfuse removes single scores one by one, each about this many seconds after the last.
DELETE_EVERY = 120

_DAY = 86_400_000
_GONE = "gone"
_DIGEST = re.compile(r"(?P<sha>[0-9a-f]{16})@(?P<first>\d+)\+(?P<times>\d+)(?P<pending>\?)?")
_SUBJECTS = {"trace": "traceId", "observation": "observationId", "session": "sessionId", "experiment": "datasetRunId"}


@dataclass(frozen=True, slots=True)
class Mark:
    """How a target stands at Langfuse: what was written, at which time it lies, how often, and whether it ever showed."""

    sha: str
    first: int  # milliseconds
    times: int = 1
    pending: bool = False

    def __str__(self) -> str:
        return f"{self.sha}@{self.first}+{self.times}{'?' if self.pending else ''}"

    @classmethod
    def read(cls, text: str | None) -> Mark | None:
        found = _DIGEST.fullmatch(text or "")
        if found is None:
            return None
        return cls(found["sha"], int(found["first"]), int(found["times"]), found["pending"] is not None)


@dataclass(frozen=True, slots=True)
class Score:
    """A score of ours. ``on`` is its subject in the API's words (traceId, ...), ``kind`` and ``subject`` in ours."""

    name: str
    value: float | str
    data_type: str
    on: Mapping[str, str]
    kind: str  # one of LEVELS, run or report
    subject: str
    study: str
    comment: str | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)
    report: str | None = None  # the trace of the report that it belongs to

    @property
    def id(self) -> str:
        return "calibrate-" + _sha([self.study, sorted(self.on.items()), self.name], 32)

    @property
    def sha(self) -> str:
        return _sha([self.name, self.value, self.data_type, sorted(self.on.items()), self.comment, self.beside], 16)

    @property
    def target(self) -> str:
        return f"score {self.id} {self.kind} {self.subject} {self.name}"

    @property
    def shown(self) -> str:
        return f"= {self.value if isinstance(self.value, str) else f'{self.value:.6g}'}"

    def body(self, times: int) -> dict[str, Any]:
        mark = {"schema": 1, "study": self.study, "digest": self.sha, "times": times, "report": self.report}
        return {
            "id": self.id,
            "name": self.name,
            "value": self.value,
            "dataType": self.data_type,
            "environment": ENVIRONMENT,
            "comment": self.comment,
            "metadata": {**self.beside, MARKER: mark},
            **self.on,
        }


_Body = tuple[Score, Mark, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PushOptions:
    """What ``[push.NAME]`` asks for."""

    items: bool = True
    runs: bool = True
    report: bool = True

    @classmethod
    def of(cls, settings: SourceSettings) -> PushOptions:
        given = settings.push or {}
        for key, value in given.items():
            if key not in ("items", "runs", "report"):
                raise SettingsError(f"push.{settings.name}.{key} is not a setting; there are items, runs and report")
            if not isinstance(value, bool):
                raise SettingsError(f"push.{settings.name}.{key} is {value!r}; give true or false")
        return cls(**given)


@dataclass(slots=True)
class Push:
    """Writes to one server."""

    server: Langfuse
    abilities: Abilities
    level: str
    options: PushOptions
    now: Callable[[], int]

    def push(self, results: Results, *, dry_run: bool) -> Pushed:
        """Write what differs from what ``results.written`` says is there."""
        study = clean(results.report.study)
        writes: list[Write] = []
        wanted = {score.target: score for score in self._wanted(results, study)}
        marks = {target: Mark.read(text) for target, text in results.written.items() if target.startswith("score ")}
        todo: list[tuple[Score, Mark | None]] = []
        for target, score in wanted.items():
            mark = marks.get(target)
            if mark is not None and mark.sha == score.sha and not mark.pending:
                writes.append(Write(target, str(mark), "unchanged", score.shown))
            else:
                todo.append((score, mark))
        kinds = tuple(k for k, on in (("run", self.options.runs), (self.level, self.options.items)) if on)
        stale = [t for t, mark in marks.items() if mark is not None and t not in wanted and _kind(t) in kinds]
        if dry_run:
            writes += [Write(s.target, s.sha, "planned", s.shown) for s, _ in todo]
            writes += [Write(target, _GONE, "planned", "to be deleted") for target in stale]
        else:
            writes += self._write([self._mark(score, mark) for score, mark in self._there(todo)])
            writes += self._remove(stale)
        if self.options.report:
            writes += self._report(results, study, dry_run=dry_run)
        return Pushed(tuple(writes))

    # what there is to write

    def _wanted(self, results: Results, study: str) -> Iterator[Score]:
        known: pl.DataFrame | None = None
        if (self.options.items and len(results.items)) or (self.options.runs and results.runs):
            known = results.known(Scope())
        if self.options.items and len(results.items):
            yield from self._items(results.items, known, study)
        if self.options.runs and results.runs:
            ours = set(known["run"].drop_nulls().unique().to_list()) if known is not None else set()
            for run, report in results.runs.items():
                if not ours or run in ours:
                    yield from self._run(run, report, study)

    def _items(self, items: pl.DataFrame, known: pl.DataFrame | None, study: str) -> Iterator[Score]:
        if known is not None and len(known):
            items = items.filter(pl.col("item").is_in(known["item"].drop_nulls().unique().to_list()))
        traces: dict[str, str] = {}
        if self.level == "observation" and known is not None:
            traces = dict(known.select("item", "task").drop_nulls().unique("item", keep="last").iter_rows())
            if nowhere := items["item"].n_unique() - len(set(items["item"]) & set(traces)):
                log.info("%d observations get no scores, because their trace is not known", nowhere)
        for row in items.sort("item", "dimension").iter_rows(named=True):
            item = str(row["item"])
            on = {_SUBJECTS[self.level]: item}
            if self.level == "observation":
                if item not in traces:
                    continue
                on["traceId"] = traces[item]
            at = (self.level, clean(item), study)
            beside = {"n_pairs": row["n_pairs"], "dimension": clean(str(row["dimension"]))}
            name = f"{PREFIX}{clean(str(row['dimension']))}"
            yield Score(f"{name}.agreement", float(row["agreement"]), "NUMERIC", on, *at, None, beside)
            yield Score(f"{name}.disagree", float(bool(row["disagree"])), "BOOLEAN", on, *at, None, beside)

    def _run(self, run: str, report: Report, study: str) -> Iterator[Score]:
        for number in numbers(report):
            yield _score(number, {"datasetRunId": run}, "run", clean(run), study)

    # writing

    def _there(self, todo: list[tuple[Score, Mark | None]]) -> list[tuple[Score, Mark | None]]:
        """``todo`` with what the server itself knows of scores that nothing is written down about: a store can be lost, a
        push broken off."""
        unknown = [score for score, mark in todo if mark is None or mark.pending]
        sample = unknown[:: max(1, len(unknown) // 100)][:100]
        if not sample or not self._look(sample):
            return todo
        found = self._look(unknown)
        return [(score, found.get(score.id, mark)) for score, mark in todo]

    def _mark(self, score: Score, mark: Mark | None) -> tuple[Score, Mark, bool]:
        """The score, where it will stand, and whether it has to be sent."""
        if mark is None:
            return score, Mark(score.sha, first_time(self.now())), True
        if mark.sha == score.sha and not mark.pending:
            return score, mark, False
        return score, Mark(score.sha, mark.first, mark.times + 1), True

    def _write(self, marked: Sequence[tuple[Score, Mark, bool]]) -> list[Write]:
        send = [(score, mark) for score, mark, new in marked if new]
        writes = [Write(score.target, str(mark), "written", score.shown) for score, mark, new in marked if not new]
        refused, rejected = self._send(send)
        waiting = {score.id: (score, mark) for score, mark in send if score.id not in refused}
        shown = self._await(waiting)
        for score, mark in send:
            if score.id in refused:
                writes.append(Write(score.target, str(mark), "refused", f"{score.shown}: {refused[score.id]}"))
            elif score.id in shown:
                writes.append(Write(score.target, str(mark), "written", score.shown))
            else:
                why = f" ({'; '.join(rejected)})" if rejected else ""
                outcome = "refused" if rejected and len(waiting) - len(shown) <= len(rejected) else "pending"
                detail = f"{score.shown}: accepted, and not stored or not yet visible{why}"
                writes.append(Write(score.target, str(replace(mark, pending=True)), outcome, detail))
        return writes

    def _send(self, scores: Sequence[tuple[Score, Mark]]) -> tuple[dict[str, str], list[str]]:
        """Post scores. Gives the ids that were refused, and why, and what was rejected without saying which."""
        refused: dict[str, str] = {}
        rejected: list[str] = []
        sent: set[str] = set()
        post = self._post_list if self.abilities.list_post else self._post_events
        for batch in batches([(score, mark, score.body(mark.times)) for score, mark in scores]):
            ids = {score.id for score, _, _ in batch}
            try:
                post(batch, refused, rejected)
            except Refused as error:
                refused |= dict.fromkeys(ids, str(error))
            except Unavailable as error:
                # What was sent is still worth reading back; the next push goes on with the rest.
                return refused | {score.id: str(error) for score, _ in scores if score.id not in sent}, rejected
            sent |= ids
        return refused, rejected

    def _post_list(self, batch: Sequence[_Body], refused: dict[str, str], rejected: list[str]) -> None:
        body = [{**body, "timestamp": iso(mark.first)} for _, mark, body in batch]
        reply = self.server.request("POST", "/scores", body=body)
        if isinstance(reply, dict) and reply.get("rejected"):
            errors = reply.get("errors") or ()
            messages = [str(e.get("message", e))[:300] for e in errors if isinstance(e, dict)]
            rejected += messages or ["rejected without a word"] * int(reply["rejected"])

    def _post_events(self, batch: Sequence[_Body], refused: dict[str, str], rejected: list[str]) -> None:
        events: dict[str, dict[str, Any]] = {
            f"{score.id}-{mark.first}-{mark.times}": {
                "type": "score-create",
                # The newest event's value counts, and the first one's time stays; on the same day it is one row even
                # where the events of old scores are no longer kept.
                "timestamp": iso(mark.first + mark.times - 1),
                "body": body,
            }
            for score, mark, body in batch
        }
        reply = self.server.request("POST", "/ingestion", body={"batch": [{"id": k, **e} for k, e in events.items()]})
        errors = reply.get("errors") if isinstance(reply, dict) else None
        for error in errors or ():
            event = events.get(str(error.get("id"))) if isinstance(error, dict) else None
            if event is not None:
                refused[event["body"]["id"]] = str(error.get("error") or error.get("message"))[:300]

    def _await(self, waiting: Mapping[str, tuple[Score, Mark]]) -> set[str]:
        """The ids of those that show what was sent, until all do or the time is up."""
        shown: set[str] = set()
        left = dict(waiting)
        end = self.now() + int((DEADLINE + DEADLINE_EACH * len(waiting)) * 1000)
        pause = 2.0
        while left:
            try:
                found = self._look([score for score, _ in left.values()])
            except Unavailable as error:
                log.info("what was written could not be read back: %s", error)
                return shown
            done = {id_ for id_, mark in found.items() if mark.sha == left[id_][1].sha}
            shown |= done
            left = {id_: one for id_, one in left.items() if id_ not in done}
            if not left or self.now() >= end:
                return shown
            self.server.clock.sleep(pause)
            pause = min(15.0, pause * 1.5)
        return shown

    def _look(self, scores: Iterable[Score]) -> dict[str, Mark]:
        """How scores of ours stand at the server now."""
        found: dict[str, Mark] = {}
        for row in self._reads().by_id([score.id for score in scores]):
            mark = _mark_of(row)
            at = ms_of(row)
            if mark is not None and at is not None:
                found.setdefault(str(row.get("id")), Mark(str(mark.get("digest")), at, int(mark.get("times") or 1)))
        return found

    def _reads(self) -> Reads:
        return Reads(self.server, self.abilities.mode, workers=1)

    # the report trace

    def _report(self, results: Results, study: str, *, dry_run: bool) -> list[Write]:
        plain = list(numbers(results.report))
        sha = _sha([[n.name, n.value, n.beside] for n in plain], 16)
        last: tuple[str, Mark] | None = None
        for target, text in results.written.items():
            mark = Mark.read(text) if target.startswith("trace ") else None
            if mark is not None and (last is None or mark.first > last[1].first):
                last = (target, mark)
        now = self.now()
        if last is not None and last[1].sha == sha and not last[1].pending:
            return [Write(last[0], str(last[1]), "unchanged", "the report trace has these numbers")]
        again = last is not None and last[1].pending and last[1].sha == sha
        if last is not None and not again and now - last[1].first < REPORT_EVERY:
            due = datetime.fromtimestamp((last[1].first + REPORT_EVERY) / 1000, UTC)
            detail = f"the numbers changed; the next report trace is due at {due:%H:%M} UTC"
            return [Write(last[0], str(last[1]), "unchanged", detail)]
        if again and last is not None:
            trace, mark = last[0].split(" ")[1], replace(last[1], times=last[1].times + 1, pending=False)
        else:
            mark = Mark(sha, first_time(now))
            trace = _sha([study, sha, mark.first // REPORT_EVERY], 32)
        target = f"trace {trace} report of {study}"
        scores = [replace(_score(number, {"traceId": trace}, "report", trace, study), report=trace) for number in plain]
        if dry_run:
            writes = [Write(target, sha, "planned", f"a trace with {len(scores)} scores in environment {ENVIRONMENT}")]
            return writes + [Write(s.target, s.sha, "planned", s.shown) for s in scores]
        try:
            self._trace(trace, study, results.report, mark.first)
        except (Refused, Unavailable) as error:
            return [Write(target, str(mark), "refused", str(error))]
        written = self._write([(score, Mark(score.sha, mark.first, mark.times), True) for score in scores])
        outcomes = [w for w in written if w.outcome != "written"]
        if any(w.outcome == "refused" for w in outcomes):
            first = next(w for w in outcomes if w.outcome == "refused")
            detail = f"{len(outcomes)} of {len(scores)} scores are not there: {first.detail}"
            return [Write(target, str(replace(mark, pending=True)), "refused", detail)]
        if outcomes or not self._trace_shows(trace):
            detail = f"{len(outcomes)} of {len(scores)} scores are not yet visible"
            return [Write(target, str(replace(mark, pending=True)), "pending", detail)]
        return [Write(target, str(mark), "written", f"{len(scores)} scores")]

    def _trace(self, trace: str, study: str, report: Report, at: int) -> None:
        name = f"calibrate report: {study}"
        metadata = {MARKER: {"schema": 1, "study": study, "report": trace}}
        counts = f"{report.coverage.counted} labels on {report.coverage.items} items"
        if not (self.abilities.number >= (4,)):
            body = {
                "id": trace,
                "timestamp": iso(at),
                "name": name,
                "environment": ENVIRONMENT,
                "tags": [ENVIRONMENT],
                "metadata": metadata,
                "output": counts,
            }
            event = {"id": f"{trace}-trace", "type": "trace-create", "timestamp": iso(at), "body": body}
            reply = self.server.request("POST", "/ingestion", body={"batch": [event]})
            if not (isinstance(reply, dict) and reply.get("errors")):
                return
        attributes = {
            "langfuse.trace.name": name,
            "langfuse.environment": ENVIRONMENT,
            "langfuse.trace.output": counts,
            f"langfuse.trace.metadata.{MARKER}": json.dumps(metadata[MARKER], ensure_ascii=False),
        }
        span = {
            "traceId": trace,
            "spanId": _sha([trace, "span"], 16),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(at * 1_000_000),
            "endTimeUnixNano": str(at * 1_000_000),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]
            + [{"key": "langfuse.trace.tags", "value": {"arrayValue": {"values": [{"stringValue": ENVIRONMENT}]}}}],
        }
        service = [{"key": "service.name", "value": {"stringValue": "calibrate-plugin"}}]
        spans = [{"scope": {"name": "calibrate-plugin"}, "spans": [span]}]
        self.server.request(
            "POST",
            "/otel/v1/traces",
            body={"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": spans}]},
            headers={"x-langfuse-ingestion-version": "4"},
        )

    def _trace_shows(self, trace: str) -> bool:
        end = self.now() + int(DEADLINE * 1000)
        while not self._trace_there(trace):
            if self.now() >= end:
                return False
            self.server.clock.sleep(3.0)
        return True

    def _trace_there(self, trace: str) -> bool:
        try:
            body = self.server.get("/v2/observations", {"traceId": trace, "limit": 1, "fields": "core"})
            return bool(body.get("data")) if isinstance(body, dict) else False
        except NotOffered:
            pass
        try:
            return isinstance(self.server.get(f"/traces/{quote(trace, safe='')}"), dict)
        except NotOffered:
            return False

    # taking back

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        """Delete everything that ``written`` names or that carries our mark.

        Report traces go in bulk, with their scores. A single score is a job of its own at Langfuse, which takes one about
        every two minutes: what is not gone when the time is up is pending, and goes on by itself.
        """
        scores = {t.split(" ")[1]: t for t, d in written.items() if t.startswith("score ") and d != _GONE}
        traces = {t.split(" ")[1]: t for t, d in written.items() if t.startswith("trace ") and d != _GONE}
        for row in self._marked():
            id_, mark = str(row.get("id")), _mark_of(row) or {}
            trace = _trace_of(row)
            if trace is not None and mark.get("report") == trace:
                traces.setdefault(trace, f"trace {trace} report of {mark.get('study')}")
            else:
                scores.setdefault(id_, f"score {id_} {row.get('name')}")
        writes = self._remove_traces(traces)
        return Pushed((*writes, *self._remove(list(scores.values()))))

    def _marked(self) -> Iterator[Row]:
        reads = Reads(self.server, self.abilities.mode, None, frozenset([ENVIRONMENT]), workers=1, by_environment=True)
        for page in reads.stream(None, None, floor=0):
            yield from (row for row in page if _mark_of(row) is not None)

    def _remove_traces(self, traces: Mapping[str, str]) -> list[Write]:
        if not traces:
            return []
        ids = list(traces)
        try:
            for i in range(0, len(ids), 100):
                self.server.request("DELETE", "/traces", body={"traceIds": ids[i : i + 100]})
        except (Refused, Unavailable) as error:
            return [Write(target, _GONE, "refused", str(error)) for target in traces.values()]
        left = set(ids)
        end = self.now() + int(DEADLINE * 1000)
        reads = self._reads()
        while True:
            left = {t for t in left if self._still_scored(reads, t) or self._trace_there(t)}
            if not left or self.now() >= end:
                break
            self.server.clock.sleep(5.0)
        detail = "asked to be deleted; Langfuse has not done it yet"
        return [
            Write(target, _GONE, "pending", detail) if trace in left else Write(target, _GONE, "written", "deleted")
            for trace, target in traces.items()
        ]

    def _still_scored(self, reads: Reads, trace: str) -> bool:
        if reads.mode == "v1":
            return False
        return bool(reads.of_object("trace", trace))

    def _remove(self, targets: Sequence[str]) -> list[Write]:
        """Delete single scores."""
        if not targets:
            return []
        if len(targets) > 1:
            minutes = len(targets) * DELETE_EVERY / 60
            log.info(
                "%d scores to delete; Langfuse takes one every two minutes, so about %.0f min", len(targets), minutes
            )
        asked: dict[str, str] = {}
        writes: list[Write] = []
        for n, target in enumerate(targets):
            id_ = target.split(" ")[1]
            try:
                self.server.request("DELETE", f"/scores/{quote(id_, safe='')}")
            except NotOffered:
                writes.append(Write(target, _GONE, "written", "was not there"))
            except (Refused, Unavailable) as error:
                writes += [Write(t, _GONE, "refused", f"not deleted: {error}") for t in targets[n:]]
                break
            else:
                asked[id_] = target
        left = set(asked)
        end = self.now() + int(DEADLINE * 1000)
        pause = 2.0
        while left:
            left &= {str(row.get("id")) for row in self._reads().by_id(sorted(left))}
            if not left or self.now() >= end:
                break
            self.server.clock.sleep(pause)
            pause = min(15.0, pause * 1.5)
        wait = f"about {max(1, round(len(left) * DELETE_EVERY / 60))} min"
        for id_, target in asked.items():
            if id_ in left:
                detail = f"queued: Langfuse deletes one score every two minutes, {wait} for all of these"
                writes.append(Write(target, _GONE, "pending", detail))
            else:
                writes.append(Write(target, _GONE, "written", "deleted"))
        return writes


def first_time(now: int) -> int:
    """The time at which a score will lie for ever: now, but some minutes before midnight UTC, as later writes count on from
    it and a score that crosses a day becomes two."""
    return min(now, now - now % _DAY + _DAY - 600_000)


def batches(bodies: Sequence[_Body]) -> Iterator[list[_Body]]:
    """Scores in batches that a server takes."""
    batch: list[_Body] = []
    size = 0
    for one in bodies:
        length = len(encoded(one[2])) + 200  # and what goes around it
        if batch and (len(batch) >= BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


def _score(number: Number, on: Mapping[str, str], kind: str, subject: str, study: str) -> Score:
    data_type = "CATEGORICAL" if isinstance(number.value, str) else "NUMERIC"
    beside = _cleaned(number.beside)
    return Score(clean(number.name), number.value, data_type, on, kind, subject, study, number.comment, beside)


def _cleaned(value: Any) -> Any:
    """No lone surrogate may leave: one of them loses everybody's scores of that second."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(k)): _cleaned(v) for k, v in value.items()}
    return [_cleaned(v) for v in value] if isinstance(value, list | tuple) else value


def _sha(what: Any, digits: int) -> str:
    text = json.dumps(what, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:digits]


def _kind(target: str) -> str:
    """What kind of object a score of ours is on, by its target."""
    return target.split(" ", 3)[2]


def _mark_of(row: Row) -> Mapping[str, Any] | None:
    metadata = row.get("metadata")
    mark = metadata.get(MARKER) if isinstance(metadata, dict) else None
    return mark if isinstance(mark, dict) else None


def _trace_of(row: Row) -> str | None:
    subject = row.get("subject")
    if isinstance(subject, dict):
        return str(subject.get("id")) if subject.get("kind") == "trace" else None
    trace = row.get("traceId")
    return str(trace) if trace and not row.get("observationId") else None
