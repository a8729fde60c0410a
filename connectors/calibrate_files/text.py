"""The bytes of a text file: unpacked, proven to be UTF-8, and made of lines."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path
from typing import Protocol

from calibrate_plugin.connector import ConnectorError

LONGEST_LINE = 16 * 2**20
CHUNK = 2**22


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_text(path: Path) -> bytes:
    """The file's bytes in UTF-8, without a byte order mark. gzip is seen by its first bytes and unpacked.

    ConnectorError, with the line: another encoding, a line of more than LONGEST_LINE bytes, broken gzip, another kind of
    file, nothing in it.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not packed:
                return _checked(path.name, raw)
            with gzip.open(raw) as unpacked:
                return _checked(path.name, unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConnectorError(f"{path.name}: the gzip file is damaged or cut off ({error})") from None


def _checked(name: str, stream: _Stream) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces: list[bytes] = []
    lines = 0  # complete lines so far
    unended = 0  # bytes since the last line ended
    while True:
        piece = stream.read(CHUNK)
        if not pieces:
            _known(name, piece)
            piece = piece.removeprefix(codecs.BOM_UTF8)
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            line = lines + 1 + piece.count(b"\n", 0, max(error.start - pending, 0))
            bad = error.object[error.start : error.start + 1]
            read = bad.decode("cp1252", errors="replace")
            raise ConnectorError(
                f"{name}:{line}: the file is not UTF-8; byte 0x{bad.hex()} looks like {read!r} in Windows-1252 or Latin-1; "
                f"save it as UTF-8, e.g. iconv -f WINDOWS-1252 -t UTF-8"
            ) from None
        if not piece:
            break
        ends = piece.count(b"\n")
        if ends:
            _short(name, lines, unended + piece.index(b"\n"))
        lines += ends
        unended = len(piece) - piece.rindex(b"\n") - 1 if ends else unended + len(piece)
        _short(name, lines, unended)
        pieces.append(piece)
    if not any(piece.strip() for piece in pieces):
        raise ConnectorError(f"{name}: the file is empty")
    return b"".join(pieces)


def _short(name: str, lines: int, size: int) -> None:
    if size > LONGEST_LINE:
        raise ConnectorError(
            f"{name}:{lines + 1}: the line is longer than {LONGEST_LINE // 2**20} MB; is this a file of lines?"
        )


def _known(name: str, start: bytes) -> None:
    """Raise for what is plainly another encoding or another kind of file."""
    looks = None
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        looks = "UTF-32 text; save it as UTF-8"
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        looks = "UTF-16 text; save it as UTF-8, e.g. iconv -f UTF-16 -t UTF-8"
    elif len(start) > 8 and any(start[i:1000:2].count(0) * 2 > len(start[i:1000:2]) for i in (0, 1)):
        looks = "UTF-16 text without a byte order mark; save it as UTF-8, e.g. iconv -f UTF-16LE -t UTF-8"
    elif start.startswith(b"PAR1"):
        looks = "a Parquet file; give it the ending .parquet"
    elif start.startswith(b"PK\x03\x04"):
        looks = "a zip or Excel file; save the sheet as CSV in UTF-8"
    elif start.lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        looks = "a web page or XML, perhaps an error page that was saved; download it again"
    if looks:
        raise ConnectorError(f"{name}: the file looks like {looks}")
