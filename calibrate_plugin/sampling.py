"""Which of the judged items people label next, with the chance that each had; kept in the store and used by every estimator.

Facts of an item (see ``ledger``): its ``stratum`` and ``probability`` under the names that ``[design]`` reads, and the
``sample`` that it is in. An item that could have been drawn and was not has ``passed_over``: its stratum, and the chance that
it had so far. So a later sample can give every item its chance of being in any of them (``planning.rounds``).

What is not drawn from: items that people labelled already, since nobody knows with what chance those were chosen; they stand
outside of every weighted number. What turns out to have nothing to judge is set aside and **not** replaced: it is no part of
what the sample speaks for, and the others keep their chances exactly. Whole groups have the chance of their group; a stratum
is then the rarest label in the group.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import polars as pl

from calibrate_plugin import blind, ledger
from calibrate_plugin.config import Config
from calibrate_plugin.connector import STANDS_FOR, Contents, SettingsError
from calibrate_plugin.model import ITEMS, OWN, SAMPLE_FACT, frame
from calibrate_plugin.planning import rounds
from calibrate_plugin.planning.hashing import place
from calibrate_plugin.ratings.rules import Rater, Ratings
from calibrate_plugin.store import Store
from calibrate_plugin.store.pseudonyms import key_of

SAMPLE, PASSED, ASIDE = SAMPLE_FACT, "passed_over", "set_aside"
SETTINGS = "sample_settings"
FLOOR = 10
MOST_STRATA = 25


@dataclass(frozen=True, slots=True)
class Asked:
    """How a sample is to be drawn. ``n`` items, by ``judge`` (in strata of its label) or ``random``; ``floor`` of each stratum
    at least (None: 10, or as many as fit); ``group`` names what stays together: session, user or an item fact."""

    n: int
    by: str = "judge"
    dimension: str | None = None
    judge: str | None = None
    floor: int | None = None
    group: str | None = None
    people: int = 2
    seed: int = 0
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample as it is kept: what was asked, the judge as ``[design]`` names it, and where it went. ``guideline`` is the
    version it is labelled by."""

    number: int
    asked: Asked
    judge: str | None
    into: str
    title: str
    guideline: str = ""
    job: str | None = None
    ours: bool = True  # the job was made for this sample
    shows: Mapping[str, str] = field(default_factory=dict)

    @property
    def item(self) -> str:
        """What the store calls this sample where it says things about it."""
        return f"sample {self.number}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn: items in the order in which people get them, ``strata`` with their sizes and parts, and the facts to
    keep. ``labelled`` items were left out because people labelled them, ``groups`` stay together."""

    items: tuple[str, ...]
    strata: Mapping[str, tuple[int, int]]  # name -> (drawn, there were); of units where groups stay together
    facts: pl.DataFrame
    population: int
    labelled: int
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The judge whose answers are drawn from: item -> its label, and the source that gave it."""

    rater: Rater
    name: str  # as [design] names it
    labels: Mapping[str, str]
    sources: tuple[str, ...]


def judged(ratings: Ratings, asked: Asked) -> tuple[str, Judged]:
    """The dimension and the judge to draw by, with its live answers. Raises SettingsError where it is not clear which."""
    names = list(ratings.answers)
    if asked.dimension is not None and asked.dimension not in names:
        raise SettingsError(f"there is no dimension {asked.dimension!r}; there are: {', '.join(names)}")
    if asked.dimension is None and len(names) > 1:
        raise SettingsError(f"say which dimension to draw by with --dimension: {', '.join(names)}")
    dimension = asked.dimension or names[0]
    answers = ratings.answers[dimension]
    given = answers.frame.filter(pl.col("cause").is_null())
    found = {r: r_ for r, r_ in enumerate(answers.raters) if r_.kind == "evaluator"}
    present = sorted(set(given["rater"].to_list()) & set(found))
    choice = [r for r in present if asked.judge in (None, found[r].name, found[r].label)]
    if not choice:
        known = ", ".join(sorted({found[r].label for r in present})) or "none"
        unnamed = [name for name, version in answers.live.items() if version is None]
        what = "no judge has answered" if asked.judge is None else f"no judge {asked.judge!r} has answered"
        hint = (
            f"of {unnamed[0]} no version is live: calibrate-plugin versions --set" if unnamed else f"there are: {known}"
        )
        raise SettingsError(f"{what} {dimension}; {hint}. Pull first with calibrate-plugin run")
    live = [r for r in choice if answers.live.get(found[r].name) is not None]
    if len(live) != 1:
        if not live:
            raise SettingsError(
                f"of {found[choice[0]].name} several versions answered and none is live; "
                f"calibrate-plugin versions --set {found[choice[0]].name}=VERSION"
            )
        raise SettingsError(f"say which judge to draw by with --judge: {', '.join(found[r].label for r in live)}")
    rater = found[live[0]]
    rows = given.filter(pl.col("rater") == live[0])
    at = rows.select(
        ratings.labels["item"].gather(rows["row"]).alias("item"),
        ratings.labels["source"].gather(rows["row"]).alias("source"),
        pl.col("level"),
        pl.col("number"),
    )
    scale = answers.dimension.scale
    if asked.by == "judge" and (scale.levels is None or at["level"].n_unique() > MOST_STRATA):
        raise SettingsError(
            f"{rater.label} gives too many different answers on {dimension} to make strata of; draw with --by random"
        )
    labels = {str(item): scale.names[level] if scale.levels is not None else "" for item, _, level, _ in at.iter_rows()}
    versions = {r.version for r in found.values() if r.name == rater.name}
    name = rater.name if len(versions) == 1 else rater.label
    return dimension, Judged(rater, name, labels, tuple(at["source"].unique().to_list()))


