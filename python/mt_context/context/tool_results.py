"""Large tool results become previews before the model sees them (plan M2, spec 3).

Decisions and previews are pure: where the full text goes is the business of whoever calls. That a result is a preview is known by its
metadata, never by how its text begins.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from mt_context import _core
from mt_context._core import TokenBudget, ToolResultLimits
from mt_context.context import editing
from mt_context.exceptions import StorageError

__all__ = [
    "ToolResultBudgeter",
    "ToolResultDecision",
    "ToolResultPolicy",
    "budget_message",
    "enforce_aggregate",
    "map_tool_result_for_llm",
    "result_chars",
]

#: Keeps a full result somewhere and returns the path that the model may read; `None` if it could not be kept.
Persist = Callable[[Any, str], "str | None"]


@dataclass(frozen=True)
class ToolResultPolicy:
    """Limits per tool and per assistant message, in characters.

    The plan's: grep 20 000, shells 30 000, others 50 000, read_file and recall limit themselves, 200 000 for the results of one assistant
    message together, previews of 4 000 characters and 80 lines. `budget` clamps them to a window.
    """

    budget: TokenBudget | None = None
    by_tool: Mapping[str, int | None] = field(default_factory=dict)
    default_chars: int | None = None
    aggregate_chars: int | None = None
    preview_chars: int | None = None
    preview_lines: int | None = None

    def __post_init__(self) -> None:
        limits = ToolResultLimits(
            budget=self.budget,
            by_tool=dict(self.by_tool),
            default_chars=self.default_chars,
            aggregate_chars=self.aggregate_chars,
            preview_chars=self.preview_chars,
            preview_lines=self.preview_lines,
        )
        object.__setattr__(self, "_limits", limits)

    @property
    def limits(self) -> ToolResultLimits:
        """The limits in force."""
        return self._limits  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def for_budget(cls, budget: TokenBudget) -> ToolResultPolicy:
        """The plan's limits, clamped to a window."""
        return cls(budget=budget)


class ArtifactHome(Protocol):
    """Where artifacts go: a `SessionRecorder`, or anything that knows its directory."""

    def get_artifact_dir(self) -> Any:
        """The session's artifact directory."""


@dataclass(frozen=True)
class ToolResultDecision:
    """What became of one tool result."""

    tool_name: str
    tool_call_id: str
    #: Characters of the whole result.
    original_chars: int
    #: What the model sees.
    content: str
    #: `kind`, `artifact`, `original_chars`, `preview_chars`, `truncated` (plan M1).
    tool_use_result: dict[str, Any]
    #: `path`, `kind`, `size_bytes`, `truncated` of the artifact; `None` if there is none.
    artifact_meta: dict[str, Any] | None
    #: Whether the model sees a preview.
    persisted: bool
    #: `per-tool-limit` or `aggregate-limit`; `None` for a result that is shown whole.
    reason: str | None


