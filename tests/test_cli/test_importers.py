"""Recorded sessions of other programs: what is read, what is refused, and that nothing is lost silently."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import re
import sqlite3
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mt_context.cli import importers
from mt_context.cli.importers import SessionFileError, UnreadableFileError, load, reading
from mt_context.cli.importers.model import timestamp_ms

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


# ---------------------------------------------------------------------------------------------- OpenAI chat


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


# ---------------------------------------------------------------------------------------------- LangChain


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


# ---------------------------------------------------------------------------------------------- MT-Agent


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


# ---------------------------------------------------------------------------------------------- Claude Code


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


# ---------------------------------------------------------------------------------------------- Codex


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": NOON, "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": NOON, "type": "event_msg", "payload": {"type": kind, **fields}}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


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
    assert [(e.before, e.kind) for e in session.events] == [(6, "boundary"), (7, "aborted")]
    assert "1 compactions of Codex" in session.notes[-1]


# ---------------------------------------------------------------------------------------------- SWE-agent


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
    assert shape(session) == ["system", "user", "assistant+1", "tool=c1"]
    assert session.messages[2]["usage"] == {"input_tokens": 4, "output_tokens": 1}
    assert session.messages[2]["timestamp_ms"] == NOON_MS


# ---------------------------------------------------------------------------------------------- damage


def lines(*parts: bytes) -> bytes:
    return b"\n".join(parts) + b"\n"


def line(role: str, content: str) -> bytes:
    return json.dumps(transcript(role, content), ensure_ascii=False).encode()


START = b'{"type": "session_start", "sessionId": "abc", "timestamp": 1}'


@pytest.mark.parametrize(
    ("damage", "reason", "kept"),
    [
        (line("user", "b")[:40], "invalid JSON", []),
        (b"\x00" * 300, "NUL bytes", []),
        (b"\x00\x00" + line("user", "b") + b"\x00", "NUL bytes", ["b"]),
        (b"null", "null instead of an object", []),
        (b"[1]", "a list instead of an object", []),
        (line("user", "b") + line("user", "c"), "several objects on one line", ["b", "c"]),
        (line("user", "b") + b'{"type": "torn', "several objects on one line", ["b"]),
        (line("user", "b\u00e9").replace("\u00e9".encode(), b"\xff"), "invalid UTF-8, replaced", ["b\ufffd"]),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply", []),
    ],
    ids=[
        "torn",
        "nul run",
        "nul around",
        "null",
        "list",
        "glued",
        "glued and torn",
        "utf-8",
        "deep",
    ],
)
def test_a_damaged_line_costs_itself_is_counted_with_its_offset_and_is_never_fatal(
    tmp_path: Path, damage: bytes, reason: str, kept: list[str]
) -> None:
    head = START + b"\n" + line("user", "a") + b"\n"
    path = write(tmp_path / "x", head + lines(damage, line("user", "z")))
    session = only(path)
    assert session.damaged == [(3, len(head), reason)] and session.damaged_lines == 1
    assert [m["content"] for m in session.messages] == ["a", *kept, "z"]


def test_a_damaged_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    session = only(write(tmp_path / "x", lines(START[:20], line("user", "a"))))
    assert (session.format, session.damaged) == ("mtagent", [(1, 0, "invalid JSON")])


def test_lines_end_at_the_byte_newline_only(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\x0b\x0cd\u2029e"
    session = only(write(tmp_path / "x", lines(START, line("user", text), b"", b"  \r")))
    assert (session.messages[0]["content"], session.damaged_lines) == (text, 0)


def test_crlf_a_bom_and_lone_surrogates_are_no_damage(tmp_path: Path) -> None:
    body = b'{"type": "transcript_message", "role": "user", "content": "\\ud83d cut"}'
    session = only(write(tmp_path / "x", b"\xef\xbb\xbf" + START + b"\r\n" + body + b"\r\n"))
    assert (session.messages[0]["content"], session.damaged_lines, session.name) == ("\ud83d cut", 0, "abc")


def test_gzip_is_unpacked_whatever_the_name_and_a_cut_stream_keeps_what_came_before(tmp_path: Path) -> None:
    whole = lines(START, *(line("user", f"{n} " + os.urandom(400).hex()) for n in range(200)))
    packed = gzip.compress(whole)
    assert len(only(write(tmp_path / "x.txt", packed)).messages) == 200
    session = only(write(tmp_path / "y", packed[: len(packed) // 2]))
    assert 50 < len(session.messages) < 150
    assert session.damaged_lines == 1 and "gzip data ends early" in session.damaged[0].reason


def test_a_line_over_the_limit_is_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1000)
    session = only(write(tmp_path / "x", lines(START, line("user", "x" * 3000), line("user", "z"))))
    assert [m["content"] for m in session.messages] == ["z"]
    assert [d[:2] for d in session.damaged] == [(2, len(START) + 1)]


def test_what_is_no_message_inside_a_document_is_counted(tmp_path: Path) -> None:
    session = only(write(tmp_path / "x", [CHAT[0], None, CHAT[1]]))
    assert (shape(session), session.damaged_lines) == (["system", "user"], 1)


# ---------------------------------------------------------------------------------------------- refusals


def refusal(path: Path | str, format: str | None = None) -> str:
    """The error's text: always one line, always with the path."""
    with pytest.raises(SessionFileError) as caught:
        load(path, format)
    text = str(caught.value)
    assert isinstance(caught.value, ValueError) and "\n" not in text
    return text


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent")
    assert "directory" in refusal(tmp_path)
    assert "is empty" in refusal(write(tmp_path / "e", b""))
    assert "white space" in refusal(write(tmp_path / "w", b" \n\n\t"))
    assert "is empty" in refusal(write(tmp_path / "g", gzip.compress(b"")))
    assert "gzip data" in refusal(write(tmp_path / "h", b"\x1f\x8b\x08garbage"))
    assert "regular file" in refusal("/dev/null")
    assert refusal("no\x00name") and refusal("a\nb")
    with pytest.raises(UnreadableFileError):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x", CHAT)
    path.chmod(0)
    assert "permission denied" in refusal(path)


