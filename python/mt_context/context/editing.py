"""Messages of any form, read and copied with changes. The input is never mutated; everything not named stays as it is.

A form is LangChain's (an object with `content` and `type`) or a dict with a `role`. Our own facts about a message are kept out of its
text: in `additional_kwargs["mt_context"]` of an object, in `["mt_context"]` of a dict. Neither is sent to a provider.
"""

from __future__ import annotations

import copy
import json
from typing import Any

METADATA_KEY = "mt_context"

__all__ = [
    "METADATA_KEY",
    "call_arguments",
    "copy_with",
    "field",
    "kind_of",
    "make_tool_result",
    "make_user",
    "metadata",
    "metadata_change",
    "role_of",
    "tool_calls",
    "with_metadata",
]

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}


def field(message: Any, name: str, default: Any = None) -> Any:
    """A field of a message of either form."""
    if isinstance(message, dict):
        return message.get(name, default)
    return getattr(message, name, default)


def role_of(message: Any) -> str:
    """`system`, `user`, `assistant`, `tool`, or the form's own word."""
    word = field(message, "role") or field(message, "type") or ""
    return _ROLES.get(word, word)


def metadata(message: Any) -> dict[str, Any]:
    """What mt_context knows about a message; empty for an ordinary one."""
    extra = message if isinstance(message, dict) else getattr(message, "additional_kwargs", None)
    ours = extra.get(METADATA_KEY) if isinstance(extra, dict) else None
    return ours if isinstance(ours, dict) else {}


def kind_of(message: Any) -> str | None:
    """`boundary`, `summary`, `memory_summary`, `cleared`, `persisted`, `synthetic`, or `None` for an ordinary message."""
    kind = metadata(message).get("kind")
    return kind if isinstance(kind, str) else None


def copy_with(message: Any, **changes: Any) -> Any:
    """A copy of a message with some fields changed."""
    if isinstance(message, dict):
        return {**message, **changes}
    if hasattr(message, "model_copy"):
        return message.model_copy(update=changes)
    new = copy.copy(message)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


def metadata_change(message: Any, **facts: Any) -> dict[str, Any]:
    """The change for `copy_with` that adds facts of ours to a message."""
    ours = {**metadata(message), **facts}
    if isinstance(message, dict):
        return {METADATA_KEY: ours}
    extra = getattr(message, "additional_kwargs", None) or {}
    return {"additional_kwargs": {**extra, METADATA_KEY: ours}}


def with_metadata(message: Any, **facts: Any) -> Any:
    """A copy of a message that carries more facts of ours."""
    return copy_with(message, **metadata_change(message, **facts))


def tool_calls(message: Any) -> list[Any]:
    """The calls of an assistant message in the order that the core counts them: valid ones, then invalid ones."""
    calls = list(field(message, "tool_calls") or [])
    calls.extend(field(message, "invalid_tool_calls") or [])
    if calls:
        return calls
    content = field(message, "content")
    kinds = ("tool_use", "tool_call", "function_call")
    return (
        [b for b in content if isinstance(b, dict) and b.get("type") in kinds]
        if isinstance(content, list)
        else []
    )


def call_arguments(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of any form as a dict; empty where they are not a JSON object."""
    source = call.get("function") if isinstance(call.get("function"), dict) else call
    for key in ("args", "arguments", "input"):
        value = source.get(key)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return {}
        if isinstance(value, dict):
            return value
    return {}


def make_user(like: Any, text: str, **facts: Any) -> Any:
    """A user message in the form of `like`."""
    if isinstance(like, dict):
        return {"role": "user", "content": text, METADATA_KEY: facts}
    from langchain_core.messages import HumanMessage

    return HumanMessage(content=text, additional_kwargs={METADATA_KEY: facts})


def make_tool_result(like: Any, text: str, *, tool_call_id: str, name: str, **facts: Any) -> Any:
    """A tool result with an error status in the form of `like`."""
    if isinstance(like, dict):
        return {
            "role": "tool",
            "tool_call_id": tool_call_id,
            "name": name,
            "content": text,
            "status": "error",
            METADATA_KEY: facts,
        }
    from langchain_core.messages import ToolMessage

    return ToolMessage(
        content=text,
        tool_call_id=tool_call_id,
        name=name,
        status="error",
        additional_kwargs={METADATA_KEY: facts},
    )
