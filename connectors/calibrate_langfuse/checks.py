"""A look at a Langfuse before anything is pulled: what it is, what it can do, and what to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from calibrate_langfuse.records import Reader, Row, labels_of
from calibrate_plugin.connector import ConnectorError, Finding

if TYPE_CHECKING:
    from calibrate_langfuse.live import LiveScores

#: A clock that is this many seconds off makes times of answers doubtful.
SKEW = 60
#: Scores looked at.
SAMPLE = 300

_READS = {
    "v2": "v2, by pages: this server has no v3 (it comes with Langfuse 3.179)",
    "v1": "v1, by pages: it shows no scores of sessions or runs, and none whose trace is not stored",
}


def check(source: LiveScores) -> Iterator[Finding]:
    """Findings in the order in which one would look."""
    server = source.server
    where = f"sources.{source.settings.name}"
    try:
        who = source.identity()
    except ConnectorError as error:
        yield Finding("problem", where, str(error), "see the message; nothing else can be looked at before")
        return
    project = source.project
    yield Finding("ok", where, f"{who} ({project.name})" if project and project.name else who)
    try:
        can = source.abilities
    except ConnectorError as error:
        yield Finding("problem", where, str(error), "give a project key (public and secret) that may read scores")
        return
    version = can.version or "of unknown version"
    if can.mode == "v3":
        yield Finding("ok", where, f"Langfuse {version}; scores are read by v3")
    else:
        yield Finding("warning", where, f"Langfuse {version}; scores are read by {_READS[can.mode]}", "update Langfuse")
    if source.settings.push is not None:
        form = "lists of POST /scores" if can.list_post else "score events of /ingestion"
        yield Finding("ok", where, f"results are written as {form}")
    skew = server.skew.total_seconds() if server.skew is not None else 0.0
    if abs(skew) > SKEW:
        yield Finding(
            "warning",
            where,
            f"the server's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "set both by a time server (NTP)",
        )
    if server.pace.limit is not None:
        yield Finding(
            "warning",
            where,
            f"{server.pace.limit} calls a minute are allowed, for the whole organisation",
            "sync less often",
        )
    elif "langfuse.com" in server.url:
        yield Finding(
            "ok",
            where,
            "Langfuse Cloud limits calls by plan, for the whole organisation; a sync slows down when it is told to",
        )
    if project is not None and project.retention is not None:
        yield Finding(
            "warning",
            where,
            f"the project drops its data after {project.retention} days",
            "labels already stored here stay and count; sync more often than that",
        )
    yield from _names(source, where)
    yield from _levels(source, where)


def _names(source: LiveScores, where: str) -> Iterator[Finding]:
    names = source.rules.names
    if names is None or source.rules.version_suffix:
        return
    absent = [
        name for name in sorted(names)[:50] if "," not in name and not source.reads.first_page(None, name, limit=1)
    ]
    if not absent:
        return
    newest = source.plain_reads.first_page(None, None)
    there = ", ".join(n for n, _ in Counter(str(row.get("name")) for row in newest).most_common(10))
    environments = source.rules.environments
    also = f" in the environments {', '.join(sorted(environments))}" if environments else ""
    yield Finding(
        "problem" if len(absent) == len(names) else "warning",
        where,
        f"no score named {', '.join(absent)}{also}",
        f"the newest scores are named {there}" if there else "the project has no scores yet",
    )


def _levels(source: LiveScores, where: str) -> Iterator[Finding]:
    """Whether what is scored is what the study calls an item, who scored, and in which version."""
    reader = Reader(source.rules)
    for row in _sample(source):
        reader.add(row)
    table, rest = reader.take()
    labels = labels_of(table)
    causes = dict(rest.aside.group_by("cause").len().iter_rows())
    if other := causes.get("other_level"):
        levels = Counter(m.split(" scores a ")[1].split(" ")[0] for m in rest.aside["message"] if " scores a " in m)
        most = levels.most_common(1)[0][0]
        lift = (
            "lift = true counts them for their traces; or "
            if (source.rules.level, most) == ("trace", "observation")
            else ""
        )
        yield Finding(
            "warning" if len(labels) else "problem",
            where,
            f"{other} of the newest {len(reader.seen)} scores are not on a {source.rules.level} ({_counted(levels)})",
            f'{lift}item = "{most}" compares those',
        )
    if prefilled := causes.get("prefilled"):
        yield Finding(
            "ok",
            where,
            f"{prefilled} of the newest scores are annotations without an author: pre-filled, not by a person",
        )
    judged = labels.filter(labels["kind"] == "evaluator")
    blank = judged.filter(judged["version"] == "")["rater"].unique().sort().to_list()
    if blank:
        yield Finding(
            "warning",
            where,
            f"the version of {', '.join(blank[:10])} is not known",
            "say where it stands: version_key (a metadata key), version_suffix = true (name@version) or version_comment",
        )


def _sample(source: LiveScores) -> list[Row]:
    rows: list[Row] = []
    for name in islice(source.reads.by_name, 10):
        rows += source.reads.first_page(None, name)
    return rows[:SAMPLE]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{n} on a{'n' if kind[0] in 'aeiou' else ''} {kind}" for kind, n in counts.most_common())