def test_a_permission_error_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "x", CHAT)
    monkeypatch.setattr(reading.os, "stat", deny)
    assert "permission denied" in refusal(path)


def test_binary_files_are_named(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "db").execute("create table t(x)").connection.close()
    assert "SQLite" in refusal(tmp_path / "db")
    assert "zip archive" in refusal(write(tmp_path / "z", b"PK\x03\x04rest"))
    assert "UTF-16" in refusal(write(tmp_path / "u", "[]".encode("utf-16")))
    assert "binary" in refusal(write(tmp_path / "b", bytes(range(256)) * 50))
    assert "gzip data inside" in refusal(write(tmp_path / "n", gzip.compress(gzip.compress(b"[]"))))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([{"some": 1, "keys": 2}], "JSON object with the keys some, keys"),
        ([[]], "empty JSON list"),
        ([[1, 2]], "JSON list of 2 int"),
        ([17], "no JSON object"),
        ([{"a": 1}, {"b": 2}], "JSON lines, the first JSON object with the keys a"),
        ([b"just some prose\nover two lines\n"], "no JSON object"),
        ([b'[{"role": "user", "content": "cut of'], "invalid JSON at line 1"),
        ([b"[" * 200_000], "nested too deeply"),
        ([[{"role": "user", "parts": [{"text": "x"}]}]], "Gemini"),
        (
            [[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y"}]}]],
            "Anthropic",
        ),
        ([{"model": "c", "max_tokens": 1, "system": "s", "messages": CHAT[1:2]}], "Anthropic API request"),
        ([[{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]], "OpenAI Responses"),
        ([{"messages": CHAT, "kwargs": {}, "response": {}, "context_window": 1}], "LLM request log"),
        ([{"version": 1, "agent": "lead", "sessionId": "x", "messages": CHAT[1:2]}], "Cline"),
        ([{"model": {"messages": LANGCHAIN}}, {"tools": {"messages": LANGCHAIN}}], "LangGraph state updates"),
        ([[{"run_type": "chain", "inputs": {"messages": []}, "outputs": {}}]], "LangSmith"),
        (
            [
                {"type": "session", "version": 0, "id": "x", "createdAt": 0, "cwd": "."},
                {"type": "turn/start"},
            ],
            "DeepSeek",
        ),
        ([{"type": "session", "id": "x", "cwd": "."}, {"type": "message", "message": CHAT[1]}], "pi session"),
        (
            [{"type": "system", "subtype": "init", "session_id": "x"}, {"type": "user", "message": CHAT[1]}],
            "Claude SDK",
        ),
        (
            [{"type": "session.start", "data": {}}, {"type": "user.message", "data": {"content": "x"}}],
            "Copilot CLI",
        ),
        ([[{"id": 0, "source": "user", "action": "message", "args": {}}]], "OpenHands events"),
        ([{"spans": []}], "OpenTelemetry"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_refused_by_name_with_the_way_out(
    tmp_path: Path, values: list[Any], words: str
) -> None:
    text = refusal(write(tmp_path / "x.jsonl", *values))
    assert words in text and "known formats: openai-chat, langchain, mtagent" in text and "--format" in text


def test_a_refusal_tells_nothing_of_the_content(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(
        write(tmp_path / "x", {"password": "hunter2", "nested": {"k": "hunter2"}})
    )


def test_a_forced_format_overrides_the_detection_where_the_content_allows_it(tmp_path: Path) -> None:
    log = write(tmp_path / "log", {"messages": CHAT, "kwargs": {}, "response": {}})
    assert shape(only(log, "openai-chat")) == CHAT_SHAPE
    plain = write(tmp_path / "plain", CHAT)
    assert only(plain, "mini-swe-agent").format == "mini-swe-agent"


def test_a_wrongly_forced_format_says_what_the_file_is(tmp_path: Path) -> None:
    chat = write(tmp_path / "chat", CHAT)
    rollout = write(tmp_path / "rollout", event("task_started"), said("user", "go"))
    for path, is_format in ((chat, "openai-chat"), (rollout, "codex")):
        for format in set(importers.FORMATS) - {is_format, "mini-swe-agent"}:
            text = refusal(path, format)
            assert f"is not {format}" in text and f"the format {is_format}" in text
    assert "no format 'nonsense'" in refusal(chat, "nonsense")
    assert "Anthropic" in refusal(
        write(tmp_path / "a", [cc("user", [result("c", "x")], "u")["message"]]), "openai-chat"
    )


def test_times_are_read_in_every_form() -> None:
    assert (
        timestamp_ms(NOON) == timestamp_ms("2026-03-01 13:00:00.25+01:00") == timestamp_ms(NOON_MS) == NOON_MS
    )
    assert (
        timestamp_ms(NOON_MS / 1000)
        == timestamp_ms(NOON_MS * 1000)
        == timestamp_ms(NOON_MS * 1_000_000)
        == NOON_MS
    )
    assert timestamp_ms("2026-03-01T12:00:00") == NOON_MS - 250
    for nonsense in (None, True, 0, -5, float("nan"), "soon", "", [], "2026-13-45T99:99:99Z"):
        timestamp_ms(nonsense)  # never raises


# ---------------------------------------------------------------------------------------------- robustness


SEEDS: list[list[Any]] = [
    [CHAT],
    [{"messages": CHAT, "tools": [], "model": "x"}],
    [LANGCHAIN],
    [
        {"type": "session_start", "sessionId": "a"},
        transcript(
            "assistant", "x", tool_calls=[{"name": "a", "args": {}, "id": "1"}], artifact={"path": "x"}
        ),
    ],
    [
        {"type": "user", "display": "x"},
        {"type": "tool_request", "tool_name": "x", "arguments": {}},
        {"type": "tool_complete", "tool_name": "x", "status": "error", "error_msg": "x"},
    ],
    [cc("assistant", [use("c1")], "a1"), cc("user", [result("c1", [IMAGE])], "r", toolUseResult={})],
    [
        item("reasoning", summary=[{"text": "x"}]),
        item("function_call", name="x", arguments="{}", call_id="c"),
    ],
    [{"history": HISTORY, "trajectory": []}],
]
JUNK: list[Any] = [
    None,
    1,
    -1,
    True,
    "",
    "x",
    [],
    {},
    [None],
    [1],
    [{}],
    {"a": 1},
    {"type": "text"},
    "\ud800",
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in _places(part, (*path, key)))]


def test_any_field_may_hold_anything_and_the_file_loads_or_is_refused_in_one_line(tmp_path: Path) -> None:
    rng = random.Random(20260301)
    loaded = 0
    for _ in range(3000):
        values = copy.deepcopy(rng.choice(SEEDS))
        *parents, last = rng.choice([place for place in _places(values) if place])
        target: Any = values
        for key in parents:
            target = target[key]
        target[last] = copy.deepcopy(rng.choice(JUNK))
        path = tmp_path / "x"
        path.write_text("\n".join(map(json.dumps, values)))
        try:
            sessions = load(path, rng.choice((None, *importers.FORMATS)))
        except SessionFileError as error:
            assert "\n" not in str(error)
            continue
        loaded += 1
        for message in (m for s in sessions for m in s.messages):
            assert message["role"] in ("system", "user", "assistant", "tool") and message["id"]
            assert message["content"] is None or isinstance(message["content"], str | list)
            for made in message.get("tool_calls", ()):
                assert all(isinstance(text, str) for text in (made["id"], *made["function"].values()))
    assert loaded > 500


# ---------------------------------------------------------------------------------------------- real files


def _calls(session: importers.Session) -> list[dict[str, Any]]:
    return [c for m in session.messages for c in m.get("tool_calls", ())]


def test_every_real_session_of_our_formats_loads_completely_and_every_other_file_is_refused(
    shared_data: Path,
) -> None:
    rows = [
        row for row in json.loads((shared_data / "index.json").read_text()) if row.get("kind") == "session"
    ]
    loaded: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for row in rows:
        path = shared_data / row["file"]
        if row["format"] not in importers.FORMATS or path.name.endswith(".tar.gz"):
            assert "--format" in refusal(path), row["file"]
            refused[row["format"]] += 1
            continue
        sessions = load(path)
        loaded[row["format"]] += 1
        assert {s.format for s in sessions} == {row["format"]}, row["file"]
        _check_counts(row, sessions)
        for session in sessions:
            ids = {m["id"] for m in session.messages}
            assert all(isinstance(m["id"], str) and m["id"] for m in session.messages) and ids
            assert all(isinstance(c["function"]["arguments"], str) for c in _calls(session))
    assert loaded.keys() == set(importers.FORMATS) and sum(loaded.values()) >= 39
    assert sum(refused.values()) >= 30
    print(f"loaded {dict(loaded)}, refused {dict(refused)}")


def _check_counts(row: dict[str, Any], sessions: list[importers.Session]) -> None:
    messages = [m for s in sessions for m in s.messages]
    calls = sum(len(_calls(s)) for s in sessions)
    results = sum(m["role"] == "tool" for m in messages)
    damaged = sum(s.damaged_lines for s in sessions)
    name, features = row["file"], row["features"]
    assert damaged == features.get("bad_lines", 0), name
    if row["messages"] == 0:  # the index's maker knew this file's form not
        assert calls == results == sum(m["role"] == "assistant" for m in messages) > 0, name
    elif row["format"] == "codex":
        # The index counts the provider's own web searches as calls, and leaves out results that aren't text.
        assert row["tool_calls"] - features.get("event:web_search_end", 0) <= calls <= row["tool_calls"], name
        assert row["tool_results"] <= results <= calls, name
    elif row["format"] == "claude-code":  # the index counts records, `as_openai` the merged messages
        assert (len(messages), calls, results) == (
            row["as_openai"]["messages"],
            row["tool_calls"],
            row["tool_results"],
        ), name
    else:
        invalid = row["file"].endswith(
            "codex-aborted.messages_to_dict.json.gz"
        )  # one invalid call, not counted there
        assert (len(messages), calls - invalid, results) == (
            row["messages"],
            row["tool_calls"],
            row["tool_results"],
        ), name


# ---------------------------------------------------------------------------------------------- the demo


DEMO = Path(importers.__file__).parents[1] / "demo_session.jsonl"


def test_the_demo_session_has_what_a_demo_of_the_policies_needs() -> None:
    session = only(DEMO)
    messages = session.messages
    sizes = {
        tool: sorted(len(m["content"]) for m in messages if m.get("name") == tool)
        for tool in ("grep", "shell")
    }
    times = [m["timestamp_ms"] for m in messages]
    assert (session.format, session.name, session.damaged_lines) == ("mtagent", "demo", 0)
    assert sum(m["role"] == "user" for m in messages) >= 6
    assert 40 <= sum(m["role"] == "assistant" for m in messages) <= 60
    assert sizes["grep"][-1] > 20_000 and sizes["shell"][-1] > 50_000
    assert any(len(m.get("tool_calls", ())) > 1 for m in messages)
    assert sum(m.get("status") == "error" for m in messages) == 2  # a denied call and a file that isn't there
    assert any("\r" in m["content"] for m in messages) and any("\u8bf7" in m["content"] for m in messages)
    assert times == sorted(times) and max(b - a for a, b in pairwise(times)) > 60 * 60_000


def test_the_demo_session_names_no_machine_no_person_and_no_registry() -> None:
    text = DEMO.read_text(encoding="utf-8")
    assert len(text.encode()) <= 700_000
    for pattern in (
        r"(?<![\w.~/])/(?:root|home|Users|work|tmp|opt|mnt|var)/",
        r"crates\.io|pypi\.org",
        r"\w@[\w-]+\.\w",
    ):
        assert re.search(pattern, text) is None, pattern
