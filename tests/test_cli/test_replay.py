"""`mt-context replay` and `demo`, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mt_context.cli.main import main

KEYS = [
    "file",
    "format",
    "messages",
    "turns",
    "window",
    "threshold",
    "max_view_tokens",
    "over_window",
    "invalid_views",
    "lost_requests",
    "persisted",
    "microcompacted",
    "compactions",
    "tokens_sent",
    "tokens_without",
    "damaged_lines",
    "seconds",
    "error",
]
FORMATS = ("openai-chat", "langchain", "mtagent", "claude-code", "codex", "swe-agent", "mini-swe-agent")


def replay(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    code = main(["replay", *arguments, "--json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def session_file(path: Path, rounds: int, result: str = "some output line\n" * 200) -> Path:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "find the slow kernel"}]
    for i in range(rounds):
        call = {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": "grep", "arguments": '{"pattern": "x"}'},
        }
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"{i} {result}"})
    messages.append({"role": "assistant", "content": "done"})
    path.write_text(json.dumps(messages))
    return path


def test_a_long_session_is_kept_within_a_small_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = session_file(tmp_path / "s.json", 60)
    code, (report,), err = replay(capsys, str(path), "--window", "16k")
    assert (code, err, list(report)) == (0, "", KEYS)
    assert (report["error"], report["over_window"], report["invalid_views"], report["lost_requests"]) == (
        None,
        0,
        0,
        0,
    )
    assert report["compactions"] + report["microcompacted"] > 0
    assert report["max_view_tokens"] < 11_468 + 1_000 and report["tokens_sent"] < report["tokens_without"]
    assert (report["turns"], report["messages"], report["window"], report["threshold"]) == (
        61,
        122,
        16384,
        11468,
    )


def test_nothing_is_compacted_twice_in_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = session_file(tmp_path / "s.json", 200)
    for window in ("8k", "16k", "64k"):
        _, (report,), _ = replay(capsys, str(path), "--window", window)
        assert report["compactions"] * 3 < report["turns"]


def test_the_table_and_the_turns_are_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = session_file(tmp_path / "s.json", 40, "word " * 9_000)
    assert main(["replay", str(path), "--turns", "--window", "16384"]) == 0
    out = capsys.readouterr().out
    assert "persisted" in out and "compacted" in out and "s.json" in out
    assert (
        "Views over the window: 0. Views a provider would refuse: 0. Views without the user's request: 0."
        in out
    )


def test_what_cannot_be_read_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"a": 1}')
    good = session_file(tmp_path / "s.json", 2)
    assert main(["replay", str(odd), str(tmp_path / "none.json"), str(good)]) == 2
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 2 and "odd.json" in err and "none.json" in err and "Traceback" not in err
    assert "s.json" in out and "2 of 3 files could not be replayed" in out
    code, reports, _ = replay(capsys, str(odd), str(good))
    assert code == 2 and reports[0]["error"] and reports[1]["error"] is None


@pytest.mark.parametrize(
    "arguments", [["--window", "many"], ["--window", "0"], ["--provider", "acme"], ["--format", "odd"], []]
)
def test_bad_options_are_refused_with_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["replay", *arguments])
    assert exit_info.value.code == 2 and "usage" in capsys.readouterr().err


def test_an_unknown_encoding_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(session_file(tmp_path / "s.json", 1)), "--encoding", "klingon"]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and "klingon" in err and "o200k_base" in err


def test_a_system_prompt_larger_than_the_window_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    messages = [
        {"role": "system", "content": "rule " * 20_000},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
    ]
    path.write_text(json.dumps(messages))
    code, (report,), _ = replay(capsys, str(path), "--window", "8192")
    assert code == 2 and "cannot be made to fit" in report["error"] and "rule rule" not in report["error"]


def test_a_reader_that_stops_early_does_not_get_a_traceback(tmp_path: Path) -> None:
    path = session_file(tmp_path / "s.json", 300)
    script = f'"{sys.executable}" -m mt_context.cli.main replay "{path}" --turns --window 8k | head -n 1'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1


def test_the_demo_persists_clears_and_compacts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    for word in ("persisted", "cleared", "compacted", "Views over the window: 0"):
        assert word in out, word


@pytest.mark.parametrize("window", [8192, 16384, 65536, 131072, 1_000_000])
def test_every_real_session_keeps_its_request_and_stays_valid_and_within_the_window(
    shared_data: Path, capsys: pytest.CaptureFixture[str], window: int
) -> None:
    files = [
        str(path)
        for name in FORMATS
        for path in sorted((shared_data / "sessions" / name).iterdir())
        if ".artifacts." not in path.name
    ]
    code, reports, _ = replay(capsys, *files, "--window", str(window))
    # A system prompt larger than the window is the one thing that cannot be helped, and is named.
    hopeless = [
        r for r in reports if window == 8192 and "system prompt and tool schemas" in (r["error"] or "")
    ]
    problems = [
        (Path(r["file"]).name, r["error"], r["over_window"], r["invalid_views"], r["lost_requests"])
        for r in reports
        if r not in hopeless and (r["error"] or r["over_window"] or r["invalid_views"] or r["lost_requests"])
    ]
    assert problems == [] and code == (2 if hopeless else 0)
    assert len(reports) == len(files) > 30
    assert sum(r["damaged_lines"] for r in reports) > 0
    # Nothing compacts on every turn.
    assert [
        Path(r["file"]).name for r in reports if r["turns"] > 8 and r["compactions"] * 3 > r["turns"]
    ] == []
