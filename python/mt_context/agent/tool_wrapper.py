"""The wrapper around every tool call of a LangGraph `ToolNode` (plan M2, spec 3).

```python
wrapper = create_event_bus_wrapper(event_bus, session)
node = ToolNode(tools, wrap_tool_call=wrapper, awrap_tool_call=wrapper.awrap)
```

Large results become previews before they enter the graph's state, and are on disk by then. The results of one assistant message are held to their
common limit when the last of them is in. It never raises on its own account and never swallows: what a tool raises goes on, an interrupt
goes on, what isn't a `ToolMessage` passes through untouched.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage

from mt_context.context import editing
from mt_context.context.tool_results import (
    ToolResultBudgeter,
    ToolResultDecision,
    ToolResultPolicy,
    enforce_aggregate,
    result_chars,
)
from mt_context.events import AgentEvent, EventBus, EventType
from mt_context.exceptions import StorageError
from mt_context.session import schema

__all__ = ["ToolWrapper", "create_event_bus_wrapper"]

logger = logging.getLogger(__name__)

#: Batches that have begun and not ended; the oldest is forgotten (its tools were cancelled).
MAX_OPEN_BATCHES = 64


def create_event_bus_wrapper(
    event_bus: EventBus, session: Any = None, *, policy: ToolResultPolicy | None = None
) -> ToolWrapper:
    """The wrapper for `ToolNode(wrap_tool_call=…)`; its `awrap` is the twin for `awrap_tool_call`.

    Args:
        event_bus: who is told what happens.
        session: a `SessionRecorder`, or anything with `get_artifact_dir()`; with `record`, every result is recorded when it is in. Without a
            session results pass unchanged.
        policy: the limits; the plan's by default.
    """
    return ToolWrapper(event_bus, session, policy)


@dataclass
class _Batch:
    """The calls of one assistant message, and the results that are in."""

    expected: tuple[str, ...]
    left: int
    results: dict[int, _Result] = field(default_factory=dict)


@dataclass
class _Result:
    message: ToolMessage
    display: str
    arguments: dict[str, Any]
    record_id: str
    decision: ToolResultDecision | None


class ToolWrapper:
    """See `create_event_bus_wrapper`. Safe to use from several threads and tasks at once."""

    def __init__(self, event_bus: EventBus, session: Any, policy: ToolResultPolicy | None) -> None:
        self._bus = event_bus
        self._session = session
        self._budgeter = ToolResultBudgeter(policy, session, on_storage_error=self._storage_failed)
        self._lock = threading.Lock()
        self._batches: OrderedDict[tuple[Any, ...], _Batch] = OrderedDict()
        self._record_failed = False

    def __call__(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        started = self._begin(request)
        if started.replayed is not None:
            return started.replayed
        try:
            result = execute(request)
        except BaseException as error:
            self._failed(request, started, error)
            raise
        return self._end(request, started, result)

    async def awrap(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for `awrap_tool_call`."""
        started = self._begin(request)
        if started.replayed is not None:
            return started.replayed
        try:
            result = await execute(request)
        except BaseException as error:
            self._failed(request, started, error)
            raise
        return self._end(request, started, result)

    # --- before the tool

    def _begin(self, request: Any) -> _Started:
        call = request.tool_call
        started = _Started(
            name=str(call.get("name") or ""),
            call_id=str(call.get("id") or ""),
            arguments=dict(call.get("args") or {}),
        )
        try:
            started.place = _place_in_batch(request, started.call_id)
            self._emit(EventType.TOOL_STATE_UPDATE, started, status="executing")
            self._open_batch(started)
            started.replayed = self._recorded(request, started)
            if started.replayed is not None:
                logger.info("[%s] was done before the interruption; its recorded result stands", started.name)
                self._finish(started, None)
                self._emit(EventType.TOOL_CALL_COMPLETE, started, status="success", display="", error_msg="")
        except Exception:
            logger.exception("the tool wrapper failed before %s; the tool runs all the same", started.name)
            started.replayed = None
        return started

    def _recorded(self, request: Any, started: _Started) -> ToolMessage | None:
        """The result of this very call from before a crash or an interrupt: its tool must not run twice."""
        lookup = getattr(self._session, "recorded_result", None)
        started.journal = _journal_key(request, started)
        if lookup is None or started.journal is None:
            return None
        record = lookup(started.journal)
        if record is None:
            return None
        from mt_context.session.restore import message_from_record

        message = message_from_record(record)
        message.artifact = {
            "toolUseResult": record.get("toolUseResult"),
            "artifact_meta": record.get("artifact"),
        }
        return message

    def _open_batch(self, started: _Started) -> None:
        with self._lock:
            if started.place.key not in self._batches:
                expected = started.place.expected
                self._batches[started.place.key] = _Batch(expected, len(expected))
                while len(self._batches) > MAX_OPEN_BATCHES:
                    self._batches.popitem(last=False)

    # --- after the tool

    def _failed(self, request: Any, started: _Started, error: BaseException) -> None:
        """A tool that raised, was interrupted or cancelled: its siblings must not wait for it."""
        try:
            self._finish(started, None)
            text = f"{type(error).__name__}: {error}"[:200]
            self._emit(EventType.TOOL_CALL_COMPLETE, started, status="error", display="", error_msg=text)
        except Exception:
            logger.exception("the tool wrapper failed after %s", started.name)

    def _end(self, request: Any, started: _Started, result: Any) -> Any:
        try:
            return self._after(started, result)
        except Exception:
            logger.exception(
                "the tool wrapper failed after %s; its result is passed on as it is", started.name
            )
            self._finish(started, None)
            return result

    def _after(self, started: _Started, result: Any) -> Any:
        logger.info("[%s] took %.3f s", started.name, time.monotonic() - started.at)
        if not isinstance(result, ToolMessage):
            self._finish(started, None)
            self._emit(EventType.TOOL_CALL_COMPLETE, started, status="success", display="", error_msg="")
            return result
        given = result.artifact if isinstance(result.artifact, dict) else {}
        display = str(given.get("display") or "")
        ok = result.status != "error"
        if ok and given.get("diff") is not None:
            self._emit(EventType.TOOL_LIVE_OUTPUT, started, kind="diff", diff=given["diff"])
        stats = getattr(self._session, "stats", None)
        if stats is not None:
            stats.record_tool_call(started.name, ok, result_chars(result))
        decision = None
        if self._session is not None:
            decision = self._budget(started, result)
        error_msg = "" if ok else str(result.content)[:200]
        self._emit(
            EventType.TOOL_CALL_COMPLETE,
            started,
            status="success" if ok else "error",
            display=display if ok else "",
            error_msg=error_msg,
        )
        if decision is not None and decision.persisted:
            self._tell_persisted(decision)
        record_id = result.id or f"m-{uuid.uuid4().hex[:16]}"
        result.id = record_id
        done = _Result(result, display, started.arguments, record_id, decision)
        if self._session is not None:
            self._record(started, done)
        self._finish(started, done)
        return result

    def _budget(self, started: _Started, message: ToolMessage) -> ToolResultDecision:
        """Holds one result to its tool's limit; sets what the model sees and what a user interface needs."""
        text = _text_of(message.content)
        decision = self._budgeter.budget(
            tool_name=started.name, tool_call_id=started.call_id, content=text, exit_code=_exit_code(message)
        )
        _apply(message, decision, started.arguments, text)
        return decision

    def _finish(self, started: _Started, done: _Result | None) -> None:
        """Counts a call as ended; the last one of a batch settles their common limit."""
        with self._lock:
            batch = self._batches.get(started.place.key)
            if batch is None or started.ended:
                return
            started.ended = True
            batch.left -= 1
            if done is not None:
                batch.results[started.place.position] = done
            if batch.left > 0:
                return
            del self._batches[started.place.key]
        self._settle([batch.results[i] for i in sorted(batch.results)])

    def _settle(self, results: Sequence[_Result]) -> None:
        """The whole batch is in: the largest results become previews until the rest fits, in the order of the calls."""
        if self._session is None:
            return
        calls = [{"name": r.message.name or "", "args": {}, "id": str(i)} for i, r in enumerate(results)]
        stand_ins = [
            {
                "role": "tool",
                "tool_call_id": str(i),
                "name": (r.decision.tool_name if r.decision else r.message.name) or "",
                "content": r.message.content,
                editing.METADATA_KEY: editing.metadata(r.message),
            }
            for i, r in enumerate(results)
        ]
        batch = [{"role": "assistant", "content": "", "tool_calls": calls}, *stand_ins]
        view, changed = enforce_aggregate(batch, self._budgeter.policy, persist=lambda _message, _text: None)
        if changed:
            for old, new, done in zip(stand_ins, view[1:], results, strict=True):
                if new is not old:
                    self._persist_late(done)
        for done in results:
            self._bus.emit(AgentEvent(EventType.TRANSCRIPT_MESSAGE, _payload(done)))

    def _persist_late(self, done: _Result) -> None:
        text = _text_of(done.message.content)
        name = (done.decision.tool_name if done.decision else done.message.name) or ""
        decision = self._budgeter.budget(
            tool_name=name,
            tool_call_id=done.message.tool_call_id,
            content=text,
            reason="aggregate-limit",
        )
        done.decision = decision
        _apply(done.message, decision, done.arguments, text)
        self._tell_persisted(decision)
        # The same id: the newest form of a record is the one that counts.
        self._write(_payload(done))

    # --- telling and recording

    def _emit(self, kind: EventType, started: _Started, **data: Any) -> None:
        self._bus.emit(AgentEvent(kind, {"call_id": started.call_id, "tool_name": started.name, **data}))

    def _tell_persisted(self, decision: ToolResultDecision) -> None:
        data = {
            "call_id": decision.tool_call_id,
            "tool_name": decision.tool_name,
            "path": decision.tool_use_result["artifact"],
            "original_chars": decision.original_chars,
            "preview_chars": decision.tool_use_result["preview_chars"],
            "reason": decision.reason,
        }
        self._bus.emit(AgentEvent(EventType.TOOL_RESULT_PERSISTED, data))

    def _record(self, started: _Started, done: _Result) -> None:
        record = _payload(done)
        if started.journal is not None:
            record["journal"] = started.journal
        self._write(record)

    def _write(self, record: dict[str, Any]) -> None:
        write = getattr(self._session, "record", None)
        if write is None:
            return
        try:
            write(record)
            self._record_failed = False
        except StorageError as error:
            if not self._record_failed:
                self._storage_failed(error)
            self._record_failed = True

    def _storage_failed(self, error: StorageError) -> None:
        logger.error("the session's disk refuses; the agent goes on without it: %s", error)
        self._bus.emit(AgentEvent(EventType.STORAGE_DEGRADED, {"errno": error.errno, "error": str(error)}))


