"""How often the 95 % intervals hold the truth, and how often a verdict flatters: ``python -m tests.benchmarks.coverage``.

The scenarios stand here and are not tuned to. Raters come from an urn: each says what the item has in it with its own
loyalty and else what chance says, so that the kappa of two raters is exactly the product of their loyalties. Refused
intervals (too few items, undefined numbers) are counted apart and never as covered. Intervals that stand without a warning
must cover in 92 % at least.

``--runs`` (default 4,000 a cell), ``--resamples`` (1,000), ``--only kappa,difference,rate,weighted``, ``--jobs``.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling, estimate
from calibrate_plugin.agreement.statistics import Cohen, Fleiss, reason_of
from calibrate_plugin.agreement.weights import weights_of
from calibrate_plugin.calibration.ceiling import ceiling
from calibrate_plugin.calibration.design import Design, Stratum, weighted_estimate
from calibrate_plugin.calibration.gold import single
from calibrate_plugin.calibration.panel import panel
from calibrate_plugin.calibration.rates import Production, corrected_rates
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.ratings.counting import canonical, of_pair

Array = NDArray[Any]
BINARY = Scale("binary", ("pass", "fail"))
KAPPAS = (0.3, 0.6, 0.8)
PASS_RATES = (0.5, 0.8, 0.9, 0.95)
RATERS = (2, 3, 4, 5)
ITEMS = (20, 50, 200)
GAPS = (0.0, 0.2)
RATES = (0.8, 0.95)
PRODUCTION = (50, 500, 5000)
DESIGNS = ("by_gold", "by_judge", "random")
#: Without a warning no cell may cover less.
LEAST = 0.92


@dataclass(frozen=True)
class Cell:
    """One scenario: what is estimated, under which name."""

    kind: str
    about: tuple[Any, ...]

    @property
    def name(self) -> str:
        return {
            "kappa": "kappa {0:.1f}, {1:.0%} pass, {2} raters, n = {3}",
            "difference": "kappa {0:.1f}, {1:.0%} pass, {2} annotators, n = {3}, judge {4:.1f} worse",
            "rate": "{0}, true rate {1:.2f}, N = {2}",
            "weighted": "kappa of gold drawn by judge label, {0} + {0} items",
        }[self.kind].format(*self.about)


@dataclass(frozen=True)
class Run:
    """What one simulated data set gave."""

    covered: bool | None  # None: no interval
    width: float = 0.0
    warned: bool = False
    word: str | None = None


@dataclass(frozen=True)
class Told:
    """A cell's result."""

    cell: Cell
    runs: int
    refused: float
    coverage: float
    unwarned: float | None  # coverage of the intervals that stand without a warning; None where they are few
    width: float
    warned: float
    flattered: float | None
    below: float | None


def cells(only: Iterable[str]) -> Iterator[Cell]:
    wanted = set(only)
    if "kappa" in wanted:
        for about in product(KAPPAS, PASS_RATES, RATERS, ITEMS):
            yield Cell("kappa", about)
    if "difference" in wanted:
        for about in product(KAPPAS, PASS_RATES, RATERS, ITEMS, GAPS):
            yield Cell("difference", about)
    if "rate" in wanted:
        for about in product(DESIGNS, RATES, PRODUCTION):
            yield Cell("rate", about)
    if "weighted" in wanted:
        for about in ((50,), (100,)):
            yield Cell("weighted", about)


