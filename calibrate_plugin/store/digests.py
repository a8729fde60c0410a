"""Short fingerprints by which records are found again and compared, and sets of many of them.

They are stored, so what goes into them and how may never change: a changed digest would make every label look edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct

import numpy as np
import numpy.typing as npt
import polars as pl

SIZE = 16  # bytes; two of a billion are the same with a chance below 1e-20

PAIR = Struct(">qq")

Digests = npt.NDArray[np.bytes_]


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=SIZE).digest()


def digests(texts: Iterable[str]) -> list[bytes]:
    return [blake2b(text.encode(), digest_size=SIZE).digest() for text in texts]


def array(values: Sequence[bytes]) -> Digests:
    return np.array(values, dtype=f"S{SIZE}")


def canonical(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Each row of ``columns`` as one text that no other row has: every text with its length in bytes, ``~`` for null.

    Numbers, times and booleans count as integers, a float by its bits.
    """
    floats = [c for c in columns if frame.schema[c] == pl.Float64]
    bits = [pl.Series(c, frame[c].fill_null(0.0).to_numpy().view(np.int64)) for c in floats]
    coded = frame.with_columns(pl.when(pl.col(b.name).is_not_null()).then(b).alias(b.name) for b in bits)
    return coded.select(pl.concat_str(_part(coded.schema[c], c) for c in columns)).to_series().to_list()


def _part(dtype: pl.DataType, name: str) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.String:
        text = pl.concat_str(column.str.len_bytes().cast(pl.String), pl.lit(":"), column)
    else:
        text = pl.concat_str(column.cast(pl.Int64).cast(pl.String), pl.lit(";"))
    return text.fill_null("~")


def keys(frame: pl.DataFrame, columns: Sequence[str], leading: str | None = None) -> list[tuple[int, int]]:
    """Each row's digest as two integers. With ``leading`` the first is that of this column alone, where it is not null."""
    whole = [PAIR.unpack(d) for d in digests(canonical(frame, columns))]
    if leading is None:
        return whole
    alone = [PAIR.unpack(d)[0] for d in digests(canonical(frame, (leading,)))]
    return [
        pair if lacks else (first, pair[1])
        for pair, first, lacks in zip(whole, alone, frame[leading].is_null(), strict=True)
    ]


class Seen:
    """A growing set of digests, 16 bytes each: sorted runs, merged when they are of a like size."""

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def __contains__(self, value: bytes) -> bool:
        return bool(self.contains(array([value]))[0])

    def add(self, values: Digests) -> None:
        """Add digests that are not in the set yet and differ from each other."""
        if not len(values):
            return
        run = np.sort(values)
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)

    def contains(self, values: Digests) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(values), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, values), len(run) - 1)
            found |= run[at] == values
        return found
