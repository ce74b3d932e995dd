"""Records a session as it happens, and resumes it (plan M1, reliability 2.1).

Every record is on disk when `record` returns. A killed process loses nothing that was recorded; a second process cannot write to the same
session; reading needs no lock.
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from mt_context import _core
from mt_context._core import SessionWriter
from mt_context.context.budget import estimate_message_tokens
from mt_context.exceptions import SessionLockedError
from mt_context.session import artifacts, schema
from mt_context.session.restore import build_messages
from mt_context.session.stats import SessionStats

__all__ = ["SessionRecorder", "format_file_size", "format_relative_time"]

logger = logging.getLogger(__name__)

#: Results that the journal remembers.
MAX_JOURNAL = 1_000


def format_relative_time(timestamp_ms: int) -> str:
    """How long ago a time is, in words."""
    if not timestamp_ms:
        return "unknown"
    seconds = time.time() - timestamp_ms / 1000
    if seconds < 60:
        return "just now"
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "min")):
        if seconds >= size:
            count = int(seconds / size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def format_file_size(size_bytes: int) -> str:
    """A file size for people."""
    if size_bytes < 1024:
        return f"{size_bytes}B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f}KB"
    return f"{size_bytes / (1024 * 1024):.1f}MB"


#: Who writes which session in this process.
_WRITING: WeakValueDictionary[Path, SessionRecorder] = WeakValueDictionary()


class SessionRecorder:
    """One session of one project: its transcript, its artifacts, its figures.

    Args:
        working_directory: the project.
        config: `global_dir` says where sessions lie (`~/.mtagent` by default).
        sync: `always` makes every record durable before `record` returns; `turn` only at `flush`, for slow disks.
        redactor: applied to every text before it is written; off by default.

    The file is made by the first record. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        working_directory: str | Path,
        config: dict[str, Any] | None = None,
        *,
        sync: str = "always",
        redactor: Callable[[str], str] | None = None,
    ) -> None:
        self._working_dir = Path(working_directory).resolve()
        self._config = config if config is not None else {}
        self._sync = sync
        self._redactor = redactor
        self.stats = SessionStats()
        #: What this process has recorded, in order.
        self._records: list[dict[str, Any]] = []
        self._resumed_from: Path | None = None
        self._thread_id = ""
        self._writer: SessionWriter | None = None
        self._opening = threading.Lock()
        self._path: Path | None = None
        # Results by the call that they answer: a tool that ran is not run again after an interrupt or a crash.
        self._journal: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> SessionRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SessionRecorder(session_id={self.stats.session_id!r}, records={len(self._records)})"

    # --- writing

    @property
    def path(self) -> Path | None:
        """The transcript; `None` before the first record."""
        return self._path

    def record(self, record: dict[str, Any]) -> int:
        """Appends a record; it is on disk when this returns.

        A message gets an `id` if it has none, every record a `timestamp` and a `seq`, which is returned.

        Raises:
            StorageError: nothing was recorded; go on when the disk has room.
            SessionLockedError: another process writes this session.
        """
        if schema.is_transcript_message_record(record):
            record = schema.normalize_transcript_record(record)
            record.setdefault("id", f"m-{uuid.uuid4().hex[:16]}")
        record.setdefault("timestamp", schema.now_ms())
        first = self._opened().record(self._text(record))
        self._records.append(record)
        self._note_result(record)
        return first

    def recorded_result(self, key: str) -> dict[str, Any] | None:
        """The recorded result of a call, by its journal key; `None` if it never came to one."""
        return self._journal.get(key)

    def _note_result(self, record: dict[str, Any]) -> None:
        key = record.get("journal")
        if isinstance(key, str):
            self._journal[key] = record
            # Only the newest batches can be run again.
            while len(self._journal) > MAX_JOURNAL:
                del self._journal[next(iter(self._journal))]

    def flush(self) -> Path | None:
        """Writes what the session came to and makes everything durable; `None` if nothing was recorded."""
        if self._writer is None:
            return None
        end = schema.make_session_end_record(
            session_id=self.stats.session_id, thread_id=self._thread_id, stats=self.stats.to_dict()
        )
        self._writer.record(self._text(end))
        self._writer.flush()
        logger.info("session saved to %s (%d records)", self._path, len(self._records))
        return self._path

    def close(self) -> None:
        """Flushes and lets the session go; another process may then write it."""
        if self._writer is not None:
            try:
                self.flush()
            finally:
                self._writer.close()
                self._writer = None

    def set_thread_id(self, thread_id: str) -> None:
        """The LangGraph thread that the session belongs to."""
        self._thread_id = thread_id

    def resume_from(self, filepath: str | Path) -> None:
        """Goes on with a recorded session: its id, its thread, its file.

        Raises:
            StorageError: if it cannot be read.
        """
        filepath = Path(filepath)
        start = _core.session_listing(filepath)["start"] or {}
        self._resumed_from = filepath
        self.stats.session_id = str(start.get("sessionId") or "").strip() or self.stats.session_id
        self._thread_id = str(start.get("threadId") or "").strip() or self._thread_id
        if self._writer is not None:
            self.close()
        self._path = filepath
        for record in _core.resume_session(filepath, accept_memory=True)["messages"]:
            self._note_result(record)
        logger.info(
            "resume_from: bound session file=%s session_id=%s thread_id=%s",
            filepath,
            self.stats.session_id,
            self._thread_id,
        )

    def _opened(self) -> SessionWriter:
        # Tools run in threads: the first two results must not both open the session.
        with self._opening:
            return self._writer if self._writer is not None else self._open()

    def _open(self) -> SessionWriter:
        path = self._path or self._resumed_from
        is_new = path is None
        if path is None:
            stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
            name = f"session-{stamp}-{_core.safe_name(self.stats.session_id)}.jsonl"
            path = self._get_history_dir() / name
        writer = self._open_writer(path)
        torn = writer.torn_tail
        if torn is not None:
            logger.warning("the session's last record was torn; %d bytes saved as %s", torn[1], torn[0])
        if is_new:
            writer.record(self._text(self._start_record()))
        self._path, self._writer = path, writer
        return writer

    def _open_writer(self, path: Path) -> SessionWriter:
        try:
            writer = SessionWriter(path.parent, path.name, sync=self._sync)
        except SessionLockedError:
            # Another recorder of this process, which the user has gone on from: it lets the session go.
            other = _WRITING.get(path)
            if other is None or other is self or path != self._resumed_from:
                raise
            other.close()
            writer = SessionWriter(path.parent, path.name, sync=self._sync)
        _WRITING[path] = self
        return writer

    def _start_record(self) -> dict[str, Any]:
        return schema.make_session_start_record(
            session_id=self.stats.session_id,
            thread_id=self._thread_id,
            project=str(self._working_dir),
            model=self.stats.model,
            branch=self._get_git_branch(),
            timestamp=int(self.stats.start_time * 1000),
        )

    def _text(self, record: dict[str, Any]) -> str:
        """A record as JSON. What JSON cannot hold becomes text; lone surrogates become U+FFFD, and the record says so."""
        if self._redactor is not None:
            record = _map_texts(record, self._redactor)
        try:
            text = json.dumps(record, ensure_ascii=False, allow_nan=False, default=str)
            text.encode("utf-8")
            return text
        except UnicodeEncodeError:
            lossy = {**_map_texts(record, _without_surrogates), "lossy": True}
            return json.dumps(lossy, ensure_ascii=False, default=str)
        except (ValueError, TypeError, RecursionError):
            return json.dumps(_map_texts(record, _without_surrogates), ensure_ascii=False, default=str)

    # --- reading

    def list_sessions(self) -> list[dict[str, Any]]:
        """The project's sessions, newest first, from the head and the tail of each file only.

        `message_count` is exact for short files; for others it is estimated from the file's size (`message_count_estimated`).
        """
        folder = self._get_history_dir()
        files = sorted(folder.glob("session-*.jsonl"), key=_modified, reverse=True) if folder.is_dir() else []
        sessions = []
        for path in files:
            try:
                found = _core.session_listing(path)
            except OSError as error:
                logger.warning("%s is passed over: %s", path, error)
                continue
            first = found["first_user_message"]
            if not first:
                continue
            start = found["start"] or {}
            sessions.append(
                {
                    "session_id": str(start.get("sessionId") or ""),
                    "thread_id": str(start.get("threadId") or ""),
                    "model": str(start.get("model") or ""),
                    "branch": str(start.get("branch") or ""),
                    "timestamp": int(start.get("timestamp") or 0),
                    "first_user_message": first[:80],
                    "message_count": found["message_count"],
                    "message_count_estimated": found["estimated"],
                    "file_size": found["size"],
                    "filepath": path,
                }
            )
        return sessions

    def load_raw_session(self, filepath: str | Path) -> list[dict[str, Any]]:
        """All records of a session but its starts and ends; damaged lines are told in the log and left out."""
        records: list[dict[str, Any]] = []

        def keep(_offset: int, record: dict[str, Any]) -> None:
            kind = schema.get_record_type(record)
            if kind in (schema.RECORD_SESSION_START, schema.RECORD_SESSION_END):
                return
            if kind == schema.RECORD_TRANSCRIPT_MESSAGE:
                record = schema.normalize_transcript_record(record)
            elif kind == schema.RECORD_SESSION_MEMORY_UPDATE:
                record = schema.normalize_session_memory_update_record(record)
            records.append(record)

        damaged = _core.scan_session(Path(filepath), keep)
        _tell_damage(filepath, damaged)
        return records

    def load_session(self, filepath: str | Path) -> list[dict[str, Any]]:
        """The records of a session that a user interface can show."""
        return [record for record in self.load_raw_session(filepath) if schema.is_renderable_record(record)]

    def build_resume_messages(self, filepath: str | Path, *, provider: str = "openai") -> list[Any]:
        """The messages to go on with: boundary, summary, kept tail, everything later; valid for the provider (plan M1).

        Reads backward to the last complete compaction: the cost follows the tail, not the file. What was cleared is cleared again; a call
        without a result gets one that says its outcome is unknown, and is not run again.
        """
        filepath = Path(filepath)
        session_id = str((_core.session_listing(filepath)["start"] or {}).get("sessionId") or "")
        folder = artifacts.get_session_artifact_dir(
            self._working_dir, self._config, session_id or self.stats.session_id
        )
        found = _core.resume_session(
            filepath, accept_memory=(folder / "session-memory" / "summary.md").is_file()
        )
        _tell_damage(filepath, found["damaged"])
        messages = build_messages(found, folder, provider=provider)
        logger.info("build_resume_messages: filepath=%s resumed_messages=%d", filepath, len(messages))
        return messages

    def estimate_messages_tokens(self, messages: Sequence[Any]) -> int:
        """Tokens of a message list."""
        return estimate_message_tokens(messages)

    # --- places

    def _get_history_dir(self) -> Path:
        return artifacts.get_history_dir(self._working_dir, self._config)

    def get_artifact_dir(self) -> Path:
        """Where this session's artifacts lie."""
        return artifacts.get_session_artifact_dir(self._working_dir, self._config, self.stats.session_id)

    def get_tool_result_artifact_path(self, tool_call_id: str, suffix: str = ".txt") -> Path:
        """Where the first result of a call is kept."""
        return artifacts.get_tool_result_path(
            self._working_dir, self._config, self.stats.session_id, tool_call_id, suffix
        )

    def get_session_memory_artifact_dir(self) -> Path:
        """Where this session's memory lies."""
        return artifacts.get_session_memory_dir(self._working_dir, self._config, self.stats.session_id)

    def get_checkpoint_path(self) -> Path:
        """The project's LangGraph checkpoints; the directory is made, private."""
        folder = self._get_history_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / "checkpoints.sqlite"

    def _get_git_branch(self) -> str:
        try:
            done = subprocess.run(
                ["git", "rev-parse", "--abbrev-ref", "HEAD"],
                cwd=self._working_dir,
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _tell_damage(path: str | Path, damaged: Sequence[tuple[int, str]]) -> None:
    for offset, reason in damaged:
        logger.warning("%s: a damaged line at byte %d (%s) was passed over", path, offset, reason)


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _map_texts(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """A copy of a value that JSON can hold, its texts changed; what is nested too deeply becomes text."""
    if isinstance(value, str):
        return change(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if depth > 100:
        return "(nested too deeply)"
    if isinstance(value, dict):
        return {change(str(key)): _map_texts(item, change, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_map_texts(item, change, depth + 1) for item in value]
    return change(str(value))
