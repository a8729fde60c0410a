"""Labels in, the typed report out: the one place where rules, counting and statistics are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.compare import Comparison, compare
from calibrate_plugin.agreement.estimate import Method, Resampling
from calibrate_plugin.model import (
    ASIDE,
    ITEMS,
    OWN,
    AnnotatorsReport,
    Answer,
    Coverage,
    DimensionReport,
    Disagreement,
    Disagreements,
    EvaluatorReport,
    Measure,
    PairReport,
    RaterInfo,
    RaterReport,
    Report,
    Ruling,
    Scale,
    SetAside,
    Slice,
    Study,
    frame,
    number,
)
from calibrate_plugin.ratings.care import fast_and_counted
from calibrate_plugin.ratings.rules import CAUSES, Answers, Rater, Ratings, apply, names_of
from calibrate_plugin.ratings.rulings import late_rows, rulings_in
from calibrate_plugin.report.slices import GUIDELINE, Limit, groups, limited, under

Array = NDArray[Any]
LISTED = 1_000
_NOTHING = Measure(None, "nothing_to_compare", 0, 0)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What the sources of a study said: per source its labels, and together the facts of items, what could not be read,
    and what raters are called."""

    labels: Mapping[str, pl.DataFrame]
    items: pl.DataFrame = field(default_factory=lambda: frame(ITEMS))
    aside: pl.DataFrame = field(default_factory=lambda: frame(ASIDE))
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def build(
    study: Study,
    pulled: Pulled,
    generated_at: datetime,
    *,
    by: Sequence[str] = (),
    run: str | None = None,
    only: Sequence[Limit] = (),
    method: Method = "item-bootstrap+3",
) -> tuple[Report, Ratings]:
    """The report of ``study``, and the ratings behind it. ``by`` splits every dimension by item facts, or by ``job``,
    ``run`` or ``guideline``; ``run`` limits it to one evaluation run, ``only`` to what has certain facts.

    Raises ValueError for a fact that no item has, or one with too many values to split by.
    """
    ratings = apply(study, pulled.labels, pulled.names, run=run)
    if only:
        ratings = limited(study, ratings, pulled.items, pulled.names, only, run)
    resampling = Resampling(study.seed, study.resamples, study.level, method)
    facts = {fact: groups(ratings, pulled.items, fact) for fact in by}
    texts = {v: under(study, ratings, pulled.names, v, run) for v, _ in facts.pop(GUIDELINE, [])}
    called = names_of(study, _raters_of(ratings), pulled.names) if study.pseudonyms else None
    rulings = rulings_in(study, pulled.labels.get(OWN), pulled.items, called)
    dimensions = []
    for name, answers in ratings.answers.items():
        one = Builder(study, ratings, answers, resampling.about(name), run, rulings)
        slices = [
            Slice(fact, value, one.limited(keep, fact, value).report())
            for fact, found in facts.items()
            for value, keep in found
        ]
        for version, given in texts.items():
            told = resampling.about(name).about(GUIDELINE, version)
            part = Builder(study, given, given.answers[name], told, run, rulings)
            slices.append(Slice(GUIDELINE, version, part.report()))
        dimensions.append(replace(one.report(listed=LISTED), slices=tuple(slices)))
    return (
        Report(
            study=study.name,
            generated_at=generated_at,
            dimensions=tuple(dimensions),
            coverage=coverage(ratings, pulled.aside.with_columns(rater=None) if study.pseudonyms else pulled.aside),
            bands=study.bands,
            sources=tuple(pulled.labels),
            only=tuple(map(str, only)),
        ),
        ratings,
    )


