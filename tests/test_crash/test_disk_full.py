"""A disk that is full or fails: a typed error, nothing torn, and usable again (reliability R7, R17).

`strace` makes the n-th system call of a kind fail, for every n that the script of `child.py disk` makes. It is needed, not wished for: without
it these tests are errors (`apt-get install strace`).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mt_context import _core
from mt_context.events import AgentEvent, EventBus, EventType
from mt_context.exceptions import StorageError
from mt_context.session import SessionRecorder

from .conftest import facts, job

CALLS = ("write", "pwrite64", "fdatasync", "fsync", "linkat", "ftruncate")


@pytest.fixture(scope="session")
def strace() -> str:
    """The program; an error without it."""
    path = shutil.which("strace")
    if path is None:
        raise RuntimeError("strace is missing: apt-get install strace")
    return path


def traced(
    strace: str, folder: Path, calls: list[str], inject: list[str]
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs the script; returns what it said, and all its calls of those kinds."""
    log = folder.parent / f"{folder.name}.strace"
    command = [strace, "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={','.join(calls)}"]
    for rule in inject:
        command += ["-e", f"inject={rule}"]
    done = subprocess.run(command + job("disk", folder), capture_output=True, text=True, check=False)
    return done, log.read_text(errors="replace").splitlines()


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """The transcript's records; every line must be one whole record."""
    text = (folder / "session.jsonl").read_bytes()
    assert text.endswith(b"\n"), "a torn line was left"
    return [json.loads(line) for line in text.splitlines()]


def ours(line: str, folder: Path) -> bool:
    return str(folder) in line


