"""Carries out what the core plans for a compaction: the new view as messages (spec 8, `policies.md` 5.5 to 5.7).

Order: system messages, boundary, summary, pinned user messages, tail. The plan's reductions are applied on the way. No LLM is asked
here: whoever calls brings the summary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mt_context import _core
from mt_context._core import TokenBudget, TokenCounter
from mt_context.context import editing
from mt_context.context.budget import estimate_message_tokens

__all__ = ["CompactionPlan", "carry_out", "plan_compaction", "reduce_message"]

#: Names the full text of a message for the reader of its shortened form; `None` if there is no name.
Reference = Callable[[Any], "str | None"]


class CompactionPlan(NamedTuple):
    """What a compaction keeps, pins, summarises and shrinks: indexes into the message list."""

    summarise: list[int]
    system: list[int]
    pinned: list[int]
    tail: int
    #: (index, `content` or `arguments`, tokens it may have)
    reductions: list[tuple[int, str, int]]
    planned_tokens: int


def plan_compaction(
    messages: Sequence[Any],
    budget: TokenBudget,
    counter: TokenCounter,
    *,
    overhead: int = 0,
    target: int | None = None,
    summary_tokens: int | None = None,
    cut: int | None = None,
) -> CompactionPlan:
    """Plans a compaction; needs no LLM and touches nothing.

    Args:
        overhead: tokens of the system prompt and tool schemas that are not in the list.
        target: the view may have at most this many tokens afterwards; by default 0.7 of the threshold.
        summary_tokens: allowance for boundary and summary.
        cut: a cut of the user's own, on a group's edge.

    Raises:
        IrreducibleContextError: if what must stay is larger than the target.
    """
    plan = _core.plan_compaction(
        counter,
        messages,
        budget=budget,
        overhead=overhead,
        target=target,
        summary_tokens=summary_tokens,
        cut=cut,
    )
    return CompactionPlan(**plan)


def carry_out(
    messages: Sequence[Any],
    plan: CompactionPlan,
    *,
    boundary: Any,
    summary: Any,
    counter: TokenCounter,
    reference: Reference = lambda message: None,
) -> list[Any]:
    """The view after a compaction. `boundary` and `summary` are messages; a plan that summarises nothing leaves them out."""
    reduced: dict[int, Any] = {}
    for index, part, max_tokens in plan.reductions:
        message = reduced.get(index, messages[index])
        reduced[index] = reduce_message(message, part, max_tokens, counter, reference)
    kept = [reduced.get(i, messages[i]) for i in [*plan.pinned, *range(plan.tail, len(messages))]]
    system = [messages[i] for i in plan.system]
    if not plan.summarise:
        return [*system, *kept]
    return [*system, boundary, summary, *kept]


def reduce_message(
    message: Any,
    part: str,
    max_tokens: int,
    counter: TokenCounter,
    reference: Reference = lambda message: None,
) -> Any:
    """A copy of a message in which one part has at most about `max_tokens` tokens, and says what is missing and where it is."""
    if part == "arguments":
        return _reduce_arguments(message, max_tokens, counter)
    where = reference(message)
    content = editing.field(message, "content")
    is_result = editing.role_of(message) == "tool"
    facts = {"kind": "persisted", "artifact": where} if is_result and where else {"reduced": True}

    def shorten(text: str, tokens: int) -> str:
        if is_result:
            return _preview(editing.field(message, "name") or "", text, tokens, where, counter)
        return clip(text, tokens, counter, where)

    if isinstance(content, str):
        return editing.with_metadata(
            editing.copy_with(message, content=shorten(content, max_tokens)), **facts
        )
    if not isinstance(content, (list, tuple)):
        return message
    # Text blocks share the allowance, media stay: what is left for text is not less than a marker needs.
    texts = [i for i, block in enumerate(content) if _text_of(block) is not None]
    blocks = list(content)
    for i in texts:
        text = shorten(_text_of(blocks[i]) or "", max(max_tokens // len(texts), 60))
        blocks[i] = text if isinstance(blocks[i], str) else {**blocks[i], "text": text}
    return editing.with_metadata(editing.copy_with(message, content=blocks), **facts)


def _text_of(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def _preview(tool_name: str, text: str, max_tokens: int, where: str | None, counter: TokenCounter) -> str:
    return _fit(
        lambda chars: _core.preview_text(tool_name, text, max_chars=chars, artifact=where),
        len(text),
        max_tokens,
        counter,
    )


def clip(text: str, max_tokens: int, counter: TokenCounter, where: str | None = None) -> str:
    """Head and tail of a text, with a note of what is missing between them."""
    if counter.count(text) <= max_tokens:
        return text
    place = f"; the whole text is in {where}" if where else ""

    def shortened(chars: int) -> str:
        note = f"\n[… {{}} characters left out{place} …]\n"
        room = max(chars - len(note), 20)
        head, tail = text[: room * 2 // 3], text[len(text) - room // 3 :]
        return head + note.format(len(text) - len(head) - len(tail)) + tail

    return _fit(shortened, len(text), max_tokens, counter)


def _fit(shorten: Callable[[int], str], length: int, max_tokens: int, counter: TokenCounter) -> str:
    """The longest of a few attempts that has at most `max_tokens` tokens; the shortest if none has."""
    chars = min(length, max_tokens * 4)
    best = shorten(chars)
    for _ in range(8):
        tokens = counter.count(best)
        if tokens <= max_tokens:
            break
        chars = max(min(int(chars * max_tokens / tokens * 0.9), chars - 1), 1)
        best = shorten(chars)
    return best


def _reduce_arguments(message: Any, max_tokens: int, counter: TokenCounter) -> Any:
    """Shortens the long strings in the arguments of a message's calls; names, ids and short values stay."""
    calls = list(editing.field(message, "tool_calls") or [])
    content = editing.field(message, "content")
    limit = max_tokens * 3 // max(len(calls), 1)
    for _ in range(6):
        new_calls = [
            _call_with_arguments(call, _clip_strings(editing.call_arguments(call), limit)) for call in calls
        ]
        new = editing.with_metadata(editing.copy_with(message, tool_calls=new_calls), reduced=True)
        if isinstance(content, list):
            blocks = [
                {**b, "input": _clip_strings(b["input"], limit)}
                if isinstance(b, dict) and b.get("type") == "tool_use" and isinstance(b.get("input"), dict)
                else b
                for b in content
            ]
            new = editing.copy_with(new, content=blocks)
        bare = editing.copy_with(new, content="")
        if estimate_message_tokens([bare], counter=counter) <= max_tokens + 8 or limit <= 8:
            return new
        limit //= 2
    return new


def _call_with_arguments(call: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    if isinstance(call.get("function"), dict):
        text = json.dumps(arguments, ensure_ascii=False)
        return {**call, "function": {**call["function"], "arguments": text}}
    return {**call, "args": arguments}


def _clip_strings(value: Any, limit: int, items: int = 20) -> Any:
    if isinstance(value, str) and len(value) > limit + 40:
        return f"{value[: max(limit, 0)]} [… {len(value) - max(limit, 0)} characters left out …]"
    if isinstance(value, dict):
        kept = {key: _clip_strings(item, limit, items) for key, item in list(value.items())[:items]}
        return kept if len(value) <= items else {**kept, "…": f"{len(value) - items} more entries left out"}
    if isinstance(value, list):
        kept = [_clip_strings(item, limit, items) for item in value[:items]]
        return kept if len(value) <= items else [*kept, f"… {len(value) - items} more items left out"]
    return value
