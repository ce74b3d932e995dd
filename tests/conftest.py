"""Fixtures for all tests: where the shared real data lies, if it does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("slow", deadline=None, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

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


def _expand(value: Any) -> Any:
    """Long texts are written as `{"$repeat": text, "times": n}` or `{"$concat": [...]}`."""
    if isinstance(value, dict):
        if "$repeat" in value:
            return value["$repeat"] * value["times"]
        if "$concat" in value:
            return "".join(_expand(part) for part in value["$concat"])
        return {key: _expand(item) for key, item in value.items()}
    return [_expand(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def bugcase(shared_data: Path) -> Callable[[str], dict[str, Any]]:
    """Loads a case of `../shared/data/bugcases` by its number, with its long texts written out."""

    def load(number: str) -> dict[str, Any]:
        (path,) = (shared_data / "bugcases").glob(f"{number}-*.json")
        return _expand(json.loads(path.read_text(encoding="utf-8")))

    return load
