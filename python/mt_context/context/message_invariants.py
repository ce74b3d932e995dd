"""Where a message list may be cut, whether a provider accepts it, and how it is mended (plan M5, spec 5).

A boundary or a summary is known by metadata (`additional_kwargs["mt_context"]`) or by its record's type; a text that
looks like one has no effect. Results are paired with calls by id and position, adjacent or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from mt_context import _core
from mt_context._core import TokenCounter
from mt_context.context import editing
from mt_context.context.counting import default_counter

__all__ = [
    "COMPACT_BOUNDARY_PREFIX",
    "SUMMARY_PREFIX",
    "Provider",
    "Split",
    "Violation",
    "adjust_index_to_preserve_message_groups",
    "adjust_index_to_preserve_tool_pairs",
    "adjust_index_to_respect_boundary",
    "find_compaction_working_start",
    "find_last_compact_boundary",
    "find_safe_split",
    "find_safe_split_index",
    "is_compact_boundary_message",
    "is_compact_summary_message",
    "repair_messages",
    "validate_messages",
]

#: How our own boundary and summary texts begin. For display and for hosts; nothing is recognised by them.
COMPACT_BOUNDARY_PREFIX = "<compact_boundary "
SUMMARY_PREFIX = "<conversation_history_summary>"

Provider = Literal["openai", "anthropic", "deepseek", "gemini"]


class Split(NamedTuple):
    """Where a compaction cuts."""

    #: Messages from here on are kept verbatim.
    index: int
    #: Messages before the cut that stay nevertheless: the current user request, if the tail cannot hold it.
    pinned: tuple[int, ...]
    #: Tokens of the tail.
    kept_tokens: int
    #: Tokens above the maximum, when one group alone is that large: its results must become previews.
    over: int


class Violation(NamedTuple):
    """One broken rule of a provider."""

    #: The message's index; the list's length for what is missing at its end.
    index: int
    #: The rule's name, such as `call_without_result`.
    rule: str
    #: What the rule demands.
    detail: str


def find_safe_split(
    messages: Sequence[Any],
    *,
    min_keep_tokens: int,
    max_keep_tokens: int,
    counter: TokenCounter | None = None,
) -> Split | None:
    """Finds where to cut: on a group's edge, behind the last boundary, keeping about `min` to `max` tokens (plan M5).

    The last user request always stays: in the tail where that fits `max_keep_tokens`, else in `pinned`. A group larger than the maximum
    stays whole, and `over` tells by how much its contents must shrink. `None` when there is nothing before the tail to summarise.
    """
    found = _core.find_safe_split(counter or default_counter(), messages, min_keep_tokens, max_keep_tokens)
    if found is None:
        return None
    index, pinned, kept_tokens, over = found
    return Split(index, tuple(pinned), kept_tokens, over)


def find_safe_split_index(
    messages: Sequence[Any],
    *,
    min_keep_tokens: int,
    max_keep_tokens: int,
    counter: TokenCounter | None = None,
) -> int | None:
    """The index of `find_safe_split`. A caller that cuts there also keeps the last user message (`Split.pinned`)."""
    split = find_safe_split(
        messages, min_keep_tokens=min_keep_tokens, max_keep_tokens=max_keep_tokens, counter=counter
    )
    return None if split is None else split.index


def adjust_index_to_preserve_tool_pairs(messages: Sequence[Any], index: int) -> int:
    """Moves an index back to where no call is parted from its result, or results from their siblings (plan M5)."""
    if index <= 0:
        return index
    return _core.adjust_index_to_preserve_tool_pairs(default_counter(), messages, index)


def adjust_index_to_preserve_message_groups(messages: Sequence[Any], index: int) -> int:
    """Moves an index back while it would part chunks of one message: neighbours with the same id (plan M5)."""
    if index <= 0:
        return index
    return _core.adjust_index_to_preserve_message_groups(default_counter(), messages, index)


def adjust_index_to_respect_boundary(messages: Sequence[Any], index: int) -> int:
    """Moves an index behind the last boundary (plan M5)."""
    return _core.adjust_index_to_respect_boundary(default_counter(), messages, max(index, 0))


def find_last_compact_boundary(messages: Sequence[Any]) -> int | None:
    """Index of the last compaction's boundary, known by metadata (plan M5)."""
    return _core.find_last_compact_boundary(default_counter(), messages)


def find_compaction_working_start(messages: Sequence[Any]) -> int:
    """Where compactable history begins: behind the last boundary and its summary, else behind the system messages."""
    return _core.find_compaction_working_start(default_counter(), messages)


def is_compact_boundary_message(message: Any) -> bool:
    """True for a boundary that a compaction made; never for a text that looks like one."""
    return editing.kind_of(message) == "boundary"


def is_compact_summary_message(message: Any) -> bool:
    """True for a summary that a compaction made; never for a text that looks like one."""
    return editing.kind_of(message) in ("summary", "memory_summary")


def validate_messages(
    messages: Sequence[Any], provider: Provider = "openai", *, counter: TokenCounter | None = None
) -> list[Violation]:
    """Every violation of a provider's rules that it would answer with a 400, in order of the messages (spec 5).

    Raises:
        ValueError: for a provider without a profile.
    """
    found = _core.validate_messages(counter or default_counter(), messages, provider)
    return [Violation(*violation) for violation in found]


