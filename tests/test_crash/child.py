"""What the crash tests run in processes of their own: `python child.py JOB ARGUMENTS…`; each job prints JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mt_context import _core
from mt_context.exceptions import SessionLockedError, StorageError
from mt_context.session import SessionRecorder, schema
from mt_context.session.artifacts import write_tool_result_artifact

#: Records of the disk job.
RECORDS = 6


def say(**facts: Any) -> None:
    """One JSON line for the parent."""
    print(json.dumps(facts), flush=True)


def message(number: int, size: int = 40) -> dict[str, Any]:
    """A user message that tells its number."""
    return schema.make_transcript_message_record(role="user", content=f"{number} " + "x" * size)


def disk(folder: str) -> None:
    """Records and writes artifacts; the disk may refuse any system call. Opens the session again when its handle refuses."""
    for i in range(RECORDS):
        attempt(folder, i)
    WRITER.close()


class Writer:
    """A writer that tells what it was refused."""

    def __init__(self) -> None:
        self.writer: Any = None

    def record(self, folder: str, number: int) -> None:
        if self.writer is None:
            self.writer = _core.SessionWriter(Path(folder), "session.jsonl", sync="always")
        text = json.dumps({"type": "transcript_message", "role": "user", "content": f"{number} " + "x" * 300})
        self.writer.record(text)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None


WRITER = Writer()


def attempt(folder: str, number: int) -> None:
    """One record and one artifact, each tried again at once after a refusal, as the contract allows."""
    try:
        WRITER.record(folder, number)
    except StorageError as error:
        say(refused=number, errno=error.errno, opened=WRITER.writer is not None)
        retry(folder, number)
    say(acked=number)
    try:
        meta = write_tool_result_artifact(
            Path(folder) / "artifacts", f"call-{number}", f"{number} " + "y" * 500
        )
    except StorageError as error:
        say(refused_artifact=number, errno=error.errno)
        meta = write_tool_result_artifact(
            Path(folder) / "artifacts", f"call-{number}", f"{number} " + "y" * 500
        )
    say(artifact=meta["path"], number=number)


def retry(folder: str, number: int) -> None:
    """The next record after a refusal; a handle that refuses for good is opened again."""
    try:
        WRITER.record(folder, number)
        return
    except StorageError as error:
        say(poisoned=number, errno=error.errno)
    try:
        WRITER.writer.reopen()
        say(reopened=number)
    except StorageError as error:
        say(refused_reopen=number, errno=error.errno)
        WRITER.close()
    WRITER.record(folder, number)


def race(folder: str) -> None:
    """Waits for the word, then tries to be the session's writer, and holds on until told to end."""
    say(ready=os.getpid())
    sys.stdin.readline()
    try:
        writer = _core.SessionWriter(Path(folder), "session.jsonl")
    except SessionLockedError as error:
        say(lost=os.getpid(), error=str(error))
    else:
        writer.record(json.dumps({"type": "custom", "by": os.getpid()}))
        say(won=os.getpid())
    sys.stdin.readline()


def append(folder: str, count: str) -> None:
    """Appends records of changing size without a pause."""
    writer = _core.SessionWriter(Path(folder), "session.jsonl", sync="turn")
    for i in range(int(count)):
        text = json.dumps(
            {"type": "transcript_message", "role": "user", "content": f"{i} " + "z" * (i * 7919 % 8_000)}
        )
        writer.record(text)
        if i == 0:
            say(started=True)
    writer.close()
    say(done=int(count))


def memory(field: str) -> int:
    """A figure of this process's memory, in bytes. `ru_maxrss` will not do: a child inherits its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def measured(work: Callable[[], dict[str, Any]]) -> None:
    """Says how far the memory rose above where it was, and how long it took."""
    # From here on the high-water mark is that of the work alone.
    Path("/proc/self/clear_refs").write_text("5")
    before, start = memory("VmRSS"), time.perf_counter()
    facts = work()
    say(grown=memory("VmHWM") - before, seconds=time.perf_counter() - start, **facts)


def budget(folder: str, mib: str) -> None:
    """Budgets one large result."""
    from mt_context.context.tool_results import ToolResultBudgeter

    session = SessionRecorder(folder, {"global_dir": folder})
    budgeter = ToolResultBudgeter(session=session)
    budgeter.budget(tool_name="shell", tool_call_id="warm", content="w" * 100_000)
    line = "0123456789 abcdefghij ABCDEFGHIJ and so on to the end of it all.\n"
    text = line * (int(mib) * 1024 * 1024 // len(line))

    def work() -> dict[str, Any]:
        decision = budgeter.budget(tool_name="shell", tool_call_id="big", content=text)
        meta = decision.artifact_meta or {}
        return {
            "shown": len(decision.content),
            "kept": meta.get("size_bytes"),
            "truncated": meta.get("truncated"),
        }

    measured(work)


def resume(path: str) -> None:
    """Resumes a transcript."""
    from mt_context.session import restore  # noqa: F401  (its imports are not the resume's memory)

    session = SessionRecorder(Path(path).parent, {"global_dir": str(Path(path).parent)})

    def work() -> dict[str, Any]:
        found = _core.resume_session(path, accept_memory=False)
        messages = session.build_resume_messages(path)
        return {
            "messages": len(messages),
            "bytes_read": found["bytes_read"],
            "summary": (found["boundary"] or {}).get("summary"),
            "damaged": found["damaged"],
        }

    measured(work)


def load(path: str) -> None:
    """Reads a whole transcript."""
    session = SessionRecorder(Path(path).parent, {"global_dir": str(Path(path).parent)})

    def work() -> dict[str, Any]:
        damaged = _core.scan_session(path, lambda _offset, _record: None)
        return {"records": len(session.load_raw_session(path)), "damaged": damaged}

    measured(work)


if __name__ == "__main__":
    JOBS = {f.__name__: f for f in (disk, race, append, budget, resume, load)}
    JOBS[sys.argv[1]](*sys.argv[2:])
