"""The answers that differ, filtered and page by page: which items, by the pairs that are kept; what was said, by the store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from calibrate_plugin import rulings
from calibrate_plugin.cycle import parts_of
from calibrate_plugin.model import OWN, Answer, Disagreement, Ruling, Study
from calibrate_plugin.ratings.rules import apply
from calibrate_plugin.ratings.rulings import late_rows
from calibrate_plugin.report import recount
from calibrate_plugin.report.display import cell
from calibrate_plugin.server.numbers import State
from calibrate_plugin.store import Store

Kind = Literal["", "humans", "judges"]
MOST_CSV = 5_000  # items in one CSV
MOST_VERSIONS = 4  # versions that are not live whose pairs are remembered
COLUMNS = (
    "item",
    "distance",
    "rater",
    "kind",
    "version",
    "answer",
    "reason",
    "at",
    "link",
    "ruling",
    "cause",
    "ruled_by",
)
#: What a disagreement may be asked for by, beside the causes of rulings.
OPEN, RULED = "open", "ruled"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which disagreements of a dimension. Empty: all of them. ``kind``: between annotators, or of an evaluator with one.
    ``ruling``: ``OPEN``, ``RULED`` or a cause."""

    dimension: str
    evaluator: str = ""
    version: str = ""
    annotator: str = ""
    kind: Kind = ""
    ruling: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A page of them, the widest first, and how many items there are in all."""

    total: int
    items: tuple[Disagreement, ...]


class Disagreements:
    """Remembers the order of the items for the last filters: the second page costs nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._sorted: OrderedDict[tuple[str, Wanted], pl.DataFrame] = OrderedDict()
        self._of_versions: OrderedDict[tuple[int, str, str, str], pl.DataFrame] = OrderedDict()
        self._rulings: tuple[tuple[int, int], Mapping[tuple[str, str], Ruling]] = ((-1, -1), {})
        self._lock = threading.Lock()

    def rulings(self, state: State) -> Mapping[tuple[str, str], Ruling]:
        """Every ruling that stands now, by item and dimension: whoever rules sees it at once, before it is counted."""
        key = (state.serial, self.store.latest())
        with self._lock:
            if self._rulings[0] == key:
                return self._rulings[1]
        found = rulings.read(self.store, state.study, called=state.called)
        with self._lock:
            self._rulings = key, found
        return found

    def page(self, state: State, wanted: Wanted, page: int, size: int) -> Found:
        """Page 1 is the first. Raises KeyError for a dimension that is not there."""
        items = self._items(state, replace(wanted, ruling=""))
        if wanted.ruling:
            decided = [
                item
                for (item, dimension), one in self.rulings(state).items()
                if dimension == wanted.dimension and wanted.ruling in (OPEN, RULED, one.cause)
            ]
            among = pl.col("item").is_in(pl.Series("item", decided, dtype=pl.String).implode())
            items = items.filter(~among if wanted.ruling == OPEN else among)
        some = items[(page - 1) * size : page * size]
        counting = replace(state, study=self.study_of(state, wanted))
        return Found(items.height, tuple(self._told(counting, wanted.dimension, some)))

    def study_of(self, state: State, wanted: Wanted) -> Study:
        """The settings of ``state``; where a version is asked for that is not the live one, those under which it is."""
        tables = state.counts.tables[wanted.dimension]
        if not wanted.version or tables is None:
            return state.study
        live = recount.live(state.study, {wanted.dimension: tables})[wanted.dimension]
        other = {
            (wanted.dimension, r.name): r.version
            for r in tables.standing
            if r.kind == "evaluator" and r.version == wanted.version and wanted.evaluator in ("", r.name)
            if live.get(r.name) not in (None, r.version)
        }
        return replace(state.study, live={**state.study.live, **other}) if other else state.study

    def pairs(self, state: State, wanted: Wanted) -> pl.DataFrame:
        """The pairs of answers that differ (see ``recount.differing``). Those of a version that is not live are counted anew,
        from all labels of the dimension, and remembered."""
        study = self.study_of(state, wanted)
        if study == state.study:
            return state.differing[wanted.dimension].frame
        key = (state.serial, wanted.dimension, wanted.evaluator, wanted.version)
        with self._lock:
            if key in self._of_versions:
                return self._of_versions[key]
        fields = {f for (_, f), names in study.fields.items() if wanted.dimension in names} | {wanted.dimension}
        labels = self.store.as_of(state.number, fields=sorted(fields), reasons=False)
        one = replace(study, dimensions=tuple(d for d in study.dimensions if d.name == wanted.dimension))
        ratings = apply(one, parts_of(labels), state.names, called=state.called)
        found = recount.differing(ratings)[wanted.dimension]
        with self._lock:
            self._of_versions[key] = found
            while len(self._of_versions) > MOST_VERSIONS:
                self._of_versions.popitem(last=False)
        return found

    def csv(self, state: State, wanted: Wanted) -> str:
        """What a page shows, in one table: an answer a row."""
        import csv
        import io

        found = self.page(state, wanted, 1, MOST_CSV)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        for one in found.items:
            for a in one.answers:
                row: list[Any] = [one.item, f"{one.distance:g}", a.rater, a.kind, a.version, a.value]
                row += [a.reason or "", a.at.isoformat() if a.at else "", a.link or ""]
                row += [one.ruling.value, one.ruling.cause or "", one.ruling.by] if one.ruling else ["", "", ""]
                writer.writerow([cell(str(text)) for text in row])
        return out.getvalue()

    def _items(self, state: State, wanted: Wanted) -> pl.DataFrame:
        key = (f"{state.serial}", wanted)
        with self._lock:
            if key in self._sorted:
                self._sorted.move_to_end(key)
                return self._sorted[key]
        pairs = self.pairs(state, wanted)
        judged = pl.col("evaluator").is_not_null()
        tests: list[pl.Expr] = []
        if wanted.evaluator:
            tests.append(pl.col("evaluator") == wanted.evaluator)
        if wanted.version:
            tests.append(pl.col("version") == wanted.version)
        if wanted.annotator:
            tests.append((pl.col("a") == wanted.annotator) | (pl.col("b") == wanted.annotator))
        if wanted.kind:
            tests.append(judged if wanted.kind == "judges" else ~judged)
        items = (
            pairs.filter(*(test.fill_null(False) for test in tests))
            .group_by("item")
            .agg(pl.col("distance").max(), (~judged).any().alias("humans"), judged.any().alias("judges"))
            .sort(["distance", "item"], descending=[True, False])
        )
        with self._lock:
            self._sorted[key] = items
            while len(self._sorted) > 32:
                self._sorted.popitem(last=False)
        return items

    def _told(self, state: State, dimension: str, some: pl.DataFrame) -> Iterator[Disagreement]:
        ratings = state.rated(self.store, some["item"].to_list())
        answers = ratings.answers[dimension]
        scale = answers.dimension.scale
        # Gold stands beside what people and judges said; a ruling has a line of its own.
        rows = answers.frame.filter(pl.col("cause").is_null() & (pl.col("rater") >= 0)).sort("rater")
        if OWN in (known := ratings.labels["source"]).unique():
            rows = rows.filter(known.gather(rows["row"]) != OWN)
        about = ratings.labels.select("item", "reason", "at", "link")[rows["row"].to_numpy()]
        late = set(late_rows(answers, ratings.labels)["row"])
        said: dict[str, list[Answer]] = {}
        for (row, rater, level, value), (item, reason, at, link) in zip(
            rows.select("row", "rater", "level", "number").rows(), about.rows(), strict=True
        ):
            who = answers.raters[rater]
            written = scale.names[level] if scale.levels is not None else f"{value:g}"
            said.setdefault(item, []).append(
                Answer(who.name, who.kind, who.version, written, reason, at, link, row in late)
            )
        decided = self.rulings(state)
        for item, distance, humans, judges in some.rows():
            yield Disagreement(
                item, distance, humans, judges, tuple(said.get(item, ())), decided.get((item, dimension))
            )
