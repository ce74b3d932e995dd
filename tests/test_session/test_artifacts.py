"""Full results on disk, and the way back to them (plan M1, reliability 2.3)."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_context import _core
from mt_context.context.tool_results import ToolResultBudgeter, ToolResultPolicy
from mt_context.exceptions import StorageError
from mt_context.session import artifacts

HOSTILE_IDS = [
    "", ".", "..", "../../../CONTEXT", "/etc/cron.d/x", "a/b", "a\\b", "C:\\x", "CON", "nul", "com1", "LPT9", "h-0000", "a.b", "a b", "é", "矩阵",
    "x" * 101, "y" * 10_000, "nul\0byte", "\ud800", "\udcff", "\u202e", "-rf", "~", "$HOME", "call_0", "CALL_0", "functions.todowrite:0", "a\nb",
]  # fmt: skip


def test_no_id_leads_out_of_the_directory_and_none_overwrites_another(tmp_path: Path) -> None:
    store = _core.ArtifactStore(tmp_path / "s")
    written = {}
    for round in range(2):
        for i, call_id in enumerate(HOSTILE_IDS):
            text = f"{round}-{i}"
            written[store.write(call_id, text)["path"]] = text
    assert len(written) == 2 * len(HOSTILE_IDS)
    assert {path: store.read(path).decode() for path in written} == written
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) == len(written) and all(p.parent == tmp_path / "s" / "tool-results" for p in files)


@given(
    st.text(st.characters(exclude_categories=()), max_size=150),
    st.text(st.characters(exclude_categories=()), max_size=150),
)
def test_names_of_different_ids_are_different_and_safe(a: str, b: str) -> None:
    x, y = _core.safe_name(a), _core.safe_name(b)
    assert (x == y) == (a == b)
    assert x.isascii() and "/" not in x and 1 <= len(x) <= 100
    _core.check_artifact_path(f"tool-results/{x}.txt")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x.txt",
        "tool-results/../../x.txt",
        "tool-results/a/b.txt",
        "tool-results/.txt",
        "session-memory/other.md",
        "tool-results/a\0.txt",
    ],
)
def test_no_other_path_is_read(tmp_path: Path, path: str) -> None:
    for attempt in (
        lambda: artifacts.read_tool_result_artifact(tmp_path, path),
        lambda: artifacts.search_tool_result_artifact(tmp_path, path, "x"),
        lambda: artifacts.resolve_session_relative_artifact(tmp_path, {}, "s", path),
    ):
        with pytest.raises(ValueError, match="tool-results/<name>"):
            attempt()


def test_a_link_swapped_in_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    session = tmp_path / "s"
    store = _core.ArtifactStore(session)
    store.write("a", "1")
    (session / "tool-results" / "b.txt").symlink_to(outside / "secret.txt")
    with pytest.raises(StorageError):
        store.read("tool-results/b.txt")
    stop = threading.Event()

    def swap() -> None:
        real, away = session / "tool-results", session / "away"
        while not stop.is_set():
            # The store makes the directory anew whenever it is away: any of these may find it so.
            for step in (
                lambda: os.rename(real, away),
                lambda: os.symlink(outside, real),
                lambda: os.unlink(real),
                lambda: os.rename(away, real),
                lambda: shutil.rmtree(away),
            ):
                with contextlib.suppress(OSError):
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for i in range(300):
            try:
                store.write(f"c{i}", "content")
            except StorageError:
                continue
    finally:
        stop.set()
        swapper.join()
    assert [p.name for p in outside.iterdir()] == ["secret.txt"]


@given(st.one_of(st.text(st.characters(exclude_categories=())), st.binary()))
def test_any_content_round_trips_or_says_that_it_did_not(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    store = _core.ArtifactStore(tmp_path_factory.mktemp("a"))
    written = store.write("c", content)
    data = store.read(written["path"])
    if isinstance(content, bytes):
        assert data == content and written["kind"] == "binary"
        return
    try:
        expected = content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        assert written["lossy"]
    else:
        assert data == expected and not written["lossy"]


def test_a_range_is_read_without_the_rest_and_successive_reads_give_everything(tmp_path: Path) -> None:
    text = "".join(f"line {i} 矩阵\n" for i in range(1, 3_001)) + "长" * 100_000
    path = artifacts.write_tool_result_artifact(tmp_path, "c", text)["path"]
    part = artifacts.read_tool_result_artifact(tmp_path, path, offset=2_000, limit=3)
    assert part["text"].splitlines() == [f"line {i} 矩阵" for i in (2_000, 2_001, 2_002)]
    assert (part["start_line"], part["num_lines"], part["next_line"], part["next_byte"]) == (
        2_000,
        3,
        2_003,
        None,
    )
    read, options = "", {"offset": 1}
    while True:
        part = artifacts.read_tool_result_artifact(tmp_path, path, limit=700, max_chars=9_000, **options)
        assert len(part["text"]) <= 9_000
        read += part["text"]
        if part["next_line"]:
            options = {"offset": part["next_line"]}
        elif part["next_byte"]:
            options = {"byte_offset": part["next_byte"]}
        else:
            break
    assert read == text
    beyond = artifacts.read_tool_result_artifact(tmp_path, path, offset=9_000, limit=5)
    assert (beyond["text"], beyond["total_lines"]) == ("", 3_001)


def test_a_search_is_bounded_and_a_bad_pattern_says_what_is_wrong(tmp_path: Path) -> None:
    path = artifacts.write_tool_result_artifact(tmp_path, "c", "ok\nError: 失败\n" * 500)["path"]
    found = artifacts.search_tool_result_artifact(tmp_path, path, "error: 失败", ignore_case=True, max_hits=2)
    assert (found["total"], found["more"], [h[0] for h in found["hits"]]) == (500, True, [2, 4])
    assert artifacts.search_tool_result_artifact(tmp_path, path, "(", regex=False)["total"] == 0
    with pytest.raises(ValueError, match="pattern"):
        artifacts.search_tool_result_artifact(tmp_path, path, "(")


def test_a_listing_is_oldest_first_and_leaves_unfinished_files_out(tmp_path: Path) -> None:
    assert list(artifacts.list_artifacts(tmp_path / "none")) == []
    for i in range(3):
        artifacts.write_tool_result_artifact(tmp_path, f"c{i}", "x" * i)
        os.utime(tmp_path / "tool-results" / f"c{i}.txt", (1_000 + i, 1_000 + i))
    (tmp_path / "tool-results" / ".tmp-1-1").write_text("half")
    assert [(a.path, a.size_bytes) for a in artifacts.list_artifacts(tmp_path)] == [
        (f"tool-results/c{i}.txt", i) for i in range(3)
    ]


class Home:
    """Where a budgeter's artifacts go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_artifact_dir(self) -> Path:
        return self.folder


