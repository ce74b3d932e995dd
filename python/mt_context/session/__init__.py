"""The durable side: transcript, artifacts, figures of a session (plan M1)."""

from mt_context.session.recorder import SessionRecorder, format_file_size, format_relative_time
from mt_context.session.schema import (
    RECORD_COMPACT_BOUNDARY,
    RECORD_SESSION_END,
    RECORD_SESSION_MEMORY_UPDATE,
    RECORD_SESSION_START,
    RECORD_TOOL_RESULT_ARTIFACT,
    RECORD_TRANSCRIPT_MESSAGE,
)
from mt_context.session.stats import SessionStats

__all__ = [
    "RECORD_COMPACT_BOUNDARY",
    "RECORD_SESSION_END",
    "RECORD_SESSION_MEMORY_UPDATE",
    "RECORD_SESSION_START",
    "RECORD_TOOL_RESULT_ARTIFACT",
    "RECORD_TRANSCRIPT_MESSAGE",
    "SessionRecorder",
    "SessionStats",
    "format_file_size",
    "format_relative_time",
]
