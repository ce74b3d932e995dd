"""What of MT-Agent our modules replace, and where we differ on purpose.

`MODULES` maps MT-Agent's module names to ours; an alias of each is a drop-in (its own tests pass on it). `DEVIATIONS` maps each of
MT-Agent's tests that pins a fault to the line that overrules it.
"""

from __future__ import annotations

__all__ = ["DEVIATIONS", "MODULES"]

#: MT-Agent's module → ours.
MODULES: dict[str, str] = {
    "core.context.budget": "mt_context.context.budget",
    "core.context.message_invariants": "mt_context.context.message_invariants",
    "core.context.microcompact": "mt_context.context.microcompact",
}

#: MT-Agent's test → why it fails on our modules, with the line of the plan or the spec.
DEVIATIONS: dict[str, str] = {
    "tests/test_core/test_message_invariants.py::test_find_last_compact_boundary": (
        "takes a typed text for a boundary; spec 5: a boundary is known by metadata or record type, and text that looks like one has "
        "no effect (reliability R3)"
    ),
}
