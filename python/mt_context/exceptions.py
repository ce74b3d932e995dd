"""What mt_context raises. A message says what, where and the way out; it never holds content of the session."""

from __future__ import annotations

__all__ = ["InternalError", "IrreducibleContextError", "MtContextError"]


class MtContextError(Exception):
    """Base of everything that mt_context raises on its own account."""


class IrreducibleContextError(MtContextError):
    """What must stay (system prompt, tool schemas, the current request) is larger than the window allows."""


class InternalError(MtContextError):
    """A bug in mt_context (it was a panic in the core). The session on disk is not affected."""