@dataclass(frozen=True)
class _Place:
    """Where a call stands in its batch."""

    key: tuple[Any, ...]
    expected: tuple[str, ...]
    position: int


@dataclass
class _Started:
    """One call under way."""

    name: str
    call_id: str
    arguments: dict[str, Any]
    at: float = field(default_factory=time.monotonic)
    place: _Place = field(default_factory=lambda: _Place((uuid.uuid4().hex,), ("",), 0))
    journal: str | None = None
    replayed: ToolMessage | None = None
    ended: bool = False


def _calling_message(request: Any) -> Any:
    """The assistant message whose calls are being run, from the state that LangGraph hands over."""
    state = getattr(request, "state", None)
    messages = (
        state if isinstance(state, list) else editing.field(state, "messages") if state is not None else None
    )
    for message in reversed(messages or []):
        if editing.role_of(message) == "assistant":
            return message
    return None


def _thread_id(request: Any) -> str:
    config = getattr(getattr(request, "runtime", None), "config", None) or {}
    return str((config.get("configurable") or {}).get("thread_id") or "") if isinstance(config, dict) else ""


def _place_in_batch(request: Any, call_id: str) -> _Place:
    message = _calling_message(request)
    ids = tuple(str(c.get("id") or "") for c in editing.field(message, "tool_calls") or []) if message else ()
    if call_id not in ids:
        return _Place((uuid.uuid4().hex,), (call_id,), 0)
    # The object's own identity tells two turns with equal ids apart where messages have no id.
    key = (_thread_id(request), editing.field(message, "id") or id(message), ids)
    return _Place(key, ids, ids.index(call_id))


