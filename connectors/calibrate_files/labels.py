"""The rows of a file as labels, item facts, and what could not be read as a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import polars as pl

from calibrate_files.table import BROKEN, FACT, IDENTITIES, NOT_FINITE, Table
from calibrate_files.times import in_utc
from calibrate_plugin.connector import ConnectorError, Page, SettingsError
from calibrate_plugin.model import ASIDE, ITEMS, KINDS, LABELS, frame

#: Words for a rater's kind, beside the kinds themselves.
KIND_WORDS = {
    "human": "annotator",
    "person": "annotator",
    "judge": "evaluator",
    "llm": "evaluator",
    "model": "evaluator",
}
BLIND_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
#: Columns where blank and missing are one thing, since a CSV cannot tell them apart.
BLANK_IS_NULL = ("field", "rater", "version", "job", "run", "reason", "sample", "order", "execution", "link", "record")
#: What keeps a label's record its own when rows are added or removed around it.
KEY = ("item", "field", "rater", "version", "job", "run", "sample", "order", "execution")
INFORMING = ("reason", "link")
NUL = "\0"
ROW = "row"  # number of a row of the file, from 0
SAID = "said"  # the kind in the file's own words

Check = tuple[str, pl.Expr, pl.Expr]  # cause, whether it holds, message


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a file is asked for: these ``fields`` (None: all), answered at or after ``since`` (midnight UTC); times
    without zone are read in ``timezone``. With ``keyed`` each label gets a record by which a later version of the file
    knows it again."""

    fields: frozenset[str] | None = None
    since: date | None = None
    timezone: str | None = None
    keyed: bool = False


def page(table: Table, facts: Table | None, wanted: Wanted) -> Page:
    """The page of a file, with the item facts of ``facts`` beside its own. SettingsError and ConnectorError where the
    file as a whole cannot be meant so: no wanted dimension, no readable row, times without zone, dated only in part."""
    rows = _in_our_words(_chosen(table, wanted))
    rows, aside = _parted(rows, table, _checks(rows))
    rows, untimed = _timed(rows, table, wanted)
    rows, doubtful = _confident(rows, table)
    items, varying = _items(rows, table, facts)
    return Page(_labels(rows, wanted), items, pl.concat([aside, untimed, doubtful, varying]))


def _chosen(table: Table, wanted: Wanted) -> pl.DataFrame:
    """The rows of the wanted fields, numbered; also those without a field, since nobody knows what they were."""
    rows = table.frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW))
    if wanted.fields is None:
        return rows
    asked = pl.col("field").is_in(list(wanted.fields))
    if not rows.select(asked.any()).item():
        found = rows["field"].drop_nulls().unique(maintain_order=True).head(20)
        raise SettingsError(
            f"{table.name}: no row has a dimension that the study asks for ({', '.join(sorted(wanted.fields))}); "
            f"the file has {', '.join(repr(f) for f in found) or 'none'}"
        )
    return rows.filter(asked | pl.col("field").is_null() | (pl.col("field") == ""))


def _in_our_words(rows: pl.DataFrame) -> pl.DataFrame:
    """Blank is null where it means the same, kinds are ours, and NUL, the one character that databases refuse, is
    replaced in what only informs."""
    blank = [c for c in BLANK_IS_NULL if c in rows.columns]
    informing = [c for c in blank if c in INFORMING]
    found = rows.select(
        *((pl.col(c) == "").any().alias(f"blank {c}") for c in blank),
        *(pl.col(c).str.contains(NUL, literal=True).any().alias(f"nul {c}") for c in informing),
        (pl.col("value") == '""').any().alias("no answer"),
    ).row(0, named=True)
    changed = [pl.col(c).replace("", None) for c in blank if found[f"blank {c}"] and not found.get(f"nul {c}")]
    changed += [_without_nul(pl.col(c)).replace("", None) for c in informing if found[f"nul {c}"]]
    if found["no answer"]:
        changed.append(pl.col("value").replace('""', None))
    kinds = {word: _kind(word) for word in rows["kind"].unique().drop_nulls()}
    if any(word != kind for word, kind in kinds.items()):
        ours = pl.Series(list(kinds.values()), dtype=pl.String)
        changed.append(pl.col("kind").replace_strict(list(kinds), ours, default=None, return_dtype=pl.String))
    return rows.with_columns(pl.col("kind").alias(SAID)).with_columns(changed)


