"""What a sync costs beside the bare download, and beside the SDK's own loop.

    python -m tests.benchmarks.sync_speed langfuse [--scores 100000] [--latency 0.02]
    python -m tests.benchmarks.sync_speed label-studio [--annotations 10000]

Langfuse is the stand-in of the tests, in a process of its own; the peer is a loop over the pages of ``langfuse.api``, which
reads as many pages as it can in ``--peer-seconds``. Label Studio is a real server (installed once, as the tests do); the
peer makes a snapshot and downloads it with the same client, and nothing else. Ours and theirs take turns; ratios are of the
same round. Peak memory is that of the whole process that syncs into a store.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform", choices=["langfuse", "label-studio"])
    parser.add_argument("--scores", type=int, default=100_000)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--peer-seconds", type=float, default=20)
    parser.add_argument("--annotations", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(_synced(json.loads(asked.child))))
    elif asked.platform == "langfuse":
        _langfuse(asked)
    else:
        _label_studio(asked)


def _langfuse(asked: argparse.Namespace) -> None:
    with _standin(asked) as server:
        environment = {
            "LANGFUSE_BASE_URL": server["url"],
            "LANGFUSE_PUBLIC_KEY": server["public_key"],
            "LANGFUSE_SECRET_KEY": server["secret_key"],
        }
        ratios = []
        for _ in range(asked.rounds):
            ours = _child(
                environment, {"connector": "langfuse", "labels": {"safety": ["safety"], "empathy": ["empathy"]}}
            )
            theirs = _sdk_rate(server, asked.peer_seconds)
            rate = ours["seen"] / ours["seconds"]
            ratios.append(rate / theirs)
            print(
                f"ours {ours['seen']} scores in {ours['seconds']:.1f} s ({rate:.0f}/s, {ours['requests']} requests, "
                f"{ours['peak_mb']:.0f} MB with store); SDK loop {theirs:.0f}/s; ratio {rate / theirs:.1f}"
            )
        print(f"median ratio {median(ratios):.1f}")


@contextmanager
def _standin(asked: argparse.Namespace) -> Iterator[dict[str, str]]:
    arguments = ["--scores", str(asked.scores), "--latency", str(asked.latency)]
    process = subprocess.Popen(
        [sys.executable, "-m", "langfuse_standin", *arguments],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def _sdk_rate(server: dict[str, str], seconds: float) -> float:
    from langfuse.api import LangfuseAPI

    api = LangfuseAPI(base_url=server["url"], username=server["public_key"], password=server["secret_key"])
    rows, cursor = 0, None
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        page = api.scores.get_many(limit=100, cursor=cursor, fields="details,subject,annotation")
        rows += len(page.data)
        cursor = getattr(page.meta, "cursor", None)
        if cursor is None:
            break
    return rows / (time.monotonic() - started)


def _label_studio(asked: argparse.Namespace) -> None:
    sys.path[:0] = [str(TESTS / "e2e")]
    os.environ.setdefault("CALIBRATE_E2E", "1")
    from label_studio_server import choose, rate, running

    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        project = server.project("Speed")
        print(f"importing {asked.annotations} annotations ...", flush=True)
        people = server.people[:2]
        tasks = [
            {
                "data": {"reply": f"reply {n} " + "word " * 200, "trace_id": f"trace-{n}"},
                "annotations": [
                    {
                        "result": [choose("safety", "Pass"), rate("empathy", 4)],
                        "completed_by": p.id,
                        "ground_truth": False,
                    }
                    for p in people
                ],
            }
            for n in range(asked.annotations // 2)
        ]
        made: list[int] = []
        for start in range(0, len(tasks), 1000):
            made += server.add_tasks(project, tasks[start : start + 1000])
        environment = {"LABEL_STUDIO_URL": server.url, "LABEL_STUDIO_API_KEY": server.token}
        settings = {"connector": "label-studio", "options": {"projects": [project], "item": "data.trace_id"}}
        ratios = []
        for _ in range(asked.rounds):
            with tempfile.TemporaryDirectory() as place:
                theirs = _timed(lambda: _snapshot(server, project))
                ours = _child(environment, {**settings, "store": f"{place}/a.db"})
                for task in made[:20]:
                    server.annotate(task, people[0], choose("safety", "Fail"))
                again = _child(environment, {**settings, "store": f"{place}/a.db"})
            ratios.append(theirs / ours["pull_seconds"])
            print(
                f"bare download {theirs:.1f} s; first load {ours['pull_seconds']:.1f} s pulled, {ours['seconds']:.1f} s into "
                f"the store ({ours['requests']} requests, {ours['peak_mb']:.0f} MB); after 20 changes {again['seconds']:.2f} s "
                f"({again['requests']} requests), {again['seconds'] / ours['seconds']:.1%} of it"
            )
        print(f"median: a pull at {median(ratios):.2f} of the bare download's rate")


def _snapshot(server: Any, project: int) -> None:
    made = server.call("POST", f"/api/projects/{project}/exports/", {"title": "bare"})
    path = f"/api/projects/{project}/exports/{made['id']}/download?exportType=JSON"
    answer = server.http.get(path, headers={"Authorization": f"Token {server.token}"})
    assert answer.is_success
    server.delete(f"/api/projects/{project}/exports/{made['id']}")


def _timed(action: Callable[[], None]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _child(environment: dict[str, str], settings: dict[str, Any]) -> dict[str, Any]:
    """One sync in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.sync_speed", "langfuse", "--child", json.dumps(settings)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _synced(settings: dict[str, Any]) -> dict[str, Any]:
    from calibrate_plugin.connector import SourceSettings, open_source
    from calibrate_plugin.store import Store
    from calibrate_plugin.sync import sync

    labels = {d: tuple(f) for d, f in settings.get("labels", {}).items()}
    made = SourceSettings("speed", settings["connector"], labels=labels, options=settings.get("options", {}))
    pulled = 0.0
    with tempfile.TemporaryDirectory() as folder, Store(settings.get("store", f"{folder}/speed.db")) as store:
        if "store" in settings and not store.latest():
            started = time.monotonic()
            for _ in open_source(made).pull(None):
                pass
            pulled = time.monotonic() - started
        started = time.monotonic()
        (outcome,) = sync(store, {"speed": open_source(made)})
        seconds = time.monotonic() - started
    assert outcome.outcome == "ok", outcome.message
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seen": outcome.seen,
        "requests": outcome.requests,
        "seconds": seconds,
        "pull_seconds": pulled,
        "peak_mb": peak,
    }


if __name__ == "__main__":
    main()
