"""Times as people and platforms write them, in UTC. A time without a zone is never guessed."""

from __future__ import annotations

import polars as pl

from calibrate_plugin.connector import SettingsError
from calibrate_plugin.model import UTC

ISO = (
    r"^(?<date>\d{4}-\d\d-\d\d|\d{8})(?:[Tt ](?<hour>\d\d):?(?<minute>\d\d)"
    r"(?::?(?<second>\d\d)(?:[.,](?<part>\d{1,9}))?)?)? ?(?<zone>[Zz]|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)?$"
)


def in_utc(times: pl.Series, timezone: str | None) -> tuple[pl.Series, pl.Series]:
    """``times`` (text in ISO 8601, dates or timestamps) as UTC microseconds, and which of them have no zone.

    What has no zone is read in ``timezone``; without one it is null. So is what is no time at all, what the clocks
    of that zone skipped, and what lies outside the years 1 to 9999. Of an hour that a zone has twice it is the first.
    """
    if times.dtype == pl.Date:
        times = times.cast(pl.Datetime("us"))
    if isinstance(times.dtype, pl.Datetime):
        if times.dtype.time_zone is not None:
            return _sane(times.dt.cast_time_unit("us").dt.convert_time_zone("UTC")), times.is_null() & False
        return _sane(_local(times.dt.cast_time_unit("us"), timezone)), times.is_not_null()
    text = times.str.strip_chars()
    read = text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    zoneless = text.is_not_null() & False
    if (left := text.is_not_null() & read.is_null()).any():
        parts = pl.select(text.filter(left).alias("t")).select(pl.col("t").str.extract_groups(ISO)).to_series().struct
        clock = pl.select(
            pl.format(
                "{}T{}:{}:{}.{}",
                pl.lit(parts.field("date").str.replace_all("-", "")),
                pl.lit(parts.field("hour").fill_null("00")),
                pl.lit(parts.field("minute").fill_null("00")),
                pl.lit(parts.field("second").fill_null("00")),
                pl.lit(parts.field("part").fill_null("0")),
            )
        ).to_series()
        naive = clock.str.to_datetime("%Y%m%dT%H:%M:%S%.f", time_unit="us", strict=False)
        zone = parts.field("zone")
        utc = pl.select(
            pl.when(pl.lit(zone).is_null())
            .then(pl.lit(_local(naive, timezone)))
            .otherwise(pl.lit((naive - _offset(zone)).dt.replace_time_zone("UTC")))
        ).to_series()
        rest = left.arg_true()
        read = read.scatter(rest, utc)
        zoneless = zoneless.scatter(rest.filter(naive.is_not_null() & zone.is_null()), True)
    return _sane(read), zoneless


def _offset(zone: pl.Series) -> pl.Series:
    digits = zone.str.replace_all(r"\D", "")
    hours = digits.str.slice(0, 2).cast(pl.Int64, strict=False).fill_null(0)
    minutes = digits.str.slice(2, 2).cast(pl.Int64, strict=False).fill_null(0)
    sign = zone.str.starts_with("-").fill_null(False).cast(pl.Int64) * -2 + 1
    return pl.select(pl.duration(minutes=pl.lit(sign * (hours * 60 + minutes)))).to_series()


def _local(naive: pl.Series, timezone: str | None) -> pl.Series:
    if timezone is None:
        return pl.Series([None], dtype=UTC).new_from_index(0, len(naive))
    placed = naive.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
    return placed.dt.convert_time_zone("UTC")


def _sane(times: pl.Series) -> pl.Series:
    """Python, and with it every reader of a database, knows the years 1 to 9999 only."""
    within = times.dt.year().is_between(1, 9999)
    return times if within.all() else times.set(~within, None)


def checked(timezone: str | None, where: str) -> str | None:
    """``timezone`` if there is such a zone, else SettingsError."""
    if timezone is not None:
        try:
            pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(timezone)
        except (pl.exceptions.PolarsError, TypeError):
            raise SettingsError(f"{where} is {timezone!r}; give a zone's name, e.g. Europe/Berlin or UTC") from None
    return timezone