def test_a_large_result_is_kept_whole_and_described(tmp_path: Path) -> None:
    text = "".join(f"a.c:{i}: x\n" for i in range(9_000))
    decision = ToolResultBudgeter(session=Home(tmp_path)).budget(
        tool_name="grep", tool_call_id="c1", content=text
    )
    assert decision.persisted and decision.reason == "per-tool-limit"
    assert decision.tool_use_result == {
        "kind": "text", "artifact": "tool-results/c1.txt", "original_chars": len(text), "preview_chars": len(decision.content), "truncated": True,
    }  # fmt: skip
    assert (tmp_path / "tool-results/c1.txt").read_text() == text
    small = ToolResultBudgeter(session=Home(tmp_path)).budget(
        tool_name="grep", tool_call_id="c2", content="x"
    )
    assert (small.persisted, small.content, small.artifact_meta) == (False, "x", None)


def test_bytes_keep_their_bytes(tmp_path: Path) -> None:
    data = "错误：缺少分号\n".encode("gbk")
    decision = ToolResultBudgeter(session=Home(tmp_path)).budget(
        tool_name="shell", tool_call_id="c", content=data
    )
    assert "缺少分号" in decision.content and decision.artifact_meta is not None
    assert (tmp_path / decision.artifact_meta["path"]).read_bytes() == data


def test_a_refusing_disk_is_told_once_and_the_preview_says_that_nothing_was_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[StorageError] = []
    budgeter = ToolResultBudgeter(session=Home(tmp_path / "file" / "s"), on_storage_error=told.append)
    for _ in range(3):
        decision = budgeter.budget(tool_name="ls", tool_call_id="c", content="x\n" * 60_000)
        assert decision.artifact_meta is None and "The rest was not kept." in decision.content
    assert len(told) == 1 and told[0].errno


def test_bug_case_13_a_read_back_makes_progress_and_is_not_persisted_again(
    bugcase: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    case = bugcase("13")
    params, text = case["params"], case["tool_output"]
    policy = ToolResultPolicy(default_chars=params["threshold_chars"], preview_chars=params["preview_chars"])
    budgeter = ToolResultBudgeter(policy, Home(tmp_path))
    decision = budgeter.budget(tool_name=case["tool_name"], tool_call_id="c", content=text)
    assert len(decision.content) <= params["preview_chars"] + 500
    read, options = "", {"offset": 1}
    for _ in range(20):
        part = artifacts.read_tool_result_artifact(
            tmp_path, "tool-results/c.txt", limit=2_000, max_chars=params["read_max_chars"], **options
        )
        assert len(part["text"]) <= params["read_max_chars"]
        assert not budgeter.budget(tool_name="read_file", tool_call_id="r", content=part["text"]).persisted
        read += part["text"]
        if not part["next_line"] and not part["next_byte"]:
            break
        options = {"byte_offset": part["next_byte"]} if part["next_byte"] else {"offset": part["next_line"]}
    assert read == text