def labelled(ratings: Ratings) -> set[str]:
    """The items to which any person's answer still stands, counted or not."""
    found: set[str] = set()
    for answers in ratings.answers.values():
        people = [i for i, r in enumerate(answers.raters) if r.kind != "evaluator"]
        standing = answers.frame.filter(
            pl.col("rater").is_in(people) & ~pl.col("cause").is_in(["retired", "no_item"]).fill_null(False)
        )
        found |= set(ratings.labels["item"].gather(standing["row"]).to_list())
    return found


class Kept:
    """What earlier samples left in the store."""

    def __init__(self, store: Store) -> None:
        facts = store.item_facts()
        own = facts.filter(pl.col("source") == OWN)
        self.facts = facts
        self.samples = sorted(
            (_sample(value) for value in own.filter(pl.col("fact") == SETTINGS)["value"]), key=lambda s: s.number
        )
        self.in_sample = dict(own.filter(pl.col("fact") == SAMPLE).select("item", "value").iter_rows())
        self.aside = dict(own.filter(pl.col("fact") == ASIDE).select("item", "value").iter_rows())
        self.passed: dict[str, tuple[str, float]] = {
            item: (str(told[0]), float(told[1]))
            for item, value in own.filter(pl.col("fact") == PASSED).select("item", "value").iter_rows()
            if (told := json.loads(value))
        }
        self._own = own

    def of(self, number: int) -> list[str]:
        """The items of a sample."""
        return [item for item, sample in self.in_sample.items() if sample == str(number)]

    def fact(self, name: str) -> dict[str, str]:
        """A fact by item; what the study itself says first."""
        rows = self.facts.filter(pl.col("fact") == name).sort(pl.col("source") != OWN, maintain_order=True)
        return dict(rows.unique("item", keep="first", maintain_order=True).select("item", "value").iter_rows())


