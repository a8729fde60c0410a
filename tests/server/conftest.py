"""A served study without a platform: its sources are told what to say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from served_study import SECRET, STUDY, Served, rows, scores
from told import Told, Woken

from calibrate_plugin.config import Config, load
from calibrate_plugin.server.access import Access
from calibrate_plugin.server.app import application
from calibrate_plugin.server.background import Background
from calibrate_plugin.server.service import Pace, Service
from calibrate_plugin.server.worker import Worker
from calibrate_plugin.store import Store


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "calibrate.toml"
    path.write_text(STUDY)
    return load(path)


@pytest.fixture
def served(config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("CALIBRATE_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("CALIBRATE_LANGFUSE_SIGNING_SECRET", SECRET)
    with Store(config.store) as store:
        people, judges = Woken(rows()), Told(scores())
        pace = Pace(debounce=0.0, cap=1.0, poll=3600, reconcile=86_400, look=0.05, retry=0.01, tries=3)
        service = Service(config, store, {"people": people, "judges": judges}, pace)
        app = application(service, Access(), working=False)
        service.draw = lambda state: None  # pages are drawn when a test looks at them
        yield Served(service, people, judges, Worker(service), Background(service), app)


@pytest.fixture
def ready(served: Served) -> Served:
    """The first pull is done, and what it gave was pushed."""
    served.turns(lambda: served.service.state and served.service.state.number >= 2 and served.people.pushes)
    return served
