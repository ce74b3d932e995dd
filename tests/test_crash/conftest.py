"""What the crash tests share: processes that do one job of `child.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child.py")

Facts = list[dict[str, Any]]


def job(*arguments: object) -> list[str]:
    """The command line of one job."""
    return [sys.executable, str(CHILD), *map(str, arguments)]


def facts(output: str) -> Facts:
    """What a job said."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="session")
def slow() -> bool:
    """Whether the long campaign is wanted (`make slow`)."""
    return os.environ.get("MT_CONTEXT_SLOW", "") not in ("", "0")


@pytest.fixture
def run_job() -> Callable[..., Facts]:
    """Runs one job to its end; it must end well."""

    def run(*arguments: object) -> Facts:
        done = subprocess.run(job(*arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return facts(done.stdout)

    return run


@pytest.fixture
def start_job() -> Any:
    """Starts jobs and ends them with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(job(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], slow: bool) -> Callable[[str], None]:
    """Prints a figure; the long campaign shows it even when the test passes (`-rP` does so in the short one)."""

    def tell(text: str) -> None:
        if slow:
            with capsys.disabled():
                print(f"\n    {text}", flush=True)
        else:
            print(text)

    return tell
