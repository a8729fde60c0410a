"""Samples that are kept in a store: what is drawn from, what is kept of it, and that the next one goes on from there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calibrate_plugin import asking, blind, cycle, review, sampling
from calibrate_plugin.cli import main
from calibrate_plugin.config import load
from calibrate_plugin.connector import Form, NewTask, Placed, SettingsError, Source
from calibrate_plugin.sampling import Asked, Kept
from calibrate_plugin.store import Store
from calibrate_plugin.store.pseudonyms import key_of
from calibrate_plugin.sync import sync

SETTINGS = """[study]
name = "s"
[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
[sources.people]
connector = "label-studio"
projects = []
item = "data.trace_id"
[sources.judges]
connector = "files"
file = "scores.csv"
"""


class Study:
    """A study whose judge's answers lie in a file, and whose Label Studio is never asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str = SETTINGS) -> None:
        monkeypatch.setenv("LABEL_STUDIO_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", "never-used")
        self.path, self.scores = folder / "calibrate.toml", folder / "scores.csv"
        self.path.write_text(settings)
        self.rows: list[str] = []
        self.store = Store(folder / "calibrate.db")

    def judge(self, labels: Mapping[str, str], by: str = "judge,judge", **more: str) -> None:
        self.rows += [f"{item},Safety,{by},{label},q,a,{item[:2]}" for item, label in labels.items()]
        self.scores.write_text("\n".join(["item,dimension,rater,kind,value,input,output,team", *self.rows]))
        config = load(self.path)
        sync(self.store, {"judges": cycle.open_all(config)["judges"]}, full=True)

    def plan(self, n: int, more: bool = False, **asked: Any) -> asking.Plan:
        config = load(self.path)
        sources: dict[str, Source] = cycle.open_all(config)
        return asking.plan(self.store, config, sources, Asked(n, **asked), asking.Wish(more=more))

    def draw(self, n: int, **asked: Any) -> sampling.Drawn:
        planned = self.plan(n, more=True, **asked)
        assert planned.drawn is not None
        sampling.keep(self.store, planned.sample, planned.drawn.facts)
        return planned.drawn

    def chances(self) -> dict[str, float]:
        kept = Kept(self.store)
        told = {i: float(p) for i, p in kept.fact("probability").items()}
        return {i: p for i, p in told.items() if i in kept.in_sample}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    return Study(tmp_path, monkeypatch)


def labels(prefix: str, passes: int, fails: int) -> dict[str, str]:
    return {f"{prefix}-{n}": "Pass" if n < passes else "Fail" for n in range(passes + fails)}


def test_a_sample_keeps_strata_and_chances_under_the_names_that_the_design_reads(study: Study) -> None:
    study.judge(labels("a", 90, 10))
    drawn = study.draw(20)
    assert drawn.strata == {"Fail": (10, 10), "Pass": (10, 90)}
    kept = Kept(study.store)
    assert Counter(kept.fact("stratum")[i] for i in kept.in_sample) == {"Fail": 10, "Pass": 10}
    assert Counter(study.chances().values()) == {1.0: 10, 10 / 90: 10}
    assert len(kept.passed) == 80 and set(kept.passed.values()) == {("Pass", 10 / 90)}


def test_the_next_sample_gives_every_item_its_chance_of_being_in_any(study: Study) -> None:
    study.judge(labels("a", 90, 10))
    first = study.draw(20, floor=4)
    study.judge(labels("b", 40, 20))
    second = study.draw(30, floor=5)
    assert not set(first.items) & set(second.items)
    assert second.population == 160 - 20
    (n_fail, fails), (n_pass, passes) = second.strata["Fail"], second.strata["Pass"]
    p_fail, p_pass = first.strata["Fail"][0] / 10, first.strata["Pass"][0] / 90
    q_fail, q_pass = n_fail / fails, n_pass / passes
    kept = Kept(study.store)
    expected = {
        ("a", "Fail"): p_fail + (1 - p_fail) * q_fail,
        ("a", "Pass"): p_pass + (1 - p_pass) * q_pass,
        ("b", "Fail"): q_fail,
        ("b", "Pass"): q_pass,
    }
    for item, chance in study.chances().items():
        assert chance == pytest.approx(expected[item[0], kept.fact("stratum")[item]]), item
    for item, (stratum, chance) in kept.passed.items():
        if item not in kept.in_sample:
            assert chance == pytest.approx(expected[item[0], stratum])


def test_an_item_keeps_the_stratum_of_its_first_draw(study: Study) -> None:
    study.judge(labels("a", 30, 10))
    study.draw(10, floor=3)
    study.rows.clear()
    study.judge({**{f"a-{n}": "Fail" for n in range(40)}, **labels("b", 5, 5)})
    second = study.draw(10, floor=1)
    # what was left of the 30 that the judge had passed stays together, whatever it says by now
    assert second.strata["Pass"][1] + second.strata["Fail"][1] == 40 + 10 - 10
    assert second.strata["Pass"][1] > 20


def test_random_samples_have_one_chance_for_all_and_no_strata(study: Study) -> None:
    study.judge(labels("a", 90, 10))
    study.draw(20, by="random")
    study.judge(labels("b", 100, 0))
    study.draw(30, by="random")
    assert list(study.chances().values()) == pytest.approx([50 / 200] * 50)
    assert "stratum" not in Kept(study.store).facts["fact"].to_list()
    with pytest.raises(SettingsError, match="drawn with --by random"):
        study.draw(10)


def test_groups_stay_together_and_have_the_chance_of_their_group(study: Study) -> None:
    study.judge({f"{n // 5:02d}-{n}": "Fail" if n % 17 == 0 else "Pass" for n in range(200)})
    with pytest.raises(SettingsError, match="no judged item has one; it is session, user or a fact"):
        study.draw(5, group="nothing")
    drawn = study.draw(50, group="team", floor=2)
    assert drawn.groups == 10 and len(drawn.items) == 50
    teams = Counter(i[:2] for i in drawn.items)
    assert set(teams.values()) == {5}
    with_fail = {f"{n // 5:02d}" for n in range(200) if n % 17 == 0}
    kept = Kept(study.store)
    assert {kept.fact("stratum")[i] for i in drawn.items if i[:2] in with_fail} == {"Fail"}


def test_labelled_items_are_not_drawn(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    study.judge({f"a-{n}": "Pass" for n in range(10)}, by="ann,human")
    drawn = study.draw(20)
    assert drawn.labelled == 10 and drawn.population == 30
    assert not {f"a-{n}" for n in range(10)} & set(drawn.items)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": 500}, "only 40 items left"),
        ({"n": 1}, "1 cannot cover 2 strata"),
        ({"n": 10, "judge": "nobody"}, "no judge 'nobody' has answered Safety; there are: judge"),
        ({"n": 10, "dimension": "Tone"}, "there is no dimension 'Tone'"),
        ({"n": 10, "floor": 9}, "more than the 10 asked for"),
        ({"n": 10, "people": 0}, "at least one person"),
    ],
)
def test_what_cannot_be_drawn_says_why(study: Study, asked: dict[str, Any], message: str) -> None:
    study.judge(labels("a", 20, 20))
    with pytest.raises(SettingsError, match=message):
        study.plan(**asked)


