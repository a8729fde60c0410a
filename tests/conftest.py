"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recordings and real data beside the checkout. Where it is missing the test is skipped, but not in CI."""
    folder = Path(os.environ.get("CALIBRATE_SHARED") or Path(__file__).resolve().parents[1] / ".." / "shared").resolve()
    if not folder.is_dir():
        message = f"{folder} is missing: recordings and real data that lie beside the checkout"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
