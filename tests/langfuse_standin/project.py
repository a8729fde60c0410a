"""A project's state, and what its worker does to scores after the server has answered.

What a POST left behind passes the queue (``visible_after`` less ``write_interval`` seconds, 15 s around midnight UTC), is
merged with everything that the event store and the table hold for its id, and is written with the whole batch of that
write interval, or lost with it.
"""

from __future__ import annotations

import json
import pickle
import random
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from typing import Any

from .clock import DAY_MS, Clock, iso, to_ms
from .dialects import Dialect
from .table import Row, Table

ENVIRONMENT = re.compile(r"[a-z0-9_-]{1,40}")
SMALLEST_NORMAL = 2.2250738585072014e-308


@dataclass(slots=True)
class Event:
    """A score event in the event store. ``key`` and ``index`` are its place there: the file's name, the place in it."""

    id: str
    timestamp: int
    body: dict[str, Any]
    key: str
    index: int
    received: int
    number: int


@dataclass
class State:
    """Everything that a backup holds."""

    table: Table = field(default_factory=Table)
    events: dict[str, list[Event]] = field(default_factory=dict)
    waiting: list[tuple[int, int, str]] = field(default_factory=list)  # a heap of (due, event number, score id)
    score_deletes: list[tuple[int, str]] = field(default_factory=list)  # (asked for, score id)
    trace_deletes: list[tuple[int, str]] = field(default_factory=list)
    last_score_delete: int | None = None
    last_trace_delete: int | None = None
    configs: list[dict[str, Any]] = field(default_factory=list)
    queues: list[dict[str, Any]] = field(default_factory=list)
    queue_items: list[dict[str, Any]] = field(default_factory=list)
    datasets: list[dict[str, Any]] = field(default_factory=list)
    dataset_items: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    run_items: list[dict[str, Any]] = field(default_factory=list)
    traces: dict[str, dict[str, Any]] = field(default_factory=dict)
    legacy_traces: set[str] = field(default_factory=set)  # those that the v1 and v2 lists can join
    observations: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    experiment_items: list[dict[str, Any]] = field(default_factory=list)
    evaluators: list[dict[str, Any]] = field(default_factory=list)
    arriving: list[tuple[int, int, str, dict[str, Any]]] = field(default_factory=list)  # a heap, like waiting
    lost: list[str] = field(default_factory=list)  # ids answered with 200 and never stored, as the worker log has it


_RANDOM = random.Random(4_16)


def new_id() -> str:
    return str(uuid.UUID(int=_RANDOM.getrandbits(128), version=4))


def number_of(value: Any) -> float | None:
    """A number as ClickHouse gives it back."""
    if value is None:
        return None
    number = float(value)
    return 0.0 if abs(number) < SMALLEST_NORMAL else number


