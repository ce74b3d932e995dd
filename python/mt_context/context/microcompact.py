"""Clears old tool results from the view after a long pause, or when the window fills (plan M7, spec 6).

Only the text that the model sees is replaced. Message id, status, name and the artifact stay; the transcript and the artifacts keep
everything. What was cleared is known by metadata and is not cleared again, so the view's beginning stays the same from call to call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt_context import _core
from mt_context._core import TokenBudget, TokenCounter
from mt_context.context import editing
from mt_context.context.budget import normalize_message_content
from mt_context.context.counting import LIMITS, default_counter
from mt_context.events import AgentEvent, EventType
from mt_context.exceptions import StorageError
from mt_context.session.schema import make_microcompact_record

logger = logging.getLogger(__name__)

__all__ = [
    "COMPACTABLE_TOOL_NAMES",
    "MICROCOMPACT_GAP_THRESHOLD_MINUTES",
    "MICROCOMPACT_KEEP_RECENT",
    "MICROCOMPACT_PLACEHOLDER",
    "MICROCOMPACT_TOOL_WHITELIST",
    "MicroCompactor",
    "MicrocompactResult",
    "find_last_assistant_timestamp_ms",
    "maybe_pressure_microcompact",
    "maybe_time_based_microcompact",
]

#: Tools whose old results may be cleared (plan M7).
COMPACTABLE_TOOL_NAMES = frozenset({"read_file", "grep", "glob", "ls", "edit_file", "write_file", "shell"})
#: MT-Agent's name for the same.
MICROCOMPACT_TOOL_WHITELIST = COMPACTABLE_TOOL_NAMES
MICROCOMPACT_GAP_THRESHOLD_MINUTES = int(LIMITS["MICROCOMPACT_GAP_MINUTES"])
MICROCOMPACT_KEEP_RECENT = int(LIMITS["MICROCOMPACT_KEEP_RECENT"])
OVERHEAD_TOKENS = int(LIMITS["MESSAGE_OVERHEAD_TOKENS"])
#: What stands for a cleared result; a second line names its artifact where there is one.
MICROCOMPACT_PLACEHOLDER: str = _core.cleared_text(None)


@dataclass(frozen=True)
class MicrocompactResult:
    """What microcompact did."""

    #: Whether anything was cleared.
    triggered: bool
    #: How many results were cleared.
    cleared_count: int
    #: The new view: a new list, in which messages that did not change are the same objects.
    messages: list[Any]
    #: Indexes of the cleared results.
    cleared: tuple[int, ...] = ()
    #: Tokens won.
    saved_tokens: int = 0


def find_last_assistant_timestamp_ms(messages: Sequence[Any]) -> int | None:
    """When the model last spoke, in ms since the epoch: `response_metadata["timestamp_ms"]` of the last assistant message that has it."""
    return _core.find_last_assistant_timestamp_ms(default_counter(), messages)


def maybe_time_based_microcompact(
    messages: Sequence[Any],
    now: float | None = None,
    last_assistant_ts: float | None = None,
    *,
    now_ts_ms: float | None = None,
    gap_threshold_minutes: int = MICROCOMPACT_GAP_THRESHOLD_MINUTES,
    keep_recent: int = MICROCOMPACT_KEEP_RECENT,
    tool_names: Collection[str] = COMPACTABLE_TOOL_NAMES,
    counter: TokenCounter | None = None,
) -> MicrocompactResult:
    """Clears old tool results when the model last spoke at least `gap_threshold_minutes` ago (plan M7).

    Args:
        messages: the view; not mutated.
        now: the time in ms since the epoch (`now_ts_ms` is the same); by default the clock's.
        last_assistant_ts: when the model last spoke, in ms; by default what the messages say. 0 or `None` never triggers.
        gap_threshold_minutes: the pause.
        keep_recent: how many of the newest results stay.
        tool_names: whose results may be cleared.
    """
    moment = now_ts_ms if now_ts_ms is not None else now
    counter = counter or default_counter()
    clear = _core.microcompact_after_pause(
        counter,
        messages,
        now_ms=int(moment if moment is not None else time.time() * 1000),
        last_assistant_ms=None if last_assistant_ts is None else int(last_assistant_ts),
        gap_minutes=max(int(gap_threshold_minutes), 0),
        keep_recent=max(int(keep_recent), 0),
        tools=set(tool_names),
    )
    return _clear(messages, clear, counter)


def maybe_pressure_microcompact(
    messages: Sequence[Any],
    *,
    total_tokens: int,
    budget: TokenBudget,
    tool_names: Collection[str] = COMPACTABLE_TOOL_NAMES,
    counter: TokenCounter | None = None,
) -> tuple[MicrocompactResult, bool]:
    """Clears old tool results when the threshold is reached, before any LLM is asked (spec 6, `policies.md` 5.4).

    The newest 40 000 tokens and the last two user turns are left alone, and nothing happens for a gain below 20 000 tokens (all clamped by
    the window).

    Returns:
        What was done, and whether the view is then below its target, so that no summary is needed.
    """
    counter = counter or default_counter()
    if total_tokens < budget.auto:
        return MicrocompactResult(False, 0, list(messages)), False
    clear, _gain, enough = _core.microcompact_under_pressure(
        counter, messages, total=total_tokens, budget=budget, tools=set(tool_names)
    )
    return _clear(messages, clear, counter), enough


def _clear(messages: Sequence[Any], indexes: Sequence[int], counter: TokenCounter) -> MicrocompactResult:
    view = list(messages)
    # A text that equals the placeholder (an older host's view) would change nothing.
    clear = [i for i in indexes if editing.field(view[i], "content") != MICROCOMPACT_PLACEHOLDER]
    if not clear:
        return MicrocompactResult(False, 0, view)
    before = counter.count_each(view)
    spoken_last = next((m for m in reversed(view) if editing.role_of(m) == "assistant"), None)
    after_id = editing.field(spoken_last, "id") if spoken_last is not None else None
    saved = 0
    for i in clear:
        message = view[i]
        artifact = editing.metadata(message).get("artifact")
        text = _core.cleared_text(artifact if isinstance(artifact, str) else None)
        left = OVERHEAD_TOKENS + sum(
            counter.count(part or "")
            for part in (text, editing.field(message, "name"), editing.field(message, "tool_call_id"))
        )
        won = max(before[i] - left, 0)
        saved += won
        facts = {"kind": "cleared", "saved_tokens": won, "cleared_after_id": after_id}
        view[i] = editing.copy_with(message, content=text, **editing.metadata_change(message, **facts))
    return MicrocompactResult(True, len(clear), view, tuple(clear), saved)


class MicroCompactor:
    """Microcompact that lasts: a result is kept before it is cleared, and what was cleared is recorded and told (spec 6).

    Args:
        session: a `SessionRecorder`: where artifacts and the record go.
        event_bus: who is told (`MICRO_COMPACTED`).
    """

    def __init__(
        self, session: Any = None, event_bus: Any = None, *, counter: TokenCounter | None = None
    ) -> None:
        self._session = session
        self._bus = event_bus
        self._counter = counter

    def after_pause(self, messages: Sequence[Any], **options: Any) -> MicrocompactResult:
        """`maybe_time_based_microcompact`, kept, recorded and told."""
        options.setdefault("counter", self._counter)
        return self._finish(messages, maybe_time_based_microcompact(messages, **options), "pause", options)

    def under_pressure(
        self, messages: Sequence[Any], *, total_tokens: int, budget: TokenBudget, **options: Any
    ) -> tuple[MicrocompactResult, bool]:
        """`maybe_pressure_microcompact`, kept, recorded and told."""
        options.setdefault("counter", self._counter)
        result, enough = maybe_pressure_microcompact(
            messages, total_tokens=total_tokens, budget=budget, **options
        )
        return self._finish(messages, result, "pressure", options), enough

    def _finish(
        self, messages: Sequence[Any], result: MicrocompactResult, reason: str, options: dict[str, Any]
    ) -> MicrocompactResult:
        if not result.triggered:
            return result
        view = result.messages
        cleared = []
        for i in result.cleared:
            path = editing.metadata(messages[i]).get("artifact") or self._keep(messages[i])
            facts = {
                k: v
                for k, v in editing.metadata(view[i]).items()
                if k in ("saved_tokens", "cleared_after_id")
            }
            if path is not None:
                change = editing.metadata_change(view[i], artifact=path)
                view[i] = editing.copy_with(view[i], content=_core.cleared_text(path), **change)
            cleared.append(
                {
                    "id": editing.field(view[i], "id"),
                    "tool_call_id": editing.field(view[i], "tool_call_id"),
                    "artifact": path,
                    **facts,
                }
            )
        self._tell(cleared, result, reason)
        return result

    def _keep(self, message: Any) -> str | None:
        """The placeholder promises the full result: it is written first, if it never was."""
        folder = getattr(self._session, "get_artifact_dir", None)
        if folder is None:
            return None
        text = normalize_message_content(editing.field(message, "content"))
        call_id = str(editing.field(message, "tool_call_id") or "")
        try:
            written = _core.ArtifactStore(Path(folder())).write(call_id, text)
        except StorageError:
            logger.exception("a result could not be kept before it was cleared; the transcript has it")
            return None
        return str(written["path"])

    def _tell(self, cleared: list[dict[str, Any]], result: MicrocompactResult, reason: str) -> None:
        logger.info(
            "microcompact (%s): %d results, %d tokens", reason, result.cleared_count, result.saved_tokens
        )
        record = getattr(self._session, "record", None)
        if record is not None:
            try:
                record(make_microcompact_record(cleared=cleared, reason=reason))
            except StorageError:
                logger.exception("what was cleared could not be recorded")
        if self._bus is not None:
            data = {
                "reason": reason,
                "cleared_count": result.cleared_count,
                "saved_tokens": result.saved_tokens,
                "tool_call_ids": [entry["tool_call_id"] for entry in cleared],
            }
            self._bus.emit(AgentEvent(EventType.MICRO_COMPACTED, data))