class Builder:
    """The report of one dimension, or of a part of it."""

    def __init__(
        self,
        study: Study,
        ratings: Ratings,
        answers: Answers,
        resampling: Resampling,
        run: str | None,
        rulings: Mapping[tuple[str, str], Ruling] | None = None,
    ) -> None:
        self.study = study
        self.rulings = rulings or {}
        self.ratings = ratings
        self.answers = answers
        self.resampling = resampling
        self.run = run
        counted = answers.counted
        self.counted = counted
        present = set(counted["rater"].unique().to_list())
        self.annotators = [i for i in sorted(present) if answers.raters[i].kind == "annotator"]
        self.evaluators = [i for i in sorted(present) if answers.raters[i].kind == "evaluator"]
        self.judges = [i for i in self.evaluators if answers.live.get(answers.raters[i].name) is not None]
        self.comparison: Comparison = compare(
            answers.dimension.scale, counted, self.annotators, self.evaluators, resampling
        )

    def limited(self, keep: pl.Expr, fact: str, value: str) -> Builder:
        part = replace(self.answers, frame=self.answers.frame.filter(keep))
        return Builder(self.study, self.ratings, part, self.resampling.about(fact, value), self.run, self.rulings)

    def label(self, rater: int) -> str:
        """A rater as reports name it; a version is told only where it tells something apart."""
        found = self.answers.raters[rater]
        return found.label if found.kind == "evaluator" else found.name

    def report(self, listed: int = 0) -> DimensionReport:
        dimension = self.answers.dimension
        every = [*self.annotators, *self.judges]
        fleiss, alpha = self.comparison.all_raters(self.judges) if len(every) > 1 else (_NOTHING, _NOTHING)
        return DimensionReport(
            name=dimension.name,
            scale=dimension.scale,
            human_score=self.comparison.human_score(),
            raters=tuple(self._info(i) for i in [*self.annotators, *self.evaluators]),
            annotators=self._annotators(),
            evaluators=tuple(self._evaluator(e) for e in self.evaluators),
            judges=tuple(self._pairs(self.judges)),
            fleiss_all=fleiss,
            alpha_all=alpha,
            disagreements=self._disagreements(listed),
            set_aside=self.set_aside(),
            set_aside_listed=self._set_aside_listed(listed),
            slices=(),
            notes=tuple(self._notes()),
        )

    def _info(self, rater: int) -> RaterInfo:
        found = self.answers.raters[rater]
        spread = self.comparison.distribution(rater)
        return RaterInfo(found.name, found.kind, found.version, sum(spread), sum(spread), spread)

    def _annotators(self) -> AnnotatorsReport:
        found = self.comparison.among_annotators()
        each = []
        for a in self.annotators:
            beside = self.comparison.beside(a, self.label(a), "other annotators")
            each.append(RaterReport(self.label(a), beside.score, beside.agreement, beside.kappa))
        return AnnotatorsReport(
            agreement=found.agreement,
            kappa=found.kappa,
            alpha=found.alpha,
            alphas=found.alphas,
            ac=found.ac,
            pabak=found.pabak,
            positive_agreement=found.positive,
            negative_agreement=found.negative,
            counted=tuple(self.label(a) for a in self.comparison.counted()),
            pairs=tuple(self._pairs(self.annotators)),
            each=tuple(each),
        )

    def _evaluator(self, rater: int) -> EvaluatorReport:
        found = self.answers.raters[rater]
        beside = self.comparison.beside(rater, self.label(rater), "annotators")
        each = [self._pair(rater, a) for a in self.annotators]
        live = self.answers.live.get(found.name)
        return EvaluatorReport(
            evaluator=found.name,
            version=found.version,
            live=self._is_live(found, live),
            score=beside.score,
            on_shared_items=(beside.shared, beside.theirs),
            agreement=beside.agreement,
            kappa=beside.kappa,
            counts=beside.counts,
            each=tuple(p for p in each if p is not None),
            pabak=beside.pabak,
            positive_agreement=beside.positive,
            negative_agreement=beside.negative,
        )

    def _is_live(self, rater: Rater, live: str | None) -> bool | None:
        if live is None:
            return None
        named = self.study.live.get(
            (self.answers.dimension.name, rater.name), self.study.live.get(("", rater.name), live)
        )
        return rater.version == named

    def _pair(self, a: int, b: int) -> PairReport | None:
        found = self.comparison.pair(a, b, self.label(a), self.label(b))
        return None if found is None else PairReport(self.label(a), self.label(b), *found)

    def _pairs(self, raters: Sequence[int]) -> Iterable[PairReport]:
        for i, a in enumerate(raters):
            for b in raters[i + 1 :]:
                if (pair := self._pair(a, b)) is not None:
                    yield pair

    def set_aside(self) -> dict[str, int]:
        # Gold is never a rater, so it is not set aside either.
        gold = [i for i, r in enumerate(self.answers.raters) if r.kind == "gold"]
        frame = self.answers.frame.filter(pl.col("cause").is_not_null() & ~pl.col("rater").is_in(gold))
        found = dict(frame.group_by("cause").len().rows())
        ordered = {cause: int(found[cause]) for cause in CAUSES if cause in found}
        if unpaired := self._unpaired():
            ordered["unpaired"] = unpaired
        return ordered

    def _unpaired(self) -> int:
        """Counted labels that meet no other: they enter scores, and no agreement."""
        if self.counted.is_empty():
            return 0
        human = pl.col("rater").is_in(self.annotators)
        per = self.counted.group_by("item").agg(human.sum().alias("people"), (~human).sum().alias("machines"))
        alone = per.filter(
            ((pl.col("people") == 1) & (pl.col("machines") == 0))
            | ((pl.col("people") == 0) & (pl.col("machines") == 1))
        )
        return alone.height

    def _set_aside_listed(self, listed: int) -> tuple[SetAside, ...]:
        gold = [i for i, r in enumerate(self.answers.raters) if r.kind == "gold"]
        out = pl.col("cause").is_not_null() & ~pl.col("rater").is_in(gold)
        left = self.answers.frame.filter(out).sort("row").head(listed)
        if left.is_empty():
            return ()
        about = self.ratings.labels[left["row"].to_numpy()].select("record", "seq", "source", "item", "rater", "value")
        return tuple(
            SetAside(
                cause,
                record or (source if seq is None else f"{source}:{seq}"),
                item,
                self._who(place, rater),
                value,
                CAUSES[cause],
            )
            for cause, place, (record, seq, source, item, rater, value) in zip(
                left["cause"], left["rater"], about.rows(), strict=True
            )
        )

    def _who(self, place: int, rater: str | None) -> str | None:
        """A rater as the source says it, but for pseudonyms."""
        return self.answers.raters[place].name if self.study.pseudonyms and place >= 0 else rater

    def _disagreements(self, listed: int) -> Disagreements:
        among, judged, worst = self.comparison.differing(self.judges)
        pairs = self.comparison.differing_pairs(self.judges)
        shown: tuple[Disagreement, ...] = ()
        if listed and (differ := np.flatnonzero(worst > 0)).size:
            shown = self._listed(differ, among, judged, worst, listed)
        return Disagreements(int(among.sum()), int(judged.sum()), pairs, shown)

    def _listed(
        self, differ: Array, among: Array, judged: Array, worst: Array, listed: int
    ) -> tuple[Disagreement, ...]:
        if differ.size > listed:
            # Only the items at or above the last listed distance can be shown; names are looked up for those alone.
            least = np.partition(worst[differ], -listed)[-listed]
            differ = differ[worst[differ] >= least]
        shown = self.counted.filter(
            pl.col("item").is_in(differ.astype(np.uint32)) & pl.col("rater").is_in([*self.annotators, *self.judges])
        )
        first = shown.unique("item", keep="first", maintain_order=True)
        names = first.select("item", self.ratings.labels["item"].gather(first["row"]).alias("name"))
        names = names.with_columns(pl.Series("worst", worst[names["item"].to_numpy()]))
        chosen = names.sort(["worst", "name"], descending=[True, False]).head(listed)
        place = pl.DataFrame({"item": chosen["item"], "place": range(chosen.height)})
        rows = shown.join(place, on="item").sort("place", "rater")
        about = self.ratings.labels[rows["row"].to_numpy()].select("reason", "at", "link")
        scale, name = self.answers.dimension.scale, self.answers.dimension.name
        late = set(late_rows(self.answers, self.ratings.labels)["row"])
        answers: dict[int, list[Answer]] = {}
        for (row, item, rater, level, value), (reason, at, link) in zip(
            rows.select("row", "item", "rater", "level", "number").rows(), about.rows(), strict=True
        ):
            who = self.answers.raters[rater]
            written = scale.names[level] if scale.levels is not None else number(value)
            answers.setdefault(item, []).append(
                Answer(who.name, who.kind, who.version, written, reason, at, link, row in late)
            )
        return tuple(
            Disagreement(
                one,
                float(distance),
                bool(among[item]),
                bool(judged[item]),
                tuple(answers[item]),
                self.rulings.get((one, name)),
            )
            for item, one, distance in chosen.rows()
        )

    def late(self) -> int:
        """Counted answers that were given after their item had been ruled on."""
        return late_rows(self.answers, self.ratings.labels).filter(pl.col("cause").is_null()).height

    def hurried(self) -> int:
        """Counted answers that came faster than anybody reads."""
        return fast_and_counted(self.study, self.answers, self.ratings.labels)

    def _notes(self) -> Iterable[str]:
        if hurried := self.hurried():
            took = "1 answer that counts took" if hurried == 1 else f"{hurried:,} answers that count took"
            yield (
                f"{took} less than {number(self.study.fast_seconds)} s; calibrate-plugin check says whose, and "
                "leave_out_fast leaves such answers out"
            )
        if late := self.late():
            were = "1 answer was" if late == 1 else f"{late:,} answers were"
            yield (
                f"{were} given after the disagreement on the item had been ruled on: they count here; ceiling and verdict "
                "take what each person said before"
            )
        live = self.answers.live
        for name in sorted(n for n, v in live.items() if v is None):
            versions = sorted(
                self.answers.raters[i].version for i in self.evaluators if self.answers.raters[i].name == name
            )
            shown = ", ".join(v if v else repr(v) for v in versions)
            yield f"{name} has answered in several versions ({shown}) and none is named as live: each stands apart, without a verdict"
        for name, version in sorted((n, v) for n, v in live.items() if v is not None):
            if self.run is None and not any(
                r.name == name and r.version == version and i in self.evaluators
                for i, r in enumerate(self.answers.raters)
            ):
                yield f"no counted answer of {name} is of its live version {version!r}"


