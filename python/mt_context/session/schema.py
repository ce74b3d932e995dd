"""The records of a transcript: one JSON object a line (plan M1). Field names are MT-Agent's; `seq` and `id` are ours.

Unknown types are kept and passed over. A compaction is one `compact_boundary` record with its summary and the id of the first message that
it kept, so there is no half of a compaction.
"""

from __future__ import annotations

import time
from typing import Any

__all__ = [
    "RECORD_COMPACT_BOUNDARY",
    "RECORD_COMPRESSION",
    "RECORD_MICROCOMPACT",
    "RECORD_SESSION_END",
    "RECORD_SESSION_MEMORY_UPDATE",
    "RECORD_SESSION_START",
    "RECORD_TOOL_RESULT_ARTIFACT",
    "RECORD_TRANSCRIPT_MESSAGE",
    "RENDERABLE_RECORD_TYPES",
    "get_record_type",
    "is_renderable_record",
    "is_transcript_message_record",
    "make_compact_boundary_record",
    "make_microcompact_record",
    "make_session_end_record",
    "make_session_memory_update_record",
    "make_session_start_record",
    "make_tool_result_artifact_record",
    "make_transcript_message_record",
    "normalize_compact_boundary_record",
    "normalize_session_memory_update_record",
    "normalize_transcript_record",
    "now_ms",
]

RECORD_SESSION_START = "session_start"
RECORD_SESSION_END = "session_end"
RECORD_TRANSCRIPT_MESSAGE = "transcript_message"
RECORD_TOOL_RESULT_ARTIFACT = "tool_result_artifact"
#: MT-Agent's first form of a compaction; only read.
RECORD_COMPRESSION = "compression"
RECORD_COMPACT_BOUNDARY = "compact_boundary"
RECORD_SESSION_MEMORY_UPDATE = "session_memory_update"
RECORD_MICROCOMPACT = "microcompact"

#: What a user interface can show of a session.
RENDERABLE_RECORD_TYPES = frozenset(
    {
        "thought",
        "tool_request",
        "tool_complete",
        "tool_diff",
        "tool_call",
        "approval_request",
        "approval_decision",
        RECORD_TRANSCRIPT_MESSAGE,
    }
)

Record = dict[str, Any]


def now_ms() -> int:
    """The time in ms since the epoch."""
    return int(time.time() * 1000)


def get_record_type(record: Record) -> str:
    """A record's type; empty if it has none."""
    kind = record.get("type")
    return kind if isinstance(kind, str) else ""


def is_transcript_message_record(record: Record) -> bool:
    """Whether a record is a message."""
    return get_record_type(record) == RECORD_TRANSCRIPT_MESSAGE


def is_renderable_record(record: Record) -> bool:
    """Whether a user interface can show a record."""
    return get_record_type(record) in RENDERABLE_RECORD_TYPES


def make_session_start_record(
    *,
    session_id: str,
    thread_id: str = "",
    project: str = "",
    model: str = "",
    branch: str = "",
    timestamp: int | None = None,
) -> Record:
    """The first record of a session."""
    return {
        "type": RECORD_SESSION_START,
        "sessionId": session_id,
        "threadId": thread_id,
        "project": project,
        "model": model,
        "branch": branch,
        "timestamp": now_ms() if timestamp is None else timestamp,
    }


def make_session_end_record(
    *, session_id: str, thread_id: str = "", stats: Record | None = None, timestamp: int | None = None
) -> Record:
    """What a session came to; a session that goes on has another one later."""
    return {
        "type": RECORD_SESSION_END,
        "sessionId": session_id,
        "threadId": thread_id,
        "stats": stats or {},
        "timestamp": now_ms() if timestamp is None else timestamp,
    }


