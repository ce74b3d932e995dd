"""Which counter counts: the default one, and one for each model (spec 1)."""

from __future__ import annotations

from functools import lru_cache

from mt_context._core import TokenCounter, context_window_for_model, encoding_for_model, limits

__all__ = [
    "LIMITS",
    "TokenCounter",
    "context_window_for_model",
    "counter_for_model",
    "default_counter",
    "encoding_for_model",
]

#: Every number of the plan by name (`src/limits.rs`), with its unit in the name.
LIMITS: dict[str, int | float] = limits()


@lru_cache(maxsize=32)
def counter_for_model(model: str) -> TokenCounter:
    """The counter of a model: exact where its vocabulary is in this build, else the estimator.

    Counters are shared, so that all parts of an agent profit from one cache.
    """
    return TokenCounter(model)


@lru_cache(maxsize=1)
def default_counter() -> TokenCounter:
    """The counter for when no model was named: o200k_base, the closest to most current models."""
    return TokenCounter(encoding="o200k_base")