def _raters_of(ratings: Ratings) -> list[tuple[str, str]]:
    return ratings.labels.select("source", "rater").drop_nulls().unique().sort("source", "rater").rows()


def pair_audit(ratings: Ratings) -> pl.DataFrame:
    """Every possible pair of labels of two raters on one item, and whether it counts or why not.

    Columns: dimension, item, then rater, kind, version, value, reason, link of both sides (``_a``, ``_b``), agreement,
    counted, cause (the first label's cause, else the second's).
    """
    parts = []
    for name, answers in ratings.answers.items():
        parts.append(_audit(name, answers, ratings.labels))
    return pl.concat(parts) if parts else pl.DataFrame()


def _audit(name: str, answers: Answers, labels: pl.DataFrame) -> pl.DataFrame:
    scale = answers.dimension.scale
    raters = pl.DataFrame(
        {
            "rater": pl.Series(range(len(answers.raters)), dtype=pl.Int32),
            "name": [r.name for r in answers.raters],
            "kind": [r.kind for r in answers.raters],
            "version": [r.version for r in answers.raters],
        },
        schema_overrides={"name": pl.String, "kind": pl.String, "version": pl.String},
    )
    rows = answers.frame.filter(pl.col("rater") >= 0).join(raters, on="rater").filter(pl.col("kind") != "gold")
    about = labels[rows["row"].to_numpy()].select("item", "value", "reason", "link")
    if scale.levels is None:
        written = pl.col("number").cast(pl.String)
    else:
        written = pl.col("level").replace_strict(dict(enumerate(scale.names)), default=None, return_dtype=pl.String)
    rows = rows.rename({"item": "code"}).with_columns(about).with_columns(pl.coalesce(written, "value").alias("value"))
    rows = rows.with_columns(place_of(scale).alias("place")).select(
        "row", "code", "rater", "item", "name", "kind", "version", "value", "reason", "link", "cause", "place"
    )
    both = rows.join(rows.drop("item"), on="code", suffix="_b").filter(pl.col("rater") < pl.col("rater_b"))
    cause = pl.coalesce("cause", "cause_b")
    return both.sort("item", "row", "row_b").select(
        pl.lit(name).alias("dimension"),
        "item",
        pl.col("name").alias("rater_a"),
        pl.col("kind").alias("kind_a"),
        pl.col("version").alias("version_a"),
        pl.col("value").alias("value_a"),
        pl.col("reason").alias("reason_a"),
        pl.col("link").alias("link_a"),
        pl.col("name_b").alias("rater_b"),
        "kind_b",
        "version_b",
        "value_b",
        "reason_b",
        "link_b",
        pl.when(cause.is_null()).then(agreement_of(scale)).alias("agreement"),
        cause.is_null().alias("counted"),
        cause.alias("cause"),
    )


