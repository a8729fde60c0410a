"""Parquet: typed columns, turned into text column by column."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from calibrate_files.delimited import quoted
from calibrate_files.table import IDENTITIES, Naming, Table, assembled
from calibrate_plugin.connector import ConnectorError, SettingsError

MAGIC = b"PAR1"


def read_parquet(path: Path, naming: Naming) -> Table:
    """The rows of a Parquet file. Numbers and booleans keep their JSON form in the column value."""
    name = path.name
    with path.open("rb") as file:
        start = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(size - 4, 0))
        end = file.read(4)
    if size == 0:
        raise ConnectorError(f"{name}: the file is empty")
    if start != MAGIC:
        looks = "gzip; Parquet is compressed inside, unpack it" if start[:2] == b"\x1f\x8b" else repr(start)
        raise ConnectorError(f"{name}: this is not a Parquet file; it begins with {looks}")
    if end != MAGIC:
        raise ConnectorError(f"{name}: the Parquet file is cut off: its end is missing")
    try:
        scan = pl.scan_parquet(path, glob=False)
        schema = scan.collect_schema()
        assigned = naming.assign(schema.names(), name)
        naming.demand(schema.names(), assigned, name)
        columns = (
            scan.select(_text(header, dtype, column, name).alias(column)).collect().to_series()
            for (header, dtype), column in zip(schema.items(), assigned, strict=True)
            if column is not None
        )
        return assembled(name, columns, 1)
    except pl.exceptions.PolarsError as error:
        raise ConnectorError(f"{name}: the Parquet file cannot be read: {error}") from None
    except pl.exceptions.PanicException as error:
        raise ConnectorError(f"{name}: the Parquet file is damaged: {error}") from None


def _text(header: str, dtype: pl.DataType, column: str, name: str) -> pl.Expr:
    values = pl.col(header)
    if dtype == pl.Null:
        return values.cast(pl.String)
    if column == "value":
        return _json(values, dtype)
    if column == "at":
        if isinstance(dtype, (pl.Datetime, pl.Date)) or dtype == pl.String:
            return values
        raise SettingsError(
            f"{name}: the column {header!r} holds {dtype}; a time is a Parquet timestamp or text in ISO 8601"
        )
    if column == "confidence" and dtype.is_numeric():
        return values.cast(pl.Float64)
    if column == "blind" and dtype == pl.Boolean:
        return values
    if dtype.is_nested():
        if column in IDENTITIES:
            raise SettingsError(f"{name}: the column {header!r} holds {dtype}; it must hold text or numbers")
        return _json(values, dtype)
    if dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        return (
            pl.when(~values.is_finite())
            .then(None)
            .when((whole == values) & (values.abs() < 2**53))
            .then(whole.cast(pl.String))
            .otherwise(values.cast(pl.String))
        )
    if dtype == pl.Object:
        raise SettingsError(f"{name}: the column {header!r} holds {dtype}, which is no text")
    return values.cast(pl.String)


def _json(values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_numeric() or dtype == pl.Boolean:
        return values.cast(pl.String)
    if dtype.is_nested():
        return quoted(values)
    return quoted(values.cast(pl.String))
