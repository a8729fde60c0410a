"""The report from tables that are kept: an event takes the touched items out as they were and puts them in as they are.

The rules, the counting and the numbers are those of ``build``, which gives the same report from all labels at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from calibrate_plugin.agreement.compare import Counted
from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.model import (
    ASIDE,
    Coverage,
    Dimension,
    DimensionReport,
    Disagreements,
    Report,
    SetAside,
    Study,
    frame,
)
from calibrate_plugin.ratings.counting import ItemTable
from calibrate_plugin.ratings.rules import CAUSES, Answers, Ratings, live_versions
from calibrate_plugin.ratings.tables import Tables, added, tables_of
from calibrate_plugin.report.build import LISTED, Builder, agreement_of, coverage, place_of

#: Beside the causes of what is set aside: answers that count, and were given after their item had been ruled on.
LATE = "after_ruling"
#: The same: answers that count although they came faster than anybody reads.
HURRIED = "hurried"
COVERED = ("items", "with_humans", "with_evaluators", "with_both", "labels", "counted")


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted of a study, or of one run of it, on a set of items. ``tables`` is None for a dimension without levels,
    which is not counted in patterns. ``people``: the labels of each rater id; ``runs``: those of
    evaluators that stand, by run; ``sequenced``: those with a number of order."""

    tables: Mapping[str, Tables | None]
    coverage: Mapping[str, int]
    unasked: Mapping[str, int]
    people: Mapping[tuple[str, str], int]
    runs: Mapping[str, int]
    sequenced: int

    def replaced(self, before: Counts, after: Counts) -> Counts:
        """With some items as they are (``after``) in place of as they were. Raises ValueError where they were not so."""
        tables: dict[str, Tables | None] = {}
        for name, own in self.tables.items():
            was, now = before.tables[name], after.tables[name]
            tables[name] = own if own is None or was is None or now is None or was.same(now) else own - was + now
        return Counts(
            tables,
            added(added(self.coverage, before.coverage, -1), after.coverage),
            added(added(self.unasked, before.unasked, -1), after.unasked),
            added(added(self.people, before.people, -1), after.people),
            added(added(self.runs, before.runs, -1), after.runs),
            self.sequenced - before.sequenced + after.sequenced,
        )


def count(study: Study, ratings: Ratings, run: str | None = None) -> Counts:
    """The counts of all items of ``ratings``."""
    tables: dict[str, Tables | None] = {}
    for name, answers in ratings.answers.items():
        builder = Builder(study, ratings, answers, Resampling(), run)
        tables[name] = None
        if isinstance(builder.comparison, Counted):
            assert isinstance(builder.comparison.table, ItemTable)
            stands = answers.frame.filter(pl.col("cause").is_null() | ~pl.col("cause").is_in(["no_item", "retired"]))
            standing = {answers.raters[i]: n for i, n in stands["rater"].value_counts().rows() if i >= 0}
            aside = builder.set_aside()
            if late := builder.late():
                aside[LATE] = late
            if hurried := builder.hurried():
                aside[HURRIED] = hurried
            tables[name] = tables_of(builder.comparison.table, answers.raters, builder.judges, standing, aside)
    covered = coverage(ratings, frame(ASIDE))
    people, runs, sequenced = told(ratings.labels)
    return Counts(
        tables,
        {part: n for part in COVERED if (n := getattr(covered, part))},
        dict(ratings.unasked),
        people,
        runs,
        sequenced,
    )


def told(labels: pl.DataFrame) -> tuple[dict[tuple[str, str], int], dict[str, int], int]:
    """What ``Counts`` needs of labels before any rule: how many each rater id gave, how many stand of each run, how many have
    a number of order."""
    known = labels.filter(pl.col("rater").is_not_null()).group_by("source", "rater").len()
    scored = labels.filter((pl.col("kind") == "evaluator") & pl.col("retired").is_null() & pl.col("run").is_not_null())
    return (
        {(source, rater): n for source, rater, n in known.rows()},
        dict(scored.group_by("run").len().rows()),
        labels.height - labels["seq"].null_count(),
    )


