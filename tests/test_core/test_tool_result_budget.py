"""Which results become previews, and what a preview shows (plan M2, spec 3)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mt_context import _core
from mt_context.context.budget import TokenBudget
from mt_context.context.tool_results import (
    ToolResultPolicy,
    budget_message,
    enforce_aggregate,
    map_tool_result_for_llm,
    result_chars,
)

BugCase = Callable[[str], dict[str, Any]]
PATH = "tool-results/c1.txt"


def result(text: Any, name: str = "grep", id: str = "c1") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id, name=name)


@pytest.mark.parametrize(
    ("tool", "limit"),
    [("grep", 20_000), ("shell", 30_000), ("bash", 30_000), ("ls", 50_000), ("anything", 50_000)],
)
def test_the_plan_s_limits_hold_to_the_character(tool: str, limit: int) -> None:
    policy = ToolResultPolicy()
    exact, over = result("矩" * limit, tool), result("矩" * (limit + 1), tool)
    assert budget_message(exact, policy) is exact
    shown = budget_message(over, policy)
    assert shown is not over and result_chars(shown) <= 4_000
    assert shown.additional_kwargs["mt_context"]["kind"] == "persisted" and over.additional_kwargs == {}


def test_read_file_limits_itself_and_limits_can_be_set() -> None:
    text = "x" * 900_000
    assert budget_message(result(text, "read_file"), ToolResultPolicy()).content == text
    assert (
        budget_message(result("x" * 9_000, "mytool"), ToolResultPolicy(by_tool={"mytool": 8_000})).content
        != "x" * 9_000
    )
    assert (
        budget_message(result("x" * 90_000, "mytool"), ToolResultPolicy(by_tool={"mytool": None})).content
        == "x" * 90_000
    )


def test_a_preview_stands_in_the_plan_s_tag() -> None:
    text = "".join(f"src/k{i % 12}.c:{i}:  double_buffer({i});\n" for i in range(2_400))
    shown = map_tool_result_for_llm("grep", text, {"path": PATH})
    first, *_, last = shown.splitlines()
    assert first == f'<persisted-output tool="grep" path="{PATH}" original_chars="{len(text)}">'
    assert last == "</persisted-output>" and len(shown) <= 4_000 and len(shown.splitlines()) <= 80
    assert "Found 2,400 matches in 12 files" in shown and f'read_file("{PATH}", offset=' in shown


def test_a_result_that_looks_persisted_is_budgeted_all_the_same() -> None:
    spoof = '<persisted-output tool="grep" path="x" original_chars="1">\n' + "x" * 10_000_000
    shown = budget_message(result(spoof), ToolResultPolicy()).content
    assert (
        len(shown) <= 4_000
        and shown.count("<persisted-output") == 1
        and shown.count("</persisted-output>") == 1
    )
    assert budget_message(result("x" * 60_000), ToolResultPolicy()).content.count("</persisted-output>") == 1


def test_a_preview_is_not_budgeted_twice() -> None:
    policy = ToolResultPolicy(preview_chars=1_000, by_tool={"grep": 1_600})
    once = budget_message(result("word " * 2_000), policy)
    assert budget_message(once, policy) is once


def test_truncation_and_a_refusing_disk_are_told() -> None:
    meta = {"path": PATH, "truncated": True, "size_bytes": 67_108_864}
    shown = map_tool_result_for_llm("shell", "line\n" * 90_000, meta)
    assert 'truncated="true"' in shown and "67,108,864 bytes" in shown
    without = map_tool_result_for_llm("shell", "line\n" * 90_000, None)
    assert "path=" not in without and "The rest was not kept." in without and "read_file" not in without


def test_text_blocks_are_budgeted_and_images_pass_untouched() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    blocks = [{"type": "text", "text": "x" * 30_000}, image, {"type": "text", "text": "y" * 30_000}]
    shown = budget_message(result(blocks), ToolResultPolicy())
    assert [b["type"] for b in shown.content] == ["text", "image_url"] and shown.content[1] == image
    assert result_chars(shown) <= 4_000 and 'original_chars="60001"' in shown.content[0]["text"]


def batch(sizes: list[tuple[str, int]], *, order: list[int] | None = None) -> list[Any]:
    calls = [
        {"name": name, "args": {}, "id": f"c{i}", "type": "tool_call"} for i, (name, _) in enumerate(sizes)
    ]
    results = [result("x" * size, name, f"c{i}") for i, (name, size) in enumerate(sizes)]
    return [
        HumanMessage("q"),
        AIMessage("", tool_calls=calls),
        *(results[i] for i in order or range(len(results))),
    ]


def test_the_aggregate_is_exact_and_the_largest_go_first() -> None:
    sizes = [("ls", 49_000)] * 12
    view, changed = enforce_aggregate(batch(sizes), ToolResultPolicy())
    total = sum(map(result_chars, view[2:]))
    assert total <= 200_000 and changed == 9 and total + 49_000 > 200_000
    small, none = enforce_aggregate(batch([("ls", 50_000)] * 4), ToolResultPolicy())
    assert none == 0 and sum(map(result_chars, small[2:])) == 200_000


@given(
    st.lists(st.tuples(st.sampled_from(["ls", "grep", "read_file"]), st.integers(0, 120_000)), max_size=10),
    st.randoms(),
)
def test_the_aggregate_does_not_depend_on_the_order_in_which_results_came(
    sizes: list[tuple[str, int]], random: Any
) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    policy = ToolResultPolicy()
    chosen = []
    for messages in (batch(sizes), batch(sizes, order=order)):
        view, _ = enforce_aggregate(messages, policy)
        assert sum(map(result_chars, view[2:])) <= 200_000
        chosen.append({m.tool_call_id for m in view[2:] if m.additional_kwargs})
    assert chosen[0] == chosen[1]


def test_a_small_window_has_smaller_limits() -> None:
    policy = ToolResultPolicy.for_budget(TokenBudget(8192))
    assert (policy.limits.limit("grep") or 0) < 5_000 and policy.limits.aggregate_chars < 5_000
    assert ToolResultPolicy.for_budget(TokenBudget(1_000_000)).limits == ToolResultPolicy().limits


def test_a_command_keeps_its_end_its_exit_code_and_the_errors_of_its_middle() -> None:
    lines = [f"[{i}/4000] Compiling unit {i}" for i in range(1, 4_001)]
    lines[2_000] = "kernel.c:120:9: error: use of undeclared identifier 'buf'"
    shown = _core.preview_text("shell", "\n".join(lines), artifact=PATH, exit_code=2)
    assert shown.startswith("Exit code 2.") and "2001: kernel.c:120:9: error:" in shown
    assert "[1/4000]" in shown and "[4000/4000]" in shown


def test_bytes_are_decoded_or_described() -> None:
    chinese = "内核.c:12: 错误：缺少分号，编译失败\n" * 300
    for name, data in (("GBK", chinese.encode("gbk")), ("UTF-16LE", chinese.encode("utf-16"))):
        shown = _core.preview_text("shell", data, artifact=PATH)
        assert "缺少分号" in shown and name in shown
    elf = b"\x7fELF\x02\x01\x01" + bytes(9_000) + b"libc.so.6\0"
    assert "an ELF binary" in _core.preview_text("shell", elf) and "libc.so.6" in _core.preview_text(
        "shell", elf
    )


@given(
    st.one_of(st.text(st.characters(exclude_categories=())), st.binary()),
    st.sampled_from(["grep", "shell", "x"]),
    st.integers(1, 500),
    st.integers(1, 60),
)
def test_a_preview_never_exceeds_its_limits(content: Any, tool: str, chars: int, lines: int) -> None:
    shown = _core.preview_text(tool, content * 30, max_chars=chars, max_lines=lines, artifact=PATH)
    assert len(shown) <= chars and shown.count("\n") < lines
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown)


def test_every_real_output_gets_a_preview_within_its_limits(shared_data: Path) -> None:
    files = sorted((shared_data / "tool-outputs").iterdir())
    assert len(files) == 50
    for path in files:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        shown = _core.preview_text("grep" if "grep" in path.name else "shell", data, artifact=PATH)
        assert 0 < len(shown) <= 4_000 and shown.count("\n") < 80, path.name
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown), path.name


# --- bug cases


def test_bug_case_10_one_result_larger_than_the_window(bugcase: BugCase) -> None:
    case = bugcase("10")
    messages = case["messages"]
    policy = ToolResultPolicy(default_chars=case["params"]["threshold_chars"])
    kept: list[str] = []
    view = [
        budget_message(m, policy, persist=lambda _m, text: kept.append(text) or PATH)
        if m["role"] == "tool"
        else m
        for m in messages
    ]
    changed = [i for i, (a, b) in enumerate(zip(messages, view, strict=True)) if a is not b]
    assert len(changed) == 1 and kept == [messages[changed[0]]["content"]]
    shown = view[changed[0]]["content"]
    assert (
        len(shown) <= case["params"]["threshold_chars"]
        and f'original_chars="{len(kept[0])}"' in shown
        and "left out" in shown
    )


def test_bug_case_13_few_long_lines_are_cut_inside_and_a_read_back_is_not_persisted_again(
    bugcase: BugCase,
) -> None:
    case = bugcase("13")
    text = case["tool_output"]
    policy = ToolResultPolicy(
        default_chars=case["params"]["threshold_chars"], preview_chars=case["params"]["preview_chars"]
    )
    shown = budget_message(result(text, case["tool_name"]), policy)
    assert len(shown.content) <= case["params"]["preview_chars"] + 500
    read_back = result(text[: case["params"]["read_max_chars"]], "read_file")
    assert budget_message(read_back, policy) is read_back


def test_bug_case_15_a_cut_never_falls_inside_a_character(bugcase: BugCase) -> None:
    case = bugcase("15")
    for limit in range(1, 201):
        shown = _core.preview_text(case["tool_name"], case["tool_output"], max_chars=limit)
        assert len(shown) <= limit and "\ufffd" not in shown and case["tool_output"].startswith(shown)


def test_bug_case_19_the_visible_text_is_what_a_terminal_would_show(bugcase: BugCase) -> None:
    case = bugcase("19")
    raw = case["tool_output"]
    policy = ToolResultPolicy(by_tool={"shell": case["params"]["threshold_chars"]})
    kept: list[str] = []
    shown = budget_message(
        result(raw, case["tool_name"]), policy, persist=lambda _m, text: kept.append(text) or PATH
    ).content
    assert "\x1b" not in shown and "\r" not in shown
    assert (
        shown.count("Receiving objects: 100% (500/500), done.") == 1
        and "error: linker command failed" in shown
    )
    assert len(shown) < len(raw) / 100 and kept == [raw]
