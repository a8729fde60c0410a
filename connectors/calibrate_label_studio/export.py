"""Label Studio's JSON on disk, one task at a time, so that an export's size does not matter."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from calibrate_plugin.connector import ConnectorError, SettingsError

CHUNK = 1 << 20
LARGEST = 1 << 28  # characters of one task
SPACE = " \t\r\n"
CHOOSE = "in Label Studio choose Export > JSON (the first of the list) and give that file"


class _Text:
    """The text of a JSON file from the place that is read next. NaN and Infinity become text, as they are no numbers."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name
        self.bytes = codecs.getincrementaldecoder("utf-8-sig")()
        self.json = json.JSONDecoder(parse_constant=str)
        self.text, self.at, self.ended = "", 0, False
        self.line, self.column = 1, 1  # of text[0]

    def more(self) -> None:
        """Read on, forgetting what is done."""
        if len(self.text) - self.at > LARGEST:
            raise self.broken(self.at, f"one value of more than {LARGEST >> 20} MB")
        self.line, self.column = self._place(self.at)
        try:
            chunk = self.stream.read(max(CHUNK, len(self.text) - self.at))
            self.text, self.at = self.text[self.at :] + self.bytes.decode(chunk, not chunk), 0
        except UnicodeDecodeError as error:
            raise ConnectorError(
                f"{self.name}: not UTF-8 after line {self.line} ({error.reason}); save the file as UTF-8, as Label Studio exports it"
            ) from None
        except (OSError, EOFError, zlib.error) as error:
            raise ConnectorError(f"{self.name}: cannot be read after line {self.line}: {error}") from None
        self.ended = not chunk

    def _place(self, position: int) -> tuple[int, int]:
        newlines = self.text.count("\n", 0, position)
        if not newlines:
            return self.line, self.column + position
        return self.line + newlines, position - self.text.rfind("\n", 0, position)

    def broken(self, position: int, what: str) -> ConnectorError:
        line, column = self._place(position)
        return ConnectorError(f"{self.name}: broken JSON at line {line}, column {column}: {what}; export it again")

    def peek(self) -> str:
        """The next character that is not space, or "" at the end."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in SPACE:
                    return self.text[self.at]
                self.at += 1
            if self.ended:
                return ""
            self.more()

    def take(self, wanted: str) -> str:
        """Pass one of the characters ``wanted``."""
        found = self.peek()
        if not found or found not in wanted:
            what = f"found {found!r}" if found else "the file ends"
            raise self.broken(self.at, f"expected {' or '.join(map(repr, wanted))}, {what}")
        self.at += 1
        return found

    def value(self) -> Any:
        """The next JSON value, whole."""
        self.peek()
        while True:
            try:
                value, end = self.json.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                # A value that the chunk cuts off fails at its last character, or at the start of an open string.
                cut = error.pos >= len(self.text) - 12 or error.msg.startswith("Unterminated string")
                if self.ended or not cut:
                    raise self.broken(min(error.pos, len(self.text)), error.msg) from None
                end = -1
            except RecursionError:
                raise self.broken(self.at, "nested too deeply") from None
            except ValueError as error:  # a number of thousands of digits
                raise self.broken(self.at, str(error)) from None
            if 0 <= end < len(self.text) or (self.ended and end >= 0):
                self.at = end
                return value
            self.more()


def _wrong(path: Path, start: bytes) -> SettingsError | None:
    """What a file is that is no JSON at all."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return SettingsError(f"{path}: is UTF-16; save the file as UTF-8, as Label Studio exports it")
    if start.startswith(b"PK"):
        return SettingsError(f"{path}: is a zip archive (YOLO, COCO or VOC with images?); {CHOOSE}")
    text = start.decode("utf-8-sig", "replace").lstrip()
    if not text:
        return None
    if text[0] in "[{":
        return None
    if text[:9].lower() in ("<!doctype", "<html"):
        return SettingsError(f"{path}: is a web page, perhaps the sign-in form of Label Studio; {CHOOSE}")
    if text[0] == "<":
        return SettingsError(f"{path}: is XML (a Pascal VOC export or a labelling configuration?); {CHOOSE}")
    line = text.splitlines()[0]
    separator = "\t" if "\t" in line else ","
    header = next(csv.reader([line], delimiter=separator), [])
    if "annotation_id" in header or "annotator" in header:
        kind = "TSV" if separator == "\t" else "CSV"
        return SettingsError(f"{path}: is Label Studio's {kind} export, which drops skips and regions; {CHOOSE}")
    if line.startswith("-DOCSTART-"):
        return SettingsError(f"{path}: is a CONLL2003 export; {CHOOSE}")
    words = line.split()
    if len(words) >= 5 and all(word.replace(".", "", 1).isdigit() for word in words):
        return SettingsError(f"{path}: looks like a YOLO export; {CHOOSE}")
    return SettingsError(f"{path}: is no JSON; {CHOOSE}")


