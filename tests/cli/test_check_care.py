"""``check`` says who answered with a judge's answer in sight, and who always kept it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from calibrate_plugin.cli import main

SETTINGS = """[study]
name = "s"
[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
[sources.all]
connector = "files"
file = "labels.csv"
"""


def test_a_person_who_keeps_what_was_filled_in_is_named(tmp_path: Path) -> None:
    rows = ["item,dimension,rater,kind,value,blind"]
    for n in range(12):
        said = "Fail" if n % 3 == 0 else "Pass"
        rows += [
            f"i{n},Safety,judge,judge,{said},",
            f"i{n},Safety,meek,human,{said},false",
            f"i{n},Safety,own,human,Pass,true",
        ]
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    (tmp_path / "calibrate.toml").write_text(SETTINGS)
    shown = CliRunner().invoke(main, ["check", "--config", str(tmp_path / "calibrate.toml")])
    assert (
        "meek gave 12 answers after seeing a judge's; on all 12 items that a judge answered they say what it says"
        in shown.output
    )
    assert "(they are left out)" in shown.output and "let somebody else label these again" in shown.output
    assert "own gave" not in shown.output
