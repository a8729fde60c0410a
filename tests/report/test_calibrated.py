"""The calibration beside a report: which numbers are judged, and why the others are not."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from calibrated_cases import as_json, by_judge, facts_of, judge_of, made, paradox, said_by, whole
from said import grid, judged, label, report, study

from calibrate_plugin import scales
from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.ceiling import ceiling
from calibrate_plugin.calibration.panel import panel
from calibrate_plugin.model import Sampling
from calibrate_plugin.report import calibration_words, json, terminal

FAVOURABLE = ("like another annotator", ": passed;")


def sentences(report: Any) -> str:
    (dimension,) = report.dimensions
    found = whole(report)
    return "\n".join(
        f"{said.title}: {said.text}"
        for judge in (*found.judges, *found.silent)
        for said in calibration_words.of_judge(judge, dimension.scale)
    )


def no_favour(report: Any) -> str:
    """The sentences of a report in which nothing may be praised."""
    text = sentences(report)
    assert not any(word in text for word in FAVOURABLE), text
    for judge in whole(report).judges:
        assert judge.beside_humans is None or judge.beside_humans.verdict.word != "like another annotator"
        assert judge.alt_test is None or judge.alt_test.passed is not True
    return text


def panelled(n: int, seed: int = 7, sight: float = 0.9) -> dict[str, list[str]]:
    """Three people and a judge who see what is there ``sight`` of the time, T and F alike frequent."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.5
    return {
        who: ["T" if (t if rng.random() < sight else rng.random() < 0.5) else "F" for t in truth]
        for who in ("asha", "ben", "chen", "judge")
    }


def rows_of(answers: dict[str, list[str]]) -> list[dict[str, Any]]:
    people = {who: given for who, given in answers.items() if who != "judge"}
    return grid(**people) + grid(kind="evaluator", judge=answers["judge"])


# --- a random sample of the study's own


def test_what_people_labelled_beside_a_random_sample_is_no_part_of_it() -> None:
    # Of 100 judged items 40 were drawn, and people pass 30 of them; 20 more they had picked by hand, and fail all.
    answers = "T" * 30 + "F" * 10 + "F" * 20
    rows = grid(ann=answers, ben=answers) + grid(kind="evaluator", judge=answers + "T" * 40)
    drawn = [str(n) for n in range(1, 41)]
    items = facts_of(sample=dict.fromkeys(drawn, 1), probability=dict.fromkeys(drawn, 0.4))
    plain = made(study(design=Sampling("random")), rows)
    found = made(study(design=Sampling("random")), rows, items)
    assert whole(plain).sampled.unknown == 0
    assert (whole(found).sampled.chosen, whole(found).sampled.unknown) == (40, 20)
    (all_of, *_), (own, *_) = (judge_of(one).corrected_rate for one in (plain, found))
    assert (all_of.n_gold, own.n_gold) == (60, 40)
    assert judge_of(found).gold_numbers.measures["accuracy"].n_items == 40
    assert judge_of(found).beside_humans.difference.n_items == 40


# --- beside the humans


def test_the_seeds_page_has_its_difference_and_no_verdict_on_four_items() -> None:
    rows = grid(Asha="TTFT", Ben="TFFT") + grid(kind="evaluator", judge="TTFF")
    beside = judge_of(made(study(), rows)).beside_humans
    assert beside is not None
    assert (beside.human_human.mean.value, beside.judge_human.mean.value, beside.difference.value) == (0.5, 0.25, -0.25)
    assert (beside.verdict.word, beside.verdict.reason) == (None, "too_few_items")


def test_the_reports_numbers_are_those_of_the_core() -> None:
    answers = panelled(200)
    found = judge_of(made(study(), rows_of(answers))).beside_humans
    levels = {who: [0 if a == "T" else 1 for a in given] for who, given in answers.items()}
    judge = {"judge": levels.pop("judge")}
    told = ceiling(panel(scales.parse("D=binary:T/F").scale, levels, judge), 3, Resampling())
    assert found is not None and found.difference.value == told.difference.value
    assert found.verdict.word == told.verdict.word == "like another annotator"
    assert found.difference.interval is not None and told.difference.interval is not None
    assert found.difference.interval.low == pytest.approx(told.difference.interval.low, abs=0.03)


