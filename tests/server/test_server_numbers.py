"""Numbers that are kept up to date item by item are those of a full computation."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from told import T0, Told, label, later

from calibrate_plugin import cycle, scales
from calibrate_plugin.model import Study
from calibrate_plugin.report import json
from calibrate_plugin.report.build import build, item_agreement
from calibrate_plugin.server.numbers import Numbers
from calibrate_plugin.server.overlay import Overlay
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync

STUDY = Study(
    name="support",
    dimensions=(
        scales.parse("Safety=binary:Pass/Fail"),
        scales.parse("Empathy=rating:1..5"),
        scales.dimension("Length", {"scale": "rating", "min": 0, "max": 1, "step": "any"}),
    ),
    live={("Empathy", "judge"): "v2"},
    resamples=200,
)


def same_as_anew(store: Store, numbers: Numbers) -> None:
    """The state is what everything computed at once gives, byte for byte."""
    assert numbers.state is not None
    state = numbers.state
    report, ratings = build(numbers.study, cycle.pulled(store), state.report.generated_at)
    assert state.body.decode() == json.render(report)
    assert state.agreement.frame.equals(item_agreement(ratings))
    for dimension, pairs in ((d, p.frame) for d, p in state.differing.items()):
        found = next(d.disagreements for d in report.dimensions if d.name == dimension)
        people = pairs.filter(pairs["evaluator"].is_null())
        assert people["item"].n_unique() == found.human_items
    assert list(state.runs) == cycle.runs(ratings)
    for run in state.runs:
        of_run, _ = build(numbers.study, cycle.pulled(store), state.report.generated_at, run=run)
        assert json.render(numbers.run(run)) == json.render(of_run)


values = {
    "Safety": st.sampled_from(['"Pass"', '"Fail"', '"Maybe"', None]),
    "Empathy": st.sampled_from(["1", "2", "3", "5", "9"]),
    "Length": st.sampled_from(["0.25", "0.5", "1"]),
}


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    record = draw(st.integers(0, 9))
    judge = record >= 6
    field = draw(st.sampled_from(["Safety", "Safety", "Empathy", "Empathy", "Length", "Other"]))
    value = draw(values.get(field, st.just('"x"')))
    more: dict[str, Any] = {
        "field": field,
        "at": draw(st.sampled_from([T0, later(5)])),
        "seq": draw(st.sampled_from([None, None, None, 3])),
    }
    if judge:
        more |= {
            "kind": "evaluator",
            "version": draw(st.sampled_from(["v1", "v2", "v2", None])),
            "run": draw(st.sampled_from([None, "run 1", "run 2"])),
        }
    else:
        more |= {
            "blind": draw(st.sampled_from([None, True, False])),
            "seconds": draw(st.sampled_from([None, 1.0, 50.0])),
        }
    rater = draw(st.sampled_from(["judge", "other"] if judge else ["ann", "ben", "cat"]))
    item = draw(st.sampled_from(["i1", "i2", "i3", "i4", "i5", "i1", "i2", None]))
    return label(f"{record}", item, rater, value, **more)


steps = st.lists(
    st.tuples(
        st.sampled_from(["people", "judges"]),
        st.lists(rows(), max_size=6),
        st.lists(st.integers(0, 9).map(str), max_size=2),
        st.sampled_from([{}, {}, {}, {"ann": "Ann"}, {"ann": "Ann", "ben": "Ann"}]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=30, deadline=None, derandomize=True, report_multiple_bugs=False, phases=[Phase.generate])
@given(steps)
def test_incremental_equals_full_after_any_history(
    history: list[tuple[str, list[Mapping[str, Any]], list[str], dict[str, str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "calibrate.db") as store:
        sources = {"people": Told(), "judges": Told()}
        numbers = Numbers(store, STUDY)
        for step, (name, told, gone, names) in enumerate(history):
            sources[name].forget(*gone)
            sources[name].tell(*told)
            sources[name].names |= names
            (outcome,) = sync(store, {name: sources[name]}, accept_deletions=True)
            assert outcome.outcome == "ok", outcome.message
            numbers.follow(later(step))
            same_as_anew(store, numbers)


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "calibrate.db") as opened:
        yield opened


def many(n: int) -> list[dict[str, Any]]:
    people = [
        label(f"{rater}{i}", f"i{i}", rater, '"Pass"' if (i + len(rater)) % 3 else '"Fail"')
        for i in range(n)
        for rater in ("ann", "ben")
    ]
    judge = {"kind": "evaluator", "version": "v1"}
    return people + [label(f"j{i}", f"i{i}", "judge", '"Pass"', run=f"run {i % 2 + 1}", **judge) for i in range(n)]


def test_one_edit_is_adjusted_and_not_computed_anew(store: Store) -> None:
    source = Told(many(40))
    sync(store, {"people": source})
    numbers = Numbers(store, STUDY)
    assert numbers.follow(T0) and numbers.state is not None and numbers.state.full
    numbers.run("run 1")
    assert not numbers.follow(T0)
    source.tell(label("ann3", "i3", "ann", '"Fail"'), label("ben41", "i41", "ben", '"Pass"'))
    sync(store, {"people": source})
    assert numbers.follow(later(1)) and not numbers.state.full
    same_as_anew(store, numbers)


def test_another_live_version_computes_anew(store: Store) -> None:
    source = Told(many(12))
    sync(store, {"people": source})
    numbers = Numbers(store, STUDY)
    numbers.follow(T0)
    source.tell(label("new", "i1", "judge", '"Fail"', kind="evaluator", version="v9"))
    sync(store, {"people": source})
    numbers.follow(later(1))
    assert numbers.state is not None and numbers.state.full
    same_as_anew(store, numbers)
    assert [e.live for d in numbers.state.report.dimensions[:1] for e in d.evaluators] == [None, None]


def test_changed_settings_compute_anew(store: Store) -> None:
    sync(store, {"people": Told(many(12))})
    numbers = Numbers(store, STUDY)
    numbers.follow(T0)
    assert numbers.follow(later(1), replace(STUDY, kinds={"ben": "gold"}))
    same_as_anew(store, numbers)


def test_an_event_copies_no_table_that_grows_with_the_store(store: Store) -> None:
    source = Told(many(40))
    sync(store, {"people": source})
    numbers = Numbers(store, STUDY)
    numbers.follow(T0)
    assert numbers.state is not None
    first = numbers.state
    for turn in range(5):
        source.tell(label(f"ann{turn}", f"i{turn}", "ann", f'"{"Fail" if turn % 2 else "Pass"}"'))
        sync(store, {"people": source})
        numbers.follow(later(turn))
    state = numbers.state
    assert not state.full and state.serial > first.serial
    assert state.agreement._base is first.agreement._base
    assert all(pairs._base is first.differing[name]._base for name, pairs in state.differing.items())
    same_as_anew(store, numbers)


def test_an_event_reads_through_indexes_only(store: Store) -> None:
    import sqlalchemy as sa

    source = Told(many(40))
    sync(store, {"people": source})
    numbers = Numbers(store, STUDY)
    numbers.follow(T0)
    source.tell(label("ann4", "i4", "ann", '"Fail"'))
    sync(store, {"people": source})
    asked: list[tuple[str, Any]] = []
    engine = store._database._engine

    def heard(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.lstrip().startswith("SELECT"):
            asked.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", heard)
    assert numbers.follow(later(1)) and numbers.state is not None and not numbers.state.full
    sa.event.remove(engine, "before_cursor_execute", heard)
    assert asked
    large = ("labels", "places", "retirements", "reasons", "item_facts", "contexts")
    with engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scanned = [row[3] for row in plan if row[3].startswith("SCAN") and row[3].split()[1] in large]
            assert not scanned, (statement, scanned)


def test_what_lies_over_a_table_is_written_out_now_and_then() -> None:
    base = pl.DataFrame({"item": [f"i{n:03}" for n in range(50)], "value": range(50)})
    kept, plain = Overlay(base, ("item",)), {f"i{n:03}": n for n in range(50)}
    for turn in range(200):
        item = f"i{turn % 60:03}"
        fresh = [turn] if turn % 3 else []
        kept = kept.replaced([item], pl.DataFrame({"item": [item] * len(fresh), "value": fresh}, schema=base.schema))
        plain.pop(item, None)
        plain |= dict.fromkeys([item] * len(fresh), turn)
        if turn % 17 == 0:
            assert kept.frame.rows() == sorted(plain.items())
    assert kept.frame.rows() == sorted(plain.items())
