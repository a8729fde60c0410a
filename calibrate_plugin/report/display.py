"""How numbers, bands, reasons and foreign text are written, for every renderer.

A number is rounded half up from the exact fraction that its float stands for, so 5/8 is 63 % and 29/200 is 15 %.
Text that came from a platform is never trusted: each place it goes to has its own way of making it harmless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from urllib.parse import urlsplit

from calibrate_plugin.model import REASONS, DimensionReport, EvaluatorReport, Interval, Measure, Scale, number
from calibrate_plugin.ratings.rules import CAUSES as RULES

DASH = "—"
EMPTY = '""'  # an empty name

#: Short names of the reasons, to stand in a table; what to do about each is in ``model.REASONS``.
REASON_NAMES: dict[str, str] = {
    "nothing_to_compare": "nothing to compare",
    "single_item": "one item only",
    "same_answer": "everyone gave the same answer",
    "not_applicable": "not defined on this scale",
    "no_live_version": "no live version",
    "no_labels": "no labels",
    "no_gold": "no gold answers",
    "one_class": "gold of one class",
    "at_boundary": "outside 0 to 1",
    "infeasible": "infeasible",
    "constant_side": "one side is constant",
    "never_predicted": "never given by the evaluator",
    "too_few_annotators": "fewer than three annotators",
    "never_differs": "draws never differ",
    "no_weights": "no inclusion probabilities",
    "no_design": "no sampling design",
    "wrong_design": "not valid for this design",
    "no_better_than_chance": "no better than chance",
    "no_split": "no test split",
    "rare_answer": "hardly a differing answer",
    "unanswered": "too many unanswered",
    "too_few_items": "under 10 items",
    "too_many_undefined": "too many undefined resamples",
    "not_asked": "not asked for",
}

#: What a warning beside a number means.
WARNINGS: dict[str, str] = {
    "rare_answer": "all answers but the most frequent one are fewer than 5 on a side, so a handful decides this kappa",
    "handful": "a handful of items decides this number, so its interval may be too narrow",
}

#: Why a record could not be read as a label, and the finer causes of a deletion; why a label does not count is told by
#: the rules themselves.
CAUSES: dict[str, str] = {
    **RULES,
    "annotator_deleted": "its annotator was deleted",
    "job_deleted": "its labelling job was deleted",
    "item_deleted": "its item was deleted",
    "run_deleted": "its evaluation run was deleted",
    "run_failed": "its evaluation run failed",
    "label_deleted": "the answer itself was deleted",
    "unpaired": "counts in the score, but nobody else answered the item",
    "unreadable": "it could not be read",
    "no_item": "it does not say which item it belongs to",
    "unknown_kind": "its rater is neither annotator nor evaluator",
    "prefilled": "taken over from a prediction",
}

KAPPA_NAMES = {"cohen": "Cohen", "fleiss": "Fleiss"}


# --- numbers


def exact(value: float) -> Fraction:
    """The fraction with a denominator of at most 10**9 that a float stands for.

    >>> exact(0.145), exact(3 / 5), exact(1 / 3)
    (Fraction(29, 200), Fraction(3, 5), Fraction(1, 3))
    """
    return Fraction(value).limit_denominator(10**9)


def half_up(value: Fraction, places: int) -> str:
    """``value`` rounded to ``places`` decimals, halves away from zero; a rounded zero has no sign.

    >>> half_up(Fraction(125, 2), 0), half_up(Fraction(-1, 80), 2), half_up(Fraction(-1, 1000), 2)
    ('63', '-0.01', '0.00')
    """
    units = int(abs(value) * 10**places + Fraction(1, 2))
    sign = "-" if value < 0 and units else ""
    whole, rest = divmod(units, 10**places)
    return f"{sign}{whole}.{rest:0{places}d}" if places else f"{sign}{whole}"


def rounded(value: float, places: int, times: int = 1) -> str:
    """``value`` times ``times`` as ``half_up`` rounds its exact fraction; the fraction is looked for only close to a half,
    where a float could fall on the wrong side.

    >>> rounded(0.145, 0, 100), rounded(0.4999, 0)
    ('15', '0')
    """
    scaled = abs(value) * times * 10**places
    if abs(scaled % 1 - 0.5) < 1e-6 or scaled > 1e6:
        return half_up(exact(value) * times, places)
    text = f"{int(scaled + 0.5) / 10**places:.{places}f}"
    return f"-{text}" if value < 0 and text.strip("0.") else text


def percent(value: float) -> str:
    """A share (0 to 1) as a whole percentage.

    >>> percent(5 / 8), percent(0.145)
    ('63 %', '15 %')
    """
    return f"{rounded(value, 0, 100)} %"


def rating(value: float, scale: Scale | None = None) -> str:
    """A rating with at most two decimals and, where the scale has one, its top.

    >>> rating(3.5, Scale("rating", low=Fraction(1), high=Fraction(5)))
    '3.5 / 5'
    """
    text = rounded(value, 2).rstrip("0").rstrip(".")
    return f"{text} / {number(scale.high)}" if scale is not None and scale.high is not None else text


def coefficient(value: float) -> str:
    """A kappa, alpha or the like with two decimals."""
    return rounded(value, 2)


def score(value: float, scale: Scale) -> str:
    """A human or evaluator score: a share of *pass* on a binary scale, a mean on the others."""
    return percent(value) if scale.kind == "binary" else rating(value, scale)


def score_parts(measure: Measure, scale: Scale, unit: str) -> str:
    """What a score is made of: ``5 of 8 labels`` on a binary scale, ``8 labels`` on the others.

    ``unit`` is ``label`` (people: ``details["n_labels"]``, each label once) or ``item`` (evaluators: each item once).
    """
    n = measure.details.get("n_labels", measure.n_items) if unit == "label" else measure.n_items
    if scale.kind == "binary" and measure.value is not None and n:
        passed = exact(measure.value) * n
        if abs(passed - round(passed)) < Fraction(1, 1000):
            return f"{round(passed)} of {plural(n, unit)}"
    return plural(n, unit)


def plural(n: int, unit: str) -> str:
    """``1 item``, ``2,000 items``."""
    return f"{n:,} {unit if n == 1 else unit + 's'}"


def interval(interval: Interval | None, scale: Scale | None = None) -> str:
    """``0.10 to 0.85``, or the ends of a score's interval as scores; empty where there is none."""
    if interval is None:
        return ""
    low, high = (score(v, scale) if scale else coefficient(v) for v in (interval.low, interval.high))
    if scale is not None:
        # The unit stands once: "45 to 78 %", "3.1 to 4.2 / 5".
        low = low.split(" ", 1)[0]
    return f"{low} to {high}"


