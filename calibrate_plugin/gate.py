"""Whether a study's numbers are good enough to go on: rules on intervals and counts, never on bare points.

A rule is one line::

    [DIMENSION:] [annotators. | judge. | judge(NAME).]NUMBER[.change].lower >= 0.4

``NUMBER`` is one of ``NUMBERS``. ``.lower`` and ``.upper`` are the ends of its interval
(``lower >= x``: surely not below x; ``upper >= x``: not surely below x), ``.n_items`` and ``.n_pairs`` its counts;
``n_items`` alone is that of the agreement. ``tpr[Fail]`` and ``tnr[Fail]`` say which class is the positive one. ``change`` is the
difference from a baseline report. Without a dimension a rule holds for all of them, without a subject for every judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal
from xml.etree import ElementTree

from calibrate_plugin.connector import SettingsError
from calibrate_plugin.model import REASONS, DimensionReport, EvaluatorReport, Interval, Measure, Report, Study
from calibrate_plugin.report import calibrated
from calibrate_plugin.report.calibrated import JudgeCalibration
from calibrate_plugin.report.display import visible
from calibrate_plugin.report.texts import difference

OUTCOMES = ("passed", "failed", "undefined")
#: What the command's exit code says beside 0 (all passed), 1 (no data) and 2 (wrong call or settings).
FAILED, UNDEFINED = 3, 4

_SHARED = ("agreement", "kappa", "pabak", "score")
#: Those of a judge that are weighted where the labelled items were not drawn at random.
_WEIGHTED = ("judge_minus_human", "tpr", "tnr", "accuracy")
#: The numbers that rules speak of, by subject.
NUMBERS: dict[str, tuple[str, ...]] = {
    "annotators": (*_SHARED, "alpha", "ac"),
    "judge": (*_SHARED, *_WEIGHTED, "coverage"),
}
_RULE = re.compile(
    r"(?:(?P<dimension>.+):\s*)?"
    r"(?:(?P<subject>annotators|judge(?:\((?P<judge>.+)\))?)\.)?"
    r"(?P<number>[a-z_]+)(?:\[(?P<positive>.+)\])?"
    r"(?P<change>\.change)?(?:\.(?P<part>lower|upper|n_items|n_pairs))?"
    r"\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)
_WRITE = 'write e.g. "Safety: judge.kappa.lower >= 0.4"'


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of ``gate.rules``, read. ``dimension`` and ``judge`` are None for all of them; ``part`` is None for the coverage
    itself, which is counted, not estimated."""

    text: str
    dimension: str | None
    subject: Literal["annotators", "judge"]
    judge: str | None
    number: str
    positive: str | None
    change: bool
    part: Literal["lower", "upper", "n_items", "n_pairs"] | None
    sign: str
    limit: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rule for one dimension and judge. ``value`` was compared with the rule's limit; None where it is
    undefined, for ``reason``. ``measure`` is the number behind it."""

    rule: Rule
    dimension: str
    judge: str | None
    outcome: Literal["passed", "failed", "undefined"]
    value: float | None
    reason: str | None
    measure: Measure

    @property
    def sentence(self) -> str:
        who = f"{self.dimension}, {self.judge}" if self.judge else self.dimension
        asked = self.rule.text.removeprefix(f"{self.rule.dimension}:").strip()
        if self.outcome == "undefined":
            meaning = REASONS.get(self.reason or "", self.reason or "")
            if self.reason == "wrong_design" and self.rule.number in _SHARED:
                meaning += f"; the rule may ask for {', '.join(_WEIGHTED)} instead, which are weighted"
            return f"{who}: {asked} is undefined ({self.reason}): {meaning}"
        word = "holds" if self.outcome == "passed" else "does not hold"
        told = f"{who}: {asked} {word}: {self.value:.4g}"
        if self.rule.part in ("n_items", "n_pairs") or self.measure.value is None:
            return told
        interval = self.measure.interval
        ends = "" if interval is None else f" ({interval.low:.4g} to {interval.high:.4g})"
        return f"{told}; the number is {self.measure.value:.4g}{ends}, {self.measure.n_items} items"


def rule(text: str, key: str = "gate.rules") -> Rule:
    """One rule. Raises SettingsError naming ``key``, the rule and what to write.

    >>> found = rule("Safety: judge(safety-judge).kappa.lower >= 0.4")
    >>> found.dimension, found.judge, found.number, found.part, found.sign, found.limit
    ('Safety', 'safety-judge', 'kappa', 'lower', '>=', 0.4)
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"{key}: {text!r} is no rule; {_WRITE}")
    parts = match.groupdict()
    subject: Literal["annotators", "judge"] = "annotators" if parts["subject"] == "annotators" else "judge"
    number, part = parts["number"], parts["part"]
    if number in ("n_items", "n_pairs"):
        if part is not None:
            raise SettingsError(f"{key}: {text!r}: {number} is a count and has no {part}; {_WRITE}")
        number, part = "agreement", number
    if number not in NUMBERS[subject]:
        raise SettingsError(
            f"{key}: {text!r}: {number} is no number of {subject}; there are {', '.join(NUMBERS[subject])}"
        )
    if part is None and (number != "coverage" or parts["change"]):
        end = "lower" if ">" in parts["sign"] else "upper"
        raise SettingsError(
            f"{key}: {text!r} is on a point, which says nothing about chance; use its interval, {number}.{end}"
        )
    if (number in ("tpr", "tnr")) != (parts["positive"] is not None):
        raise SettingsError(
            f"{key}: {text!r}: "
            + (
                f"say which class is the positive one, e.g. {number}[Fail]"
                if number in ("tpr", "tnr")
                else f"{number} has no classes"
            )
        )
    return Rule(
        text.strip(),
        None if parts["dimension"] in (None, "*") else parts["dimension"],
        subject,
        parts["judge"],
        number,
        parts["positive"],
        parts["change"] is not None,
        part,  # type: ignore[arg-type]
        parts["sign"],
        float(parts["limit"]),
    )


