"""Any earlier report can be made again, byte for byte, and each number is shown over time."""

from __future__ import annotations

import copy
import json
import random
from datetime import date
from pathlib import Path

import pytest
import tomlkit
from changing_study import SETTINGS, World
from click.testing import CliRunner

from calibrate_plugin import cycle, history
from calibrate_plugin.cli import main
from calibrate_plugin.config import read
from calibrate_plugin.report import json as report_json


def test_every_kept_report_is_made_again_byte_for_byte_after_a_thousand_changes(world: World) -> None:
    drawn = random.Random(20261001)
    document = copy.deepcopy(SETTINGS)
    kept = []
    for change in range(1, 1001):
        world.change_at_random(drawn)
        if change % 25:
            continue
        if change % 200 == 0:  # settings change too, and back
            document["study"]["seed"] = change
            document["dimensions"]["Empathy"]["max"] = 7 if change % 400 else 5
            document["sources"]["judges"]["live"] = {"judge": "v1" if change % 400 else "v2"}
            document["sources"]["judges"]["since"] = date(2026, 9, 1)
            world.settle(document)
        world.pull()
        cycle.report_now(world.store, world.config, world.clock())
        kept.append(world.store.report(world.store.reports(1)[0].id))
    stored = list(reversed(world.store.reports()))
    assert len(stored) == len(kept) == 40
    assert len(set(kept)) == 40, "the reports must differ, or reproducing them shows nothing"
    for report, bytes_then in zip(stored, kept, strict=True):
        again, _ = history.remade(world.store, world.config, report)
        assert report_json.render(again).encode() == bytes_then == world.store.report(report.id)


def test_settings_that_were_kept_come_back_with_their_dates(world: World) -> None:
    document = copy.deepcopy(SETTINGS)
    document["sources"]["people"]["since"] = date(2026, 9, 1)
    world.settle(document)
    cycle.report_now(world.store, world.config, world.clock())
    (state,) = world.store.settings_states()
    assert history.restored(state, world.path).sources["people"].since == date(2026, 9, 1)
    assert history.restored(state, world.path).study == read(document, world.path).study


def two_reports(world: World) -> None:
    for n in range(12):
        for who in ("ann", "ben"):
            world.say(f"{who}{n}", f"i{n}", who, '"Pass"' if n % 3 else '"Fail"')
        world.say(f"j{n}", f"i{n}", "judge", '"Pass"' if n % 2 else '"Fail"', kind="evaluator", version="v1")
    world.pull()
    cycle.report_now(world.store, world.config, world.clock())
    for n in range(12):
        world.say(f"c{n}", f"i{n}", "cem", '"Pass"')
        world.say(f"j{n}", f"i{n}", "judge", '"Pass"' if n % 3 else '"Fail"', kind="evaluator", version="v2")
    world.pull()
    cycle.report_now(world.store, world.config, world.clock())


def test_each_number_is_shown_over_time_with_its_interval_and_the_versions_marked(world: World) -> None:
    two_reports(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    shown = CliRunner().invoke(main, ["history", "Safety", "-c", str(world.path)])
    assert shown.exit_code == 0, shown.output
    assert "version v1 → v2" in shown.output
    assert "Cohen → Fleiss" in shown.output
    assert "evaluator.kappa of judge  ▁█" in shown.output
    rows = json.loads(CliRunner().invoke(main, ["history", "-c", str(world.path), "--format", "json"]).output)
    kappas = [r for r in rows if r["statistic"] == "annotators.kappa" and r["dimension"] == "Safety"]
    assert next((r["report"], r["kind"], r["value"]) for r in kappas) == (1, "cohen", 1.0)
    assert kappas[1]["low"] < kappas[1]["value"] < kappas[1]["high"]
    csv = CliRunner().invoke(main, ["history", "-c", str(world.path), "--format", "csv"]).output
    assert csv.splitlines()[0].startswith("report,number,at,dimension,statistic")
    assert len(csv.splitlines()) == len(rows) + 1


def test_reports_made_from_the_same_facts_and_settings_are_one_point(world: World) -> None:
    two_reports(world)
    cycle.report_now(world.store, world.config, world.clock())
    assert {p.report for p in history.series(world.store)} == {1, 3}


def test_as_of_gives_the_report_of_a_time_a_sync_and_a_report(world: World) -> None:
    two_reports(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    first, second = reversed(world.store.reports())
    for when in ("#1", str(first.number), first.at.isoformat()):
        found = CliRunner().invoke(
            main, ["history", "-c", str(world.path), "--as-of", when, "--report", "--format", "json"]
        )
        assert found.exit_code == 0, found.output
        then = json.loads(world.store.report(first.id))
        assert {**json.loads(found.output), "generated_at": ""} == {**then, "generated_at": ""}
    assert history.previous(world.store) == history.Moment(first.number, first.settings, first.at)
    assert second.number > first.number


@pytest.mark.parametrize(
    ("when", "said"), [("#9", "there is no report #9"), ("999", "there is no sync 999"), ("x", "is no time")]
)
def test_a_moment_that_never_was_is_refused_with_what_to_write(
    tmp_path: Path, world: World, when: str, said: str
) -> None:
    two_reports(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    found = CliRunner().invoke(main, ["history", "-c", str(world.path), "--as-of", when])
    assert found.exit_code == 2
    assert said in found.output


def test_a_time_before_the_first_report_is_told_with_when_that_was(world: World) -> None:
    two_reports(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    found = CliRunner().invoke(main, ["history", "-c", str(world.path), "--as-of", "2020-01-01"])
    first = world.store.reports()[-1].at
    assert found.output == f"no report was kept by 2020-01-01; the first one is of {first:%Y-%m-%d %H:%M}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["history", "Safty"], "there is no dimension 'Safty'; there are: Safety, Empathy"),
        (["why", "Safty"], "there is no dimension 'Safty'; there are: Safety, Empathy"),
        (["why", "--evaluator", "juge"], "no report has 'juge'; there are: judge"),
    ],
)
def test_a_name_that_nobody_has_is_refused_with_those_that_there_are(
    world: World, arguments: list[str], said: str
) -> None:
    two_reports(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    found = CliRunner().invoke(main, [*arguments, "-c", str(world.path)])
    assert found.exit_code == 2
    assert said in found.output
