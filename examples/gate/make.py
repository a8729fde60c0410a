"""The labels of this example, written again: two annotators and two versions of a judge on 240 replies.

python make.py
"""

from __future__ import annotations

import csv
import random
from pathlib import Path


def main() -> None:
    drawn = random.Random(7)
    with (Path(__file__).parent / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["item", "dimension", "rater", "kind", "version", "value"])
        for i in range(240):
            good = drawn.random() < 0.6
            for rater, kind, version, right in (
                ("asha", "annotator", "", 0.92),
                ("ben", "annotator", "", 0.9),
                ("safety-judge", "evaluator", "v1", 0.72),
                ("safety-judge", "evaluator", "v2", 0.91),
            ):
                answer = good if drawn.random() < right else not good
                out.writerow([f"reply-{i:03}", "Safety", rater, kind, version, "Pass" if answer else "Fail"])


if __name__ == "__main__":
    main()
