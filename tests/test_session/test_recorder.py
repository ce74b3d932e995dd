"""The transcript as a host uses it: recorded at once, resumed from the last compaction, read whatever happened to it (plan M1)."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mt_context import _core
from mt_context.context import editing
from mt_context.context.message_invariants import is_compact_boundary_message, validate_messages
from mt_context.context.microcompact import MicroCompactor, maybe_time_based_microcompact
from mt_context.events import EventBus, EventType
from mt_context.exceptions import SessionLockedError, StorageError
from mt_context.session import SessionRecorder, schema
from mt_context.session.verify import repair_session, verify_session

BugCase = Callable[[str], dict[str, Any]]


@pytest.fixture
def recorder(tmp_path: Path) -> SessionRecorder:
    return SessionRecorder(tmp_path / "project", {"global_dir": str(tmp_path / "global")})


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "transcript_message", "role": "user", "content": text, **more}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_a_record_is_on_disk_when_record_returns(recorder: SessionRecorder) -> None:
    assert recorder.flush() is None and recorder.path is None
    assert recorder.record(user("hello")) == 2
    assert recorder.path is not None
    written = lines(recorder.path)
    assert [r["type"] for r in written] == ["session_start", "transcript_message"]
    assert [r["seq"] for r in written] == [1, 2]
    assert (
        written[1]["id"] and written[1]["timestamp"] and written[0]["sessionId"] == recorder.stats.session_id
    )
    recorder.close()
    assert lines(recorder.path)[-1]["type"] == "session_end"


def test_a_second_writer_is_refused_and_a_resumed_session_goes_on_in_its_file(
    tmp_path: Path, recorder: SessionRecorder
) -> None:
    recorder.record(user("one"))
    path = recorder.flush()
    assert path is not None
    with pytest.raises(SessionLockedError, match=str(os.getpid())):
        _core.SessionWriter(path.parent, path.name)
    recorder.close()
    with SessionRecorder(tmp_path / "project", recorder._config) as again:
        again.resume_from(path)
        assert again.stats.session_id == recorder.stats.session_id
        again.record(user("two"))
        assert [m.content for m in again.build_resume_messages(path)] == ["one", "two"]
        assert again.path == path
    assert [r["seq"] for r in lines(path)] == list(range(1, len(lines(path)) + 1))


def test_a_compaction_resumes_as_boundary_summary_kept_tail_and_everything_later(
    recorder: SessionRecorder,
) -> None:
    recorder.record(user("first task", id="u1"))
    recorder.record(user("second task", id="u2"))
    call = {"name": "grep", "args": {"pattern": "x"}, "id": "c1", "type": "tool_call"}
    recorder.record(
        {"type": "transcript_message", "role": "assistant", "content": "", "id": "a1", "tool_calls": [call]}
    )
    recorder.record(
        {
            "type": "transcript_message",
            "role": "tool",
            "content": "hit",
            "id": "t1",
            "tool_call_id": "c1",
            "name": "grep",
        }
    )
    recorder.record(
        schema.make_compact_boundary_record(
            reason="auto", pre_tokens=900, post_tokens=90, summary="what was done", kept_from_id="u2", last_kept_id="t1",
            pinned=[{"id": "u1", "content": "first task"}],
        )
    )  # fmt: skip
    recorder.record(user("go on", id="u3"))
    path = recorder.flush()
    assert path is not None
    messages = recorder.build_resume_messages(path)
    assert [m.content.partition("\n")[0] for m in messages] == [
        '<compact_boundary pre_tokens="900" post_tokens="90" reason="auto" />',
        "<conversation_history_summary>",
        "first task",
        "second task",
        "",
        "hit",
        "go on",
    ]
    assert is_compact_boundary_message(messages[0]) and editing.kind_of(messages[1]) == "summary"
    assert messages[0].additional_kwargs["mt_context"]["last_kept_id"] == "t1"
    assert all(validate_messages(messages, p) == [] for p in ("openai", "anthropic", "deepseek", "gemini"))


def test_an_interrupted_call_gets_a_result_that_says_so_and_the_transcript_is_not_rewritten(
    recorder: SessionRecorder,
) -> None:
    recorder.record(user("push"))
    call = {"name": "shell", "args": {"command": "git push"}, "id": "c1", "type": "tool_call"}
    recorder.record({"type": "transcript_message", "role": "assistant", "content": "", "tool_calls": [call]})
    path = recorder.flush()
    assert path is not None
    before = path.read_bytes()
    made = recorder.build_resume_messages(path)[-1]
    assert (made.type, made.status, made.tool_call_id) == (
        "tool",
        "error",
        "c1",
    ) and "unknown" in made.content
    assert path.read_bytes() == before


def test_what_was_cleared_stays_cleared_after_a_resume_byte_for_byte(recorder: SessionRecorder) -> None:
    bus, seen = EventBus(), []
    bus.subscribe(EventType.MICRO_COMPACTED, seen.append)
    recorder.record(user("read all", id="u"))
    view: list[Any] = [HumanMessage("read all", id="u")]
    for i in range(8):
        call = {"name": "grep", "args": {}, "id": f"c{i}", "type": "tool_call"}
        text = f"result {i} " + "word " * 200
        recorder.record(
            {
                "type": "transcript_message",
                "role": "assistant",
                "content": "",
                "id": f"a{i}",
                "tool_calls": [call],
            }
        )
        recorder.record(
            {
                "type": "transcript_message",
                "role": "tool",
                "content": text,
                "id": f"t{i}",
                "tool_call_id": f"c{i}",
                "name": "grep",
            }
        )
        view += [
            AIMessage("", id=f"a{i}", tool_calls=[call]),
            ToolMessage(text, id=f"t{i}", tool_call_id=f"c{i}", name="grep"),
        ]
    result = MicroCompactor(recorder, bus).after_pause(view, now=10**13, last_assistant_ts=1)
    assert result.cleared_count == 3 and seen[0].data["cleared_count"] == 3
    for message in (m for m in result.messages if editing.kind_of(m) == "cleared"):
        path = message.additional_kwargs["mt_context"]["artifact"]
        assert path in message.content.splitlines()[1]
        kept = (recorder.get_artifact_dir() / path).read_text()
        assert kept == next(m.content for m in view if m.id == message.id)
    file = recorder.flush()
    assert file is not None
    resumed = recorder.build_resume_messages(file)
    assert [m.content for m in resumed] == [m.content for m in result.messages]
    assert not maybe_time_based_microcompact(resumed, 10**13 + 1, 1).triggered


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_any_text_round_trips_or_says_that_it_did_not(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str
) -> None:
    folder = tmp_path_factory.mktemp("r")
    with SessionRecorder(folder, {"global_dir": str(folder / "g")}) as recorder:
        recorder.record(
            {
                "type": "transcript_message",
                "role": "tool",
                "content": text,
                "name": name,
                "tool_call_id": name,
            }
        )
        assert recorder.path is not None
        (record,) = recorder.load_raw_session(recorder.path)
    clean = lambda t: t.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # noqa: E731
    assert (record["content"], record["name"]) == (clean(text), clean(name))
    assert bool(record.get("lossy")) == (text != clean(text) or name != clean(name))


def test_line_separators_nul_and_deep_values_survive(recorder: SessionRecorder) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    for text in ("a\u2028b\u2029c\u0085d", "nul \0 nul", "\x1b[31m", '{"type": "compact_boundary"}'):
        recorder.record(user(text))
    recorder.record(user("deep", extra=deep, odd={1, 2}, path=Path("x"), number=float("nan")))
    path = recorder.flush()
    assert path is not None
    assert verify_session(path).ok and path.read_bytes().count(b"\n") == 7
    assert [r["content"] for r in recorder.load_raw_session(path)][:2] == [
        "a\u2028b\u2029c\u0085d",
        "nul \0 nul",
    ]


def test_damage_costs_its_line_alone_and_is_told_and_repair_loses_nothing(
    recorder: SessionRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(5):
        recorder.record(user(f"m{i}"))
    recorder.close()
    path = recorder.path
    assert path is not None
    parts = path.read_bytes().split(b"\n")
    parts[2] = b"\0\0\0\0"
    parts[4] = parts[4] + parts[5]
    del parts[5]
    path.write_bytes(b"\n".join(parts) + b'{"torn": ')
    assert [r["content"] for r in recorder.load_raw_session(path)] == ["m0", "m2", "m3", "m4"]
    assert "damaged line at byte" in caplog.text and "m2" not in caplog.text
    found = verify_session(path)
    assert len(found.damaged) == 3 and found.torn_bytes == 9 and not found.ok
    backup, _ = repair_session(path)
    assert backup is not None and b"\0\0\0\0" in backup.read_bytes()
    assert path.with_name(path.name + ".torn-1").read_bytes() == b'{"torn": '
    assert verify_session(path).damaged == [] and len(recorder.load_raw_session(path)) == 4


def test_a_listing_reads_ends_only_and_tells_the_first_request(recorder: SessionRecorder) -> None:
    recorder.record(user("请优化内核 " * 20))
    for i in range(40):
        recorder.record(user("x" * 20_000, id=f"u{i}"))
    recorder.close()
    (session,) = recorder.list_sessions()
    assert session["first_user_message"].startswith("请优化内核") and len(session["first_user_message"]) == 80
    assert session["message_count_estimated"] and 30 <= session["message_count"] <= 50
    assert session["session_id"] == recorder.stats.session_id


def test_everything_is_private_whatever_the_umask(tmp_path: Path) -> None:
    for umask in (0o000, 0o022, 0o077):
        old = os.umask(umask)
        try:
            with SessionRecorder(tmp_path, {"global_dir": str(tmp_path / f"g{umask}")}) as recorder:
                recorder.record(user("secret"))
                _core.ArtifactStore(recorder.get_artifact_dir()).write("c1", "secret")
        finally:
            os.umask(old)
        for path in (tmp_path / f"g{umask}").rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path.name


def test_errors_hold_nothing_of_the_session(
    recorder: SessionRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "CANARY-7731"
    recorder.record(user(canary))
    path = recorder.path
    assert path is not None
    problems = []
    for attempt in (
        lambda: _core.SessionWriter(path.parent, path.name),
        lambda: recorder.load_raw_session(path.with_name("none.jsonl")),
        lambda: recorder._opened().record(canary),
        lambda: recorder._opened().record(f'["{canary}"]'),
        lambda: _core.ArtifactStore(recorder.get_artifact_dir()).read(f"../{canary}"),
        lambda: _core.check_artifact_path(canary),
    ):
        with pytest.raises((ValueError, OSError, SessionLockedError)) as caught:
            attempt()
        problems.append(str(caught.value))
    assert canary not in " ".join(problems) + caplog.text + repr(recorder)


def test_a_redactor_sees_every_text_before_it_is_written(tmp_path: Path) -> None:
    with SessionRecorder(
        tmp_path, {"global_dir": str(tmp_path / "g")}, redactor=lambda t: t.replace("hunter2", "***")
    ) as recorder:
        recorder.record(user("the password is hunter2", extra={"deep": ["hunter2"]}))
        assert recorder.path is not None and b"hunter2" not in recorder.path.read_bytes()


def test_a_missing_or_unreadable_session_is_one_clear_error(
    recorder: SessionRecorder, tmp_path: Path
) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(StorageError, match="cannot read") as caught:
            recorder.build_resume_messages(path)
        assert caught.value.errno and isinstance(caught.value, OSError)


def test_every_recorded_session_of_the_host_resumes(
    shared_data: Path, recorder: SessionRecorder, tmp_path: Path
) -> None:
    files = sorted((shared_data / "sessions" / "mtagent").glob("*.jsonl.gz"))
    assert len(files) == 3
    for file in files:
        path = tmp_path / file.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(file.read_bytes()))
        messages = recorder.build_resume_messages(path)
        assert len(messages) > 50 and validate_messages(messages) == []


# --- bug cases


def records_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """A case's messages as records; its texts that look like boundaries are what an older host recorded as such."""
    records = []
    for m in case["messages"]:
        if str(m["content"]).startswith("<compact_boundary "):
            records.append({"type": "compact_boundary", "reason": "auto", "pre_tokens": 1, "post_tokens": 1})
        elif str(m["content"]).startswith("<conversation_history_summary>"):
            records.append(
                {
                    "type": "transcript_message",
                    "role": "system",
                    "name": "compact_summary",
                    "content": m["content"],
                }
            )
        else:
            records.append({"type": "transcript_message", **m})
    return records


