"""Bytes from disk to JSON objects, with every damaged line counted and none fatal.

Lines end at the byte `\\n` only: U+2028, U+0085, VT and FF are text. A line is decoded and parsed by itself
and dropped before the next is read. What a damaged line still holds is recovered only when it is whole:
objects glued together on one line, an object between NUL runs, an object with invalid UTF-8 in its texts
(U+FFFD takes its place). A torn object is lost and counted. A gzip stream that ends early is damage at that
point, not an error.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from .model import Damage, UnreadableFileError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is skipped and counted; a transcript's lines hold at most one tool result."""
MAX_DOCUMENT_BYTES = 1024 * 1024 * 1024
"""A JSON document has to be held as a whole; more than this (after gunzip) is refused."""
HEAD_BYTES = 64 * 1024

_MAGIC = (
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"\x1f\x8b", "gzip data inside gzip data"),
    (b"PAR1", "a Parquet file"),
    (b"\x7fELF", "an ELF program"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "a PDF document"),
    (b"\xff\xfe", "UTF-16 text (convert it to UTF-8 first)"),
    (b"\xfe\xff", "UTF-16 text (convert it to UTF-8 first)"),
)
_TAR_MAGIC = (257, b"ustar")
_STREAM_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def open_file(path: str) -> BinaryIO:
    """The file's bytes, gunzipped if they are gzip. Raises `UnreadableFileError` with one clear line."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableFileError(path, "is a directory; name the session files in it")
        if not stat.S_ISREG(mode):
            raise UnreadableFileError(path, "is not a regular file; save the session to a file first")
        with open(path, "rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        return cast(BinaryIO, gzip.open(path, "rb")) if packed else open(path, "rb")
    except FileNotFoundError:
        raise UnreadableFileError(path, "there is no such file") from None
    except PermissionError:
        raise UnreadableFileError(path, "permission denied; it can't be read as this user") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableFileError(path, f"can't be opened: {reason}") from None


def read_head(path: str) -> bytes:
    """The first bytes of the (gunzipped) file. Empty files are refused here."""
    with open_file(path) as stream:
        try:
            head = stream.read(HEAD_BYTES)
        except _STREAM_ERRORS:
            raise UnreadableFileError(path, "its gzip data is damaged from the start") from None
        except OSError as error:
            raise UnreadableFileError(path, f"can't be read: {error.strerror or error}") from None
    if not head:
        raise UnreadableFileError(path, "is empty")
    if len(head) < HEAD_BYTES and not head.strip(_SPACE + _BOM):
        raise UnreadableFileError(path, "is empty but for white space")
    return head


def binary_kind(head: bytes) -> str | None:
    """What a file that can't be JSON looks like, or None if it may be text."""
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    at, magic = _TAR_MAGIC
    if head[at : at + len(magic)] == magic:
        return "a tar archive"
    # NUL runs come from crashed writers: NUL alone doesn't make a file binary, NUL without a brace does.
    if b"\x00" in head and b"{" not in head and b"[" not in head:
        return "binary data"
    odd = sum(byte < 9 or 13 < byte < 27 for byte in head.replace(b"\x00", b""))
    return "binary data" if odd * 20 > len(head) else None


def read_document(path: str, damaged: list[Damage]) -> Any:
    """The whole file as one JSON value. Raises ValueError (RecursionError included) if it isn't one."""
    with open_file(path) as stream:
        raw = bytearray()
        try:
            while chunk := stream.read(4 * 1024 * 1024):
                raw += chunk
                if len(raw) > MAX_DOCUMENT_BYTES:
                    raise UnreadableFileError(path, "is a JSON document of more than 1 GiB; split it first")
        except _STREAM_ERRORS:
            raise ValueError("its gzip data ends early") from None
    start = len(_BOM) if raw.startswith(_BOM) else 0
    try:
        text = raw[start:].decode()
    except UnicodeDecodeError as error:
        at = start + error.start
        damaged.append(Damage(raw.count(b"\n", 0, at) + 1, at, "invalid UTF-8, replaced"))
        text = raw[start:].decode(errors="replace")
    del raw
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON at line {error.lineno}, column {error.colno}") from None


def read_objects(path: str, damaged: list[Damage]) -> Iterator[dict[str, Any]]:
    """Every JSON object of a JSONL file, in order; what is wrong goes to `damaged`."""
    with open_file(path) as stream:
        for number, offset, line in _lines(stream, damaged):
            if number == 1 and line.startswith(_BOM):
                line = line[len(_BOM) :]
            line = line.strip(_SPACE)
            if not line:
                continue
            objects, reason = parse_line(line)
            if reason is not None:
                damaged.append(Damage(number, offset, reason))
            yield from objects


def _lines(stream: BinaryIO, damaged: list[Damage]) -> Iterator[tuple[int, int, bytes]]:
    """(number from 1, byte offset, line); offsets count in the gunzipped file."""
    number, offset = 0, 0
    reader = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
    while True:
        number += 1
        start = offset
        try:
            line = reader.readline(MAX_LINE_BYTES)
            offset += len(line)
            too_long = len(line) >= MAX_LINE_BYTES and not line.endswith(b"\n")
            while too_long and line and not line.endswith(b"\n"):
                line = reader.readline(1024 * 1024)
                offset += len(line)
        except _STREAM_ERRORS:
            damaged.append(Damage(number, start, "gzip data ends early; what follows is lost"))
            return
        except OSError as error:
            damaged.append(Damage(number, start, f"can't be read: {error.strerror or 'input/output error'}"))
            return
        if too_long:
            damaged.append(Damage(number, start, f"line longer than {MAX_LINE_BYTES // 1024 // 1024} MiB"))
        elif not line:
            return
        else:
            yield number, start, line


def parse_line(line: bytes) -> tuple[list[dict[str, Any]], str | None]:
    """The whole objects of one line, and what is damaged in it (None: nothing)."""
    reason = None
    if b"\x00" in line:
        reason = "NUL bytes"
        line = line.strip(b"\x00" + _SPACE)
        if not line:
            return [], reason
    try:
        text = line.decode()
    except UnicodeDecodeError:
        reason = "invalid UTF-8, replaced"
        text = line.decode(errors="replace")
    try:
        value = json.loads(text)
    except RecursionError:
        return [], "nested too deeply"
    except ValueError:
        objects = _glued(text)
        if objects:
            return objects, "several objects on one line"
        return [], "NUL bytes" if reason == "NUL bytes" else "invalid JSON"
    if not isinstance(value, dict):
        return (
            [],
            "null instead of an object"
            if value is None
            else f"a {type(value).__name__} instead of an object",
        )
    return [value], reason


def _glued(text: str) -> list[dict[str, Any]]:
    """The objects at the beginning of a line that holds more than one JSON value; a torn rest is given up."""
    decoder = json.JSONDecoder()
    objects: list[dict[str, Any]] = []
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            objects.append(value)
        while at < len(text) and text[at] in " \t\r\x00":
            at += 1
    return objects