def make_transcript_message_record(
    *,
    role: str,
    content: Any = "",
    tool_calls: list[Any] | None = None,
    reasoning_content: str | None = None,
    tool_call_id: str = "",
    name: str = "",
    tool_use_result: Any = None,
    artifact: Any = None,
    timestamp: int | None = None,
    **more: Any,
) -> Record:
    """A message of the user, the assistant, a tool or the system."""
    return {
        "type": RECORD_TRANSCRIPT_MESSAGE,
        "role": role,
        "content": content,
        "tool_calls": tool_calls or [],
        "reasoning_content": reasoning_content,
        "tool_call_id": tool_call_id,
        "name": name,
        "toolUseResult": tool_use_result,
        "artifact": artifact,
        "timestamp": now_ms() if timestamp is None else timestamp,
        **more,
    }


def make_compact_boundary_record(
    *, reason: str, pre_tokens: int, post_tokens: int, timestamp: int | None = None, **more: Any
) -> Record:
    """A compaction; `summary`, `kept_from_id` and `pinned` make it complete."""
    return {
        "type": RECORD_COMPACT_BOUNDARY,
        "reason": reason,
        "pre_tokens": pre_tokens,
        "post_tokens": post_tokens,
        "timestamp": now_ms() if timestamp is None else timestamp,
        **more,
    }


def make_microcompact_record(*, cleared: list[Record], reason: str, timestamp: int | None = None) -> Record:
    """Which results were cleared from the view: each by `id` and `tool_call_id`, with what it says now."""
    return {
        "type": RECORD_MICROCOMPACT,
        "cleared": cleared,
        "reason": reason,
        "timestamp": now_ms() if timestamp is None else timestamp,
    }


def make_tool_result_artifact_record(
    *, tool_call_id: str, name: str, artifact: Any, timestamp: int | None = None, **more: Any
) -> Record:
    """A result that was moved to an artifact after it had been recorded."""
    return {
        "type": RECORD_TOOL_RESULT_ARTIFACT,
        "tool_call_id": tool_call_id,
        "name": name,
        "artifact": artifact,
        "timestamp": now_ms() if timestamp is None else timestamp,
        **more,
    }


def make_session_memory_update_record(
    *,
    summary_path: str,
    last_summarized_message_id: str | None,
    tokens_at_last_extraction: int,
    tool_calls_since_last_update: int = 0,
    turn: int = 0,
    timestamp: int | None = None,
    **more: Any,
) -> Record:
    """The session memory has a new version."""
    return {
        "type": RECORD_SESSION_MEMORY_UPDATE,
        "summary_path": summary_path,
        "last_summarized_message_id": last_summarized_message_id,
        "tokens_at_last_extraction": tokens_at_last_extraction,
        "tool_calls_since_last_update": tool_calls_since_last_update,
        "turn": turn,
        "timestamp": now_ms() if timestamp is None else timestamp,
        **more,
    }


def _with_defaults(record: Record, defaults: Record) -> Record:
    new = {**defaults, **record}
    new.setdefault("timestamp", now_ms())
    return new


def normalize_transcript_record(record: Record) -> Record:
    """A copy of a message record with every field."""
    defaults = {
        "type": RECORD_TRANSCRIPT_MESSAGE,
        "role": "",
        "content": "",
        "tool_calls": [],
        "reasoning_content": None,
        "tool_call_id": "",
        "name": "",
        "toolUseResult": None,
        "artifact": None,
    }
    return _with_defaults(record, defaults)


def normalize_compact_boundary_record(record: Record) -> Record:
    """A copy of a boundary record with every field."""
    defaults = {"type": RECORD_COMPACT_BOUNDARY, "reason": "auto", "pre_tokens": 0, "post_tokens": 0}
    return _with_defaults(record, defaults)


def normalize_session_memory_update_record(record: Record) -> Record:
    """A copy of a memory record with every field."""
    defaults = {
        "type": RECORD_SESSION_MEMORY_UPDATE,
        "summary_path": "",
        "last_summarized_message_id": None,
        "tokens_at_last_extraction": 0,
        "tool_calls_since_last_update": 0,
        "turn": 0,
    }
    return _with_defaults(record, defaults)