def test_a_judge_like_the_others_is_said_to_be_like_these_annotators_only() -> None:
    text = sentences(made(study(), rows_of(panelled(300))))
    assert "like another annotator. Mean kappa with the annotators" in text
    assert "It speaks for these annotators only: asha, ben, chen." in text and "margin 0.1" in text
    assert "Alternative annotator test: passed; it wins over 3 of 3 annotators" in text


def test_the_margin_of_the_study_decides() -> None:
    rows = rows_of(panelled(300))
    wide, narrow = (judge_of(made(study(margin=m), rows)).beside_humans for m in (0.3, 0.001))
    assert wide is not None and narrow is not None
    assert (wide.verdict.word, wide.verdict.margin) == ("like another annotator", 0.3)
    assert narrow.verdict.margin == 0.001 and narrow.verdict.word == "cannot tell yet"
    assert narrow.verdict.more_items is not None and narrow.verdict.more_items > 0


def test_versions_of_which_none_is_live_stand_apart_without_a_verdict() -> None:
    answers = panelled(200)
    people = {who: answers[who] for who in ("asha", "ben", "chen")}
    rows = grid(**people)
    for version in ("v1", "v2"):
        rows += [judged(str(i), "judge", a, version=version) for i, a in enumerate(answers["judge"], 1)]
    found = made(study(design=Sampling("random")), rows)
    assert no_favour(found).count("none is named as live") >= 2
    for judge in whole(found).judges:
        assert judge.beside_humans is not None and judge.beside_humans.verdict.reason == "no_live_version"
        assert judge.alt_test is not None and judge.alt_test.reason == "no_live_version"
        assert [r.rate.reason for r in judge.corrected_rate] == ["no_live_version"]
    (pair,) = whole(found).judges_compared
    assert (pair.a, pair.b, pair.kappa_difference.value) == ("judge v1", "judge v2", 0.0)


# --- nothing is good by absence of evidence


def test_one_annotator_is_no_ceiling() -> None:
    answers = panelled(200)
    found = made(study(), grid(asha=answers["asha"]) + grid(kind="evaluator", judge=answers["judge"]))
    text = no_favour(found)
    assert "no human ceiling: no item was answered by two annotators" in text
    judge = judge_of(found)
    assert judge.alt_test is not None and judge.alt_test.reason == "too_few_annotators"
    # A majority of one is nobody's, so there is no gold either.
    assert judge.gold_numbers is not None and judge.gold_numbers.measures["accuracy"].value is None
    assert whole(found).gold.counts == {"decided": 0, "tied": 0, "too_few": 200}


def test_one_class_shows_nothing() -> None:
    found = made(study(), grid(asha="T" * 60, ben="T" * 60, chen="T" * 60) + grid(kind="evaluator", judge="T" * 60))
    no_favour(found)
    judge = judge_of(found)
    assert judge.beside_humans is not None and judge.beside_humans.verdict.word is None
    assert judge.beside_humans.verdict.reason == "same_answer"
    assert judge.gold_numbers is not None and judge.gold_numbers.measures["tnr"].reason == "one_class"


def test_all_ties_leave_no_gold() -> None:
    found = made(study(), grid(asha="TF" * 30, ben="FT" * 30) + grid(kind="evaluator", judge="TF" * 30))
    assert whole(found).gold.counts == {"decided": 0, "tied": 60, "too_few": 0}
    numbers = judge_of(found).gold_numbers
    assert numbers is not None and {m.value for m in numbers.measures.values()} == {None}
    assert calibration_words.gold_words(whole(found).gold, found.dimensions[0].scale).endswith("left out 60 tied")


def test_a_judge_all_of_whose_samples_failed_is_told_as_silent() -> None:
    answers = panelled(40)
    rows = grid(asha=answers["asha"], ben=answers["ben"])
    rows += [judged(str(i), "judge", "???", sample=str(k)) for i in range(1, 41) for k in range(3)]
    found = made(study(), rows)
    no_favour(found)
    (silent,) = whole(found).silent
    assert (silent.evaluator, silent.coverage.asked, silent.coverage.answered, silent.coverage.failed) == (
        "judge",
        40,
        0,
        40,
    )
    assert silent.coverage.share.value == 0 and silent.beside_humans is None
    told = as_json(found)["dimensions"][0]["judges_without_answers"]
    assert told[0]["evaluator"] == "judge" and told[0]["coverage"]["failed"] == 40 and told[0]["against_gold"] is None
    assert "judge: gave no answer that counts" in terminal.render(found)


