"""SWE-agent `.traj` files and mini-swe-agent trajectories.

SWE-agent keeps the conversation in `history`; a file that has only `trajectory` steps gives the same
conversation from them (the first step's query, then each response and observation). mini-swe-agent writes
chat messages, as a bare list (version 1) or as `{"messages", "info", "trajectory_format"}`; its `exit`
message was never sent to the model and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model import Damage, MessageLog, Record, Session, as_text, dicts, simplify, timestamp_ms, usage, word
from .openai_chat import ROLES, add_message, openai_call, reasoning

_OBSERVATION = "<returncode>"


def is_swe_agent(value: Any) -> bool:
    """True for a `.traj` document."""
    if not isinstance(value, dict):
        return False
    history, steps = value.get("history"), value.get("trajectory")
    if (
        isinstance(history, list)
        and history
        and all(_is_turn(item) for item in history if isinstance(item, dict))
    ):
        return isinstance(steps, list) or any(
            "agent" in m or "message_type" in m for m in history if isinstance(m, dict)
        )
    return isinstance(steps, list) and any(_is_step(step) for step in steps)


def is_mini(value: Any) -> bool:
    """True for a trajectory of mini-swe-agent: its own fields, or a list whose observations are all in its
    template's form."""
    if isinstance(value, dict):
        messages = value.get("messages")
        if not isinstance(messages, list) or not any(_is_turn(m) or _is_exit(m) for m in messages):
            return False
        info = value.get("info")
        return as_text(value.get("trajectory_format")).startswith("mini-swe-agent") or (
            isinstance(info, dict)
            and ("mini_version" in info or ("exit_status" in info and "model_stats" in info))
        )
    if not isinstance(value, list) or len(value) < 4 or not all(_is_turn(message) for message in value):
        return False
    roles = [message["role"] for message in value]
    observations = value[3:-1:2]
    return (
        roles == ["system", *(("user", "assistant") * len(roles))[: len(roles) - 1]]
        and bool(observations)
        and all(as_text(message["content"]).startswith(_OBSERVATION) for message in observations)
    )


def _is_turn(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and word(value.get("role")) in ROLES
        and ("content" in value or "tool_calls" in value)
    )


def _is_exit(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") == "exit"


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and "action" in value and "observation" in value


def from_document(path: str, value: Any, damaged: list[Damage]) -> list[Session]:
    """The one session of a `.traj` document."""
    name = value.get("instance_id") or value.get("environment")
    session = Session(path, "swe-agent", as_text(name) or "trajectory", damaged=damaged)
    log = MessageLog()
    history = value.get("history")
    if isinstance(history, list) and any(_is_turn(item) for item in history):
        _add_all(log, history, damaged)
    else:
        session.notes.append("no history: rebuilt from the trajectory's steps")
        _add_steps(log, [step for step in value["trajectory"] if _is_step(step)], damaged)
    return [log.finish(session)]


def mini_from_document(path: str, value: Any, damaged: list[Damage]) -> list[Session]:
    """The one session of a mini-swe-agent trajectory."""
    holder = value if isinstance(value, dict) else {}
    session = Session(
        path, "mini-swe-agent", as_text(holder.get("instance_id")) or "trajectory", damaged=damaged
    )
    config = holder.get("info", {}).get("config") if isinstance(holder.get("info"), dict) else None
    model = config.get("model") if isinstance(config, dict) else None
    if isinstance(model, dict) and isinstance(model.get("model_name"), str):
        session.model = model["model_name"]
    log = MessageLog()
    messages = holder["messages"] if holder else value
    exits = sum(_is_exit(message) for message in messages)
    _add_all(log, [message for message in messages if not _is_exit(message)], damaged)
    if exits:
        session.notes.append(f"{exits} exit message left out: the model never saw it")
    return [log.finish(session)]


def _add_all(log: MessageLog, messages: Iterable[Any], damaged: list[Damage]) -> None:
    for position, message in enumerate(messages):
        if _is_turn(message):
            _add(log, message)
        else:
            damaged.append(Damage(0, 0, f"message {position} is no chat message"))


def _add(log: MessageLog, message: Record) -> None:
    ids = message.get("tool_call_ids")
    if message["role"] == "tool" and isinstance(ids, list) and ids:
        # One observation answers every call of the step; a message names one, the others stay unanswered.
        message = {**message, "tool_call_id": ids[0]}
    extra = message.get("extra")
    if isinstance(extra, dict):
        response = extra.get("response")
        message = {
            **message,
            "timestamp": extra.get("timestamp"),
            "usage": response.get("usage") if isinstance(response, dict) else None,
        }
    add_message(log, message)


def _add_steps(log: MessageLog, steps: list[Record], damaged: list[Damage]) -> None:
    for position, step in enumerate(steps):
        if position == 0:
            asked = step.get("query") or step.get("messages")
            if isinstance(asked, list):
                _add_all(
                    log,
                    [m for m in dicts(asked) if m.get("role") in ("system", "user")],
                    damaged,
                )
        text = step.get("response")
        if not isinstance(text, str) or not text:
            text = f"{as_text(step.get('thought'))}\n\n```\n{as_text(step.get('action'))}\n```"
        calls = [openai_call(call) for call in dicts(step.get("tool_calls"))]
        log.add(
            "assistant",
            text,
            tool_calls=calls or None,
            reasoning_content=reasoning(step),
            timestamp_ms=timestamp_ms(step.get("timestamp")),
            usage=usage(step.get("usage")),
        )
        observation = simplify(step.get("observation"))
        if calls:
            log.add("tool", observation, tool_call_id=calls[0]["id"])
        else:
            log.add("user", observation)
