"""``python -m langfuse_standin --scores 100000 --latency 0.02``: the server alone, until its standard input closes.

Prints one line of JSON (url, public_key, secret_key, project_id) when it is ready.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from .clock import Clock, to_ms
from .dialects import DIALECTS
from .server import LangfuseStandin


def made_up(count: int, names: list[str], days: int, end: str) -> Iterator[dict[str, Any]]:
    """Judge scores, spread evenly over the days before ``end``; every name scores the same traces."""
    last = to_ms(end)
    step = days * 86_400_000 / max(count, 1)
    for i in range(count):
        item = i // len(names)
        yield {
            "id": f"score-{i}",
            "name": names[i % len(names)],
            "value": item % 3 != 0,
            "traceId": f"trace-{item}",
            "timestamp": last - 1 - int(i * step),
            "source": "EVAL",
            "comment": "because",
            "metadata": {"evaluator_id": "judge", "evaluator_version_id": "v1", "job_execution_id": f"job-{i}"},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialect", default="4.16-events-only", choices=DIALECTS)
    parser.add_argument("--scores", type=int, default=0)
    parser.add_argument("--names", default="safety,empathy")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds that every reply takes longer")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as real time its clock runs")
    parser.add_argument("--start", default="2026-11-30T12:00:00Z")
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    with LangfuseStandin(asked.dialect, clock=Clock(asked.start, asked.speed), port=asked.port) as server:
        server.add_scores(made_up(asked.scores, asked.names.split(","), asked.days, asked.start))
        server.faults.latency = asked.latency
        keys = ("url", "public_key", "secret_key", "project_id")
        print(json.dumps({key: getattr(server, key) for key in keys}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
