"""What every reader makes of a file: its rows under the names of the common model, and where each row stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from calibrate_plugin.connector import ConnectorError, SettingsError

#: The columns of a file of labels: the name in the file, the name in ``model.LABELS``, other names it may have.
COLUMNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("item", "item", ()),
    ("dimension", "field", ()),
    ("rater", "rater", ()),
    ("kind", "kind", ("rater_kind",)),
    ("value", "value", ()),
    ("version", "version", ()),
    ("job", "job", ()),
    ("run", "run", ()),
    ("at", "at", ("timestamp",)),
    ("reason", "reason", ("comment",)),
    ("confidence", "confidence", ()),
    ("sample", "sample", ()),
    ("order", "order", ()),
    ("execution", "execution", ()),
    ("link", "link", ()),
    ("id", "record", ()),
    ("blind", "blind", ()),
)
REQUIRED = {
    "item": "what was judged",
    "dimension": "the question that was answered",
    "rater": "who answered",
    "kind": "annotator or human, evaluator or judge, or gold",
    "value": "the answer",
}
#: Columns whose text tells records apart: it must be plain, and is never mended.
IDENTITIES = ("item", "field", "rater", "kind", "version", "job", "run", "sample", "order", "execution", "record")
#: A frame holds an item fact under this prefix, so that a fact may have any name.
FACT = "fact:"
#: A frame holds under this name why a row could not be read, if any could not.
BROKEN = "broken"
#: How a number that JSON cannot hold stands in the column value, where all else is JSON text.
NOT_FINITE = ("NaN", "inf", "-inf")
MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file. ``frame`` has, of ``model.LABELS``, the columns that the file has, as text; ``value`` as JSON
    text; ``at`` also as a time, ``blind`` as a boolean, ``confidence`` as a number; facts under ``FACT``; and BROKEN where
    a row could not be read. Row i (from 0) stands at line ``lines[i]``, or ``first + i`` where ``lines`` is None."""

    name: str
    frame: pl.DataFrame
    first: int
    lines: pl.Series | None = None

    def line(self, row: pl.Expr) -> pl.Expr:
        """The line of each of ``row`` (0-based row numbers)."""
        return row + self.first if self.lines is None else pl.lit(self.lines).gather(row)

    def line_of(self, row: int) -> int:
        return self.first + row if self.lines is None else int(self.lines[row])

    @property
    def facts(self) -> list[str]:
        return [c.removeprefix(FACT) for c in self.frame.columns if c.startswith(FACT)]


@dataclass(frozen=True, slots=True)
class Naming:
    """Which header is which column. ``renamed`` is the study's ``columns``: our name -> the file's. With ``only_items``
    a column is the item or a fact."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    only_items: bool = False

    def assign(self, headers: Sequence[str], where: str) -> list[str | None]:
        """For each header the column it is in a Table's frame; None for a column without a name."""
        stripped = [h.strip().strip("\ufeff") for h in headers]
        if len(stripped) > MOST_COLUMNS:
            raise ConnectorError(
                f"{where}: more than {MOST_COLUMNS} different columns; the first are {_listed(stripped[:5])}"
            )
        places: dict[str, list[int]] = {}
        for place, header in enumerate(stripped):
            places.setdefault(header.casefold(), []).append(place)
        assigned: list[str | None] = [FACT + h if h else None for h in stripped]
        for name, column, _ in self._columns():
            found = [place for spelling in self._spellings(name) for place in places.get(spelling, ())]
            if len(found) > 1:
                names = _listed([stripped[p] for p in found])
                raise ConnectorError(
                    f"{where}: the columns {names} (number {' and '.join(str(p + 1) for p in found)}) both say the {name}; "
                    f'keep one of them, or name the one that counts: columns = {{ {name} = "..." }}'
                )
            for place in found:
                assigned[place] = column
        seen: dict[str, int] = {}
        for place, header in enumerate(stripped):
            if header and seen.setdefault(header, place) != place:
                raise ConnectorError(
                    f"{where}: the columns {seen[header] + 1} and {place + 1} are both called {header!r}; rename one"
                )
        return assigned

    def recognised(self, headers: Sequence[str]) -> int:
        """How many of our columns the headers have."""
        folded = {h.strip().casefold() for h in headers}
        return sum(any(s in folded for s in self._spellings(name)) for name, _, _ in self._columns())

    def demand(self, headers: Sequence[str], assigned: Sequence[str | None], where: str) -> None:
        """Raise SettingsError if a column that must be there is not."""
        missing = [n for n, column, _ in self._columns() if n in REQUIRED and column not in assigned]
        if not missing:
            return
        from difflib import get_close_matches

        name = missing[0]
        wanted = self.renamed.get(name, name)
        free = [h.strip() for h, a in zip(headers, assigned, strict=True) if a is not None and a.startswith(FACT)]
        by_folded = {h.casefold(): h for h in free}
        near = next((by_folded[m] for s in self._spellings(name) for m in get_close_matches(s, by_folded, n=1)), None)
        hint = f"; did you mean {near!r}?" if near else "."
        example = near or "its name in the file"
        raise SettingsError(
            f"{where}: there is no column {wanted!r} ({REQUIRED[name]}); found: {_listed([h.strip() for h in headers])}"
            f'{hint} Rename it, or say columns = {{ {name} = "{example}" }}'
        )

    def _columns(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        return COLUMNS[:1] if self.only_items else COLUMNS

    def _spellings(self, name: str) -> list[str]:
        if name not in self.renamed:
            return [name, *next(aliases for n, _, aliases in COLUMNS if n == name)]
        renamed = self.renamed[name].strip().casefold()
        return [renamed, name] if self.only_items and renamed != name else [renamed]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n[:60]) for n in names[:30])
    return f"{shown} and {len(names) - 30} more" if len(names) > 30 else shown


def assembled(name: str, columns: Iterable[pl.Series], first: int, lines: pl.Series | None = None) -> Table:
    """A Table of ``columns``, which come one after the other, so that little is held twice: each is put into one piece,
    and one that says the same in every row into one value. A file without rows, or without one that can be read, is an
    error."""
    names: list[str] = []
    whole: list[pl.Series] = []
    same: dict[str, pl.Expr] = {}
    for values in columns:
        if not len(values):
            raise ConnectorError(f"{name}: there are columns but no rows")
        names.append(values.name)
        if values.name == BROKEN and not values.null_count():
            where = first if lines is None else lines[0]
            raise ConnectorError(f"{name}:{where}: {values[0]}; no other row can be read either")
        if values.name == "item":  # stays a full column, which gives the frame its height
            whole.append(values.rechunk())
        elif values.null_count() == len(values):
            same[values.name] = pl.lit(None, dtype=values.dtype)
        elif values.dtype == pl.String and not values.null_count() and (values == values[0]).all():
            same[values.name] = pl.lit(values[0], dtype=pl.String)
        else:
            whole.append(values.rechunk())
    return Table(name, pl.DataFrame(whole).with_columns(**same).select(names), first, lines)


def joined(pieces: list[pl.DataFrame]) -> Iterator[pl.Series]:
    """The columns of ``pieces`` one below the other, one by one; the pieces are used up."""
    frame = pl.concat(pieces, how="diagonal") if pieces else pl.DataFrame({"item": []}, schema={"item": pl.String})
    pieces.clear()
    columns = frame.get_columns()[::-1]
    del frame
    while columns:
        yield columns.pop()