def wrong_task(where: str, task: Any) -> SettingsError | None:
    """What an export is whose first element is no task with annotations, or None if it is one."""
    if not isinstance(task, dict):
        return SettingsError(f"{where}: holds no tasks; {CHOOSE}")
    if isinstance(task.get("annotations"), list):
        return None
    if "completions" in task:
        return SettingsError(
            f"{where}: comes from a Label Studio before 1.0, which this reader does not know; {CHOOSE}"
        )
    if "annotations_results" in task or "annotations_ids" in task:
        return SettingsError(
            f"{where}: lists tasks without their annotations; ask /api/tasks with fields=all, or {CHOOSE}"
        )
    if "annotation_id" in task or "annotator" in task:
        return SettingsError(f"{where}: is the JSON-MIN export, which drops skips and regions; {CHOOSE}")
    if "audio_filepath" in task:
        return SettingsError(f"{where}: is the ASR manifest; {CHOOSE}")
    if "result" in task and "completed_by" in task:
        return SettingsError(f"{where}: lists annotations without their tasks; {CHOOSE}")
    if "data" in task:
        return SettingsError(f"{where}: holds tasks without annotations, as for an import; {CHOOSE}")
    return SettingsError(f"{where}: holds no Label Studio tasks; {CHOOSE}")


def tasks(stream: BinaryIO, name: str) -> Iterator[Any]:
    """The tasks of a JSON export, a snapshot, or a page of ``/api/tasks``, as they stand there.

    Raises ConnectorError with line and column where the JSON breaks, SettingsError where it is something else.
    """
    text = _Text(stream, name)
    start = text.peek()
    if not start:
        raise ConnectorError(f"{name}: is empty; {CHOOSE}")
    if start == "[":
        yield from _elements(text)
    else:
        yield from _members(text)
    if rest := text.peek():
        raise text.broken(text.at, f"expected the end of the file, found {rest!r}")


def _elements(text: _Text) -> Iterator[Any]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    first = True
    while True:
        task = text.value()
        if first and (wrong := wrong_task(text.name, task)):
            raise wrong
        first = False
        yield task
        if text.take(",]") == "]":
            return


def _members(text: _Text) -> Iterator[Any]:
    """The tasks of ``{"tasks": [...]}``, or the one task that a file holds."""
    text.take("{")
    others: dict[str, Any] = {}
    listed = False
    more = text.peek() != "}"
    if not more:
        text.take("}")
    while more:
        if text.peek() != '"':
            raise text.broken(text.at, "expected a name in double quotes")
        key = text.value()
        text.take(":")
        if key == "tasks" and text.peek() == "[":
            listed = True
            yield from _elements(text)
        else:
            others[key] = text.value()
        more = text.take(",}") == ","
    if listed:
        return
    if {"images", "categories"} <= others.keys():
        raise SettingsError(f"{text.name}: is a COCO export; {CHOOSE}")
    if wrong := wrong_task(text.name, others):
        raise wrong
    yield others


def open_export(path: Path) -> BinaryIO:
    """The bytes of an export, unpacked where it is gzip. Raises SettingsError for a file that is no JSON."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    stream: Any = raw
    try:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            raw.close()
            stream = gzip.open(path)  # noqa: SIM115 - the caller closes it
        start = stream.read(4096)
        stream.seek(0)
    except (OSError, EOFError, zlib.error) as error:
        stream.close()
        raise ConnectorError(f"{path}: cannot be read: {error}") from None
    if wrong := _wrong(path, start):
        stream.close()
        raise wrong
    return stream  # type: ignore[no-any-return]