def metadata_of(value: Any) -> dict[str, Any]:
    """Metadata is kept as a map of text and read back as JSON: ``"1.10"`` comes back as 1.1, a list or text wrapped."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        value = {"metadata": value}
    return {key: parsed(one) for key, one in value.items()}


_JSON_BEGINS = frozenset('"{[-0123456789tfn \t\r\n')


def parsed(value: Any) -> Any:
    """A text that reads as JSON comes back as JSON."""
    if not isinstance(value, str) or value[:1] not in _JSON_BEGINS:
        return value
    try:
        return json.loads(value, parse_constant=no_constant)
    except ValueError:
        return value


def no_constant(name: str) -> Any:
    """NaN and Infinity are no JSON, whatever Python thinks."""
    raise ValueError(name)


def environment_of(value: Any) -> str:
    if not isinstance(value, str):
        return "default"
    value = value.lower().removeprefix("langfuse")[:40]
    return value if ENVIRONMENT.fullmatch(value) else "default"


def lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(lone_surrogate(key) or lone_surrogate(one) for key, one in value.items())
    if isinstance(value, list):
        return any(map(lone_surrogate, value))
    return False


_SCORE_FIELDS = tuple(f.name for f in fields(Row))
# what an event's body is called in a stored row; what never changes once it is there stands in _FIXED
_FROM_BODY = {
    "name": "name",
    "traceId": "trace_id",
    "observationId": "observation_id",
    "sessionId": "session_id",
    "datasetRunId": "run_id",
    "comment": "comment",
    "configId": "config_id",
    "queueId": "queue_id",
    "source": "source",
    "executionTraceId": "execution_trace_id",
}
_FIXED = frozenset({"id", "timestamp", "trace_id", "created", "environment"})
# what a test may say of a score that it puts into the table itself
_DIRECT = {
    **_FROM_BODY,
    "id": "id",
    "environment": "environment",
    "authorUserId": "author",
    "convertible": "convertible",
    "logged": "logged",
    "number": "number",
}


# how what comes in later than its request is taken up: kind -> function of (project, what came, now)
ARRIVALS: dict[str, Callable[[Project, dict[str, Any], int], None]] = {}


class Project:
    def __init__(
        self,
        clock: Clock,
        dialect: Dialect,
        *,
        id: str,
        public_key: str,
        secret_key: str,
        visible_after: float,
        write_interval: float,
        delete_interval: float,
        late_spans_after: float = 180.0,
    ) -> None:
        self.clock, self.dialect = clock, dialect
        self.id, self.name = id, id.replace("-", " ").title()
        self.public_key, self.secret_key = public_key, secret_key
        self.visible_after, self.write_interval, self.delete_interval = visible_after, write_interval, delete_interval
        self.late_spans_after = late_spans_after
        self.state = State()
        self.listed: tuple[Any, list[Row], int] | None = None
        self._events = 0
        self._writes = 0

    # what is asked of it from outside

    def snapshot(self) -> bytes:
        self.settle()
        return pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        generation = self.state.table.generation
        self.state = pickle.loads(snapshot)
        self.state.table.generation = generation + 1

    def config(self, config_id: str | None) -> dict[str, Any] | None:
        return next((config for config in self.state.configs if config["id"] == config_id), None)

    def receive(self, body: dict[str, Any], timestamp: int | None = None, *, file: str | None, index: int = 0) -> None:
        """A score event was accepted; whether it is ever stored is another matter."""
        now = self.clock.ms()
        self._events += 1
        # Receipts at one moment never tie on a real server, whose clock does not stand still: the newer one comes first.
        key = file if file is not None else f"~{10**12 - self._events}"
        event = Event(
            body["id"], now if timestamp is None else timestamp, body, key, index, now // 1000 * 1000, self._events
        )
        self.state.events.setdefault(event.id, self._from_table(event.id)).append(event)
        heappush(self.state.waiting, (now + self._queue_delay(now), event.number, event.id))
        if not self.visible_after:
            self.settle()

    def _queue_delay(self, now: int) -> int:
        delay = max(0.0, self.visible_after - self.write_interval)
        minute = now % DAY_MS // 60_000
        near_midnight = minute >= 23 * 60 + 45 or minute < 15
        return int((15 if near_midnight and delay else delay) * 1000)

    def delete_score(self, score: str) -> None:
        self.state.score_deletes.append((self.clock.ms(), score))
        self.settle()

    def delete_traces(self, traces: list[str]) -> None:
        self.state.trace_deletes.extend((self.clock.ms(), trace) for trace in traces)
        self.settle()

    def take_spans(self, spans: list[dict[str, Any]], *, quick: bool) -> None:
        """Spans show after a second where the client says it speaks v4, or late; in the old tables after the queue."""
        in_v4 = 1.0 if quick else self.late_spans_after
        delay = self.visible_after if self.dialect.write_mode == "legacy" else in_v4
        for span in spans:
            self._arrive("span", span, delay)

    def take_event(self, event: dict[str, Any]) -> None:
        body = {**event["body"], "id": event["body"].get("id") or new_id()}
        self._arrive("event", {**event, "body": body}, self.visible_after)

    def _arrive(self, kind: str, what: dict[str, Any], delay: float) -> None:
        now = self.clock.ms()
        self._events += 1
        due = now + int(delay * 1000) if self.visible_after else now
        heappush(self.state.arriving, (due, self._events, kind, what))
        self.settle()

    def expire_event_store(self) -> None:
        """A retention rule emptied the bucket: an update no longer finds what it should be merged with."""
        self.settle()
        self.state.events.clear()
        for row in self.state.table:
            row.logged = False

    def row(self, score: Mapping[str, Any], now: int) -> Row:
        """A stored version, from the API's words for it."""
        given = dict(score)
        value, data_type, config = given.pop("value"), given.pop("dataType", None), self.config(given.get("configId"))
        if data_type is None and config is not None:
            data_type = config["dataType"]
        elif data_type is None:
            data_type = (
                "CATEGORICAL" if isinstance(value, str) else "BOOLEAN" if value is True or value is False else ""
            )
        data_type = data_type or "NUMERIC"
        timestamp, created, updated = (given.pop(name, None) for name in ("timestamp", "createdAt", "updatedAt"))
        metadata = metadata_of(given.pop("metadata", None))
        if unknown := set(given) - set(_DIRECT):
            raise TypeError(f"a score has no {unknown}; it may have {sorted(_DIRECT)}")
        columns = {_DIRECT[key]: one for key, one in given.items()}
        number: float | None = None
        text: str | None = None
        if data_type in ("NUMERIC", "BOOLEAN"):
            number = number_of(value)
            text = ("True" if value else "False") if data_type == "BOOLEAN" else None
        else:
            text = value
            labels = {one["label"]: one["value"] for one in (config or {}).get("categories") or ()}
            number = float(labels.get(value, 0))
        return Row(
            **{
                "data_type": data_type,
                "number": number,
                "text": text,
                "timestamp": now if timestamp is None else to_ms(timestamp),
                "created": now // 1000 * 1000 if created is None else to_ms(created),
                "updated": now if updated is None else to_ms(updated),
                "metadata": metadata,
                "written": self.stamp(now),
                **columns,
            }
        )

    def add_config(
        self,
        name: str,
        dataType: str,
        *,
        id: str | None = None,
        description: str | None = None,
        minValue: float | None = None,
        maxValue: float | None = None,
        categories: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        now = iso(self.clock.ms())
        if dataType == "BOOLEAN":
            categories = [{"label": "True", "value": 1}, {"label": "False", "value": 0}]
        config = {
            "id": id or new_id(),
            "name": name,
            "isArchived": False,
            "description": description,
            "createdAt": now,
            "updatedAt": now,
            "projectId": self.id,
            "maxValue": maxValue,
            "minValue": minValue,
            "dataType": dataType,
            "categories": categories,
        }
        self.state.configs.append(config)
        return config

    def add_queue(
        self,
        name: str,
        scoreConfigIds: list[str],
        *,
        id: str | None = None,
        description: str | None = None,
    ) -> dict[str, Any]:
        now = iso(self.clock.ms())
        queue = {"id": id or new_id(), "name": name, "description": description, "scoreConfigIds": scoreConfigIds}
        queue |= {"createdAt": now, "updatedAt": now}
        self.state.queues.append(queue)
        return queue

    def add_queue_item(
        self,
        queueId: str,
        objectId: str,
        objectType: str = "TRACE",
        *,
        id: str | None = None,
        status: str = "PENDING",
    ) -> dict[str, Any]:
        now = iso(self.clock.ms())
        item = {
            "id": id or new_id(),
            "queueId": queueId,
            "objectId": objectId,
            "objectType": objectType,
            "status": status,
            "completedAt": now if status == "COMPLETED" else None,
            "createdAt": now,
            "updatedAt": now,
        }
        self.state.queue_items.append(item)
        return item

    def add_evaluator(self, id: str, name: str, versions: list[Mapping[str, Any]]) -> dict[str, Any]:
        """``versions``, oldest first: each has an ``id``, and what else differs (prompt, modelConfig ...)."""
        now = iso(self.clock.ms())
        evaluator: dict[str, Any] = {
            "id": id,
            "name": name,
            "description": None,
            "createdBy": None,
            "status": "active",
            "pausedAt": None,
            "pausedReason": None,
            "pausedMessage": None,
            "evaluationRuleAssignments": [],
            "createdAt": now,
            "updatedAt": now,
            "type": "llm_as_judge",
        }
        default = {
            "createdAt": now,
            "createdBy": None,
            "type": "llm_as_judge",
            "prompt": [{"role": "user", "content": "Judge {{output}}"}],
            "variables": ["output"],
            "variableMapping": None,
            "modelConfig": None,
            "outputDefinition": {
                "dataType": "NUMERIC",
                "reasoning": {"description": "why"},
                "score": {"description": "0 to 1"},
            },
        }
        evaluator["versions"] = [{"version": n, **default, **one} for n, one in enumerate(versions, 1)]
        self.state.evaluators.append(evaluator)
        return evaluator

    # what people do in the web app: visible at once, past the queue and the event store

    def annotate(
        self,
        *,
        configId: str,
        value: Any,
        authorUserId: str,
        id: str | None = None,
        comment: str | None = None,
        **on: Any,
    ) -> str:
        """A human's label on traceId, observationId (with traceId) or sessionId, in queueId or in none. The next one on
        the same object and config, whoever gives it, takes the first one's place: same id, same createdAt and
        updatedAt, new timestamp. Gives the id."""
        self.settle()
        config, now = self.config(configId), self.clock.ms()
        assert config is not None, f"no score config {configId}"
        new = self.row(
            {
                "id": id or new_id(),
                "name": config["name"],
                "value": value,
                "source": "ANNOTATION",
                "configId": configId,
                "authorUserId": authorUserId,
                "comment": comment,
                "createdAt": now,
                "logged": False,
                **on,
            },
            now,
        )
        place = (new.config_id, new.trace_id, new.observation_id, new.session_id)
        for row in self.state.table.versions(traces=[new.trace_id] if new.trace_id else None):
            if row.source == "ANNOTATION" and place == (
                row.config_id,
                row.trace_id,
                row.observation_id,
                row.session_id,
            ):
                new.id, new.created, new.updated = row.id, row.created, row.updated
                break
        self.state.table.add(new)
        return new.id

    def edit_annotation(self, id: str, **changes: Any) -> None:
        """Another value, comment, authorUserId or queueId (None where it is not edited in a queue). No time moves."""
        self.settle()
        old = max(self.state.table.by_id[id], key=lambda row: (row.timestamp, row.written))
        kept = {key: one for key, one in _body_of(old).items() if key != "dataType"}
        if old.config_id is None:
            kept["dataType"] = old.data_type
        now = self.clock.ms()
        times = {"timestamp": old.timestamp, "createdAt": old.created, "updatedAt": old.updated}
        author = {"authorUserId": old.author, "queueId": None, "logged": False}
        self.state.table.add(self.row({**kept, **times, **author, **changes}, now))

    def delete_annotation(self, id: str) -> None:
        self.settle()
        self.state.table.remove(self.state.table.by_id[id])
        self._forget(id)

    # what goes on behind the answers

    def settle(self) -> None:
        """Bring everything up to the present."""
        now, state = self.clock.ms(), self.state
        interval = int(self.write_interval * 1000) if self.visible_after else 0
        while True:
            write = state.waiting[0][0] + interval if state.waiting else None
            score = self._due(state.score_deletes, state.last_score_delete)
            traces = self._due(state.trace_deletes, state.last_trace_delete)
            arrival = state.arriving[0][0] if state.arriving else None
            moment = min((one for one in (write, score, traces, arrival) if one is not None), default=None)
            if moment is None or moment > now:
                return
            if moment == arrival:
                _, _, kind, what = heappop(state.arriving)
                ARRIVALS[kind](self, what, moment)
            elif moment == write:
                batch = []
                while state.waiting and state.waiting[0][0] <= moment:
                    batch.append(heappop(state.waiting)[2])
                self._write(batch, moment)
            elif moment == score:
                state.last_score_delete = moment
                _, deleted = state.score_deletes.pop(0)
                state.table.remove(state.table.by_id.get(deleted, []))
                self._forget(deleted)
            else:
                state.last_trace_delete = moment
                gone = [trace for asked, trace in state.trace_deletes if asked <= moment]
                state.trace_deletes = [one for one in state.trace_deletes if one[0] > moment]
                self._remove_traces(gone)

    def _due(self, queue: list[tuple[int, str]], last: int | None) -> int | None:
        """At once, but never sooner than ``delete_interval`` after the last job."""
        if not queue:
            return None
        return queue[0][0] if last is None else max(queue[0][0], last + int(self.delete_interval * 1000))

    def _forget(self, score: str) -> None:
        """The events that were stored go with the score; those still in the queue do not."""
        if all(waits != score for _, _, waits in self.state.waiting):
            self.state.events.pop(score, None)

    def _remove_traces(self, traces: list[str]) -> None:
        state = self.state
        for trace in traces:
            rows = state.table.of_trace(trace)
            state.table.remove(rows)
            for row in rows:
                self._forget(row.id)
            state.traces.pop(trace, None)
            state.legacy_traces.discard(trace)
            for observation in [o["id"] for o in state.observations.values() if o["traceId"] == trace]:
                del state.observations[observation]

    def _write(self, batch: list[str], moment: int) -> None:
        rows: list[Row] = []
        for score in dict.fromkeys(batch):
            row = self._merged(score, moment)
            if row is None:
                self.state.lost.append(score)
            else:
                rows.append(row)
        if any(map(self._poisoned, rows)):
            self.state.lost.extend(row.id for row in rows)
            return
        for row in rows:
            self.state.table.add(row)

    @staticmethod
    def _poisoned(row: Row) -> bool:
        return any(lone_surrogate(one) for one in (row.name, row.text, row.comment, row.metadata))

    def stamp(self, moment: int) -> tuple[int, int]:
        self._writes += 1
        return (moment, self._writes)

    def _from_table(self, score: str) -> list[Event]:
        """The events of a score that a test put into the table."""
        rows = [row for row in self.state.table.by_id.get(score, ()) if row.logged]
        return [
            Event(row.id, row.timestamp, _body_of(row), f"~{10**13 - n}", 0, row.created, 0)
            for n, row in enumerate(sorted(rows, key=lambda row: row.written))
        ]

    def _merged(self, score: str, moment: int) -> Row | None:
        events = self.state.events.get(score, [])
        good = [(event, body) for event in events if (body := self._inflated(event.body)) is not None]
        if not good:
            return None
        if self.dialect.newest_wins_ties:
            good.sort(key=lambda one: (one[0].timestamp, one[0].number))
        else:
            good.sort(key=lambda one: (one[0].key, one[0].index), reverse=True)
            good.sort(key=lambda one: one[0].timestamp)
        earliest = good[0][0].timestamp
        stored = [row for row in self.state.table.by_id.get(score, ()) if row.timestamp >= earliest]
        merged: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        if stored:
            row = max(stored, key=lambda row: row.written)
            merged = {name: getattr(row, name) for name in _SCORE_FIELDS}
            metadata = dict(row.metadata)
        created = min(event.received for event, _ in good)
        for event, body in good:
            record = {"id": score, "timestamp": event.timestamp, "created": created, **body}
            metadata |= record.pop("metadata", {})
            merged |= {name: one for name, one in record.items() if name not in _FIXED or name not in merged}
        return Row(**{**merged, "metadata": metadata, "updated": moment, "written": self.stamp(moment), "logged": True})

    def _inflated(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """An event's body as columns; None where the worker drops it without a word."""
        value, data_type = body.get("value"), body.get("dataType")
        config_id = body.get("configId")
        if body.get("source") == "ANNOTATION" and not config_id and data_type != "CORRECTION":
            return None
        record = {column: body[key] for key, column in _FROM_BODY.items() if key in body}
        number: float | None = None
        text: str | None = None
        if config_id:
            config = self.config(config_id)
            if config is None or config["isArchived"]:
                return None
            if data_type is not None and data_type != config["dataType"]:
                return None
            data_type, record["name"] = config["dataType"], config["name"]
            if data_type == "CATEGORICAL":
                category = next((c for c in config["categories"] if c["label"] == value), None)
                if category is None:
                    return None
                number = float(category["value"])
            elif data_type == "NUMERIC":
                low, high = config["minValue"], config["maxValue"]
                if isinstance(value, str) or (low is not None and value < low) or (high is not None and value > high):
                    return None
        elif data_type is None:
            data_type = "CATEGORICAL" if isinstance(value, str) else "NUMERIC"
        if data_type in ("NUMERIC", "BOOLEAN"):
            if isinstance(value, str) or (data_type == "BOOLEAN" and value not in (0, 1)):
                return None
            number = number_of(value)
            text = ("True" if value else "False") if data_type == "BOOLEAN" else None
        else:
            if not isinstance(value, str):
                return None
            text, number = value, number or 0.0
        if data_type == "CORRECTION":
            record["name"] = "output"
        if "environment" in body:
            record["environment"] = environment_of(body["environment"])
        if body.get("metadata") is not None:
            record["metadata"] = metadata_of(body["metadata"])
        if record.get("source") is None:
            record["source"] = "API"
        return {**record, "data_type": data_type, "number": number, "text": text}


def _body_of(row: Row) -> dict[str, Any]:
    value = row.number if row.data_type in ("NUMERIC", "BOOLEAN") else row.text
    body = {key: getattr(row, column) for key, column in _FROM_BODY.items()}
    return {
        **{key: one for key, one in body.items() if one is not None},
        "id": row.id,
        "value": value,
        "dataType": row.data_type,
        "environment": row.environment,
        "metadata": row.metadata,
    }
