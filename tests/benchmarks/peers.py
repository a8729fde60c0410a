"""The point values of a report as one gets them today: pandas, scikit-learn, statsmodels and krippendorff.

    python -m tests.benchmarks.peers LABELS.parquet

Prints JSON: the values (linear weights in every Cohen's kappa; no intervals, no lists, no checks of the labels), and what
they took: wall and user seconds and the peak of memory in MB, imports included.
"""

from __future__ import annotations

import time

START = time.perf_counter()

import itertools  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import krippendorff  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.metrics import cohen_kappa_score  # noqa: E402
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa  # noqa: E402

SCALE = [1, 2, 3, 4, 5]


def values(file: str) -> dict[str, Any]:
    labels = pd.read_parquet(file)
    people = labels[labels["kind"] == "annotator"]
    table = people.pivot(index="item", columns="rater", values="value")
    judge = labels[labels["kind"] == "evaluator"].set_index("item")["value"]

    def cohen(a: pd.Series, b: pd.Series) -> float:
        return float(cohen_kappa_score(a, b, labels=SCALE, weights="linear"))

    pairs = {}
    for a, b in itertools.combinations(table.columns, 2):
        both = table[[a, b]].dropna()
        pairs[f"{a} {b}"] = cohen(both[a], both[b])
    joined = people.join(judge.rename("judge"), on="item", how="inner")
    each = {str(rater): cohen(rows["judge"], rows["value"]) for rater, rows in joined.groupby("rater")}
    complete = table.dropna().to_numpy(dtype=int)
    counted, _ = aggregate_raters(complete)
    return {
        "human_score": float(people["value"].mean()),
        "evaluator_score": float(judge.mean()),
        "pairs": pairs,
        "evaluator": cohen(joined["judge"], joined["value"]),
        "evaluator_agreement": float((1 - (joined["judge"] - joined["value"]).abs() / 4).mean()),
        "evaluator_each": each,
        "fleiss_complete": float(fleiss_kappa(counted)),
        "alphas": {
            metric: float(
                krippendorff.alpha(table.to_numpy().T, level_of_measurement=metric, value_domain=np.array(SCALE))
            )
            for metric in ("nominal", "ordinal", "interval")
        },
    }


def main() -> None:
    found = values(sys.argv[1])
    used = resource.getrusage(resource.RUSAGE_SELF)
    took = {"wall": time.perf_counter() - START, "user": used.ru_utime, "peak_mb": used.ru_maxrss / 1024}
    print(json.dumps({"values": found, "took": took}))


if __name__ == "__main__":
    main()
