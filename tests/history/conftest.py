"""A study that changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from changing_study import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()
