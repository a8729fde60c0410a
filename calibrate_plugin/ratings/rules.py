"""Which labels count. Every reader goes through here: cards, lists, trends, exports and pushes.

The causes are checked in the order of ``CAUSES``; a label that is left out has exactly one, the first that holds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.model import LABELS, OWN, Dimension, Kind, Study, frame
from calibrate_plugin.ratings.answers import ABSTAINED, REJECTED, level_columns

Array = NDArray[Any]

#: Why a label does not count, in the order in which they are checked, and how a person would say it.
CAUSES: dict[str, str] = {
    "no_item": "it does not say which item it belongs to",
    "retired": "its annotator, job, run, item or the label itself was deleted, or its run failed",
    "not_blind": "the person had seen a judge's answer",
    "fast": "the answer came faster than anybody reads, and the study leaves such answers out",
    "other_version": "given by a version of the evaluator that is not the live one",
    "failed": "the evaluator gave no answer, or one outside the scale",
    "superseded": "the same rater answered the same item again later",
    "sampled": "one of several draws; they count together as one answer",
    "tied": "the draws tie, so there is no answer",
    "flipped": "the answer changed with the order in which the responses were shown",
    "cleared": "the latest answer was cleared or skipped",
    "rejected": "the latest answer is outside the scale",
    "abstained": "the rater was unsure",
}


#: What a platform dropped by its own retention still counts; a run keeps the items that it scored.
KEPT = ("expired",)
KEPT_BY_RUNS = ("expired", "item_deleted")


@dataclass(frozen=True, slots=True, order=True)
class Rater:
    """A person, one version of an evaluator, or the source of gold. ``version`` is "" for people and blank versions."""

    kind: Kind
    name: str
    version: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True)
class Answers:
    """The labels of one dimension, each counted or left out for one cause.

    ``frame`` has one row per label: ``row`` (in ``Ratings.labels``), ``item`` (a code, the same for the same item in
    every dimension), ``rater`` (an index into ``raters``), ``level``, ``number``, ``cause`` (null: it counts).
    ``live`` tells for each evaluator which version counts; None where several answered and none is named.
    """

    dimension: Dimension
    frame: pl.DataFrame
    raters: tuple[Rater, ...]
    live: Mapping[str, str | None]

    @property
    def counted(self) -> pl.DataFrame:
        """The labels that count, gold left aside."""
        gold = [i for i, r in enumerate(self.raters) if r.kind == "gold"]
        kept = self.frame.filter(pl.col("cause").is_null())
        return kept.filter(~pl.col("rater").is_in(gold)) if gold else kept


@dataclass(frozen=True, slots=True)
class Ratings:
    """``labels`` are all labels of all sources with a column ``source``; ``answers`` what the rules made of them.
    ``unasked`` counts the labels of fields that no dimension of the study asks for."""

    labels: pl.DataFrame
    answers: Mapping[str, Answers]
    unasked: Mapping[str, int]


def apply(
    study: Study,
    sources: Mapping[str, pl.DataFrame],
    names: Mapping[str, Mapping[str, str]] | None = None,
    *,
    run: str | None = None,
    called: Mapping[tuple[str, str], str] | None = None,
    live: Mapping[str, Mapping[str, str | None]] | None = None,
) -> Ratings:
    """The rules of ``study`` applied to what its ``sources`` said (frames with the columns of ``model.LABELS``).

    ``names`` gives, per source, how people call the rater ids. With ``run`` only that run's items, scores and version are
    used, with today's human labels on those items; items deleted since stay.

    Two things of a label depend on the labels of other items: what its rater is called, and which version is live. For the
    labels of some items only, ``called`` ((source, rater id) -> name) and ``live`` (dimension -> evaluator -> version) tell
    what all of them say.
    """
    frames = [f.with_columns(pl.lit(name).alias("source")) for name, f in (sources or {"": frame(LABELS)}).items()]
    labels = pl.concat(frames, how="vertical") if len(frames) != 1 else frames[0]
    if study.review and "job" in labels.columns:
        of_review = pl.col("job").is_in(list(study.review)).fill_null(False) & (pl.col("kind") == "annotator")
        labels = labels.with_columns(pl.when(of_review).then(pl.lit("gold")).otherwise("kind").alias("kind"))
    base = _base(labels)
    raters, rater, hidden = _raters(study, labels, names or {}, called)
    if hidden and (ignored := study.ignore.get("annotators")):
        also = tuple(hidden[name] for name in ignored if name in hidden)
        study = replace(study, ignore={**study.ignore, "annotators": (*ignored, *also)})
    base = base.with_columns(pl.Series("rater", rater))
    if run is not None:
        base = _of_run(base, raters, run)
    answers: dict[str, Answers] = {}
    asked = np.zeros(labels.height, dtype=bool)
    pairs = labels.select(pl.col("source"), pl.col("field")).unique().rows()
    for dimension in study.dimensions:
        wanted = [
            (source, field)
            for source, field in pairs
            if field is not None and dimension.name in study.fields.get((source, field), (field,))
        ]
        mask = _mask(labels, wanted)
        asked |= mask
        of_dimension = base.filter(pl.Series(mask).gather(base["row"]))
        told = (live or {}).get(dimension.name)
        answers[dimension.name] = _answers(study, dimension, of_dimension, raters, run, told)
    left = labels.filter(pl.Series(~asked)).group_by("field").len().sort("len", "field", descending=[True, False])
    return Ratings(labels, answers, {str(f): n for f, n in left.rows()})


def coded(series: pl.Series) -> tuple[Array, list[str]]:
    """Codes and categories (sorted) of a text column with few distinct values; -1 for null."""
    if series.null_count() == len(series):
        return np.full(len(series), -1, dtype=np.int64), []
    names = series.drop_nulls().unique().sort()
    codes = series.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1)
    return codes.to_numpy(), names.to_list()


def _has(labels: pl.DataFrame, column: str) -> bool:
    return column in labels.columns and labels[column].null_count() < labels.height


def _base(labels: pl.DataFrame) -> pl.DataFrame:
    """The columns that the rules need, texts of many distinct values turned into codes; all-null columns left out."""
    item = labels["item"].cast(pl.Categorical(pl.Categories.random())).to_physical().alias("item")
    kept = [c for c in ("value", "kind", "version", "retired", "job", "run", "at", "record") if _has(labels, c)]
    kept += [c for c in ("order", "sample", "execution") if _has(labels, c)]
    columns = [labels[c] for c in kept]
    if "state" in labels.columns:
        columns.append(labels["state"])
    if _has(labels, "blind") and not labels["blind"].all():
        columns.append(labels["blind"])
    if _has(labels, "seconds"):
        columns.append(labels["seconds"])
    columns.append(labels["seq"] if _has(labels, "seq") else pl.Series("seq", np.arange(labels.height)))
    if "value" not in kept:
        columns.append(pl.Series("value", [None], dtype=pl.String).new_from_index(0, labels.height))
    return pl.DataFrame([item, *columns]).with_row_index("row")


def _mask(labels: pl.DataFrame, wanted: list[tuple[str, str]]) -> Array:
    if not wanted:
        return np.zeros(labels.height, dtype=bool)
    by_source: dict[str, list[str]] = {}
    for source, field in wanted:
        by_source.setdefault(source, []).append(field)
    test = pl.any_horizontal(
        [(pl.col("source") == source) & pl.col("field").is_in(fields) for source, fields in by_source.items()]
    )
    return labels.select(test.fill_null(False).alias("m"))["m"].to_numpy()


def _raters(
    study: Study,
    labels: pl.DataFrame,
    names: Mapping[str, Mapping[str, str]],
    called: Mapping[tuple[str, str], str] | None,
) -> tuple[tuple[Rater, ...], Array, dict[str, str]]:
    """Every rater, each label's index into them (-1 where the source does not know who answered), and the pseudonym of every
    name that has one."""
    parts = [coded(labels[c]) for c in ("source", "rater", "kind", "version")]
    key: Array = np.zeros(labels.height, dtype=np.int64)
    for codes, found in parts:
        key = key * (len(found) + 1) + codes + 1
    distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    rows = [[found[codes[at]] if codes[at] >= 0 else None for codes, found in parts] for at in first]
    known = [(str(source), rater) for source, rater, _, _ in rows if rater is not None]
    found_names = names_of(study, known, names) if called is None else called
    raters: list[Rater | None] = []
    hidden = pseudonyms(study, found_names)
    for source, rater, kind, version in rows:
        if rater is None:
            raters.append(None)
            continue
        name = found_names[str(source), rater]
        settled = study.kinds.get(name) or study.kinds.get(rater) or cast(Kind, kind or "annotator")
        if source == OWN:  # whoever rules on a disagreement gives gold there, an annotator elsewhere or not
            settled = cast(Kind, kind)
        if settled != "evaluator":
            name = hidden.get(name, name)
        raters.append(Rater(settled, name, (version or "") if settled == "evaluator" else ""))
    ordered = tuple(sorted({r for r in raters if r is not None}))
    places = {r: i for i, r in enumerate(ordered)}
    lookup = np.array([-1 if r is None else places[r] for r in raters], dtype=np.int32)
    return ordered, lookup[inverse.reshape(-1)] if len(distinct) else np.empty(0, dtype=np.int32), hidden


def pseudonyms(study: Study, called: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Name to pseudonym where the study asks for them, else nothing. A pseudonym comes from who the person is, by [people] or
    by the id in its source, so it stays when the person is renamed; without the key nobody can make it from the id."""
    if not study.pseudonyms:
        return {}
    persons = set(study.people.values())
    own: dict[str, str] = {}
    for (source, rater), name in sorted(called.items()):
        own.setdefault(name, name if name in persons else study.namespaces.get(source, "") + rater)
    if not study.pseudonym_key:
        return {name: f"annotator {i}" for i, name in enumerate(sorted(own), 1)}
    key = study.pseudonym_key.encode()
    made = {n: hmac.new(key, who.encode("utf-8", "surrogatepass"), hashlib.sha256).digest() for n, who in own.items()}
    return {name: f"annotator-{base64.b32encode(digest[:5]).decode().lower()}" for name, digest in made.items()}


