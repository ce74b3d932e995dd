"""Damaged, foreign and hostile files: counted or refused in one line, never silent, never fatal."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import sqlite3
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
    cc,
    event,
    item,
    only,
    refusal,
    result,
    said,
    shape,
    transcript,
    use,
    write,
)

from mt_context.cli import importers
from mt_context.cli.importers import SessionFileError, UnreadableFileError, load, reading
from mt_context.cli.importers.model import timestamp_ms

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


# -------------------------------------------------------------------------------------------- refusals


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


# ------------------------------------------------------------------------------------------ robustness


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