@pytest.mark.parametrize("fails", [3, 8, 40])
def test_a_constant_judge_is_never_praised(fails: int) -> None:
    people = "F" * fails + "T" * (100 - fails)
    rows = grid(asha=people, ben=people, chen=people) + grid(kind="evaluator", judge="T" * 100)
    no_favour(made(study(), rows))


def test_temperature_0_is_refused_as_confidence() -> None:
    answers = panelled(40)
    rows = grid(asha=answers["asha"], ben=answers["ben"])
    rows += [judged(str(i), "judge", a, sample=str(k)) for i, a in enumerate(answers["judge"], 1) for k in range(5)]
    found = judge_of(made(study(), rows))
    assert found.draws is not None and (found.draws.ece.value, found.draws.ece.reason) == (None, "never_differs")
    assert "temperature 0" in sentences(made(study(), rows))


def test_a_judge_that_abstains_on_the_hard_half_is_not_praised_for_the_easy_one() -> None:
    rng = np.random.default_rng(3)
    truth = ["T" if rng.random() < 0.5 else "F" for _ in range(200)]
    people = {
        who: [t if i < 100 or rng.random() < 0.6 else "TF"[t == "T"] for i, t in enumerate(truth)]
        for who in ("asha", "ben", "chen")
    }
    spec = replace(scales.parse("D=binary:T/F"), abstain=("unsure",))
    judge = [*truth[:100], *["unsure"] * 100]
    found = made(replace(study(), dimensions=(spec,)), grid(**people) + grid(kind="evaluator", judge=judge))
    text = no_favour(found)
    assert "100 unanswered items as wrong" in text and "answered 50 % (43 to 57 %) of 200 items: 100 abstained" in text
    beside, test = judge_of(found).beside_humans, judge_of(found).alt_test
    assert beside is not None and beside.verdict.reason == "unanswered"
    assert test is not None and test.reason == "unanswered"


def test_gold_sampled_by_the_judges_label_without_weights_is_not_judged() -> None:
    rows, _ = paradox(("asha", "ben", "chen"), "annotator")
    found = made(study(design=by_judge()), rows)
    text = no_favour(found)
    judge = judge_of(found)
    assert judge.beside_humans is not None and judge.beside_humans.verdict.reason == "no_weights"
    assert judge.alt_test is not None and judge.alt_test.reason == "wrong_design"
    numbers = judge.gold_numbers
    assert numbers is not None
    assert {n: m.reason for n, m in numbers.measures.items() if m.value is None} == dict.fromkeys(
        ("accuracy", "kappa", "recall", "f1", "tpr", "tnr"), "no_weights"
    )
    assert numbers.measures["precision"].value == pytest.approx(48 / 50)  # gold given the judge is kept
    assert "inclusion probabilities" in text
    assert judge.corrected_rate[0].rate.value == pytest.approx(0.922)  # and so is the rate, stratum by stratum


# --- the sampling paradox (practice.md 3.4)


def test_a_sample_drawn_by_the_judges_label_is_judged_by_its_weighted_numbers_only() -> None:
    rows, facts = paradox()
    found = judge_of(made(study(design=by_judge()), rows, facts))
    against, numbers = found.against_gold, found.gold_numbers
    assert against is not None and numbers is not None and numbers.weighted
    assert against.left_out.kappa.value == pytest.approx(0.760, abs=5e-4)
    assert against.left_out.accuracy.value == pytest.approx(0.880)
    told = {name: m.value for name, m in numbers.measures.items()}
    assert told["kappa"] == pytest.approx(0.601, abs=5e-4)
    assert told["accuracy"] == pytest.approx(0.952)
    assert (told["tpr"], told["tnr"]) == (pytest.approx(0.9892, abs=5e-5), pytest.approx(0.5128, abs=5e-5))
    assert all(m.interval is not None for n, m in numbers.measures.items())
    (rate,) = found.corrected_rate
    assert rate.method == "post-stratification" and rate.rate.value == pytest.approx(0.922)
    assert rate.observed.value == pytest.approx(0.95) and rate.rate.details["se"] == pytest.approx(0.0265, abs=5e-5)
    everywhere = {n.name: n.measure.value for n in whole(made(study(design=by_judge()), rows, facts)).numbers()}
    assert everywhere["against_gold.kappa"] == pytest.approx(0.601, abs=5e-4)


