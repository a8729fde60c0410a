"""How long it takes to say why the numbers changed, over a million labels of which a thousand changed.

python -m tests.benchmarks.why_speed [--size 1000000] [--changes 1000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from calibrate_plugin.config import read
from calibrate_plugin.history import Moment
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync
from calibrate_plugin.why import explain
from tests.benchmarks.store_speed import Synthetic

SETTINGS = {
    "study": {"name": "speed"},
    "dimensions": {name: {"scale": "binary", "values": ["Pass", "Fail"]} for name in ("Safety", "Empathy")},
    "sources": {"all": {"connector": "files", "file": "labels.csv"}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="Keep the store here and use it again.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        config = read(SETTINGS, folder / "calibrate.toml")
        with Store(config.store) as store:
            if not store.latest():
                for edited in (0, given.changes):
                    (outcome,) = sync(store, {"all": Synthetic(given.size, edited)}, full=True)
                    assert outcome.outcome == "ok", outcome
            begun, cpu = time.perf_counter(), time.process_time()
            found = explain(store, config, Moment(1, None, store.now()))
            seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        changes = sum(s.n for w in found.numbers for s in w.steps if w.statistic == "evaluator.kappa")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{given.size:,} labels, {given.changes:,} changed: {seconds:.2f} s ({cpu:.2f} s of processor), {memory:,.0f} MB"
        )
        print(f"{len(found.numbers)} numbers moved, {changes} labels named under the evaluators' kappas")


if __name__ == "__main__":
    main()
