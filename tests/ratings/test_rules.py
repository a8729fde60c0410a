"""Which labels count: one test a rule, each with the example that tells two readings apart."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from said import applied, causes, counted, judged, label, labels, reported, study

from calibrate_plugin.ratings.rules import CAUSES, apply

BINARY = study("D=binary:T/F")
RATING = study("D=rating:1..5")


def live(**versions: str) -> dict[tuple[str, str], str]:
    return {("", judge): version for judge, version in versions.items()}


# retired


@pytest.mark.parametrize(
    "why", ["annotator_deleted", "job_deleted", "item_deleted", "run_deleted", "run_failed", "label_deleted"]
)
def test_what_a_source_no_longer_stands_by_does_not_count(why: str) -> None:
    assert causes(BINARY, label("1", "ann", "T", retired=why), label("1", "ben", "T")) == ["retired", None]


def test_what_a_platform_dropped_by_its_retention_still_counts() -> None:
    assert causes(BINARY, label("1", "ann", "T", retired="expired")) == [None]


def test_the_answers_of_a_deleted_user_do_not_count() -> None:
    # The platform keeps the annotation and forgets who gave it.
    assert causes(BINARY, label("1", None, "T"), label("1", "ben", "T")) == ["retired", None]


def test_deleting_an_answer_brings_the_same_persons_older_one_back() -> None:
    rows = label("1", "ann", "T", at=1), label("1", "ann", "F", at=2, retired="label_deleted")
    assert counted(BINARY, *rows) == {("ann", "1"): "T"}


def test_scores_of_a_failed_run_go_and_those_of_a_running_one_count() -> None:
    rows = judged("1", "j", "T", run="r1", at=2, retired="run_failed"), judged("1", "j", "F", run="r0", at=1)
    assert causes(BINARY, *rows) == ["retired", None]


def test_a_deleted_annotator_job_or_run_can_be_declared() -> None:
    ignore = {"annotators": ("ann",), "jobs": ("7",), "runs": ("r1",)}
    rows = (
        label("1", "ann", "T", job="8"),
        label("1", "ben", "T", job="7"),
        label("1", "cat", "T", job="8"),
        judged("1", "j", "T", run="r1"),
        judged("1", "k", "T", run="r2"),
        judged("1", "m", "T"),
    )
    assert causes(replace(BINARY, ignore=ignore), *rows) == ["retired", "retired", None, "retired", None, None]


def test_a_deleted_annotator_is_known_by_the_name_the_study_gives() -> None:
    settings = replace(BINARY, people={("file", "3"): "ann@example.com"}, ignore={"annotators": ("ann@example.com",)})
    assert causes(settings, label("1", "3", "T"), label("1", "4", "T")) == ["retired", None]


# not blind


def test_an_answer_given_after_seeing_the_judges_leaves_before_latest_so_an_older_blind_one_stands() -> None:
    rows = label("1", "ann", "T", at=1), label("1", "ann", "F", at=2, blind=False)
    assert causes(BINARY, *rows) == [None, "not_blind"]
    assert counted(BINARY, *rows) == {("ann", "1"): "T"}


def test_answers_that_are_not_blind_count_where_the_study_says_so() -> None:
    rows = label("1", "ann", "T", at=1), label("1", "ann", "F", at=2, blind=False)
    assert causes(replace(BINARY, count_not_blind=True), *rows) == ["superseded", None]


def test_an_unknown_blindness_counts_and_a_judge_is_never_not_blind() -> None:
    rows = label("1", "ann", "T", blind=None), label("2", "ann", "T", blind=False), judged("1", "j", "T", blind=False)
    assert causes(BINARY, *rows) == [None, "not_blind", None]


def test_retired_comes_before_not_blind() -> None:
    assert causes(BINARY, label("1", "ann", "T", blind=False, retired="job_deleted")) == ["retired"]


# versions


def test_the_live_version_is_filtered_before_latest() -> None:
    # Latest first would leave nothing: the newest score is of another version.
    rows = judged("1", "j", "T", version="v1", at=1), judged("1", "j", "F", version="v2", at=2)
    settings = replace(BINARY, live=live(j="v1"))
    assert causes(settings, *rows) == [None, "other_version"]
    assert counted(settings, *rows) == {("j v1", "1"): "T"}


def test_a_blank_version_is_a_version_of_its_own() -> None:
    rows = judged("1", "j", "T", version=None, at=1), judged("1", "j", "F", version="v2", at=2)
    assert causes(replace(BINARY, live=live(j="v2")), *rows) == ["other_version", None]
    assert causes(replace(BINARY, live=live(j="")), *rows) == [None, "other_version"]
    ratings = applied(BINARY, *rows)
    assert ratings.answers["D"].live == {"j": None}


def test_one_version_is_live_without_being_named() -> None:
    ratings = applied(BINARY, judged("1", "j", "T", version="v7"))
    assert ratings.answers["D"].live == {"j": "v7"}


def test_a_version_that_only_deleted_scores_have_is_none() -> None:
    rows = judged("1", "j", "T", version="v1", retired="run_deleted"), judged("1", "j", "F", version="v2")
    assert applied(BINARY, *rows).answers["D"].live == {"j": "v2"}


def test_with_several_versions_and_none_live_each_stands_apart_with_a_note_and_no_verdict() -> None:
    rows = [label(str(i), rater, "T" if i % 3 else "F") for i in range(1, 13) for rater in ("ann", "ben")]
    rows += [judged(str(i), "j", "T", version=v) for i in range(1, 13) for v in ("v1", "v2")]
    found = reported(BINARY, rows)
    assert [(e.evaluator, e.version, e.live) for e in found.evaluators] == [("j", "v1", None), ("j", "v2", None)]
    assert found.judges == ()  # nobody says which of the two the judge is
    assert found.fleiss_all.n_pairs == 12  # the annotators' pairs alone
    assert found.disagreements.judge_items == 0
    (note,) = found.notes
    assert "j has answered in several versions (v1, v2) and none is named as live" in note


def test_a_live_version_that_nobody_has_answered_in_leaves_nothing_and_a_note() -> None:
    found = reported(replace(BINARY, live=live(j="v9")), [label("1", "ann", "T"), judged("1", "j", "T", version="v1")])
    assert found.evaluators == ()
    assert found.set_aside["other_version"] == 1
    assert found.notes == ("no counted answer of j is of its live version 'v9'",)


def test_the_live_version_is_set_per_evaluator_and_dimension() -> None:
    settings = replace(study("D=binary:T/F", "E=binary:T/F"), live={("", "j"): "v1", ("E", "j"): "v2"})
    rows = [judged("1", "j", "T", field, version=v) for field in "DE" for v in ("v1", "v2")]
    ratings = applied(settings, *rows)
    assert {name: a.live for name, a in ratings.answers.items()} == {"D": {"j": "v1"}, "E": {"j": "v2"}}


def test_a_guideline_version_does_not_split_a_person() -> None:
    rows = label("1", "ann", "T", version="g1", at=1), label("1", "ann", "F", version="g2", at=2)
    assert causes(BINARY, *rows) == ["superseded", None]


# failed


@pytest.mark.parametrize(
    "row",
    [
        judged("1", "j", None, at=2, state="failed"),
        judged("1", "j", None, at=2),
        judged("1", "j", "oh no", at=2),
        judged("1", "j", ["T", "F"], at=2),
        judged("1", "j", "T", at=2, state="skipped"),
        {**judged("1", "j", "", at=2), "value": "{not json"},
    ],
)
def test_a_judges_failed_answer_hides_nothing(row: dict[str, object]) -> None:
    assert causes(BINARY, judged("1", "j", "T", at=1), row) == [None, "failed"]


def test_a_failed_answer_is_listed_with_its_value() -> None:
    found = reported(BINARY, [judged("1", "j", "I cannot help with that", record="s1")])
    (aside,) = found.set_aside_listed
    assert (aside.cause, aside.record, aside.rater, aside.value) == ("failed", "s1", "j", '"I cannot help with that"')


def test_other_version_comes_before_failed() -> None:
    assert causes(replace(BINARY, live=live(j="v1")), judged("1", "j", "zz", version="v2")) == ["other_version"]


# superseded


def test_only_the_latest_answer_counts_by_the_time_it_was_given() -> None:
    # The earlier row in the file is the later answer.
    assert causes(BINARY, label("1", "ann", "T", at=2), label("1", "ann", "F", at=1)) == [None, "superseded"]


def test_the_same_person_in_several_jobs_is_one_person() -> None:
    rows = label("1", "ann", "T", job="7", at=1), label("1", "ann", "F", job="8", at=2)
    assert causes(BINARY, *rows) == ["superseded", None]


def test_ties_of_time_go_by_the_sources_own_sequence() -> None:
    rows = label("1", "ann", "T", at=1, seq=5, record="a9"), label("1", "ann", "F", at=1, seq=4, record="b1")
    assert causes(BINARY, *rows) == [None, "superseded"]


def test_then_by_record_id_where_numbers_compare_as_numbers() -> None:
    # As text "9" would be the later one.
    rows = label("1", "ann", "T", at=1, seq=1, record="9"), label("1", "ann", "F", at=1, seq=1, record="10")
    assert causes(BINARY, *rows) == ["superseded", None]


def test_record_ids_that_are_no_numbers_compare_as_text() -> None:
    rows = label("1", "ann", "T", at=1, seq=1, record="b"), label("1", "ann", "F", at=1, seq=1, record="a")
    assert causes(BINARY, *rows) == [None, "superseded"]


def test_files_without_any_times_count_in_file_order() -> None:
    assert causes(BINARY, label("1", "ann", "T"), label("1", "ann", "F"), label("2", "ann", "F")) == [
        "superseded",
        None,
        None,
    ]


def test_another_item_another_rater_and_another_dimension_supersede_nothing() -> None:
    settings = study("D=binary:T/F", "E=binary:T/F")
    rows = label("1", "a", "T"), label("2", "a", "T"), label("1", "b", "T"), label("1", "a", "T", "E")
    assert [a.counted.height for a in applied(settings, *rows).answers.values()] == [3, 1]


def test_items_called_nothing_and_0_are_items() -> None:
    rows = label("", "ann", "T"), label("0", "ann", "F"), label("", "ben", "T"), label("0", "ben", "F")
    assert causes(BINARY, *rows) == [None] * 4


def test_a_label_without_an_item_meets_no_other_and_is_counted_as_such() -> None:
    rows = label(None, "ann", "T"), label(None, "ann", "F"), label(None, "ben", "T"), label("1", "ben", "T")
    assert causes(BINARY, *rows) == ["no_item", "no_item", "no_item", None]
    found = reported(BINARY, list(rows))
    assert found.set_aside == {"no_item": 3, "unpaired": 1}
    assert found.human_score.n_items == 1


# cleared, rejected, abstained


@pytest.mark.parametrize("state", ["cleared", "skipped"])
def test_clearing_or_skipping_hides_the_older_answer(state: str) -> None:
    rows = label("1", "ann", "T", at=1), label("1", "ann", None, at=2, state=state)
    assert causes(BINARY, *rows) == ["superseded", "cleared"]


def test_answering_again_after_clearing_counts() -> None:
    rows = label("1", "ann", None, at=1, state="cleared"), label("1", "ann", "T", at=2)
    assert causes(BINARY, *rows) == ["superseded", None]


def test_a_persons_answer_outside_the_scale_hides_the_older_one() -> None:
    # A judge's would not: see the rule of failed answers.
    rows = label("1", "ann", 4, at=1), label("1", "ann", 6, at=2)
    assert causes(RATING, *rows) == ["superseded", "rejected"]


def test_an_answer_outside_its_scale_is_set_aside_and_never_clamped() -> None:
    assert causes(RATING, label("1", "a", 6), label("1", "b", 0), label("1", "c", 4.5), label("1", "d", 5)) == [
        "rejected",
        "rejected",
        "rejected",
        None,
    ]


def test_unsure_is_no_answer_is_counted_and_hides_the_older_one() -> None:
    (dimension,) = BINARY.dimensions
    settings = replace(BINARY, dimensions=(replace(dimension, abstain=("unsure",)),))
    rows = label("1", "ann", "T", at=1), label("1", "ann", "Unsure ", at=2), judged("1", "j", "unsure")
    assert causes(settings, *rows) == ["superseded", "abstained", "abstained"]
    assert reported(settings, list(rows)).set_aside == {"superseded": 1, "abstained": 2}


# samples and executions


def test_a_repeat_without_a_mark_is_a_new_answer() -> None:
    rows = judged("1", "j", "T"), judged("1", "j", "F"), judged("1", "j", "F")
    assert causes(BINARY, *rows) == ["superseded", "superseded", None]


def test_samples_are_one_answer_their_mode() -> None:
    rows = [judged("1", "j", value, sample=str(i)) for i, value in enumerate("FTFTT")]
    assert counted(BINARY, *rows) == {("j", "1"): "T"}
    assert sorted(c or "counts" for c in causes(BINARY, *rows)) == ["counts", *["sampled"] * 4]


def test_the_mode_may_be_none_of_the_newest_samples_answer() -> None:
    rows = [judged("1", "j", value, sample=str(i)) for i, value in enumerate("aab")]
    assert counted(study("D=nominal:a/b/c"), *rows) == {("j", "1"): "a"}


def test_samples_on_an_ordered_scale_are_their_median() -> None:
    # The mode would be 1.
    rows = [judged("1", "j", value, sample=str(i)) for i, value in enumerate([1, 1, 3, 4, 5])]
    assert counted(RATING, *rows) == {("j", "1"): "3"}
    words = [judged("1", "j", v, sample=str(i)) for i, v in enumerate(["low", "low", "mid", "high", "high"])]
    assert counted(study("D=ordinal:low/mid/high"), *words) == {("j", "1"): "mid"}


def test_samples_of_a_rating_without_a_step_are_the_median_number() -> None:
    rows = [judged("1", "j", value, sample=str(i)) for i, value in enumerate([0.1, 0.4, 0.2, 0.9])]
    assert counted(study("D=rating:0..1:any"), *rows)["j", "1"] == pytest.approx(0.3)


def test_a_tie_of_samples_is_counted_and_is_no_answer() -> None:
    rows = [judged("1", "j", value, sample=str(i)) for i, value in enumerate("TFFT")]
    assert causes(BINARY, *rows) == ["sampled", "sampled", "sampled", "tied"]
    middle = [judged("1", "j", value, sample=str(i)) for i, value in enumerate([2, 2, 3, 3])]
    assert "tied" in causes(RATING, *middle)
    assert counted(RATING, *middle) == {}


def test_failed_samples_are_no_part_of_the_answer() -> None:
    rows = [judged("1", "j", v, sample=str(i)) for i, v in enumerate(["T", "zz", "zz"])]
    assert causes(BINARY, *rows) == [None, "failed", "failed"]
    two = [judged("1", "j", v, sample=str(i)) for i, v in enumerate(["T", "F", "zz", "T"])]
    assert counted(BINARY, *two) == {("j", "1"): "T"}


def test_the_newest_set_of_samples_counts_alone() -> None:
    # All six together would be T.
    rows = [judged("1", "j", value, sample=str(i), run="r1", at=1) for i, value in enumerate("TTT")]
    rows += [judged("1", "j", value, sample=str(i), run="r2", at=2) for i, value in enumerate("FFT")]
    assert counted(BINARY, *rows) == {("j", "1"): "F"}
    assert causes(BINARY, *rows)[:3] == ["superseded"] * 3


def test_a_sample_drawn_again_replaces_the_earlier_one_of_its_set() -> None:
    rows = [
        judged("1", "j", v, sample=s, at=i) for i, (v, s) in enumerate([("T", "0"), ("T", "1"), ("F", "0"), ("F", "2")])
    ]
    assert counted(BINARY, *rows) == {("j", "1"): "F"}
    assert causes(BINARY, *rows)[0] == "superseded"


def test_scores_that_share_one_execution_are_one_answer() -> None:
    rows = [judged("1", "j", v, execution="e1", at=i) for i, v in enumerate("FTT")]
    assert counted(BINARY, *rows) == {("j", "1"): "T"}
    tied = [judged("1", "j", v, execution="e1", at=i) for i, v in enumerate("FT")]
    assert causes(BINARY, *tied) == ["sampled", "tied"]


def test_the_newest_execution_counts_alone() -> None:
    rows = [judged("1", "j", v, execution="e1", at=1) for v in "TTT"] + [judged("1", "j", "F", execution="e2", at=2)]
    assert counted(BINARY, *rows) == {("j", "1"): "F"}


def test_a_single_answer_after_a_set_of_samples_replaces_all_of_it() -> None:
    rows = [judged("1", "j", "T", sample=str(i), at=1) for i in range(3)] + [judged("1", "j", "F", at=2)]
    assert causes(BINARY, *rows) == ["superseded", "superseded", "superseded", None]


def test_a_tied_set_hides_the_older_answer() -> None:
    rows = [judged("1", "j", "T", at=1), *[judged("1", "j", v, sample=str(i), at=2) for i, v in enumerate("TF")]]
    assert counted(BINARY, *rows) == {}


def test_samples_of_a_person_are_answers_like_any_other() -> None:
    rows = [label("1", "ann", v, sample=str(i)) for i, v in enumerate("TTF")]
    assert causes(BINARY, *rows) == ["superseded", "superseded", None]


# the order in which a pair was shown

PAIR = study("D=preference:A/B/tie")


def test_both_orders_that_agree_are_one_answer() -> None:
    rows = judged("1", "j", "A", order="AB"), judged("1", "j", "A", order="BA")
    assert counted(PAIR, *rows) == {("j", "1"): "A"}
    assert sorted(c or "" for c in causes(PAIR, *rows)) == ["", "sampled"]


def test_an_answer_that_flips_with_the_order_is_no_answer_and_counted() -> None:
    rows = judged("1", "j", "A", order="AB"), judged("1", "j", "B", order="BA")
    assert causes(PAIR, *rows) == ["flipped", "flipped"]


def test_an_answer_that_flips_is_a_tie_where_the_study_says_so() -> None:
    (dimension,) = PAIR.dimensions
    settings = replace(PAIR, dimensions=(replace(dimension, flipped="tie"),))
    rows = judged("1", "j", "A", order="AB"), judged("1", "j", "B", order="BA")
    assert counted(settings, *rows) == {("j", "1"): "tie"}
    assert causes(settings, *rows).count("flipped") == 1


def test_an_item_judged_in_one_order_only_is_used() -> None:
    rows = judged("1", "j", "A", order="AB"), judged("2", "j", "B", order="AB"), judged("2", "j", "zz", order="BA")
    assert counted(PAIR, *rows) == {("j", "1"): "A", ("j", "2"): "B"}


def test_the_order_is_part_of_the_key_until_the_orders_are_one_answer() -> None:
    # Without it the later answer would simply win.
    rows = (
        judged("1", "j", "B", order="AB", at=1),
        judged("1", "j", "A", order="AB", at=2),
        judged("1", "j", "A", order="BA", at=0),
    )
    assert counted(PAIR, *rows) == {("j", "1"): "A"}
    assert causes(PAIR, *rows)[0] == "superseded"


def test_samples_collapse_within_each_order_first() -> None:
    rows = [judged("1", "j", v, order="AB", sample=str(i)) for i, v in enumerate("AAB")]
    rows += [judged("1", "j", v, order="BA", sample=str(i)) for i, v in enumerate("BAA")]
    assert counted(PAIR, *rows) == {("j", "1"): "A"}


# gold


def test_gold_is_never_a_rater() -> None:
    rows = [label("1", "ann", "T"), label("1", "ben", "F"), label("1", "boss", "T", kind="gold")]
    found = reported(BINARY, rows)
    assert [r.name for r in found.raters] == ["ann", "ben"]
    assert found.annotators.counted == ("ann", "ben")
    assert found.annotators.agreement.n_pairs == 1
    assert found.human_score.details["n_labels"] == 2
    assert found.set_aside == {}


def test_the_study_may_call_a_rater_gold() -> None:
    settings = replace(BINARY, kinds={"final": "gold"})
    found = reported(settings, [label("1", "ann", "T"), label("1", "ben", "F"), label("1", "final", "T")])
    assert [r.name for r in found.raters] == ["ann", "ben"]


def test_a_persons_ruling_does_not_hide_what_the_person_had_answered() -> None:
    rows = label("1", "ann", "T", at=1), label("1", "ann", "F", kind="gold", at=2)
    assert causes(BINARY, *rows) == [None, None]


# who is who


def test_one_person_with_ids_in_two_sources_is_one_rater() -> None:
    settings = replace(BINARY, people={("a", "3"): "Ann", ("b", "x"): "Ann"})
    ratings = apply(settings, {"a": labels([label("1", "3", "T", at=1)]), "b": labels([label("1", "x", "F", at=2)])})
    assert [r.name for r in ratings.answers["D"].raters] == ["Ann"]
    assert ratings.answers["D"].frame["cause"].to_list() == ["superseded", None]


def test_the_same_id_in_two_sources_is_one_rater_unless_its_server_is_another() -> None:
    sources = {"a": labels([label("1", "3", "T")]), "b": labels([label("1", "3", "F")])}
    assert [r.name for r in apply(BINARY, sources).answers["D"].raters] == ["3"]
    apart = apply(replace(BINARY, namespaces={"b": "b:"}), sources)
    assert [r.name for r in apart.answers["D"].raters] == ["3", "b:3"]


def test_what_the_study_says_of_an_id_holds_in_every_source_of_that_server() -> None:
    settings = replace(BINARY, people={("a", "3"): "Ann"})
    ratings = apply(settings, {"a": labels([label("1", "3", "T")]), "b": labels([label("2", "3", "F")])})
    assert [r.name for r in ratings.answers["D"].raters] == ["Ann"]


def test_two_people_of_one_name_stay_two() -> None:
    names = {"file": {"3": "Ann", "7": "Ann", "8": "Ben"}}
    ratings = applied(BINARY, label("1", "3", "T"), label("1", "7", "T"), label("1", "8", "T"), names=names)
    assert [r.name for r in ratings.answers["D"].raters] == ["Ann (3)", "Ann (7)", "Ben"]


def test_somebody_who_is_called_like_a_declared_person_is_not_that_person() -> None:
    settings = replace(BINARY, people={("file", "3"): "Ann"})
    ratings = applied(settings, label("1", "3", "T"), label("1", "7", "F"), names={"file": {"7": "Ann"}})
    assert [r.name for r in ratings.answers["D"].raters] == ["Ann", "Ann (7)"]
    assert ratings.answers["D"].counted.height == 2


def test_fields_answer_the_dimensions_that_the_study_names() -> None:
    settings = replace(study("Safety=binary:T/F"), fields={("file", "safe?"): ("Safety",), ("file", "D"): ()})
    ratings = applied(
        settings, label("1", "a", "T", "safe?"), label("1", "a", "T", "Safety"), label("1", "a", "T", "D")
    )
    assert ratings.answers["Safety"].frame.height == 2
    assert ratings.unasked == {"D": 1}


# run reports


def run_rows() -> list[dict[str, object]]:
    return [
        judged("1", "j", "T", version="v1", run="r1", at=1),
        judged("2", "j", "F", version="v1", run="r1", at=1, retired="item_deleted"),
        judged("3", "j", "zz", version="v1", run="r1", at=1),
        judged("1", "j", "F", version="v2", run="r2", at=2),
        judged("4", "j", "F", version="v2", run="r2", at=2),
        label("1", "ann", "F", at=0),
        label("1", "ann", "T", at=3),
        label("2", "ann", "F", at=0, retired="item_deleted"),
        label("2", "ben", "F", at=0, retired="annotator_deleted"),
        label("2", "cat", "F", at=0, retired="job_deleted"),
        label("3", "ann", "T", at=0),
        label("4", "ann", "T", at=0),
    ]


def test_a_run_report_uses_the_runs_items_scores_and_version_with_todays_human_labels() -> None:
    settings = replace(BINARY, live=live(j="v2"))
    found = reported(settings, run_rows(), run="r1")
    (evaluator,) = found.evaluators
    assert (evaluator.version, evaluator.live) == ("v1", False)
    assert evaluator.score.n_items == 2  # items 1 and 2; the answer to item 3 failed
    assert evaluator.agreement.value == 1.0  # ann's answer of today to item 1 is T
    assert found.human_score.n_items == 3  # item 4 is not the run's


def test_items_deleted_since_stay_in_a_run_report_but_not_the_labels_of_deleted_people_and_jobs() -> None:
    ratings = applied(BINARY, *run_rows(), run="r1")
    answers = ratings.answers["D"]
    found = answers.frame.filter(pl.col("row").is_in([7, 8, 9])).sort("row")["cause"].to_list()
    assert found == [None, "retired", "retired"]
    without = causes(BINARY, *run_rows())
    assert without[1] == without[7] == "retired"


def test_a_runs_items_are_its_items_on_whatever_dimension_it_scored_them() -> None:
    settings = study("D=binary:T/F", "E=binary:T/F")
    rows = [judged("1", "j", "T", "D", run="r1"), label("1", "ann", "T", "E"), label("2", "ann", "T", "E")]
    ratings = applied(settings, *rows, run="r1")
    assert ratings.answers["E"].counted.height == 1


def test_a_run_that_nobody_knows_has_no_labels() -> None:
    found = reported(BINARY, run_rows(), run="r9")
    assert found.human_score.reason == "no_labels"
    assert found.evaluators == ()
    assert reported(BINARY, [label("1", "ann", "T")], run="r9").human_score.reason == "no_labels"


# the whole


def test_every_cause_is_explained() -> None:
    assert all(CAUSES.values())
    assert list(CAUSES)[:3] == ["no_item", "retired", "not_blind"]


def test_a_study_without_sources_or_labels_is_empty() -> None:
    assert apply(BINARY, {}).answers["D"].frame.is_empty()
    assert applied(BINARY).answers["D"].counted.is_empty()