def simulate(cell: Cell, runs: int, resamples: int) -> Told:
    once: Callable[[Cell, np.random.Generator, Resampling], Run] = {
        "kappa": _kappa,
        "difference": _difference,
        "rate": _rate,
        "weighted": _weighted,
    }[cell.kind]
    digest = hashlib.sha256(repr((cell.kind, cell.about)).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    found = [once(cell, rng, Resampling(seed=seed, resamples=resamples)) for seed in range(runs)]
    told = [r for r in found if r.covered is not None]
    words = [r.word for r in found] if cell.kind == "difference" else []
    n = max(1, len(told))
    plain = [r for r in told if not r.warned]
    return Told(
        cell,
        runs,
        1 - len(told) / runs,
        sum(bool(r.covered) for r in told) / n,
        sum(bool(r.covered) for r in plain) / len(plain) if len(plain) >= 0.05 * runs else None,
        sum(r.width for r in told) / n,
        sum(r.warned for r in told) / n,
        words.count("like another annotator") / runs if words else None,
        words.count("below the annotators") / runs if words else None,
    )


def urn(n: int, pass_rate: float, loyalty: list[float], rng: np.random.Generator) -> Array:
    """(raters, n) levels: 0 pass, 1 fail."""
    inside = rng.random(n) >= pass_rate
    own = rng.random((len(loyalty), n)) >= pass_rate
    loyal = rng.random((len(loyalty), n)) < np.array(loyalty)[:, None]
    return np.asarray(np.where(loyal, inside, own), dtype=np.int64)


def _seen(measure: Measure, truth: float, word: str | None = None) -> Run:
    ends = measure.interval
    if ends is None:
        return Run(None, word=word)
    return Run(ends.low <= truth <= ends.high, ends.high - ends.low, bool(measure.warnings), word)


def _kappa(cell: Cell, rng: np.random.Generator, resampling: Resampling) -> Run:
    kappa, pass_rate, raters, n = cell.about
    levels = urn(n, pass_rate, [kappa**0.5] * raters, rng)
    weights = weights_of(BINARY)
    if raters == 2:
        patterns = of_pair(np.bincount(levels[0] * 2 + levels[1], minlength=4).reshape(2, 2))
        statistic: Cohen | Fleiss = Cohen(weights)
    else:
        fails = levels.sum(axis=0)
        patterns = canonical(np.column_stack([raters - fails, fails]), np.ones(n, dtype=np.int64))
        statistic = Fleiss(weights)
    reason = reason_of(patterns, chance_corrected=True)
    return _seen(estimate(patterns, {"kappa": statistic}, {"kappa": reason}, resampling)["kappa"], kappa)


def _difference(cell: Cell, rng: np.random.Generator, resampling: Resampling) -> Run:
    kappa, pass_rate, raters, n, gap = cell.about
    *people, judge = urn(n, pass_rate, [kappa**0.5] * raters + [(kappa - gap) / kappa**0.5], rng)
    seen = panel(BINARY, {f"person {i}": levels for i, levels in enumerate(people)}, {"judge": judge})
    found = ceiling(seen, raters, resampling)
    return _seen(found.difference, -gap, found.verdict.word)


def _rate(cell: Cell, rng: np.random.Generator, resampling: Resampling) -> Run:
    """A judge with TPR and TNR of .9, 100 gold items: 50 of each class, 50 of each of its labels, or at random."""
    design, rate, size = cell.about
    tpr = tnr = 0.9
    says_pass = rate * tpr + (1 - rate) * (1 - tnr)
    if design == "by_gold":
        passed = np.repeat([True, False], 50)
        said = np.where(passed, rng.random(100) < tpr, rng.random(100) >= tnr)
    elif design == "by_judge":
        said = np.repeat([True, False], 50)
        right = np.where(said, rate * tpr / says_pass, rate * (1 - tpr) / (1 - says_pass))
        passed = rng.random(100) < right
    else:
        passed = rng.random(100) < rate
        said = np.where(passed, rng.random(100) < tpr, rng.random(100) >= tnr)
    seen = panel(BINARY, {"expert": 1 - passed.astype(int)}, {"judge": 1 - said.astype(int)})
    stratum = {"by_gold": passed, "by_judge": said, "random": np.zeros(100)}[design].astype(int)
    chosen = Design(design, stratum, np.full(100, 0.5), "judge")
    good = int(rng.binomial(size, says_pass))
    (found,) = corrected_rates(seen, 1, single(seen, 0), [Production((good, size - good))], resampling, design=chosen)
    return _seen(found.rate, rate)


def _weighted(cell: Cell, rng: np.random.Generator, resampling: Resampling) -> Run:
    """1,000 times the population of 1,000 in which a judge flags 50 (40 truly fail) and passes 950 (38 truly fail): kappa
    .601, labelled by so many of the flagged and of the passed ones."""
    (n,) = cell.about
    caught, missed = int(rng.binomial(n, 40 / 50)), int(rng.binomial(n, 38 / 950))
    strata = [
        Stratum(of_pair(np.array([[0, 0], [n - caught, caught]])), 1.0),
        Stratum(of_pair(np.array([[n - missed, missed], [0, 0]])), 19.0),
    ]
    found = weighted_estimate(strata, {"kappa": Cohen(weights_of(BINARY))}, {"kappa": None}, resampling)["kappa"]
    a, b, c, d = 912, 10, 38, 40
    chance = ((a + b) * (a + c) + (c + d) * (b + d)) / 1000**2
    return _seen(found, ((a + d) / 1000 - chance) / (1 - chance))


def line(told: Told) -> str:
    plain = "     -" if told.unwarned is None else f"{told.unwarned:6.1%}"
    text = (
        f"{told.cell.name:70s} {told.coverage:6.1%}  unwarned {plain}  width {told.width:.3f}  "
        f"refused {told.refused:5.1%}  warned {told.warned:4.0%}"
    )
    if told.flattered is not None and told.below is not None:
        text += f"  like {told.flattered:5.1%}  below {told.below:5.1%}"
    return text + ("  << silent" if silent(told) else "  <" if told.coverage < LEAST else "")


def silent(told: Told) -> bool:
    """Whether intervals that stand without a warning cover too rarely."""
    return told.unwarned is not None and told.unwarned < LEAST


def summary(kind: str, told: list[Told]) -> str:
    plain = [t.unwarned for t in told if t.unwarned is not None]
    parts = [
        f"{kind}: {len(told)} cells, mean coverage {np.mean([t.coverage for t in told]):.1%}",
        f"of intervals without a warning {np.mean(plain):.1%} (lowest {min(plain):.1%})"
        if plain
        else "every cell warns",
        f"{sum(t.coverage < LEAST for t in told)} cells under {LEAST:.0%}, {sum(map(silent, told))} where those without a warning are",
    ]
    worse = [
        t.flattered for t in told if t.cell.kind == "difference" and t.cell.about[-1] > 0 and t.flattered is not None
    ]
    if worse:
        parts.append(
            f"a judge .2 worse is called like an annotator in {np.mean(worse):.1%} of runs, at most {max(worse):.1%}"
        )
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--only", default="kappa,difference,rate,weighted")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    started = time.monotonic()
    by_kind: dict[str, list[Told]] = {}
    chosen = list(cells(given.only.split(",")))
    with ProcessPoolExecutor(given.jobs) as pool:
        each = pool.map(simulate, chosen, [given.runs] * len(chosen), [given.resamples] * len(chosen))
        for told in each:
            by_kind.setdefault(told.cell.kind, []).append(told)
            print(line(told), flush=True)
    print()
    for kind, found in by_kind.items():
        print(summary(kind, found))
    print(f"{given.runs} runs a cell, {given.resamples} resamples, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
