"""MT-Agent's functions over tool results (`tools.tool_results`), on our budgeter.

Texts are never parsed for control: `is_persisted_output_message` is for display only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt_context import _core
from mt_context.context.budget import normalize_message_content
from mt_context.context.counting import LIMITS
from mt_context.context.tool_results import ToolResultDecision, ToolResultPolicy, map_tool_result_for_llm

__all__ = [
    "DEFAULT_MAX_RESULT_SIZE_CHARS",
    "MAX_TOOL_RESULTS_PER_MESSAGE_CHARS",
    "MAX_TOOL_RESULT_BYTES",
    "PERSISTED_OUTPUT_CLOSE",
    "PERSISTED_OUTPUT_OPEN",
    "PREVIEW_MAX_CHARS",
    "SPECIAL_TOOL_NAMES",
    "TOOL_THRESHOLDS",
    "ToolResultCandidate",
    "ToolResultDecision",
    "apply_aggregate_budget",
    "apply_transcript_metadata",
    "build_generic_tool_use_result",
    "build_persisted_output_message",
    "build_tool_use_result_metadata",
    "candidate_from_tool_message",
    "estimate_result_chars",
    "extract_tool_use_result",
    "generate_preview",
    "get_tool_result_threshold",
    "is_persisted_output_message",
    "is_special_tool",
    "maybe_persist_tool_result",
    "merge_budget_metadata",
    "stringify_tool_result_content",
]

_POLICY = ToolResultPolicy()
DEFAULT_MAX_RESULT_SIZE_CHARS = int(LIMITS["DEFAULT_MAX_RESULT_CHARS"])
MAX_TOOL_RESULTS_PER_MESSAGE_CHARS = int(LIMITS["AGGREGATE_MAX_CHARS"])
MAX_TOOL_RESULT_BYTES = int(LIMITS["MAX_ARTIFACT_BYTES"])
#: What a user interface shows of a preview.
PREVIEW_MAX_CHARS = 2_000
PERSISTED_OUTPUT_OPEN = "<persisted-output "
PERSISTED_OUTPUT_CLOSE = "</persisted-output>"
SPECIAL_TOOL_NAMES = frozenset({"read_file"})
TOOL_THRESHOLDS = {name: _POLICY.limits.limit(name) for name in ("grep", "shell", "bash", "powershell")}


@dataclass
class ToolResultCandidate:
    """One result of a batch, as the graph's state holds it."""

    tool_name: str
    tool_call_id: str
    content: str
    display: str
    tool_message: Any


def get_tool_result_threshold(tool_name: str) -> float:
    """The limit of a tool in characters; infinite for one that limits itself."""
    limit = _POLICY.limits.limit(tool_name)
    return float("inf") if limit is None else limit


def is_special_tool(tool_name: str) -> bool:
    """Whether a tool limits itself."""
    return tool_name in SPECIAL_TOOL_NAMES


def stringify_tool_result_content(content: Any) -> str:
    """A result's content as text; media have none."""
    return normalize_message_content(content)


def estimate_result_chars(content: Any) -> int:
    """Characters of a result's text."""
    return len(stringify_tool_result_content(content))


def generate_preview(content: str, max_chars: int = PREVIEW_MAX_CHARS) -> tuple[str, bool]:
    """A preview of at most `max_chars` characters, and whether there is more."""
    if len(content) <= max_chars:
        return content, False
    return _core.preview_text("", content, max_chars=max_chars), True


def build_persisted_output_message(
    *, tool_name: str, relative_path: str | None, original_chars: int, preview: str
) -> str:
    """The plan's tag around a preview."""
    return _core.persisted_output_text(tool_name, preview, path=relative_path, original_chars=original_chars)


def is_persisted_output_message(content: Any) -> bool:
    """Whether a text looks like a preview of ours; decides nothing."""
    return isinstance(content, str) and content.startswith(PERSISTED_OUTPUT_OPEN)


def build_generic_tool_use_result(
    *, tool_name: str, input_args: dict[str, Any], raw_content: str
) -> dict[str, Any]:
    """What a user interface needs of a result that no tool described itself."""
    return {"type": tool_name, "input": input_args, "result": {"rawText": raw_content}}


def build_tool_use_result_metadata(
    *,
    tool_name: str,
    artifact_path: str | None,
    original_chars: int,
    preview_chars: int,
    truncated: bool,
    persistence_reason: str | None,
    kind: str = "text",
) -> dict[str, Any]:
    """The budget's part of `toolUseResult`."""
    return {
        "kind": kind,
        "tool_name": tool_name,
        "artifact": artifact_path,
        "original_chars": original_chars,
        "preview_chars": preview_chars,
        "truncated": truncated,
        "persistence_reason": persistence_reason,
    }


