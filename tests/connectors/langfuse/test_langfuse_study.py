"""A study with a live Langfuse, from the command line: pull, report, push, push again, take back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from langfuse_standin import LangfuseStandin

from calibrate_plugin.cli import main

CONFIG = """
[study]
name = "support"
resamples = 200

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
map = { true = "Pass", false = "Fail" }

[sources.people]
connector = "files"
file = "labels.csv"

[sources.judges]
connector = "langfuse"
labels = { Safety = "safety-judge" }

[push.judges]
"""
PEOPLE = "item,dimension,rater,kind,value,at\n" + "".join(
    f"t{i},Safety,{rater},annotator,{'Pass' if letter == 'P' else 'Fail'},2026-11-2{i}T10:00:00Z\n"
    for rater, letters in (("asha", "PPFF"), ("ben", "PPFP"))
    for i, letter in enumerate(letters)
)


def test_a_study_runs_pushes_and_takes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calibrate.toml").write_text(CONFIG)
    (tmp_path / "labels.csv").write_text(PEOPLE)

    def run(*command: str) -> str:
        result = CliRunner().invoke(main, [*command, "--config", str(tmp_path / "calibrate.toml")])
        assert result.exit_code == 0, result.output
        return result.output

    with LangfuseStandin(visible_after=0, delete_interval=0) as server:
        monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", server.secret_key)
        for i, value in enumerate((True, False, False, True)):
            server.add_score(id=f"j{i}", name="safety-judge", value=value, traceId=f"t{i}", source="EVAL")
        output = run("run")
        table = server.project.state.table
        written = {row.name: row.number for row in table}
        assert written["calibrate.Safety.annotators.kappa"] == 0.5
        assert written["calibrate.Safety.evaluators.safety-judge.kappa"] == 0.25
        assert {row.trace_id for row in table if row.name == "calibrate.Safety.disagree"} == {"t0", "t1", "t2", "t3"}
        before = {row.id: row.written for row in table}
        output += run("run")
        assert {row.id: row.written for row in table} == before
        run("check")
        output += run("unpush", "--yes")
        assert {row.name for row in server.project.state.table} == {"safety-judge"}
        assert server.secret_key not in output