def item_agreement(ratings: Ratings) -> pl.DataFrame:
    """Per item and dimension with at least one counted pair (two annotators, or a live judge and an annotator): columns
    item, dimension, agreement (mean over its pairs), n_pairs, disagree."""
    parts = []
    for name, answers in ratings.answers.items():
        kinds = {i: r.kind for i, r in enumerate(answers.raters)}
        idle = [i for i, r in enumerate(answers.raters) if r.kind == "evaluator" and answers.live.get(r.name) is None]
        rows = answers.counted.filter(~pl.col("rater").is_in(idle)).select(
            "row",
            pl.col("item").alias("code"),
            "rater",
            place_of(answers.dimension.scale).alias("place"),
            pl.col("rater").replace_strict(kinds, default=None, return_dtype=pl.String).eq("evaluator").alias("judge"),
        )
        both = rows.join(rows, on="code", suffix="_b").filter(
            (pl.col("rater") < pl.col("rater_b")) & ~(pl.col("judge") & pl.col("judge_b"))
        )
        per = both.group_by("code", maintain_order=True).agg(
            # Sorted, so that the last bit of the mean does not tell in which order the labels came.
            agreement_of(answers.dimension.scale).sort().mean().alias("agreement"),
            pl.len().cast(pl.Int64).alias("n_pairs"),
            (pl.col("place") != pl.col("place_b")).any().alias("disagree"),
            pl.col("row").first(),
        )
        parts.append(
            per.select(
                ratings.labels["item"].gather(per["row"]).alias("item"),
                pl.lit(name).alias("dimension"),
                "agreement",
                "n_pairs",
                "disagree",
            )
        )
    return pl.concat(parts).sort("dimension", "item") if parts else pl.DataFrame()


