"""PROVISIONAL"""
from __future__ import annotations
from dataclasses import dataclass
from typing import Any
from mt_context import _core
from mt_context.context import editing

@dataclass(frozen=True)
class ToolResultPolicy:
    limit: int = 50_000
    @classmethod
    def for_budget(cls, budget: Any) -> "ToolResultPolicy":
        return cls(limit=min(20000, budget.auto))

def budget_message(message: Any, policy: ToolResultPolicy, *, seen: int) -> Any:
    c = editing.field(message, "content")
    if isinstance(c, str) and len(c) > policy.limit:
        t = _core.preview_text("x", c, max_chars=4000)
        return editing.with_metadata(editing.copy_with(message, content=t), kind="persisted", artifact="tool-results/x.txt")
    return message

def enforce_aggregate(messages: list[Any], policy: ToolResultPolicy) -> tuple[list[Any], int]:
    return messages, 0