def check(folder: Path, done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What must hold after any failure: the script went to its end, every acknowledged thing is there, once and whole."""
    assert done.returncode == 0, done.stderr
    said = facts(done.stdout)
    acked = [f["acked"] for f in said if "acked" in f]
    assert acked == list(range(6))
    records = lines_of(folder)
    numbers = [int(r["content"].split(" ", 1)[0]) for r in records]
    assert numbers == acked, "acknowledged records are there once, in order, and nothing that was refused"
    assert [r["seq"] for r in records] == list(range(1, 7))
    for fact in said:
        if "artifact" in fact:
            kept = (folder / "artifacts" / fact["artifact"]).read_text()
            assert kept == f"{fact['number']} " + "y" * 500
    leftovers = [p for p in (folder / "artifacts" / "tool-results").iterdir() if p.name.startswith(".tmp")]
    assert leftovers == []
    return said


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("call", CALLS)
def test_whichever_system_call_the_disk_refuses_nothing_is_torn_and_the_next_one_works(
    tmp_path: Path, strace: str, call: str, error: str, slow: bool, report: Callable[[str], None]
) -> None:
    done, calls = traced(strace, tmp_path / "plain", [call], [])
    said = check(tmp_path / "plain", done)
    assert not any("refused" in f for f in said)
    # The n-th call of the process as a whole; only those on our files matter, and strace counts per thread: the script has one.
    wanted = [n for n, line in enumerate(calls, 1) if ours(line, tmp_path / "plain")]
    assert wanted, f"the script makes no {call} on our files"
    if not slow:
        wanted = sorted({wanted[0], wanted[1 % len(wanted)], wanted[len(wanted) // 2], wanted[-1]})
    refusals = 0
    for n in wanted:
        folder = tmp_path / f"{n}"
        done, calls = traced(strace, folder, [call], [f"{call}:error={error}:when={n}"])
        hits = [line for line in calls if "(INJECTED)" in line]
        assert len(hits) == 1 and ours(hits[0], folder), f"call {n} was not the one: {hits}"
        said = check(folder, done)
        errors = [f for f in said if any(k.startswith("refused") for k in f)]
        assert errors, f"{hits[0]}: refused, and nobody was told"
        assert errors[0]["errno"] == getattr(errno, error)
        if call == "fdatasync" and "refused" in errors[0]:
            # Nobody knows what the disk has: that handle is not used again.
            assert [f for f in said if "poisoned" in f], "a handle went on after a failed sync"
            assert [f for f in said if "reopened" in f]
        refusals += 1
    assert refusals == len(wanted)
    report(f"{call}:{error}: {refusals} calls refused, 0 lost, 0 torn, 0 untold")


def test_a_write_that_cannot_be_undone_closes_its_handle_and_opening_again_goes_on(
    tmp_path: Path, strace: str
) -> None:
    _, calls = traced(strace, tmp_path / "plain", ["write"], [])
    at = [n for n, line in enumerate(calls, 1) if "plain/session.jsonl>" in line][2]
    folder = tmp_path / "both"
    # The first ftruncate is the lock's.
    inject = [f"write:error=ENOSPC:when={at}", "ftruncate:error=EIO:when=2"]
    done, calls = traced(strace, folder, ["write", "ftruncate"], inject)
    hits = [line for line in calls if "(INJECTED)" in line]
    assert len(hits) == 2 and all("session.jsonl>" in line for line in hits), hits
    said = check(folder, done)
    (refused,) = [f for f in said if "refused" in f]
    assert refused["errno"] == errno.ENOSPC
    assert [f for f in said if "poisoned" in f] and [f for f in said if "reopened" in f]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Takes all the room that is left."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"b" * size):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return ballast


def test_a_full_disk_refuses_a_record_and_takes_the_next_one_when_there_is_room(small_disk: Path) -> None:
    writer = _core.SessionWriter(small_disk, "session.jsonl")
    kept = 0
    with pytest.raises(StorageError) as refused:
        for i in range(1_000):
            writer.record(json.dumps({"n": i, "text": "t" * 3_000}))
            kept += 1
    assert refused.value.errno == errno.ENOSPC
    assert "space" in str(refused.value)
    assert kept > 5
    # Short writes were undone: the file ends with the last record that was acknowledged.
    assert [r["n"] for r in lines_of(small_disk)] == list(range(kept))
    # A smaller one fits into what the large one did not; then there is nothing left.
    ballast = fill(small_disk)
    for _ in range(3):
        with pytest.raises(StorageError):
            writer.record(json.dumps({"n": -1, "text": "t" * 5_000}))
    ballast.unlink()
    (small_disk / "session.jsonl.lock").stat()
    assert writer.record(json.dumps({"n": kept})) == kept + 1
    writer.close()
    assert [r["n"] for r in lines_of(small_disk)] == list(range(kept + 1))
    assert not list(small_disk.glob("*.torn-*"))


class Request:
    """What a `ToolNode` hands over."""

    def __init__(self, number: int) -> None:
        self.tool_call = {"name": "shell", "args": {}, "id": f"call-{number}", "type": "tool_call"}
        self.state: dict[str, Any] = {"messages": []}


TWICE = "the artifact's failure and the record's failure each send their own STORAGE_DEGRADED"


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(2_000, id="a record"),
        pytest.param(60_000, id="an artifact and its record", marks=pytest.mark.xfail(reason=TWICE)),
    ],
)
def test_an_agent_on_a_full_disk_goes_on_and_is_told_exactly_once(small_disk: Path, size: int) -> None:
    from langchain_core.messages import ToolMessage

    from mt_context.agent.tool_wrapper import create_event_bus_wrapper

    events: list[AgentEvent] = []
    bus = EventBus()
    bus.subscribe_all(events.append)
    session = SessionRecorder(small_disk, {"global_dir": str(small_disk)})
    wrapper: Any = create_event_bus_wrapper(bus, session)
    text = "t" * size

    def call(number: int) -> Any:
        def run(request: Any) -> ToolMessage:
            return ToolMessage(text, tool_call_id=request.tool_call["id"], name="shell")

        return wrapper(Request(number), run)

    def degraded() -> list[AgentEvent]:
        return [e for e in events if e.type is EventType.STORAGE_DEGRADED]

    session.record({"type": "custom", "n": 0})
    ballast = fill(small_disk)
    for i in range(4):
        result = call(i)
        assert isinstance(result, ToolMessage)
        assert result.content == text if size < 30_000 else len(result.content) <= 4_000
    assert len(degraded()) == 1, [e.data for e in degraded()]
    assert degraded()[0].data["errno"] == errno.ENOSPC
    ballast.unlink()
    call(10)
    assert session.path is not None
    recorded = [r["tool_call_id"] for r in session.load_raw_session(session.path) if r.get("role") == "tool"]
    assert "call-10" in recorded
    # It worked in between, so it is told again.
    fill(small_disk)
    call(11)
    call(12)
    assert len(degraded()) == 2
    (small_disk / "ballast").unlink()
    session.close()
