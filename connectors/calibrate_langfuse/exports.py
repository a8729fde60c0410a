"""Files that hold Langfuse scores: the score export of the web app and rows of the API, as CSV, JSON or JSON lines.

Columns vary by version, so they are found by their names in the header, in camel case or in snake case (the blob
storage export). Files may be gzipped. A file is read as a stream; only answers that may be part of a set wait for its end.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl

from calibrate_langfuse.discovery import discover
from calibrate_langfuse.records import Reader, Rules, labels_of
from calibrate_plugin.connector import (
    ConnectorError,
    Covered,
    Discovery,
    Page,
    Scope,
    SettingsError,
    Since,
    SourceSettings,
)

#: The longest line or record, in bytes. A score's comment can have a megabyte; what is longer is not a score export.
LONGEST = 16 * 2**20
_ROWS = 50_000
_SPACE = re.compile(r"[ \t\r\n]*")

_COLUMNS = {
    re.sub("[^a-z0-9]", "", name.lower()): name
    for name in [
        "id",
        "projectId",
        "name",
        "value",
        "stringValue",
        "dataType",
        "source",
        "timestamp",
        "createdAt",
        "updatedAt",
        "environment",
        "comment",
        "metadata",
        "traceId",
        "observationId",
        "sessionId",
        "datasetRunId",
        "configId",
        "queueId",
        "authorUserId",
        "authorUserName",
        "traceName",
        "userId",
        "traceTags",
        "subject",
        "trace",
    ]
}
_COLUMNS |= {"runid": "datasetRunId", "experimentid": "datasetRunId", "author": "authorUserName", "tags": "traceTags"}


@dataclass(slots=True)
class ExportedScores:
    """The scores in a file."""

    settings: SourceSettings
    rules: Rules

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        """Pages of labels, then that the whole file is covered. Raises ConnectorError naming file and line."""
        reader = Reader(self.rules)
        waiting: list[pl.DataFrame] = []
        for _ in self._read(reader):
            if len(reader) >= _ROWS:
                page, shared = _page(reader)
                waiting.append(shared)
                yield page
        page, shared = _page(reader)
        sets = labels_of(pl.concat([*waiting, shared]))
        yield Page(pl.concat([page.labels, sets]), page.items, page.aside, page.names)
        yield Covered(Scope())

    def discover(self) -> Discovery:
        """What the scores in the file propose."""
        return discover(((where, row) for where, row in self._records() if isinstance(row, dict)), self.rules)

    def _read(self, reader: Reader) -> Iterator[None]:
        for where, row in self._records():
            if isinstance(row, dict):
                reader.add(row, where)
            else:
                reader.reject(where, f"{where}: {row if isinstance(row, _Broken) else 'not a score record'}")
            yield

    def _records(self) -> Iterator[tuple[str, Any]]:
        """What stands in the file, with its place; scores under the API's names."""
        path = self.settings.file
        assert path is not None
        label = path.name
        try:
            with _opened(path) as stream:
                empty = True
                for where, row in _rows(stream, label, path):
                    empty = False
                    yield where, _named(row) if isinstance(row, dict) else row
                if empty:
                    raise ConnectorError(f"{label} holds no scores; export them again, or name another file")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ConnectorError(f"{label} is not a whole gzip file: {error}") from None
        except OSError as error:
            raise SettingsError(
                f"sources.{self.settings.name}.file names {path}, which cannot be read: {error.strerror or error}"
            ) from None


class _Broken(str):
    """What is wrong with one row."""

    __slots__ = ()


def _page(reader: Reader) -> tuple[Page, pl.DataFrame]:
    rows, rest = reader.take()
    alone = rows.filter(pl.col("execution").is_null())
    return Page(labels_of(alone), rest.items, rest.aside, rest.names), rows.filter(pl.col("execution").is_not_null())


def _opened(path: Path) -> IO[bytes]:
    stream = path.open("rb")
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return io.BufferedReader(gzip.GzipFile(fileobj=stream)) if zipped else stream


def _rows(stream: IO[bytes], label: str, path: Path) -> Iterator[tuple[str, Any]]:
    head = stream.peek(4096)[:4096] if isinstance(stream, io.BufferedReader) else b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConnectorError(f"{label} is UTF-16; save it as UTF-8")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    ending = "".join(path.suffixes[-2:]).lower().removesuffix(".gz")
    if start.startswith(b"["):
        yield from _array(stream, label)
    elif start.startswith(b"{") or ending.endswith((".jsonl", ".ndjson", ".json")):
        yield from _objects(stream, label, one_a_line=ending.endswith((".jsonl", ".ndjson")))
    else:
        yield from _table(stream, label)