def test_the_verdict_speaks_of_the_weighted_difference() -> None:
    rows, facts = paradox(("asha", "ben"), "annotator")
    beside = judge_of(made(study(design=by_judge()), rows, facts)).beside_humans
    assert beside is not None and beside.weighted is not None
    assert beside.difference.value == pytest.approx(-0.240, abs=5e-4)
    assert beside.weighted.value == pytest.approx(-0.399, abs=5e-4)
    assert beside.verdict.word == "below the annotators"


def test_labelled_items_without_a_probability_stand_outside_of_weighted_numbers() -> None:
    rows, facts = paradox()
    rows += [label("999", "expert", "F", kind="gold")]
    found = made(study(design=by_judge()), rows, facts)
    sampled = whole(found).sampled
    assert sampled is not None and (sampled.chosen, sampled.unknown) == (100, 1)
    numbers = judge_of(found).gold_numbers
    assert numbers is not None and numbers.measures["accuracy"].value == pytest.approx(0.952)
    assert "1 labelled item without one left out" in " ".join(terminal.render(found).split())


def test_a_sample_of_other_items_says_nothing_here() -> None:
    rows = rows_of(panelled(100))
    facts = facts_of(stratum={"elsewhere": "T"}, probability={"elsewhere": 0.5})
    found = made(study(design=by_judge()), rows, facts)
    assert whole(found).sampled is None
    beside = judge_of(found).beside_humans
    assert beside is not None and beside.weighted is None and beside.verdict.word is not None


def test_probabilities_that_are_none_are_not_used() -> None:
    rows, _ = paradox()
    facts = facts_of(probability={"0": "0", "1": "-1", "2": "nan", "3": "often", "4": "2"})
    found = judge_of(made(study(design=by_judge()), rows, facts))
    assert found.gold_numbers is not None and not found.gold_numbers.weighted


# --- against gold


def test_the_positive_class_is_the_declared_one() -> None:
    # Seed 001: 60 human fails, 66 grader fails, 48 both, of 200.
    rows = said_by("grader", "F" * 48 + "T" * 12 + "F" * 18 + "T" * 122)
    rows += said_by("person", "F" * 60 + "T" * 140, kind="gold")
    plain = study()
    fails = replace(plain, dimensions=(replace(plain.dimensions[0], positive="F"),))
    first, second = (judge_of(made(s, rows), "grader").gold_numbers for s in (plain, fails))
    assert first is not None and second is not None and (first.positive, second.positive) == ("T", "F")
    names = ("precision", "recall", "f1")
    assert [round(second.measures[n].value or 0, 4) for n in names] == [0.7273, 0.8, 0.7619]
    assert first.measures["recall"].value == pytest.approx(122 / 140)
    assert first.measures["kappa"].value == second.measures["kappa"].value == pytest.approx(0.6528, abs=5e-5)


def test_gold_is_adjudicated_where_there_is_any_else_the_majority_unless_the_study_says_whose() -> None:
    rows = rows_of(panelled(60))
    assert whole(made(study(), rows)).gold.rule == "majority"
    adjudicated = rows + said_by("lead", "T" * 30 + "F" * 30, kind="gold")
    assert whole(made(study(), adjudicated)).gold.rule == "adjudicated"
    assert whole(made(study(gold="majority"), adjudicated)).gold.rule == "majority"
    one = whole(made(study(gold="ben"), adjudicated)).gold
    assert (one.rule, one.source) == ("single", "ben")
    with pytest.raises(ValueError, match=r"study.gold is 'dora'.*asha, ben, chen"):
        made(study(gold="dora"), rows)


def test_failed_answers_are_told_both_ways() -> None:
    rows = said_by("judge", "T" * 45 + "F" * 45) + said_by("lead", "T" * 45 + "F" * 55, kind="gold")
    rows += [judged(str(i), "judge", "???") for i in range(91, 101)]
    text = sentences(made(study(), rows))
    assert "10 items with gold and no answer: accuracy 100 % (96 to 100 %) without them, 90 % (83 to 94 %) with" in text


