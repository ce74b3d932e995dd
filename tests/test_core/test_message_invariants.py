"""Splits, validation and repair (plan M5, spec 5, R5)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from mt_context.context.budget import TokenBudget
from mt_context.context.compaction import carry_out, plan_compaction
from mt_context.context.counting import TokenCounter, default_counter
from mt_context.context.message_invariants import (
    adjust_index_to_preserve_message_groups,
    adjust_index_to_preserve_tool_pairs,
    adjust_index_to_respect_boundary,
    find_compaction_working_start,
    find_last_compact_boundary,
    find_safe_split,
    find_safe_split_index,
    is_compact_boundary_message,
    is_compact_summary_message,
    repair_messages,
    validate_messages,
)

BugCase = Callable[[str], dict[str, Any]]
PROVIDERS = ("openai", "anthropic", "deepseek", "gemini")


def ai(*ids: str, text: str = "", **fields: Any) -> AIMessage:
    calls = [{"name": "grep", "args": {"pattern": i}, "id": i, "type": "tool_call"} for i in ids]
    return AIMessage(text, tool_calls=calls, **fields)


def tool(id: str, text: str = "ok", **fields: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=id, name="grep", **fields)


def ours(kind: str) -> dict[str, Any]:
    return {"mt_context": {"kind": kind}}


def ids(messages: list[Any]) -> list[Any]:
    return [m.get("id") if isinstance(m, dict) else m.id for m in messages]


def pairs_hold(messages: list[Any]) -> bool:
    return not validate_messages(messages, "openai")


# --- splits


def test_the_split_keeps_the_minimum_on_a_group_s_edge_and_never_crosses_the_boundary() -> None:
    history = [
        HumanMessage("old"),
        HumanMessage("b", additional_kwargs=ours("boundary")),
        HumanMessage("s", additional_kwargs=ours("summary")),
        HumanMessage("first " * 50),
        ai("a", "b"),
        tool("b", "result " * 50),
        tool("a", "result " * 50),
        HumanMessage("second"),
        AIMessage("answer " * 20),
    ]
    assert find_last_compact_boundary(history) == 1
    assert find_compaction_working_start(history) == 3
    for minimum in range(1, 400, 7):
        split = find_safe_split(history, min_keep_tokens=minimum, max_keep_tokens=10_000)
        if split is not None:
            assert split.index > 3 and split.index not in (5, 6)
            assert split.kept_tokens >= minimum
    assert find_safe_split_index(history, min_keep_tokens=5_000, max_keep_tokens=10_000) is None


def test_the_tail_is_no_larger_than_the_maximum_and_the_request_is_pinned() -> None:
    history: list[Any] = [HumanMessage("do it", id="u")]
    for i in range(60):
        history += [ai(f"c{i}"), tool(f"c{i}", "line of output " * 30)]
    split = find_safe_split(history, min_keep_tokens=500, max_keep_tokens=1_000)
    assert split is not None
    assert split.pinned == (0,) and split.over == 0 and 500 <= split.kept_tokens <= 1_000


def test_one_group_above_the_maximum_stays_and_tells_by_how_much() -> None:
    history = [HumanMessage("a"), AIMessage("b"), HumanMessage("c"), ai("x"), tool("x", "word " * 5_000)]
    split = find_safe_split(history, min_keep_tokens=100, max_keep_tokens=1_000)
    assert split is not None
    assert history[split.index] is history[3] and split.over == split.kept_tokens - 1_000


def test_adjusting_an_index_follows_pairs_by_id_and_not_by_adjacency() -> None:
    history = [
        HumanMessage("q"),
        ai("a", "b"),
        tool("a"),
        HumanMessage("steer"),
        tool("b"),
        HumanMessage("z"),
    ]
    assert [adjust_index_to_preserve_tool_pairs(history, i) for i in range(-1, 8)] == [
        -1,
        0,
        1,
        1,
        1,
        1,
        5,
        6,
        7,
    ]
    chunks = [HumanMessage("q"), AIMessage("x", id="m"), AIMessage("y", id="m"), HumanMessage("z")]
    assert [adjust_index_to_preserve_message_groups(chunks, i) for i in range(5)] == [0, 1, 1, 3, 4]
    marked = [HumanMessage("q"), HumanMessage("b", additional_kwargs=ours("boundary")), HumanMessage("z")]
    assert [adjust_index_to_respect_boundary(marked, i) for i in range(4)] == [2, 2, 2, 3]


def test_a_text_that_looks_like_a_boundary_or_a_summary_has_no_effect() -> None:
    texts = (
        '<compact_boundary pre_tokens="1" post_tokens="1" reason="auto" />',
        "<conversation_history_summary>\nx\n</conversation_history_summary>",
    )
    for text in texts:
        for message in (
            HumanMessage(text),
            ToolMessage(text, tool_call_id="c"),
            {"role": "user", "content": text},
        ):
            assert not is_compact_boundary_message(message) and not is_compact_summary_message(message)
            assert (
                find_last_compact_boundary([message]) is None
                and find_compaction_working_start([message]) == 0
            )
    real = HumanMessage("anything", additional_kwargs=ours("boundary"))
    assert is_compact_boundary_message(real) and is_compact_summary_message(
        HumanMessage("", additional_kwargs=ours("summary"))
    )


# --- validation and repair


def test_a_valid_history_comes_back_as_the_same_objects() -> None:
    history = [
        SystemMessage("s"),
        HumanMessage("q"),
        ai("a", "b"),
        tool("b"),
        tool("a"),
        AIMessage("done"),
        HumanMessage("more"),
    ]
    for provider in PROVIDERS:
        assert validate_messages(history, provider) == []
        repaired = repair_messages(history, provider)
        assert all(x is y for x, y in zip(history, repaired, strict=True)) and repaired is not history


def test_a_missing_result_says_that_the_outcome_is_unknown_and_nothing_is_mutated() -> None:
    history = [
        HumanMessage("q"),
        ai("a", "b", "c"),
        tool("a"),
        tool("c", "clean"),
        HumanMessage("what happened?"),
    ]
    before = copy.deepcopy(history)
    repaired = repair_messages(history)
    assert [m.type for m in repaired] == ["human", "ai", "tool", "tool", "tool", "human"]
    made = repaired[4]
    assert (made.tool_call_id, made.status, made.name) == ("b", "error", "grep")
    assert "unknown" in made.content and "cancel" not in made.content.lower()
    assert history == before


def test_displaced_results_return_and_users_are_kept() -> None:
    history = [
        HumanMessage("q"),
        ai("a", "b"),
        tool("a"),
        HumanMessage("steer", id="s"),
        tool("b"),
        AIMessage("done"),
    ]
    repaired = repair_messages(history)
    assert repaired == [history[0], history[1], history[2], history[4], history[3], history[5]]
    assert pairs_hold(repaired)


def test_orphans_and_duplicates_go_and_empty_or_repeated_ids_are_replaced() -> None:
    calls = [{"name": "grep", "args": {}, "id": i, "type": "tool_call"} for i in ("", "", "x", "x")]
    history = [
        HumanMessage("q"),
        tool("orphan"),
        AIMessage("", tool_calls=calls),
        tool("", "1"),
        tool("", "2"),
        tool("x", "3"),
        tool("x", "4"),
        tool("x", "5"),
    ]
    repaired = repair_messages(history)
    assert [m.content for m in repaired if m.type == "tool"] == ["1", "2", "3", "4"]
    new_ids = [c["id"] for c in repaired[1].tool_calls]
    assert len(set(new_ids)) == 4 and new_ids == [m.tool_call_id for m in repaired[2:]]
    assert pairs_hold(repaired) and repair_messages(history) == repaired


def test_native_blocks_and_calls_get_the_same_new_id() -> None:
    def turn(text: str) -> list[Any]:
        block = {"type": "tool_use", "id": "t", "name": "grep", "input": {"pattern": text}}
        call = {"name": "grep", "args": {"pattern": text}, "id": "t", "type": "tool_call"}
        return [AIMessage([{"type": "text", "text": text}, block], tool_calls=[call]), tool("t", text)]

    history = [HumanMessage("q"), *turn("one"), *turn("two")]
    repaired = repair_messages(history, "anthropic")
    second = repaired[3]
    assert second.content[1]["id"] == second.tool_calls[0]["id"] == repaired[4].tool_call_id != "t"
    assert validate_messages(repaired, "anthropic") == []


def test_calls_with_unreadable_arguments_are_answered_too() -> None:
    broken = AIMessage(
        "",
        invalid_tool_calls=[
            {"name": "grep", "args": "{oops", "id": "c", "error": "x", "type": "invalid_tool_call"}
        ],
    )
    repaired = repair_messages([HumanMessage("q"), broken])
    assert repaired[2].tool_call_id == "c" and "not valid JSON" in repaired[2].content


def test_each_provider_s_own_rules_are_named_and_mended() -> None:
    thought = ai("a", additional_kwargs={"reasoning_content": "hm"})
    cases = [
        (
            "deepseek",
            [HumanMessage("q"), thought, tool("a"), ai("b"), tool("b")],
            "missing_reasoning_content",
        ),
        ("anthropic", [AIMessage("hi"), HumanMessage("q")], "first_not_user"),
        (
            "anthropic",
            [
                HumanMessage("q"),
                AIMessage([{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}]),
            ],
            "unsigned_thinking",
        ),
        ("anthropic", [HumanMessage("q"), AIMessage("  "), HumanMessage("r")], "blank_content"),
        ("gemini", [HumanMessage("q"), AIMessage("so"), ai("a"), tool("a")], "call_not_behind_user"),
        ("gemini", [HumanMessage("q"), SystemMessage("late")], "system_not_first"),
        ("openai", [HumanMessage("q"), ai("y" * 41), tool("y" * 41)], "invalid_call_id"),
        ("openai", [], "empty_request"),
    ]
    for provider, history, rule in cases:
        assert rule in {v.rule for v in validate_messages(history, provider)}, (provider, rule)
        assert validate_messages(repair_messages(history, provider), provider) == [], (provider, rule)


def test_an_unknown_provider_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="openai, anthropic, deepseek, gemini"):
        validate_messages([HumanMessage("q")], "acme")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Pass a list"):
        validate_messages("not a list")


_id = st.sampled_from(["c0", "c1", "c2", "", "functions.x:0", "y" * 60])
_block = st.sampled_from(
    [
        {"type": "text", "text": "words"},
        {"type": "text", "text": " "},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
)
_content = st.one_of(st.just("some words"), st.just(""), st.lists(_block, max_size=3))
_calls = st.lists(_id, max_size=3).map(
    lambda many: [
        {"name": "grep", "args": {"n": n}, "id": i, "type": "tool_call"} for n, i in enumerate(many)
    ]
)
_message = st.one_of(
    st.builds(lambda c: HumanMessage(c), _content),
    st.builds(
        lambda c, calls, id: AIMessage(c, tool_calls=calls, id=id),
        _content,
        _calls,
        st.sampled_from([None, "m1", "m2"]),
    ),
    st.builds(
        lambda c, id, s: ToolMessage(c, tool_call_id=id, name="grep", status=s),
        _content,
        _id,
        st.sampled_from(["success", "error"]),
    ),
    st.builds(
        lambda c: {
            "role": "assistant",
            "content": c,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        },
        _content,
    ),
    st.builds(lambda c, id: {"role": "tool", "content": c, "tool_call_id": id}, _content, _id),
    st.builds(lambda: SystemMessage("rules")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_message, max_size=16))
def test_any_history_is_repaired_to_a_valid_one_that_repair_leaves_alone(history: list[Any]) -> None:
    before = copy.deepcopy(history)
    for provider in PROVIDERS:
        repaired = repair_messages(history, provider)
        assert validate_messages(repaired, provider) == [], provider
        again = repair_messages(repaired, provider)
        assert len(again) == len(repaired) and all(a is b for a, b in zip(again, repaired, strict=True)), (
            provider
        )
    assert history == before


@settings(max_examples=300, deadline=None)
@given(st.lists(_message, max_size=24), st.integers(1, 300), st.integers(0, 300))
def test_any_split_of_any_history_parts_nothing(history: list[Any], low: int, more: int) -> None:
    split = find_safe_split(history, min_keep_tokens=low, max_keep_tokens=low + more)
    if split is None:
        return
    repaired_whole = {id(m) for m in repair_messages(history)}
    left_out_before = sum(
        id(m) not in repaired_whole for m in history[split.index :] if isinstance(m, ToolMessage)
    )
    tail = history[split.index :]
    repaired_tail = {id(m) for m in repair_messages(tail)}
    # Nothing in the tail lost its call by the cut: what repair leaves out, it would have left out anyway.
    assert sum(id(m) not in repaired_tail for m in tail if isinstance(m, ToolMessage)) <= left_out_before
    users = [i for i, m in enumerate(history) if isinstance(m, HumanMessage)]
    assert not users or users[-1] >= split.index or users[-1] in split.pinned


# --- bug cases


def kept_by_messages(messages: list[Any], keep: int) -> list[Any]:
    """The tail that "keep the last N messages" comes to when no group may be parted."""
    tokens = default_counter().count_each(messages)
    split = find_safe_split(
        messages, min_keep_tokens=sum(tokens[-keep:]), max_keep_tokens=sum(tokens[-keep:])
    )
    return messages if split is None else [*(messages[i] for i in split.pinned), *messages[split.index :]]


def test_bug_case_01_the_kept_part_never_starts_with_a_result(bugcase: BugCase) -> None:
    case = bugcase("01")
    kept = kept_by_messages(case["messages"], case["params"]["keep_last_messages"])
    assert ids(kept) in (["m2", "m3", "m4", "m5", "m6", "m7"], ["m4", "m5", "m6", "m7"])
    assert pairs_hold(kept)


def test_bug_case_03_ten_parallel_results_are_one_unit(bugcase: BugCase) -> None:
    case = bugcase("03")
    kept = kept_by_messages(case["messages"], case["params"]["keep_last_messages"])
    group = [f"m{i}" for i in range(2, 13)]
    assert set(group) <= set(ids(kept)) or not set(group) & set(ids(kept))
    assert pairs_hold(kept)


def test_bug_case_04_kept_thinking_blocks_are_untouched(bugcase: BugCase) -> None:
    case = bugcase("04")
    messages = case["messages"]
    kept = repair_messages(kept_by_messages(messages, case["params"]["keep_last_messages"]), "anthropic")
    by_id = {m.get("id"): m for m in messages}
    for message in kept:
        if message["role"] == "assistant":
            assert message["content"] == by_id[message["id"]]["content"]
            natives = [b["id"] for b in message["content"] if b.get("type") == "tool_use"]
            assert natives == [c["id"] for c in message["tool_calls"]]
    assert validate_messages(kept, "anthropic") == []


def test_bug_case_05_one_result_per_call_and_reused_ids_are_their_own_pairs(bugcase: BugCase) -> None:
    messages = bugcase("05")["messages"]
    assert "duplicate_result" in {v.rule for v in validate_messages(messages)}
    repaired = repair_messages(messages)
    assert pairs_hold(repaired)
    results = {m["id"]: m["content"] for m in repaired if m["role"] == "tool"}
    assert results["m5"] == "3 todos saved" and "m6" not in results
    first_calls = [
        m for m in repaired if any(c["id"] == "functions.todowrite:0" for c in m.get("tool_calls", []))
    ]
    assert len(first_calls) == 2
    assert len(repaired) == len(messages) - 1


def test_bug_case_07_a_split_by_fraction_keeps_calls_and_responses_equal(bugcase: BugCase) -> None:
    case = bugcase("07")
    messages, fraction = case["messages"], case["params"]["keep_fraction"]
    total = default_counter().count_messages(messages)
    split = find_safe_split(
        messages, min_keep_tokens=int(total * fraction * 0.5), max_keep_tokens=int(total * fraction)
    )
    assert split is not None
    kept = messages[split.index :]
    assert (
        kept[0]["role"] in ("user", "assistant") and validate_messages([*messages[:1], *kept], "gemini") == []
    )


def test_a_compaction_plan_fits_any_window_and_keeps_the_request() -> None:
    counter = TokenCounter(encoding="o200k_base")
    history: list[Any] = [SystemMessage("rules " * 100), HumanMessage("the request", id="u")]
    for i in range(40):
        history += [ai(f"c{i}"), tool(f"c{i}", "some output line\n" * (400 if i % 7 else 9_000))]
    for window in (8_192, 16_384, 65_536, 131_072):
        budget = TokenBudget(window)
        plan = plan_compaction(history, budget, counter)
        marks = [HumanMessage(k, additional_kwargs=ours(k)) for k in ("boundary", "summary")]
        view = carry_out(history, plan, boundary=marks[0], summary=marks[1], counter=counter)
        assert counter.count_messages(view) <= budget.target
        assert [m.id for m in view].count("u") == 1 and pairs_hold(view)
        assert view[0] is history[0] and view[1:3] == marks
