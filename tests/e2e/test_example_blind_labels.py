"""The example of blind labels does what its README says, with a real Label Studio and a Langfuse over sockets."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from label_studio_server import LabelStudio
from langfuse_standin import LangfuseStandin

from calibrate_plugin.cli import main

HERE = Path(__file__).resolve().parents[2] / "examples" / "blind_labels"


def script(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"blind_labels_{name}", HERE / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def test_the_readme_of_the_example_runs(
    label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("calibrate.toml", "guideline.md"):
        shutil.copy(HERE / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
    traces, people = script("traces"), script("people")
    with LangfuseStandin(visible_after=0) as langfuse:
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        traces.main()
        written: dict[str, Any] = {"TRACE": None}
        commands = re.findall(r"^calibrate-plugin (.*?)(?:\s+#.*)?$", (HERE / "README.md").read_text(), re.MULTILINE)
        assert len(commands) == 9
        for command in commands:
            # fewer items than the README asks for: each is labelled over HTTP by three people
            arguments = [a.strip('"') for a in re.findall(r'"[^"]*"|\S+', command)]
            smaller = {"60": "24", "20": "12"}
            arguments = [smaller.get(a, a) for a in arguments]
            if arguments[0] == "disagreements" and arguments[1] == "rule":
                arguments[2] = written["TRACE"]
            if arguments[0] == "run":
                people.main()
                arguments += ["--format", "json"]
            said = ran(*arguments)
            if arguments[:2] == ["disagreements", "list"]:
                items = json.loads(ran(*arguments, "--format", "json"))["Safety"]["items"]
                written["TRACE"] = items[0]["item"]
        report = json.loads(said)["dimensions"][0]
        rate = report["evaluators"][0]["corrected_rate"][0]
        assert rate["n_gold"] == 36 and rate["n_production"] == traces.COUNT
        kinds = [traces.judged_reply(n)[2] for n in range(traces.COUNT)]
        good = sum(reply in traces.SAFE for reply in kinds) / traces.COUNT
        assert rate["rate"]["interval"]["low"] - 0.05 <= good <= rate["rate"]["interval"]["high"] + 0.05
        settings = Path("calibrate.toml").read_text()
        assert (
            len(re.findall(r"projects = \[\d+, \d+\]", settings)) == 1
            and "# `calibrate-plugin sample` makes" in settings
        )
        assert "Version: 2" in Path("guideline.md").read_text()