class ToolResultBudgeter:
    """Decides about tool results and keeps the large ones as artifacts (plan M2).

    Args:
        policy: the limits; the plan's by default.
        session: where artifacts go. Without one, large results are cut and the rest is not kept.
        on_storage_error: called once when the disk begins to refuse, and again after it worked in between. The agent goes on.
    """

    def __init__(
        self,
        policy: ToolResultPolicy | None = None,
        session: ArtifactHome | None = None,
        *,
        on_storage_error: Callable[[StorageError], None] | None = None,
    ) -> None:
        self.policy = policy or ToolResultPolicy()
        self.session = session
        self._on_storage_error = on_storage_error
        self._degraded = False

    def budget(
        self,
        *,
        tool_name: str,
        tool_call_id: str,
        content: str | bytes,
        exit_code: int | None = None,
        reason: str | None = None,
    ) -> ToolResultDecision:
        """The decision about one result; a large one is on disk when this returns.

        Args:
            content: the whole result as text, or as bytes that a program printed.
            exit_code: if the caller knows it.
            reason: forces a preview, and is what the decision says of it.
        """
        text = content if isinstance(content, str) else None
        chars = len(content)
        forced = reason is not None
        if not forced and not self.policy.limits.exceeds(tool_name, chars) and text is not None:
            return self._whole(tool_name, tool_call_id, text)
        if text is None and not forced and not self.policy.limits.exceeds(tool_name, chars):
            # Bytes are shown as text at any size; they are kept if that lost anything.
            try:
                return self._whole(tool_name, tool_call_id, content.decode("utf-8"))  # type: ignore[union-attr]
            except UnicodeDecodeError:
                reason = "binary"
        meta = self._keep(tool_call_id, content)
        shown = map_tool_result_for_llm(tool_name, content, meta, policy=self.policy, exit_code=exit_code)
        return ToolResultDecision(
            tool_name=tool_name,
            tool_call_id=tool_call_id,
            original_chars=chars,
            content=shown,
            tool_use_result={
                "kind": meta["kind"] if meta else "text",
                "artifact": meta["path"] if meta else None,
                "original_chars": chars,
                "preview_chars": len(shown),
                "truncated": True,
            },
            artifact_meta=meta,
            persisted=True,
            reason=reason or "per-tool-limit",
        )

    def _whole(self, tool_name: str, tool_call_id: str, text: str) -> ToolResultDecision:
        facts = {
            "kind": "text",
            "artifact": None,
            "original_chars": len(text),
            "preview_chars": len(text),
            "truncated": False,
        }
        return ToolResultDecision(tool_name, tool_call_id, len(text), text, facts, None, False, None)

    def _keep(self, tool_call_id: str, content: str | bytes) -> dict[str, Any] | None:
        if self.session is None:
            return None
        try:
            store = _core.ArtifactStore(Path(self.session.get_artifact_dir()))
            meta = dict(store.write(tool_call_id, content))
        except StorageError as error:
            if not self._degraded and self._on_storage_error is not None:
                self._on_storage_error(error)
            self._degraded = True
            return None
        self._degraded = False
        return meta


def map_tool_result_for_llm(
    tool_name: str,
    content: str | bytes,
    artifact_meta: Mapping[str, Any] | None,
    *,
    policy: ToolResultPolicy | None = None,
    exit_code: int | None = None,
) -> str:
    """What the model sees of a result that is kept in an artifact: the plan's tag around a preview (plan M2).

    Args:
        tool_name: the tool's name; it decides what of the result matters.
        content: the whole result.
        artifact_meta: `path` of the artifact and whether it is `truncated`; `None` if nothing could be kept.
        policy: the preview's size.
        exit_code: if the caller knows it; else it is looked for in the text.
    """
    limits = (policy or ToolResultPolicy()).limits
    meta = artifact_meta or {}
    path, truncated = meta.get("path"), bool(meta.get("truncated"))
    note = None
    if truncated:
        note = (
            f"The artifact holds the first {int(meta.get('size_bytes') or 0):,} bytes; the rest was not kept."
        )
    frame = _core.persisted_output_text(
        tool_name, "", path=path, original_chars=len(content), truncated=truncated
    )
    preview = _core.preview_text(
        tool_name,
        content,
        max_chars=max(limits.preview_chars - len(frame), 1),
        max_lines=max(limits.preview_lines - 2, 1),
        artifact=path,
        exit_code=exit_code,
        note=note,
    )
    return _core.persisted_output_text(
        tool_name, preview, path=path, original_chars=len(content), truncated=truncated
    )


def result_chars(message: Any) -> int:
    """Characters of a tool result's text; images and other media count nothing."""
    content = editing.field(message, "content")
    if isinstance(content, str):
        return len(content)
    return (
        sum(len(text) for text in map(_text_of, content or ()) if text)
        if isinstance(content, (list, tuple))
        else 0
    )


def budget_message(message: Any, policy: ToolResultPolicy, *, persist: Persist | None = None) -> Any:
    """The message as the model may see it: itself, or a copy with a preview if it exceeds its tool's limit (plan M2)."""
    name = editing.field(message, "name") or ""
    if _is_settled(message) or not policy.limits.exceeds(name, result_chars(message)):
        return message
    return _as_preview(message, policy, persist, "per-tool-limit")