def _lines(stream: IO[bytes], label: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of text."""
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise ConnectorError(
                f"{label}:{number}: the line is longer than {LONGEST // 2**20} MB; is this a score export?"
            )
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_utf8(label, number, error) from None


def _objects(stream: IO[bytes], label: str, *, one_a_line: bool) -> Iterator[tuple[str, Any]]:
    """JSON lines, or one JSON object: a reply of the API ({"data": [...]}) or a single score."""
    lines = _lines(stream, label)
    number, first = next(((n, text) for n, text in lines if text.strip()), (0, ""))
    if not number:
        return
    try:
        whole = _parsed(first)
    except ValueError as error:
        if one_a_line:
            raise _broken(label, number, error) from None
        whole = _many_lines(number, first, lines, label)
    yield from _scores(f"{label}:{number}", whole)
    for number, line in lines:
        if line.strip():
            try:
                row = _parsed(line)
            except ValueError as error:
                raise _broken(label, number, error) from None
            yield from _scores(f"{label}:{number}", row)


def _many_lines(number: int, first: str, lines: Iterator[tuple[int, str]], label: str) -> Any:
    """One JSON object over several lines, of which the first is read."""
    text, size = [first], len(first)
    for n, line in lines:
        text.append(line)
        size += len(line)
        if size > LONGEST:
            raise ConnectorError(f"{label}:{n}: one object longer than {LONGEST // 2**20} MB; write one score a line")
    try:
        return _parsed("".join(text))
    except ValueError as error:
        at = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise _broken(label, number - 1 + at, error) from None


def _scores(where: str, row: Any) -> Iterator[tuple[str, Any]]:
    """The scores in a record: a reply of the API holds a list of them."""
    if isinstance(row, dict) and isinstance(row.get("data"), list) and "name" not in row:
        for i, score in enumerate(row["data"], start=1):
            yield f"{where} score {i}", score
    else:
        yield where, row


def _array(stream: IO[bytes], label: str) -> Iterator[tuple[str, Any]]:
    """The elements of one JSON list, each parsed as soon as it is whole."""
    decode = json.JSONDecoder().raw_decode
    text, at, line = "", 0, 1
    opened = closed = comma = False
    for more in _chunks(stream, label):
        text, at = text[at:] + more, 0
        while True:
            start = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            line += text.count("\n", at, start)
            at = start
            if at == len(text):
                break
            mark = text[at]
            if closed:
                raise ConnectorError(f"{label}:{line}: {_short(text[at:])} stands after the end of the list")
            if not opened and mark == "[":
                opened, at = True, at + 1
            elif mark == "]":
                closed, at = True, at + 1
            elif mark == "," and comma:
                comma, at = False, at + 1
            else:
                if comma:
                    raise ConnectorError(f"{label}:{line}: broken JSON: a comma is missing before {_short(text[at:])}")
                try:
                    row, end = decode(text, at)
                except json.JSONDecodeError as error:
                    if error.pos < len(text) - 12 and not error.msg.startswith("Unterminated string"):
                        raise _broken(label, line + text.count("\n", at, error.pos), error) from None
                    if len(text) - at > LONGEST:
                        raise ConnectorError(
                            f"{label}:{line}: one record longer than {LONGEST // 2**20} MB; is this a score export?"
                        ) from None
                    break
                except (ValueError, RecursionError):
                    raise ConnectorError(
                        f"{label}:{line}: broken JSON: no score record has such a number or depth"
                    ) from None
                if end == len(text) and not isinstance(row, dict | list):
                    break  # a number may go on in what is not read yet
                yield f"{label}:{line}", row
                line += text.count("\n", at, end)
                at, comma = end, True
    if not closed:
        raise ConnectorError(f"{label}:{line}: broken JSON: the list does not end; export the file again")


def _chunks(stream: IO[bytes], label: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    while True:
        chunk = stream.read(2**20)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line += chunk.count(b"\n", 0, error.start)
            raise _not_utf8(label, line, error) from None
        yield text
        if not chunk:
            return
        line += text.count("\n")


def _not_utf8(label: str, line: int, error: UnicodeDecodeError) -> ConnectorError:
    byte = error.object[error.start]
    return ConnectorError(f"{label}:{line}: not UTF-8 (byte {byte:#04x}: {error.reason}); save the file as UTF-8")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _broken(label: str, number: int, error: ValueError) -> ConnectorError:
    why = f"{error.msg} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
    return ConnectorError(f"{label}:{number}: broken JSON: {why}")


def _table(stream: IO[bytes], label: str) -> Iterator[tuple[str, Any]]:
    """Rows of a CSV file with a header."""
    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)  # the module has one limit for the whole process; a comment can be longer than it
    numbered = _lines(stream, label)
    lines = csv.reader((text for _, text in numbered), strict=True)
    try:
        header = next((row for row in lines if row), None)
        if header is None:
            raise ConnectorError(f"{label} is empty; export the scores again, or name another file")
        columns = [_COLUMNS.get(re.sub("[^a-z0-9]", "", name.lower())) for name in header]
        for i, name in enumerate(header):
            first = columns.index(columns[i]) if columns[i] else header.index(name)
            if first < i:
                raise ConnectorError(
                    f"{label}:1: the columns {header[first]!r} and {name!r} have one name; remove one of them"
                )
        if "name" not in columns or not {"value", "stringValue"} & set(columns):
            raise ConnectorError(
                f"{label}:1: no score export: needs the columns name and value, has {_short(', '.join(header))}"
            )
        while True:
            number = lines.line_num + 1
            row = next(lines, None)
            if row is None:
                return
            if not row:
                continue
            where = f"{label}:{number}"
            if len(row) != len(columns):
                yield where, _Broken(f"{len(row)} cells under {len(columns)} columns")
                continue
            yield where, {c: cell or None for c, cell in zip(columns, row, strict=True) if c}
    except csv.Error as error:
        raise ConnectorError(f"{label}:{lines.line_num}: broken CSV: {error}") from None


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A record under the API's names; the blob storage export writes them in snake case."""
    if "trace_id" not in row and "data_type" not in row:
        return row
    return {_COLUMNS.get(re.sub("[^a-z0-9]", "", key.lower()), key): value for key, value in row.items()}


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