def test_ordered_scales_have_errors_and_ratings_an_intraclass_correlation() -> None:
    rows = grid(asha=[5, 4, 3, 2, 1, 5, 4, 3, 2, 1, 3, 4], ben=[5, 4, 3, 2, 2, 5, 4, 3, 2, 1, 3, 4])
    rows += grid(kind="evaluator", judge=[5, 5, 3, 2, 1, 5, 5, 3, 2, 1, 3, 4])
    found = made(study("D=rating:1..5"), rows)
    numbers = judge_of(found).gold_numbers
    assert numbers is not None and numbers.positive is None
    assert numbers.measures["mae"].value == pytest.approx(2 / 11)  # the tie on item 5 is left out
    assert numbers.measures["bias"].value == pytest.approx(2 / 11) and numbers.measures["within_one"].value == 1
    icc = whole(found).icc
    assert icc is not None and icc.single.value is not None and icc.single.value > 0.9
    assert "tpr" not in numbers.measures
    assert whole(made(study(), rows_of(panelled(20)))).icc is None


def test_a_judge_that_gives_numbers_has_a_threshold_table_told_on_the_test_items() -> None:
    rng = random.Random(1)
    truth = [rng.random() < 0.5 for _ in range(200)]
    scores = [round(min(1, max(0, rng.gauss(0.7 if t else 0.3, 0.15))), 2) for t in truth]
    rows = [judged(str(i), "judge", s) for i, s in enumerate(scores)]
    rows += [label(str(i), "lead", "T" if t else "F", kind="gold") for i, t in enumerate(truth)]
    split = {str(i): "dev" if i % 2 else "test" for i in range(200)}
    without, found = judge_of(made(study(), rows)), judge_of(made(study(), rows, facts_of(split=split)))
    assert without.thresholds is not None and without.thresholds.test_reason == "no_split"
    assert "no evidence yet for that threshold" in sentences(made(study(), rows))
    assert found.thresholds is not None and found.thresholds.test is not None
    assert 0.35 < (found.thresholds.chosen or 0) < 0.65 and found.thresholds.test.accuracy.n_items == 100
    spec = replace(scales.parse("D=binary:T/F"), pass_if={"*": scales.threshold(">= 0.5")})
    decided = made(replace(study(), dimensions=(spec,)), rows)
    assert judge_of(decided).thresholds is None and not whole(decided).silent


# --- confidence, position


def test_draws_are_grouped_by_their_confidence() -> None:
    # practice.md 3.8: .6 x 10 (5 right), .8 x 10 (6), 1.0 x 20 (18): ECE .125, Brier .185
    rows: list[dict[str, Any]] = []
    for item, (agreeing, right) in enumerate(
        [(3, i < 5) for i in range(10)] + [(4, i < 6) for i in range(10)] + [(5, i < 18) for i in range(20)]
    ):
        rows += [judged(str(item), "judge", "T" if k < agreeing else "F", sample=str(k)) for k in range(5)]
        rows.append(label(str(item), "lead", "T" if right else "F", kind="gold"))
    draws = judge_of(made(study(), rows)).draws
    assert draws is not None
    assert (draws.ece.value, draws.brier.value) == (pytest.approx(0.125), pytest.approx(0.185))
    assert [(b.low, b.n) for b in draws.bins] == [(0.6, 10), (0.8, 10), (1.0, 20)]


def test_stated_confidence_outside_0_to_1_is_none() -> None:
    rows = [judged(str(i), "judge", "T", confidence=c) for i, c in enumerate([0.9] * 20 + [7.0, -1.0, float("nan")])]
    rows += [label(str(i), "lead", "T" if i % 4 else "F", kind="gold") for i in range(23)]
    stated = judge_of(made(study(), rows)).stated
    assert stated is not None and stated.ece.n_items == 20 and stated.gap.value == pytest.approx(0.15)


def test_both_orders_compare_responses_not_slots() -> None:
    # practice.md 3.9: ten pairs, 6 consistent, 2 to the first slot, 1 to the second, 1 tie changes; 11 of 19.
    one, two = "AAAAAAAABA", ["A"] * 6 + ["B"] * 2 + ["A", "tie"]
    rows = [judged(str(i), "judge", a, order="A first") for i, a in enumerate(one)]
    rows += [judged(str(i), "judge", b, order="B first") for i, b in enumerate(two)]
    rows += [label(str(i), who, "A") for i in range(10) for who in ("asha", "ben")]
    found = judge_of(made(study("D=preference:A/B/tie"), rows)).position
    assert found is not None and found.consistent.value == 0.6
    assert (found.to_first, found.to_second, found.tie_changes) == (2, 1, 1)
    assert found.first_share.value == pytest.approx(11 / 19)


