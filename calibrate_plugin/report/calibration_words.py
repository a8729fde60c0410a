"""A calibration in sentences, for every screen. Each says what was found, on how many items and how sure; a number that is
missing says why. No sentence praises: the verdict's own words are the only judgement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calibrate_plugin.calibration.ceiling import Ceiling
from calibrate_plugin.calibration.confidence import Confidence
from calibrate_plugin.calibration.gold import Gold
from calibrate_plugin.calibration.paradox import Paradox
from calibrate_plugin.calibration.position import Position
from calibrate_plugin.calibration.rates import CorrectedRate
from calibrate_plugin.calibration.side_by_side import JudgePair
from calibrate_plugin.calibration.thresholds import Thresholds
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.report import display
from calibrate_plugin.report.calibrated import Calibration, JudgeCalibration, Sampled
from calibrate_plugin.report.display import DASH

NAME = 40
NAMES = 200
LISTED = 10  # pairs of judges

#: Why there is no verdict, beside the reasons of ``model.REASONS``.
VERDICT_REASONS: dict[str, str] = {
    "one_annotator": "no item was answered by two annotators, so nobody knows how well people agree; let a second one label the "
    "same items",
}
_SHARE = Scale("binary", ("yes", "no"))
ERRORS = ("mae", "bias", "within_one", "pearson", "spearman")
METHODS = {
    "post-stratification": "post-stratification by the judge’s labels",
    "rogan-gladen": "Rogan and Gladen, from TPR and TNR",
    "prediction-powered": "prediction-powered inference",
}


@dataclass(frozen=True, slots=True)
class Said:
    """``topic`` is one of verdict, alternative, gold, errors, failed, coverage, thresholds, confidence, position, rate,
    paradox."""

    topic: str
    title: str
    text: str


def verdict_word(judge: JudgeCalibration) -> str:
    """The verdict in a word or two; "no verdict" where there is none."""
    word = None if judge.beside_humans is None else judge.beside_humans.verdict.word
    return word or "no verdict"


def of_judge(judge: JudgeCalibration, scale: Scale) -> Iterator[Said]:
    """What is known of one judge, the verdict first."""
    if judge.beside_humans is not None:
        yield Said("verdict", "Beside the humans", verdict(judge.beside_humans))
    test = judge.alt_test
    if test is not None and test.annotators:
        if test.passed is None:
            text = f"no outcome: {_why(test.reason or test.winning_rate.interval_reason)}"
        else:
            won, of = test.winning_rate.details["won"], display.plural(len(test.annotators), "annotator")
            text = f"{'passed' if test.passed else 'not passed'}; it wins over {won} of {of}, advantage probability "
            text += f"{number(test.advantage)}, epsilon {test.epsilon:g}"
        yield Said("alternative", "Alternative annotator test", text)
    yield from _gold(judge, scale)
    coverage = judge.coverage
    if coverage.asked != coverage.answered:
        states = ("failed", "abstained", "tied", "flipped")
        left = ", ".join(f"{n:,} {state}" for state in states if (n := getattr(coverage, state)))
        yield Said("coverage", "Coverage", f"answered {share(coverage.share)} of {coverage.asked:,} items: {left}")
    if judge.thresholds is not None:
        yield Said("thresholds", "Its numbers as pass or fail", thresholds(judge.thresholds))
    for title, told in (("Confidence of its draws", judge.draws), ("Stated confidence", judge.stated)):
        if told is not None:
            yield Said("confidence", title, confidence(told))
    if judge.position is not None:
        yield Said("position", "Both orders", position(judge.position))
    rates = [r for r in judge.corrected_rate if r.period is None and r.rate.reason != "no_design"]
    if rates:
        yield Said("rate", "Corrected rate", rate(rates[0], scale))
    if judge.paradox is not None and judge.paradox.paradox:
        yield Said("paradox", "High agreement, low kappa", paradox(judge.paradox))


def verdict(found: Ceiling) -> str:
    """The word, what it rests on and for whom it speaks."""
    told = found.verdict
    people = _names(found.annotators)
    head = (told.word or "no verdict") + (f": {_why(told.reason)}" if told.reason else "")
    if told.more_items:
        head += f"; about {display.plural(told.more_items, 'more item')} would decide it if nothing else changes"
    if found.human_human.mean.value is None:
        return f"{head}. Kappa with {people}: {number(found.judge_human.mean)}." if people else f"{head}."
    difference = found.weighted if found.weighted is not None else found.difference
    measures = [found.judge_human.mean, found.human_human.mean, difference]
    parts = [
        f"Mean kappa with the annotators {number(measures[0])}, theirs with each other {number(measures[1])}, difference "
        f"{number(difference)}"
    ]
    if found.weighted is not None:
        parts[0] += f" weighted by inclusion probability, {number(found.difference)} as labelled"
    if found.unanswered and found.as_wrong is not None:
        unanswered = display.plural(found.unanswered, "unanswered item")
        parts.append(f"with {unanswered} as wrong {number(found.as_wrong)}")
    if difference.interval is not None:
        parts += [display.warning_text(w) for w in difference.warnings if w != told.reason]
    parts.append(f"margin {told.margin:g}{_no_interval(measures)}")
    return f"{head}. {'; '.join(parts)}. It speaks for these annotators only: {people}."


def gold_words(gold: Gold, scale: Scale) -> str:
    """What judges are held against, and the items on which it says nothing."""
    by = {"single": "one expert", "adjudicated": "adjudicated answers"}
    rule = by.get(gold.rule, "the median of the annotators" if scale.ordered else "the majority of the annotators")
    counts = gold.counts
    left = [
        f"{counts['tied']:,} tied" if counts["tied"] else "",
        f"{counts['too_few']:,} with one answer only" if counts["too_few"] else "",
    ]
    told = ", ".join(part for part in left if part)
    source = f" ({_names((gold.source,))})" if gold.rule != "majority" and gold.source else ""
    settled = f", {gold.resolved:,} of them as ruled where people disagreed" if gold.resolved else ""
    return f"{rule}{source}: {display.plural(counts['decided'], 'item')}{settled}" + (
        f", left out {told}" if told else ""
    )


def _gold(judge: JudgeCalibration, scale: Scale) -> Iterator[Said]:
    found, told = judge.against_gold, judge.gold_numbers
    if found is None or told is None:
        return
    numbers = told.measures
    weighted = ", weighted by inclusion probability" if told.weighted else ""
    if not any(m.value is not None for m in numbers.values()):
        reason = next((m.reason for m in numbers.values() if m.reason not in (None, "not_applicable")), "no_gold")
        yield Said("gold", "Against gold", f"{DASH} {_why(reason)}")
        return
    n = max(m.n_items for m in numbers.values())
    parts = (
        [f"{display.plural(n, 'item')}{weighted}", f"accuracy {share(numbers['accuracy'])}"]
        if numbers["accuracy"].reason != "not_applicable"
        else [f"{display.plural(n, 'item')}{weighted}"]
    )
    if told.positive is not None:
        classed = {"precision": "precision", "tpr": "recall (TPR)", "tnr": "TNR", "f1": "F1"}
        listed = ", ".join(f"{name} {share(numbers[key])}" for key, name in classed.items())
        parts.append(f"positive is {_name(told.positive)}: {listed}")
    if numbers["kappa"].reason != "not_applicable":
        parts.append(f"kappa {number(numbers['kappa'])}")
    shown = [m for name, m in numbers.items() if name not in ERRORS]
    yield Said("gold", "Against gold", "; ".join(parts) + _no_interval(shown))
    if "mae" in numbers:
        off = [
            f"mean absolute error {number(numbers['mae'])}",
            f"bias {number(numbers['bias'])}",
            f"within one {share(numbers['within_one'])}",
        ]
        off += [f"{name} {number(numbers[name.lower()])}" for name in ("Pearson", "Spearman")]
        yield Said("errors", "Errors", "; ".join(off) + _no_interval(numbers[name] for name in ERRORS))
    failed = sum(found.failed)
    if failed and found.as_wrong.accuracy.value is not None:
        yield Said(
            "failed",
            "Failed answers",
            f"{display.plural(failed, 'item')} with gold and no answer: accuracy {share(found.left_out.accuracy)} without them, "
            f"{share(found.as_wrong.accuracy)} with them as wrong",
        )


def thresholds(found: Thresholds) -> str:
    if found.reason is not None or found.chosen is None:
        return f"{DASH} {_why(found.reason)}"
    head = f"pass at {found.chosen:.4g} or more has the best TPR + TNR; area under the curve {number(found.area)}"
    if found.test is None:
        return f"{head}; no evidence yet for that threshold: {_why(found.test_reason)}"
    return f"{head}; on the test items TPR {share(found.test.tpr)}, TNR {share(found.test.tnr)}, accuracy {share(found.test.accuracy)}"


def confidence(found: Confidence) -> str:
    used = found.weighted or found
    left = [f"{found.tied:,} tied", f"{found.failed_items:,} without a draw that can be read"]
    counts = ", ".join(part for part, n in zip(left, (found.tied, found.failed_items), strict=True) if n)
    tail = f"; left out {counts}" if counts else ""
    if used.ece.value is None:
        return f"{DASH} {_why(used.ece.reason)}{tail}"
    noise = used.ece.details.get("noise")
    beside = f" (chance alone would show {display.coefficient(noise)})" if noise is not None else ""
    gap = f"; mean confidence minus accuracy {number(used.gap)}"
    return (
        f"{display.plural(used.ece.n_items, 'item')}: calibration error {number(used.ece)}{beside}, Brier {number(used.brier)} "
        f"(always stating the accuracy: {number(used.base_rate_brier)}){gap}{tail}"
    )


def position(found: Position) -> str:
    if not found.items:
        return f"{DASH} no item was answered in both orders"
    moved = f"{found.to_first:,} changed to the one shown first, {found.to_second:,} to the one shown second, {found.tie_changes:,} to or from a tie"
    p = "" if found.direction_p is None else f" (p {_p(found.direction_p)})"
    rest = [
        f"{found.failed:,} failed in an order" if found.failed else "",
        f"{found.single_order:,} judged in one order only" if found.single_order else "",
    ]
    tail = "".join(f"; {part}" for part in rest if part)
    return (
        f"{display.plural(found.items, 'item')}: the same response wins in {share(found.consistent)}; {moved}{p}; "
        f"the one shown first wins {share(found.first_share)} of the decided answers{tail}"
    )


def rate(found: CorrectedRate, scale: Scale) -> str:
    told = share if scale.kind == "binary" else number
    what = f"people would say {_name(scale.labels[0])}" if scale.kind == "binary" else "people would say on average"
    behind = f"{display.plural(found.n_production, 'judged item')}, {display.plural(found.n_gold, 'gold item')}"
    own = f"the judge itself says {told(found.observed)}"
    if found.rate.value is None:
        ends = found.rate.interval
        interval = f" ({display.interval(ends, _SHARE if scale.kind == 'binary' else None)})" if ends else ""
        return f"{DASH}{interval} {_why(found.rate.reason)}; {own} ({behind})"
    method = METHODS.get(found.method or "", found.method or "")
    return f"{what} {told(found.rate)}; {own} ({behind}; {method})"


def paradox(found: Paradox) -> str:
    most = (
        ""
        if found.kappa_max is None
        else f"; with these margins kappa can be {display.coefficient(found.kappa_max)} at most"
    )
    return (
        "nearly all answers are the same one, so chance alone would agree nearly as often (prevalence index "
        f"{display.coefficient(found.prevalence_index)}){most}. Positive and negative agreement tell which answer they share"
    )


def compared(pair: JudgePair) -> str:
    """Two judges on the same items, first minus second."""
    parts = [f"{display.plural(pair.n_items, 'item')}", f"kappa with the annotators {number(pair.kappa_difference)}"]
    if pair.accuracy_difference is not None and pair.accuracy_difference.reason != "not_applicable":
        parts.append(f"accuracy {number(pair.accuracy_difference)}")
    if pair.p_value is not None:
        parts.append(
            f"only the first right {pair.only_a:,}, only the second {pair.only_b:,}, McNemar p {_p(pair.p_value)}"
        )
    return "; ".join(parts)


def of_dimension(found: Calibration, scale: Scale) -> Iterator[Said]:
    """What is known of the dimension beside its judges."""
    if found.judges or found.silent:
        yield Said("gold", "Gold", gold_words(found.gold, scale))
    if found.sampled is not None:
        yield Said("design", "Sampling design", design(found.sampled))
    if found.icc is not None and (
        found.icc.single.value is not None or found.icc.single.reason != "nothing_to_compare"
    ):
        text = f"one rating ICC(1) {number(found.icc.single)}, the mean of an item’s ratings ICC(1,k) {number(found.icc.mean)}"
        yield Said("icc", "Intraclass correlation of the annotators", text)
    if found.paradox is not None and found.paradox.paradox:
        yield Said("paradox", "Annotators: high agreement, low kappa", paradox(found.paradox))
    for judge in found.silent:
        yield Said("silent", _name(judge.name), "gave no answer that counts")


def as_labelled(found: Calibration | None) -> str | None:
    """What to mind about scores, agreement and kappas where the labelled items were not chosen at random."""
    if found is None or found.sampled is None or found.sampled.design.kind == "random":
        return None
    return (
        f"describes the labelled items ({_chosen(found.sampled)}), not all items; what may be judged stands under “How good "
        "the judges are”"
    )


def _chosen(found: Sampled) -> str:
    return {
        "random": "chosen at random",
        "stratified": f"chosen in strata of what {_name(found.design.judge or '')} said",
        "balanced": "so many of each human label",
    }[found.design.kind]


def design(found: Sampled) -> str:
    kind = _chosen(found)
    if found.design.kind == "random":
        outside = (
            f"; {display.plural(found.unknown, 'item')} that people labelled beside it left out"
            if found.unknown
            else ""
        )
        return kind + outside
    if not found.weighted:
        return (
            f"{kind}; their inclusion probabilities are not recorded, so no number of this sample speaks of all items"
        )
    unknown = f"; {display.plural(found.unknown, 'labelled item')} without one left out" if found.unknown else ""
    return f"{kind}; {display.plural(found.chosen, 'item')} with inclusion probabilities{unknown}. Only weighted numbers are judged"


# --- numbers


def number(measure: Measure) -> str:
    """A coefficient or a difference with its interval, or a dash with its reason."""
    if measure.value is None:
        return f"{DASH} ({display.reason_name(measure.reason)})"
    ends = display.interval(measure.interval)
    return display.coefficient(measure.value) + (f" ({ends})" if ends else "")


def share(measure: Measure) -> str:
    """A share in percent with its interval, or a dash with its reason."""
    if measure.value is None:
        return f"{DASH} ({display.reason_name(measure.reason)})"
    ends = display.interval(measure.interval, _SHARE)
    return display.percent(measure.value) + (f" ({ends})" if ends else "")


def _no_interval(measures: Iterable[Measure]) -> str:
    """Why numbers have no interval, once for all of them."""
    quiet = (None, "not_applicable", "not_asked")
    reasons = {m.interval_reason for m in measures if m.value is not None and m.interval is None} - set(quiet)
    return "".join(f"; no interval: {display.reason_name(reason)}" for reason in sorted(reasons))  # type: ignore[type-var]


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


def _why(reason: str | None) -> str:
    if not reason:
        return ""
    return VERDICT_REASONS.get(reason) or display.reason_text(reason)


def _name(text: str) -> str:
    return display.clip(display.visible(text[: NAME + 1]), NAME) or display.EMPTY


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(_name(name) for name in names[:8])
    return display.clip(shown, NAMES) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


__all__ = [
    "LISTED",
    "Said",
    "compared",
    "gold_words",
    "number",
    "of_dimension",
    "of_judge",
    "share",
    "verdict",
    "verdict_word",
]
