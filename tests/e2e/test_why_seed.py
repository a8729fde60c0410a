"""Rows of "Why did a number change?" on a real Label Studio and the stand-in Langfuse, told by the command."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from label_studio_server import LabelStudio, choose
from langfuse_standin import LangfuseStandin

from calibrate_plugin.cli import main

STUDY = """
[study]
name = "why"
resamples = 200

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
map = {{ "true" = "Pass", "false" = "Fail" }}

[sources.people]
connector = "label-studio"
projects = [{projects}]
item = "data.trace_id"
labels = {{ Safety = "safety" }}

[sources.judges]
connector = "langfuse"
item = "trace"
labels = {{ Safety = ["safety-judge"] }}
lift = true
failed_runs = {{ status = "failed" }}
{live}
"""
ASHA, BEN = ["Pass", "Pass", "Fail", "Pass"], ["Pass", "Fail", "Fail", "Pass"]
JUDGE = [True, True, False, False]


class Walk:
    """A study that changes step by step, and what the commands say of it."""

    def __init__(self, people: LabelStudio, judges: LangfuseStandin, folder: Path) -> None:
        self.people, self.judges, self.config = people, judges, folder / "calibrate.toml"
        ann, ben, self.third = people.people
        self.first, self.second = people.project("why first"), people.project("why second")
        self.tasks, self.others = people.replies(self.first, 4), people.replies(self.second, 4)
        for n in range(4):
            people.annotate(self.tasks[n], ann, choose("safety", ASHA[n]))
            people.annotate(self.others[n], ben, choose("safety", BEN[n]))
        for n in range(2):
            self.score(n, JUDGE[n], "first")
        self.settle()

    def settle(self, live: str = "") -> None:
        projects = f"{self.first}, {self.second}"
        self.config.write_text(STUDY.format(projects=projects, live=live and f'live = {{ safety-judge = "{live}" }}'))

    def score(self, n: int, value: bool, run: str, version: str = "v1", model: str = "small", hour: int = 10) -> None:
        """A score on the item of an evaluation run that looked at a reply."""
        day = f"2026-11-30T{hour}:0{n}:00Z"
        execution = f"execution-{run}-{n}"
        self.judges.add_observation(
            f"call-{execution}",
            sha256(execution.encode()).hexdigest()[:32],  # how Langfuse names the trace of a judge's execution
            start=day,
            type="GENERATION",
            environment="langfuse-llm-as-a-judge",
            model=model,
        )
        self.judges.add_observation(f"{run}-o{n}", f"trace-{n}", start=day, experiment={"id": run})
        self.judges.add_score(
            id=f"{run}-{n}",
            name="safety-judge",
            value=value,
            traceId=f"trace-{n}",
            observationId=f"{run}-o{n}",
            source="EVAL",
            timestamp=day,
            metadata={"evaluator_id": "e1", "evaluator_version_id": version, "job_execution_id": execution},
        )

    def observations(self, run: str) -> dict[str, Any]:
        every = self.judges.project.state.observations
        return {name: one for name, one in every.items() if name.startswith(f"{run}-o")}

    def run(self, *options: str) -> None:
        self.judges.clock.advance(120)
        done = CliRunner().invoke(
            main, ["run", "-c", str(self.config), "--accept-deletions", "--format", "json", *options]
        )
        assert done.exit_code == 0, done.output

    def why(self) -> dict[tuple[str, str | None], list[dict[str, Any]]]:
        """The steps of each number since the report before the last change; they add up to 1e-12."""
        done = CliRunner().invoke(main, ["why", "-c", str(self.config), "--format", "json"])
        assert done.exit_code == 0, done.output
        found = {}
        for number in json.loads(done.output)["numbers"]:
            steps = number["steps"]
            if all(s["step"] is not None for s in steps):
                assert sum(s["step"] for s in steps) == pytest.approx(number["difference"], abs=1e-12)
            found[number["statistic"], number["evaluator"]] = steps
        return found

    def causes(self) -> set[str]:
        return {s["cause"] for steps in self.why().values() for s in steps}


def test_the_rows_of_the_page_one_after_the_other(
    label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LangfuseStandin() as langfuse:
        monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        walk = Walk(label_studio, langfuse, tmp_path)
        walk.run()

        # A third annotator shares an item: 1/2 becomes 7/15, and the new answer makes it -1/80.
        label_studio.annotate(walk.tasks[0], walk.third, choose("safety", "Fail"))
        walk.run()
        steps = walk.why()["annotators.kappa", None]
        assert [(s["cause"], s["number"]["exact"]) for s in steps] == [("kappa_kind", "7/15"), ("added", "-1/80")]
        (change,) = steps[1]["changes"]
        assert change["item"] == "trace-0" and change["link"].startswith(label_studio.url)

        # An evaluation run is in progress: its scores are used as they arrive.
        for n in (2, 3):
            walk.score(n, JUDGE[n], "first")
        walk.run()
        assert walk.causes() == {"run_scores"}
        (step,) = walk.why()["evaluator.score", "safety-judge"]
        assert step["number"]["exact"] == "1/2" and "first was in progress" in step["sentence"]

        # Another run scored the same replies, and failed: its scores are removed.
        for n in range(4):
            walk.score(n, False, "second")
        walk.run()
        for one in walk.observations("second").values():
            one["experiment"]["metadata"] = {"status": "failed"}
        walk.judges.project.state.table.generation += 1
        walk.run()
        assert walk.causes() == {"run_failed"}
        assert "the run second failed" in walk.why()["evaluator.score", "safety-judge"][0]["sentence"]

        # A different version was made the live one.
        for n in range(4):
            walk.score(n, not JUDGE[n], "third", "v2")
        walk.settle(live="v1")
        walk.run()
        walk.settle(live="v2")
        walk.run()
        assert walk.causes() == {"version"}

        # The same version asks another model.
        for n in range(4):
            walk.score(n, JUDGE[n], "fourth", "v2", model="large", hour=11)
        walk.run()
        assert walk.causes() == {"model"}
        (step,) = walk.why()["evaluator.kappa", "safety-judge"]
        assert "from small to large without a new version: 4 scores" in step["sentence"]
        for name in walk.observations("fourth"):
            del walk.judges.project.state.observations[name]
        walk.judges.project.state.table.generation += 1
        walk.run()
        assert walk.causes() == {"run_deleted"}

        # That evaluation run was deleted, with all its scores.
        for name in walk.observations("third"):
            del walk.judges.project.state.observations[name]
        walk.judges.project.state.table.generation += 1
        walk.run()
        assert walk.causes() == {"run_deleted"}
        assert "the run third was deleted" in walk.why()["evaluator.score", "safety-judge"][0]["sentence"]

        # An annotator was deleted. Label Studio tells nobody, so a full reading finds it.
        leaving = label_studio.sign_up("leaving@example.com")
        label_studio.annotate(walk.tasks[1], leaving, choose("safety", "Fail"))
        walk.run()
        label_studio.delete(f"/api/users/{leaving.id}/")
        walk.run("--full")
        assert walk.causes() == {"annotator_deleted"}
        (step,) = walk.why()["annotators.kappa", None]
        assert step["n"] == 1 and step["changes"][0]["item"] == "trace-1"

        # An item was deleted.
        label_studio.delete(f"/api/tasks/{walk.tasks[3]}/")
        walk.run()
        assert walk.causes() == {"item_deleted"}

        # A labelling job was deleted, with all its answers.
        label_studio.delete(f"/api/projects/{walk.second}/")
        walk.run()
        assert walk.causes() == {"job_deleted"}
        (step,) = walk.why()["annotators.agreement", None]
        assert str(walk.second) in step["sentence"] and step["n"] == 4
