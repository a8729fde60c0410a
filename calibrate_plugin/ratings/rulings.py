"""Rulings on disagreements: what was decided, why the answers differed, and which answers came only after the talk.

A ruling is a gold answer that the study itself gives (source ``model.OWN``); it is ``placed`` where the item was first ruled
on, however often it was changed since. Answers that people give after that count like any other, but say nothing about how far people agree on their own: the
ceiling and the verdict take each person's last answer before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from calibrate_plugin.model import OWN, Dimension, Ruling, Study, number
from calibrate_plugin.ratings.answers import ABSTAINED, REJECTED, SET, levels
from calibrate_plugin.ratings.rules import Answers, Ratings, collapse_orders, pseudonyms, recency

#: Why answers differed, and how a person would say it. The first two ask for a better guideline.
CAUSES: dict[str, str] = {
    "guideline_silent": "the guideline says nothing about it",
    "ambiguous": "the guideline can be read two ways",
    "annotator_mistake": "an annotator made a mistake",
    "judge_mistake": "the judge made a mistake",
}
OF_GUIDELINE = ("guideline_silent", "ambiguous")
#: What a label that stands at all may have become; what else was left out was left out for good.
_STANDING = ("superseded", "cleared", "rejected", "abstained", "sampled", "flipped")


def cause_fact(dimension: str) -> str:
    """The item fact that holds the cause of a ruling on ``dimension``."""
    return f"cause.{dimension}"


def value_of(dimension: Dimension, given: str) -> str:
    """An answer as people write it, as the JSON text that a label of ``dimension`` holds. Raises ValueError naming what
    there is to choose from."""
    said = json.dumps(given)
    if dimension.choice is not None:
        named = {name.casefold(): i for i, name in enumerate(dimension.scale.labels)}
        if given.strip().casefold() in named:
            said = json.dumps([dimension.choice] if named[given.strip().casefold()] == 0 else [])
        else:
            said = "null"
    elif dimension.whole_set:
        said = json.dumps(given.split(SET))
    ((level, value),) = levels(dimension, [said]).values()
    if level < 0:
        scale = dimension.scale
        if scale.levels is not None and scale.levels <= 20:
            there = ", ".join(scale.names)
        else:
            there = f"numbers from {number(scale.low or 0)} to {number(scale.high or 0)}"
        raise ValueError(f"{given!r} is no answer on {dimension.name}; there are: {there}")
    if dimension.choice is not None or dimension.whole_set:
        return said
    return json.dumps(
        number(value) if dimension.scale.levels is None and value is not None else _name(dimension, level)
    )


def _name(dimension: Dimension, level: int) -> str:
    return dimension.scale.names[level]


def rulings_in(
    study: Study, labels: pl.DataFrame | None, facts: pl.DataFrame, called: Mapping[tuple[str, str], str] | None = None
) -> dict[tuple[str, str], Ruling]:
    """Every ruling that stands, by item and dimension. ``labels`` are those of the study itself (columns of LABELS),
    ``facts`` those of the items; ``called`` all raters' names, where pseudonyms are made of them."""
    if labels is None or labels.is_empty():
        return {}
    dimensions = {d.name: d for d in study.dimensions}
    stands = (pl.col("kind") == "gold") & (pl.col("state") == "answered") & pl.col("retired").is_null()
    rows = labels.filter(stands & pl.col("item").is_not_null() & pl.col("field").is_in(list(dimensions)))
    causes = {
        (item, fact): value
        for item, fact, value in facts.filter(pl.col("fact").str.starts_with("cause."))
        .select("item", "fact", "value")
        .iter_rows()
    }
    by = {(OWN, str(who)): str(who) for who in rows["rater"].drop_nulls().unique()}
    hidden = pseudonyms(study, {**by, **(called or {})})
    found: dict[tuple[str, str], Ruling] = {}
    first = pl.coalesce("placed", "at")
    for item, field, value, rater, reason, at in rows.select(
        "item", "field", "value", "rater", "reason", first
    ).iter_rows():
        dimension = dimensions[field]
        ((level, rated),) = levels(dimension, [value or "null"]).values()
        if level in (ABSTAINED, REJECTED):
            continue  # the scale was declared otherwise since
        shown = number(rated) if dimension.scale.levels is None and rated is not None else _name(dimension, level)
        cause = causes.get((item, cause_fact(field)))
        found[item, field] = Ruling(item, field, shown, cause, reason, hidden.get(rater, rater or ""), at)
    return found