def place_of(scale: Scale) -> pl.Expr:
    """Where an answer lies on its scale, as a number."""
    if scale.levels is None:
        return pl.col("number")
    places = {i: float(p) for i, p in enumerate(scale.positions)}
    return pl.col("level").replace_strict(places, default=None, return_dtype=pl.Float64)


def agreement_of(scale: Scale) -> pl.Expr:
    """Pair agreement of the columns place and place_b."""
    apart = (pl.col("place") - pl.col("place_b")).abs()
    if not scale.ordered:
        return (apart == 0).cast(pl.Float64)
    ends = (scale.low, scale.high) if scale.kind == "rating" else (scale.positions[0], scale.positions[-1])
    assert ends[0] is not None and ends[1] is not None
    return 1 - apart / float(ends[1] - ends[0])


def coverage(ratings: Ratings, aside: pl.DataFrame) -> Coverage:
    size = 0
    for answers in ratings.answers.values():
        if (last := answers.frame["item"].max()) is not None:
            size = max(size, int(last) + 1)  # type: ignore[arg-type]
    people, machines = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    labels = counted = 0
    for answers in ratings.answers.values():
        rows = answers.counted
        labels, counted = labels + answers.frame.height, counted + rows.height
        human = np.array([r.kind == "annotator" for r in answers.raters] + [False])[rows["rater"].to_numpy()]
        item = rows["item"].to_numpy()
        people[item[human]] = True
        machines[item[~human]] = True
    causes = dict(aside.group_by("cause").len().sort("cause").rows())
    unread = {str(cause): int(n) for cause, n in causes.items()} | {
        f"unasked: {name}": n for name, n in ratings.unasked.items()
    }
    listed = aside.head(LISTED).select("cause", "record", "item", "rater", "value", "message").rows()
    return Coverage(
        items=int((people | machines).sum()),
        with_humans=int(people.sum()),
        with_evaluators=int(machines.sum()),
        with_both=int((people & machines).sum()),
        labels=labels,
        counted=counted,
        unread=unread,
        unread_listed=tuple(SetAside(c, str(r or ""), i, who, v, m) for c, r, i, who, v, m in listed),
    )


def only(study: Study, names: Sequence[str]) -> Study:
    """The study limited to some of its dimensions. Raises ValueError for a name that it does not have."""
    known = {d.name: d for d in study.dimensions}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no dimension {name!r}; there are: {', '.join(known)}")
    return replace(study, dimensions=tuple(known[n] for n in names)) if names else study


__all__ = ["LISTED", "Builder", "Pulled", "build", "item_agreement", "only", "pair_audit"]
