"""The labels that the speed of a report is measured on, the same on every machine.

    python -m tests.benchmarks.data FOLDER [--items 1000000 100000 1000]

Each item has 2 to 5 annotators of 5, drawn anew, and one evaluator; ratings are whole numbers from 1 to 5.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

ANNOTATORS = ("asha", "ben", "chidi", "dana", "emre")
SIZES = (1_000_000, 100_000, 1_000)
SEED = 20261001


def labels(items: int, seed: int = SEED) -> pl.DataFrame:
    """Columns item, dimension, rater, kind, value. The evaluator's labels come last, one an item.

    An item has a quality around 3.2; a rater sees it with a leniency of their own and noise, and rounds to the scale.
    """
    random = np.random.default_rng(seed)
    quality = random.normal(3.2, 1.0, items)
    many = random.integers(2, len(ANNOTATORS) + 1, items)
    drawn = np.argsort(random.random((items, len(ANNOTATORS))), axis=1)
    who = drawn[np.arange(len(ANNOTATORS)) < many[:, None]]
    item = np.repeat(np.arange(items), many)
    leniency = np.array([-0.3, -0.1, 0.0, 0.15, 0.4])
    people = quality[item] + leniency[who] + random.normal(0, 0.7, len(who))
    judge = quality + 0.2 + random.normal(0, 0.8, items)
    return pl.DataFrame(
        {
            "item": np.concatenate([item, np.arange(items)]),
            "dimension": pl.Series(["Quality"]).new_from_index(0, len(who) + items),
            "rater": pl.concat([pl.Series(ANNOTATORS).gather(who), pl.Series(["judge"]).new_from_index(0, items)]),
            "kind": pl.Series(["annotator", "evaluator"]).gather(np.repeat([0, 1], [len(who), items])),
            "value": np.clip(np.rint(np.concatenate([people, judge])), 1, 5).astype(np.int64),
        }
    )


def written(folder: Path, items: int) -> Path:
    """The Parquet file of that many items in ``folder``, made if it is not there yet; up to 1,000 items also a CSV beside
    it."""
    file = folder / f"labels-{items}.parquet"
    if not file.exists():
        made = labels(items)
        if items <= 1_000:
            made.write_csv(file.with_suffix(".csv"))
        made.write_parquet(file)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, nargs="+", default=SIZES)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for items in arguments.items:
        print(written(arguments.folder, items))


if __name__ == "__main__":
    main()