def draw(
    config: Config,
    kept: Kept,
    ratings: Ratings,
    number: int,
    asked: Asked,
    dimension: str,
    by: Judged,
    contents: Contents,
) -> Drawn:
    """Draw sample ``number``. Nothing is kept yet. Raises SettingsError where no right chance can be given."""
    _same_design(kept.samples, asked, dimension)
    people = labelled(ratings) - set(kept.in_sample)
    open_ = sorted(set(by.labels) - set(kept.in_sample) - people)
    if not open_:
        raise SettingsError(
            f"{by.rater.label} answered {len(by.labels)} items, and all of them are labelled or in a sample already"
        )
    units = _units(kept, contents, asked.group, by.labels) if asked.group else {i: i for i in by.labels}
    taken = {units[i] for i in kept.in_sample if i in units}
    open_ = [i for i in open_ if units[i] not in taken]
    n_units = len({units[i] for i in open_})
    total = asked.n if asked.group is None else max(1, round(asked.n * n_units / max(1, len(open_))))
    if total > n_units:
        raise SettingsError(f"--n is {asked.n}, but there are only {len(open_)} items left to draw from")
    had = {i: kept.passed[i] for i in open_ if i in kept.passed} | _in_samples(config, kept)
    try:
        if asked.by == "random":
            strata = {units[i]: "old" if i in had else "new" for i in open_}
            before = {units[i]: had[i][1] if i in had else 0.0 for i in open_}
            drawn = rounds.evenly(before, total, seed=asked.seed, number=number)
            chances = dict.fromkeys([*open_, *kept.in_sample], ("", drawn.chance["new"]))
        else:
            strata = _strata(
                open_, units, {i: had[i][0] if i in had else by.labels[i] for i in open_}, had, asked.group
            )
            least = asked.floor or rounds.possible_floor(Counter(strata.values()), total, FLOOR)
            drawn = rounds.by_strata(strata, total, least=least, seed=asked.seed, number=number)
            chances = _chances(open_, kept, units, strata, had, drawn.chance)
    except ValueError as error:
        raise SettingsError(f"the sample cannot be drawn: {error}") from None
    in_unit: dict[str, list[str]] = {}
    for item in open_:
        in_unit.setdefault(units[item], []).append(item)
    members = tuple(item for unit in drawn.units for item in in_unit[unit])
    return Drawn(
        members,
        {name: (drawn.allocated.get(name, 0), size) for name, size in sorted(Counter(strata.values()).items())},
        _facts(config, number, asked.by, members, kept, open_, chances),
        len(open_),
        len(people & set(by.labels)),
        len(drawn.units) if asked.group else None,
    )


def _strata(
    open_: Sequence[str],
    units: Mapping[str, str],
    labels: Mapping[str, str],
    had: Mapping[str, tuple[str, float]],
    group: str | None,
) -> dict[str, str]:
    """The stratum of each unit; one that has been in a draw keeps that of then."""
    if group is None:
        return dict(labels)
    strata = rounds.unit_strata(labels, {i: units[i] for i in open_})
    return strata | {units[i]: had[i][0] for i in open_ if i in had}


def _chances(
    open_: Sequence[str],
    kept: Kept,
    units: Mapping[str, str],
    strata: Mapping[str, str],
    had: Mapping[str, tuple[str, float]],
    now: Mapping[str, float],
) -> dict[str, tuple[str, float]]:
    """Each item's stratum and chance of being in any sample so far: what it had, and what this draw adds where its unit was
    left over. An item that came to a group later had none before, but is in this draw only if its group was left over too."""
    of_unit: dict[str, float] = {}
    for item, (_, chance) in had.items():
        unit = units.get(item, item)
        of_unit[unit] = max(chance, of_unit.get(unit, 0.0))
    found = {}
    for item in (*open_, *kept.in_sample):
        unit = units.get(item, item)
        stratum = strata[unit] if unit in strata else had[item][0]
        before = had[item][1] if item in had else 0.0
        found[item] = (stratum, rounds.either(before, now.get(stratum, 0.0), of_unit.get(unit)))
    return found


def _in_samples(config: Config, kept: Kept) -> dict[str, tuple[str, float]]:
    """The stratum and chance of the items of earlier samples."""
    of_stratum, of_chance = _names(config)
    strata, chances = kept.fact(of_stratum), kept.fact(of_chance)
    if lost := next((item for item in kept.in_sample if item not in chances), None):
        raise SettingsError(
            f"{config.path}: the item {lost!r} is in an earlier sample and has no {of_chance!r}; let design.stratum and"
            " design.probability be called as they were then (left out: stratum and probability)"
        )
    return {item: (strata.get(item, ""), float(chances[item])) for item in kept.in_sample}


def _names(config: Config) -> tuple[str, str]:
    design = config.study.design
    return (design.stratum, design.probability) if design is not None else ("stratum", "probability")


def _facts(
    config: Config,
    number: int,
    by: str,
    members: Sequence[str],
    kept: Kept,
    open_: Sequence[str],
    chances: Mapping[str, tuple[str, float]],
) -> pl.DataFrame:
    """What is to be kept: the new members of the sample, the chances of all members of any, and what was passed over."""
    of_stratum, of_chance = _names(config)
    inside = set(members)
    rows = [(i, SAMPLE, str(number)) for i in members]
    rows += [(i, of_chance, repr(chances[i][1])) for i in (*members, *kept.in_sample)]
    if by == "judge":
        rows += [(i, of_stratum, chances[i][0]) for i in members]
    rows += [(i, PASSED, json.dumps(chances[i])) for i in open_ if i not in inside]
    columns = zip(*rows, strict=True)
    return frame(ITEMS, dict(zip(ITEMS, columns, strict=True)))