def names_of(
    study: Study, raters: Iterable[tuple[str, str]], names: Mapping[str, Mapping[str, str]]
) -> dict[tuple[str, str], str]:
    """What to call each (source, rater id). Two ids never share a name unless the study says that they are one person."""
    persons: dict[str, set[str]] = {}
    for (source, rater), person in study.people.items():
        persons.setdefault(study.namespaces.get(source, "") + rater, set()).add(person)
    taken = set(study.people.values())
    ids: dict[str, set[str]] = {}
    found: dict[tuple[str, str], str] = {}
    plain: dict[tuple[str, str], tuple[str, str]] = {}
    for source, rater in raters:
        if source == OWN:  # who rules is called as they say, and makes nobody else be called otherwise
            found[source, rater] = rater
            continue
        own = study.namespaces.get(source, "") + rater
        # One id is one rater in every source, so what one source says of it holds in the others.
        same = persons.get(own, set())
        named = study.people.get((source, rater)) or (next(iter(same)) if len(same) == 1 else None)
        if named is not None:
            found[source, rater] = named
            continue
        shown = names.get(source, {}).get(rater) or own
        plain[source, rater] = (shown, own)
        ids.setdefault(shown, set()).add(own)
    for key, (shown, own) in plain.items():
        alone = len(ids[shown]) == 1 and shown not in taken
        found[key] = shown if alone or shown == own else f"{shown} ({own})"
    return found


