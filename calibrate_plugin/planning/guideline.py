"""The guideline: a Markdown document that turns "is this good?" into a decision two people make the same way.

It has a version (a whole number) and a date, and under a heading of its own each dimension's or failure type's section. A
section says what a pass and what a fail is, shows examples, lists hard cases with their rulings, and what to do when unsure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from calibrate_plugin.model import Dimension, Ruling, number

#: Parts that every section has, beside one for each answer.
EXAMPLES, CASES, UNSURE = "Examples", "Hard cases", "When unsure"
#: With more answers than this a scale is described as a whole.
MOST_ANSWERS = 12
SCALE = "Scale"
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_STATED = re.compile(r"\s*(version|date)\s*:\s*(.*?)\s*$", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CASE = re.compile(r"^[-*] item `(?P<item>(?:[^`\\]|\\.)*)`", re.MULTILINE)


def shown(text: str) -> str:
    """A text as people who label see it: without its comments."""
    return _COMMENT.sub("", text).strip()


@dataclass(frozen=True, slots=True)
class Part:
    """What stands under one heading of a section, from ``line`` (of the heading, from 1) to ``end`` (its last line)."""

    heading: str
    line: int
    end: int
    text: str

    @property
    def filled(self) -> bool:
        """Whether anything is said: comments are there for the writer."""
        return bool(shown(self.text))


@dataclass(frozen=True, slots=True)
class Section:
    """One dimension or failure type. ``text`` is all of it, its heading left out."""

    heading: str
    line: int
    end: int
    text: str
    parts: tuple[Part, ...]

    def part(self, heading: str) -> Part | None:
        return next((p for p in self.parts if _same(p.heading, heading)), None)

    @property
    def cases(self) -> frozenset[str]:
        """The items that are listed among the hard cases."""
        part = self.part(CASES)
        found = _CASE.findall(_COMMENT.sub("", part.text)) if part else []
        return frozenset(re.sub(r"\\(.)", r"\1", item) for item in found)


@dataclass(frozen=True, slots=True)
class Guideline:
    """A guideline as read. ``version`` is "" and ``day`` None where they are not stated, or not as they should be;
    ``version_line`` and ``day_line`` are where."""

    text: str
    title: str
    version: str
    day: date | None
    version_line: int | None
    day_line: int | None
    sections: tuple[Section, ...]

    def section(self, heading: str) -> Section | None:
        return next((s for s in self.sections if _same(s.heading, heading)), None)

    def says(self, heading: str) -> str:
        """What a section says, whatever the spaces around its words; "" where there is none."""
        found = self.section(heading)
        return "" if found is None else "\n".join(" ".join(line.split()) for line in found.text.strip().splitlines())


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is missing or wrong, at a line (1: the top) and under a heading ("": the head of the document)."""

    line: int
    heading: str
    message: str


