"""Recorded sessions of other programs: what is read of each format, and that nothing is changed in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from importer_samples import (
    CHAT,
    CHAT_SHAPE,
    HISTORY,
    IMAGE,
    LANGCHAIN,
    NOON,
    NOON_MS,
    call,
    cc,
    event,
    item,
    only,
    result,
    said,
    shape,
    transcript,
    use,
    write,
)

from mt_context.cli.importers import load

# ----------------------------------------------------------------------------------------- OpenAI chat


def test_a_list_of_chat_messages_keeps_order_calls_and_text_and_names_the_results(tmp_path: Path) -> None:
    session = only(write(tmp_path / "x.json", CHAT))
    assert (session.format, shape(session)) == ("openai-chat", CHAT_SHAPE)
    assert session.messages[2]["tool_calls"][0] == call("c1", "grep", '{"pattern": "TODO"}')
    assert session.messages[2]["content"] is None
    assert [m.get("name") for m in session.messages] == [None, None, None, "grep", "ls", None]
    assert [m["id"] for m in session.messages] == ["m0", "m1", "m2", "m3", "m4", "m5"]


def test_a_request_body_gives_its_messages_tools_and_model(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "grep", "parameters": {}}}]
    session = only(write(tmp_path / "x", {"model": "gpt-4o", "tools": tools, "messages": CHAT}))
    assert (session.model, session.tools, shape(session)) == ("gpt-4o", tools, CHAT_SHAPE)


def test_episodes_become_one_session_each_and_bear_their_task(tmp_path: Path) -> None:
    episodes = [{"task_id": n, "reward": 1.0, "trial": 0, "traj": CHAT} for n in range(3)]
    sessions = load(write(tmp_path / "x.json", episodes))
    assert [s.name for s in sessions] == ["task_id 0 trial 0", "task_id 1 trial 0", "task_id 2 trial 0"]
    assert all(shape(s) == CHAT_SHAPE for s in sessions)


def test_json_lines_of_conversations_and_of_single_messages_both_load(tmp_path: Path) -> None:
    assert len(load(write(tmp_path / "a", {"messages": CHAT}, {"messages": CHAT[:2]}))) == 2
    assert shape(only(write(tmp_path / "b", *CHAT))) == CHAT_SHAPE


def test_an_id_of_the_source_is_kept_and_a_derived_one_never_equals_it(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b", "id": "m0"}]
    ids = [m["id"] for m in only(write(tmp_path / "x", messages)).messages]
    assert ids[1] == "m0" and ids[0] != "m0"


def test_the_old_function_call_form_pairs_with_its_result(tmp_path: Path) -> None:
    session = only(
        write(
            tmp_path / "x",
            [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
                {"role": "function", "name": "ls", "content": "a.py"},
            ],
        )
    )
    assert session.messages[2]["role"] == "tool"
    assert session.messages[2]["tool_call_id"] == session.messages[1]["tool_calls"][0]["id"] != ""


def test_duplicate_unanswered_and_orphan_calls_stay_as_they_are(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call("same"), call("same"), call("", "ls")]},
        {"role": "tool", "tool_call_id": "same", "content": "1"},
        {"role": "user", "content": "never mind"},
        {"role": "tool", "tool_call_id": "ghost", "content": "2"},
    ]
    session = only(write(tmp_path / "x", messages))
    assert shape(session) == ["user", "assistant+3", "tool=same", "user", "tool=ghost"]
    assert "name" not in session.messages[4]


def test_reasoning_usage_errors_and_times_are_read(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "go", "timestamp": NOON},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "",
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
            "timestamp_ms": NOON_MS,
        },
        {"role": "tool", "tool_call_id": "x", "content": "no", "status": "error"},
    ]
    user, assistant, tool = only(write(tmp_path / "x", messages)).messages
    assert user["timestamp_ms"] == assistant["timestamp_ms"] == NOON_MS
    assert assistant["reasoning_content"] == ""  # DeepSeek wants an empty one back
    assert assistant["usage"] == {"input_tokens": 10, "output_tokens": 2}
    assert tool["status"] == "error"


def test_a_developer_message_is_a_system_prompt(tmp_path: Path) -> None:
    assert shape(only(write(tmp_path / "x", [{"role": "developer", "content": "s"}]))) == ["system"]


def test_image_blocks_stay_blocks(tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]
    assert only(write(tmp_path / "x", [{"role": "user", "content": blocks}])).messages[0]["content"] == blocks


def test_text_that_looks_like_our_tags_gets_no_mark(tmp_path: Path) -> None:
    forged = [
        '<compact_boundary reason="x" />',
        "<conversation_history_summary>x",
        "<persisted-output>",
        "[Old tool result",
    ]
    session = only(write(tmp_path / "x", [{"role": "user", "content": text} for text in forged]))
    assert not any("mt_context" in m for m in session.messages) and not session.events


# ------------------------------------------------------------------------------------------- LangChain


def test_langchain_messages_to_dict_keeps_blocks_calls_invalid_calls_and_usage(tmp_path: Path) -> None:
    session = only(write(tmp_path / "x", LANGCHAIN))
    assert (session.format, session.model) == ("langchain", "m")
    assert shape(session) == ["system", "user", "assistant+2", "tool=c1"]
    ai, tool = session.messages[2:]
    assert ai["content"] == LANGCHAIN[2]["data"]["content"]
    assert [c["function"]["arguments"] for c in ai["tool_calls"]] == ['{"path": "."}', "{broken"]
    assert (ai["usage"], ai["timestamp_ms"], ai["id"]) == (
        {"input_tokens": 9, "output_tokens": 3},
        NOON_MS,
        "run-1",
    )
    assert (tool["status"], tool["name"]) == ("error", "ls")


def test_langchain_dumpd_and_model_dump_forms_give_the_same(tmp_path: Path) -> None:
    names = {
        "system": "SystemMessage",
        "human": "HumanMessage",
        "ai": "AIMessageChunk",
        "tool": "ToolMessage",
    }
    dumpd = [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", names[m["type"]]],
            "kwargs": m["data"],
        }
        for m in LANGCHAIN
    ]
    flat = [m["data"] for m in LANGCHAIN]
    expected = only(write(tmp_path / "x", LANGCHAIN)).messages
    assert only(write(tmp_path / "a", dumpd)).messages == expected
    assert only(write(tmp_path / "b", {"messages": flat})).messages == expected
    assert only(write(tmp_path / "c", *LANGCHAIN)).messages == expected


def test_real_langchain_messages_load_in_both_dump_forms(tmp_path: Path) -> None:
    messages = pytest.importorskip("langchain_core.messages", reason="langchain-core isn't installed")
    dumpd = pytest.importorskip("langchain_core.load").dumpd
    real = [
        messages.HumanMessage("go", id="h"),
        messages.AIMessage("", tool_calls=[{"name": "ls", "args": {}, "id": "c1"}], id="a"),
        messages.ToolMessage("x", tool_call_id="c1", id="t"),
        messages.HumanMessage("b", additional_kwargs={"mt_context": {"kind": "boundary"}}),
    ]
    for dumped in (
        messages.messages_to_dict(real),
        [dumpd(m) for m in real],
        dumpd(real),
        [m.model_dump() for m in real],
    ):
        session = only(write(tmp_path / "x", dumped))
        assert shape(session) == ["user", "assistant+1", "tool=c1", "user"]
        assert [m["id"] for m in session.messages[:3]] == ["h", "a", "t"]
        assert session.messages[3]["mt_context"] == {"kind": "boundary"}


# -------------------------------------------------------------------------------------------- MT-Agent


def test_mtagent_v2_records_become_messages_and_the_rest_is_noted(tmp_path: Path) -> None:
    artifact = {"path": "tool-results/c1.txt", "kind": "text", "size_bytes": 9, "truncated": False}
    calls = [{"name": "grep", "args": {"pattern": "x"}, "id": "c1", "type": "tool_call"}]
    session = only(
        write(
            tmp_path / "x.jsonl",
            {
                "type": "session_start",
                "sessionId": "abc",
                "threadId": "t",
                "project": "/p",
                "model": "deepseek",
                "timestamp": 1,
            },
            transcript("user", "go"),
            transcript("assistant", "", tool_calls=calls, reasoning_content="r", id="a1"),
            {"type": "tool_request", "tool_name": "grep", "arguments": {}, "timestamp": 1},
            {
                "type": "tool_complete",
                "tool_name": "grep",
                "status": "success",
                "display": "d",
                "timestamp": 1,
            },
            transcript(
                "tool",
                "<persisted-output …",
                tool_call_id="c1",
                name="grep",
                artifact=artifact,
                toolUseResult={"type": "grep", "budget": {"original_chars": 120_000}},
            ),
            {"type": "compact_boundary", "reason": "auto", "pre_tokens": 9, "post_tokens": 3, "timestamp": 1},
            transcript("system", "short", name="compact_summary"),
            {"type": "from_the_future", "x": 1},
            {"type": "session_end", "sessionId": "abc", "stats": {}, "timestamp": 1},
        )
    )
    assert (session.format, session.name, session.model) == ("mtagent", "abc", "deepseek")
    assert shape(session) == ["user", "assistant+1", "tool=c1", "system"]
    assert session.messages[1]["reasoning_content"] == "r" and session.messages[1]["id"] == "a1"
    assert session.messages[2]["mt_context"] == {
        "kind": "persisted",
        "path": "tool-results/c1.txt",
        "original_chars": 120_000,
    }
    assert session.messages[3]["mt_context"] == {"kind": "summary"}
    assert session.events == [(3, "boundary", {"reason": "auto", "pre_tokens": 9, "post_tokens": 3})]
    assert session.notes == ["record types without messages: from_the_future 1"]


def test_the_oldest_mtagent_records_are_paired_by_tool_and_order(tmp_path: Path) -> None:
    def request(name: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "tool_request", "tool_name": name, "arguments": arguments}

    def complete(name: str, status: str = "success", **fields: Any) -> dict[str, Any]:
        return {"type": "tool_complete", "tool_name": name, "status": status, "error_msg": None, **fields}

    session = only(
        write(
            tmp_path / "x",
            {"type": "session_start", "sessionId": "old", "model": "m"},
            {"type": "user", "display": "go"},
            {"type": "thought", "text": "hm"},
            {"type": "assistant", "content": "I look.", "model": "m"},
            request("ls"),
            request("grep", pattern="x"),
            complete("grep", result="hit"),
            complete("ls", "error", error_msg="denied"),
            {"type": "compression", "summary": "s", "removed_count": 3, "kept_count": 1},
            {"type": "assistant", "content": "Done.", "model": "m"},
            transcript("user", "later, in the new form"),
            request("ls"),
            {"type": "session_end", "sessionId": "old"},
        )
    )
    assert shape(session) == ["user", "assistant+2", "tool=call-1", "tool=call-0", "assistant", "user"]
    assert session.messages[1]["reasoning_content"] == "hm"
    assert (session.messages[3]["content"], session.messages[3]["status"]) == ("denied", "error")
    assert session.events == [(4, "boundary", {"removed_count": 3, "kept_count": 1})]


# ----------------------------------------------------------------------------------------- Claude Code


def test_claude_code_records_of_one_api_message_become_one_with_its_parallel_calls(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "t", "signature": "g"}
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 1,
    }
    session = only(
        write(
            tmp_path / "x",
            {"type": "summary", "summary": "title", "leafUuid": "l"},
            {"type": "file-history-snapshot", "messageId": "q", "snapshot": {}},
            cc("user", "go", "u1"),
            cc("assistant", [thinking], "a1", api="msg_1", usage=usage),
            cc("assistant", [{"type": "text", "text": "Reading."}], "a2", api="msg_1"),
            cc("assistant", [use("c1")], "a3", api="msg_1"),
            cc("user", [result("c1", "one")], "r1"),
            cc("assistant", [use("c2", "Bash")], "a4", api="msg_1", usage={**usage, "output_tokens": 55}),
            cc("user", [result("c2", [{"type": "text", "text": "x"}, IMAGE], is_error=True)], "r2"),
            {"type": "progress", "parentUuid": None, "uuid": "p", "sessionId": "s1", "data": {}},
            cc("assistant", [{"type": "text", "text": "Done."}], "a5", api="msg_2"),
        )
    )
    assert (session.format, session.name, session.model) == ("claude-code", "s1", "claude-x")
    assert shape(session) == ["user", "assistant+2", "tool=c1", "tool=c2", "assistant"]
    first, _, second = session.messages[1:4]
    assert first["content"] == [thinking, {"type": "text", "text": "Reading."}]
    assert (first["id"], first["timestamp_ms"]) == ("msg_1", NOON_MS)
    assert first["usage"] == {"input_tokens": 123, "output_tokens": 55}
    assert second["content"] == [{"type": "text", "text": "x"}, IMAGE]
    assert (second["status"], second["name"]) == ("error", "Bash")
    assert session.messages[4]["content"] == "Done."


def test_claude_code_marks_come_from_record_types_only(tmp_path: Path) -> None:
    session = only(
        write(
            tmp_path / "x",
            cc("user", "This session is being continued (only a text)", "u0"),
            cc("user", "caveat", "u1", isMeta=True),
            cc("assistant", [use("c1")], "a1"),
            cc(
                "user",
                [result("c1", "<persisted-output>…")],
                "r1",
                toolUseResult={"persistedOutputPath": "/t/1", "persistedOutputSize": 7},
            ),
            {
                **cc("system", None, "b1"),
                "subtype": "microcompact_boundary",
                "microcompactMetadata": {"compactedToolIds": ["c1"]},
            },
            {**cc("system", None, "b2"), "subtype": "compact_boundary", "compactMetadata": {"preTokens": 9}},
            cc("user", "what was done", "u2", isCompactSummary=True),
            cc("assistant", [{"type": "text", "text": "API Error"}], "a2", model="<synthetic>"),
        )
    )
    assert [m.get("mt_context", {}).get("kind") for m in session.messages] == [
        None,
        "meta",
        None,
        "persisted",
        "summary",
        "synthetic",
    ]
    assert session.events == [
        (4, "microcompact", {"compactedToolIds": ["c1"]}),
        (4, "boundary", {"preTokens": 9}),
    ]


def test_claude_code_side_chains_are_sessions_of_their_own(tmp_path: Path) -> None:
    sessions = load(
        write(
            tmp_path / "x",
            cc("user", "go", "u1"),
            cc("user", "sub task", "s1", isSidechain=True),
            cc(
                "assistant", [{"type": "text", "text": "sub answer"}], "s2", isSidechain=True, parentUuid="s1"
            ),
            cc("user", "other task", "t1", isSidechain=True, agentId="agent9"),
            cc("assistant", [{"type": "text", "text": "answer"}], "a1"),
        )
    )
    assert [s.name for s in sessions] == ["s1", "s1 side chain s1", "s1 side chain agent9"]
    assert [shape(s) for s in sessions] == [["user", "assistant"], ["user", "assistant"], ["user"]]


def test_a_record_that_claude_code_wrote_twice_counts_once(tmp_path: Path) -> None:
    answer = cc("assistant", [{"type": "text", "text": "once"}], "a1", api="msg_1")
    session = only(write(tmp_path / "x", cc("user", "go", "u1"), answer, {**answer, "version": "2"}))
    assert [m["content"] for m in session.messages] == ["go", "once"]


# ----------------------------------------------------------------------------------------------- Codex


def test_codex_items_of_one_response_become_one_message_and_the_whole_history_stays(tmp_path: Path) -> None:
    session = only(
        write(
            tmp_path / "x",
            {
                "timestamp": NOON,
                "type": "session_meta",
                "payload": {"id": "r1", "base_instructions": {"text": "You are"}},
            },
            event("task_started"),
            said("developer", "rules"),
            said("user", "go"),
            event("user_message", message="go"),
            {"timestamp": NOON, "type": "turn_context", "payload": {"model": "gpt-5"}},
            item("reasoning", summary=[{"type": "summary_text", "text": "think"}]),
            said("assistant", "I look."),
            event("agent_message", message="I look."),
            item("function_call", name="shell", arguments='{"cmd":"ls"}', call_id="c1"),
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
            item("function_call_output", call_id="c1", output="a.py"),
            item("custom_tool_call_output", call_id="c2", output={"content": "no", "success": False}),
            event(
                "token_count",
                info={
                    "last_token_usage": {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 5}
                },
            ),
            {
                "timestamp": NOON,
                "type": "compacted",
                "payload": {"message": "", "replacement_history": [{}, {}]},
            },
            item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
            item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["ls"]}),
            event("turn_aborted", reason="interrupted"),
            said("user", "again"),
            said("assistant", "Done."),
        )
    )
    assert (session.format, session.name, session.model) == ("codex", "r1", "gpt-5")
    assert shape(session) == [
        "system",
        "system",
        "user",
        "assistant+2",
        "tool=c1",
        "tool=c2",
        "assistant+1",
        "user",
        "assistant",
    ]
    first = session.messages[3]
    assert (first["content"], first["reasoning_content"]) == ("I look.", "think")
    assert first["usage"] == {"input_tokens": 50, "output_tokens": 5}
    assert json.loads(first["tool_calls"][1]["function"]["arguments"]) == {"input": "*** Begin"}
    assert (session.messages[5]["content"], session.messages[5]["status"]) == ("no", "error")
    assert [b["type"] for b in session.messages[6]["content"]] == ["web_search_call"]
    assert session.events == [
        (6, "boundary", {"replacement_items": 2}),
        (7, "aborted", {"reason": "interrupted"}),
    ]
    assert "1 compactions of Codex" in session.notes[-1]


# ------------------------------------------------------------------------------------------- SWE-agent


def test_a_swe_agent_trajectory_gives_its_history(tmp_path: Path) -> None:
    for document in (
        {"environment": "swe_main", "trajectory": [], "history": HISTORY, "info": {}},
        {"history": HISTORY},
    ):
        session = only(write(tmp_path / "x.traj", document))
        assert (session.format, shape(session)) == ("swe-agent", ["system", "user", "assistant+1", "tool=c1"])
        assert [m["content"] for m in session.messages] == ["s", "issue", "look", "out"]


def test_a_trajectory_without_history_is_rebuilt_from_its_steps(tmp_path: Path) -> None:
    steps = [
        {"action": "ls", "observation": "a.py", "response": "I list.", "thought": "", "query": HISTORY[:2]},
        {"action": "cat a.py", "observation": "", "response": "", "thought": "I read."},
    ]
    session = only(write(tmp_path / "x.traj", {"trajectory": steps, "info": {}}))
    assert (session.format, shape(session)) == ("swe-agent", ["system", "user", *["assistant", "user"] * 2])
    assert session.messages[4]["content"] == "I read.\n\n```\ncat a.py\n```"
    assert session.notes == ["no history: rebuilt from the trajectory's steps"]


def test_mini_swe_agent_loads_as_bare_list_and_as_document(tmp_path: Path) -> None:
    ran = {"role": "user", "content": "<returncode>0</returncode>\n<output>\nx\n</output>"}
    bare = [CHAT[0], {"role": "user", "content": "issue"}, CHAT[5], ran, CHAT[5], ran, CHAT[5]]
    session = only(write(tmp_path / "x", bare))
    assert (session.format, len(session.messages)) == ("mini-swe-agent", 7)

    extra = {"timestamp": NOON_MS / 1000, "response": {"usage": {"prompt_tokens": 4, "completion_tokens": 1}}}
    document = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "gpt-5-mini"}}},
        "messages": [
            *CHAT[:2],
            {"role": "assistant", "content": "", "tool_calls": [call("c1", "bash")], "extra": extra},
            {"role": "tool", "tool_call_id": "c1", "content": "out"},
            {"role": "exit", "content": "diff", "extra": {}},
        ],
    }
    session = only(write(tmp_path / "y", document))
    assert (session.format, session.model) == ("mini-swe-agent", "gpt-5-mini")
    assert shape(session) == ["system", "user", "assistant+1", "tool=c1"] and session.damaged_lines == 0
    assert session.notes == ["1 exit message left out: the model never saw it"]
    assert session.messages[2]["usage"] == {"input_tokens": 4, "output_tokens": 1}
    assert session.messages[2]["timestamp_ms"] == NOON_MS
