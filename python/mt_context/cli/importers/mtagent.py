"""MT-Agent session files, of every age, and our own transcripts.

- v2: `transcript_message` records are the conversation; `compact_boundary` and the like are events between
  them.
- before v2: the same messages, with `compression` records that hold a summary.
- the oldest: `user`, `thought`, `assistant`, `tool_request` and `tool_complete` records. Their calls have no
  ids: a result answers the oldest open request of its tool. They are read until the first
  `transcript_message`; after it the same record types only describe what the terminal showed.

Unknown record types are counted in the notes. A persisted result is known by its metadata, never by its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .model import (
    Damage,
    MessageLog,
    Record,
    Session,
    as_text,
    count,
    counts,
    dicts,
    simplify,
    timestamp_ms,
    tool_call,
    usage,
    word,
)
from .openai_chat import openai_call

_ROLES = {"user", "assistant", "tool", "system"}
_EVENTS = {
    "compact_boundary": "boundary",
    "compression": "boundary",
    "compaction": "boundary",
    "micro_compacted": "microcompact",
    "microcompact": "microcompact",
}
_EVENT_FIELDS = (
    "reason",
    "pre_tokens",
    "post_tokens",
    "removed_count",
    "kept_count",
    "first_kept_id",
    "tool_call_ids",
)
_SCREEN = {
    "tool_request",
    "tool_complete",
    "tool_diff",
    "approval_request",
    "approval_decision",
    "thought",
    "tool_call",
}
_QUIET = {"session_memory_update", "tool_result_artifact", "session_end"}


def is_record(value: Record) -> bool:
    """True for a record that only MT-Agent and we write."""
    kind = value.get("type")
    if kind == "session_start":
        return "sessionId" in value
    if kind == "transcript_message":
        return word(value.get("role")) in _ROLES
    if kind == "user":
        return isinstance(value.get("display"), str) and "message" not in value
    return kind in ("tool_request", "tool_complete") and isinstance(value.get("tool_name"), str)


class _Reader:
    """The state while one file is read."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.log = MessageLog()
        self.skipped: Counter[str] = Counter()
        self.modern = False
        self.thought: str | None = None
        self.open: list[tuple[str, str]] = []
        self.legacy_calls = 0

    def take(self, record: Record) -> None:
        kind = as_text(record.get("type"))
        if kind == "session_start":
            self._start(record)
        elif kind == "transcript_message" and word(record.get("role")) in _ROLES:
            self.modern = True
            self._message(record)
        elif kind in _EVENTS:
            self.log.event(_EVENTS[kind], {key: record[key] for key in _EVENT_FIELDS if key in record})
        elif kind in ("user", "assistant") or (kind in _SCREEN and not self.modern):
            self._legacy(kind, record)
        elif kind not in _QUIET and kind not in _SCREEN:
            self.skipped[kind] += 1

    def _start(self, record: Record) -> None:
        if isinstance(record.get("model"), str) and record["model"]:
            self.session.model = record["model"]
        if record.get("sessionId"):
            self.session.name = as_text(record["sessionId"])
        self.session.tools = dicts(record.get("tools")) or self.session.tools

    def _message(self, record: Record) -> None:
        role = as_text(record.get("role"))
        name = record.get("name")
        reason = record.get("reasoning_content")
        own = record.get("id")
        self.log.add(
            role,
            simplify(record.get("content")),
            tool_calls=_calls(record.get("tool_calls")) or None if role == "assistant" else None,
            tool_call_id=as_text(record.get("tool_call_id")) if role == "tool" else None,
            name=name if isinstance(name, str) and name else None,
            id=own if isinstance(own, str) and own else None,
            reasoning_content=reason if isinstance(reason, str) else None,
            timestamp_ms=timestamp_ms(record.get("timestamp")),
            status="error" if record.get("status") == "error" else None,
            usage=usage(record.get("usage")) if role == "assistant" else None,
            mt_context=_mark(record),
        )

    def _legacy(self, kind: str, record: Record) -> None:
        when = timestamp_ms(record.get("timestamp"))
        if kind == "user":
            self.open.clear()  # a new request: what is still open was never answered
            self.log.add("user", as_text(record.get("display", record.get("content"))), timestamp_ms=when)
        elif kind == "thought":
            self.thought = as_text(record.get("text"))
        elif kind == "assistant":
            self.log.add(
                "assistant", as_text(record.get("content")), reasoning_content=self.thought, timestamp_ms=when
            )
            self.thought = None
            if isinstance(record.get("model"), str) and record["model"]:
                self.session.model = self.session.model or record["model"]
        elif kind == "tool_request":
            self._legacy_request(record, when)
        elif kind == "tool_complete":
            self._legacy_result(record, when)

    def _legacy_request(self, record: Record, when: int | None) -> None:
        call = tool_call(f"call-{self.legacy_calls}", record.get("tool_name"), record.get("arguments"))
        self.legacy_calls += 1
        last = self.log.messages[-1] if self.log.messages else None
        if last is None or last["role"] != "assistant":
            last = self.log.add("assistant", "", reasoning_content=self.thought, timestamp_ms=when)
            self.thought = None
        last.setdefault("tool_calls", []).append(call)
        self.log.learn(call)
        self.open.append((call["function"]["name"], call["id"]))

    def _legacy_result(self, record: Record, when: int | None) -> None:
        name = as_text(record.get("tool_name"))
        position = next((i for i, (tool, _) in enumerate(self.open) if tool == name), None)
        failed = record.get("status") == "error"
        text = record.get("error_msg") if failed else record.get("result", record.get("display"))
        self.log.add(
            "tool",
            as_text(text),
            tool_call_id="" if position is None else self.open.pop(position)[1],
            name=name,
            timestamp_ms=when,
            status="error" if failed else None,
        )


def _calls(raw: Any) -> list[Record]:
    """LangChain's `{name, args, id}`, or OpenAI's form."""
    calls = []
    for call in raw if isinstance(raw, list) else ():
        if isinstance(call, dict):
            is_openai = isinstance(call.get("function"), dict)
            calls.append(
                openai_call(call)
                if is_openai
                else tool_call(call.get("id"), call.get("name"), call.get("args"))
            )
    return calls


def _mark(record: Record) -> Record | None:
    """What the record's metadata says about the message: persisted to an artifact, or a compaction's
    summary."""
    mark = record.get("mt_context")
    if isinstance(mark, dict):
        return mark
    artifact = record.get("artifact")
    if isinstance(artifact, dict) and isinstance(artifact.get("path"), str):
        found: Record = {"kind": "persisted", "path": artifact["path"]}
        result = record.get("toolUseResult")
        budget = result.get("budget") if isinstance(result, dict) else None
        original = count(budget.get("original_chars")) if isinstance(budget, dict) else None
        return found if original is None else {**found, "original_chars": original}
    if record.get("role") == "system" and record.get("name") == "compact_summary":
        return {"kind": "summary"}
    return None


def from_lines(path: str, objects: Iterable[Record], damaged: list[Damage]) -> list[Session]:
    """The one session of the file."""
    session = Session(path, "mtagent", "session", damaged=damaged)
    reader = _Reader(session)
    for record in objects:
        reader.take(record)
    if reader.skipped:
        session.notes.append("record types without messages: " + counts(reader.skipped))
    return [reader.log.finish(session)]
