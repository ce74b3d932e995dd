"""Events of an agent's life, and the bus that carries them to whoever listens (plan M0).

Values and payloads are those of MT-Agent, so that its CLI can listen. A subscriber that raises is logged and never harms the agent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["AgentEvent", "EventBus", "EventType"]

logger = logging.getLogger(__name__)


class EventType(Enum):
    """What happened."""

    CONTENT = "content"
    THOUGHT = "thought"
    TOOL_CALL_REQUEST = "tool_call_request"

    TOOL_STATE_UPDATE = "tool_state_update"
    TOOL_LIVE_OUTPUT = "tool_live_output"
    TOOL_CALL_COMPLETE = "tool_call_complete"
    ALL_TOOLS_COMPLETE = "all_tools_complete"

    APPROVAL_REQUEST = "approval_request"
    APPROVAL_RESPONSE = "approval_response"

    TURN_START = "turn_start"
    TURN_END = "turn_end"
    SESSION_END = "session_end"
    ERROR = "error"

    CONTEXT_COMPRESSED = "context_compressed"
    AUTO_COMPACT_CHECKED = "auto_compact_checked"
    AUTO_COMPACT_FAILED = "auto_compact_failed"
    AUTO_COMPACT_DISABLED = "auto_compact_disabled"
    #: A tool result went to an artifact; the model sees a preview.
    TOOL_RESULT_PERSISTED = "tool_result_persisted"
    #: Old tool results were cleared from the view.
    MICRO_COMPACTED = "micro_compacted"
    SESSION_MEMORY_UPDATED = "session_memory_updated"
    COMPACT_BOUNDARY = "compact_boundary"
    TRANSCRIPT_MESSAGE = "transcript_message"
    #: The disk refuses; the agent goes on, but something could not be kept. Sent once until it works again.
    STORAGE_DEGRADED = "storage_degraded"


@dataclass
class AgentEvent:
    """One event."""

    type: EventType
    data: Any
    turn: int = 0
    #: Seconds since the epoch.
    timestamp: float = field(default_factory=time.time)


Subscriber = Callable[[AgentEvent], None]


class EventBus:
    """Calls subscribers in the thread that emits, in the order in which they subscribed; those of all events last."""

    def __init__(self) -> None:
        self._by_type: dict[EventType, list[Subscriber]] = {}
        self._to_all: list[Subscriber] = []

    def subscribe(self, event_type: EventType, callback: Subscriber) -> None:
        """Calls `callback` for every event of this type."""
        self._by_type.setdefault(event_type, []).append(callback)

    def subscribe_all(self, callback: Subscriber) -> None:
        """Calls `callback` for every event."""
        self._to_all.append(callback)

    def unsubscribe(self, event_type: EventType, callback: Subscriber) -> None:
        """Takes one subscription back; nothing happens if there is none."""
        subscribers = self._by_type.get(event_type, [])
        if callback in subscribers:
            subscribers.remove(callback)

    def emit(self, event: AgentEvent) -> None:
        """Sends an event. Never raises."""
        # Copies: a subscriber may subscribe or unsubscribe.
        for callback in [*self._by_type.get(event.type, ()), *self._to_all]:
            try:
                callback(event)
            except Exception:
                logger.exception("a subscriber of %s failed", event.type.value)
