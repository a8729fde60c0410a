"""The connector in examples/ keeps the contract, in a run of its own as its author would do it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_connector"


def test_the_example_connector_passes_the_contract() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", EXAMPLE, EXAMPLE],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_a_contract_that_is_broken_fails(tmp_path: Path) -> None:
    """The suite can fail: a connector that forgets an answer, and one that lists things twice under new names."""
    broken = (
        (EXAMPLE / "calibrate_sqlite.py").read_text(encoding="utf-8").replace("ORDER BY id", "ORDER BY id LIMIT 200")
    )
    (tmp_path / "calibrate_sqlite.py").write_text(broken, encoding="utf-8")
    suite = (EXAMPLE / "test_calibrate_sqlite.py").read_text(encoding="utf-8")
    (tmp_path / "test_calibrate_sqlite.py").write_text(suite, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            tmp_path,
            "-k",
            "paging",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