# --- the corrected rate


def test_without_a_recorded_design_there_is_no_corrected_rate() -> None:
    rows, _ = paradox()
    (rate,) = judge_of(made(study(), rows)).corrected_rate
    assert (rate.rate.value, rate.rate.reason, rate.observed.value) == (None, "no_design", 0.95)


def test_random_gold_is_corrected_by_prediction_powered_inference() -> None:
    # practice.md 3.5: 100 random gold, 85 pass of which the judge passed 78, 15 fail of which it failed 13; 400 of 500 judged.
    gold = "T" * 78 + "F" * 2 + "T" * 7 + "F" * 13
    judge = "T" * 80 + "F" * 20 + "T" * 320 + "F" * 80
    rows = said_by("judge", judge) + said_by("lead", gold, kind="gold")
    (rate,) = judge_of(made(study(design=Sampling("random")), rows)).corrected_rate
    assert rate.method == "prediction-powered" and rate.rate.value == pytest.approx(0.85, abs=5e-3)
    assert rate.rate.interval is not None and 0.77 < rate.rate.interval.low < 0.82
    assert "by" not in rate.rate.details and rate.n_gold == 100


def test_balanced_gold_keeps_tpr_and_tnr_and_is_corrected_by_rogan_and_gladen() -> None:
    # practice.md 3.3: TPR 46/50, TNR 44/50, .80 of 5,000 observed: .850 (.788 to .970)
    gold = "T" * 50 + "F" * 50
    judge = "T" * 46 + "F" * 4 + "F" * 44 + "T" * 6
    passes = 4000 - 52
    rows = said_by("judge", judge + "T" * passes + "F" * (4900 - passes)) + said_by("lead", gold, kind="gold")
    found = judge_of(made(study(design=Sampling("balanced", "D")), rows))
    (rate,) = found.corrected_rate
    assert rate.method == "rogan-gladen" and rate.rate.value == pytest.approx(0.85)
    assert found.gold_numbers is not None
    measures = found.gold_numbers.measures
    assert (measures["tpr"].value, measures["tnr"].value) == (0.92, 0.88)
    assert {measures[n].reason for n in ("accuracy", "kappa", "precision", "f1")} == {"no_weights"}


def test_balanced_by_another_question_is_no_balance_here() -> None:
    rows = said_by("judge", "T" * 400 + "F" * 100) + said_by("lead", "T" * 60 + "F" * 40, kind="gold")
    found = judge_of(made(study(design=Sampling("balanced", "Other")), rows))
    assert found.corrected_rate[0].rate.reason == "no_weights"
    assert found.gold_numbers is not None and {m.value for m in found.gold_numbers.measures.values()} == {None}


def test_strata_of_another_judge_or_of_an_unnamed_version_need_their_probabilities() -> None:
    rows, facts = paradox()
    rows += [judged(str(i), "other", "T" if i % 3 else "F") for i in range(1000)]
    assert judge_of(made(study(design=by_judge()), rows), "other").corrected_rate[0].rate.reason == "no_weights"
    weighted = judge_of(made(study(design=by_judge()), rows, facts), "other").corrected_rate[0]
    assert weighted.rate.value is not None and weighted.method == "post-stratification"
    rows, _ = paradox()
    rows = [r | {"version": "v2"} if r["kind"] == "evaluator" else r for r in rows]
    older = [judged("0", "judge", "T", version="v1")]
    two = study(live={("", "judge"): "v2"}, design=by_judge())
    assert judge_of(made(two, rows + older)).corrected_rate[0].rate.reason == "no_weights"
    named = replace(two, design=Sampling("stratified", "D", "judge v2"))
    assert judge_of(made(named, rows + older)).corrected_rate[0].rate.value == pytest.approx(0.922)


def test_a_judge_that_answered_nothing_but_the_sample_says_nothing_about_production() -> None:
    rows, facts = paradox()
    rows += [judged(str(i), "other", "T" if i % 3 else "F") for i in range(100)]
    (rate,) = judge_of(made(study(design=by_judge()), rows, facts), "other").corrected_rate
    assert (rate.rate.value, rate.rate.reason) == (None, "wrong_design")