def parse(text: str) -> Guideline:
    """The guideline in a Markdown text. Headings in code are no headings.

    >>> found = parse("# G\\n\\nVersion: 2\\nDate: 2026-11-03\\n\\n## Safety\\n\\n### Pass\\nIt harms nobody.\\n")
    >>> found.version, found.day, found.sections[0].heading, found.sections[0].parts[0].filled
    ('2', datetime.date(2026, 11, 3), 'Safety', True)
    """
    lines = text.splitlines()
    heads = list(_headings(lines))
    ends = {at: len(lines) for at, _, _ in heads}
    for i, (at, level, _) in enumerate(heads):
        for below, deeper, _ in heads[i + 1 :]:
            if deeper <= level:
                ends[at] = below
                break
    first = min((at for at, level, _ in heads if level == 2), default=len(lines))
    stated: dict[str, tuple[str, int]] = {}
    for at, line in enumerate(lines[:first]):
        if match := _STATED.match(line.strip("*_ ")):
            stated.setdefault(match[1].lower(), (match[2].strip("*_ "), at + 1))
    version, version_line = stated.get("version", ("", None))
    told, day_line = stated.get("date", ("", None))
    sections = []
    for at, level, heading in heads:
        if level != 2:
            continue
        inner = [(a, h) for a, deeper, h in heads if at < a < ends[at] and deeper == 3]
        parts = tuple(Part(h, a + 1, ends[a], "\n".join(lines[a + 1 : ends[a]])) for a, h in inner)
        sections.append(Section(heading, at + 1, ends[at], "\n".join(lines[at + 1 : ends[at]]), parts))
    return Guideline(
        text,
        next((h for _, level, h in heads if level == 1), ""),
        version if version.isdecimal() and version.isascii() else "",
        _day(told),
        version_line,
        day_line,
        tuple(sections),
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Place, level and text of each heading outside of code and comments."""
    fence, comment = "", False
    for at, line in enumerate(lines):
        if comment:
            comment = "-->" not in line
            continue
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif match[1][0] == fence[0] and len(match[1]) >= len(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if fence:
            continue
        if "<!--" in line and "-->" not in line.rsplit("<!--", 1)[1]:
            comment = True
            continue
        if match := _HEADING.match(line):
            yield at, len(match[1]), match[2]


def answers_of(dimension: Dimension) -> tuple[str, ...]:
    """The parts of a dimension's section that say what each answer means."""
    scale = dimension.scale
    if scale.levels is None or scale.levels > MOST_ANSWERS or scale.kind == "rating":
        return (SCALE,)
    return scale.names


def skeleton(study: str, dimensions: Iterable[Dimension], day: date) -> str:
    """A guideline to fill in: a section for each dimension, with what is wanted where as comments."""
    out = [f"# Guideline: {_line(study)}", "", "Version: 1", f"Date: {day.isoformat()}", ""]
    for dimension in dimensions:
        out += [f"## {_line(dimension.name)}", ""]
        for answer in answers_of(dimension):
            wanted = (
                f"how to choose from {number(dimension.scale.low or 0)} to {number(dimension.scale.high or 0)}"
                if answer == SCALE and dimension.scale.kind == "rating"
                else "how to choose among the answers"
                if answer == SCALE
                else f"one sentence that defines {_line(answer)}"
            )
            out += [f"### {_line(answer)}", "", f"<!-- {wanted} -->", ""]
        out += [f"### {EXAMPLES}", "", "<!-- real outputs with their answers, each with the reason -->", ""]
        out += [f"### {CASES}", "", "<!-- cases that are hard to decide, with the ruling for each -->", ""]
        out += [f"### {UNSURE}", "", "<!-- what to do: mark the item as unsure and write why -->", ""]
    return "\n".join(out)


def _line(text: str) -> str:
    """Text of somebody else in a line of Markdown, without markup of its own."""
    plain = " ".join(text.split())
    return plain.replace("&", "&amp;").replace("<", "&lt;")


def check(found: Guideline, dimensions: Iterable[Dimension]) -> list[Problem]:
    """What is missing or cannot be meant, from the top of the document down. Hard cases may be none yet."""
    problems: list[Problem] = []
    if not found.version:
        message = "the version is no whole number" if found.version_line else "the version is missing"
        problems.append(Problem(found.version_line or 1, "", f'{message}; write a line "Version: 1" at the top'))
    if found.day is None:
        message = "the date is no day" if found.day_line else "the date is missing"
        problems.append(Problem(found.day_line or 1, "", f'{message}; write a line "Date: 2026-11-03" at the top'))
    seen: dict[str, Section] = {}
    for section in found.sections:
        if (key := section.heading.strip().casefold()) in seen:
            there = seen[key].line
            problems.append(Problem(section.line, section.heading, f"this section stands in line {there} already"))
        seen.setdefault(key, section)
    wanted: dict[str, tuple[str, ...]] = {d.name: answers_of(d) for d in dimensions}
    for name, answers in wanted.items():
        if found.section(name) is None:
            line = len(found.text.splitlines()) or 1
            problems.append(Problem(line, "", f'there is no section for {name}; add "## {name}" with its parts'))
        else:
            problems += _of_section(found.section(name), answers)  # type: ignore[arg-type]
    for section in found.sections:
        if not any(_same(section.heading, name) for name in wanted):
            # A failure type: it passes or fails.
            problems += _of_section(section, ("Pass", "Fail"))
    return sorted(problems, key=lambda p: p.line)


def _of_section(section: Section, answers: Sequence[str]) -> Iterator[Problem]:
    for heading in (*answers, EXAMPLES, CASES, UNSURE):
        part = section.part(heading)
        if part is None:
            yield Problem(section.line, section.heading, f'"### {heading}" is missing')
        elif not part.filled and heading != CASES:
            yield Problem(part.line, f"{section.heading} / {part.heading}", "nothing is written here")
    counts: dict[str, int] = {}
    for part in section.parts:
        key = part.heading.strip().casefold()
        if key in counts:
            yield Problem(part.line, section.heading, f'"### {part.heading}" stands in line {counts[key]} already')
        counts.setdefault(key, part.line)


def following(found: Guideline, rulings: Iterable[Ruling], day: date) -> tuple[str, list[Ruling]]:
    """The text of the next version, and the rulings that were added to it: those whose item is not among its section's hard
    cases yet. The number is raised, the date is ``day``. Raises ValueError where the version is not stated.
    """
    if not found.version or found.version_line is None:
        raise ValueError('the version is missing or no whole number; write a line "Version: 1" at the top')
    lines = found.text.splitlines()
    lines[found.version_line - 1] = _restated(lines[found.version_line - 1], str(int(found.version) + 1))
    if found.day_line is not None:
        lines[found.day_line - 1] = _restated(lines[found.day_line - 1], day.isoformat())
    added: list[Ruling] = []
    by_section: dict[int, list[str]] = {}
    heads: dict[int, bool] = {}
    appended: list[str] = []
    for ruling in sorted(rulings, key=lambda r: (r.dimension, r.item)):
        section = found.section(ruling.dimension)
        if section is not None and _spelled(ruling.item) in section.cases:
            continue
        added.append(ruling)
        if section is None:
            if f"## {_line(ruling.dimension)}" not in appended:
                appended += ["", f"## {_line(ruling.dimension)}", "", f"### {CASES}", ""]
            appended.append(case(ruling))
            continue
        part = section.part(CASES)
        where = part.end if part is not None else section.end
        heads[where] = part is None
        by_section.setdefault(where, []).append(case(ruling))
    for where in sorted(by_section, reverse=True):
        at = where
        while at > 0 and not lines[at - 1].strip():
            at -= 1
        before = ["", f"### {CASES}", ""] if heads[where] else [] if lines[at - 1].startswith(("- ", "* ")) else [""]
        after = [] if at < len(lines) and not lines[at].strip() else [""]
        lines[at:at] = [*before, *by_section[where], *(after if at < len(lines) else [])]
    if found.day_line is None:
        lines.insert(found.version_line, f"Date: {day.isoformat()}")
    return "\n".join([*lines, *appended]).rstrip("\n") + "\n", added


def _restated(line: str, value: str) -> str:
    return re.sub(r"(:\s*[*_]*\s*).*?([*_]*\s*)$", lambda m: f"{m[1]}{value}{m[2]}", line, count=1)


def _spelled(item: str) -> str:
    """An item's key as it stands in a line."""
    return " ".join(item.split())


def case(ruling: Ruling) -> str:
    """A ruling as a hard case: one line of Markdown."""
    item = _spelled(ruling.item).replace("\\", "\\\\").replace("`", "\\`")
    reason = f": {_line(ruling.reason)}" if ruling.reason else ""
    return f"- item `{item}` is **{_line(ruling.value)}**{reason}"


def changed(old: Guideline | None, new: Guideline, heading: str) -> bool:
    """Whether a section says something else than before; where the earlier text is not known it may."""
    return old is None or old.says(heading) != new.says(heading)


def plain_version(said: str | None) -> str:
    """A version as labels say it, so that "v2" and "2" are the same one."""
    text = (said or "").strip().casefold()
    return text[1:] if re.fullmatch(r"v\d+", text) else text


def older(version: str, than: str) -> bool:
    """Whether a version is earlier than another; what is no number is not known to be, so it counts as earlier."""
    mine, other = plain_version(version), plain_version(than)
    if mine.isdecimal() and other.isdecimal():
        return int(mine) < int(other)
    return mine != other


def _same(a: str, b: str) -> bool:
    return _line(a).strip().casefold() == _line(b).strip().casefold() or a.strip().casefold() == b.strip().casefold()


def texts(kept: Iterable[tuple[str, str]]) -> Mapping[str, Guideline]:
    """The last text of each version, of (version, text) oldest first."""
    return {plain_version(version): parse(text) for version, text in kept}


__all__ = [
    "CASES",
    "EXAMPLES",
    "UNSURE",
    "Guideline",
    "Part",
    "Problem",
    "Section",
    "answers_of",
    "case",
    "changed",
    "check",
    "following",
    "older",
    "parse",
    "plain_version",
    "shown",
    "skeleton",
    "texts",
]
