"""Where a session's files lie, and its artifacts: full tool results and the session memory (plan M1).

```
<global_dir>/history/<project>/                       project: 10 hex digits of the working directory's MD5
    session-<time>-<session_id>.jsonl                 the transcript
    artifacts/<session_id>/tool-results/<call>.txt    a full tool result
    artifacts/<session_id>/session-memory/summary.md  the session memory
```

Names come from ids that a model made: an id that is not `[A-Za-z0-9_-]{1,100}` is hashed, and nothing leads out of the session's directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from mt_context._core import ArtifactStore, check_artifact_path, safe_name
from mt_context.context.counting import LIMITS

__all__ = [
    "MAX_ARTIFACT_BYTES",
    "SESSION_MEMORY_SUBDIR",
    "TOOL_RESULTS_SUBDIR",
    "Artifact",
    "ArtifactMeta",
    "ensure_session_artifact_dirs",
    "get_artifacts_root",
    "get_history_dir",
    "get_session_artifact_dir",
    "get_session_memory_dir",
    "get_tool_result_path",
    "get_tool_results_dir",
    "list_artifacts",
    "read_text_artifact",
    "read_tool_result_artifact",
    "resolve_session_relative_artifact",
    "search_tool_result_artifact",
    "write_text_artifact",
    "write_tool_result_artifact",
]

#: Largest artifact, in bytes (plan M1).
MAX_ARTIFACT_BYTES = int(LIMITS["MAX_ARTIFACT_BYTES"])
TOOL_RESULTS_SUBDIR = "tool-results"
SESSION_MEMORY_SUBDIR = "session-memory"
#: Where sessions lie if a configuration names no place.
DEFAULT_GLOBAL_DIR = "~/.mtagent"

Config = dict[str, Any]


class ArtifactMeta(TypedDict):
    """What a record says of an artifact."""

    path: str
    kind: str
    size_bytes: int
    truncated: bool
    lossy: bool


class Artifact(NamedTuple):
    """One artifact in a listing."""

    #: Path relative to the session's directory.
    path: str
    size_bytes: int
    #: Last change, ms since the epoch.
    modified_ms: int


def get_history_dir(working_directory: str | Path, config: Config) -> Path:
    """Where the sessions of a project lie."""
    root = Path(str(config.get("global_dir") or DEFAULT_GLOBAL_DIR)).expanduser()
    project = str(Path(working_directory).resolve()).encode("utf-8", "surrogateescape")
    return root / "history" / hashlib.md5(project, usedforsecurity=False).hexdigest()[:10]


def get_artifacts_root(working_directory: str | Path, config: Config) -> Path:
    """Where the artifacts of a project's sessions lie."""
    return get_history_dir(working_directory, config) / "artifacts"


def get_session_artifact_dir(working_directory: str | Path, config: Config, session_id: str) -> Path:
    """Where the artifacts of one session lie; an id that is no file name is hashed."""
    return get_artifacts_root(working_directory, config) / safe_name(session_id)


def get_tool_results_dir(working_directory: str | Path, config: Config, session_id: str) -> Path:
    """Where the full tool results of one session lie."""
    return get_session_artifact_dir(working_directory, config, session_id) / TOOL_RESULTS_SUBDIR


def get_session_memory_dir(working_directory: str | Path, config: Config, session_id: str) -> Path:
    """Where the memory of one session lies."""
    return get_session_artifact_dir(working_directory, config, session_id) / SESSION_MEMORY_SUBDIR


def get_tool_result_path(
    working_directory: str | Path, config: Config, session_id: str, tool_call_id: str, suffix: str = ".txt"
) -> Path:
    """Where the first result of a call is kept; a repetition of the id gets `.2`, `.3`, …"""
    name = safe_name(tool_call_id) + (suffix if suffix.startswith(".") else f".{suffix}")
    return get_tool_results_dir(working_directory, config, session_id) / name


def ensure_session_artifact_dirs(working_directory: str | Path, config: Config, session_id: str) -> Path:
    """Makes the directories of a session, private; returns its own."""
    root = get_session_artifact_dir(working_directory, config, session_id)
    for folder in (root, root / TOOL_RESULTS_SUBDIR, root / SESSION_MEMORY_SUBDIR):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


def resolve_session_relative_artifact(
    working_directory: str | Path, config: Config, session_id: str, relative_path: str
) -> Path:
    """The file of a relative artifact path.

    Raises:
        ValueError: for a path that is not one of our artifacts: absolute, with `..`, or otherwise named.
    """
    check_artifact_path(relative_path)
    return get_session_artifact_dir(working_directory, config, session_id) / relative_path


