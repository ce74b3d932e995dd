"""LangChain messages as dicts: `messages_to_dict`, `dumpd`, `model_dump`, alone, in `{"messages": …}`, or as
JSONL.

No LangChain is imported: the three forms are read from their shape. `RemoveMessage` is an instruction to a
graph's state, not a message; it is counted in the notes. Chunks that share an id stay apart, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model import (
    Damage,
    MessageLog,
    Record,
    Session,
    as_text,
    dicts,
    simplify,
    timestamp_ms,
    tool_call,
    usage,
)
from .openai_chat import ROLES, conversations, episode_name, openai_call

_TYPES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "",  # its role is in the data
    "developer": "system",
    "remove": "remove",
}


def parts(value: Any) -> tuple[str, Record] | None:
    """(LangChain's type name, the message's fields) of a message in any of the three forms."""
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind == "constructor" and value.get("lc") == 1 and isinstance(value.get("id"), list) and value["id"]:
        fields = value.get("kwargs")
        class_name = as_text(value["id"][-1])
        if not isinstance(fields, dict) or "Message" not in class_name:
            return None
        kind = fields.get("type") or class_name.replace("MessageChunk", "").replace("Message", "").lower()
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        fields = value["data"]
    elif "content" in value and ("additional_kwargs" in value or "response_metadata" in value):
        fields = value
    else:
        return None
    name = as_text(kind).replace("MessageChunk", "").lower()
    return (name, fields) if name in _TYPES else None


def is_message(value: Any) -> bool:
    """True for one LangChain message in any form."""
    return parts(value) is not None


def is_document(value: Any) -> bool:
    """True if it holds LangChain messages and nothing else in their place."""
    found = False
    for _, messages in conversations(value, is_message):
        found = True
        if not all(is_message(message) for message in messages if isinstance(message, dict)):
            return False
    return found


def from_document(path: str, value: Any, damaged: list[Damage]) -> list[Session]:
    """One session per list of messages."""
    sessions = [
        _session(path, holder, messages, index, damaged)
        for index, (holder, messages) in enumerate(conversations(value, is_message))
    ]
    if sessions:
        sessions[0].damaged = damaged
    return sessions


def from_lines(path: str, objects: Iterable[Record], damaged: list[Damage]) -> list[Session]:
    """JSONL: lines that are messages make one session, a line that holds messages makes one by itself."""
    sessions: list[Session] = []
    loose: list[Any] = []
    other = 0
    for value in objects:
        if is_message(value):
            loose.append(value)
            continue
        found = False
        for holder, messages in conversations(value, is_message):
            found = True
            sessions.append(_session(path, holder, messages, len(sessions), damaged))
        other += not found
    if loose:
        sessions.insert(0, _session(path, {}, loose, 0, damaged))
    if sessions:
        if other:
            sessions[0].notes.append(f"{other} lines hold no LangChain message")
        sessions[0].damaged = damaged
    return sessions


def _session(path: str, holder: Record, messages: list[Any], index: int, damaged: list[Damage]) -> Session:
    session = Session(path, "langchain", episode_name(holder, index))
    session.tools = dicts(holder.get("tools"))
    log = MessageLog()
    removed = 0
    for position, message in enumerate(messages):
        found = parts(message)
        if found is None:
            damaged.append(
                Damage(0, 0, f"element {position} of conversation {index} is no LangChain message")
            )
        elif _TYPES[found[0]] == "remove":
            removed += 1
        else:
            _add(log, session, *found)
    if removed:
        session.notes.append(f"{removed} RemoveMessage entries skipped")
    return log.finish(session)


def _add(log: MessageLog, session: Session, kind: str, fields: Record) -> None:
    extra = _dict(fields.get("additional_kwargs"))
    response = _dict(fields.get("response_metadata"))
    role = _TYPES[kind] or ROLES.get(as_text(fields.get("role")), "user")
    model = response.get("model_name") or response.get("model")
    if session.model is None and isinstance(model, str) and model:
        session.model = model
    mark = extra.get("mt_context")
    name = fields.get("name")
    own = fields.get("id")
    reason = extra.get("reasoning_content")
    log.add(
        role,
        simplify(fields.get("content")),
        tool_calls=_calls(fields, extra) or None if role == "assistant" else None,
        tool_call_id=as_text(fields.get("tool_call_id")) if role == "tool" else None,
        name=name if isinstance(name, str) and name else None,
        id=own if isinstance(own, str) and own else None,
        reasoning_content=reason if isinstance(reason, str) else None,
        timestamp_ms=timestamp_ms(response.get("timestamp_ms")),
        status="error" if fields.get("status") == "error" else None,
        usage=usage_metadata(fields.get("usage_metadata")) or usage(response.get("token_usage")),
        mt_context=mark if isinstance(mark, dict) else None,
    )


def _calls(fields: Record, extra: Record) -> list[Record]:
    """Calls in order, invalid ones last (their arguments are text that isn't JSON)."""
    calls = [
        tool_call(call.get("id"), call.get("name"), call.get("args"))
        for key in ("tool_calls", "invalid_tool_calls")
        for call in dicts(fields.get(key))
    ]
    if not calls:
        calls = [openai_call(call) for call in dicts(extra.get("tool_calls"))]
    if not calls and isinstance(fields.get("content"), list):
        calls = [
            tool_call(block.get("id"), block.get("name"), block.get("input"))
            for block in fields["content"]
            if isinstance(block, dict) and block.get("type") == "tool_use"
        ]
    return calls


def usage_metadata(raw: Any) -> Record | None:
    """LangChain's own usage, whose input figure already includes what came from a cache."""
    found = (
        usage({k: v for k, v in raw.items() if k in ("input_tokens", "output_tokens")})
        if isinstance(raw, dict)
        else None
    )
    return found


def _dict(value: Any) -> Record:
    return value if isinstance(value, dict) else {}