def _journal_key(request: Any, started: _Started) -> str | None:
    message = _calling_message(request)
    message_id = editing.field(message, "id") if message is not None else None
    if (
        not message_id
        or not started.call_id
        or len(set(started.place.expected)) != len(started.place.expected)
    ):
        return None
    return "\x1f".join((_thread_id(request), str(message_id), started.call_id))


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = (b if isinstance(b, str) else b.get("text") for b in content if isinstance(b, (str, dict)))
    return "\n".join(t for t in texts if isinstance(t, str))


def _exit_code(message: ToolMessage) -> int | None:
    given = message.artifact if isinstance(message.artifact, dict) else {}
    code = given.get("exit_code", given.get("returncode"))
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _apply(message: ToolMessage, decision: ToolResultDecision, arguments: dict[str, Any], text: str) -> None:
    """Puts a decision into the message, in place: LangGraph already holds it."""
    if decision.persisted:
        if isinstance(message.content, str):
            message.content = decision.content
        else:
            media = [b for b in message.content if isinstance(b, dict) and not isinstance(b.get("text"), str)]
            message.content = [{"type": "text", "text": decision.content}, *media]
        facts = {
            "kind": "persisted",
            "artifact": decision.tool_use_result["artifact"],
            "original_chars": decision.original_chars,
            "reason": decision.reason,
        }
        message.additional_kwargs = {**message.additional_kwargs, editing.METADATA_KEY: facts}
    given = dict(message.artifact) if isinstance(message.artifact, dict) else {}
    use = given.get("toolUseResult") if isinstance(given.get("toolUseResult"), dict) else None
    message.artifact = {
        **given,
        "toolUseResult": _tool_use_result(use, decision, arguments),
        "artifact_meta": decision.artifact_meta,
    }


