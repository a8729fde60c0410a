"""The live example from end to end: a real Label Studio, filled by its own script, joined with a Langfuse over sockets."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result
from label_studio_server import LabelStudio
from langfuse_standin import Clock, LangfuseStandin

from calibrate_plugin.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("live_example", EXAMPLES / "live" / "start.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def study(label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    live = script()
    live.TOKEN = label_studio.token  # type: ignore[attr-defined]
    project = live.filled(label_studio.url)
    assert live.filled(label_studio.url) == project, "started again, it made a second project"
    settings = (EXAMPLES / "live" / "calibrate.toml").read_text(encoding="utf-8")
    (tmp_path / "calibrate.toml").write_text(settings.replace("projects = [1]", f"projects = [{project}]"))
    with LangfuseStandin(clock=Clock(speed=60)) as langfuse:
        for line in (EXAMPLES / "three_annotators" / "langfuse-scores.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            keys = ("id", "name", "value", "dataType", "source", "timestamp", "environment", "comment", "metadata")
            langfuse.add_score(**{k: row[k] for k in keys}, traceId=row["subject"]["id"])
            langfuse.add_trace(row["subject"]["id"])
        monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        monkeypatch.chdir(tmp_path)
        yield label_studio, langfuse, project


def test_the_live_example_runs_pushes_and_goes_away_again(study: Any) -> None:
    label_studio, langfuse, project = study
    checked = call("check")
    assert "no item has both" not in checked.output
    assert call("versions", "--set", "strict-judge-verdict=v2", "--set", "strict-judge-tone=v2").exit_code == 0
    first = call("run", "--format", "json")
    assert first.exit_code == 0, first.output
    resolved = next(d for d in json.loads(first.stdout)["dimensions"] if d["name"] == "Resolved")
    assert len(resolved["annotators"]["counted"]) >= 3
    assert {(e["evaluator"], e["version"]) for e in resolved["evaluators"]} == {
        ("mild-judge-verdict", "v5"),
        ("strict-judge-verdict", "v2"),
    }
    description = label_studio.call("GET", f"/api/projects/{project}/")["description"]
    assert "Resolved" in description
    pushed = {row.name for row in langfuse.project.state.table if row.name.startswith("calibrate.")}
    assert "calibrate.Resolved.agreement" in pushed

    task = label_studio.call("GET", f"/api/tasks/?project={project}&page_size=1")["tasks"][0]["id"]
    verdict = {"id": "v", "from_name": "verdict", "to_name": "question", "type": "choices"}
    label_studio.annotate(task, label_studio.people[0], verdict | {"value": {"choices": ["open"]}})
    second = call("run", "--format", "json")
    assert second.exit_code == 0, second.output
    assert "people: " in second.stderr
    assert "(incremental)" in second.stderr
    again = next(d for d in json.loads(second.stdout)["dimensions"] if d["name"] == "Resolved")
    assert again["human_score"]["n_labels"] == resolved["human_score"]["n_labels"] + 1

    assert call("unpush", "--yes").exit_code == 0
    assert "Resolved" not in (label_studio.call("GET", f"/api/projects/{project}/")["description"] or "")


def test_what_check_finds_before_a_version_is_named(study: Any) -> None:
    found = call("check")
    assert "versions --set 'strict-judge-verdict=VERSION'" in found.output
    assert "Traceback" not in found.output


def test_init_proposes_the_study(study: Any) -> None:
    label_studio, _, project = study
    done = call("init", "--project", str(project), "--output", "proposed.toml", "--name", "proposed")
    assert done.exit_code == 0, done.output
    text = Path("proposed.toml").read_text(encoding="utf-8")
    assert label_studio.token not in text
    assert 'item = "data.trace_id"' in text
    assert "strict-judge-verdict" in text
    checked = call("check", "--config", "proposed.toml")
    assert "items were also scored" in checked.output


def test_the_example_scores_are_those_of_the_other_example() -> None:
    scores = (EXAMPLES / "three_annotators" / "langfuse-scores.jsonl").read_text(encoding="utf-8")
    names = {json.loads(line)["name"] for line in scores.splitlines()}
    settings = (EXAMPLES / "live" / "calibrate.toml").read_text(encoding="utf-8")
    assert all(name in settings for name in names if name.endswith(("verdict", "tone")))
