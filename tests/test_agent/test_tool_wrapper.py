"""The wrapper in a real LangGraph graph: every result within budget, complete on disk, recorded; nothing raised, nothing swallowed."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from mt_context import _core
from mt_context.agent.tool_wrapper import create_event_bus_wrapper
from mt_context.context.message_invariants import validate_messages
from mt_context.context.tool_results import result_chars
from mt_context.events import AgentEvent, EventBus, EventType
from mt_context.exceptions import StorageError
from mt_context.session import SessionRecorder
from mt_context.session.artifacts import read_tool_result_artifact, search_tool_result_artifact

LIMIT = 200_000


@tool
def grep(size: int) -> str:
    """Prints matches."""
    time.sleep(random.random() * 0.002)
    return ("a.c:1: x\n" * (size // 9 + 1))[:size]


@tool
def read_file(size: int) -> str:
    """Prints a file."""
    return "é" * size


@tool
def broken() -> str:
    """Raises."""
    raise ValueError("boom")


@tool
def picture() -> list[dict[str, Any]]:
    """Gives text and an image."""
    return [
        {"type": "text", "text": "w" * 60_000},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]


@tool
def undecodable() -> str:
    """Prints bytes that are no UTF-8."""
    return b"\xff\xfe caf\xe9 ".decode("utf-8", "surrogateescape") * 9_000


TOOLS = (grep, read_file, broken, picture, undecodable)


def calls(*specs: tuple[str, dict[str, Any]], prefix: str = "c") -> list[dict[str, Any]]:
    return [
        {"name": n, "args": a, "id": f"{prefix}{i}", "type": "tool_call"} for i, (n, a) in enumerate(specs)
    ]


class World:
    """A session, a bus that remembers, and a graph of one ToolNode."""

    def __init__(
        self, folder: Path, *, tools: Sequence[Any] = TOOLS, saver: Any = None, session: bool = True
    ) -> None:
        self.events: list[AgentEvent] = []
        self.bus = EventBus()
        self.bus.subscribe_all(self.events.append)
        self.session = (
            SessionRecorder(folder, {"global_dir": str(folder / "global")}, sync="turn") if session else None
        )
        self.wrapper = create_event_bus_wrapper(self.bus, self.session)
        node = ToolNode(
            list(tools),
            handle_tool_errors=True,
            wrap_tool_call=self.wrapper,
            awrap_tool_call=self.wrapper.awrap,
        )
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        self.graph = graph.compile(checkpointer=saver)

    def run(
        self, tool_calls: list[dict[str, Any]], config: dict[str, Any] | None = None, id: str = "a1"
    ) -> list[Any]:
        start = [HumanMessage("go", id=f"u-{id}"), AIMessage("", id=id, tool_calls=tool_calls)]
        return [m for m in self.graph.invoke({"messages": start}, config)["messages"] if m.type == "tool"]

    def of(self, kind: EventType) -> list[AgentEvent]:
        return [e for e in self.events if e.type == kind]

    def records(self) -> list[dict[str, Any]]:
        assert self.session is not None and self.session.path is not None
        return [r for r in self.session.load_raw_session(self.session.path) if r.get("role") == "tool"]

    def artifact(self, message: ToolMessage) -> str:
        assert self.session is not None
        path = message.additional_kwargs["mt_context"]["artifact"]
        return (self.session.get_artifact_dir() / path).read_bytes().decode("utf-8", "surrogateescape")


def test_results_of_10_bytes_to_100_megabytes_are_within_budget_and_complete_on_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    sizes = [10, 19_999, 20_001, 3_000_000, 100_000_000]
    results = world.run(calls(*(("grep", {"size": s}) for s in sizes)))
    assert [result_chars(m) <= max(20_000, 4_000) for m in results] == [True] * 5
    assert [m.additional_kwargs == {} for m in results] == [True, True, False, False, False]
    assert world.artifact(results[2]) == ("a.c:1: x\n" * 3_000)[:20_001]
    assert len(world.artifact(results[3])) == 3_000_000
    capped = results[4]
    assert len(world.artifact(capped)) == 64 * 1024 * 1024 and capped.artifact["artifact_meta"]["truncated"]
    assert 'truncated="true"' in capped.content and "67,108,864 bytes" in capped.content
    for record, message in zip(
        sorted(world.records(), key=lambda r: r["tool_call_id"]), results, strict=True
    ):
        assert (
            record["content"] == message.content and record["toolUseResult"]["budget"]["original_chars"] >= 10
        )
        assert record["artifact"] == message.artifact["artifact_meta"]


def test_the_aggregate_holds_and_the_outcome_does_not_depend_on_timing(tmp_path: Path) -> None:
    specs = [("grep", {"size": 19_900})] * 11 + [
        ("broken", {}),
        ("picture", {}),
        ("nobody", {}),
        ("read_file", {"size": 30_000}),
        ("grep", {"size": 90_000}),
    ]
    outcomes = set()
    for run in range(100):
        world = World(tmp_path / str(run))
        results = world.run(calls(*specs), {"max_concurrency": 1} if run % 4 == 0 else None)
        assert sum(map(result_chars, results)) <= LIMIT
        key = tuple(
            (m.tool_call_id, m.status, result_chars(m), bool(m.additional_kwargs))
            for m in sorted(results, key=lambda m: m.tool_call_id)
        )
        outcomes.add(key)
    assert len(outcomes) == 1
    assert len(results) == len(specs) and sum(m.status == "error" for m in results) == 2


def test_sixty_parallel_results_fit_too(tmp_path: Path) -> None:
    results = World(tmp_path).run(calls(*[("grep", {"size": 25_000})] * 60))
    assert sum(map(result_chars, results)) <= LIMIT and all(
        m.content.endswith("</persisted-output>") for m in results
    )


def test_events_come_in_order_and_figures_are_set(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(calls(("grep", {"size": 50_000}), ("broken", {})))
    first = [e.type for e in world.events if e.data.get("call_id") == "c0"]
    assert first == [
        EventType.TOOL_STATE_UPDATE,
        EventType.TOOL_CALL_COMPLETE,
        EventType.TOOL_RESULT_PERSISTED,
    ]
    transcript = [i for i, e in enumerate(world.events) if e.type == EventType.TRANSCRIPT_MESSAGE]
    assert transcript == [len(world.events) - 2, len(world.events) - 1]
    assert [world.events[i].data["tool_call_id"] for i in transcript] == ["c0", "c1"]
    assert world.session is not None
    tools = world.session.stats.to_dict()["tools"]
    assert tools == {"total": 2, "success": 1, "failed": 1, "by_name": {"grep": 1, "broken": 1}}
    assert world.session.stats.last_tool_result_chars in (
        50_000,
        len("Error: ValueError('boom')\n Please fix your mistakes."),
    )


def test_the_state_does_not_grow_by_the_whole_text(tmp_path: Path) -> None:
    saver = InMemorySaver()
    world = World(tmp_path, saver=saver)
    config = {"configurable": {"thread_id": "t"}}
    results = world.run(calls(("grep", {"size": 5_000_000})), config)
    size = (
        len(json.dumps(results[0].artifact))
        + len(json.dumps(results[0].additional_kwargs))
        + len(results[0].content)
    )
    assert size < 10_000
    stored = saver.serde.dumps_typed(world.graph.get_state(config).values)[1]
    assert len(stored) < 20_000


def test_images_pass_untouched_and_undecodable_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    world = World(tmp_path)
    shown, odd = world.run(calls(("picture", {}), ("undecodable", {})))
    assert [b["type"] for b in shown.content] == ["text", "image_url"] and result_chars(shown) <= 4_000
    assert world.artifact(odd).encode("utf-8", "surrogateescape") == b"\xff\xfe caf\xe9 " * 9_000


def test_ids_of_any_kind_and_repeated_ids_keep_their_own_artifacts(tmp_path: Path) -> None:
    world = World(tmp_path)
    for turn, call_id in enumerate(["call_0", "call_0", "../../x", "y" * 300, "functions.grep:0"]):
        (message,) = world.run(
            [{"name": "grep", "args": {"size": 30_000 + turn}, "id": call_id, "type": "tool_call"}],
            id=f"a{turn}",
        )
        assert message.tool_call_id == call_id and len(world.artifact(message)) == 30_000 + turn
    assert world.session is not None
    assert len(list((world.session.get_artifact_dir() / "tool-results").iterdir())) == 5


def test_what_is_no_tool_message_passes_through(tmp_path: Path) -> None:
    @tool
    def move() -> Command[Any]:
        """Returns a command."""
        return Command(update={"messages": [ToolMessage("moved", tool_call_id="c0")]})

    world = World(tmp_path, tools=(move,))
    (message,) = world.run(calls(("move", {})))
    assert message.content == "moved"
    assert (
        create_event_bus_wrapper(EventBus())(
            type("R", (), {"tool_call": {"name": "x", "id": "1"}})(), lambda r: 5
        )
        == 5
    )


def test_what_a_tool_raises_goes_on_and_its_siblings_do_not_wait(tmp_path: Path) -> None:
    world = World(tmp_path)
    request = type("R", (), {"tool_call": {"name": "grep", "id": "c0", "args": {}}})()
    for error in (KeyError("x"), KeyboardInterrupt(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            world.wrapper(request, lambda _r, error=error: (_ for _ in ()).throw(error))
    assert world.wrapper._batches == {}
    assert [e.data["status"] for e in world.of(EventType.TOOL_CALL_COMPLETE)] == ["error"] * 3


def test_the_async_twin_does_the_same(tmp_path: Path) -> None:
    world = World(tmp_path)
    start = [HumanMessage("go"), AIMessage("", id="a", tool_calls=calls(*[("grep", {"size": 25_000})] * 12))]
    state = asyncio.run(world.graph.ainvoke({"messages": start}))
    results = [m for m in state["messages"] if m.type == "tool"]
    assert (
        len(results) == 12 and all(result_chars(m) <= 4_000 for m in results) and len(world.records()) == 12
    )


def test_a_refusing_disk_never_costs_a_result_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    assert world.session is not None

    def refuse(*_args: Any) -> int:
        raise StorageError(28, "no space")

    monkeypatch.setattr(world.session, "record", refuse)
    (world.session._get_history_dir() / "artifacts").parent.mkdir(parents=True)
    (world.session._get_history_dir() / "artifacts").write_text("in the way")
    small, large, again = world.run(
        calls(("grep", {"size": 40}), ("grep", {"size": 60_000}), ("grep", {"size": 70_000}))
    )
    assert (
        result_chars(small) == 40
        and "The rest was not kept." in large.content
        and "The rest was not kept." in again.content
    )
    assert large.artifact["artifact_meta"] is None
    # One for the transcript, one for the artifacts: each once.
    assert len(world.of(EventType.STORAGE_DEGRADED)) == 2


def test_the_model_s_way_back_leads_to_the_whole_result(tmp_path: Path) -> None:
    world = World(tmp_path)
    (message,) = world.run(calls(("grep", {"size": 90_000})))
    assert world.session is not None
    path = message.content.split('path="')[1].split('"')[0]
    folder = world.session.get_artifact_dir()
    assert read_tool_result_artifact(folder, path, offset=5_000, limit=1)["text"] == "a.c:1: x\n"
    assert search_tool_result_artifact(folder, path, r"a\.c:1")["total"] == 10_000


# --- interrupts and crashes


def test_a_tool_that_ran_is_not_run_again_after_an_interrupt(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def push() -> str:
        """Has a side effect."""
        ran.append("push")
        return "pushed " + "x" * 60_000

    @tool
    def ask() -> str:
        """Asks the user."""
        return "the user said " + interrupt("sure?")

    world = World(tmp_path, tools=(push, ask), saver=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    world.run(calls(("push", {}), ("ask", {})), config)
    state = world.graph.invoke(Command(resume="yes"), config)
    results = [m for m in state["messages"] if m.type == "tool"]
    assert ran == ["push"] and [m.content[:20] for m in results] == [
        "<persisted-output to",
        "the user said yes",
    ]
    assert validate_messages(state["messages"]) == [] and world.wrapper._batches == {}
    assert len(world.artifact(results[0])) == 60_007


CRASHING = """
    import os, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from test_agent.test_tool_wrapper import *
    from langgraph.checkpoint.sqlite import SqliteSaver

    folder = Path({folder!r})

    @tool
    def push() -> str:
        "Has a side effect."
        with open(folder / "effects", "a") as file:
            file.write("push\\n")
        return "pushed"

    @tool
    def die() -> str:
        "Dies the first time."
        if not (folder / "died").exists():
            while (folder / "effects").exists() is False or not list(folder.rglob("session-*.jsonl")) or b'pushed' not in next(folder.rglob("session-*.jsonl")).read_bytes():
                pass
            (folder / "died").write_text("")
            os._exit(9)
        return "alive"

    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        world = World(folder, tools=(push, die), saver=saver)
        config = {{"configurable": {{"thread_id": "t"}}}}
        if not (folder / "died").exists():
            world.run(calls(("push", {{}}), ("die", {{}})), config)
        world.session.resume_from(next(folder.rglob("session-*.jsonl")))
        state = world.graph.invoke(None, config)
        print([m.content for m in state["messages"] if m.type == "tool"])
"""


def test_a_tool_that_ran_is_not_run_again_after_a_crash(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite", reason="langgraph-checkpoint-sqlite is not installed")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(CRASHING).format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    )

    def run() -> Any:
        return subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
        )

    first = run()
    assert first.returncode == 9, first.stderr
    second = run()
    assert second.returncode == 0, second.stderr
    assert second.stdout.strip() == "['pushed', 'alive']"
    assert (tmp_path / "effects").read_text() == "push\n"


def test_no_way_in_leads_past_the_store() -> None:
    with pytest.raises(ValueError, match="tool-results/<name>"):
        _core.check_artifact_path("tool-results/../x")
