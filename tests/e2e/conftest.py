"""Tests that start a real server. With ``CI=true`` a server that does not start is a failure; elsewhere a missing one is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from label_studio_server import CI, LabelStudio, Missing, running


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: starts a real server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("e2e")


@pytest.fixture(scope="session")
def label_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    """A fresh Label Studio with three annotators, for all tests of the session: each makes projects of its own."""
    started = running(tmp_path_factory.mktemp("label_studio"))
    try:
        server = started.__enter__()
    except Missing as missing:
        if CI:
            raise
        pytest.skip(str(missing))
    try:
        yield server
    finally:
        started.__exit__(None, None, None)
