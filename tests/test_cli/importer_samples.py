"""Small session files of each format, built here, and the helpers that read them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mt_context.cli import importers
from mt_context.cli.importers import SessionFileError, load

NOON = "2026-03-01T12:00:00.250Z"


NOON_MS = 1_772_366_400_250


def write(path: Path, *values: Any) -> Path:
    """One value is a JSON document; several are JSON lines; bytes are written as they are."""
    if len(values) == 1 and isinstance(values[0], bytes):
        path.write_bytes(values[0])
    else:
        path.write_text(
            "\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n", encoding="utf-8"
        )
    return path


def only(path: Path, format: str | None = None) -> importers.Session:
    """The one session of a file."""
    (session,) = load(path, format)
    return session


def shape(session: importers.Session) -> list[str]:
    """`assistant+2` is an assistant message with two calls, `tool=c1` the result of c1."""
    return [
        m["role"]
        + (f"+{len(m['tool_calls'])}" if m.get("tool_calls") else "")
        + (f"={m['tool_call_id']}" if m["role"] == "tool" else "")
        for m in session.messages
    ]


def call(call_id: str, name: str = "grep", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "找出所有 TODO"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("c1", "grep", '{"pattern": "TODO"}'), call("c2", "ls")],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a.py:1: # TODO"},
    {"role": "tool", "tool_call_id": "c2", "content": "a.py"},
    {"role": "assistant", "content": "One TODO, in a.py."},
]


CHAT_SHAPE = ["system", "user", "assistant+2", "tool=c1", "tool=c2", "assistant"]


def lc(kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": content, "type": kind, "additional_kwargs": {}, **fields}}


LANGCHAIN = [
    lc("system", "s"),
    lc("human", "go", id="h1"),
    lc(
        "ai",
        [
            {"type": "thinking", "thinking": "t", "signature": "g"},
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
        ],
        id="run-1",
        tool_calls=[{"name": "ls", "args": {"path": "."}, "id": "c1", "type": "tool_call"}],
        invalid_tool_calls=[{"name": "cat", "args": "{broken", "id": "c2", "error": "e"}],
        usage_metadata={"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        response_metadata={"model_name": "m", "timestamp_ms": NOON_MS},
    ),
    lc("tool", "boom", tool_call_id="c1", status="error"),
]


def transcript(role: str, content: str, **fields: Any) -> dict[str, Any]:
    base = {
        "tool_calls": [],
        "reasoning_content": None,
        "tool_call_id": "",
        "name": "",
        "toolUseResult": None,
        "artifact": None,
    }
    return {
        "type": "transcript_message",
        "role": role,
        "content": content,
        "timestamp": NOON_MS,
        **base,
        **fields,
    }


def cc(kind: str, content: Any, uuid: str, **fields: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": fields.pop("api", uuid),
            "model": fields.pop("model", "claude-x"),
            "usage": fields.pop("usage", None),
        }
    return {
        "type": kind,
        "parentUuid": None,
        "uuid": uuid,
        "sessionId": "s1",
        "isSidechain": False,
        "timestamp": NOON,
        "message": message,
        **fields,
    }


def use(call_id: str, name: str = "Read") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"p": 1}}


def result(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": NOON, "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": NOON, "type": "event_msg", "payload": {"type": kind, **fields}}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


HISTORY = [
    {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "issue"}],
        "agent": "main",
        "message_type": "observation",
    },
    {
        "role": "assistant",
        "content": "look",
        "tool_calls": [call("c1", "bash")],
        "agent": "main",
        "message_type": "action",
    },
    {
        "role": "tool",
        "content": "out",
        "tool_call_ids": ["c1"],
        "agent": "main",
        "message_type": "observation",
    },
]


def refusal(path: Path | str, format: str | None = None) -> str:
    """The error's text: always one line, always with the path."""
    with pytest.raises(SessionFileError) as caught:
        load(path, format)
    text = str(caught.value)
    assert isinstance(caught.value, ValueError) and "\n" not in text
    return text
