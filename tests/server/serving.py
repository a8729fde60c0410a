"""A server whose platform is a file, as a process that can be killed. Imports once and forks for each start, which is fast.

Reads lines ``start PORT STORE PLATFORM`` from its standard input, and writes the id of the process that serves.
The file PLATFORM holds what the platform says (JSON rows); PLATFORM.results what was pushed to it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import uvicorn
from served_study import STUDY
from told import Woken

from calibrate_plugin.config import load
from calibrate_plugin.connector import Covered, Page, Pushed, Results, Since
from calibrate_plugin.server.access import Access
from calibrate_plugin.server.app import application, guarded
from calibrate_plugin.server.service import Pace, Service
from calibrate_plugin.store import Store


class OfFile(Woken):
    """What the file says, each time it is asked."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        rows = json.loads(self.path.read_text())
        times = ("at", "placed")
        self.rows = {}
        self.tell(*({k: datetime.fromisoformat(v) if k in times and v else v for k, v in row.items()} for row in rows))
        yield from super().pull(since)

    def push(self, results: Results, *, dry_run: bool = False) -> Pushed:
        kept = self.path.with_suffix(".results")
        self.results = json.loads(kept.read_text()) if kept.exists() else {}
        pushed = super().push(results, dry_run=dry_run)
        write(kept, self.results)
        return pushed


def write(path: Path, told: Any) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(told, default=lambda t: t.isoformat()))
    part.replace(path)


def serve(port: int, where: str, platform: Path) -> None:
    settings = platform.with_name("calibrate.toml")
    settings.write_text(STUDY)
    config = load(settings)
    people = OfFile(platform)
    with Store(where) as store:
        service = Service(
            config, store, {"people": people}, Pace(debounce=0.02, cap=0.2, poll=2.0, look=0.05, retry=0.05)
        )
        app = guarded(application(service, Access()), Access())
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False, timeout_graceful_shutdown=2)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        _, port, where, platform = line.split()
        if (pid := os.fork()) == 0:
            os.setpgrp()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(int(port), where, Path(platform))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
