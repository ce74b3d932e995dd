"""Looks a transcript over, and mends it without losing anything (reliability 2.1)."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mt_context import _core
from mt_context.session import schema

__all__ = ["Verification", "repair_session", "verify_session"]


@dataclass
class Verification:
    """What a transcript holds and what is wrong with it."""

    path: str
    size: int = 0
    records: int = 0
    by_type: dict[str, int] = field(default_factory=dict)
    #: (byte, reason) of each damaged line.
    damaged: list[tuple[int, str]] = field(default_factory=list)
    #: Bytes behind the last line end; the next writer saves and cuts them.
    torn_bytes: int = 0
    #: (byte, expected, found) where the numbering jumps.
    seq_gaps: list[tuple[int, int, int]] = field(default_factory=list)
    #: Calls that have no result.
    unanswered_calls: list[str] = field(default_factory=list)
    #: Artifacts that a record names and that are not there.
    missing_artifacts: list[str] = field(default_factory=list)
    compactions: int = 0

    @property
    def ok(self) -> bool:
        """Nothing is damaged, torn, missing or out of order. A call without a result is no damage."""
        return not (self.damaged or self.torn_bytes or self.seq_gaps or self.missing_artifacts)


def verify_session(path: str | Path, artifact_dir: str | Path | None = None) -> Verification:
    """Reads a whole transcript and says what is wrong with it.

    Args:
        artifact_dir: where its artifacts lie; by default beside it, by its session id.

    Raises:
        StorageError: if it cannot be read.
        ValueError: if it is no transcript at all.
    """
    path = Path(path)
    found = Verification(str(path))
    kinds: Counter[str] = Counter()
    open_calls: dict[str, None] = {}
    artifacts: dict[str, None] = {}
    state: dict[str, Any] = {"seq": None, "session": ""}

    def visit(offset: int, record: dict[str, Any]) -> None:
        kind = schema.get_record_type(record)
        kinds[kind or "(none)"] += 1
        seq = record.get("seq")
        if isinstance(seq, int):
            if state["seq"] is not None and seq != state["seq"] + 1:
                found.seq_gaps.append((offset, state["seq"] + 1, seq))
            state["seq"] = seq
        if kind == schema.RECORD_SESSION_START:
            state["session"] = str(record.get("sessionId") or "")
        found.compactions += kind in (schema.RECORD_COMPACT_BOUNDARY, schema.RECORD_COMPRESSION)
        for call in record.get("tool_calls") or []:
            if isinstance(call, dict):
                open_calls[str(call.get("id") or "")] = None
        if record.get("role") == "tool":
            open_calls.pop(str(record.get("tool_call_id") or ""), None)
        artifact = record.get("artifact")
        if isinstance(artifact, dict) and isinstance(artifact.get("path"), str):
            artifacts[artifact["path"]] = None

    found.damaged = [(int(offset), str(reason)) for offset, reason in _core.scan_session(path, visit)]
    found.records, found.by_type = sum(kinds.values()), dict(kinds.most_common())
    if len(found.damaged) > 10 * max(found.records, 1):
        raise ValueError(
            f"{path}: not a transcript: hardly a line of it is a JSON object. Unpack it first if it is compressed"
        )
    found.unanswered_calls = list(open_calls)
    found.size, found.torn_bytes = _tail(path)
    folder = (
        Path(artifact_dir) if artifact_dir else path.parent / "artifacts" / _core.safe_name(state["session"])
    )
    found.missing_artifacts = [name for name in artifacts if not _is_there(folder, name)]
    return found


def _is_there(folder: Path, name: str) -> bool:
    try:
        _core.check_artifact_path(name)
    except ValueError:
        return False
    return (folder / name).is_file()


def _tail(path: Path) -> tuple[int, int]:
    """Size of a file, and bytes behind its last line end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        at = size
        while at > 0:
            start = max(at - 65_536, 0)
            file.seek(start)
            newline = file.read(at - start).rfind(b"\n")
            if newline >= 0:
                return size, size - (start + newline + 1)
            at = start
    return size, size


def repair_session(path: str | Path) -> tuple[Path | None, Verification]:
    """Writes a transcript anew without its damaged lines; the old file is kept as `<name>.bak-N`, a torn tail as `<name>.torn-N`.

    Returns:
        Where the old file is, or `None` if there was nothing to mend; and what was found.

    Raises:
        SessionLockedError: if the session is being written.
        StorageError: if the disk refuses; the old file is then still in place.
    """
    path = Path(path)
    before = verify_session(path)
    if not before.damaged and not before.torn_bytes:
        return None, before
    # Held until the new file is in place: nobody may append to the old one meanwhile. It also saves and cuts a torn tail.
    writer = _core.SessionWriter(path.parent, path.name)
    try:
        return _write_anew(path), before
    finally:
        writer.close()


def _write_anew(path: Path) -> Path:
    backup = next(b for n in range(1, 10_000) if not (b := path.with_name(f"{path.name}.bak-{n}")).exists())
    mended = path.with_name(f"{path.name}.mended")
    mended.unlink(missing_ok=True)
    descriptor = os.open(mended, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        _core.scan_session(
            path, lambda _offset, record: out.write(json.dumps(record, ensure_ascii=False) + "\n")
        )
        out.flush()
        os.fsync(out.fileno())
    os.link(path, backup)
    os.replace(mended, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return backup