def level(dimension: DimensionReport) -> float:
    """The level of the dimension's intervals; 0.95 where it has none."""
    people = dimension.annotators
    measures = [dimension.human_score, people.agreement, people.kappa, people.alpha]
    for evaluator in dimension.evaluators:
        measures += [evaluator.score, evaluator.agreement, evaluator.kappa]
    return next((measure.interval.level for measure in measures if measure.interval), 0.95)


def scale_words(scale: Scale) -> str:
    """A scale as people would say it: ``binary: Pass, Fail``, ``rating: 1 to 5``."""
    if scale.kind == "rating":
        assert scale.low is not None and scale.high is not None
        if scale.points:
            return f"rating: {', '.join(scale.names)}"
        step = f" in steps of {number(scale.step)}" if scale.step is not None and scale.step != 1 else ""
        return f"rating: {number(scale.low)} to {number(scale.high)}{step}"
    words = (" < " if scale.kind == "ordinal" else ", ").join(visible(name[:200]) or EMPTY for name in scale.labels)
    return f"{scale.kind}: {words}"


def distance(distance: float, scale: Scale) -> str:
    """How far apart the widest pair of a disagreement lies, on scales where that says something."""
    if scale.kind == "rating":
        assert scale.low is not None and scale.high is not None
        return f"{rating(float(exact(distance) * (scale.high - scale.low)))} apart"
    if scale.kind == "ordinal":
        return f"{plural(round(distance * (len(scale.labels) - 1)), 'step')} apart"
    return ""


def evaluator_name(evaluator: EvaluatorReport) -> str:
    """The evaluator and its version, where it has one."""
    return f"{evaluator.evaluator} {evaluator.version}".strip()


def kappa_name(measure: Measure) -> str:
    """Which kappa it is: ``Cohen``, ``Fleiss``; empty where the measure does not say."""
    kind = str(measure.details.get("kind", ""))
    return KAPPA_NAMES.get(kind, visible(kind))


def reason_name(reason: str | None) -> str:
    """A reason in a few words: its own, or those of its code."""
    return REASON_NAMES.get(reason, visible(reason).replace("_", " ")) if reason else ""


def reason_text(reason: str) -> str:
    """What a reason means and what to do about it."""
    return REASONS.get(reason) or reason_name(reason)


def warning_text(warning: str) -> str:
    """What a warning beside a number means."""
    return WARNINGS.get(warning) or visible(warning).replace("_", " ")


def cause_name(cause: str) -> str:
    """A cause in a word or two."""
    return visible(cause).replace("_", " ")


def cause_text(cause: str) -> str:
    """A cause for which a label does not count, in words."""
    name = cause_name(cause)
    return f"{name}: {CAUSES[cause]}" if cause in CAUSES else name