def enforce_aggregate(
    messages: Sequence[Any], policy: ToolResultPolicy, *, persist: Persist | None = None
) -> tuple[list[Any], int]:
    """Makes the results of every assistant message fit together, the largest first (plan M2).

    The batch is the set of calls of the assistant message, so the outcome does not depend on when results came in.

    Returns:
        The list with previews in place of results, and how many became previews.
    """
    view = list(messages)
    changed = 0
    for batch in _batches(view):
        if sum(result_chars(view[i]) for i in batch) <= policy.limits.aggregate_chars:
            continue
        rows = [
            (editing.field(view[i], "name") or "", result_chars(view[i]), _is_settled(view[i])) for i in batch
        ]
        for chosen in policy.limits.plan_aggregate(rows):
            view[batch[chosen]] = _as_preview(view[batch[chosen]], policy, persist, "aggregate-limit")
            changed += 1
        if sum(result_chars(view[i]) for i in batch) > policy.limits.aggregate_chars:
            # So many results that even their previews are too much: each gets an equal share.
            share = policy.limits.aggregate_chars // len(batch)
            for i in batch:
                if result_chars(view[i]) > share:
                    changed += not _is_settled(view[i])
                    view[i] = _within(view[i], share, policy, persist)
    return view, changed


def _within(message: Any, chars: int, policy: ToolResultPolicy, persist: Persist | None) -> Any:
    """A result in at most `chars` characters: a smaller preview, of the result itself or of its preview."""
    if not _is_settled(message):
        small = replace(policy, preview_chars=chars)
        return _as_preview(message, small, persist, "aggregate-limit")
    content = editing.field(message, "content")
    name = editing.field(message, "name") or ""
    if isinstance(content, str):
        lines = content.split("\n")
        body = "\n".join(lines[1:-1]) if lines[-1] == "</persisted-output>" else content
        facts = editing.metadata(message)
        path, original = facts.get("artifact"), int(facts.get("original_chars") or len(body))
        frame = _core.persisted_output_text(name, "", path=path, original_chars=original)
        shown = _core.preview_text("", body, max_chars=max(chars - len(frame), 1), artifact=path)
        text = _core.persisted_output_text(name, shown, path=path, original_chars=original)
        return editing.copy_with(message, content=text)
    return message


def _batches(messages: Sequence[Any]) -> list[list[int]]:
    """Indexes of the results of each assistant message, in order of its calls."""
    batches: list[list[int]] = []
    by_id: dict[str, tuple[int, int]] = {}
    order: list[list[tuple[int, int]]] = []
    for i, message in enumerate(messages):
        role = editing.role_of(message)
        if role == "assistant":
            calls = editing.tool_calls(message)
            if calls:
                order.append([])
                by_id.update({str(c.get("id") or ""): (len(order) - 1, n) for n, c in enumerate(calls)})
        elif role == "tool":
            found = by_id.get(str(editing.field(message, "tool_call_id") or ""))
            if found is not None:
                order[found[0]].append((found[1], i))
    for batch in order:
        if len(batch) > 1:
            batches.append([i for _, i in sorted(batch)])
    return batches


def _is_settled(message: Any) -> bool:
    return editing.kind_of(message) in ("persisted", "cleared")


def _as_preview(message: Any, policy: ToolResultPolicy, persist: Persist | None, reason: str) -> Any:
    content = editing.field(message, "content")
    name = editing.field(message, "name") or ""
    text = content if isinstance(content, str) else "\n".join(t for t in map(_text_of, content) if t)
    path = (persist or _name_only)(message, text)
    shown = map_tool_result_for_llm(name, text, {"path": path} if path else None, policy=policy)
    # Text blocks become one preview in the first one's place; media stay where they are.
    if not isinstance(content, str):
        blocks: list[Any] = []
        pending: list[Any] = [{"type": "text", "text": shown}]
        for block in content:
            if _text_of(block) is None:
                blocks.append(block)
            elif pending:
                blocks.append(pending.pop())
        shown = blocks  # type: ignore[assignment]
    facts = {"kind": "persisted", "artifact": path, "original_chars": len(text), "reason": reason}
    return editing.with_metadata(editing.copy_with(message, content=shown), **facts)


def _name_only(message: Any, text: str) -> str:
    """Where a result would be kept: for a dry run."""
    call_id = str(editing.field(message, "tool_call_id") or "")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", call_id):
        call_id = "h-" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"tool-results/{call_id}.txt"


def _text_of(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None
