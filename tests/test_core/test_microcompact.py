"""Clearing old tool results from the view, after a pause or under pressure (plan M7, spec 6)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mt_context.context.budget import TokenBudget
from mt_context.context.counting import TokenCounter
from mt_context.context.message_invariants import validate_messages
from mt_context.context.microcompact import (
    MICROCOMPACT_PLACEHOLDER,
    find_last_assistant_timestamp_ms,
    maybe_pressure_microcompact,
    maybe_time_based_microcompact,
)

HOUR = 3_600_000
START = 1_700_000_000_000


def rounds(count: int, *, name: str = "grep", size: int = 50, first: int = 0) -> list[Any]:
    history: list[Any] = []
    for i in range(first, first + count):
        call = {"name": name, "args": {}, "id": f"c{i}", "type": "tool_call"}
        history.append(
            AIMessage("", id=f"a{i}", tool_calls=[call], response_metadata={"timestamp_ms": START})
        )
        history.append(ToolMessage(f"{i} " + "word " * size, tool_call_id=f"c{i}", name=name, id=f"t{i}"))
    return history


def cleared(messages: list[Any]) -> list[str]:
    return [
        m.id
        for m in messages
        if isinstance(m, ToolMessage) and m.content.startswith(MICROCOMPACT_PLACEHOLDER)
    ]


def test_the_placeholder_is_the_plan_s() -> None:
    assert MICROCOMPACT_PLACEHOLDER == (
        "[Old tool result content cleared. Full result is available in the session transcript artifact.]"
    )


def test_a_pause_of_an_hour_clears_all_but_the_recent_five() -> None:
    history = [HumanMessage("q"), *rounds(8)]
    before = copy.deepcopy(history)
    assert not maybe_time_based_microcompact(history, START + HOUR - 1).triggered
    result = maybe_time_based_microcompact(history, START + HOUR)
    assert (result.triggered, result.cleared_count, cleared(result.messages)) == (True, 3, ["t0", "t1", "t2"])
    assert history == before, "the input is not mutated"
    assert all(
        a is b for a, b in zip(history, result.messages, strict=True) if a.id not in ("t0", "t1", "t2")
    )
    assert validate_messages(result.messages) == []


def test_only_the_text_changes_and_the_artifact_s_path_is_named() -> None:
    history = rounds(1)
    path = "tool-results/c0.txt"
    history[1] = ToolMessage(
        "text", tool_call_id="c0", name="grep", id="t0", status="error", artifact={"k": 1},
        additional_kwargs={"mt_context": {"kind": "persisted", "artifact": path}},
    )  # fmt: skip
    (_, new) = maybe_time_based_microcompact(history, START + HOUR, keep_recent=0).messages
    assert new.content.splitlines()[0] == MICROCOMPACT_PLACEHOLDER and path in new.content.splitlines()[1]
    assert (new.id, new.status, new.name, new.tool_call_id, new.artifact) == (
        "t0",
        "error",
        "grep",
        "c0",
        {"k": 1},
    )
    assert new.additional_kwargs["mt_context"]["artifact"] == path


def test_what_was_saved_is_the_difference_of_the_counts() -> None:
    counter = TokenCounter(encoding="o200k_base")
    history = rounds(9)
    result = maybe_time_based_microcompact(history, START + HOUR, counter=counter)
    assert (
        result.saved_tokens == counter.count_messages(history) - counter.count_messages(result.messages) > 0
    )


def test_other_tools_and_a_missing_or_backward_time_never_trigger() -> None:
    assert not maybe_time_based_microcompact(rounds(9, name="recall"), START + HOUR).triggered
    assert not maybe_time_based_microcompact(rounds(9), START - HOUR).triggered
    assert not maybe_time_based_microcompact(rounds(9), START + HOUR, 0).triggered
    untimed = [m.model_copy(update={"response_metadata": {}}) for m in rounds(9)]
    assert find_last_assistant_timestamp_ms(untimed) is None
    assert not maybe_time_based_microcompact(untimed, START + HOUR).triggered
    assert maybe_time_based_microcompact(untimed, START + HOUR, START).triggered


def test_the_keyword_form_of_the_host_works() -> None:
    result = maybe_time_based_microcompact(
        rounds(3), now_ts_ms=START + HOUR // 2, gap_threshold_minutes=30, keep_recent=1
    )
    assert result.cleared_count == 2


def test_clearing_again_clears_nothing_more_and_keeps_the_prefix() -> None:
    first = maybe_time_based_microcompact([HumanMessage("q"), *rounds(9)], START + HOUR)
    again = maybe_time_based_microcompact(first.messages, START + 2 * HOUR)
    assert not again.triggered and again.messages == first.messages


def test_pressure_clears_only_for_a_gain_and_never_the_newest() -> None:
    budget, counter = TokenBudget(65536), TokenCounter(encoding="o200k_base")
    history = [
        HumanMessage("one"),
        *rounds(40, size=1_000),
        HumanMessage("two"),
        HumanMessage("three"),
        *rounds(2, first=40),
    ]
    total = counter.count_messages(history)
    assert not maybe_pressure_microcompact(
        history, total_tokens=budget.auto - 1, budget=budget, counter=counter
    )[0].triggered
    result, enough = maybe_pressure_microcompact(history, total_tokens=total, budget=budget, counter=counter)
    assert result.triggered and not {"t39", "t40", "t41"} & set(cleared(result.messages))
    assert counter.count_messages(result.messages) == total - result.saved_tokens
    assert enough == (total - result.saved_tokens <= budget.target)
    again, _ = maybe_pressure_microcompact(
        result.messages, total_tokens=budget.auto, budget=budget, counter=counter
    )
    assert not again.triggered


def test_small_results_are_left_alone_under_pressure() -> None:
    budget, counter = TokenBudget(65536), TokenCounter(encoding="o200k_base")
    history = [HumanMessage("one"), *rounds(3_000, size=8)]
    result, enough = maybe_pressure_microcompact(
        history, total_tokens=counter.count_messages(history), budget=budget, counter=counter
    )
    assert (result.triggered, enough) == (False, False)


@pytest.mark.parametrize("form", ["objects", "dicts"])
def test_bug_case_20_what_was_cleared_stays_and_the_prefix_holds(
    bugcase: Callable[[str], dict[str, Any]], form: str
) -> None:
    case = bugcase("20")
    keep, gap = case["params"]["keep_recent"], case["params"]["gap_minutes"]
    messages = [{**m, "timestamp_ms": START} if m["role"] == "assistant" else m for m in case["messages"]]
    if form == "objects":
        from langchain_core.messages import convert_to_messages

        messages = convert_to_messages(messages)
    now = START + gap * 60_000
    first = maybe_time_based_microcompact(messages, now, START, keep_recent=keep)
    assert first.triggered
    assert (
        maybe_time_based_microcompact(first.messages, now, START, keep_recent=keep).messages == first.messages
    )
    later = [*first.messages, *rounds(1)]
    second = maybe_time_based_microcompact(later, now + 1, now, keep_recent=keep)
    assert not second.triggered and second.messages[: len(first.messages)] == first.messages
