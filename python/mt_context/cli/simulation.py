"""Steps through a recorded session as the agent would have run it, under our policies.

At every assistant turn: tool results are budgeted, old ones are cleared after a pause or under pressure, a compaction is made when the
threshold is reached, and the view that the model would have received is repaired, validated and counted. The session itself is
only read. Where the recording agent compacted, its boundary and summary are left out: the full history goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mt_context._core import TokenBudget, TokenCounter
from mt_context.cli.importers import Session
from mt_context.cli.standin import boundary_message, summary_message
from mt_context.context import editing
from mt_context.context.compaction import carry_out, plan_compaction
from mt_context.context.message_invariants import Provider, repair_messages, validate_messages
from mt_context.context.microcompact import (
    MicrocompactResult,
    maybe_pressure_microcompact,
    maybe_time_based_microcompact,
)
from mt_context.context.tool_results import ToolResultPolicy, budget_message, enforce_aggregate

__all__ = ["Outcome", "Settings", "Turn", "simulate"]

#: A compaction is tried at most this often in one turn.
ATTEMPTS = 2


@dataclass(frozen=True)
class Settings:
    """What a replay assumes."""

    budget: TokenBudget
    counter: TokenCounter
    provider: Provider = "openai"
    policy: ToolResultPolicy = field(default_factory=ToolResultPolicy)
    gap_minutes: int = 60
    keep_recent: int = 5


@dataclass
class Turn:
    """One request that would have been sent."""

    number: int
    view_tokens: int = 0
    history_tokens: int = 0
    level: str = "ok"
    persisted: int = 0
    cleared: int = 0
    #: Why results were cleared: `after a pause` or `to make room`.
    cleared_because: str = ""
    #: Tokens before and after, if a compaction was made.
    compacted: tuple[int, int] | None = None
    repaired: bool = False
    request: str = ""


@dataclass
class Outcome:
    """What a whole session came to."""

    turns: int = 0
    max_view_tokens: int = 0
    over_window: int = 0
    invalid_views: int = 0
    lost_requests: int = 0
    persisted: int = 0
    microcompacted: int = 0
    compactions: int = 0
    tokens_sent: int = 0
    tokens_without: int = 0
    #: The longest run of turns in a row that each compacted.
    compactions_in_a_row: int = 0


def simulate(session: Session, settings: Settings, on_turn: Callable[[Turn], None] | None = None) -> Outcome:
    """Replays one session.

    Raises:
        IrreducibleContextError: if a request cannot be made to fit the window at all.
    """
    return _Simulation(session, settings, on_turn).run()


class _Simulation:
    """The state of one replay: the agent's message list, and what has been counted."""

    def __init__(self, session: Session, settings: Settings, on_turn: Callable[[Turn], None] | None) -> None:
        self.session = session
        self.settings = settings
        self.on_turn = on_turn
        self.state: list[Any] = []
        self.request: Any = None
        self.overhead = settings.counter.count_overhead(None, session.tools or None)
        self.history_tokens = self.overhead
        self.outcome = Outcome()
        self.turn = Turn(1)
        self.in_a_row = 0

    def run(self) -> Outcome:
        for message in self.session.messages:
            if editing.kind_of(message) in ("boundary", "summary", "memory_summary"):
                continue
            self.history_tokens += self.settings.counter.count_messages([message])
            role = editing.role_of(message)
            if role == "assistant":
                self.before_call(message.get("timestamp_ms"))
            elif role == "tool":
                message = self.budgeted(message)
            elif role == "user" and editing.kind_of(message) is None and not _is_blank(message):
                self.request = message
            self.state.append(message)
        return self.outcome

    def budgeted(self, message: Any) -> Any:
        new = budget_message(message, self.settings.policy)
        self.turn.persisted += new is not message
        return new

    def before_call(self, now_ms: int | None) -> None:
        """Everything that happens before one call of the model, in the plan's order (M4)."""
        s, turn = self.settings, self.turn
        self.state, persisted = enforce_aggregate(self.state, s.policy)
        turn.persisted += persisted
        if now_ms is not None:
            self.clear(
                maybe_time_based_microcompact(
                    self.state,
                    now_ms,
                    gap_threshold_minutes=s.gap_minutes,
                    keep_recent=s.keep_recent,
                    counter=s.counter,
                ),
                "after a pause",
            )
        tokens = self.count(self.state)
        budget = self.budget()
        turn.level = budget.level(tokens)
        if tokens >= budget.auto:
            result, _enough = maybe_pressure_microcompact(
                self.state, total_tokens=tokens, budget=budget, counter=s.counter
            )
            self.clear(result, "to make room")
            tokens = self.count(self.state)
        if tokens >= budget.auto:
            self.compact(tokens, budget)
        self.send()

    def budget(self) -> TokenBudget:
        """The window's budget, given what stays in every view."""
        system = list(itertools.takewhile(lambda m: editing.role_of(m) == "system", self.state))
        return self.settings.budget.adapted_to(self.count(system))

    def clear(self, result: MicrocompactResult, because: str) -> None:
        self.state = result.messages
        self.turn.cleared += result.cleared_count
        if result.triggered:
            self.turn.cleared_because = because

    def compact(self, before: int, budget: TokenBudget) -> None:
        s = self.settings
        target = budget.target
        after = before
        for _ in range(ATTEMPTS):
            plan = plan_compaction(self.state, budget, s.counter, overhead=self.overhead, target=target)
            new = carry_out(
                self.state,
                plan,
                boundary=boundary_message(before, plan.planned_tokens, last_kept=self.state[-1]),
                summary=summary_message(
                    [self.state[i] for i in plan.summarise], budget.summary_max - 80, s.counter
                ),
                counter=s.counter,
                reference=lambda message: editing.metadata(message).get("artifact") or _reference(message),
            )
            after = self.count(new)
            if after < budget.auto:
                break
            target -= after - target
        self.state = new
        self.turn.compacted = (before, after)

    def send(self) -> None:
        """Builds the view, checks it, and counts it."""
        s, turn, outcome = self.settings, self.turn, self.outcome
        view = repair_messages(self.state, s.provider, counter=s.counter)
        turn.repaired = len(view) != len(self.state) or any(
            a is not b for a, b in zip(view, self.state, strict=False)
        )
        turn.view_tokens = self.count(view)
        turn.history_tokens = self.history_tokens
        turn.request = _first_line(self.request)
        outcome.turns += 1
        outcome.invalid_views += bool(validate_messages(view, s.provider, counter=s.counter))
        outcome.over_window += turn.view_tokens > s.budget.token_limit
        outcome.lost_requests += self.request is not None and not _holds_request(view, self.request)
        outcome.max_view_tokens = max(outcome.max_view_tokens, turn.view_tokens)
        outcome.persisted += turn.persisted
        outcome.microcompacted += turn.cleared
        outcome.compactions += turn.compacted is not None
        outcome.tokens_sent += turn.view_tokens
        outcome.tokens_without += self.history_tokens
        self.in_a_row = self.in_a_row + 1 if turn.compacted else 0
        outcome.compactions_in_a_row = max(outcome.compactions_in_a_row, self.in_a_row)
        if self.on_turn is not None:
            self.on_turn(turn)
        self.turn = Turn(turn.number + 1)

    def count(self, messages: list[Any]) -> int:
        return self.overhead + self.settings.counter.count_messages(messages)


def _reference(message: Any) -> str | None:
    return f"the transcript (message {message['id']})" if message.get("id") else None


def _is_blank(message: Any) -> bool:
    content = message.get("content")
    return not content or (isinstance(content, str) and not content.strip())


def _holds_request(view: list[Any], request: Any) -> bool:
    """The current request is in the view, and is the last that the user said."""
    said = [m for m in view if editing.role_of(m) == "user" and editing.kind_of(m) is None]
    return bool(said) and said[-1].get("id") == request.get("id") and not _is_blank(said[-1])


def _first_line(message: Any) -> str:
    content = message.get("content") if message else ""
    if isinstance(content, list):
        content = next(
            (b.get("text", "") for b in content if isinstance(b, dict) and b.get("type") == "text"), ""
        )
    return next((line.strip() for line in str(content or "").splitlines() if line.strip()), "")[:80]