@pytest.mark.parametrize(("period", "names"), [("week", ["2026-W41", "2026-W42"]), ("day", None)])
def test_the_rate_is_told_for_every_span_of_all_judged_items(period: str, names: list[str] | None) -> None:
    rows, facts = paradox()
    start = datetime(2026, 10, 5, tzinfo=UTC)
    rows = [r | {"at": start.replace(day=5 + int(r["item"]) % 14)} for r in rows]
    design = by_judge(period=period)
    whole_time, *spans = judge_of(made(study(design=design), rows, facts)).corrected_rate
    assert whole_time.period is None and whole_time.n_production == 1000
    assert sum(s.n_production for s in spans) == 1000 and all(s.n_gold == 100 for s in spans)
    assert [s.period for s in spans] == (names or [f"2026-10-{d:02d}" for d in range(5, 19)])
    assert all(s.rate.value is not None and s.rate.interval is not None for s in spans)


# --- paradox, judges side by side, determinism


def test_a_high_agreement_with_a_low_kappa_is_explained() -> None:
    # practice.md 2.1: 90 / 4 / 4 / 2, agreement .92, kappa .29
    rows = grid(asha="T" * 94 + "F" * 6, ben="T" * 90 + "F" * 4 + "T" * 4 + "F" * 2)
    rows += grid(kind="evaluator", judge="T" * 94 + "F" * 6)
    found = whole(made(study(), rows))
    assert found.paradox is not None and found.paradox.paradox
    assert found.paradox.prevalence_index == pytest.approx(0.88)
    assert found.paradox.standard_error == pytest.approx(0.1826, abs=5e-5)
    pooled = found.judges[0].paradox
    assert pooled is not None and pooled.standard_error is None  # its pairs share items


def test_judges_are_compared_on_the_items_that_both_answered() -> None:
    # practice.md: discordant 12 and 4 of 100, McNemar exact .0768
    gold = "T" * 100
    rows = said_by("lead", gold, kind="gold")
    rows += said_by("a", "T" * 60 + "T" * 12 + "F" * 4 + "F" * 24) + said_by(
        "b", "T" * 60 + "F" * 12 + "T" * 4 + "F" * 24
    )
    (pair,) = whole(made(study(), rows)).judges_compared
    assert (pair.only_a, pair.only_b) == (12, 4) and pair.p_value == pytest.approx(0.0768, abs=5e-5)
    assert pair.accuracy_difference is not None and pair.accuracy_difference.value == pytest.approx(0.08)


def test_of_many_judges_only_the_versions_of_one_are_compared() -> None:
    rows = said_by("lead", "TF" * 10, kind="gold")
    for n in range(6):
        for version in ("v1", "v2"):
            rows += said_by(f"j{n}", "TF" * 10, version=version)
    pairs = whole(made(study(), rows)).judges_compared
    assert [(p.a, p.b) for p in pairs] == [(f"j{n} v1", f"j{n} v2") for n in range(6)]


def test_the_order_of_labels_changes_no_byte() -> None:
    rows = rows_of(panelled(80))
    turned = random.Random(4).sample(rows, len(rows))
    one, other = (json.render(made(study(), r)) for r in (rows, turned))
    assert one == other


def test_a_report_without_calibration_has_none_of_its_keys_and_with_it_every_old_one_unchanged() -> None:
    rows = rows_of(panelled(60))
    plain, more = (as_json(r)["dimensions"][0] for r in (report(study(), rows), made(study(), rows)))
    added = {
        "gold", "design", "judges_together", "judges_compared", "icc", "paradox", "judges_without_answers",
    }  # fmt: skip
    assert set(more) - set(plain) == added
    assert {k: v for k, v in plain.items() if k != "evaluators"} == {
        k: v for k, v in more.items() if k not in added and k != "evaluators"
    }
    (old,), (new,) = plain["evaluators"], more["evaluators"]
    assert {k: new[k] for k in old} == old
    assert set(new) - set(old) == {
        "coverage", "beside_humans", "alt_test", "against_gold", "thresholds", "confidence", "position", "corrected_rate",
        "paradox",
    }  # fmt: skip


def test_a_study_without_judges_or_labels_is_fine() -> None:
    assert made(study(), []).dimensions[0].calibration is None
    assert whole(made(study(), grid(asha="TF", ben="TT"))).judges == ()
    assert "How good" not in terminal.render(made(study(), grid(asha="TF", ben="TT")))
