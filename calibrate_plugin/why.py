"""Why a number changed: the difference between two states split into causes, step by step.

Every label that differs between two sync numbers has one cause, and so has every settings change. The causes are applied to
the old labels one after the other, in the order of ``CAUSES``, and each number is computed after each of them by the same
rules and statistics as in a report. So the steps add up to the difference, whatever happened. The items that nothing
happened to are counted once; the rest of the cost is that of the changed items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin import cycle, rulings
from calibrate_plugin.agreement import continuous
from calibrate_plugin.agreement.compare import Measured
from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.agreement.statistics import Agreement, Cohen, Fleiss, Mean, Statistic, reason_of
from calibrate_plugin.agreement.weights import weights_of, whole
from calibrate_plugin.config import Config
from calibrate_plugin.history import Moment, settings_of
from calibrate_plugin.model import MODEL_FACT, OWN, Scale, Study
from calibrate_plugin.ratings.counting import Patterns, item_table, of_pair
from calibrate_plugin.ratings.rules import Answers, Rater, apply, live_versions, names_of, pseudonyms
from calibrate_plugin.ratings.rulings import CAUSES as CAUSES_OF_RULINGS
from calibrate_plugin.ratings.tables import Tables, tables_of
from calibrate_plugin.report.calibrated import SPLIT
from calibrate_plugin.store import Store
from calibrate_plugin.store.labelling import guidelines

Array = NDArray[Any]

#: What can move a number, in the order in which the causes are applied, and what each does. Where a third annotator comes
#: in, the kind of kappa is changed first, on the old answers; where only two remain, last, on the new ones.
CAUSES: dict[str, str] = {
    "kappa_kind": "the kind of kappa changed with the number of annotators who share items",
    "added": "answers were added",
    "run_scores": "scores of an evaluation run arrived",
    "changed": "answers were changed",
    "model": "an evaluator's model changed without a new version",
    "cleared": "answers were cleared or skipped",
    "deleted": "answers were deleted",
    "annotator_deleted": "an annotator was deleted, so their answers no longer count",
    "job_deleted": "a labelling job was deleted, so its answers no longer count",
    "item_deleted": "an item was deleted, so it no longer counts",
    "run_deleted": "an evaluation run was deleted, so its scores no longer count",
    "run_failed": "an evaluation run failed, so its scores were removed",
    "version": "another evaluator version is the live one, so its numbers start again from that version",
    "settings": "the settings of the study changed",
}
#: What the facts cannot show of evaluators whose source does not say which model answered.
NOT_VISIBLE = (
    "which model answered is not known for every score: a model that was swapped under the same version then shows as new or "
    "changed scores"
)
STATISTICS = (
    "human_score",
    "annotators.agreement",
    "annotators.kappa",
    "evaluator.score",
    "evaluator.agreement",
    "evaluator.kappa",
)
_OF_LABELS = ("added", "run_scores", "changed", "model", "cleared", "deleted")
_RETIRED = {c: c for c in ("annotator_deleted", "job_deleted", "item_deleted", "run_deleted", "run_failed")}
_IGNORED = {"annotator_deleted": "annotators", "job_deleted": "jobs", "run_deleted": "runs"}
_UNUSED = ("label", "task", "placed", "reason", "confidence", "link")  # what no rule looks at
_EXACT = Resampling(method="none")


@dataclass(frozen=True, slots=True)
class Number:
    """A number's value, or the reason why there is none; ``kind`` is a kappa's."""

    value: Fraction | float | None
    reason: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One label that changed: what it was and is (JSON text as the source said it; None: no answer)."""

    cause: str
    source: str
    record: str | None
    rater: str
    kind: str
    version: str | None
    job: str | None
    run: str | None
    item: str | None
    field: str
    before: str | None
    after: str | None
    at: datetime | None
    link: str | None
    model: str | None  # that answered, where the source says so


