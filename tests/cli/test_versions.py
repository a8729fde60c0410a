"""``versions``: which versions answered, and naming the one that counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calibrate_plugin.cli import main
from calibrate_plugin.config import load

SETTINGS = """\
[study]
name = "s"

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]

[sources.all]       # people and judges
connector = "files"
file = "labels.csv"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = ["item,dimension,rater,kind,version,value"]
    for item in "abc":
        rows += [f"{item},Safety,{who},annotator,,Pass" for who in ("ann", "ben")]
        rows += [
            f"{item},Safety,judge,evaluator,{version},{value}" for version, value in (("v1", "Pass"), ("v2", "Fail"))
        ]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "calibrate.toml").write_text(SETTINGS)
    return tmp_path / "calibrate.toml"


def call(path: Path, *options: str, status: int = 0) -> Result:
    found = CliRunner().invoke(main, ["versions", "--config", str(path), *options])
    assert found.exit_code == status, found.output
    return found


def test_the_version_that_is_set_is_live_from_then_on(path: Path) -> None:
    assert CliRunner().invoke(main, ["run", "--config", str(path)]).exit_code == 0
    assert call(path).output.count("not named") == 2
    assert "judge: v2 is live" in call(path, "--set", "judge=v2").output
    assert load(path).study.live == {("", "judge"): "v2"}
    assert "# people and judges" in path.read_text()
    shown = call(path).output
    assert "not named" not in shown and shown.count("yes") == 1


@pytest.mark.parametrize(
    ("spec", "words"),
    [("judge=v9", "judge has the versions v1, v2"), ("nobody=v1", "a judge among judge"), ("judge", "JUDGE=VERSION")],
)
def test_a_version_that_nobody_has_is_refused_and_nothing_is_written(path: Path, spec: str, words: str) -> None:
    assert CliRunner().invoke(main, ["run", "--config", str(path)]).exit_code == 0
    assert words in call(path, "--set", spec, status=2).output
    assert path.read_text() == SETTINGS
