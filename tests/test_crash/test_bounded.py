"""Memory and reading are bounded, whatever the size of a result or a transcript (reliability R11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MIB = 1024 * 1024
#: An artifact is never larger.
CAP = 64 * MIB

RunJob = Callable[..., list[dict[str, Any]]]
Report = Callable[[str], None]


def record(number: int, content: str) -> bytes:
    """One line of a transcript."""
    fields = {
        "type": "transcript_message",
        "id": f"m-{number}",
        "role": "user" if number % 2 else "assistant",
    }
    return json.dumps({"seq": number + 1, **fields, "content": content}).encode() + b"\n"


def write_transcript(path: Path, size: int) -> None:
    """A transcript of that size, whose last compaction is just before its end."""
    block = b"".join(record(i, "a long conversation " * 400) for i in range(200))
    with path.open("wb") as file:
        file.write(b'{"seq":0,"type":"session_start","sessionId":"s"}\n')
        while file.tell() < size:
            file.write(block)
        file.write(record(1_000_000, "kept"))
        boundary = {
            "type": "compact_boundary",
            "summary": "what happened before",
            "kept_from_id": "m-1000000",
        }
        file.write(json.dumps(boundary).encode() + b"\n")
        for i in range(20):
            file.write(record(1_000_001 + i, "after the boundary " * 20))


@pytest.mark.xfail(
    reason="ArtifactStore.write encodes the whole text before it is cut to 64 MiB: the growth is the text's size",
)
@pytest.mark.timeout(900)
def test_budgeting_a_huge_result_costs_no_more_than_what_is_kept_of_it(
    tmp_path: Path, run_job: RunJob, slow: bool, report: Report
) -> None:
    mib = 1024 if slow else 128
    (found,) = run_job("budget", tmp_path, mib)
    assert found["truncated"] is True
    assert CAP - 4 <= found["kept"] <= CAP
    assert found["shown"] <= 4_000
    report(f"budget of {mib} MiB: peak + {found['grown'] / MIB:.0f} MiB, {found['seconds']:.2f} s")
    assert found["grown"] <= CAP + 40 * MIB


@pytest.mark.timeout(900)
def test_resuming_a_huge_transcript_with_a_late_boundary_reads_only_its_end(
    tmp_path: Path, run_job: RunJob, slow: bool, report: Report
) -> None:
    read = {}
    for size in (2_000_000, 1_000_000_000 if slow else 60_000_000):
        path = tmp_path / "session-big.jsonl"
        write_transcript(path, size)
        (found,) = run_job("resume", path)
        assert found["summary"] == "what happened before"
        # The summary's message or two, the kept one, and the twenty after it.
        assert found["messages"] >= 21
        assert found["damaged"] == []
        read[size] = found["bytes_read"]
        report(
            f"resume of {size / 1e6:.0f} MB: peak + {found['grown'] / MIB:.1f} MiB, "
            f"{found['bytes_read']} bytes read, {found['seconds'] * 1000:.0f} ms"
        )
        assert found["grown"] <= 110 * MIB
        path.unlink()
    small, big = read.values()
    assert small == big < MIB


@pytest.mark.parametrize("job", ["load", "resume"])
def test_a_line_of_64_mib_is_skipped_and_told(
    tmp_path: Path, run_job: RunJob, report: Report, job: str
) -> None:
    path = tmp_path / "session-line.jsonl"
    head, tail = record(1, "before"), record(3, "after")
    with path.open("wb") as file:
        file.write(head)
        file.write(b'{"seq":2,"type":"transcript_message","content":"')
        for _ in range(64):
            file.write(b"x" * MIB)
        file.write(b'"}\n')
        file.write(tail)
    (found,) = run_job(job, path)
    assert found["damaged"] == [[len(head), "longer than 16 MiB"]]
    assert found["records" if job == "load" else "messages"] == 2
    report(f"{job} past a line of 64 MiB: peak + {found['grown'] / MIB:.1f} MiB")
    assert found["grown"] <= 110 * MIB


@pytest.mark.parametrize("job", ["load", "resume"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_nested_a_hundred_thousand_deep_is_one_damaged_line(
    tmp_path: Path, run_job: RunJob, job: str, opening: str
) -> None:
    path = tmp_path / "session-deep.jsonl"
    depth = 100_000
    close = "]" if opening == "[" else "}"
    deep = '{"seq":2,"type":"custom","v":' + opening * depth + "1" + close * depth + "}\n"
    path.write_bytes(record(1, "before") + deep.encode() + record(3, "after"))
    (found,) = run_job(job, path)
    assert found["damaged"] == [[len(record(1, "before")), "nested too deeply"]]
    assert found["records" if job == "load" else "messages"] == 2


def test_a_value_nested_a_hundred_thousand_deep_is_recorded_without_a_recursion_error(tmp_path: Path) -> None:
    from mt_context.session import SessionRecorder

    value: Any = 1
    for _ in range(100_000):
        value = [value]
    session = SessionRecorder(tmp_path, {"global_dir": str(tmp_path)})
    session.record({"type": "custom", "v": value})
    session.close()
    assert session.path is not None
    (found,) = session.load_raw_session(session.path)
    assert "nested too deeply" in json.dumps(found)