def repair_messages(
    messages: Sequence[Any], provider: Provider = "openai", *, counter: TokenCounter | None = None
) -> list[Any]:
    """A list that the provider accepts, with the least change (spec 5, R5).

    A call without a result gets one that says its outcome is unknown (status `error`), directly behind its message; a result without a
    call, and a second result for one call, are left out; displaced results move back to their calls; refused ids are replaced. The
    same history always gives the same repair, and a repaired list is repaired to itself. Messages that need no change are the
    caller's own objects, and nothing is mutated.

    Raises:
        ValueError: for a provider without a profile.
    """
    repair = _core.repair_messages(counter or default_counter(), messages, provider)
    messages = list(messages)
    if repair is None:
        return messages
    slots, _dropped = repair
    like = messages[0] if messages else {}
    return [_carry_out(messages, like, slot) for slot in slots]


def _carry_out(messages: list[Any], like: Any, slot: dict[str, Any]) -> Any:
    if "keep" in slot:
        message = messages[slot["keep"]]
        for change in slot.get("changes", ()):
            message = _CHANGES[change["change"]](message, change)
        return message
    if "user" in slot:
        return editing.make_user(like, slot["user"], kind="synthetic")
    return editing.make_tool_result(
        like, slot["text"], tool_call_id=slot["result_for"], name=slot["name"], kind="synthetic"
    )


def _edit_call(message: Any, position: int, key: str, value: str) -> Any:
    """Changes one call, in the list that holds it and in a native content block with the old id."""
    calls = list(editing.field(message, "tool_calls") or [])
    invalid = list(editing.field(message, "invalid_tool_calls") or [])
    changes: dict[str, Any] = {}
    old_id = editing.tool_calls(message)[position].get("id")
    if position < len(calls):
        calls[position] = _call_with(calls[position], key, value)
        changes["tool_calls"] = calls
    elif position - len(calls) < len(invalid):
        invalid[position - len(calls)] = _call_with(invalid[position - len(calls)], key, value)
        changes["invalid_tool_calls"] = invalid
    content = editing.field(message, "content")
    if isinstance(content, list):
        natives = [
            i
            for i, block in enumerate(content)
            if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call", "function_call")
        ]
        # The block that belongs to the call: same position where all are there, else the first with its id.
        same = natives[position : position + 1] if len(natives) >= len(calls) + len(invalid) else natives
        for i in same:
            if content[i].get("id") == old_id:
                changes["content"] = [*content[:i], {**content[i], key: value}, *content[i + 1 :]]
                break
    return editing.copy_with(message, **changes)


def _call_with(call: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    if key == "name" and isinstance(call.get("function"), dict):
        return {**call, "function": {**call["function"], "name": value}}
    return {**call, key: value}


def _without_blocks(message: Any, drop: Any) -> Any:
    content = [block for block in editing.field(message, "content") if not drop(block)]
    return editing.copy_with(message, content=content or "")


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def _is_blank(block: Any) -> bool:
    if isinstance(block, str):
        return not block.strip()
    is_text = isinstance(block, dict) and block.get("type") in ("text", "input_text", "output_text")
    return is_text and not str(block.get("text") or "").strip()


def _add_reasoning(message: Any) -> Any:
    if isinstance(message, dict):
        return {**message, "reasoning_content": ""}
    extra = dict(getattr(message, "additional_kwargs", None) or {})
    return editing.copy_with(message, additional_kwargs={**extra, "reasoning_content": ""})


#: Gemini documents this value for calls whose signature was lost.
_SKIP_SIGNATURE = "skip_thought_signature_validator"
_SIGNATURES = "__gemini_function_call_thought_signatures__"


def _add_signature(message: Any) -> Any:
    first = str(editing.tool_calls(message)[0].get("id") or "")
    extra = dict(editing.field(message, "additional_kwargs") or {})
    signatures = {**(extra.get(_SIGNATURES) or {}), first: _SKIP_SIGNATURE}
    return editing.copy_with(message, additional_kwargs={**extra, _SIGNATURES: signatures})


def _as_user(message: Any) -> Any:
    if isinstance(message, dict):
        return {**message, "role": "user"}
    from langchain_core.messages import HumanMessage

    kept = {key: getattr(message, key, None) for key in ("id", "name")}
    extra = dict(getattr(message, "additional_kwargs", None) or {})
    return HumanMessage(
        content=message.content, additional_kwargs=extra, **{k: v for k, v in kept.items() if v is not None}
    )


_CHANGES: dict[str, Any] = {
    "call_id": lambda m, c: _edit_call(m, c["call"], "id", c["id"]),
    "call_name": lambda m, c: _edit_call(m, c["call"], "name", c["name"]),
    "result_id": lambda m, c: editing.copy_with(m, tool_call_id=c["id"]),
    "text": lambda m, c: editing.copy_with(m, content=c["text"]),
    "drop_thinking": lambda m, c: _without_blocks(m, _is_thinking),
    "drop_blank_blocks": lambda m, c: _without_blocks(m, _is_blank),
    "add_reasoning": lambda m, c: _add_reasoning(m),
    "add_thought_signature": lambda m, c: _add_signature(m),
    "as_user": lambda m, c: _as_user(m),
}
