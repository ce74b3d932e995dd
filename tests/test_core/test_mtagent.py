"""What of MT-Agent our modules replace (`mt_context.mtagent`). Its own suite runs on them with `../shared/tools/alias_suite.sh`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mt_context.mtagent import DEVIATIONS, MODULES

PROJECT_ROOT = Path(__file__).resolve().parents[2]


def test_every_module_of_the_mapping_exists_and_has_what_it_names() -> None:
    for ours in MODULES.values():
        module = importlib.import_module(ours)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_every_deviation_names_a_test_and_the_line_that_overrules_it() -> None:
    for test, reason in DEVIATIONS.items():
        assert test.startswith("tests/") and "::test_" in test
        assert any(word in reason for word in ("spec ", "plan ", "policies ", "reliability "))


@pytest.mark.parametrize(
    "module", ["mt_context", "mt_context.session", "mt_context.context.budget", "mt_context.cli.main"]
)
def test_importing_us_does_not_import_langchain(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(m.startswith('langchain') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_host_s_own_suite_passes_but_for_the_deviations() -> None:
    """Runs only where a checkout of MT-Agent is named; none of it is in this project."""
    checkout = os.environ.get("MTAGENT_CHECKOUT")
    script = (
        Path(os.environ.get("MT_CONTEXT_SHARED") or PROJECT_ROOT.parent / "shared")
        / "tools"
        / "alias_suite.sh"
    )
    if not checkout or not script.is_file():
        pytest.skip("no MT-Agent: MTAGENT_CHECKOUT names no checkout, or ../shared/tools is absent")
    # The policies' modules come with part 3; its tests of them run on MT-Agent's own until then.
    targets = [
        "test_core/test_context_budget", "test_core/test_message_invariants", "test_core/test_microcompact", "test_core/test_session_artifacts",
        "test_core/test_session_schema", "test_core/test_tool_result_budget", "test_core/test_tool_event_wrapper", "test_core/test_context",
        "test_cli/test_resume",
    ]  # fmt: skip
    done = subprocess.run(
        ["bash", str(script), "-s", checkout, "-p", sys.executable, *(f"{a}={b}" for a, b in MODULES.items())]
        + [part for target in targets for part in ("-t", f"tests/{target}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    failed = {
        line.split("::")[1].split(":")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")
    }
    assert "TOTAL" in done.stdout, done.stdout + done.stderr
    assert failed == {test.rsplit("::", 1)[1] for test in DEVIATIONS}