@dataclass(frozen=True, slots=True)
class Step:
    """What one cause did to a number. ``step`` is None where the way leads through an undefined state; ``number`` is the
    number after it. ``changes`` are the labels of this dimension behind it (at most as many as were asked for, of ``n``)."""

    cause: str
    step: Fraction | float | None
    number: Number
    sentence: str
    n: int = 0
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """One number before and after, and what moved it. ``difference`` is the exact sum of the steps."""

    dimension: str
    statistic: str
    evaluator: str | None
    before: Number
    after: Number
    difference: Fraction | float | None
    steps: tuple[Step, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every number that changed or was moved, between two moments. ``beside`` is what the study itself did meanwhile, which
    moves none of them: rulings, splits, texts of the guideline."""

    since: Moment
    until: Moment
    numbers: tuple[Why, ...]
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def explain(
    store: Store,
    config: Config,
    since: Moment,
    until: Moment | None = None,
    *,
    dimension: str | None = None,
    evaluator: str | None = None,
    listed: int = 1_000,
) -> Explanation:
    """What moved the numbers from ``since`` to ``until`` (now, under ``config``: None)."""
    until = until or Moment(store.latest(), None, store.now())
    old, new = (_keyed(store, settings_of(store, config, moment)) for moment in (since, until))
    before = _Side(old, since.number, store.names(since.number))
    after = _Side(new, until.number, store.names(until.number))
    way = _Way(store, before, after)
    found: list[Why] = []
    names = [d.name for d in new.study.dimensions]
    for name in [*names, *(d.name for d in old.study.dimensions if d.name not in names)]:
        if dimension in (None, name):
            found += way.of_dimension(name, evaluator, listed)
    judged = [c for changes in way.changes.values() for c in changes if c.kind == "evaluator"]
    return Explanation(
        since,
        until,
        tuple(found),
        (NOT_VISIBLE,) if any(c.model is None for c in judged) else (),
        tuple(_beside(store, new.study, since, until, way.items)),
    )


def _beside(store: Store, study: Study, since: Moment, until: Moment, items: Sequence[str]) -> Iterator[str]:
    """What the study itself said of its items between two moments, and which texts of the guideline were new."""
    were, are = (rulings.read(store, study, moment.number) for moment in (since, until))
    made = [r for key, r in are.items() if were.get(key) != r]
    if made:
        causes = Counter(CAUSES_OF_RULINGS.get(r.cause or "", "no cause given") for r in made)
        told = ", ".join(f"{n} because {cause}" for cause, n in causes.items())
        yield f"{_count(len(made), 'ruling')} on disagreements: {told}"
    if gone := [key for key in were if key not in are]:
        yield f"{_count(len(gone), 'ruling')} {'was' if len(gone) == 1 else 'were'} taken back"
    facts = [
        set(f.filter((pl.col("source") == OWN) & (pl.col("fact") == SPLIT)).select("item", "value").rows())
        for f in (store.item_facts(moment.number, items=items) for moment in (since, until))
    ]
    if assigned := Counter(str(value) for _, value in facts[1] - facts[0]):
        told = ", ".join(f"{n} to {where}" for where, n in sorted(assigned.items()))
        yield f"{_count(sum(assigned.values()), 'item')} assigned to a split: {told}"
    versions = [g.version for g in guidelines(store) if since.at < g.at <= until.at]
    if versions:
        yield f"the guideline got the text of version {_listed(versions)}"


def _keyed(store: Store, config: Config) -> Config:
    return replace(config, study=cycle.keyed(store, config.study))


@dataclass(frozen=True, slots=True)
class _Side:
    config: Config
    number: int
    names: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _Values:
    """Counted answers on a rating without a step, which do not add up in tables."""

    item: Array
    rater: Array
    value: Array
    raters: tuple[Rater, ...]
    standing: frozenset[Rater]

    def __add__(self, other: _Values) -> _Values:
        places = {r: i for i, r in enumerate(self.raters)}
        raters = [*self.raters, *(r for r in other.raters if r not in places)]
        place = {r: i for i, r in enumerate(raters)}
        theirs = np.array([place[r] for r in other.raters], dtype=np.int64)
        offset = int(self.item.max()) + 1 if len(self.item) else 0
        return _Values(
            np.concatenate([self.item, other.item + offset]),
            np.concatenate([self.rater, theirs[other.rater] if len(other.rater) else other.rater]),
            np.concatenate([self.value, other.value]),
            tuple(raters),
            self.standing | other.standing,
        )


_Counted = Tables | _Values


@dataclass(frozen=True, slots=True)
class _State:
    """The numbers' material after some causes: per dimension what is counted, and each evaluator's live version."""

    cause: str
    study: Study
    counted: Mapping[str, _Counted]
    live: Mapping[str, Mapping[str, str | None]]


class _Models:
    """Which model gave an evaluator's answers, where the source says so."""

    def __init__(self, store: Store, before: int, after: int, items: Sequence[str]) -> None:
        self._store, self._number = store, before
        facts = store.item_facts(after, items=items).filter(pl.col("fact").str.starts_with(MODEL_FACT))
        self._now = {(source, item, fact): value for source, item, fact, value in facts.iter_rows() if value}
        self._before: dict[tuple[str, str], list[str]] = {}

    def of(self, source: str, item: str | None, rater: str | None) -> str | None:
        return self._now.get((source, item or "", f"{MODEL_FACT}{rater}"))

    def earlier(self, source: str, rater: str) -> list[str]:
        """The models that answered last before, the newest first."""
        if (source, rater) not in self._before:
            self._before[source, rater] = self._store.recent_facts(source, MODEL_FACT + rater, self._number)
        return self._before[source, rater]

    def swapped(self, row: Mapping[str, Any]) -> bool:
        model = self.of(row["source"], row["item"], row["rater"]) if row["kind"] == "evaluator" else None
        if model is None:
            return False
        earlier = self.earlier(row["source"], row["rater"])
        return bool(earlier) and model not in earlier


class _Way:
    """The states from the old labels and settings to the new ones, a cause at a time."""

    def __init__(self, store: Store, before: _Side, after: _Side) -> None:
        self.before, self.after = before, after
        self.items = items = store.changed_items(before.number, after.number)
        self.old = store.as_of(before.number, items=items, reasons=False)
        self.new = store.as_of(after.number, items=items, reasons=False)
        whole = store.as_of(after.number, reasons=False).drop(_UNUSED)
        touched = pl.Series("item", items, dtype=pl.String)
        rest = whole.filter(~pl.col("item").is_in(touched.implode()) & pl.col("item").is_not_null()) if items else whole
        self.sequenced = whole["seq"].null_count() < whole.height
        self.runs_before = set(rest["run"].drop_nulls().unique()) | set(self.old["run"].drop_nulls().unique())
        self.rest = cycle.parts_of(rest)
        self._untouched: list[tuple[Study, Mapping[tuple[str, str], str], Mapping[str, _Counted]]] = []
        known = {
            s: pl.concat([x.select("source", "rater").unique() for x in (rest, f)]).unique()
            for s, f in (("a", self.old), ("b", self.new))
        }
        ids = {s: sorted(f.drop_nulls().rows()) for s, f in known.items()}
        old_study, new_study = before.config.study, after.config.study
        called = names_of(old_study, ids["a"], before.names)
        both = names_of(old_study, sorted({*ids["a"], *ids["b"]}), {**after.names, **before.names})
        #: Names before the settings changed, and after: a later rater of the same name must not rename an earlier one.
        self.old_called = both | called
        self.new_called = self.old_called | names_of(new_study, ids["b"], after.names)
        self.hidden = pseudonyms(new_study, self.new_called)
        self.ids: dict[tuple[str, str], str] = {}  # (source, how a rater is called) -> id, of the raters of changes
        self.models = _Models(store, before.number, after.number, items)
        self.changes, self.causes = self._classified()
        self.states = list(self._walk())

    def of_dimension(self, name: str, evaluator: str | None, listed: int) -> Iterator[Why]:
        judges = sorted({j for state in self.states for j in state.live.get(name, {})})
        for statistic in STATISTICS:
            if statistic.startswith("evaluator."):
                for judge in judges:
                    if evaluator in (None, judge):
                        yield from self._why(name, statistic, judge, listed)
            elif evaluator is None:
                yield from self._why(name, statistic, None, listed)

    # --- the states

    def _walk(self) -> Iterator[_State]:
        old, new = self.before.config.study, self.after.config.study
        plain = replace(old, live={})
        done: set[str] = set()
        began = self._counted(plain, self.old_called, done)
        finished_study = replace(new, live={})
        ended = self._counted(finished_study, self.new_called, set(CAUSES))
        live_before = _live(old, began)
        live_after = _live(new, ended)
        # An evaluator that comes or goes has not changed its version.
        start = {d: {**live_after.get(d, {}), **live_before.get(d, {})} for d in {*live_before, *live_after}}
        end = {d: {**live_before.get(d, {}), **live_after.get(d, {})} for d in {*live_before, *live_after}}
        yield _State("", old, began, start)
        counted, live, study = began, start, plain
        for cause in CAUSES:
            if cause == "kappa_kind":
                continue
            if cause == "settings":
                if self.settings_keys() or self.new_called != self.old_called:
                    yield _State(cause, finished_study, ended, end)
                continue
            if cause == "version":
                if start != end:
                    live = end
                    yield _State(cause, study, counted, live)
                continue
            key = _IGNORED.get(cause)
            ignored = dict(study.ignore)
            if key is not None and set(old.ignore.get(key, ())) != set(new.ignore.get(key, ())):
                ignored[key] = new.ignore.get(key, ())
            if cause not in self.causes.values() and ignored == study.ignore:
                continue
            study = replace(study, ignore=ignored)
            done.add(cause)
            counted = self._counted(study, self.old_called, done)
            yield _State(cause, study, counted, live)

    def _counted(self, study: Study, called: Mapping[tuple[str, str], str], done: set[str]) -> dict[str, _Counted]:
        """What is counted once the causes in ``done`` have happened."""
        untouched = next((u for s, c, u in self._untouched if s == study and c == called), None)
        if untouched is None:
            untouched = _counted(study, self.rest, called)
            self._untouched.append((study, called, untouched))
        rows = self._cumulative(done)
        if not rows.height:
            return dict(untouched)
        if self.sequenced and rows["seq"].null_count() == rows.height:
            rows = rows.with_columns(pl.lit(0, dtype=pl.Int64).alias("seq"))
        touched = _counted(study, cycle.parts_of(rows), called)
        return {name: _added(untouched[name], touched[name]) for name in untouched}

    def _cumulative(self, done: set[str]) -> pl.DataFrame:
        """The labels of the changed items, each as it was or, where its cause is done, as it is."""
        switched = pl.Series([cause in done for cause in self._cause_of(self.new)], dtype=pl.Boolean)
        waiting = pl.Series([cause not in done for cause in self._cause_of(self.old)], dtype=pl.Boolean)
        return pl.concat([self.old.filter(waiting), self.new.filter(switched)]).sort("label")

    def _cause_of(self, frame: pl.DataFrame) -> list[str]:
        return [self.causes[key] for key in _identities(frame)]

    # --- what happened to each label

    def _classified(self) -> tuple[dict[str, list[Change]], dict[tuple[Any, ...], str]]:
        """The changed labels by cause, and the cause of each record."""
        old = dict(zip(_identities(self.old), self.old.to_dicts(), strict=True))
        new = dict(zip(_identities(self.new), self.new.to_dicts(), strict=True))
        answered = {self._answer_key(row) for row in old.values() if _stands(row)}
        changes: dict[str, list[Change]] = {}
        causes: dict[tuple[Any, ...], str] = {}
        for key in [*old, *(k for k in new if k not in old)]:
            was, now = old.get(key), new.get(key)
            cause, tells = self._cause(was, now, answered)
            if tells and now is not None and cause in ("added", "run_scores", "changed") and self.models.swapped(now):
                cause = "model"
            causes[key] = cause
            if tells:
                changes.setdefault(cause, []).append(self._change(cause, was, now))
        return changes, causes

    def _cause(
        self, was: Mapping[str, Any] | None, now: Mapping[str, Any] | None, answered: set[tuple[Any, ...]]
    ) -> tuple[str, bool]:
        stood, stands = was is not None and _stands(was), now is not None and _stands(now)
        if stood and not stands:
            return _RETIRED.get((now or {}).get("retired") or "", "deleted"), True
        if not stands or now is None:
            return "added", False
        empty = now["state"] in ("cleared", "skipped")
        if stood and was is not None:
            if was["label"] == now["label"]:
                return "changed", False
            told = ("item", "field", "value", "state", "rater", "kind", "version", "job", "run", "blind", "at")
            return ("cleared" if empty and was["state"] != now["state"] else "changed"), any(
                was[c] != now[c] for c in told
            )
        if was is None and self._answer_key(now) in answered:
            return ("cleared" if empty else "changed"), True
        if empty:
            return "cleared", True
        return ("run_scores" if now["kind"] == "evaluator" and now["run"] is not None else "added"), True

    def _answer_key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        judge = row["kind"] == "evaluator"
        drawn = (row["order"], row["sample"], row["execution"])
        return (self._called(row), row["version"] if judge else None, row["item"], row["field"], *drawn)

    def _called(self, row: Mapping[str, Any]) -> str:
        if row["rater"] is None:
            return "(unknown)"
        name = self.new_called.get((row["source"], row["rater"]), str(row["rater"]))
        return self.hidden.get(name, name) if row["kind"] != "evaluator" else name

    def _change(self, cause: str, was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Change:
        row = now or was
        assert row is not None
        self.ids[row["source"], self._called(row)] = row["rater"]
        gone = now is None or not _stands(now)
        return Change(
            cause=cause,
            source=row["source"],
            record=row["record"],
            rater=self._called(row),
            kind=row["kind"],
            version=row["version"],
            job=row["job"],
            run=row["run"],
            item=row["item"],
            field=row["field"],
            before=was["value"] if was is not None and _stands(was) else None,
            after=None if gone or now is None else now["value"],
            at=row["at"],
            link=row["link"],
            model=self.models.of(row["source"], row["item"], row["rater"]),
        )

    # --- one number

    def _why(self, name: str, statistic: str, judge: str | None, listed: int) -> Iterator[Why]:
        states = [s for s in self.states if name in s.counted]
        if not states:
            return
        kinds: list[tuple[_State, str | None]] = [(s, None) for s in states]
        if statistic == "annotators.kappa":
            kinds = _kinds(states, name)
        path = [(s, kind, _number(s, name, statistic, judge, kind)) for s, kind in kinds]
        before, after = path[0][2], path[-1][2]
        moved = [(path[i], path[i - 1]) for i in range(1, len(path)) if path[i][2] != path[i - 1][2]]
        if not moved:
            return
        defined = all(number.value is not None for _, _, number in path)
        if not defined:  # only the states on the way of this number matter
            defined = all(here[2].value is not None and there[2].value is not None for here, there in moved)
        steps: list[Step] = []
        for (state, _, number), (earlier, _, earlier_number) in moved:
            cause = "kappa_kind" if state is earlier else state.cause
            changes = [c for c in self.changes.get(cause, ()) if self._about(c, name) and self._of(c, statistic, judge)]
            step = None
            if defined:
                assert number.value is not None and earlier_number.value is not None
                step = _minus(number.value, earlier_number.value)
            told = self._sentence(cause, name, judge, changes, state, number)
            steps.append(Step(cause, step, number, told, len(changes), tuple(changes[:listed])))
        difference = None
        if before.value is not None and after.value is not None:
            difference = _minus(after.value, before.value)
        yield Why(
            name,
            statistic,
            judge,
            before,
            after,
            difference,
            tuple(steps),
            _summary(name, statistic, judge, before, after),
        )

    def _about(self, change: Change, dimension: str) -> bool:
        studies = (self.before.config.study, self.after.config.study)
        return any(dimension in s.fields.get((change.source, change.field), (change.field,)) for s in studies)

    def _of(self, change: Change, statistic: str, judge: str | None) -> bool:
        """Whether a label can have a part in a number. A ruling or a review has none: it is gold."""
        if change.source == OWN or change.job in self.after.config.study.review:
            return False
        if judge is None:
            return change.kind != "evaluator"
        if statistic == "evaluator.score":
            return change.kind == "evaluator" and change.rater == judge
        return change.kind != "evaluator" or change.rater == judge

    def _sentence(
        self, cause: str, name: str, judge: str | None, changes: Sequence[Change], state: _State, number: Number
    ) -> str:
        who, items = _listed(c.rater for c in changes), len({c.item for c in changes})
        n = _count(len(changes), "score" if changes and all(c.kind == "evaluator" for c in changes) else "answer")
        on = f"on {_count(items, 'item')}"
        if cause == "kappa_kind":
            kind = number.kind or ""
            sharing = _sharing(self.states[-1].counted[name]) - _sharing(self.states[0].counted[name])
            because = f", because {_listed(sharing)} now shares an item with another annotator" if sharing else ""
            if kind == "cohen":
                return "Fleiss' kappa became Cohen's: exactly two annotators share items"
            return f"Cohen's kappa became Fleiss' on the earlier answers{because}"
        if cause == "version":
            was, now = self._lives(name, judge)
            if now is None:
                return f"{judge} has answered in several versions and none is named as live"
            return f"version {now or '(none)'} of {judge} was made the live one; it was {was or '(none)'}"
        if cause == "settings":
            keys = self.settings_keys()
            return f"the settings changed: {_listed(keys)}" if keys else "raters are called otherwise"
        if cause == "run_scores":
            runs = sorted({c.run or "" for c in changes})
            known = [r for r in runs if r in self.runs_before]
            filling = f"; {_listed(known)} was in progress, its scores count as they arrive" if known else ""
            return f"{n} of {who} arrived from the run {_listed(runs)} {on}{filling}"
        if cause == "model":
            earlier = {m for c in changes for m in self.models.earlier(c.source, self.ids[c.source, c.rater])}
            models = {c.model for c in changes}
            return f"the model behind {who} changed from {_listed(earlier)} to {_listed(models)} without a new version: {n} {on}"
        if not changes:
            key = _IGNORED.get(cause, "")
            old, new = (set(s.config.study.ignore.get(key, ())) for s in (self.before, self.after))
            gone = f"{_listed(sorted(new - old))} is ignored as deleted" if new - old else ""
            back = f"{_listed(sorted(old - new))} is no longer ignored" if old - new else ""
            return "; ".join(t for t in (gone, back) if t) or CAUSES[cause]
        verb = {
            "added": f"{n} {_were(changes)} added by {who} {on}",
            "changed": f"{n} of {who} {_were(changes)} changed {on}",
            "cleared": f"{n} of {who} {_were(changes)} cleared or skipped {on}",
            "deleted": f"{n} of {who} {_were(changes)} deleted {on}",
            "annotator_deleted": f"the annotator {who} was deleted, so {n} {on} no longer count",
            "job_deleted": f"the labelling job {_listed(sorted({c.job or '' for c in changes}))} was deleted, so {n} of {who} {on} no longer count",
            "item_deleted": f"{_count(items, 'item')} was deleted ({_listed(sorted({c.item or '' for c in changes}))}), so {n} of {who} no longer count",
            "run_deleted": f"the run {_listed(sorted({c.run or '' for c in changes}))} was deleted, so {n} of {who} no longer count",
            "run_failed": f"the run {_listed(sorted({c.run or '' for c in changes}))} failed, so {n} of {who} were removed",
        }
        return verb[cause]

    def _lives(self, name: str, judge: str | None) -> tuple[str | None, str | None]:
        return tuple(s.live.get(name, {}).get(judge or "") for s in (self.states[0], self.states[-1]))  # type: ignore[return-value]

    def settings_keys(self) -> list[str]:
        """Which settings differ, but for those with a cause of their own."""
        old, new = (dict(_flat(s.config.document)) for s in (self.before, self.after))
        own = ("ignore.", "push.", "gate.", "alerts.", "target.", "study.guideline")
        differ = {k for k in {*old, *new} if old.get(k) != new.get(k)}
        return sorted(k for k in differ if not k.startswith(own) and ".live." not in k)


# --- counting


def _counted(
    study: Study, parts: Mapping[str, pl.DataFrame], called: Mapping[tuple[str, str], str]
) -> dict[str, _Counted]:
    ratings = apply(study, parts, called=called, live={d.name: {} for d in study.dimensions})
    return {name: _of_answers(answers) for name, answers in ratings.answers.items()}


def _of_answers(answers: Answers) -> _Counted:
    """All versions of an evaluator stand beside each other here; which one counts is chosen when a number is taken."""
    stands = answers.frame.filter(pl.col("cause").is_null() | ~pl.col("cause").is_in(["no_item", "retired"]))
    standing = {answers.raters[i]: n for i, n in stands["rater"].value_counts().rows() if i >= 0}
    counted, raters = answers.counted, answers.raters
    scale = answers.dimension.scale
    if scale.levels is None:
        columns = (counted[c].to_numpy() for c in ("item", "rater", "number"))
        item, rater, value = columns
        return _Values(item.astype(np.int64), rater.astype(np.int64), value, raters, frozenset(standing))
    present = sorted(counted["rater"].unique().to_list())
    people = [i for i in present if raters[i].kind == "annotator"]
    judges = [i for i in present if raters[i].kind == "evaluator"]
    return tables_of(item_table(counted, scale.levels, people, judges), raters, [], standing, {})


def _added(a: _Counted, b: _Counted) -> _Counted:
    if isinstance(a, Tables):
        assert isinstance(b, Tables)
        return a + b
    assert isinstance(b, _Values)
    return a + b


def _live(study: Study, counted: Mapping[str, _Counted]) -> dict[str, dict[str, str | None]]:
    return {name: live_versions(study, name, c.standing) for name, c in counted.items()}


# --- numbers


def _kinds(states: Sequence[_State], name: str) -> list[tuple[_State, str | None]]:
    """Each state with the kind of kappa to take there. Where any has three annotators who share items, all numbers on the way are Fleiss',
    and Cohen's stands at an end that has exactly two."""
    counts = [len(_sharing(s.counted[name])) for s in states]
    if max(counts) < 3:
        return [(s, "cohen") for s in states]
    path: list[tuple[_State, str | None]] = [(s, "fleiss") for s in states]
    if counts[0] == 2:
        path.insert(0, (states[0], "cohen"))
    if counts[-1] == 2:
        path.append((states[-1], "cohen"))
    return path


def _sharing(counted: _Counted) -> set[str]:
    """The annotators who share an item with another one."""
    if isinstance(counted, Tables):
        found: set[str] = set()
        for a, b in counted.pairs:
            if a.kind == b.kind == "annotator":
                found |= {a.name, b.name}
        return found
    people = {i for i, r in enumerate(counted.raters) if r.kind == "annotator"}
    human = np.isin(counted.rater, list(people))
    _, at, size = np.unique(counted.item[human], return_inverse=True, return_counts=True)
    shared = counted.rater[human][size[at.reshape(-1)] > 1]
    return {counted.raters[i].name for i in np.unique(shared).tolist()}


def _number(state: _State, name: str, statistic: str, judge: str | None, kind: str | None) -> Number:
    counted = state.counted[name]
    scale = next(d.scale for d in state.study.dimensions if d.name == name)
    rater = None
    if judge is not None:
        lives = state.live.get(name, {})
        if judge in lives and lives[judge] is None:
            return Number(None, "no_live_version")
        rater = Rater("evaluator", judge, lives.get(judge) or "")
    if isinstance(counted, _Values):
        return _of_values(counted, scale, statistic, rater, kind)
    if statistic == "human_score":
        return _score(counted.annotated, scale, own=False)
    if rater is not None:
        beside = counted.against.get(rater)
        if beside is None:
            return Number(None, "no_labels" if statistic == "evaluator.score" else "nothing_to_compare")
        if statistic == "evaluator.score":
            return _score(beside, scale, own=True)
        chosen: Statistic = Cohen(weights_of(scale)) if statistic.endswith("kappa") else Agreement(weights_of(scale))
        return _taken(beside, chosen, corrected=statistic.endswith("kappa"))
    if statistic == "annotators.agreement":
        return _taken(counted.annotated, Agreement(weights_of(scale)), corrected=False)
    sharing = sorted(_sharing(counted))
    if kind == "fleiss" and len(sharing) > 1:
        return _taken(counted.annotated, Fleiss(weights_of(scale)), corrected=True, kind="fleiss")
    if len(sharing) < 2:
        return Number(None, "nothing_to_compare")
    pair = next(p for p in counted.pairs if p[0].kind == p[1].kind == "annotator")
    return _taken(of_pair(counted.pairs[pair]), Cohen(weights_of(scale)), corrected=True, kind="cohen")


def _score(patterns: Patterns, scale: Scale, *, own: bool) -> Number:
    if scale.kind not in ("binary", "rating"):
        return Number(None, "not_applicable" if len(patterns) else "no_labels")
    places, unit = (np.array([1, 0]), 1) if scale.kind == "binary" else whole(scale.positions)
    statistic = Mean(places, unit, own)
    if not statistic.enters(patterns).any():
        return Number(None, "no_labels")
    return Number(_exact(patterns, statistic))


def _taken(patterns: Patterns, statistic: Statistic, *, corrected: bool, kind: str | None = None) -> Number:
    reason = reason_of(patterns, chance_corrected=corrected)
    return Number(None, reason) if reason is not None else Number(_exact(patterns, statistic), None, kind)


def _exact(patterns: Patterns, statistic: Statistic) -> Fraction | float:
    entering = patterns.where(statistic.enters(patterns))
    sizes = np.unique(entering.size)
    sums = entering.items @ statistic.features(entering, sizes)
    if np.issubdtype(sums.dtype, np.integer):
        sums = sums.astype(object)
    numerator, denominator = (v.item() if isinstance(v, np.ndarray) else v for v in statistic.ratio(sums, sizes))
    if isinstance(numerator, int) and isinstance(denominator, int):
        return Fraction(numerator, denominator)
    return float(numerator) / float(denominator)


def _of_values(counted: _Values, scale: Scale, statistic: str, judge: Rater | None, kind: str | None) -> Number:
    frame = pl.DataFrame({"item": counted.item, "rater": counted.rater, "number": counted.value})
    present = set(np.unique(counted.rater).tolist())
    people = tuple(i for i in sorted(present) if counted.raters[i].kind == "annotator")
    measured = Measured(scale, frame, people, (), _EXACT)
    if statistic == "human_score":
        measure = measured.human_score()
    elif judge is not None:
        place = counted.raters.index(judge) if judge in counted.raters else -1
        if place not in present:
            return Number(None, "no_labels" if statistic == "evaluator.score" else "nothing_to_compare")
        beside = measured.beside(place, "", "")
        measure = getattr(beside, statistic.removeprefix("evaluator."))
    else:
        together = measured.among_annotators()
        measure = together.kappa if statistic.endswith("kappa") else together.agreement
        if statistic.endswith("kappa") and kind == "fleiss" and len(_sharing(counted)) > 1:
            group = continuous.Group(measured.item[measured.human], measured.value[measured.human])
            measure = continuous.agreement_and_kappa(group, measured.span, _EXACT)[1]
    shown = kind if statistic == "annotators.kappa" and measure.value is not None else None
    return Number(measure.value, measure.reason, shown)


def _minus(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    return a - b if isinstance(a, Fraction) and isinstance(b, Fraction) else float(a) - float(b)


# --- labels


def _identities(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """What makes a label the same record; one without a record is its row."""
    return [
        (source, record, name) if record is not None else (source, None, label)
        for source, record, name, label in frame.select("source", "record", "field", "label").iter_rows()
    ]


def _stands(row: Mapping[str, Any]) -> bool:
    return row["retired"] in (None, "expired")


# --- words


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, str(value) if hasattr(value, "isoformat") else value


def _listed(names: Any, most: int = 5) -> str:
    found = sorted(set(names))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _count(n: int, unit: str) -> str:
    return f"{n} {unit}" if n == 1 else f"{n} {unit}s"


def _were(changes: Sequence[Change]) -> str:
    return "was" if len(changes) == 1 else "were"


NAMES = {
    "human_score": "the human score",
    "annotators.agreement": "the agreement between annotators",
    "annotators.kappa": "the kappa between annotators",
    "evaluator.score": "the score",
    "evaluator.agreement": "the agreement with the annotators",
    "evaluator.kappa": "the kappa with the annotators",
}


def shown(number: Number) -> str:
    """A number in a sentence."""
    if number.value is None:
        return f"undefined ({number.reason})"
    return f"{float(number.value):z.4f}".rstrip("0").rstrip(".")


def _summary(name: str, statistic: str, judge: str | None, before: Number, after: Number) -> str:
    of = f" of {judge}" if judge else ""
    return f"{NAMES[statistic]}{of} on {name} went from {shown(before)} to {shown(after)}"


__all__ = ["CAUSES", "NOT_VISIBLE", "STATISTICS", "Change", "Explanation", "Number", "Step", "Why", "explain", "shown"]
