"""What mt_context raises. A message says what, where and the way out; it never holds content of the session."""

from __future__ import annotations

__all__ = [
    "InternalError",
    "IrreducibleContextError",
    "MtContextError",
    "SessionLockedError",
    "StorageError",
]


class MtContextError(Exception):
    """Base of everything that mt_context raises on its own account."""


class IrreducibleContextError(MtContextError):
    """What must stay (system prompt, tool schemas, the current request) is larger than the window allows."""


class StorageError(MtContextError, OSError):
    """The disk refused; `errno` says why. What was acknowledged before is safe."""


class SessionLockedError(MtContextError):
    """The session has another writer: another process, or the process that this one was forked from."""


class InternalError(MtContextError):
    """A bug in mt_context (it was a panic in the core). The session on disk is not affected."""
