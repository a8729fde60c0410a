"""A file as a source of labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from calibrate_files.delimited import read_delimited
from calibrate_files.jsonlines import read_json_lines
from calibrate_files.labels import Wanted, page
from calibrate_files.parquet import read_parquet
from calibrate_files.table import COLUMNS, FACT, Naming, Table
from calibrate_files.times import checked
from calibrate_plugin.connector import (
    ConnectorError,
    Content,
    Covered,
    Page,
    Scope,
    SettingsError,
    Since,
    SourceSettings,
)

READERS: dict[str, Callable[[Path, Naming], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".txt": read_delimited,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
    ".pq": read_parquet,
}
OPTIONS = ("columns", "facts", "timezone")
#: Columns that show people what an item is.
SHOWN = ("input", "output", "context")


def open_source(settings: SourceSettings) -> FilesSource:
    """The file that ``settings`` name. Options: ``columns`` (our column -> the file's), ``facts`` (a second file with an
    item column and facts), ``timezone`` (where the clock of times without zone stood). SettingsError where one is wrong."""
    return FilesSource(settings)


class FilesSource:
    """Labels of one file. Its scope is the file, or the wanted dimensions of it."""

    def __init__(self, settings: SourceSettings) -> None:
        where = f"sources.{settings.name}"
        if settings.file is None:
            raise SettingsError(f'{where}.file is missing; name a file, e.g. file = "labels.csv"')
        for option in settings.options:
            if option not in OPTIONS:
                raise SettingsError(
                    f"{where}.{option} is no setting of the files connector; it has {', '.join(OPTIONS)}"
                )
        self._file = settings.file
        self._facts = _facts_file(settings, where)
        self._renamed = _renamed(settings.options.get("columns", {}), f"{where}.columns")
        self._timezone = checked(settings.options.get("timezone"), f"{where}.timezone")
        self._fields = settings.fields
        self._since: date | None = settings.since

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        """One page with all of the file, then that it is covered. Nothing at all where ``since`` knows the file as it is
        and does not ask for everything again."""
        files = [f for f in (self._file, self._facts) if f is not None]
        readers = [_reader(f) for f in files]
        try:
            cursor = None
            if since is not None:
                cursor = self._fingerprint(files)
                if cursor == since.cursor and not since.full:
                    return
            table = readers[0](self._file, Naming(self._renamed))
            facts = None
            if self._facts is not None:
                facts = readers[1](self._facts, Naming(self._renamed, only_items=True))
        except OSError as error:
            raise ConnectorError(f"{error.filename or self._file}: the file cannot be read: {error.strerror}") from None
        yield page(table, facts, Wanted(self._fields, self._since, self._timezone, keyed=since is not None))
        scope = Scope() if self._fields is None else Scope(fields=tuple(sorted(self._fields)))
        yield Covered(scope, cursor)

    def contents(self, items: Sequence[str]) -> Iterator[Content]:
        """What each item is, from the columns input, output and context beside the labels or in the file of facts."""
        found: dict[str, dict[str, Any]] = {}
        wanted = set(items)
        for file in (f for f in (self._facts, self._file) if f is not None):
            try:
                table = _reader(file)(file, Naming(self._renamed, only_items=file is self._facts))
            except OSError as error:
                raise ConnectorError(f"{error.filename or file}: the file cannot be read: {error.strerror}") from None
            there = [part for part in SHOWN if FACT + part in table.frame.columns]
            rows = table.frame.filter(pl.col("item").is_in(list(wanted))).select("item", *(FACT + p for p in there))
            for item, *values in rows.iter_rows():
                told = found.setdefault(item, {})
                for part, value in zip(there, values, strict=True):
                    if value is not None:
                        told.setdefault(part, _read(value))
        for item in items:
            shown = found.get(item)
            if not shown:
                columns = ", ".join(SHOWN)
                yield Content(item, problem=f"{self._file.name} has no column that shows it ({columns})")
            else:
                yield Content(item, shown.get("input"), shown.get("output"), shown.get("context"))

    def groups(self, items: Collection[str], by: str) -> Mapping[str, str]:
        raise SettingsError(f"a file knows no {by}s; name a column of it, which is a fact of the items")

    def _fingerprint(self, files: list[Path]) -> str:
        """Changes with the files' bytes and with what is made of them."""
        settings = [sorted(self._renamed.items()), self._timezone, str(self._since), sorted(self._fields or ())]
        digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
        for file in files:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
        return digest.hexdigest()


def _read(value: str) -> Any:
    """A cell that holds JSON (messages, parts) as what it means; any other text as it is."""
    if value[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _reader(file: Path) -> Callable[[Path, Naming], Table]:
    """How a file of this name is read. SettingsError if it is not there or its ending is none of ours."""
    if file.is_dir():
        raise SettingsError(f"{file} is a folder; name one file in it")
    if not file.exists():
        raise SettingsError(f"{file}: there is no such file")
    reader = READERS.get(Path(file.name.lower().removesuffix(".gz")).suffix)
    if reader is None:
        raise SettingsError(
            f"{file}: what kind of file is it? Known endings are {', '.join(READERS)}; .csv.gz and .jsonl.gz too"
        )
    return reader


def _facts_file(settings: SourceSettings, where: str) -> Path | None:
    name = settings.options.get("facts")
    if name is None:
        return None
    if not isinstance(name, (str, Path)) or not str(name):
        raise SettingsError(f"{where}.facts is {name!r}; name a file with a column item and columns of facts")
    return Path(name)


def _renamed(columns: Any, where: str) -> Mapping[str, str]:
    """The study's own names for our columns, under the name that we give each."""
    if not isinstance(columns, Mapping):
        raise SettingsError(f'{where} is {columns!r}; give our column and the file\'s, e.g. {{ item = "trace_id" }}')
    names = {spelling: name for name, _, aliases in COLUMNS for spelling in (name, *aliases)}
    renamed: dict[str, str] = {}
    for column, header in columns.items():
        name = names.get(str(column).strip().casefold())
        if name is None:
            raise SettingsError(
                f"{where}.{column} is no column of ours; they are {', '.join(n for n, _, _ in COLUMNS)}"
            )
        if not isinstance(header, str) or not header.strip():
            raise SettingsError(f"{where}.{column} is {header!r}; give the column's name in the file")
        renamed[name] = header
    return renamed
