"""From labels to the typed report: what stands where, and that nothing breaks it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from said import GAP, NOW, applied, grid, judged, label, labels, report, reported, study

from calibrate_plugin.model import ASIDE, ITEMS, Report, frame
from calibrate_plugin.report.build import Pulled, build, item_agreement, only, pair_audit
from calibrate_plugin.report.json import render

SCALES = {
    "binary:T/F": ("T", "F"),
    "nominal:a/b/c": ("a", "b"),
    "ordinal:low/mid/high": ("low", "high"),
    "rating:1..5": (1, 5),
    "rating:0..1:any": (0.1, 0.9),
    "preference:A/B/tie": ("A", "B"),
}
BINARY = study("D=binary:T/F")


def facts(**values: dict[str, str]) -> pl.DataFrame:
    """Facts of items: fact -> item -> value."""
    rows = [(item, fact, value) for fact, of in values.items() for item, value in of.items()]
    return pl.DataFrame(rows, schema=ITEMS, orient="row")


# nothing, or next to nothing


def scarce(one: Any, other: Any) -> dict[str, list[dict[str, Any]]]:
    return {
        "no labels": [],
        "one label": [label("1", "ann", one)],
        "one annotator": [label(str(i), "ann", one if i % 2 else other) for i in range(12)],
        "one annotator and one judge": [
            make(str(i), r, one) for i in range(12) for make, r in ((label, "ann"), (judged, "j"))
        ],
        "no evaluators": [label(str(i), r, one if i % 3 else other) for i in range(12) for r in ("ann", "ben")],
        "only evaluators": [judged(str(i), r, one if i % 3 else other) for i in range(12) for r in ("j", "k")],
        "only gold": [label(str(i), "boss", one, kind="gold") for i in range(12)],
        "gold and a judge": [label("1", "boss", one, kind="gold"), judged("1", "j", one)],
        "one level used": [label(str(i), r, one) for i in range(12) for r in ("ann", "ben", "cem")],
        "nothing but rejected": [label("1", "ann", "zzz"), judged("1", "j", "zzz")],
        "nothing but cleared": [label("1", "ann", None, state="cleared"), label("1", "ben", None, state="skipped")],
        "nobody and nothing": [label(None, None, None)],
        "disjoint items": [label("1", "ann", one), label("2", "ben", one), judged("3", "j", one)],
        "another dimension's labels": [label("1", "ann", one, "E")],
        "items called nothing and 0": [label(i, r, one) for i in ("", "0") for r in ("", "0")],
        "not blind": [label("1", "ann", one, blind=False), label("1", "ben", one, blind=False)],
    }


@pytest.mark.parametrize("spec", SCALES)
@pytest.mark.parametrize("case", scarce(0, 0))
def test_however_little_there_is_a_report_is_made(case: str, spec: str) -> None:
    rows = scarce(*SCALES[spec])[case]
    made, ratings = build(replace(study(f"D={spec}"), resamples=200), Pulled({"file": labels(rows)}), NOW)
    text = render(made)
    assert "NaN" not in text
    json.loads(text)
    pair_audit(ratings)
    item_agreement(ratings)


def test_a_study_without_sources_has_an_empty_report() -> None:
    made, _ = build(BINARY, Pulled({}), NOW)
    (found,) = made.dimensions
    assert (found.human_score.reason, found.annotators.kappa.reason) == ("no_labels", "nothing_to_compare")
    assert (made.coverage.items, made.coverage.labels, made.sources) == (0, 0, ())


def test_no_labels_are_no_number_and_a_reason_and_never_0() -> None:
    found = reported(BINARY, [])
    assert (found.human_score.value, found.human_score.reason) == (None, "no_labels")
    for measure in (found.annotators.agreement, found.annotators.kappa, found.annotators.alpha, found.fleiss_all):
        assert (measure.value, measure.reason, measure.n_items) == (None, "nothing_to_compare", 0)


def test_a_dimension_without_labels_stands_beside_one_with_some() -> None:
    made = report(study("D=binary:T/F", "E=rating:1..5"), grid(ann="TF", ben="TT"))
    assert [d.annotators.agreement.value for d in made.dimensions] == [0.5, None]


def test_answers_of_different_dimensions_never_meet() -> None:
    made = report(study("D=binary:T/F", "E=binary:T/F"), grid("D", ann="TT") + grid("E", ben="FF"))
    assert [d.annotators.agreement.reason for d in made.dimensions] == ["nothing_to_compare"] * 2


def test_scales_without_a_score_say_so() -> None:
    for spec in ("nominal:a/b", "ordinal:a/b", "preference:a/b"):
        found = reported(study(f"D={spec}"), grid(ann="ab", ben="aa") + grid(kind="evaluator", j="ab"))
        assert (found.human_score.value, found.human_score.reason, found.human_score.n_items) == (
            None,
            "not_applicable",
            2,
        )
        assert found.evaluators[0].score.reason == "not_applicable"


def test_a_rating_without_a_step_has_no_pabak_and_no_ac() -> None:
    found = reported(study("D=rating:0..1:any"), grid(ann=[0.1, 0.9], ben=[0.2, 0.8]))
    assert found.annotators.pabak.reason == found.annotators.ac.reason == "not_applicable"
    assert found.annotators.positive_agreement.reason == "not_applicable"
    assert found.annotators.agreement.value == pytest.approx(0.9)


# who is in it


def test_raters_are_listed_with_what_they_answered() -> None:
    found = reported(BINARY, [*grid(ben="TT", ann="TF"), judged("1", "j", "F", version="v1")])
    assert [(r.name, r.kind, r.version, r.answers, r.distribution) for r in found.raters] == [
        ("ann", "annotator", "", 2, (1, 1)),
        ("ben", "annotator", "", 2, (2, 0)),
        ("j", "evaluator", "v1", 1, (0, 1)),
    ]


def test_every_pair_that_shares_an_item_has_its_numbers() -> None:
    rows = grid(ann="TFT", ben="TF", cem=[GAP, GAP, "F"]) + grid(kind="evaluator", j="TFF", k="TFT")
    found = reported(BINARY, rows)
    assert [(p.a, p.b, p.agreement.value) for p in found.annotators.pairs] == [("ann", "ben", 1.0), ("ann", "cem", 0.0)]
    assert [(p.a, p.b) for p in found.judges] == [("j", "k")]
    assert [(p.a, p.b) for p in found.evaluators[0].each] == [("j", "ann"), ("j", "ben"), ("j", "cem")]
    assert found.evaluators[0].each[2].agreement.value == 1.0
    assert (found.fleiss_all.n_pairs, found.fleiss_all.details["form"]) == (6 + 6 + 6 - 0, "pairs")


def test_the_kappa_names_its_kind_form_and_weights() -> None:
    two, three = grid(ann="TFT", ben="TFF"), grid(ann="TFT", ben="TFF", cem="TTT")
    assert reported(BINARY, two).annotators.kappa.details == {"kind": "cohen", "weights": "identity", "chance": 4 / 9}
    details = reported(BINARY, three).annotators.kappa.details
    assert (details["kind"], details["form"]) == ("fleiss", "pairs")
    ac = reported(study("D=rating:1..5"), grid(ann=[1, 2, 3], ben=[1, 2, 4])).annotators.ac
    assert (ac.details["kind"], ac.details["weights"], ac.details["form"]) == ("AC2", "linear", "items")


def test_alpha_is_of_the_metric_that_fits_the_scale_and_the_others_stand_beside_it() -> None:
    wanted = {
        "binary:1/2": ("nominal", {"nominal"}),
        "preference:1/2": ("nominal", {"nominal"}),
        "ordinal:1/2/3": ("ordinal", {"nominal", "ordinal"}),
        "rating:1..3": ("interval", {"nominal", "ordinal", "interval", "ratio"}),
        "rating:-1..3": ("interval", {"nominal", "ordinal", "interval"}),
        "rating:1..3:any": ("interval", {"interval"}),
    }
    for spec, (metric, every) in wanted.items():
        values = {"ann": [1, 2, 1], "ben": [1, 2, 2]}
        found = reported(study(f"D={spec}"), grid(**values)).annotators
        assert (found.alpha.details["metric"], set(found.alphas)) == (metric, every)


def test_warnings_tell_of_answers_that_hardly_occur() -> None:
    rare = reported(BINARY, grid(ann="T" * 30 + "FFFF", ben="T" * 30 + "FFTT")).annotators.kappa
    often = reported(BINARY, grid(ann="T" * 30 + "F" * 6, ben="T" * 31 + "F" * 5)).annotators.kappa
    assert (rare.warnings, often.warnings) == (("rare_answer",), ())
    same = reported(BINARY, grid(ann="T" * 30 + "F" * 9, ben="T" * 30 + "F" * 9)).annotators.kappa
    unshared = reported(BINARY, grid(ann="T" * 30 + "F" * 6 + "T" * 5, ben="T" * 35 + "F" * 6)).annotators.kappa
    assert (same.warnings, unshared.warnings) == (("handful",), ("handful",))


def test_without_an_interval_nobody_is_warned_of_a_narrow_one() -> None:
    few = reported(BINARY, grid(ann="T" * 4 + "F" * 5, ben="T" * 4 + "F" * 5)).annotators.kappa
    assert few.interval is None and few.warnings == ("rare_answer",)


# what was set aside


def test_what_was_set_aside_is_counted_by_cause_and_listed() -> None:
    rows = [
        label("1", "ann", "T", record="r1", at=1),
        label("1", "ann", "F", record="r2", at=2),
        label("2", "ann", "zz", record="r3"),
        label("3", "ann", None, state="skipped"),
        label("4", None, "T", seq=7),
        judged("1", "j", "zz"),
        label("5", "ben", "T", blind=False),
        label("6", "boss", "zz", kind="gold"),
    ]
    found = reported(BINARY, rows)
    assert found.set_aside == {
        "retired": 1,
        "not_blind": 1,
        "failed": 1,
        "superseded": 1,
        "cleared": 1,
        "rejected": 1,
        "unpaired": 1,
    }
    assert [(a.cause, a.record) for a in found.set_aside_listed] == [
        ("superseded", "r1"), ("rejected", "r3"), ("cleared", "file"), ("retired", "file:7"),
        ("failed", "file"), ("not_blind", "file"),
    ]  # fmt: skip
    assert all(a.message for a in found.set_aside_listed)


def test_labels_that_meet_no_other_are_counted_as_unpaired() -> None:
    rows = [*grid(ann="TTT", ben="T"), judged("2", "j", "T"), judged("9", "j", "T")]
    assert reported(BINARY, rows).set_aside == {"unpaired": 2}  # ann alone on item 3, the judge alone on item 9


def test_coverage_tells_how_the_sources_meet_and_what_could_not_be_read() -> None:
    aside = frame(ASIDE, {"record": ["x:3"], "cause": ["no_item"], "message": ["no item"]})
    rows = [
        label("1", "a", "T"),
        label("2", "a", "T"),
        judged("2", "j", "T"),
        judged("3", "j", "T"),
        label("1", "a", "T", "E"),
    ]
    found = report(BINARY, rows, aside=aside).coverage
    assert (found.items, found.with_humans, found.with_evaluators, found.with_both) == (3, 2, 2, 1)
    assert (found.labels, found.counted) == (4, 4)
    assert found.unread == {"no_item": 1, "unasked: E": 1}
    assert [(a.cause, a.record, a.message) for a in found.unread_listed] == [("no_item", "x:3", "no item")]


# disagreements


def test_disagreements_are_listed_worst_first_and_then_by_item() -> None:
    rows = grid(ann=[1, 3, 5, 2, 4], ben=[1, 4, 1, 2, 3]) + grid(kind="evaluator", j=[1, 3, 5, 4, 4])
    found = reported(study("D=rating:1..5"), rows).disagreements
    assert (found.human_items, found.judge_items, found.pairs) == (3, 4, 3 + 5)
    told = [(d.item, d.distance, d.among_humans, d.with_judge) for d in found.listed]
    assert told == [("3", 1.0, True, True), ("4", 0.5, False, True), ("2", 0.25, True, True), ("5", 0.25, True, True)]


def test_a_disagreement_shows_the_answers_reasons_and_links() -> None:
    rows = [
        label("1", "ann", "T", reason="fine", link="https://ls.example/1", at=1),
        judged("1", "j", "F", reason="rude", version="v1"),
    ]
    (found,) = reported(BINARY, rows).disagreements.listed
    assert [(a.rater, a.kind, a.version, a.value, a.reason, a.link) for a in found.answers] == [
        ("ann", "annotator", "", "T", "fine", "https://ls.example/1"),
        ("j", "evaluator", "v1", "F", "rude", None),
    ]


def test_of_many_disagreements_the_worst_thousand_are_listed() -> None:
    n = 1500
    rows = [label(f"{i:04}", r, v) for i in range(n) for r, v in (("ann", 1), ("ben", 2 if i < 1200 else 3))]
    found = reported(study("D=rating:1..5"), rows, method="none").disagreements
    assert (found.human_items, len(found.listed)) == (n, 1000)
    assert [d.item for d in found.listed[:2]] == ["1200", "1201"]
    assert [d.item for d in found.listed[300:302]] == ["0000", "0001"]


def test_numbers_without_a_step_are_shown_whole() -> None:
    (found,) = reported(study("D=rating:0..1:any"), grid(ann=[0.12345678], ben=[0.12345679])).disagreements.listed
    assert [a.value for a in found.answers] == ["0.12345678", "0.12345679"]


# slices


def test_a_report_can_be_split_by_a_fact_of_its_items() -> None:
    rows = grid(ann="TTFF", ben="TTFT")
    split = reported(BINARY, rows, items=facts(lang={"1": "de", "2": "de", "3": "en", "4": "en"}), by=["lang"])
    told = [
        (s.fact, s.value, s.report.annotators.agreement.value, s.report.annotators.agreement.n_items)
        for s in split.slices
    ]
    assert told == [("lang", "de", 1.0, 2), ("lang", "en", 0.5, 2)]


def test_items_without_the_fact_are_in_no_slice() -> None:
    split = reported(BINARY, grid(ann="TTF", ben="TTF"), items=facts(lang={"1": "de"}), by=["lang"])
    assert [s.report.human_score.n_items for s in split.slices] == [1]
    assert split.human_score.n_items == 3


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ("job", [("7", 2, 1), ("8", 1, 1)]),
        ("guideline", [("g1", 2, 1), ("g2", 1, 1)]),
        ("run", [("r1", 3, 1)]),
    ],
)
def test_a_report_can_be_split_by_a_fact_of_the_labels(fact: str, told: list[tuple[str, int, int]]) -> None:
    rows = [
        label("1", "ann", "T", job="7", version="g1"),
        label("2", "ann", "T", job="7", version="g1"),
        label("3", "ben", "T", job="8", version="g2"),
        judged("1", "j", "T", run="r1"),
        judged("3", "j", "T"),
    ]
    split = reported(BINARY, rows, by=[fact])
    # A judge's labels stand in every job, and people's in every run.
    found = [(s.value, s.report.human_score.details["n_labels"], len(s.report.evaluators)) for s in split.slices]
    assert found == told


def test_whose_job_it_is_goes_by_what_the_study_says_a_rater_is() -> None:
    settings = replace(BINARY, kinds={"bot": "evaluator"})
    rows = [label("1", "ann", "T", job="7"), label("1", "bot", "F", job="9"), label("2", "ben", "T", job="8")]
    assert [s.value for s in reported(settings, rows, by=["job"]).slices] == ["7", "8"]


def test_a_fact_that_nobody_knows_is_refused_with_those_there_are() -> None:
    rows = grid(ann="T")
    with pytest.raises(ValueError, match="no item has the fact 'colour'; there are: guideline, job, lang, run"):
        report(BINARY, rows, items=facts(lang={"1": "de"}), by=["colour"])
    with pytest.raises(ValueError, match="no label has the fact 'job'; there are: guideline, run"):
        report(BINARY, rows, by=["job"])


def test_a_fact_with_too_many_values_is_refused() -> None:
    many = {str(i): f"v{i}" for i in range(101)}
    rows = [label(str(i), "ann", "T") for i in range(101)]
    with pytest.raises(ValueError, match="'trace' has 101 values, more than the 100"):
        report(BINARY, rows, items=facts(trace=many), by=["trace"])


def test_a_study_can_be_limited_to_some_dimensions() -> None:
    both = study("D=binary:T/F", "E=rating:1..5")
    assert [d.name for d in only(both, ["E"]).dimensions] == ["E"]
    assert only(both, []) == both
    with pytest.raises(ValueError, match="there is no dimension 'X'; there are: D, E"):
        only(both, ["X"])


# the audit


def audit() -> pl.DataFrame:
    rows = [
        label("1", "ann", 4, reason="ok", link="https://x", at=1),
        label("1", "ann", 5, at=0),
        label("1", "ben", 2),
        judged("1", "j", 9, version="v1"),
        judged("2", "j", 3, version="v1"),
        label("1", "boss", 4, kind="gold"),
    ]
    return pair_audit(applied(study("D=rating:1..5"), *rows))


def test_the_audit_has_a_row_for_every_possible_pair_with_in_or_out_and_the_cause() -> None:
    told = audit().select("item", "rater_a", "value_a", "rater_b", "value_b", "agreement", "counted", "cause").rows()
    assert sorted(told, key=repr) == sorted(
        [
            ("1", "ann", "4", "ben", "2", 0.5, True, None),
            ("1", "ann", "5", "ben", "2", None, False, "superseded"),
            ("1", "ann", "4", "j", "9", None, False, "failed"),
            ("1", "ann", "5", "j", "9", None, False, "superseded"),
            ("1", "ben", "2", "j", "9", None, False, "failed"),
        ],
        key=repr,
    )


def test_the_audit_shows_reasons_links_and_versions() -> None:
    row = audit().filter(pl.col("counted")).row(0, named=True)
    assert (row["reason_a"], row["link_a"], row["kind_a"], row["version_b"]) == ("ok", "https://x", "annotator", "")
    assert set(audit().filter(pl.col("rater_b") == "j")["version_b"]) == {"v1"}


def test_the_counted_rows_of_the_audit_are_the_reports_pairs() -> None:
    rows = grid(ann="TFTF", ben="TTTF") + grid(kind="evaluator", j="TFFF")
    made, ratings = build(BINARY, Pulled({"file": labels(rows)}), NOW)
    people = pair_audit(ratings).filter((pl.col("kind_a") == "annotator") & (pl.col("kind_b") == "annotator"))
    assert people["agreement"].mean() == made.dimensions[0].annotators.agreement.value
    judge = pair_audit(ratings).filter(pl.col("kind_b") == "evaluator")
    assert judge["agreement"].mean() == made.dimensions[0].evaluators[0].agreement.value


# per item


def test_each_item_with_a_pair_has_its_agreement() -> None:
    rows = grid(ann=[4, 3, 5], ben=[4, 1]) + grid(kind="evaluator", j=[5, GAP, 5], k=[1])
    found = item_agreement(applied(study("D=rating:1..5"), *rows))
    # Item 1: ann-ben, and each judge with each of them; judges among themselves do not count.
    assert found.rows() == [
        ("1", "D", pytest.approx((1 + 0.75 * 2 + 0.25 * 2) / 5), 5, True),
        ("2", "D", 0.5, 1, True),
        ("3", "D", 1.0, 1, False),
    ]


def test_an_evaluator_without_a_live_version_has_no_part_in_it() -> None:
    rows = [label("1", "ann", "T"), judged("1", "j", "F", version="v1"), judged("1", "j", "T", version="v2")]
    assert item_agreement(applied(BINARY, *rows)).is_empty()


def test_an_items_agreement_does_not_tell_in_which_order_its_labels_came() -> None:
    # Added up in the order of the labels, the means of these 15 pairs differ in their last bit.
    rows = [label("1", f"p{i}", v) for i, v in enumerate([0.63, 0.21, 0.38, 0.3, 0.43, 0.43])]
    of = study("D=rating:0..1:any")
    assert item_agreement(applied(of, *rows)).rows() == item_agreement(applied(of, *rows[::-1])).rows()


# the page as it is told elsewhere


def test_a_report_knows_its_study_sources_and_bands() -> None:
    made = report(replace(BINARY, bands="mchugh"), grid(ann="T"))
    assert isinstance(made, Report)
    assert (made.study, made.sources, made.bands, made.generated_at) == ("study", ("file",), "mchugh", NOW)