def _without_nul(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(NUL, "\ufffd", literal=True)


def _kind(word: str) -> str | None:
    plain = word.strip().casefold()
    return plain if plain in KINDS else KIND_WORDS.get(plain)


def _checks(rows: pl.DataFrame) -> list[Check]:
    """What makes a row no label, the first that holds. Each test is True, False or null (does not hold)."""
    checks = [
        *_structure(rows),
        ("no_dimension", pl.col("field").is_null(), pl.lit("the dimension is missing")),
        ("no_rater", pl.col("rater").is_null(), pl.lit("the rater is missing; answers of nobody cannot be compared")),
        (
            "unknown_kind",
            pl.col("kind").is_null(),
            pl.format(
                "the kind is {}; it may be annotator (human, person), evaluator (judge, llm, model) or gold",
                pl.col(SAID).replace("", None).fill_null("missing"),
            ),
        ),
        (
            "unreadable",
            pl.col("value").is_in(NOT_FINITE) & (pl.col("kind") != "evaluator"),
            pl.format("the value is {}, which is no answer", "value"),
        ),
    ]
    if "blind" in rows.columns and rows["blind"].dtype == pl.String:
        known = _word("blind").is_in(["", *BLIND_WORDS])
        checks.append(("unreadable", ~known, pl.format("blind is {}; it may be true, false or empty", "blind")))
    return checks


def _structure(rows: pl.DataFrame) -> list[Check]:
    """What is wrong with a row of labels or of facts alike."""
    checks: list[Check] = []
    if BROKEN in rows.columns:
        checks.append(("unreadable", pl.col(BROKEN).is_not_null(), pl.col(BROKEN)))
    for column in (c for c in IDENTITIES if c in rows.columns and c != "kind"):
        name = {"field": "dimension", "record": "id"}.get(column, column)
        nul = pl.col(column).str.contains(NUL, literal=True)
        checks.append(("unreadable", nul, pl.lit(f"the {name} holds the character NUL")))
    return [
        *checks,
        ("no_item", pl.col("item").is_null(), pl.lit("the item is missing, so nobody knows what was judged")),
    ]


def _word(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars().str.to_lowercase()


def _parted(rows: pl.DataFrame, table: Table, checks: Sequence[Check]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows for which no check holds, and the others as rows of ASIDE. ConnectorError if no row is left."""
    hits = rows.select(test.any().alias(str(i)) for i, (_, test, _) in enumerate(checks)).row(0)
    failing = [check for check, hit in zip(checks, hits, strict=True) if hit]
    if not failing:
        return rows, frame(ASIDE)
    wrong = pl.any_horizontal(test.fill_null(False) for _, test, _ in failing)
    aside = rows.filter(wrong).select(
        pl.concat_str(pl.lit(f"{table.name}:"), table.line(pl.col(ROW))).alias("record"),
        "item",
        "field",
        "rater",
        "value",
        pl.coalesce(pl.when(test).then(pl.lit(cause)) for cause, test, _ in failing).alias("cause"),
        pl.coalesce(pl.when(test).then(message) for _, test, message in failing).alias("message"),
    )
    if aside.height == rows.height:
        first = aside.row(0, named=True)
        raise ConnectorError(f"{first['record']}: {first['message']}; no other row can be read either")
    return rows.filter(~wrong), frame(ASIDE, aside)


def _timed(rows: pl.DataFrame, table: Table, wanted: Wanted) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows with ``at`` in UTC, those with a time that is none set aside, and those before ``since`` left out."""
    given = rows["at"] if "at" in rows.columns else pl.Series("at", [None], dtype=pl.String)
    if given.dtype == pl.String:
        given = given.replace("", None)
    if given.null_count() == len(given):
        if wanted.since is not None:
            raise SettingsError(
                f"{table.name}: the study asks for labels since {wanted.since}, and no row has a time (at)"
            )
        return rows.drop("at", strict=False), frame(ASIDE)
    at, zoneless = in_utc(given, wanted.timezone)
    if wanted.timezone is None and zoneless.any():
        row = rows.filter(zoneless).row(0, named=True)
        raise SettingsError(
            f"{_where(table, row)}: the time {str(row['at'])!r} has no zone; write it like 2026-10-01T09:30:00+02:00, "
            f'or say where its clock stood: timezone = "Europe/Berlin"'
        )
    if given.null_count():
        row = rows.filter(given.is_null()).row(0, named=True)
        raise ConnectorError(
            f"{_where(table, row)}: this row has no time (at) and others have one, so the latest answer cannot be told; "
            "date every row, or none"
        )
    skipped = f", or one that the clocks of {wanted.timezone} passed over" if wanted.timezone else ""
    message = pl.format(
        "the time is {}, which is none in ISO 8601, e.g. 2026-10-01T09:30:00Z{}", "said at", pl.lit(skipped)
    )
    rows = rows.with_columns(pl.lit(given).cast(pl.String).alias("said at"), pl.lit(at).alias("at"))
    rows, aside = _parted(rows, table, [("unreadable", pl.col("at").is_null(), message)])
    if wanted.since is not None:
        rows = rows.filter(
            pl.col("at") >= datetime(wanted.since.year, wanted.since.month, wanted.since.day, tzinfo=UTC)
        )
    return rows, aside


def _where(table: Table, row: dict[str, object]) -> str:
    return f"{table.name}:{table.line_of(int(str(row[ROW])))}"


def _confident(rows: pl.DataFrame, table: Table) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows with their confidence as a number from 0 to 1. What is not is left out and told once; the label stays."""
    if "confidence" not in rows.columns:
        return rows, frame(ASIDE)
    said = rows["confidence"]
    if said.dtype == pl.String:
        said = said.str.strip_chars().replace("", None)
    number = said.cast(pl.Float64, strict=False)
    fits = number.is_between(0, 1).fill_null(False)
    wrong = rows.filter(said.is_not_null() & ~fits)
    rows = rows.with_columns(pl.lit(number.set(~fits, None)).alias("confidence"))
    if not wrong.height:
        return rows, frame(ASIDE)
    first = wrong.row(0, named=True)
    note = {
        "record": _where(table, first),
        "value": str(first["confidence"]),
        "cause": "confidence_out_of_range",
        "message": f"{wrong.height} labels have a confidence that is not a number from 0 to 1, first here; they count, "
        "without a confidence",
    }
    return rows, frame(ASIDE, {k: [v] for k, v in note.items()})


def _labels(rows: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Columns of LABELS. What is the same in each row is one literal, which costs no memory."""
    made: dict[str, pl.Expr] = {}
    not_finite = pl.col("value").is_in(NOT_FINITE)
    failed = rows.select(not_finite.any()).item()
    if failed or rows["value"].null_count():
        nothing = pl.when(pl.col("kind") == "evaluator").then(pl.lit("failed")).otherwise(pl.lit("cleared"))
        made["state"] = pl.when(pl.col("value").is_null() | not_finite).then(nothing).otherwise(pl.lit("answered"))
        made["value"] = pl.when(not_finite).then(pl.format('"{}"', "value")).otherwise(pl.col("value"))
    else:
        made["state"] = pl.lit("answered")
    made["seq"] = pl.col(ROW) + 1
    if wanted.keyed:
        # counted within the item, so that a row added elsewhere in the file changes no other label; two items of one
        # hash share their count, which keeps the order of each
        made["seq"] = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(pl.col("item").hash())
    if "sample" in rows.columns and rows["sample"].n_unique() - bool(rows["sample"].null_count()) <= 1:
        made["sample"] = pl.lit(None, dtype=pl.String)  # one number everywhere marks no repeats
    if "blind" in rows.columns and rows["blind"].dtype == pl.String:
        made["blind"] = _word("blind").replace_strict(BLIND_WORDS, default=None, return_dtype=pl.Boolean)
    kept = [c for c in LABELS if c in rows.columns and c not in made and (c != "record" or wanted.keyed)]
    if wanted.keyed:
        rows = rows.with_columns(_records(rows).alias("record"))
        kept = [*kept, *(["record"] if "record" not in kept else [])]
    return frame(LABELS, rows.select(*kept, **made))


def _records(rows: pl.DataFrame) -> pl.Series:
    """A record for each row, unique within its field: the file's id, else what identifies the label; with a number where
    it stands more than once, in the order of the file."""
    parts = [
        pl.concat_str(pl.lit("" if c == "item" else "|" if c in ("field", "rater") else f"|{c}="), pl.col(c))
        for c in KEY
        if c in rows.columns
    ]
    key = pl.concat_str(*parts, ignore_nulls=True)
    if "record" in rows.columns:
        key = pl.coalesce("record", key)
    keyed = rows.select("field", key.alias("record"))
    records = keyed["record"]
    while (alike := keyed.select(pl.struct("field", "record").hash().is_duplicated()).to_series()).any():
        # a hash decides quickly who is surely alone
        repeated = keyed.filter(alike).with_columns(nth=pl.int_range(1, pl.len() + 1).over("field", "record"))
        if repeated["nth"].max() == 1:
            break
        again = pl.when(pl.col("nth") > 1).then(pl.format("{} ({})", "record", "nth")).otherwise("record")
        records = records.scatter(alike.arg_true(), repeated.select(again).to_series())
        keyed = keyed.with_columns(records)
    return records


def _items(rows: pl.DataFrame, table: Table, facts: Table | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One row per item and fact, with its first value; what is no fact of an item, or has several values, is told."""
    held = {fact: [rows.select("item", pl.col(FACT + fact).alias("value"))] for fact in table.facts}
    notes = [frame(ASIDE)]
    if facts is not None:
        known = facts.frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)).with_columns(
            pl.lit(None, dtype=pl.String).alias(c) for c in ("field", "rater", "value")
        )
        known, aside = _parted(known, facts, _structure(known))
        notes.append(aside)
        for fact in facts.facts:
            held.setdefault(fact, []).append(known.select("item", pl.col(FACT + fact).alias("value")))
    found = [frame(ITEMS)]
    firsts: pl.Series | None = None
    for fact, sayings in held.items():
        said = pl.concat(sayings).filter(pl.col("value") != "")
        if said.height == rows.height and len(sayings) == 1:
            firsts = _first_rows(said) if firsts is None else firsts
            first = firsts
        else:
            first = _first_rows(said)
        one = said.filter(first == pl.int_range(said.height, eager=True))
        found.append(one.select("item", pl.lit(fact).alias("fact"), _without_nul(pl.col("value"))))
        other = said.filter(said["value"] != said["value"].gather(first))
        if other.height:
            note = {
                "record": table.name,
                "value": fact,
                "cause": "fact_varies",
                "message": f"{other['item'].n_unique()} items have more than one {fact!r}; each keeps its first, as a fact "
                "is the same in all rows of an item",
            }
            notes.append(frame(ASIDE, {k: [v] for k, v in note.items()}))
    return pl.concat(found), pl.concat(notes)


def _first_rows(said: pl.DataFrame) -> pl.Series:
    """For each row the number of the first row of its item."""
    return said.with_columns(n=pl.int_range(pl.len())).select(pl.col("n").first().over("item")).to_series()