def write_tool_result_artifact(
    session_artifact_dir: str | Path, tool_call_id: str, content: str | bytes, *, suffix: str | None = None
) -> ArtifactMeta:
    """Keeps a full tool result: write-once, atomic, private, at most 64 MiB (plan M1).

    Args:
        session_artifact_dir: the session's directory (`get_session_artifact_dir`); made if missing.
        tool_call_id: the call's id, of any length and alphabet.
        content: the result; bytes stay bytes.
        suffix: `.txt` for text and `.bin` for bytes by default.

    Raises:
        StorageError: if the disk refuses; nothing is left behind then.
    """
    written = ArtifactStore(Path(session_artifact_dir)).write(tool_call_id, content, suffix=suffix)
    return {
        "path": written["path"],
        "kind": written["kind"],
        "size_bytes": written["size_bytes"],
        "truncated": written["truncated"],
        "lossy": written["lossy"],
    }


def read_tool_result_artifact(
    session_artifact_dir: str | Path,
    relative_path: str,
    *,
    offset: int | None = None,
    limit: int | None = None,
    byte_offset: int | None = None,
    max_chars: int = 50_000,
) -> dict[str, Any]:
    """Reads an artifact back: all of it, or a range of lines without reading the rest.

    Args:
        relative_path: as the preview tells it.
        offset: first line, from 1; `limit`: how many lines.
        byte_offset: where an earlier part of a long line ended (`next_byte`).
        max_chars: a part is never longer, so that a single line of any length can be read in parts.

    Returns:
        `text`, `start_line`, `num_lines`, `next_line` or `next_byte` to go on with (both `None` at the end), `total_lines` if the end was seen,
        `size` in bytes.

    Raises:
        ValueError: for a path that is not an artifact's.
        StorageError: if it cannot be read.
    """
    store = ArtifactStore(Path(session_artifact_dir))
    if offset is None and limit is None and byte_offset is None:
        text = store.read(relative_path).decode("utf-8", "replace")
        lines = text.count("\n") + (not text.endswith("\n") and bool(text))
        return {
            "text": text,
            "start_line": 1,
            "num_lines": lines,
            "next_line": None,
            "next_byte": None,
            "total_lines": lines,
            "size": len(text.encode("utf-8", "replace")),
        }
    part = store.read_range(
        relative_path,
        line=None if byte_offset is not None else max(offset or 1, 1),
        byte=byte_offset,
        max_lines=max(limit or 2_000, 1),
        max_chars=max_chars,
    )
    at_end = part["next_byte"] >= part["size"]
    return {
        "text": part["text"],
        "start_line": part["start_line"],
        "num_lines": part["num_lines"],
        "next_line": part["next_line"],
        "next_byte": None if at_end or part["next_line"] else part["next_byte"],
        "total_lines": part["total_lines"],
        "size": part["size"],
    }


def search_tool_result_artifact(
    session_artifact_dir: str | Path,
    relative_path: str,
    pattern: str,
    *,
    regex: bool = True,
    ignore_case: bool = False,
    max_hits: int = 50,
) -> dict[str, Any]:
    """Searches one artifact line by line: `hits` as (line, byte, text), `total`, and whether there are `more`.

    Raises:
        ValueError: for a pattern or a path that cannot be used.
        StorageError: if it cannot be read.
    """
    store = ArtifactStore(Path(session_artifact_dir))
    return store.search(relative_path, pattern, regex=regex, ignore_case=ignore_case, max_hits=max_hits)


def list_artifacts(session_artifact_dir: str | Path) -> Iterator[Artifact]:
    """The artifacts of a session, oldest first."""
    for path, size, modified in ArtifactStore(Path(session_artifact_dir)).list():
        yield Artifact(path, size, modified)


def write_text_artifact(
    path: Path, content: str, *, session_artifact_dir: Path, max_bytes: int = MAX_ARTIFACT_BYTES
) -> dict[str, Any]:
    """MT-Agent's form: keeps `content` under the name of `path`, or the next free one. `relative_path` tells which it became.

    Raises:
        ValueError: if `path` is not a tool result of that session.
    """
    resolve_relative = Path(path)
    if resolve_relative.parent != Path(session_artifact_dir) / TOOL_RESULTS_SUBDIR:
        raise ValueError("path: not in the session's tool-results. Use get_tool_result_path")
    data = content.encode("utf-8", "surrogatepass")
    limit = min(max_bytes, MAX_ARTIFACT_BYTES)
    if len(data) > limit:
        content = data[:limit].decode("utf-8", "ignore")
    meta = write_tool_result_artifact(
        session_artifact_dir, resolve_relative.stem, content, suffix=resolve_relative.suffix
    )
    return {
        "relative_path": meta["path"],
        "size_bytes": meta["size_bytes"],
        "truncated": meta["truncated"] or len(data) > limit,
    }


def read_text_artifact(path: Path) -> str:
    """The text of an artifact's file, byte for byte as it was written, undecodable bytes replaced."""
    return Path(path).read_bytes().decode("utf-8", "replace")
