"""What the study itself says of its items: samples, splits, rulings. Recorded like what a source says.

So they have a sync number each, ``as_of`` gives what held then, and ``why`` names them. The source's name is ``model.OWN``.
"""

from __future__ import annotations

import polars as pl

from calibrate_plugin.connector import Page
from calibrate_plugin.model import ITEMS, LABELS, OWN, frame
from calibrate_plugin.store import Store


def record(
    store: Store, *, labels: pl.DataFrame | None = None, items: pl.DataFrame | None = None, wait: float = 60
) -> int | None:
    """Write labels (columns of LABELS, each with a ``record``) and facts about items (columns of ITEMS); a record or a fact
    that is there already is replaced. Returns the sync number, None where nothing was new. Raises Busy where somebody else still works
    on the store after ``wait`` seconds."""
    with store.work(wait=wait):
        recording = store.record(OWN)
        recording.add(Page(frame(LABELS, labels), frame(ITEMS, items)))
        recording.publish(None)
        recording.finish("ok", "", at=store.now(), server=None, requests=None)
    return recording.published
