"""Records the session that `mt-context demo` replays: scripted requests, real tools over this repository.

    python scripts/record_demo_session.py

`demo_session_story.py` has what is said and done. Every result in the recording was printed by a program that
this script ran: grep, ls, git, rustc, the program that rustc built, unittest, a benchmark. The session is
long enough that at a 32K window results are persisted (wide greps, patches, test output), cleared (a pause of
95 minutes) and compacted. Names of this machine are taken out before anything is written; the script fails if
one is left.
"""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import demo_session_story
from demo_session_story import SCRATCH

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "python/mt_context/cli/demo_session.jsonl"
MAX_BYTES = 700_000
MAX_MATCHES = 600
SKIP_DIRS = (
    "target",
    ".git",
    ".venv",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
)
SKIP_FILES = (
    "Cargo.lock",
    OUTPUT.name,
)  # the lock names a registry's host; the old recording would record itself

Call = tuple[str, dict[str, Any]]


class ToolError(Exception):
    """A tool that failed; its text is the result."""


# --- the tools, as a coding agent has them --------------------------------------------------------


def inside(path: str) -> Path:
    return ROOT / path


def read_file(file_path: str, offset: int = 1, limit: int = 400) -> str:
    """Numbered lines of a range."""
    try:
        lines = inside(file_path).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ToolError(f"File not found: {file_path}") from None
    part = lines[offset - 1 : offset - 1 + limit]
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(part, offset))
    rest = len(lines) - (offset - 1 + len(part))
    return text + (f"\n({rest} more lines; go on with offset={offset + len(part)})" if rest > 0 else "")


def grep(pattern: str, path: str = ".", include: str | None = None) -> str:
    command = ["grep", "-rnE", *(f"--exclude-dir={name}" for name in SKIP_DIRS)]
    command += [f"--include={include}"] if include else []
    command += [f"--exclude={name}" for name in SKIP_FILES]  # after the include: the last that matches wins
    done = subprocess.run([*command, "-e", pattern, path], cwd=ROOT, capture_output=True, check=False)
    if done.returncode > 1:
        raise ToolError(done.stderr.decode(errors="replace"))
    found = sorted(done.stdout.decode(errors="replace").splitlines(), key=lambda line: line.split(":", 1)[0])
    if len(found) > MAX_MATCHES:
        found[MAX_MATCHES:] = [f"({len(found) - MAX_MATCHES} more matches; narrow the pattern or the path)"]
    return "\n".join(found) or "No matches found."


def glob(pattern: str) -> str:
    found = (path.relative_to(ROOT) for path in ROOT.glob(pattern) if path.is_file())
    return (
        "\n".join(sorted(str(path) for path in found if not set(path.parts) & set(SKIP_DIRS)))
        or "No files found."
    )


