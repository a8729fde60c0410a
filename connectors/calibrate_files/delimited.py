"""CSV: RFC 4180, with the delimiter , ; or tab as the header has it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from calibrate_files.table import BROKEN, Naming, Table, assembled, joined
from calibrate_files.text import LONGEST_LINE, read_text
from calibrate_plugin.connector import ConnectorError

ROWS = 50_000  # of the careful reader at once
STRIDE = 2**20  # bytes looked at at once: they stay in the processor's cache

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]


def read_delimited(path: Path, naming: Naming) -> Table:
    """A CSV's rows. An empty cell is null, a quoted empty cell is ``""``. A row with more or fewer cells than the header
    is broken; a quoted cell that never ends or goes on after its quote is a ConnectorError with the line."""
    name = path.name
    data = read_text(path)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    delimiter, headers, header_line, first, start = _header(data, naming, name)
    assigned = naming.assign(headers, f"{name}:{header_line}")
    naming.demand(headers, assigned, f"{name}:{header_line}")
    columns = [a if a is not None else f"unnamed {i}" for i, a in enumerate(assigned)]
    body = data[start:].rstrip(b"\r\n")
    del data
    pieces, lines = _regular(body, columns, delimiter, first) or _irregular(
        body.decode(), columns, delimiter, name, first
    )
    del body
    named = {c for c, a in zip(columns, assigned, strict=True) if a is not None} | {BROKEN}
    cells = (values for values in joined(pieces) if values.name in named)
    return assembled(name, (_json(v) if v.name == "value" else v for v in cells), first, lines)


def _json(values: pl.Series) -> pl.Series:
    return pl.DataFrame({"value": values}).select(quoted(pl.col("value")).alias("value")).to_series()


def quoted(text: pl.Expr) -> pl.Expr:
    """Text as JSON strings, null as null."""
    encoded = pl.struct(text.alias("v")).struct.json_encode()
    return pl.when(text.is_not_null()).then(encoded.str.strip_prefix('{"v":').str.strip_suffix("}"))


def _header(data: bytes, naming: Naming, name: str) -> tuple[str, list[str], int, int, int]:
    """The delimiter, the header's cells, its line, the line of the first row, and the byte at which that begins."""
    text = data[:LONGEST_LINE].decode(errors="ignore")
    candidates = []
    errors = []
    for delimiter in (",", ";", "\t"):
        try:
            line, cells, end = next(_records(text, delimiter, name, 1))
        except ConnectorError as error:
            errors.append(error)
            continue
        headers = [cell or "" for cell in cells]
        candidates.append((naming.recognised(headers), len(headers), delimiter, headers, line, end))
    if not candidates:
        raise errors[0]
    _, _, delimiter, headers, line, end = max(candidates, key=lambda c: c[:2])
    head = text[:end]
    return delimiter, headers, line, 1 + head.count("\n"), len(head.encode())


def _regular(
    body: bytes, columns: list[str], delimiter: str, first: int
) -> tuple[list[pl.DataFrame], pl.Series | None] | None:
    """The rows by polars' parser and the lines of each if they are not one after the other; None where the text is not
    perfectly regular, for polars drops or bends what is not."""
    if len(columns) < 2 or not body or body.startswith(codecs.BOM_UTF8):
        return None
    view = np.frombuffer(body, np.uint8)
    quotes = _places(view, ord('"'))
    if not _well_quoted(view, quotes, delimiter) or body.count(b"\r") != body.count(b"\r\n"):
        return None
    try:
        frame = pl.read_csv(
            body,
            has_header=False,
            separator=delimiter,
            quote_char='"' if len(quotes) else None,
            schema=dict.fromkeys(columns, pl.String),
        )
    except pl.exceptions.PolarsError:
        return None
    # polars fills a short row and makes a row of an empty line without a word
    within = _within(frame, delimiter) if len(quotes) else 0
    if _count(view, ord(delimiter)) - within != frame.height * (len(columns) - 1):
        return None
    newlines = _count(view, ord("\n"))
    if newlines == frame.height - 1:
        return [frame], None
    ends = _places(view, ord("\n"))
    outside = np.flatnonzero(np.searchsorted(quotes, ends) % 2 == 0)
    if len(outside) != frame.height - 1:
        return None
    return [frame], pl.Series("line", np.concatenate([[first], first + 1 + outside]), dtype=pl.Int64)


