"""The real sessions of ../shared/data, and the demo session that ships with the package."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from importer_samples import (
    only,
    refusal,
)

from mt_context.cli import importers
from mt_context.cli.importers import load

# ------------------------------------------------------------------------------------------ real files


def _calls(session: importers.Session) -> list[dict[str, Any]]:
    return [c for m in session.messages for c in m.get("tool_calls", ())]


def test_every_real_session_of_our_formats_loads_completely_and_every_other_file_is_refused(
    shared_data: Path,
) -> None:
    rows = [
        row for row in json.loads((shared_data / "index.json").read_text()) if row.get("kind") == "session"
    ]
    loaded: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for row in rows:
        path = shared_data / row["file"]
        if row["format"] not in importers.FORMATS or path.name.endswith(".tar.gz"):
            assert "--format" in refusal(path), row["file"]
            refused[row["format"]] += 1
            continue
        sessions = load(path)
        loaded[row["format"]] += 1
        assert {s.format for s in sessions} == {row["format"]}, row["file"]
        _check_counts(row, sessions)
        for session in sessions:
            ids = {m["id"] for m in session.messages}
            assert all(isinstance(m["id"], str) and m["id"] for m in session.messages) and ids
            assert all(isinstance(c["function"]["arguments"], str) for c in _calls(session))
    assert loaded.keys() == set(importers.FORMATS) and sum(loaded.values()) >= 39
    assert sum(refused.values()) >= 30
    print(f"loaded {dict(loaded)}, refused {dict(refused)}")


def _check_counts(row: dict[str, Any], sessions: list[importers.Session]) -> None:
    messages = [m for s in sessions for m in s.messages]
    calls = sum(len(_calls(s)) for s in sessions)
    results = sum(m["role"] == "tool" for m in messages)
    damaged = sum(s.damaged_lines for s in sessions)
    name, features = row["file"], row["features"]
    assert damaged == features.get("bad_lines", 0), name
    if row["messages"] == 0:  # the index's maker knew this file's form not
        assert calls == results == sum(m["role"] == "assistant" for m in messages) > 0, name
    elif row["format"] == "codex":
        # The index counts the provider's own web searches as calls, and leaves out results that aren't text.
        assert row["tool_calls"] - features.get("event:web_search_end", 0) <= calls <= row["tool_calls"], name
        assert row["tool_results"] <= results <= calls, name
    elif row["format"] == "claude-code":  # the index counts records, `as_openai` the merged messages
        assert (len(messages), calls, results) == (
            row["as_openai"]["messages"],
            row["tool_calls"],
            row["tool_results"],
        ), name
    else:
        invalid = row["file"].endswith(
            "codex-aborted.messages_to_dict.json.gz"
        )  # one invalid call, not counted there
        assert (len(messages), calls - invalid, results) == (
            row["messages"],
            row["tool_calls"],
            row["tool_results"],
        ), name


# -------------------------------------------------------------------------------------------- the demo


DEMO = Path(importers.__file__).parents[1] / "demo_session.jsonl"


def test_the_demo_session_has_what_a_demo_of_the_policies_needs() -> None:
    session = only(DEMO)
    messages = session.messages
    sizes = {
        tool: sorted(len(m["content"]) for m in messages if m.get("name") == tool)
        for tool in ("grep", "shell")
    }
    times = [m["timestamp_ms"] for m in messages]
    assert (session.format, session.name, session.damaged_lines) == ("mtagent", "demo", 0)
    assert sum(m["role"] == "user" for m in messages) >= 6
    assert 40 <= sum(m["role"] == "assistant" for m in messages) <= 60
    assert sizes["grep"][-1] > 20_000 and sizes["shell"][-1] > 50_000
    assert any(len(m.get("tool_calls", ())) > 1 for m in messages)
    assert sum(m.get("status") == "error" for m in messages) == 2  # a denied call and a file that isn't there
    assert any("\r" in m["content"] for m in messages) and any("\u8bf7" in m["content"] for m in messages)
    assert times == sorted(times) and max(b - a for a, b in pairwise(times)) > 60 * 60_000


def test_the_demo_session_names_no_machine_no_person_and_no_registry() -> None:
    text = DEMO.read_text(encoding="utf-8")
    assert len(text.encode()) <= 700_000
    for pattern in (
        r"(?<![\w.~/])/(?:root|home|Users|work|tmp|opt|mnt|var)/",
        r"crates\.io|pypi\.org",
        r"\w@[\w-]+\.\w",
    ):
        assert re.search(pattern, text) is None, pattern
