"""Fixtures for all tests: where the shared real data lies, if it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[1]


def find_shared_data() -> Path | None:
    """`../shared/data` beside the project, or what MT_CONTEXT_SHARED names (the folder or its `data`)."""
    shared = Path(os.environ.get("MT_CONTEXT_SHARED") or PROJECT_ROOT.parent / "shared")
    return next((folder for folder in (shared / "data", shared) if (folder / "index.json").is_file()), None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real sessions and tool outputs; skips the test where it is absent."""
    folder = find_shared_data()
    if folder is None:
        pytest.skip(
            "no real data: ../shared/data isn't there and MT_CONTEXT_SHARED names no folder that has it"
        )
    return folder
