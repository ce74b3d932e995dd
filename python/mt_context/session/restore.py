"""Builds the messages to go on with from the records of a session (plan M1, spec 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mt_context import _core
from mt_context.context import editing
from mt_context.context.message_invariants import repair_messages

__all__ = ["build_messages", "message_from_record"]


def build_messages(found: Mapping[str, Any], artifact_dir: Path, *, provider: str = "openai") -> list[Any]:
    """LangChain messages for what `resume_session` found: boundary, summary, pinned, tail, later messages; repaired."""
    messages: list[Any] = []
    boundary = found["boundary"]
    if boundary is not None:
        messages += _boundary_messages(boundary, found, artifact_dir)
    records = [r for r in found["messages"] if r.get("role") in ("user", "assistant", "tool")]
    messages += [message_from_record(record) for record in records]
    messages = _clear_again(messages, found["others"], artifact_dir)
    return repair_messages(messages, provider)  # type: ignore[arg-type]


def _boundary_messages(
    boundary: Mapping[str, Any], found: Mapping[str, Any], artifact_dir: Path
) -> list[Any]:
    from langchain_core.messages import HumanMessage

    record = boundary["record"]
    text = _core.compact_boundary_text(
        _count(record.get("pre_tokens")),
        _count(record.get("post_tokens")),
        str(record.get("reason") or "auto"),
    )
    facts = {"kind": "boundary", "last_kept_id": record.get("last_kept_id")}
    messages: list[Any] = [
        HumanMessage(text, id=record.get("id"), additional_kwargs={editing.METADATA_KEY: facts})
    ]
    summary = str(boundary["summary"] or "")
    if summary:
        # MT-Agent stores the summary in its tag, we store it bare.
        shown = (
            summary if summary.startswith("<conversation_history_summary>") else _core.summary_text(summary)
        )
        messages.append(
            HumanMessage(
                shown,
                id=record.get("summary_id"),
                additional_kwargs={editing.METADATA_KEY: {"kind": "summary"}},
            )
        )
    else:
        path = "session-memory/summary.md"
        for other in found["others"]:
            if other.get("type") == "session_memory_update" and other.get("summary_path"):
                path = str(other["summary_path"])
        memory = _read_text(artifact_dir / "session-memory" / "summary.md")
        if memory:
            messages.append(
                HumanMessage(
                    _core.memory_summary_text(memory, path),
                    additional_kwargs={editing.METADATA_KEY: {"kind": "memory_summary"}},
                )
            )
    return [*messages, *(message_from_record({"role": "user", **pinned}) for pinned in boundary["pinned"])]


def message_from_record(record: Mapping[str, Any]) -> Any:
    """The LangChain message of a transcript record of the user, the assistant or a tool."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    content = record.get("content")
    content = "" if content is None else content if isinstance(content, (str, list)) else str(content)
    common: dict[str, Any] = {"content": content, "id": record.get("id") or None}
    extra: dict[str, Any] = dict(record.get("additional_kwargs") or {})
    if isinstance(record.get(editing.METADATA_KEY), dict):
        extra[editing.METADATA_KEY] = record[editing.METADATA_KEY]
    role = record.get("role")
    if role == "assistant":
        if record.get("reasoning_content") is not None:
            extra["reasoning_content"] = record["reasoning_content"]
        metadata = {"timestamp_ms": int(record["timestamp"])} if record.get("timestamp") else {}
        valid, invalid = _calls(record.get("tool_calls") or [])
        return AIMessage(
            **common,
            tool_calls=valid,
            invalid_tool_calls=invalid,
            additional_kwargs=extra,
            response_metadata=metadata,
        )
    if role == "tool":
        artifact = record.get("artifact")
        if isinstance(artifact, dict) and isinstance(artifact.get("path"), str):
            extra.setdefault(editing.METADATA_KEY, {"kind": "persisted", "artifact": artifact["path"]})
        status = "error" if record.get("status") == "error" else "success"
        return ToolMessage(
            **common,
            tool_call_id=str(record.get("tool_call_id") or ""),
            name=record.get("name") or None,
            status=status,
            additional_kwargs=extra,
        )
    return HumanMessage(**common, additional_kwargs=extra)


def _calls(calls: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls in LangChain's form, from its own form or OpenAI's: valid ones, and those whose arguments are no object."""
    valid, invalid = [], []
    for call in calls:
        if not isinstance(call, dict):
            continue
        source = call.get("function") if isinstance(call.get("function"), dict) else call
        name, call_id = str(source.get("name") or ""), str(call.get("id") or "")
        arguments = source.get("args", source.get("arguments"))
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                parsed = None
        else:
            parsed = {} if arguments is None else arguments
        if isinstance(parsed, dict):
            valid.append({"name": name, "args": parsed, "id": call_id, "type": "tool_call"})
        else:
            invalid.append(
                {
                    "name": name,
                    "args": str(arguments),
                    "id": call_id,
                    "error": None,
                    "type": "invalid_tool_call",
                }
            )
    return valid, invalid


def _clear_again(messages: list[Any], others: Sequence[Mapping[str, Any]], artifact_dir: Path) -> list[Any]:
    """Replays what microcompact cleared, so that the view's beginning is the same as before."""
    cleared: dict[str, Mapping[str, Any]] = {}
    for record in others:
        if record.get("type") == "microcompact":
            for entry in record.get("cleared") or []:
                if isinstance(entry, dict):
                    cleared[str(entry.get("id") or entry.get("tool_call_id") or "")] = entry
    if not cleared:
        return messages
    view = []
    for message in messages:
        entry = cleared.get(str(message.id or "")) if message.type == "tool" else None
        if entry is not None:
            path = entry.get("artifact") if isinstance(entry.get("artifact"), str) else None
            facts = {
                key: entry[key] for key in ("saved_tokens", "cleared_after_id", "artifact") if key in entry
            }
            text = _core.cleared_text(path)
            change = editing.metadata_change(message, kind="cleared", **facts)
            message = editing.copy_with(message, content=text, **change)
        view.append(message)
    return view


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _count(value: Any) -> int:
    return max(int(value), 0) if isinstance(value, (int, float)) else 0