def _answers(
    study: Study,
    dimension: Dimension,
    base: pl.DataFrame,
    raters: tuple[Rater, ...],
    run: str | None,
    told: Mapping[str, str | None] | None = None,
) -> Answers:
    place = pl.Series(np.where(base["rater"].to_numpy() < 0, len(raters), base["rater"].to_numpy()))
    kinds = pl.Series([r.kind for r in raters] + ["annotator"], dtype=pl.String)
    judges = pl.Series([r.name for r in raters] + [None], dtype=pl.String)
    frame = base.with_columns(kinds.gather(place).alias("kind"))
    frame = level_columns(dimension, frame, judges.gather(place) if dimension.pass_if else None)
    state = pl.col("state") if "state" in frame.columns else pl.lit("answered")
    frame = frame.with_columns(
        pl.when((state == "answered") & pl.col("level").is_null())
        .then(pl.lit("failed"))
        .otherwise(state)
        .alias("state")
    )
    # The evaluator's version is part of who answered, so "latest" never looks across versions.
    is_judge = pl.col("kind") == "evaluator"
    frame = frame.with_columns(_retired(study, frame, raters, run).alias("cause"))
    live = _live(study, dimension, frame, raters, run) | dict(told or {})
    other = [
        i
        for i, r in enumerate(raters)
        if r.kind == "evaluator" and live.get(r.name) is not None and live[r.name] != r.version
    ]
    causes = []
    if "blind" in frame.columns and not study.count_not_blind:
        causes.append(((pl.col("kind") == "annotator") & ~pl.col("blind").fill_null(True), "not_blind"))
    if "seconds" in frame.columns and study.leave_out_fast:
        fast = (pl.col("seconds") < study.fast_seconds).fill_null(False)
        causes.append(((pl.col("kind") == "annotator") & fast, "fast"))
    if other:
        causes.append((pl.col("rater").is_in(other), "other_version"))
    causes.append((is_judge & ((pl.col("state") != "answered") | (pl.col("level") == REJECTED)), "failed"))
    for test, cause in causes:
        frame = frame.with_columns(
            pl.when(pl.col("cause").is_null() & test).then(pl.lit(cause)).otherwise(pl.col("cause")).alias("cause")
        )
    frame = _latest(dimension, frame)
    final = (
        pl.when(pl.col("cause").is_not_null())
        .then(pl.col("cause"))
        .when(pl.col("state").is_in(["cleared", "skipped", "failed"]))
        .then(pl.lit("cleared"))
        .when(pl.col("level") == REJECTED)
        .then(pl.lit("rejected"))
        .when(pl.col("level") == ABSTAINED)
        .then(pl.lit("abstained"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )
    frame = frame.with_columns(final.alias("cause"))
    if "order" in frame.columns:
        frame = collapse_orders(dimension, frame)
    return Answers(
        dimension,
        frame.select("row", "item", pl.col("rater").cast(pl.Int32), "level", "number", "cause"),
        raters,
        live,
    )


def _of_run(base: pl.DataFrame, raters: tuple[Rater, ...], run: str) -> pl.DataFrame:
    """The labels of a run's evaluators, and the human ones on any item that the run scored on whatever dimension."""
    if "run" not in base.columns:
        return base.clear()
    judges = [i for i, r in enumerate(raters) if r.kind == "evaluator"]
    judged = pl.col("rater").is_in(judges)
    mine = judged & (pl.col("run") == run).fill_null(False)
    items = base.filter(mine & _stands(base, KEPT_BY_RUNS))["item"].unique()
    return base.filter(mine | (~judged & pl.col("item").is_in(items.implode())))


def _stands(frame: pl.DataFrame, kept: tuple[str, ...]) -> pl.Expr:
    """Whether the source still stands by a label, or retired it for a cause that does not matter here."""
    if "retired" not in frame.columns:
        return pl.lit(True)
    return pl.col("retired").is_null() | pl.col("retired").is_in(list(kept))


def _retired(study: Study, frame: pl.DataFrame, raters: tuple[Rater, ...], run: str | None) -> pl.Expr:
    tests: list[pl.Expr] = [pl.col("rater") < 0, ~_stands(frame, KEPT if run is None else KEPT_BY_RUNS)]
    gone = [i for i, r in enumerate(raters) if r.name in study.ignore.get("annotators", ())]
    if gone:
        tests.append(pl.col("rater").is_in(gone))
    for column, key in (("job", "jobs"), ("run", "runs")):
        if column in frame.columns and study.ignore.get(key):
            tests.append(pl.col(column).is_in(list(study.ignore[key])).fill_null(False))
    return (
        pl.when(pl.col("item").is_null())
        .then(pl.lit("no_item"))
        .when(pl.any_horizontal(tests))
        .then(pl.lit("retired"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )


def _live(
    study: Study, dimension: Dimension, frame: pl.DataFrame, raters: tuple[Rater, ...], run: str | None
) -> dict[str, str | None]:
    here = frame.filter((pl.col("kind") == "evaluator") & pl.col("cause").is_null())["rater"].unique().to_list()
    return live_versions(study, dimension.name, (raters[i] for i in here), run)


def live_versions(
    study: Study, dimension: str, raters: Iterable[Rater], run: str | None = None
) -> dict[str, str | None]:
    """Which version of each evaluator among ``raters`` (those with a label that stands) is live; None where none is named
    of several. A run is of whatever version it was."""
    versions: dict[str, set[str]] = {}
    for rater in sorted(raters):
        if rater.kind == "evaluator":
            versions.setdefault(rater.name, set()).add(rater.version)
    live: dict[str, str | None] = {}
    for name, seen in versions.items():
        named = study.live.get((dimension, name), study.live.get(("", name)))
        if run is None and named is not None:
            live[name] = named
        else:
            live[name] = next(iter(seen)) if len(seen) == 1 else None
    return live


def _latest(dimension: Dimension, frame: pl.DataFrame) -> pl.DataFrame:
    """Mark all but the latest answer of each rater on each item (and order) as superseded, draws collapsed first."""
    keys = ["rater", "item", *(["order"] if "order" in frame.columns else [])]
    standing = frame.filter(pl.col("cause").is_null())
    distinct = pl.struct(keys).n_unique() if len(keys) > 2 else _pair_key().n_unique()
    if standing.select(distinct).item() == standing.height:
        return frame
    repeated = standing.filter((pl.struct(keys) if len(keys) > 2 else _pair_key()).is_duplicated())
    repeated = repeated.sort(recency(repeated), descending=True, nulls_last=True)
    if "sample" in frame.columns or "execution" in frame.columns:
        repeated, draws, marks = _collapse_draws(dimension, repeated, keys)
        losers = repeated.filter(~pl.struct(keys).is_first_distinct())
        gone = draws.join(losers.filter("drawn"), on=keys, how="semi", nulls_equal=True)
        parts = [_marks(losers, "superseded"), _marks(gone, "superseded"), _marks(draws, "sampled"), marks]
        marks = pl.concat(parts).unique("row", keep="first", maintain_order=True)
    else:
        marks = _marks(repeated.filter(~pl.struct(keys).is_first_distinct()), "superseded")
    return _marked(frame, marks)


def _pair_key() -> pl.Expr:
    return (pl.col("rater").cast(pl.Int64) * 2**32) + pl.col("item").cast(pl.Int64)


def _marks(rows: pl.DataFrame, cause: str | None = None) -> pl.DataFrame:
    """Changes to some rows: a cause, or another level and number."""
    schema = {"row": pl.get_index_type(), "_cause": pl.String, "_level": pl.Int32, "_number": pl.Float64}
    given = {"_cause": pl.lit(cause, dtype=pl.String)} if "_cause" not in rows.columns else {}
    absent = {c: pl.lit(None, dtype=schema[c]) for c in ("_level", "_number") if c not in rows.columns}
    return rows.with_columns(**given, **absent).select(pl.col(c).cast(t) for c, t in schema.items())


def _marked(frame: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    return (
        frame.join(marks, on="row", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("cause", "_cause").alias("cause"),
            pl.coalesce("_level", "level").alias("level"),
            pl.coalesce("_number", "number").alias("number"),
        )
        .drop("_cause", "_level", "_number")
    )


def recency(frame: pl.DataFrame) -> list[pl.Expr]:
    """Later is greater: by time answered, then the source's own sequence, then record id (numbers as numbers)."""
    by: list[pl.Expr] = []
    if "at" in frame.columns:
        by.append(pl.col("at"))
    by.append(pl.col("seq"))
    if "record" in frame.columns:
        by += [pl.col("record").cast(pl.Int64, strict=False), pl.col("record")]
    by.append(pl.col("row"))
    return by


def _collapse_draws(
    dimension: Dimension, frame: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Draws of one evaluator on one item are one answer: their mode, or on ordered scales their median.

    ``frame`` is sorted newest first. Returns it with the newest answer set standing as its newest draw (``drawn``), the
    other draws of that set, and marks for draws that are replaced, for ties, and for the level of the set.
    """
    text = pl.lit(None, dtype=pl.String)
    has = frame.columns
    # Rows that share an execution are a set; rows that only say which sample they are, are a set within their run.
    run = pl.col("run").fill_null("") if "run" in has else pl.lit("")
    execution = (
        pl.when(pl.col("execution").is_not_null()).then("e:" + pl.col("execution")) if "execution" in has else None
    )
    sample = pl.when(pl.col("sample").is_not_null()).then("s:" + run) if "sample" in has else None
    named = pl.coalesce([e.otherwise(text) for e in (execution, sample) if e is not None])
    frame = frame.with_columns(pl.when(pl.col("kind") == "evaluator").then(named).otherwise(text).alias("_set"))
    drawn = frame.filter(pl.col("_set").is_not_null())
    older = drawn.filter(pl.col("_set") != pl.col("_set").first().over(keys))
    newest = drawn.filter(pl.col("_set") == pl.col("_set").first().over(keys))
    if "sample" in has:  # a draw given again within its set replaces the earlier one
        again = newest.filter(~pl.struct([*keys, pl.coalesce("sample", pl.format("#{}", "row"))]).is_first_distinct())
        newest = newest.join(again.select("row"), on="row", how="anti", maintain_order="left")
        older = pl.concat([older, again])
    heads = newest.filter(pl.struct(keys).is_first_distinct())
    others = newest.filter(~pl.struct(keys).is_first_distinct())
    sizes = newest.group_by(keys).agg(pl.len().alias("_draws"))
    collapsed = (
        heads.join(sizes, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .filter(pl.col("_draws") > 1)
        .select("row", *keys)
        .join(_answer_of_draws(dimension, newest, keys), on=keys, how="left", nulls_equal=True, maintain_order="left")
    )
    marks = pl.concat([_marks(older, "superseded"), _marks(collapsed)])
    standing = pl.concat([frame.filter(pl.col("_set").is_null()), heads])
    standing = standing.with_columns(pl.col("_set").is_not_null().alias("drawn")).drop("_set")
    return standing.sort(recency(standing), descending=True, nulls_last=True), others, marks


def _answer_of_draws(dimension: Dimension, draws: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Per key: ``_level`` and ``_number`` of the collapsed answer, or ``_cause`` "tied". Failures stand apart."""
    given = draws.filter(pl.col("level") >= 0)
    tie = pl.lit("tied")
    nothing = pl.lit(None, dtype=pl.String)
    if dimension.scale.kind == "rating" and dimension.scale.levels is None:
        answers = given.group_by(keys).agg(
            pl.lit(0, dtype=pl.Int32).alias("_level"), pl.col("number").median().alias("_number")
        )
        return answers.with_columns(nothing.alias("_cause"))
    if dimension.scale.ordered:
        middle = pl.len().cast(pl.Int64)
        answers = given.group_by(keys).agg(
            pl.col("level").sort().get((middle - 1) // 2).alias("_level"),
            pl.col("level").sort().get(middle // 2).alias("_upper"),
            pl.col("number").sort().get((middle - 1) // 2).alias("_number"),
        )
        same = pl.col("_level") == pl.col("_upper")
        return answers.with_columns(pl.when(same).then(nothing).otherwise(tie).alias("_cause")).drop("_upper")
    counts = given.group_by([*keys, "level"]).len()
    most = counts.filter(pl.col("len") == pl.col("len").max().over(keys))
    return most.group_by(keys).agg(
        pl.col("level").min().alias("_level"),
        pl.lit(None, dtype=pl.Float64).alias("_number"),
        pl.when(pl.len() > 1).then(tie).otherwise(nothing).alias("_cause"),
    )


def collapse_orders(dimension: Dimension, frame: pl.DataFrame) -> pl.DataFrame:
    """Both orders of a pair are one answer where they agree; else none (default) or a tie."""
    open_ = frame.filter(pl.col("cause").is_null())
    twice = open_.filter(pl.struct("rater", "item").is_duplicated())
    if twice.is_empty():
        return frame
    groups = twice.group_by("rater", "item", maintain_order=True).agg(
        pl.col("row"), pl.struct("level", "number").n_unique().alias("answers")
    )
    tie = len(dimension.scale.labels) - 1 if dimension.flipped == "tie" else None
    rows: list[tuple[int, str | None, int | None]] = []
    for _, _, members, answers in groups.rows():
        if answers == 1:
            rows += [(r, "sampled", None) for r in members[1:]]
        elif tie is not None:
            rows += [(members[0], None, tie), *((r, "flipped", None) for r in members[1:])]
        else:
            rows += [(r, "flipped", None) for r in members]
    marks = pl.DataFrame(rows, schema={"row": pl.Int64, "_cause": pl.String, "_level": pl.Int32}, orient="row")
    return _marked(frame, _marks(marks))
