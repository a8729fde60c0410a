"""Parts of a study: its labels split by a fact or limited to one, always by the same expressions.

Facts of items (system, language, split) and the job or run of a label choose among the answers that count. The guideline
chooses before the rules do: an answer that was given again under a newer text still stands in the numbers of the older one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from calibrate_plugin.model import Study
from calibrate_plugin.ratings.rules import Ratings, apply, names_of
from calibrate_plugin.ratings.rulings import discussed

#: A fact with more values than this is not one to split by.
MOST_SLICES = 100
GUIDELINE = "guideline"
#: Facts of a label rather than of its item, and whose labels they limit.
LABEL_FACTS = {"job": "annotator", "run": "evaluator", GUIDELINE: "annotator"}
#: The limit to items on which nobody has ruled.
UNDISCUSSED = "undiscussed"


@dataclass(frozen=True, slots=True)
class Limit:
    """Only what has ``value`` as ``fact``; for ``UNDISCUSSED`` without a value."""

    fact: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.fact} = {self.value}" if self.fact != UNDISCUSSED else self.fact


def limit(text: str) -> Limit:
    """A limit as people write it. Raises ValueError saying what to write.

    >>> limit("split=dev"), limit("undiscussed")
    (Limit(fact='split', value='dev'), Limit(fact='undiscussed', value=''))
    """
    if text == UNDISCUSSED:
        return Limit(UNDISCUSSED)
    fact, equals, value = text.partition("=")
    if not equals or not fact.strip() or not value.strip():
        raise ValueError(f"{text!r}: write FACT=VALUE, e.g. split=dev, guideline=2 or job=12, or {UNDISCUSSED}")
    return Limit(fact.strip(), value.strip())


def limited(
    study: Study,
    ratings: Ratings,
    facts: pl.DataFrame,
    names: Mapping[str, Mapping[str, str]],
    limits: Sequence[Limit],
    run: str | None = None,
) -> Ratings:
    """The ratings within all ``limits``. ``facts`` are those of items (columns of ITEMS), ``names`` what raters are called.

    Raises ValueError for a fact or value that nothing has.
    """
    for one in sorted(limits, key=lambda each: each.fact != GUIDELINE):
        if one.fact == UNDISCUSSED:
            keep = ~pl.col("item").is_in(sorted(discussed(ratings)))
        elif one.fact == GUIDELINE:
            versions = values(ratings, facts, GUIDELINE)
            if one.value not in versions:
                raise ValueError(_nothing(one, versions))
            ratings = under(study, ratings, names, one.value, run)
            continue
        else:
            found = dict(groups(ratings, facts, one.fact, most=None))
            if one.value not in found:
                raise ValueError(_nothing(one, list(found)))
            keep = found[one.value]
        ratings = replace(
            ratings,
            answers={name: replace(a, frame=a.frame.filter(keep)) for name, a in ratings.answers.items()},
        )
    return ratings


def _nothing(one: Limit, there: Sequence[str]) -> str:
    more = f" and {len(there) - 20} more" if len(there) > 20 else ""
    return f"nothing has the {one.fact} {one.value!r}; there are: {', '.join(there[:20])}{more}"


def under(
    study: Study, ratings: Ratings, names: Mapping[str, Mapping[str, str]], version: str, run: str | None = None
) -> Ratings:
    """The ratings of a study whose annotators gave nothing but what they gave under one version of the guideline. Raters are
    called as they are in all of it, and the same versions of evaluators are live."""
    every = pl.concat([a.frame.select("row", "rater") for a in ratings.answers.values()]).unique("row")
    others = every.filter(pl.col("rater").is_in(_raters(ratings, "annotator")))["row"]
    labels = ratings.labels.with_row_index("_row")
    gone = pl.col("_row").is_in(others.implode()) & (pl.col("version") != version).fill_null(True)
    kept = labels.filter(~gone).drop("_row")
    pairs = ratings.labels.select("source", "rater").drop_nulls().unique().sort("source", "rater").rows()
    parts = kept.partition_by("source", as_dict=True, maintain_order=True)
    return apply(
        study,
        {str(key[0]): part.drop("source") for key, part in parts.items()},
        names,
        run=run,
        called=names_of(study, pairs, names),
        live={name: a.live for name, a in ratings.answers.items()},
    )


def values(ratings: Ratings, facts: pl.DataFrame, fact: str) -> list[str]:
    """The values of a fact, in order. Raises ValueError where nothing has it."""
    return [value for value, _ in groups(ratings, facts, fact, most=None)]


def groups(
    ratings: Ratings, facts: pl.DataFrame, fact: str, *, most: int | None = MOST_SLICES
) -> list[tuple[str, pl.Expr]]:
    """The values of a fact, and for each which rows of an ``Answers.frame`` it keeps. Raises ValueError for a fact that
    nothing has, and for one with more than ``most`` values."""
    labels = ratings.labels
    if fact in LABEL_FACTS:
        column = "version" if fact == GUIDELINE else fact
        every = pl.concat([a.frame.select("row", "rater") for a in ratings.answers.values()]).unique("row")
        limits = _raters(ratings, LABEL_FACTS[fact])
        given = every.filter(pl.col("rater").is_in(limits))["row"]
        said = pl.DataFrame({"row": given, "value": labels[column].gather(given)}).drop_nulls("value")
        found = said["value"].unique().sort()
        _check(fact, found.to_list(), facts, most)
        others = ~pl.col("rater").is_in(limits)
        return [
            (value, others | pl.col("row").is_in(said.filter(pl.col("value") == value)["row"].implode()))
            for value in found
        ]
    chosen = facts.filter(pl.col("fact") == fact).unique("item", keep="first", maintain_order=True)
    found = chosen["value"].drop_nulls().unique().sort()
    _check(fact, found.to_list(), facts, most)
    codes = pl.concat([a.frame.select("row", "item") for a in ratings.answers.values()]).unique("item")
    named = codes.select(pl.col("item").alias("code"), labels["item"].gather(codes["row"]).alias("item"))
    joined = named.join(chosen, on="item").select("code", "value")
    return [(value, pl.col("item").is_in(joined.filter(pl.col("value") == value)["code"].implode())) for value in found]


def _raters(ratings: Ratings, kind: str) -> list[int]:
    """The raters of a kind: what a rater is, the study settles; the same ones stand beside each dimension."""
    raters = next(iter(ratings.answers.values())).raters
    return [i for i, r in enumerate(raters) if r.kind == kind]


def _check(fact: str, found: list[str], facts: pl.DataFrame, most: int | None) -> None:
    if not found:
        known = sorted({*facts["fact"].unique().to_list(), *LABEL_FACTS} - {fact})
        which = "label" if fact in LABEL_FACTS else "item"
        raise ValueError(f"no {which} has the fact {fact!r}; there are: {', '.join(known)}")
    if most is not None and len(found) > most:
        raise ValueError(
            f"{fact!r} has {len(found)} values, more than the {most} that a report can be split by; give a coarser fact"
        )


__all__ = ["GUIDELINE", "LABEL_FACTS", "UNDISCUSSED", "Limit", "groups", "limit", "limited", "under", "values"]
