"""Scales as people write them: ``rating:1..5`` on a command line, a table in ``calibrate.toml``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from calibrate_plugin.model import Dimension, Scale, ScaleKind, number

SYNTAX = (
    "NAME=binary:PASS/FAIL, NAME=nominal:A/B/C, NAME=ordinal:LOW/MID/HIGH, NAME=rating:1..5 (NAME=rating:0..10:0.5 with a "
    "step, NAME=rating:0..1:any without one) or NAME=preference:A/B/TIE"
)
Value = str | int | float | bool
#: The digits that the numbers of a scale may have before, and after, the point.
DIGITS = (15, 20)
#: Which settings mean something on which scales only.
ONLY_ON = {
    "min": ("rating",),
    "max": ("rating",),
    "step": ("rating",),
    "pass_if": ("binary",),
    "fixed": ("preference",),
    "flipped": ("preference",),
    "whole_set": ("nominal",),
    "positive": ("binary", "nominal", "ordinal", "preference"),
}


def parse(spec: str) -> Dimension:
    """A dimension from ``NAME=KIND:VALUES``; a slash inside a value is written ``\\/``.

    Raises ValueError with the way out.

    >>> parse("Empathy=rating:1..5").scale.levels
    5
    """
    name, equals, rest = spec.partition("=")
    kind, colon, values = rest.partition(":")
    name, kind = name.strip(), kind.strip()
    if not (equals and colon and name and values):
        raise ValueError(f"{spec!r} is not a scale; write {SYNTAX}")
    if kind == "rating":
        ends, _, step = values.partition(":")
        low, dots, high = ends.partition("..")
        if not dots:
            raise ValueError(
                f"{spec!r}: write the lowest and the highest value with two dots between, e.g. rating:1..5"
            )
        table: dict[str, Any] = {"min": low.strip(), "max": high.strip()}
        if step:
            table["step"] = step.strip()
    else:
        parts = [p.replace("\0", "/") for p in values.replace("\\/", "\0").split("/")]
        table = {"values": [p.strip() for p in parts]}
    return dimension(name, {"scale": kind, **table}, untyped=True)


def dimension(name: str, table: Mapping[str, Any], *, untyped: bool = False) -> Dimension:
    """A dimension from its table. Raises ValueError whose message starts with the key that is wrong."""
    kind = table.get("scale")
    values = list(table.get("values", ()))
    if kind == "rating":
        scale = _rating(table, values)
    elif kind in ("binary", "nominal", "ordinal", "preference"):
        scale = _categories(kind, values, table)
    else:
        raise ValueError(f"scale is {kind!r}; it is one of binary, nominal, ordinal, rating, preference")
    for key, kinds in ONLY_ON.items():
        if key in table and kind not in kinds:
            raise ValueError(f"{key} belongs to a {_either(kinds)} scale, but this one is {kind}; take it out")
    if table.get("flipped") == "tie" and len(scale.labels) < 3:
        raise ValueError('flipped is "tie", but the scale has no tie; add one, e.g. values = ["A", "B", "tie"]')
    map_ = {str(k): str(v) for k, v in table.get("map", {}).items()}
    abstain = tuple(str(a) for a in table.get("abstain", ()))
    choices = tuple(map(str, table.get("choices", ())))
    positive = None if table.get("positive") is None else positive_class(scale, table["positive"])
    _check_targets(map_, abstain, scale, choices)
    return Dimension(
        name=name,
        scale=scale,
        values=tuple(values),
        untyped=untyped,
        map=map_,
        abstain=abstain,
        pass_if={str(k): threshold(v) for k, v in table.get("pass_if", {}).items()},
        choice=table.get("choice"),
        whole_set=bool(table.get("whole_set", False)),
        flipped=table.get("flipped", "no_answer"),
        positive=positive,
    )


def positive_class(scale: Scale, value: Value) -> str:
    """The category that ``value`` names. Raises ValueError for one that is not on the scale, and for ratings.

    >>> positive_class(Scale("binary", ("Pass", "Fail")), "fail")
    'Fail'
    """
    if scale.kind == "rating":
        raise ValueError("positive means nothing on a rating, which has no classes; take it out")
    written = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else number(value)
    for label in scale.labels:
        if label.strip().casefold() == written.strip().casefold():
            return label
    raise ValueError(f"positive is {written!r}, which is not on the scale; it has {', '.join(scale.labels)}")


def _either(kinds: Sequence[str]) -> str:
    return " or ".join([", ".join(kinds[:-1]), kinds[-1]]) if len(kinds) > 1 else kinds[0]


def _check_targets(map_: Mapping[str, str], abstain: Sequence[str], scale: Scale, choices: Sequence[str]) -> None:
    """That the map leads to the scale (or to the choices that are ticked), and that "unsure" is no category of it."""
    targets = choices or scale.names
    known = {n.strip().casefold() for n in targets}
    unsure = {a.strip().casefold() for a in abstain}
    for word in abstain:
        if word.strip().casefold() in known:
            raise ValueError(f"abstain names {word!r}, which is an answer on the scale; take it out of one of them")
    for source, target in map_.items():
        if scale.levels is not None and target.strip().casefold() not in known | unsure:
            raise ValueError(
                f"map sends {source!r} to {target!r}, which is not on the scale; it has {', '.join(targets)}"
            )


def threshold(text: str) -> tuple[str, Fraction]:
    """``">= 0.5"`` as a sign and a number."""
    for sign in (">=", "<=", ">", "<"):
        if text.strip().startswith(sign):
            return sign, _number(text.strip()[len(sign) :], f"pass_if is {text!r}")
    raise ValueError(f'pass_if is {text!r}; write it like ">= 0.5"')


def _rating(table: Mapping[str, Any], values: Sequence[Value]) -> Scale:
    if values:
        for key in ("min", "max", "step"):
            if key in table:
                raise ValueError(f"{key} is {table[key]!r}, but values are listed too; give one or the other")
        points = tuple(sorted(_number(str(v), "values") for v in values))
        if len(set(points)) < 2:
            raise ValueError(f"values are {values}; a rating needs at least two different ones")
        return Scale("rating", low=points[0], high=points[-1], points=points)
    for key in ("min", "max"):
        if key not in table:
            raise ValueError(f"{key} is missing; give the {'lowest' if key == 'min' else 'highest'} value of the scale")
    low, high = (_number(str(table[key]), key) for key in ("min", "max"))
    if high <= low:
        raise ValueError(f"max is {number(high)} but min is {number(low)}; give the top of the scale, e.g. max = 5")
    step = table.get("step", 1 if low.denominator == high.denominator == 1 else "any")
    if step == "any":
        return Scale("rating", low=low, high=high)
    size = _number(str(step), "step")
    if size <= 0 or ((high - low) / size).denominator != 1:
        raise ValueError(
            f"step is {number(size)}, which does not lead from {number(low)} to {number(high)} in whole steps"
        )
    if (high - low) / size > 10_000:
        raise ValueError(f'step is {number(size)}, which makes more than 10,000 levels; write step = "any"')
    return Scale("rating", low=low, high=high, step=size)


def _categories(kind: ScaleKind, values: Sequence[Value], table: Mapping[str, Any]) -> Scale:
    if odd := [v for v in values if isinstance(v, float) and not math.isfinite(v)]:
        raise ValueError(f"values name {odd[0]}, which is no answer")
    labels = tuple(v if isinstance(v, str) else str(v).lower() if isinstance(v, bool) else number(v) for v in values)
    wanted = {
        "binary": "two values, the first one is pass",
        "preference": "the two responses, then (if there is one) the tie",
    }
    if kind == "binary" and len(labels) != 2:
        raise ValueError(
            f'values are {list(values)}; a binary scale has {wanted[kind]}, e.g. values = ["Pass", "Fail"]'
        )
    if kind == "preference" and len(labels) not in (2, 3):
        raise ValueError(f'values are {list(values)}; a preference has {wanted[kind]}, e.g. values = ["A", "B", "tie"]')
    if len(labels) < 2:
        raise ValueError(f"values are {list(values)}; {kind} needs at least two")
    folded = [label.strip().casefold() for label in labels]
    if any(not f for f in folded):
        raise ValueError(f"values are {list(values)}; one of them is empty")
    if doubles := {label for label, f in zip(labels, folded, strict=True) if folded.count(f) > 1}:
        raise ValueError(
            f"values name {', '.join(sorted(doubles))} more than once (capitals and spaces do not tell apart)"
        )
    return Scale(kind, labels, fixed=bool(table.get("fixed", True)))


def _number(text: str, where: str) -> Fraction:
    # By way of its decimal spelling: 0.1 is a tenth to whoever wrote it.
    try:
        found = Decimal(text.strip())
        if "_" in text or not found.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise ValueError(f"{where}: {text!r} is not a number; write it like 1 or 0.5") from None
    exponent = found.as_tuple().exponent
    assert isinstance(exponent, int)
    before, after = DIGITS
    if found.adjusted() >= before or exponent < -after:
        raise ValueError(f"{where}: {text!r} has more digits than {before} before or {after} after the point")
    return Fraction(found)
