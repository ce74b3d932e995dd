"""A deterministic stand-in for a compaction's summary, so that a replay needs no model: what the user asked, which tools ran on what,
and where full results are. Bounded: the newest lines win.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mt_context import _core
from mt_context._core import TokenCounter
from mt_context.context import editing
from mt_context.context.budget import normalize_message_content

__all__ = ["boundary_message", "summary_message"]


def boundary_message(pre_tokens: int, post_tokens: int, *, last_kept: Any) -> dict[str, Any]:
    """The boundary of a compaction, with the last message that it kept: usage reported up to there is stale."""
    text = _core.compact_boundary_text(pre_tokens, post_tokens, "auto")
    facts = {"kind": "boundary", "last_kept_id": last_kept.get("id")}
    return {"role": "user", "content": text, editing.METADATA_KEY: facts}


def summary_message(messages: Sequence[Any], max_tokens: int, counter: TokenCounter) -> dict[str, Any]:
    """What the summarised messages were about, in at most `max_tokens` tokens."""
    lines: list[str] = []
    left = max_tokens - 30
    for line in _newest_first(messages):
        cost = counter.count(line) + 1
        if cost > left:
            lines.append("(earlier messages are in the transcript)")
            break
        left -= cost
        lines.append(line)
    text = _core.summary_text("\n".join(reversed(lines)))
    return {"role": "user", "content": text, editing.METADATA_KEY: {"kind": "summary"}}


def _newest_first(messages: Sequence[Any]) -> Iterator[str]:
    for message in reversed(messages):
        kind = editing.kind_of(message)
        if kind == "boundary":
            continue
        text = " ".join(normalize_message_content(editing.field(message, "content")).split())
        match editing.role_of(message):
            case "user" if kind == "summary":
                yield from reversed(editing.metadata(message).get("lines", []) or [_cut(text, 600)])
            case "user" if text:
                yield f"- The user said: {_cut(text, 300)}"
            case "assistant":
                for call in reversed(editing.tool_calls(message)):
                    yield f"- Ran {_call_line(call)}"
                if text:
                    yield f"- The assistant said: {_cut(text, 160)}"
            case "tool" if editing.metadata(message).get("artifact"):
                yield f"- Full result: {editing.metadata(message)['artifact']}"


def _call_line(call: dict[str, Any]) -> str:
    source = call.get("function") if isinstance(call.get("function"), dict) else call
    values = " ".join(str(v) for v in editing.call_arguments(call).values() if isinstance(v, (str, int)))
    return _cut(f"{source.get('name')}: {' '.join(values.split())}", 120)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