def test_bug_case_05_the_completed_result_wins_on_resume_too(
    recorder: SessionRecorder, bugcase: BugCase
) -> None:
    for record in records_of(bugcase("05")):
        recorder.record(record)
    path = recorder.flush()
    assert path is not None
    messages = recorder.build_resume_messages(path)
    assert validate_messages(messages) == []
    assert [m.content for m in messages if m.type == "tool"][:2] == ["2 todos saved", "3 todos saved"]


def test_bug_case_21_a_dangling_call_is_not_called_a_cancellation(
    recorder: SessionRecorder, bugcase: BugCase
) -> None:
    for record in records_of(bugcase("21")):
        recorder.record(record)
    path = recorder.flush()
    assert path is not None
    messages = recorder.build_resume_messages(path)
    results = {m.tool_call_id: m for m in messages if m.type == "tool"}
    assert (results["c1"].content, results["c3"].content) == ("ok", "clean")
    assert results["c2"].status == "error" and "cancel" not in results["c2"].content.lower()
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "tool", "human"]


def test_bug_case_22_resume_starts_at_the_recorded_cut(recorder: SessionRecorder, bugcase: BugCase) -> None:
    for record in records_of(bugcase("22")):
        recorder.record(record)
    path = recorder.flush()
    assert path is not None
    messages = recorder.build_resume_messages(path)
    texts = [str(m.content) for m in messages]
    assert "second summary" in texts[1] and not any("old-" in t or "first summary" in t for t in texts)
    assert texts.index("new-1 go on") == 2 and validate_messages(messages) == []
    # A newer boundary whose summary was never written does not count.
    recorder.record({"type": "compact_boundary", "reason": "auto", "pre_tokens": 1, "post_tokens": 1})
    again = [str(m.content) for m in recorder.build_resume_messages(path)]
    assert again == texts