def ls(path: str = ".") -> str:
    entries = sorted(inside(path).iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    return "\n".join(
        entry.name + ("/" if entry.is_dir() else "") for entry in entries if entry.name not in SKIP_DIRS
    )


def write_file(file_path: str, content: str) -> str:
    target = inside(file_path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")
    return f"Wrote {file_path} ({len(content)} characters, {content.count(chr(10))} lines)."


def edit_file(file_path: str, old_string: str, new_string: str) -> str:
    text = inside(file_path).read_text(encoding="utf-8")
    if text.count(old_string) != 1:
        raise ToolError(f"old_string occurs {text.count(old_string)} times in {file_path}, it must be unique")
    inside(file_path).write_text(text.replace(old_string, new_string), encoding="utf-8")
    line = text[: text.index(old_string)].count("\n") + 1
    return f"Edited {file_path} at line {line}."


def shell(command: str) -> str:
    """Standard output and error as they came, and the exit code on the last line."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return f"{done.stdout.decode(errors='replace')}\nExit code: {done.returncode}"


TOOLS: dict[str, Callable[..., str]] = {
    f.__name__: f for f in (read_file, grep, glob, ls, write_file, edit_file, shell)
}


# --- the recorder ---------------------------------------------------------------------------------


def morning_after_the_last_commit() -> int:
    """09:00 in Shanghai, in ms: so the history that the session looks at lies before it."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    day = 24 * 3600
    return (int(done.stdout) // day + 1) * day * 1000 + 3600_000


class Session:
    """Writes the records of MT-Agent's v2 form, with our `seq` and `id`."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.now = morning_after_the_last_commit()
        self.calls = 0
        self.messages = 0
        self._add(
            "session_start",
            sessionId="demo",
            threadId="thread-demo",
            project=".",
            model="scripted",
            branch="main",
        )

    def _add(self, kind: str, **fields: Any) -> None:
        self.records.append({"type": kind, "seq": len(self.records), **fields, "timestamp": self.now})

    def _message(self, role: str, content: str, **fields: Any) -> None:
        base: dict[str, Any] = {"tool_calls": [], "reasoning_content": None, "tool_call_id": "", "name": ""}
        base |= {"toolUseResult": None, "artifact": None}
        self._add(
            "transcript_message", id=f"demo-{self.messages}", role=role, content=content, **{**base, **fields}
        )
        self.messages += 1

    def wait(self, minutes: float) -> None:
        self.now += round(minutes * 60_000)

    def system(self, text: str) -> None:
        self._message("system", text)

    def user(self, text: str, after_minutes: float = 1.5) -> None:
        self.wait(after_minutes)
        self._message("user", text)
        print(f"user       {text[:90]!r}")

    def agent(self, text: str, *calls: Call, deny: str | None = None) -> list[str]:
        """One answer of the model with its calls, and their results."""
        self.now += 4_000 + 37 * len(text)
        made = []
        for tool, arguments in calls:
            self.calls += 1
            made.append({"name": tool, "args": arguments, "id": f"call_{self.calls:03}", "type": "tool_call"})
        self._message("assistant", text, tool_calls=made)
        return [self._result(call, deny) for call in made]

    def _result(self, call: dict[str, Any], deny: str | None) -> str:
        fields: dict[str, Any] = {"tool_call_id": call["id"], "name": call["name"]}
        self.now += 600
        if deny is not None:
            request = {"call_id": call["id"], "tool_name": call["name"], "arguments": call["args"]}
            self._add("approval_request", **request, risk_level="high")
            self.wait(0.3)
            self._add("approval_decision", decisions={call["id"]: "denied"})
            text, fields["status"] = f"The user denied this call and said: {deny}", "error"
        else:
            try:
                text = TOOLS[call["name"]](**call["args"])
            except ToolError as error:
                text, fields["status"] = str(error), "error"
        text = scrub(text)
        self._message("tool", text, **fields)
        print(f"  {call['name']:10} {len(text):>7} characters")
        return text

    def end(self) -> None:
        self._add("session_end", sessionId="demo", threadId="thread-demo", stats={"model": "scripted"})


# --- no name of this machine ----------------------------------------------------------------------


def machine_names() -> list[tuple[re.Pattern[str], str]]:
    """(what to replace, by what): the longest first."""
    done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
    pairs = {
        str(ROOT.parent): "..",
        str(Path(sys.executable).resolve().parents[1]): "~/python",
        sys.prefix: "~/python",
        sys.base_prefix: "~/python",
        str(Path.home()): "~",
        done.stdout.strip(): "~/rust",
        str(ROOT): ".",
    }
    for name in ("/", "/usr", "/usr/local"):  # every machine's
        pairs.pop(name, None)
    return [(re.compile(re.escape(n) + r"(?![\w-])"), pairs[n]) for n in sorted(pairs, key=len, reverse=True)]


NAMES = machine_names()
FORBIDDEN = (
    (re.compile(r"(?<![\w.~/])/(?:root|home|Users|work|tmp|opt|mnt|var|private)/"), "~/"),
    (re.compile(r"(?:[\w-]+\.)*(?:crates\.io|pypi\.org)(?:-index)?"), "the-registry"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "someone"),
    (re.compile(r"(?<=://)[^/\s\"]*:\d+"), "somewhere"),
)
"""What no recording may hold, and what stands in its place."""


def scrub(text: str) -> str:
    for pattern, neutral in (*NAMES, *FORBIDDEN):
        text = pattern.sub(neutral, text)
    return text


def check(text: str) -> None:
    """Fails if something of this machine is still in the recording."""
    words = {getpass.getuser(), socket.gethostname()} - {"root", "localhost", "user", "build", "runner"}
    patterns = [re.compile(rf"\b{re.escape(word)}\b") for word in words]
    for pattern in [*patterns, *(pattern for pattern, _ in (*NAMES, *FORBIDDEN))]:
        found = pattern.search(text)
        assert found is None, (
            f"left in the recording: {text[max(0, found.start() - 60) : found.end() + 60]!r}"
        )


# --- the session ----------------------------------------------------------------------------------


def main() -> None:
    shutil.rmtree(inside(SCRATCH), ignore_errors=True)
    inside(SCRATCH).mkdir(parents=True)
    s = Session()
    s.system(demo_session_story.SYSTEM)
    for part in demo_session_story.PARTS:
        part(s)
    s.end()
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in s.records)
    check(text)
    size = len(text.encode())
    assert size <= MAX_BYTES, f"{size} bytes are too many"
    OUTPUT.write_text(text, encoding="utf-8", newline="\n")
    turns = sum(record.get("role") == "assistant" for record in s.records)
    print(f"{OUTPUT.name}: {size} bytes, {s.messages} messages, {turns} assistant turns, {s.calls} calls")


if __name__ == "__main__":
    main()
