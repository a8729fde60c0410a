"""With what care people answered: too fast to have read anything, or after seeing a judge's answer and never another one.

An answer that was given with a judge's in sight is ``not_blind`` and left out by the rules. One that was given faster than
anybody reads still counts unless the study says otherwise, since a platform's clock is no proof: it is counted and told.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from calibrate_plugin.model import Study
from calibrate_plugin.ratings.rules import Answers, Ratings

#: Fewer answers than this tell nothing about a habit.
HABIT = 10


@dataclass(frozen=True, slots=True)
class Care:
    """One person on one dimension. Of ``answers`` that stand, ``timed`` have a time and ``fast`` of these were too fast;
    ``seen`` were given after a judge's answer was seen, ``compared`` of these on items that a judge answered, and ``kept``
    of these say the same as it."""

    rater: str
    answers: int
    timed: int
    fast: int
    seen: int
    compared: int
    kept: int

    @property
    def always_agrees(self) -> bool:
        """Whether the person kept whatever was pre-filled, often enough that it is no chance."""
        return self.compared >= HABIT and self.kept == self.compared


def too_fast(study: Study) -> pl.Expr:
    """True for rows (with a column ``seconds``) that took less time than reading does. An unknown time is not fast."""
    return (pl.col("seconds") < study.fast_seconds).fill_null(False)


def fast_and_counted(study: Study, answers: Answers, labels: pl.DataFrame) -> int:
    """How many annotators' answers count although they were given too fast."""
    if "seconds" not in labels.columns or labels["seconds"].null_count() == labels.height:
        return 0
    people = [i for i, r in enumerate(answers.raters) if r.kind == "annotator"]
    rows = answers.frame.filter(pl.col("cause").is_null() & pl.col("rater").is_in(people))
    return rows.select(labels["seconds"].gather(rows["row"])).filter(too_fast(study)).height


def care(study: Study, answers: Answers, ratings: Ratings) -> list[Care]:
    """Each annotator's care on a dimension, by name."""
    labels = ratings.labels
    judges = [i for i, r in enumerate(answers.raters) if r.kind == "evaluator"]
    judged = answers.frame.filter(pl.col("cause").is_null() & pl.col("rater").is_in(judges)).select(
        "item", pl.col("level").alias("judge"), pl.col("number").alias("judge_number")
    )
    gone = ("retired", "no_item", "superseded")
    standing = answers.frame.filter(~pl.col("cause").is_in(gone).fill_null(False))
    rows = standing.with_columns(
        labels["seconds"].gather(standing["row"]).alias("seconds"),
        labels["blind"].gather(standing["row"]).fill_null(True).alias("blind"),
    )
    found = []
    for i, rater in enumerate(answers.raters):
        own = rows.filter(pl.col("rater") == i)
        if rater.kind != "annotator" or own.is_empty():
            continue
        seen = own.filter(~pl.col("blind"))
        beside = seen.join(judged, on="item")
        same = (pl.col("level") == pl.col("judge")) & (pl.col("number").eq_missing(pl.col("judge_number")))
        matched = beside.group_by("item").agg(same.any().alias("same"))
        found.append(
            Care(
                rater.name,
                own.height,
                own.height - own["seconds"].null_count(),
                own.filter(too_fast(study)).height,
                seen.height,
                matched.height,
                int(matched["same"].sum()),
            )
        )
    return sorted(found, key=lambda c: c.rater)