def _tool_use_result(
    given: dict[str, Any] | None, decision: ToolResultDecision, arguments: dict[str, Any]
) -> dict[str, Any]:
    """What a user interface needs of a result. Never its whole text: a checkpoint holds this at every step."""
    use = {"type": decision.tool_name, "input": arguments, **(given or {})}
    result = dict(use.get("result") or {}) if isinstance(use.get("result"), dict) else {}
    result.pop("rawText", None)
    if decision.persisted:
        result["preview"] = decision.content[:2_000]
    use["result"] = result
    use["budget"] = {
        **decision.tool_use_result,
        "tool_name": decision.tool_name,
        "persistence_reason": decision.reason,
    }
    return use


def _payload(done: _Result) -> dict[str, Any]:
    """The record of a result, and the data of its event."""
    given = done.message.artifact if isinstance(done.message.artifact, dict) else {}
    more: dict[str, Any] = {"id": done.record_id}
    ours = editing.metadata(done.message)
    if ours:
        more[editing.METADATA_KEY] = ours
    if done.message.status == "error":
        more["status"] = "error"
    return schema.make_transcript_message_record(
        role="tool",
        content=done.message.content,
        tool_call_id=done.message.tool_call_id,
        name=done.message.name or (done.decision.tool_name if done.decision else ""),
        tool_use_result=given.get("toolUseResult"),
        artifact=given.get("artifact_meta"),
        **more,
    )