def rules_of(texts: Sequence[str], study: Study, where: str = "gate.rules") -> list[Rule]:
    """The rules of a study, which stand in ``where``. Raises SettingsError for one that cannot be meant."""
    found = []
    names = {d.name: d for d in study.dimensions}
    for i, text in enumerate(texts):
        key = f"{where}[{i}]"
        one = rule(text, key)
        if one.dimension is not None and one.dimension not in names:
            raise SettingsError(f"{key}: there is no dimension {one.dimension!r}; there are: {', '.join(names)}")
        if one.positive is not None:
            for dimension in [names[one.dimension]] if one.dimension else names.values():
                if one.positive not in dimension.scale.names or dimension.scale.kind == "rating":
                    raise SettingsError(
                        f"{key}: {one.positive!r} is no class of {dimension.name}; there are: "
                        f"{', '.join(dimension.scale.names)}. Name a dimension that has it"
                    )
        found.append(one)
    return found


def check(report: Report, rules: Sequence[Rule], *, baseline: Mapping[str, Any] | None = None) -> list[Outcome]:
    """Every rule for every dimension and judge of a calibrated report. ``baseline`` is an earlier report as JSON."""
    found: list[Outcome] = []
    for one in rules:
        for dimension in report.dimensions:
            if one.dimension in (None, dimension.name):
                for judge, measure, reason in _measures(dimension, one):
                    if one.change:
                        measure, reason = _changed(measure, reason, one, dimension.name, judge, baseline)
                    found.append(_outcome(one, dimension.name, judge, measure, reason))
    return found


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 where every rule holds, FAILED where one does not, else UNDEFINED where one cannot be told."""
    kinds = {o.outcome for o in outcomes}
    return FAILED if "failed" in kinds else UNDEFINED if "undefined" in kinds else 0


def _outcome(one: Rule, dimension: str, judge: str | None, measure: Measure, reason: str | None) -> Outcome:
    value: float | None = None
    if reason is None:
        if one.part in ("n_items", "n_pairs"):
            value = float(getattr(measure, one.part) or 0)
        elif measure.value is None:
            reason = measure.reason
        elif one.part is None:
            value = measure.value
        elif measure.interval is None:
            reason = measure.interval_reason
        else:
            value = measure.interval.low if one.part == "lower" else measure.interval.high
    if value is None:
        return Outcome(one, dimension, judge, "undefined", None, reason, measure)
    holds = {">=": value >= one.limit, "<=": value <= one.limit, ">": value > one.limit, "<": value < one.limit}[
        one.sign
    ]
    return Outcome(one, dimension, judge, "passed" if holds else "failed", value, None, measure)


_NOTHING = Measure(None, "nothing_to_compare", 0, 0)


def _measures(dimension: DimensionReport, one: Rule) -> Iterator[tuple[str | None, Measure, str | None]]:
    """Each judge (None: the annotators) with the number of a rule, or the reason why it has none."""
    if one.subject == "annotators":
        people = dimension.annotators
        yield None, dimension.human_score if one.number == "score" else getattr(people, one.number), None
        return
    calibration = calibrated.of(dimension)
    judges: dict[str, list[EvaluatorReport]] = {}
    for e in dimension.evaluators:
        if one.judge in (None, e.evaluator):
            judges.setdefault(e.evaluator, []).append(e)
    if not judges:
        yield one.judge, _NOTHING, "nothing_to_compare"
    for name, versions in judges.items():
        # Where several versions have answered, only a named one can be gated.
        live = [e for e in versions if e.live is not None and e.live]
        if len(live) != 1:
            yield name, _NOTHING, "no_live_version"
            continue
        (judge,) = live
        if one.number in _SHARED:
            # Of a sample that was not drawn at random these describe the sample only.
            lopsided = calibration is not None and calibration.sampled is not None and calibration.sampled.weighted
            counted = one.part in ("n_items", "n_pairs")
            yield name, getattr(judge, one.number), "wrong_design" if lopsided and not counted else None
            continue
        made = None if calibration is None else calibration.of(judge)
        yield name, *((_NOTHING, "nothing_to_compare") if made is None else _calibrated(made, one))


def _calibrated(judge: JudgeCalibration, one: Rule) -> tuple[Measure, str | None]:
    """The number of a judge beside its humans or gold: weighted by how the items were chosen, where that was not at random."""
    if one.number == "coverage":
        return judge.coverage.share, None
    if one.number == "judge_minus_human":
        beside = judge.beside_humans
        if beside is None:
            return _NOTHING, "nothing_to_compare"
        return beside.weighted or beside.difference, "no_weights" if beside.verdict.reason == "no_weights" else None
    against, numbers = judge.against_gold, judge.gold_numbers
    if against is None or numbers is None:
        return _NOTHING, "no_gold"
    if one.positive in (None, numbers.positive):
        return numbers.measures[one.number], None
    assert one.positive is not None
    classes = (against.weighted or against.left_out).positive(one.positive)
    return (classes.tpr if one.number == "tpr" else classes.tnr), against.weighted_reason


def _changed(
    measure: Measure,
    reason: str | None,
    one: Rule,
    dimension: str,
    judge: str | None,
    baseline: Mapping[str, Any] | None,
) -> tuple[Measure, str | None]:
    """The difference from the baseline. Its interval combines both as if they were independent, which is cautious where they
    share items."""
    if reason is not None:
        return measure, reason
    if baseline is None:
        return measure, "there is no baseline; give one with --baseline REPORT.json"
    before = _in_baseline(baseline, one, dimension, judge)
    if before is None:
        return measure, "the baseline report does not have this number"
    if one.part in ("n_items", "n_pairs"):
        changed = (getattr(measure, one.part) or 0) - (before[one.part] or 0)
        return Measure(measure.value, measure.reason, changed, changed), None
    if measure.value is None or before["value"] is None:
        return measure, measure.reason or f"the baseline is undefined: {before['reason']}"
    ends = before["interval"]
    interval = None if ends is None else Interval(ends["low"], ends["high"], ends["level"], ends["method"])
    old = Measure(before["value"], None, before["n_items"], None, interval, before["interval_reason"])
    told = difference(old, measure)
    return replace(told, n_items=measure.n_items, n_pairs=measure.n_pairs), told.interval_reason


def _in_baseline(baseline: Mapping[str, Any], one: Rule, dimension: str, judge: str | None) -> Mapping[str, Any] | None:
    part = next((d for d in baseline.get("dimensions", ()) if d["name"] == dimension), None)
    if part is None:
        return None
    found: Any
    if one.subject == "annotators":
        found = part["human_score"] if one.number == "score" else part["annotators"].get(one.number)
    else:
        versions = [e for e in part["evaluators"] if e["evaluator"] == judge]
        live = [e for e in versions if e["live"]]
        found = _of_judge(live[0], one) if len(live) == 1 else None
    return found if isinstance(found, Mapping) else None


def _of_judge(judge: Mapping[str, Any], one: Rule) -> Any:
    if one.number in _SHARED:
        return judge.get(one.number)
    if one.number == "coverage":
        return (judge.get("coverage") or {}).get("share")
    if one.number == "judge_minus_human":
        beside = judge.get("beside_humans") or {}
        return beside.get("weighted") or beside.get("difference")
    against = judge.get("against_gold") or {}
    return against.get(one.number) if one.positive in (None, against.get("positive")) else None


def junit(outcomes: Sequence[Outcome], study: str) -> str:
    """The outcomes as JUnit XML: a rule that does not hold is a failure, one that cannot be told an error."""
    counts = {kind: str(sum(o.outcome == kind for o in outcomes)) for kind in OUTCOMES}
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": visible(f"calibrate-plugin gate: {study}"),
            "tests": str(len(outcomes)),
            "failures": counts["failed"],
            "errors": counts["undefined"],
        },
    )
    for o in outcomes:
        where = f"{o.dimension}.{o.judge}" if o.judge else o.dimension
        case = ElementTree.SubElement(suite, "testcase", {"classname": visible(where), "name": visible(o.rule.text)})
        if o.outcome != "passed":
            tag = "failure" if o.outcome == "failed" else "error"
            ElementTree.SubElement(case, tag, {"message": visible(o.sentence)}).text = visible(o.sentence)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def summary(outcomes: Sequence[Outcome], study: str) -> str:
    """The outcomes as Markdown for a job summary; nothing in it is obeyed as markup."""
    signs = {"passed": "✅ holds", "failed": "❌ does not hold", "undefined": "❔ undefined"}
    lines = [
        f"### Judges of {_cell(study)}",
        "",
        "| | dimension | judge | rule | compared | items |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for o in outcomes:
        value = o.reason or "" if o.value is None else f"{o.value:.4g}"
        cells = [
            signs[o.outcome],
            _cell(o.dimension),
            _cell(o.judge or ""),
            _cell(o.rule.text),
            _cell(value),
            str(o.measure.n_items),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    shown = escape(visible(text))
    return re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", shown)


__all__ = [
    "FAILED",
    "NUMBERS",
    "OUTCOMES",
    "UNDEFINED",
    "Outcome",
    "Rule",
    "check",
    "exit_code",
    "junit",
    "rule",
    "rules_of",
    "summary",
]