def _places(view: Bytes, byte: int) -> Places:
    return np.concatenate(
        [np.flatnonzero(view[i : i + STRIDE] == byte) + i for i in range(0, len(view), STRIDE)]
        or [np.empty(0, np.intp)]
    )


def _count(view: Bytes, byte: int) -> int:
    return sum(int(np.count_nonzero(view[i : i + STRIDE] == byte)) for i in range(0, len(view), STRIDE))


def _within(frame: pl.DataFrame, mark: str) -> int:
    """How often ``mark`` stands inside the cells of a frame of text."""
    return int(frame.select(pl.sum_horizontal(pl.all().str.count_matches(mark, literal=True).sum())).item() or 0)


def _well_quoted(view: Bytes, quotes: Places, delimiter: str) -> bool:
    """Whether each quote opens a cell, closes one, or is one of two that stand for one inside a quoted cell.

    Seen from the left, quotes number 0, 2, 4 ... begin quoted text: at the start of a cell, or right after the quote that
    they double. Quotes 1, 3, 5 ... end it: before the end of a cell, or before their double.
    """
    if len(quotes) % 2:
        return False
    before = np.where(quotes[::2] > 0, view[quotes[::2] - 1], ord("\n"))
    after = view[np.minimum(quotes[1::2] + 1, len(view) - 1)]
    last = quotes[1::2] + 1 == len(view)
    opens = np.isin(before, [ord(delimiter), ord("\n"), ord('"')])
    closes = last | np.isin(after, [ord(delimiter), ord("\n"), ord("\r"), ord('"')])
    return bool(opens.all() and closes.all())


def _irregular(
    text: str, columns: list[str], delimiter: str, name: str, first: int
) -> tuple[list[pl.DataFrame], pl.Series | None]:
    """The rows, read one by one, and their lines."""
    n = len(columns)
    pieces: list[pl.DataFrame] = []
    lines: list[int] = []
    rows: list[list[str | None]] = []
    broken: dict[int, str] = {}

    def close() -> None:
        frame = pl.DataFrame(
            [pl.Series(c, cells, dtype=pl.String) for c, cells in zip(columns, zip(*rows, strict=True), strict=True)]
        )
        if broken:
            messages = [broken.get(i) for i in range(len(rows))]
            frame = frame.with_columns(pl.Series(BROKEN, messages, dtype=pl.String))
        pieces.append(frame)
        rows.clear()
        broken.clear()

    for line, cells, _ in _records(text, delimiter, name, first):
        lines.append(line)
        if len(cells) != n:
            broken[len(rows)] = f"the row has {len(cells)} cells and the header has {n}"
            cells = [None] * n
        rows.append(cells)
        if len(rows) == ROWS:
            close()
    if rows:
        close()
    return pieces, pl.Series("line", lines, dtype=pl.Int64)


def _records(text: str, delimiter: str, name: str, line: int) -> Iterator[tuple[int, list[str | None], int]]:
    """Each record's line, cells (None: empty and not quoted) and end in ``text``; empty lines are passed over."""
    cell = re.compile(
        rf'(?:"((?:[^"]++|"")*+)"|((?!")(?:[^{delimiter}\r\n]|\r(?!\n))*+))({delimiter}|\r?\n|\r?\Z)',
    ).match
    cells: list[str | None] = []
    begun = line
    place = 0
    while place < len(text) or cells:
        found = cell(text, place)
        if found is None:
            unended = re.compile(r'"(?:[^"]++|"")*+"').match(text, place) is None
            raise ConnectorError(
                f"{name}:{line}: "
                + (
                    "a cell begins with a quote that is never closed; close it, or double the quotes inside a quoted cell"
                    if unended
                    else "a quoted cell goes on after its closing quote; double the quotes inside it"
                )
            )
        inside, plain, end = found.groups()
        if inside is not None:
            line += inside.count("\n")
            cells.append(inside.replace('""', '"'))
        else:
            cells.append(plain or None)
        place = found.end()
        if end == delimiter:
            continue
        if cells != [None]:
            yield begun, cells, place
            cells = []
        cells = []
        line += 1
        begun = line