def differing(ratings: Ratings) -> dict[str, pl.DataFrame]:
    """Per dimension every pair of counted answers that differ, an annotator's with another's or an evaluator's: columns
    item, a and b (label of the rater; an evaluator is b), evaluator, version, distance (0 to 1)."""
    found: dict[str, pl.DataFrame] = {}
    for name, answers in ratings.answers.items():
        scale = answers.dimension.scale
        who = pl.DataFrame(
            {
                "rater": pl.Series(range(len(answers.raters)), dtype=pl.Int32),
                "name": [r.name for r in answers.raters],
                "version": [r.version for r in answers.raters],
                "judge": [r.kind == "evaluator" for r in answers.raters],
            },
            schema_overrides={"name": pl.String, "version": pl.String, "judge": pl.Boolean},
        )
        rows = answers.counted.select("row", "item", "rater", place_of(scale).alias("place"))
        both = rows.join(rows, on="item", suffix="_b").filter(
            (pl.col("rater") < pl.col("rater_b")) & (pl.col("place") != pl.col("place_b"))
        )
        both = both.join(who, on="rater").join(who, left_on="rater_b", right_on="rater", suffix="_b")
        both = both.filter(~pl.col("judge"))  # annotators come first among raters
        found[name] = both.select(
            ratings.labels["item"].gather(both["row"]).alias("item"),
            pl.col("name").alias("a"),
            pl.when(~pl.col("judge_b")).then(pl.col("name_b")).alias("b"),
            pl.when(pl.col("judge_b")).then(pl.col("name_b")).alias("evaluator"),
            pl.when(pl.col("judge_b")).then(pl.col("version_b")).alias("version"),
            (1 - agreement_of(scale)).alias("distance"),
        )
    return found


def live(study: Study, tables: Mapping[str, Tables | None], run: str | None = None) -> dict[str, dict[str, str | None]]:
    """Per dimension which version of each evaluator is live, as its standing labels tell."""
    return {n: live_versions(study, n, t.standing, run) for n, t in tables.items() if t is not None}


def dimension_report(study: Study, dimension: Dimension, tables: Tables, run: str | None = None) -> DimensionReport:
    """The numbers of one dimension, without the lists of single items."""
    return _Recounted(study, dimension, tables, run).report()


def report(
    study: Study,
    dimensions: tuple[DimensionReport, ...],
    counts: Counts,
    aside: pl.DataFrame,
    sources: tuple[str, ...],
    generated_at: datetime,
) -> Report:
    """The whole report. ``aside``: what could not be read as a label."""
    unread = {str(cause): int(n) for cause, n in aside.group_by("cause").len().sort("cause").rows()}
    unread |= {f"unasked: {name}": n for name, n in counts.unasked.items()}
    listed = (
        (aside.with_columns(rater=None) if study.pseudonyms else aside)
        .head(LISTED)
        .select("cause", "record", "item", "rater", "value", "message")
        .rows()
    )
    covered = Coverage(
        **{part: counts.coverage.get(part, 0) for part in COVERED},
        unread=unread,
        unread_listed=tuple(SetAside(c, str(r or ""), i, who, v, m) for c, r, i, who, v, m in listed),
    )
    return Report(study.name, generated_at, dimensions, covered, study.bands, sources)


class _Recounted(Builder):
    """A dimension's report from added-up tables."""

    def __init__(self, study: Study, dimension: Dimension, tables: Tables, run: str | None) -> None:
        raters = tuple(sorted(set(tables.standing) | set(tables.against)))
        resampling = Resampling(study.seed, study.resamples, study.level, "item-bootstrap+3").about(dimension.name)
        self.study, self.run, self.resampling, self.tables = study, run, resampling, tables
        live = live_versions(study, dimension.name, tables.standing, run)
        self.answers = Answers(dimension, pl.DataFrame(), raters, live)
        table = tables.of(raters)
        self.annotators, self.evaluators = list(table.annotators), list(table.evaluators)
        self.judges = [i for i in self.evaluators if live.get(raters[i].name) is not None]
        self.comparison = Counted(dimension.scale, table, resampling)
        self.table = table

    def set_aside(self) -> dict[str, int]:
        found = self.tables.aside
        return {cause: found[cause] for cause in (*CAUSES, "unpaired") if cause in found}

    def hurried(self) -> int:
        return self.tables.aside.get(HURRIED, 0)

    def late(self) -> int:
        return self.tables.aside.get(LATE, 0)

    def _set_aside_listed(self, listed: int) -> tuple[SetAside, ...]:
        return ()

    def _disagreements(self, listed: int) -> Disagreements:
        pairs = self.comparison.differing_pairs(self.judges)
        return Disagreements(self.table.human_items(), self.tables.judge_items, pairs, ())
