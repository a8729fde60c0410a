"""A Langfuse that runs inside a test: real sockets, the answers of recorded servers, and every way they go wrong.

::

    from langfuse_standin import LangfuseStandin

    with LangfuseStandin(dialect="4.16-events-only") as server:
        client = httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key))
        server.add_score(
            id="s1", name="safety", value=True, traceId="t1", source="EVAL",
            timestamp="2026-11-20T10:00:00Z", metadata={"evaluator_id": "e1", "evaluator_version_id": "v1"},
        )
        client.post("/api/public/scores", json={"name": "safety", "value": 1, "dataType": "BOOLEAN", "traceId": "t1"})
        server.clock.advance(6)                       # only now does the posted score show
        server.faults.cut_every(7)                    # every 7th request from here on dies
        client.get("/api/public/v3/scores", params={"fields": "core,details,subject,annotation"})
        assert server.requests.counts()["GET /api/public/v3/scores"] == 1

**Dialects** (``DIALECTS``): 3.50 (v1 pages only), 3.150 (v1, v2), 3.225 (v1, v2, v3; the API of v4 404), 4.16-dual,
4.16-events-only (the default of a self-hosted server: v1 and v2 reads are 404 before the key is looked at), 4.35
(v2/evaluators), 4.59 (POST /scores takes a list only). 3.225 and 4.16 are recorded; the others stand in contracts only.

**Time** is the server's own. ``Clock()`` stands still until ``server.clock.advance(seconds)``; ``Clock(speed=100)`` runs a
hundred times as fast as real time, for a client that waits by itself; ``Clock(start=...)`` says from when. A POST shows
after ``visible_after`` (5.4 s; 0: at once; 15 s more or less around midnight UTC), a deleted score is gone at once but only
one per ``delete_interval`` (120 s).

**Filling it** without a request, visible at once: ``add_score``, ``add_scores`` (100,000 in two seconds). A value true or
false is BOOLEAN, a text CATEGORICAL, unless ``dataType`` says otherwise; the same id again is one more stored version
(another day or name: for ever; else until ``server.project.state.table.merge_parts()``), ``convertible=False`` is a row
that v3 leaves out of its page. The v2 and v1 lists leave out scores whose trace is not there.
``server.project.state.lost`` names what was answered with 200 and never stored.

**Faults** (``server.faults``): cut_every, cut_at, answer, rate_limit, server_error, bad_gateway, unauthorized,
html_instead, truncated_json, empty_page, half_listing, short_page, repeat_row, rewrite, other_project, latency (seconds),
clear. ``plan="hobby"`` turns the recorded limits of Langfuse Cloud on, and its ``_deprecation`` keys; ``limits=`` gives
your own (``{"public-api": (30, 60)}``). ``server.snapshot()`` and ``server.restore(snapshot)``: back from an old backup.

People: ``add_config``, ``add_queue``, ``add_queue_item``, ``annotate(configId=, value=, authorUserId=, traceId=)``,
``edit_annotation(id, value=...)`` (no time moves), ``delete_annotation``. Traces: ``add_trace``, ``add_observation`` (with
``experiment={id, name, itemId, datasetId}`` an item of one), /ingestion, OTLP as JSON or protobuf. ``add_evaluator(id, name,
versions=[{"id": "v1"}, ...])``. ``server.project.expire_event_store()``: updates find no earlier events to merge with.

**Alone**: ``python -m langfuse_standin --scores 100000 --latency 0.02`` in tests/ prints url and keys and serves until its
standard input closes; for measurements, where client and server must not share an interpreter.

**Same id again**: what the worker does, not a plain replace. Events merge in the order of their timestamps (an older one
changes nothing); of two with one timestamp the smaller event id counts, before 4.59; timestamp, trace, environment and
createdAt stay the first ones as long as the event store holds the first event.

**Not there**: metrics (501), queue assignments, comments, prompts, media, model prices, organisation keys; and what nobody
recorded: how 4.59 really answers a batch (it is the SDK's documentation), trace deletion's own delay.

**Log**: ``server.requests`` (number, method, path, query, body, endpoint, status, fault, rows), ``.counts()``, ``.of(...)``.
"""

from .clock import Clock
from .dialects import DIALECTS, Dialect
from .server import LangfuseStandin, Request

__all__ = ["DIALECTS", "Clock", "Dialect", "LangfuseStandin", "Request"]
