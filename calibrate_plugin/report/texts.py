"""What a new text of the guideline changed: numbers under two of its versions beside each other, and what to label again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

import polars as pl

from calibrate_plugin.model import DimensionReport, Interval, Measure, Study
from calibrate_plugin.planning.guideline import Guideline, changed, older, plain_version
from calibrate_plugin.ratings.rules import Ratings
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.report.slices import GUIDELINE, Limit


@dataclass(frozen=True, slots=True)
class Compared:
    """A number under two versions of the guideline. ``subject``: the annotators, or an evaluator with its version.
    ``difference`` is new minus old; its interval takes the two as independent (Zou and Donner 2008), which is cautious where
    they share items."""

    dimension: str
    subject: str
    statistic: str
    old: Measure
    new: Measure
    difference: Measure


def compared(study: Study, pulled: Pulled, old: str, new: str, at: datetime) -> list[Compared]:
    """Every headline number under two versions. Raises ValueError for a version that no answer has."""
    reports = [build(study, pulled, at, only=[Limit(GUIDELINE, version)])[0] for version in (old, new)]
    found = []
    for before, after in zip(reports[0].dimensions, reports[1].dimensions, strict=True):
        then, now = dict(_numbers(before)), dict(_numbers(after))
        for key in dict.fromkeys([*then, *now]):
            nothing = Measure(None, "no_labels", 0)
            a, b = then.get(key, nothing), now.get(key, nothing)
            found.append(Compared(before.name, *key, a, b, difference(a, b)))
    return found


def _numbers(dimension: DimensionReport) -> Iterator[tuple[tuple[str, str], Measure]]:
    people = dimension.annotators
    yield ("annotators", "score"), dimension.human_score
    yield ("annotators", "agreement"), people.agreement
    yield ("annotators", "kappa"), people.kappa
    for e in dimension.evaluators:
        who = f"{e.evaluator} {e.version}".strip()
        yield (who, "agreement"), e.agreement
        yield (who, "kappa"), e.kappa


def difference(old: Measure, new: Measure) -> Measure:
    """``new`` minus ``old``, with the interval of a difference of independent estimates (Zou and Donner 2008)."""
    if old.value is None or new.value is None:
        return Measure(None, new.reason or old.reason, min(old.n_items, new.n_items))
    change = new.value - old.value
    then, now = old.interval, new.interval
    if then is None or now is None:
        return Measure(
            change,
            None,
            min(old.n_items, new.n_items),
            interval_reason=new.interval_reason or old.interval_reason,
        )
    low = change - sqrt((new.value - now.low) ** 2 + (then.high - old.value) ** 2)
    high = change + sqrt((now.high - new.value) ** 2 + (old.value - then.low) ** 2)
    told = Interval(low, high, now.level, "difference of intervals")
    return Measure(change, None, min(old.n_items, new.n_items), None, told)


@dataclass(frozen=True, slots=True)
class Again:
    """An item to label again: by whom, and under which versions ("": none was told) they answered."""

    item: str
    dimension: str
    raters: tuple[str, ...]
    versions: tuple[str, ...]


def to_label_again(ratings: Ratings, now: Guideline, known: Mapping[str, Guideline]) -> list[Again]:
    """The items whose answers that count were given under an earlier text of their section. ``known`` are the texts that are
    kept, by version; of a version whose text is not there, and of answers without a version, nobody knows that it said the
    same."""
    found = []
    for name, answers in ratings.answers.items():
        people = {i: r.name for i, r in enumerate(answers.raters) if r.kind == "annotator"}
        rows = answers.counted.filter(pl.col("rater").is_in(list(people)))
        labels = ratings.labels
        about = pl.DataFrame(
            {
                "item": labels["item"].gather(rows["row"]),
                "rater": rows["rater"],
                "version": labels["version"].gather(rows["row"]).fill_null(""),
            }
        )
        stale = [
            v
            for v in about["version"].unique().to_list()
            if older(v, now.version) and changed(known.get(plain_version(v)), now, name)
        ]
        again = about.filter(pl.col("version").is_in(stale)).sort("item", "rater")
        for (item,), part in again.partition_by("item", as_dict=True, maintain_order=True).items():
            who = tuple(sorted({people[r] for r in part["rater"]}))
            found.append(Again(str(item), name, who, tuple(sorted(set(part["version"])))))
    return found


def versions_used(ratings: Ratings) -> dict[str, int]:
    """How many answers that count were given under each version of the guideline ("": none was told), in their order."""
    counts: dict[str, int] = {}
    for answers in ratings.answers.values():
        people = [i for i, r in enumerate(answers.raters) if r.kind == "annotator"]
        rows = answers.counted.filter(pl.col("rater").is_in(people))
        for version, n in ratings.labels["version"].gather(rows["row"]).fill_null("").value_counts().iter_rows():
            counts[version] = counts.get(version, 0) + n
    return dict(sorted(counts.items(), key=lambda pair: _order(pair[0])))


def _order(version: str) -> tuple[int, int, str]:
    plain = plain_version(version)
    return (1, int(plain), "") if plain.isdecimal() else (0, 0, plain)


__all__ = ["Again", "Compared", "compared", "difference", "to_label_again", "versions_used"]