def merge_budget_metadata(
    tool_use_result: dict[str, Any] | None,
    *,
    tool_name: str,
    input_args: dict[str, Any] | None,
    raw_content: str,
    artifact_path: str | None,
    original_chars: int,
    preview_chars: int,
    truncated: bool,
    persistence_reason: str | None,
) -> dict[str, Any]:
    """`toolUseResult` with the budget's part; the whole text is not said again where an artifact holds it."""
    merged = {"type": tool_name, "input": input_args or {}, **(tool_use_result or {})}
    result = dict(merged.get("result") or {})
    if artifact_path is not None:
        result.pop("rawText", None)
        result["preview"] = generate_preview(raw_content)[0]
    elif not tool_use_result:
        result["rawText"] = raw_content
    merged["result"] = result
    merged["budget"] = build_tool_use_result_metadata(
        tool_name=tool_name,
        artifact_path=artifact_path,
        original_chars=original_chars,
        preview_chars=preview_chars,
        truncated=truncated,
        persistence_reason=persistence_reason,
    )
    return merged


def extract_tool_use_result(tool_message: Any) -> dict[str, Any] | None:
    """The `toolUseResult` of a tool message."""
    given = getattr(tool_message, "artifact", None)
    use = given.get("toolUseResult") if isinstance(given, dict) else None
    return use if isinstance(use, dict) else None


def apply_transcript_metadata(
    tool_message: Any,
    *,
    display: str,
    tool_use_result: dict[str, Any] | None,
    artifact_meta: dict[str, Any] | None,
) -> None:
    """Sets what a user interface needs of a result, in place."""
    given = tool_message.artifact if isinstance(tool_message.artifact, dict) else {}
    tool_message.artifact = {
        **given,
        "display": display,
        "toolUseResult": tool_use_result,
        "artifact_meta": artifact_meta,
    }


def maybe_persist_tool_result(
    *,
    tool_name: str,
    tool_call_id: str,
    content: str,
    display: str,
    artifact_dir: Path,
    artifact_path: Path,
    threshold: float,
    reason: str,
) -> ToolResultDecision:
    """Keeps a result above `threshold` characters as an artifact; the model sees a preview."""
    chars = len(content)
    facts = {
        "kind": "text",
        "artifact": None,
        "original_chars": chars,
        "preview_chars": chars,
        "truncated": False,
    }
    if chars <= threshold:
        return ToolResultDecision(tool_name, tool_call_id, chars, content, facts, None, False, None)
    written = _core.ArtifactStore(Path(artifact_dir)).write(
        artifact_path.stem if artifact_path.stem else tool_call_id,
        content,
        suffix=artifact_path.suffix or None,
    )
    meta = dict(written)
    shown = map_tool_result_for_llm(tool_name, content, meta)
    facts = {**facts, "artifact": meta["path"], "preview_chars": len(shown), "truncated": True}
    return ToolResultDecision(tool_name, tool_call_id, chars, shown, facts, meta, True, reason)


def candidate_from_tool_message(
    *, tool_name: str, tool_call_id: str, tool_message: Any
) -> ToolResultCandidate:
    """One result of a batch."""
    given = tool_message.artifact if isinstance(getattr(tool_message, "artifact", None), dict) else {}
    return ToolResultCandidate(
        tool_name,
        tool_call_id,
        stringify_tool_result_content(tool_message.content),
        str(given.get("display") or ""),
        tool_message,
    )


def apply_aggregate_budget(
    candidates: Sequence[ToolResultCandidate],
    *,
    artifact_dir: Path,
    artifact_path_for_call: Callable[[str], Path],
    aggregate_limit: int = MAX_TOOL_RESULTS_PER_MESSAGE_CHARS,
) -> list[ToolResultDecision]:
    """Decisions for the results that must become previews so that the batch fits, the largest first."""
    policy = ToolResultPolicy(aggregate_chars=aggregate_limit)
    rows = []
    for candidate in candidates:
        meta = getattr(candidate.tool_message, "artifact", None)
        settled = isinstance(meta, dict) and meta.get("artifact_meta") is not None
        rows.append((candidate.tool_name, len(candidate.content), settled))
    return [
        maybe_persist_tool_result(
            tool_name=candidates[i].tool_name,
            tool_call_id=candidates[i].tool_call_id,
            content=candidates[i].content,
            display=candidates[i].display,
            artifact_dir=artifact_dir,
            artifact_path=artifact_path_for_call(candidates[i].tool_call_id),
            threshold=-1,
            reason="aggregate-limit",
        )
        for i in policy.limits.plan_aggregate(rows)
    ]
