"""Token counts and thresholds of a context window (plan M0).

>>> auto_compact_threshold(131072), auto_compact_threshold(65536)
(98072, 32536)
>>> TokenBudget(32768).level(23000)
'auto'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from mt_context._core import TokenBudget, auto_compact_threshold, calibrate, effective_context_limit
from mt_context.context.counting import TokenCounter, default_counter

__all__ = [
    "BudgetSnapshot",
    "TokenBudget",
    "auto_compact_threshold",
    "budget_snapshot",
    "calibrate",
    "effective_context_limit",
    "estimate_message_tokens",
    "normalize_message_content",
]


class BudgetSnapshot(TypedDict):
    """Where a message list stands in its window, in tokens."""

    raw_input_tokens: int
    effective_context_limit: int
    auto_compact_threshold: int
    tokens_until_compact: int


def estimate_message_tokens(
    messages: Sequence[Any],
    *,
    system: str | None = None,
    tools: Sequence[Any] | None = None,
    counter: TokenCounter | None = None,
) -> int:
    """Tokens of a message list, with the system prompt and tool schemas if given (plan M0, spec 1).

    Counts text content and text blocks, tool-call names and arguments, reasoning, names and ids, 4 tokens per message and 1 600 per
    image block whatever its size. An unchanged list costs next to nothing to count again.

    Args:
        messages: LangChain messages, OpenAI-style dicts or transcript records.
        system: a system prompt that is not in the list.
        tools: tool schemas bound to the model, as dicts.
        counter: whose vocabulary; by default `default_counter()`.
    """
    if not messages and system is None and not tools:
        return 0
    return (counter or default_counter()).count_messages(messages, system=system, tools=tools)


def budget_snapshot(
    messages: Sequence[Any],
    token_limit: int,
    reserved_summary_tokens: int | None = None,
    buffer_tokens: int | None = None,
    *,
    counter: TokenCounter | None = None,
) -> BudgetSnapshot:
    """Where a message list stands in a window of `token_limit` tokens (plan M0).

    Explicit `reserved_summary_tokens` and `buffer_tokens` are taken literally, as in `auto_compact_threshold`.
    """
    raw = estimate_message_tokens(messages, counter=counter)
    threshold = auto_compact_threshold(token_limit, reserved_summary_tokens, buffer_tokens)
    return {
        "raw_input_tokens": raw,
        "effective_context_limit": effective_context_limit(token_limit, reserved_summary_tokens),
        "auto_compact_threshold": threshold,
        "tokens_until_compact": max(threshold - raw, 0),
    }


def normalize_message_content(content: Any) -> str:
    """A message's content as one text: the text of its blocks, one a line; blocks without text are left out."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        texts = (block if isinstance(block, str) else _block_text(block) for block in content)
        return "\n".join(text for text in texts if text)
    return str(content)


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return str(block)
    for key in ("text", "thinking", "reasoning", "content"):
        if isinstance(block.get(key), str):
            return block[key]
    return normalize_message_content(block["content"]) if isinstance(block.get("content"), list) else ""