def by_count(causes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Causes that happened, the most frequent first."""
    return sorted(((cause, n) for cause, n in causes.items() if n), key=lambda pair: (-pair[1], pair[0]))


# --- bands

#: Each band's upper end, whether the end itself belongs to it, and its word (SEMANTICS 8).
BANDS: dict[str, tuple[tuple[Fraction, bool, str], ...]] = {
    "landis-koch": (
        (Fraction(0), False, "poor"),
        (Fraction(1, 5), True, "slight"),
        (Fraction(2, 5), True, "fair"),
        (Fraction(3, 5), True, "moderate"),
        (Fraction(4, 5), True, "substantial"),
        (Fraction(1), True, "almost perfect"),
    ),
    "mchugh": (
        (Fraction(1, 5), True, "none"),
        (Fraction(2, 5), False, "minimal"),
        (Fraction(3, 5), False, "weak"),
        (Fraction(4, 5), False, "moderate"),
        (Fraction(9, 10), True, "strong"),
        (Fraction(1), True, "almost perfect"),
    ),
    "krippendorff": (
        (Fraction(667, 1000), False, "too low to draw conclusions"),
        (Fraction(4, 5), False, "tentative"),
        (Fraction(1), True, "reliable"),
    ),
}


def band(value: float | None, scheme: str) -> str:
    """The word that ``scheme`` has for a coefficient, from its unrounded value; empty for an undefined one.

    >>> band(3 / 5, "landis-koch"), band(3 / 5, "mchugh"), band(None, "mchugh")
    ('moderate', 'moderate', '')
    """
    if value is None or scheme == "none":
        return ""
    if scheme not in BANDS:
        raise ValueError(f"there are no bands called {scheme!r}; there are {', '.join(BANDS)} and none")
    place = exact(value)  # 0.6000000000000001 is 3/5, which is still moderate
    for end, inclusive, word in BANDS[scheme]:
        if place < end or (inclusive and place == end):
            return word
    return BANDS[scheme][-1][2]


def kappa_band(measure: Measure, scheme: str) -> str:
    """The study's word for a kappa. Krippendorff's bands were made for alpha and say nothing about a kappa."""
    return "" if scheme == "krippendorff" else band(measure.value, scheme)


def alpha_band(measure: Measure, scheme: str) -> str:
    """Krippendorff's own word for an alpha, unless the study wants no bands."""
    return band(measure.value, "none" if scheme == "none" else "krippendorff")


# --- text that leaves us

# Controls of direction can make "nimda" read "admin"; the marks of direction (200e, 200f, 061c) stay, right-to-left text needs
# them. Surrogates stand alone in no valid text, and fffe and ffff are in no XML.
_HIDDEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ONE_LINE = re.compile(f"[{_HIDDEN}\t\n]")
_LINES = re.compile(f"[{_HIDDEN}]")


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


#: What is shown for each hidden character but the surrogates, which polars' text cannot hold.
#: Finds any of them, in a form that polars' regex engine reads too.
HIDDEN = r"[\x00-\x08\x0b-\x1f\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}\x{fffe}\x{ffff}]"
_LOOKED_AT = (*range(0x100), *range(0x2000, 0x2070), 0xFEFF, 0xFFFE, 0xFFFF)
SHOWN = {c: _LINES.sub(_shown, c) for c in map(chr, _LOOKED_AT) if _LINES.match(c)}


def visible(text: str) -> str:
    """Text for one line: every control character, direction override and lone surrogate is shown instead of obeyed.

    >>> visible("a\\x1b[31mred\\nnext")
    'a␛[31mred␊next'
    """
    return _ONE_LINE.sub(_shown, text)


def visible_lines(text: str) -> str:
    """As ``visible``, but newlines and tabs stay."""
    return _LINES.sub(_shown, text.replace("\r\n", "\n"))


def clip(text: str, length: int) -> str:
    """At most ``length`` characters, the last one an ellipsis where something was cut off."""
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates are shown, all else stays."""
    return _SURROGATE.sub(_shown, text)


#: What a spreadsheet may run as a formula, and what only looks like one. Both are also read by polars' regex engine.
FORMULA = r"^\s*[=+\-@\t\r\n＝＋－＠]"
PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def cell(text: str) -> str:
    """Text for a CSV cell: what a spreadsheet would run as a formula gets a leading apostrophe; a plain number does not.

    >>> cell("=1+1"), cell("-1.5"), cell("-1+cmd")
    ("'=1+1", '-1.5', "'-1+cmd")
    """
    formula = re.match(FORMULA, text) and not (re.match(PLAIN_NUMBER, text) and "\n" not in text)
    return f"'{visible_lines(text)}" if formula else visible_lines(text)


def web_link(url: str | None) -> str | None:
    """The URL if it is an ordinary http or https one, else None: no script, no data, no user name before the host."""
    if not url or len(url) > 2000 or not re.fullmatch(r"https?://[^\s\"'<>\\`{}|^]+", url, re.IGNORECASE):
        return None
    if _LINES.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return url if parts.hostname and "@" not in parts.netloc else None
