"""A fixture for eval suites: a test fails where a judge is not good enough.

    def test_the_safety_judge_is_as_good_as_a_person(calibrate_gate):
        calibrate_gate("Safety: judge.judge_minus_human.lower >= -0.1")

It reads the study of ``--calibrate-config`` (default: calibrate.toml).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("calibrate-plugin")
    group.addoption("--calibrate-config", default="calibrate.toml", metavar="FILE", help="The study's settings.")
    group.addoption("--calibrate-baseline", default=None, metavar="FILE", help="A report as JSON to compare with.")


@pytest.fixture(scope="session")
def calibrate_gate(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Call it with rules; it fails the test where one does not hold or cannot be told, and says why. With
    ``undefined="skip"`` a rule that cannot be told skips the test instead."""

    def check(*rules: str, undefined: str = "fail") -> None:
        # Imported here: every run of pytest loads this file.
        from dataclasses import replace

        from calibrate_plugin.cli.gate import outcomes_of
        from calibrate_plugin.config import GateTable, load

        settings = load(Path(pytestconfig.getoption("--calibrate-config")))
        given = pytestconfig.getoption("--calibrate-baseline")
        alone = replace(settings, gate=GateTable())
        outcomes = outcomes_of(alone if rules else settings, rules, None if given is None else Path(given))
        if failed := [o.sentence for o in outcomes if o.outcome == "failed"]:
            pytest.fail("\n".join(failed), pytrace=False)
        if unknown := [o.sentence for o in outcomes if o.outcome == "undefined"]:
            (pytest.skip if undefined == "skip" else pytest.fail)("\n".join(unknown))

    return check
