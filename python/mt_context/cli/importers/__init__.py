"""Recorded agent sessions of other programs, read into one neutral form.

>>> from mt_context.cli import importers
>>> sessions = importers.load("rollout.jsonl.gz")  # doctest: +SKIP

`load` finds the format from the content (`.gz` is unpacked on the way), never from the file's name. It
refuses what it doesn't surely know, in one line that says what was found and what to do. Damaged lines are
counted with their byte offset and never fatal.

`model` has the result types and the shape of a message, `reading` gets objects from bytes, `detect` names
formats, and each format has a module of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from . import claude_code, codex, detect, langchain, mtagent, openai_chat, reading, swe_agent
from .model import (
    FORMATS,
    Damage,
    Event,
    Record,
    Session,
    SessionFileError,
    UnknownFormatError,
    UnreadableFileError,
)

__all__ = [
    "FORMATS",
    "Damage",
    "Event",
    "Record",
    "Session",
    "SessionFileError",
    "UnknownFormatError",
    "UnreadableFileError",
    "load",
]

_FromLines = Callable[[str, Iterable[Record], list[Damage]], list[Session]]
_FromDocument = Callable[[str, Any, list[Damage]], list[Session]]
_BY_LINES: dict[str, _FromLines] = {
    "openai-chat": openai_chat.from_lines,
    "langchain": langchain.from_lines,
    "mtagent": mtagent.from_lines,
    "claude-code": claude_code.from_lines,
    "codex": codex.from_lines,
}
_BY_DOCUMENT: dict[str, _FromDocument] = {
    "openai-chat": openai_chat.from_document,
    "langchain": langchain.from_document,
    "swe-agent": swe_agent.from_document,
    "mini-swe-agent": swe_agent.mini_from_document,
}
_FITS_DOCUMENT: dict[str, Callable[[Any], bool]] = {
    "openai-chat": openai_chat.is_document,
    "langchain": langchain.is_document,
    "swe-agent": swe_agent.is_swe_agent,
    # Forced, any list of chat messages may be one: version 1 wrote nothing else.
    "mini-swe-agent": lambda value: swe_agent.is_mini(value) or openai_chat.is_document(value),
}
_FITS_RECORD: dict[str, Callable[[Any], bool]] = {
    "mtagent": mtagent.is_record,
    "claude-code": claude_code.is_record,
    "codex": codex.is_record,
    "langchain": lambda value: langchain.is_message(value) or langchain.is_document(value),
    "openai-chat": lambda value: openai_chat.is_message(value) or openai_chat.is_document(value),
}
_WAY_OUT = f"known formats: {', '.join(FORMATS)} (--format forces one)"


def load(path: str | os.PathLike[str], format: str | None = None) -> list[Session]:
    """Every conversation of a session file.

    Args:
        path: A regular file, plain or gzip.
        format: One of `FORMATS` to skip the detection; None detects.

    Returns:
        At least one session, in the order of the file; several for files with several conversations or side
        chains.

    Raises:
        UnreadableFileError: missing, a directory, empty, no permission, too large. UnknownFormatError: none
        of the formats, or not the one that was asked for. Both are `SessionFileError`, a ValueError.
    """
    name = os.fsdecode(path)
    if format is not None and format not in FORMATS:
        raise UnknownFormatError(name, f"there is no format {format!r}; {_WAY_OUT}")
    head = reading.read_head(name)
    kind = reading.binary_kind(head)
    if kind is not None:
        raise UnknownFormatError(name, f"looks like {kind}, not a session; {_WAY_OUT}")
    damaged: list[Damage] = []
    document, problem = _try_document(name, head, damaged)
    if document is not None:
        sessions = _from_document(name, document[0], format, damaged)
        if sessions:
            return sessions
        damaged.clear()
    return _from_lines(name, format, document, problem)


def _try_document(name: str, head: bytes, damaged: list[Damage]) -> tuple[tuple[Any] | None, str | None]:
    """The file as one JSON document (in a tuple, since the value may be None), or why it isn't one."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not start.startswith((b"{", b"[")):
        return None, None
    first, newline, rest = start.partition(b"\n")
    if start.startswith(b"{") and newline and rest.strip():
        try:
            json.loads(first)
            return None, None  # a whole object on the first line, and more lines: JSONL
        except (ValueError, RecursionError):
            pass
    try:
        return (reading.read_document(name, damaged),), None
    except UnreadableFileError:
        raise
    except ValueError as error:
        damaged.clear()
        return None, str(error)


def _from_document(name: str, value: Any, format: str | None, damaged: list[Damage]) -> list[Session]:
    """The document's sessions; empty if it is to be tried as JSONL."""
    if format is None:
        found = detect.document_format(value)
        if found is None:
            return []
        return _BY_DOCUMENT[found](name, value, damaged)
    if format in _BY_DOCUMENT and _FITS_DOCUMENT[format](value):
        if format == "mini-swe-agent" and not swe_agent.is_mini(value):
            return openai_chat.from_document(name, value, damaged, format)
        return _BY_DOCUMENT[format](name, value, damaged)
    return []


def _from_lines(
    name: str, format: str | None, document: tuple[Any] | None, problem: str | None
) -> list[Session]:
    found, other, sample = _scan(name, format)
    if found is None:
        raise UnknownFormatError(name, _refusal(format, other, sample, document, problem))
    damaged: list[Damage] = []
    sessions = _BY_LINES[found](name, reading.read_objects(name, damaged), damaged)
    if not sessions:
        raise UnknownFormatError(name, f"no conversation found in it; {_WAY_OUT}")
    return sessions


def _scan(name: str, format: str | None) -> tuple[str | None, str | None, dict[str, Any] | None]:
    """(format, known other format, first object) of a JSONL file, from its first telling record."""
    sample: dict[str, Any] | None = None
    other: str | None = None
    for value in reading.read_objects(name, []):
        sample = value if sample is None else sample
        if format is not None:
            fits = _FITS_RECORD.get(format)
            if fits is not None and fits(value):
                return format, None, sample
        elif other is None:
            found = detect.record_format(value)
            if found is not None:
                return found, None, sample
        other = other or detect.foreign_record(value) or detect.foreign_document(value)
        if other is not None and format is None:
            break
    return None, other, sample


def _refusal(
    format: str | None,
    other: str | None,
    sample: dict[str, Any] | None,
    document: tuple[Any] | None,
    problem: str | None,
) -> str:
    """One line: what was found, and the way out."""
    looks: str | None = None
    if document is not None:
        value = document[0]
        own = detect.document_format(value)
        looks = (
            detect.foreign_document(value)
            or (f"the format {own}" if own else None)
            or other
            or detect.describe(value)
        )
    elif other is not None:
        looks = other
    elif sample is not None:
        own = detect.record_format(sample)
        looks = f"the format {own}" if own else f"JSON lines, the first {detect.describe(sample)[2:]}"
    if format is not None:
        seen = looks or "no JSON at all"
        return f"is not {format}; it looks like {seen}. Leave --format away to detect the format"
    if looks is None:
        return f"holds no JSON object ({problem or 'not JSON'}); {_WAY_OUT}"
    if problem is not None and document is None and other is None:
        return f"{problem}; {_WAY_OUT}"
    return f"looks like {looks}, none of the known session formats; {_WAY_OUT}"