def _same_design(samples: Sequence[Sample], asked: Asked, dimension: str) -> None:
    """That a later sample is drawn as the earlier ones were. Otherwise what is left of a stratum is itself chance, and nobody
    can say what chance an item had of being in any of them."""
    for earlier in samples:
        was = earlier.asked
        differs = [
            f"--{key} {before or '(nothing)'}"
            for key, before, now in (
                ("by", was.by, asked.by),
                ("dimension", was.dimension, dimension),
                ("group", was.group, asked.group),
            )
            if before != now
        ]
        if differs:
            raise SettingsError(
                f"sample {earlier.number} was drawn with {' '.join(differs)}; samples that are drawn in different ways have no"
                " common probabilities. Draw this one in the same way, or begin a study of its own for it"
            )
    if samples and asked.by == "random" and asked.group:
        raise SettingsError(
            "a second random sample of whole groups cannot give all items the same chance, since groups grow; draw --by judge"
        )


def _units(kept: Kept, contents: Contents, by: str, items: Mapping[str, str]) -> dict[str, str]:
    """What each item belongs to; an item that belongs to nothing is a group of its own."""
    told = dict(contents.groups(list(items), by)) if by in ("session", "user") else kept.fact(by)
    if not any(i in told for i in items):
        known = sorted(set(kept.facts["fact"].unique()) - {SAMPLE, PASSED, ASIDE, SETTINGS, STANDS_FOR})
        raise SettingsError(
            f"--group {by}: no judged item has one; it is session, user or a fact of the items ({', '.join(known) or 'none'})"
        )
    return {i: f"group {told[i]}" if i in told else f"item {i}" for i in items}


# --- keeping


def keep(store: Store, sample: Sample, facts: pl.DataFrame | None = None) -> None:
    """Write down a sample, and with it the facts of its items."""
    told = asdict(sample)
    own = frame(ITEMS, {"item": [sample.item], "fact": [SETTINGS], "value": [json.dumps(told)]})
    ledger.record(store, items=own if facts is None else pl.concat([facts, own]))


def ordered(kept: Kept, sample: Sample) -> list[str]:
    """The items of a sample in an order that shows no stratum, the same each time."""
    return sorted(kept.of(sample.number), key=lambda i: (place(sample.asked.seed, f"order {sample.number}", i), i))


def keep_aside(store: Store, reasons: Mapping[str, str]) -> None:
    """Write down what nobody can judge, so that it is not asked for again."""
    if reasons:
        ledger.record(
            store,
            items=frame(
                ITEMS, {"item": list(reasons), "fact": [ASIDE] * len(reasons), "value": list(reasons.values())}
            ),
        )


def keep_keys(store: Store, items: Sequence[str]) -> dict[str, str]:
    """Keys that hide the items, written down so that pulls turn them back."""
    secret = key_of(store)
    keys = {item: blind.blind_key(secret, item) for item in items}
    rows = {"item": list(keys.values()), "fact": [STANDS_FOR] * len(keys), "value": list(keys)}
    ledger.record(store, items=frame(ITEMS, rows))
    return keys


def _sample(text: str) -> Sample:
    told: dict[str, Any] = json.loads(text)
    known = {f.name for f in fields(Asked)}
    return Sample(**{**told, "asked": Asked(**{k: v for k, v in told["asked"].items() if k in known})})


# --- the settings


def design_of(asked: Asked, dimension: str, judge: str) -> dict[str, str]:
    """The table ``[design]`` that a sample asks for."""
    return (
        {"kind": "random"} if asked.by == "random" else {"kind": "stratified", "dimension": dimension, "judge": judge}
    )


def add_design(document: Any, wanted: Mapping[str, str], path: object, judge_names: Sequence[str] = ()) -> bool:
    """Write ``[design]`` where there is none. Raises SettingsError where there is another one."""
    found = document.get("design")
    if found is None:
        document["design"] = dict(wanted)
        return True
    for key, value in wanted.items():
        told = found.get(key)
        if told == value or (key == "judge" and told in judge_names) or (key == "dimension" and told is None):
            continue
        raise SettingsError(
            f"{path}: design.{key} is {told!r}, and this sample is drawn with {value!r}; the items labelled so far were"
            " chosen otherwise, so their numbers and this sample's do not go together. Draw it as [design] says, or begin a"
            " study of its own for it"
        )
    return False
