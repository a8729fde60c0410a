"""A person can be forgotten, and pseudonyms hide who is who: the numbers stay."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from changing_study import SETTINGS, World
from click.testing import CliRunner

from calibrate_plugin import cycle, history
from calibrate_plugin.cli import main
from calibrate_plugin.report import csv, html, terminal
from calibrate_plugin.report import json as report_json
from calibrate_plugin.report.build import build, pair_audit
from calibrate_plugin.why import explain

ANN, BEN = "Ann Example-Name", "Ben Other-Name"


def labelled(world: World) -> None:
    world.people.names = {"7": ANN, "8": BEN}
    for n in range(12):
        for who in ("7", "8"):
            value = '"Pass"' if (n + int(who) * (n % 3)) % 2 else '"Fail"'
            world.say(f"{who}-{n}", f"i{n}", who, value, reason=f"{who} wrote this: private {who}")
    world.say("8-late", "i0", "8", '"Maybe"', at=world.clock())
    for n in range(12):
        world.say(f"j{n}", f"i{n}", "judge", '"Pass"', kind="evaluator", version="v1")
    world.pull()


def hidden(world: World, **more: Any) -> None:
    document = copy.deepcopy(SETTINGS) | more
    document["study"]["pseudonyms"] = True
    world.settle(document)
    world.path.write_text(tomlkit.dumps(document))


def without_names(report: dict[str, Any]) -> Any:
    """The numbers of a report, whoever gave them, in an order of their own."""
    numbers = []
    for d in report["dimensions"]:
        numbers += [d["human_score"], d["annotators"]["agreement"], d["annotators"]["kappa"]]
        numbers += [e[k] for e in d["evaluators"] for k in ("score", "agreement", "kappa")]
    return [(n["value"], n["n_items"], n["n_pairs"]) for n in numbers]


def test_forgetting_erases_names_and_reasons_in_the_store_and_in_kept_reports_and_no_number_changes(
    world: World,
) -> None:
    labelled(world)
    cycle.report_now(world.store, world.config, world.clock())
    world.say("7-x", "i30", "7", '"Pass"')
    world.pull()
    cycle.report_now(world.store, world.config, world.clock())
    before = [json.loads(world.store.report(r.id)) for r in world.store.reports()]
    assert all(ANN in json.dumps(b) for b in before)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    told = CliRunner().invoke(main, ["forget", "7", "-c", str(world.path), "--yes"])
    assert told.exit_code == 0, told.output
    assert "12 written reasons erased, 2 kept reports written again without the name" in told.output
    assert "no number changed" in told.output
    after = [json.loads(world.store.report(r.id)) for r in world.store.reports()]
    for then, now in zip(before, after, strict=True):
        assert ANN not in json.dumps(now) and BEN in json.dumps(now)
        assert without_names(then) == without_names(now)
        assert then["generated_at"] == now["generated_at"]
    for kept in world.store.reports():  # and they can still be made again, byte for byte
        again = report_json.render(history.remade(world.store, world.config, kept)[0])
        assert again.encode() == world.store.report(kept.id)
    for file in world.path.parent.glob("calibrate.db*"):
        assert ANN.encode() not in file.read_bytes() and b"private 7" not in file.read_bytes()
    world.say("7-y", "i31", "7", '"Pass"', reason="private 7 again")
    world.pull()  # the source tells the name again, and it is not kept
    assert ANN not in json.dumps(world.store.names())
    assert "private 7 again" not in world.store.as_of()["reason"].drop_nulls().to_list()


def test_kept_settings_that_name_the_person_are_said(world: World) -> None:
    labelled(world)
    document = copy.deepcopy(SETTINGS) | {"people": {ANN: ["people:7"]}}
    world.settle(document)
    cycle.report_now(world.store, world.config, world.clock())
    world.path.write_text(tomlkit.dumps(document))
    told = CliRunner().invoke(main, ["forget", "7", "-c", str(world.path), "--yes"])
    assert "1 kept states of the settings name this person" in told.output
    assert "take it out of [people] yourself" in told.output


def test_forgetting_somebody_unknown_or_without_consent_changes_nothing(world: World) -> None:
    labelled(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    unknown = CliRunner().invoke(main, ["forget", ANN, "-c", str(world.path), "--yes"])
    assert unknown.exit_code == 2 and "give the id, not the name" in unknown.output
    refused = CliRunner().invoke(main, ["forget", "7", "-c", str(world.path)], input="n\n")
    assert refused.exit_code == 1
    assert world.store.names()["people"]["7"] == ANN


def test_pseudonyms_stand_in_every_report_and_change_no_number(world: World, tmp_path: Path) -> None:
    labelled(world)
    plain, _ = cycle.report_now(world.store, world.config, world.clock())
    hidden(world)
    report, ratings = cycle.report_now(world.store, world.config, world.clock())
    csv.write(report, pair_audit(ratings), tmp_path / "csv")
    shown = [report_json.render(report), html.render(report), terminal.render(report)]
    shown += [f.read_text() for f in (tmp_path / "csv").iterdir()]
    for text in shown:
        assert "Example-Name" not in text and "Other-Name" not in text
    names = [r["name"] for r in json.loads(shown[0])["dimensions"][0]["raters"]]
    assert sum(n.startswith("annotator-") for n in names) == 2 and "judge" in names
    listed = report.dimensions[0].set_aside_listed
    assert {s.rater for s in listed if s.cause in ("rejected", "superseded")} <= set(names)
    assert without_names(json.loads(shown[0])) == without_names(json.loads(report_json.render(plain)))


def test_a_pseudonym_stays_when_the_person_is_renamed_and_differs_in_another_store(
    world: World, tmp_path: Path
) -> None:
    labelled(world)
    hidden(world)

    def called(world: World) -> list[str]:
        report, _ = cycle.report_now(world.store, world.config, world.clock())
        return [r.name for r in report.dimensions[0].raters if r.kind == "annotator"]

    first = called(world)
    world.people.names = {"7": "Ann Married-Name", "8": BEN}
    world.pull()
    assert called(world) == first
    folder = tmp_path / "other"
    folder.mkdir()
    other = World(folder)
    labelled(other)
    hidden(other)
    assert set(called(other)).isdisjoint(first)
    other.store.close()


def test_why_and_history_keep_to_pseudonyms(world: World) -> None:
    labelled(world)
    hidden(world)
    cycle.report_now(world.store, world.config, world.clock())
    (last,) = world.store.reports(1)
    world.say("7-x", "i30", "7", '"Pass"')
    world.pull()
    found = explain(world.store, world.config, history.Moment(last.number, last.settings, last.at))
    assert found.numbers and "annotator-" in repr(found.numbers)
    assert "Example-Name" not in repr(found.numbers)
    cycle.report_now(world.store, world.config, world.clock())
    for kept in world.store.reports():
        again = report_json.render(history.remade(world.store, world.config, kept)[0])
        assert again.encode() == world.store.report(kept.id)


@pytest.mark.parametrize("ignored", [ANN, BEN])
def test_an_annotator_is_ignored_by_name_behind_a_pseudonym_too(world: World, ignored: str) -> None:
    labelled(world)
    hidden(world, ignore={"annotators": [ignored]})
    report, _ = cycle.report_now(world.store, world.config, world.clock())
    assert len([r for r in report.dimensions[0].raters if r.kind == "annotator"]) == 1


def test_without_a_store_people_are_numbered_and_never_named(world: World) -> None:
    labelled(world)
    hidden(world)
    report, _ = build(world.config.study, cycle.pulled(world.store), world.clock())
    assert [r.name for r in report.dimensions[0].raters if r.kind == "annotator"] == ["annotator 1", "annotator 2"]
