"""JSONL: one JSON object a line, each with its own types."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl

from calibrate_files.table import BROKEN, IDENTITIES, Naming, Table, assembled, joined
from calibrate_files.text import read_text
from calibrate_plugin.connector import ConnectorError

ROWS = 20_000  # turned into columns at once

_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_lone = re.compile("[\ud800-\udfff]")


class _Unfit(Exception):
    """A value that this column cannot hold."""


def read_json_lines(path: Path, naming: Naming) -> Table:
    """The rows of a JSONL file. A line that is no JSON object is broken, and so is one whose item, rater ... is a list, an
    object or not Unicode. In other text half a surrogate pair becomes U+FFFD."""
    name = path.name
    data = read_text(path)
    if data.lstrip()[:1] == b"[":
        raise ConnectorError(f"{name}:1: the file holds one JSON array; write one object a line, e.g. jq -c '.[]'")
    columns: dict[str, str | None] = {}
    pieces: list[pl.DataFrame] = []
    lines: list[int] = []
    objects: list[dict[str, Any]] = []
    broken: dict[int, str] = {}
    for number, line in enumerate(io.BytesIO(data), 1):
        if line.isspace():
            continue
        lines.append(number)
        try:
            found = _object(line.decode())
        except _Unfit as error:
            cut = "" if line.endswith(b"\n") else "; the last line does not end, so the file may be cut off"
            broken[len(objects)] = f"the line {error}{cut}"
            found = {}
        if not columns.keys() >= found.keys():
            columns |= dict.fromkeys(found)
            assigned = naming.assign([_whole(key) for key in columns], f"{name}:{number}")
            columns = dict(zip(columns, assigned, strict=True))
        objects.append(found)
        if len(objects) == ROWS:
            pieces.append(_piece(objects, columns, broken))
            objects, broken = [], {}
    if objects:
        pieces.append(_piece(objects, columns, broken))
    del data
    if columns:
        naming.demand(list(columns), list(columns.values()), name)
    unbroken = lines[-1] == len(lines)
    return assembled(name, joined(pieces), 1, None if unbroken else pl.Series("line", lines, dtype=pl.Int64))


def _object(line: str) -> dict[str, Any]:
    try:
        found = _decode(line)
    except json.JSONDecodeError as error:
        raise _Unfit(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:
        raise _Unfit(f"is not JSON that can be read: {error}") from None
    if not isinstance(found, dict) or not found:
        raise _Unfit(
            f"is {'an empty object' if found == {} else 'a JSON ' + _name(found)}; it must be an object with keys"
        )
    return found


def _piece(objects: list[dict[str, Any]], columns: dict[str, str | None], broken: dict[int, str]) -> pl.DataFrame:
    made: list[pl.Series] = []
    for key, column in columns.items():
        if column is None:
            continue
        values = [o.get(key) for o in objects]
        if column == "value":
            series = pl.Series(column, _column(values, column, key, broken), dtype=pl.String)
        else:
            try:
                series = pl.Series(column, values, dtype=pl.String)
            except (TypeError, UnicodeEncodeError):
                series = pl.Series(column, _column(values, column, key, broken), dtype=pl.String)
        made.append(series)
    if broken:
        made.append(pl.Series(BROKEN, [broken.get(i) for i in range(len(objects))], dtype=pl.String))
    return pl.DataFrame(made)


def _column(values: list[Any], column: str, key: str, broken: dict[int, str]) -> list[str | None]:
    made: list[str | None] = []
    convert = _json if column == "value" else _identity if column in IDENTITIES else _free
    for place, value in enumerate(values):
        try:
            made.append(convert(value))
        except _Unfit as error:
            broken.setdefault(place, f"{_whole(key)} {error}")
            made.append(None)
    return made


def _json(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    try:
        return _whole(_encode(value))
    except ValueError:
        raise _Unfit("holds NaN or infinity inside a list or object, which JSON has no word for") from None


def _identity(value: Any) -> str | None:
    if isinstance(value, (list, dict)):
        raise _Unfit(f"is a JSON {_name(value)}; it must be text or a number")
    text = _plain(value)
    if text is not None and _lone.search(text):
        raise _Unfit("holds half of a surrogate pair, which is no character")
    return text


def _free(value: Any) -> str | None:
    if isinstance(value, (list, dict)):
        return _whole(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    text = _plain(value)
    return None if text is None else _whole(text)


def _plain(value: Any) -> str | None:
    """A scalar as the text it has in a CSV; 7.0 is 7, since tools write whole numbers so beside a gap."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value)


def _whole(text: str) -> str:
    """Text without lone surrogates, which cannot be written as UTF-8."""
    return _lone.sub("\ufffd", text)


def _name(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}
    return kinds.get(type(value), "number")