def test_two_judges_must_be_told_apart_and_a_version_named(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    study.judge(labels("a", 10, 30), by="other,judge")
    with pytest.raises(SettingsError, match="say which judge to draw by with --judge: judge, other"):
        study.plan(10)
    assert study.plan(10, judge="other").sample.judge == "other"


def test_a_design_that_says_otherwise_is_refused(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    study.path.write_text(SETTINGS + '[design]\nkind = "random"\n')
    with pytest.raises(SettingsError, match=r"design\.kind is 'random', and this sample is drawn with 'stratified'"):
        study.plan(10)
    assert study.plan(10, by="random").design == {"kind": "random"}


def test_nothing_is_asked_of_anybody_in_a_dry_run(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    study.judge(labels("a", 20, 20))
    done = CliRunner().invoke(main, ["sample", "--n", "10", "--dry-run", "--config", str(study.path)])
    assert done.exit_code == 0, done.output
    assert "sample 1: 10 of 40 items, drawn by what judge said" in done.output
    assert "people will label without one" in done.output
    assert study.path.read_text() == SETTINGS
    assert not Kept(study.store).samples


@pytest.mark.parametrize("given", [["--show", "question=input"], ["--answered"]])
def test_what_is_said_of_a_project_needs_one(study: Study, given: list[str]) -> None:
    study.judge(labels("a", 20, 20))
    done = CliRunner().invoke(main, ["sample", "--n", "10", *given, "--config", str(study.path)])
    assert done.exit_code == 2
    assert f"{given[0]} is about a project that is there already; name it with --project" in done.output
    assert not Kept(study.store).samples


def test_an_empty_store_says_what_to_do_first(study: Study) -> None:
    with pytest.raises(SettingsError, match="Pull first with calibrate-plugin run"):
        study.plan(10)


def test_what_is_kept_of_a_sample_comes_back_as_it_was(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    planned = study.plan(10, opaque=True, people=3)
    sampling.keep(study.store, planned.sample)
    assert Kept(study.store).samples == [planned.sample]
    assert json.loads(Kept(study.store).fact(sampling.SETTINGS)["sample 1"])["asked"]["people"] == 3


def test_an_item_that_came_to_a_group_later_has_the_chance_that_its_group_was_left_over(study: Study) -> None:
    def conversation(first: int, last: int, turns: range) -> dict[str, str]:
        return {f"{n:02d}-{k}": "Pass" if n % 3 else "Fail" for n in range(first, last) for k in turns}

    study.judge(conversation(0, 30, range(2)))
    study.draw(12, group="team", floor=1)
    study.judge(conversation(0, 30, range(2, 3)))
    study.draw(15, group="team", floor=1)
    study.draw(15, group="team", floor=1)
    kept = Kept(study.store)
    chances = study.chances() | {i: c for i, (_, c) in kept.passed.items() if i not in kept.in_sample}

    def of(stratum: str, turns: str) -> set[float]:
        fails = stratum == "Fail"
        return {round(c, 9) for i, c in chances.items() if i[-1] in turns and (int(i[:2]) % 3 == 0) == fails}

    for stratum, first in (("Pass", 4 / 20), ("Fail", 2 / 10)):
        # the turns that came together have one chance; of the later draws both had the same
        (early,), (late,) = of(stratum, "01"), of(stratum, "2")
        assert early - late == pytest.approx(first)


def test_what_is_missing_is_shown_by_the_source_that_knows_the_items(study: Study, tmp_path: Path) -> None:
    (tmp_path / "others.csv").write_text("item,dimension,rater,kind,value\nz,Safety,ann,human,Pass\n")
    more = '[sources.others]\nconnector = "files"\nfile = "others.csv"\n'
    study.path.write_text(SETTINGS.replace("[sources.judges]", f"{more}[sources.judges]"))
    study.judge(labels("a", 20, 20))
    planned = study.plan(10)
    assert planned.drawn is not None
    sampling.keep(study.store, planned.sample, planned.drawn.facts)
    again = study.plan(10)
    for shows in (planned.contents, again.contents):
        assert {c.problem for c in shows.contents(planned.drawn.items)} == {""}


def test_the_sources_that_speak_of_items_begin_with_the_judges(study: Study) -> None:
    study.judge(labels("a", 2, 2))
    assert blind.speak_of(study.store, ["a-0", "nowhere"]) == ["judges"]
    assert blind.speak_of(study.store, ["nowhere"]) == []


@pytest.mark.parametrize("asked", [{"floor": 2}, {"group": "team"}, {"dimension": "Tone"}, {"judge": "other"}])
def test_filling_up_does_not_pass_over_what_is_asked_otherwise(study: Study, asked: dict[str, Any]) -> None:
    study.judge(labels("a", 20, 20))
    planned = study.plan(10)
    assert planned.drawn is not None
    sampling.keep(study.store, planned.sample, planned.drawn.facts)
    assert study.plan(10, judge="judge", dimension="Safety").drawn is None
    with pytest.raises(SettingsError, match=f"sample 1 was asked for with --{next(iter(asked))} "):
        study.plan(10, **asked)


class Job:
    """A source that people label in, and what it was told."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def find_job(self, form: Form) -> str | None:
        return "7"

    def placed(self, job: str) -> Iterator[Placed]:
        return (Placed(str(n), key, 0) for n, key in enumerate(self.keys))

    def add_tasks(self, job: str, form: Form, tasks: Iterable[NewTask]) -> Iterator[Placed]:
        for task in tasks:
            self.keys.append(task.key)
            yield Placed(str(len(self.keys)), task.key, 0)

    def job_link(self, job: str) -> str:
        return f"http://127.0.0.1:9/{job}"

    make_job = check_job = remove_job = find_job


def test_an_item_of_an_opaque_sample_is_sent_to_a_third_person_under_its_opaque_key(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    planned = study.plan(10, opaque=True)
    assert planned.drawn is not None
    sampling.keep(study.store, planned.sample, planned.drawn.facts)
    job, items = Job(), planned.drawn.items[:3]
    keys = {blind.blind_key(key_of(study.store), item) for item in items}
    for added in (3, 0):
        sources: dict[str, Any] = cycle.open_all(load(study.path)) | {"people": job}
        sent = review.send(study.store, load(study.path), sources, items)
        assert (sent.added, set(job.keys)) == (added, keys)
    assert set(Kept(study.store).fact("stands_for").values()) == set(items)


def test_a_probability_that_is_called_otherwise_since_is_told(study: Study) -> None:
    study.judge(labels("a", 20, 20))
    study.draw(10)
    design = '[design]\nkind = "stratified"\njudge = "judge"\nstratum = "stratum"\nprobability = "chance"\n'
    study.path.write_text(SETTINGS + design)
    with pytest.raises(SettingsError, match=r"in an earlier sample and has no 'chance'; let design\.stratum"):
        study.plan(10, more=True)