def ruled(answers: Answers, labels: pl.DataFrame) -> pl.DataFrame:
    """The rows of a dimension's rulings that stand: columns item (code), rater, ruled (time), cause (null: it is the gold
    answer; else its own author gave a later one elsewhere)."""
    gold = [i for i, r in enumerate(answers.raters) if r.kind == "gold"]
    shape = {"item": answers.frame.schema.get("item", pl.UInt32), "rater": pl.Int32}
    if not gold or "source" not in labels.columns:
        return pl.DataFrame(schema=shape | {"ruled": labels.schema.get("at"), "cause": pl.String})
    rows = answers.frame.filter(
        pl.col("rater").is_in(gold) & (pl.col("cause").is_null() | (pl.col("cause") == "superseded"))
    )
    own = labels["source"].gather(rows["row"]) == OWN
    rows = rows.filter(own)
    about = labels[rows["row"].to_numpy()]
    first = about["placed"].fill_null(about["at"]) if "placed" in about.columns else about["at"]
    return rows.select("item", "rater", first.alias("ruled"), "cause")


def late_rows(answers: Answers, labels: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``Answers.frame`` with what annotators said of an item after it was ruled on."""
    found = ruled(answers, labels)
    if found.is_empty():
        return answers.frame.clear()
    people = [i for i, r in enumerate(answers.raters) if r.kind == "annotator"]
    stands = pl.col("cause").is_null() | pl.col("cause").is_in(list(_STANDING))
    rows = answers.frame.filter(pl.col("rater").is_in(people) & stands)
    first = found.group_by("item").agg(pl.col("ruled").min())
    rows = rows.with_columns(labels["at"].gather(rows["row"]).alias("at")).join(first, on="item", maintain_order="left")
    return rows.filter((pl.col("at") > pl.col("ruled")).fill_null(False)).select(answers.frame.columns)


def before_rulings(answers: Answers, labels: pl.DataFrame) -> Answers:
    """The answers with what people said of an item after its ruling taken back: each person's last answer before it stands
    again, if there is one. The same ``answers`` where nobody said anything after."""
    late = late_rows(answers, labels)
    if late.is_empty():
        return answers
    keys = late.select("rater", "item").unique()
    stands = pl.col("cause").is_null() | pl.col("cause").is_in(list(_STANDING))
    earlier = answers.frame.filter(stands).join(keys, on=["rater", "item"], how="semi")
    earlier = earlier.join(late.select("row"), on="row", how="anti", maintain_order="left")
    about = labels[earlier["row"].to_numpy()]
    known = [c for c in ("at", "seq", "record", "order", "state") if c in about.columns]
    told = earlier.with_columns(about.select(known).get_columns())
    if "seq" not in known:
        told = told.with_columns(pl.col("row").cast(pl.Int64).alias("seq"))
    per = ["rater", "item", *(["order"] if "order" in known else [])]
    told = told.sort(recency(told), descending=True, nulls_last=True)
    newest = pl.struct(per).is_first_distinct()
    answered = (pl.col("state") == "answered") if "state" in known else pl.lit(True)
    outcome = (
        pl.when(~newest)
        .then(pl.lit("superseded"))
        .when(~answered | pl.col("level").is_null())
        .then(pl.lit("cleared"))
        .when(pl.col("level") == REJECTED)
        .then(pl.lit("rejected"))
        .when(pl.col("level") == ABSTAINED)
        .then(pl.lit("abstained"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )
    told = told.with_columns(outcome.alias("cause"))
    if "order" in known and about["order"].null_count() < about.height:
        told = collapse_orders(answers.dimension, told)
    changed = pl.concat(
        [
            told.select(answers.frame.columns),
            late.with_columns(pl.lit("after_ruling").alias("cause")).select(answers.frame.columns),
        ]
    )
    rest = answers.frame.join(changed.select("row"), on="row", how="anti", maintain_order="left")
    return replace(answers, frame=pl.concat([rest, changed]).sort("row"))


def discussed(ratings: Ratings) -> set[int]:
    """The codes of the items that were ruled on in any dimension: whoever talked about one question saw the other answers."""
    found: set[int] = set()
    for answers in ratings.answers.values():
        found.update(ruled(answers, ratings.labels)["item"].to_list())
    return found


__all__ = [
    "CAUSES",
    "OF_GUIDELINE",
    "before_rulings",
    "cause_fact",
    "discussed",
    "late_rows",
    "ruled",
    "rulings_in",
    "value_of",
]
