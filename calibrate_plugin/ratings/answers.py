"""From what a source said to a place on the declared scale: by an exact, declared map, never by likeness."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import polars as pl

from calibrate_plugin.model import Dimension, number

#: What an answer can be beside a level of the scale (0, 1, ...).
ABSTAINED = -1
REJECTED = -2
#: A number with more digits than this, before or after the point, is on no scale; it may be meant to be costly.
MOST_DIGITS = 400
#: How the choices of a whole set are joined where it is declared.
SET = " + "

Level = tuple[int, float | None]


def levels(dimension: Dimension, values: Iterable[str], *, evaluator: str | None = None) -> dict[str, Level]:
    """The level of each distinct raw value (JSON text), with its number on a rating scale.

    A level is the index of a category, ``ABSTAINED``, or ``REJECTED`` for what is outside the scale. On a rating without
    a step every value in range has level 0 and its number tells it apart. ``evaluator`` applies that evaluator's
    ``pass_if`` to numbers.
    """
    match = _Matcher(dimension, evaluator)
    return {raw: match(raw) for raw in values}


class _Matcher:
    def __init__(self, dimension: Dimension, evaluator: str | None) -> None:
        self.dimension = dimension
        self.scale = dimension.scale
        spell = _whole if dimension.whole_set else _text
        self.map = {spell(k): spell(v) for k, v in dimension.map.items()}
        self.abstain = {_text(a) for a in dimension.abstain}
        self.by_text: dict[str, int] = {}
        self.by_number: dict[Fraction, int] = {}
        self.by_bool: dict[bool, int] = {}
        self.by_label = {spell(name): i for i, name in enumerate(self.scale.names)}
        declared = dimension.values or self.scale.labels
        for i, value in enumerate(declared if self.scale.kind != "rating" else ()):
            if dimension.whole_set:
                self.by_text[_whole(str(value))] = i
            elif isinstance(value, bool):
                self.by_bool[value] = i
                self.by_text.setdefault(_text(json.dumps(value)), i)
            elif isinstance(value, int | float):
                self.by_number[_fraction(value)] = i
                self.by_text.setdefault(_text(number(value)), i)
            else:
                self.by_text[_text(value)] = i
                if dimension.untyped:
                    if _text(value) in ("true", "false"):
                        self.by_bool[_text(value) == "true"] = i
                    if (n := _parse(value)) is not None:
                        self.by_number.setdefault(n, i)
        self.places = {p: i for i, p in enumerate(self.scale.positions)} if self.scale.kind == "rating" else {}
        rule = dimension.pass_if.get(evaluator or "", dimension.pass_if.get("*")) if evaluator is not None else None
        self.rule = rule

    def __call__(self, raw: str) -> Level:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return REJECTED, None
        if value is None or isinstance(value, dict):
            return REJECTED, None
        if self.dimension.choice is not None:
            return self._choice(value)
        if self.dimension.whole_set:
            value = _set_text(map(_choice_text, value if isinstance(value, list) else [value]))
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, list | dict) or value is None:
            return REJECTED, None
        text = _text(value if isinstance(value, str) else _spelled(value))
        if text in self.abstain:
            return ABSTAINED, None
        if self.rule is not None and not isinstance(value, bool):
            n = _parse(text)
            if n is not None:
                return (0 if _holds(n, self.rule) else 1), None
        if text in self.map:
            text = self.map[text]
            if text in self.abstain:
                return ABSTAINED, None
            return self._label(text)
        if self.scale.kind == "rating":
            return self._rated(value)
        if isinstance(value, bool):
            return self.by_bool.get(value, REJECTED), None
        if isinstance(value, int | float):
            return (self.by_number.get(_fraction(value), REJECTED) if _finite(value) else REJECTED), None
        return self.by_text.get(text, REJECTED), None

    def _choice(self, value: object) -> Level:
        texts = {_text(_choice_text(t)) for t in (value if isinstance(value, list) else [value])}
        texts = {self.map.get(t, t) for t in texts}
        if texts & self.abstain:
            return ABSTAINED, None
        wanted = _text(self.dimension.choice or "")
        return (0 if any(t == wanted or t.startswith(wanted + "/") for t in texts) else 1), None

    def _label(self, text: str) -> Level:
        if self.scale.kind == "rating":
            return self._rated(text)
        return self.by_label.get(text, REJECTED), None

    def _rated(self, value: object) -> Level:
        if isinstance(value, bool):
            return REJECTED, None
        n = _parse(value) if isinstance(value, str) else _fraction(value) if _finite(value) else None
        if n is None:
            return REJECTED, None
        if self.places:
            return (self.places[n], float(n)) if n in self.places else (REJECTED, None)
        assert self.scale.low is not None and self.scale.high is not None
        return (0, float(n)) if self.scale.low <= n <= self.scale.high else (REJECTED, None)


def level_columns(dimension: Dimension, labels: pl.DataFrame, judges: pl.Series | None = None) -> pl.DataFrame:
    """``labels`` (with a column ``value``) and the columns ``level`` (null without a value) and ``number``.

    ``judges`` names the rater of each row, where the dimension has a ``pass_if`` for evaluators (rows of column ``kind``).
    """
    if judges is None:
        found = levels(dimension, labels["value"].drop_nulls().unique())
        return _joined_on(labels, found)
    rows = labels.with_columns(judges.alias("_judge"), pl.int_range(pl.len()).alias("_at"))
    parts = [
        _joined_on(
            part,
            levels(dimension, part["value"].drop_nulls().unique(), evaluator=judge if kind == "evaluator" else None),
        )
        for (judge, kind), part in rows.group_by(["_judge", "kind"])
    ]
    return (pl.concat(parts) if parts else _joined_on(rows, {})).sort("_at").drop("_judge", "_at")


def _joined_on(labels: pl.DataFrame, found: Mapping[str, Level]) -> pl.DataFrame:
    table = pl.DataFrame(
        {"value": list(found), "level": [v[0] for v in found.values()], "number": [v[1] for v in found.values()]},
        schema={"value": pl.String, "level": pl.Int32, "number": pl.Float64},
    )
    return labels.join(table, on="value", how="left", maintain_order="left")


def _text(value: str) -> str:
    return value.strip().casefold()


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    return number(value) if isinstance(value, int | float) and _finite(value) else str(value)


def _finite(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (type(value) is int or math.isfinite(value))
    )


def _fraction(value: object) -> Fraction:
    # By way of its decimal spelling: 0.1 is a tenth to whoever wrote it.
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _parse(text: str) -> Fraction | None:
    if "_" in text:
        return None
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > MOST_DIGITS:
        return None
    return Fraction(found)


def _choice_text(choice: object) -> str:
    """A choice, or a path in a taxonomy."""
    return "/".join(map(str, choice)) if isinstance(choice, list) else str(choice)


def _whole(declared: str) -> str:
    return _set_text(declared.split(SET))


def _set_text(choices: Iterable[str]) -> str:
    """Equal for equal sets of choices, in whatever order and with whatever capitals they were ticked."""
    return SET.join(sorted({_text(c) for c in choices}))


def _holds(value: Fraction, rule: tuple[str, Fraction]) -> bool:
    sign, threshold = rule
    return {">=": value >= threshold, ">": value > threshold, "<=": value <= threshold, "<": value < threshold}[sign]
