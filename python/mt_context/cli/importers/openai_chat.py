"""OpenAI chat messages: a list of them, an object or an episode that holds one, several episodes, or JSONL of
any of these.

Refused, also when forced: Anthropic's `tool_use`/`tool_result` blocks and OpenAI Responses items, whose pairs
would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .model import (
    Damage,
    MessageLog,
    Record,
    Session,
    as_text,
    dicts,
    simplify,
    timestamp_ms,
    tool_call,
    usage,
    word,
)

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
LIST_KEYS = ("messages", "traj", "conversation")
"""Under which keys an episode keeps its messages (tau-bench: `traj`)."""
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "server_tool_use"}
_RESPONSES_BLOCKS = {"input_text", "output_text", "input_image", "input_file"}
_SUBSTANCE = {"content", "tool_calls", "function_call"}
_BARE = {"role", "name", "id", "refusal", "reasoning_content"}  # an empty answer, dumped without its nulls
_NAME_KEYS = ("id", "session_id", "conversation_id", "task_id", "instance_id", "name")


def is_message(value: Any) -> bool:
    """True for one OpenAI chat message. What Anthropic, Gemini, Responses and LangChain write in its place is
    none."""
    if not isinstance(value, dict) or word(value.get("role")) not in ROLES or "parts" in value:
        return False
    if not (value.keys() & _SUBSTANCE or value.keys() <= _BARE):
        return False
    content = value.get("content")
    if not (content is None or isinstance(content, str | list)) or foreign_blocks(value) is not None:
        return False
    calls = value.get("tool_calls")
    return not calls or (
        isinstance(calls, list) and all(isinstance(c, dict) and "function" in c for c in calls)
    )


def foreign_blocks(message: Any) -> str | None:
    """Whose content blocks a message holds, if they aren't OpenAI chat's."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        for block in content:
            kind = word(block.get("type")) if isinstance(block, dict) else ""
            if kind in _ANTHROPIC_BLOCKS:
                return "Anthropic messages"
            if kind in _RESPONSES_BLOCKS:
                return "OpenAI Responses items"
    return None


def conversations(value: Any, is_one: Callable[[Any], bool]) -> Iterator[tuple[Record, list[Any]]]:
    """(object around it, messages) of each conversation in a document; `is_one` tells a message. Empty if
    there is none."""
    if isinstance(value, dict):
        messages = message_list(value, is_one)
        if messages is not None:
            yield value, messages
    elif isinstance(value, list) and value:
        if any(is_one(item) for item in value):
            yield {}, value
        else:
            for item in value:
                if isinstance(item, dict) and (messages := message_list(item, is_one)) is not None:
                    yield item, messages
                elif isinstance(item, list) and any(is_one(message) for message in item):
                    yield {}, item


def message_list(holder: Record, is_one: Callable[[Any], bool]) -> list[Any] | None:
    """The messages that an object holds, if all but damaged ones are such messages."""
    for key in LIST_KEYS:
        messages = holder.get(key)
        if isinstance(messages, list) and any(is_one(message) for message in messages):
            return messages
    return None


def is_document(value: Any) -> bool:
    """True if every message of every conversation in it is an OpenAI chat message (nulls and scalars count as
    damage)."""
    found = False
    for _, messages in conversations(value, is_message):
        found = True
        if not all(is_message(message) for message in messages if isinstance(message, dict)):
            return False
    return found


def from_document(path: str, value: Any, damaged: list[Damage], format: str = "openai-chat") -> list[Session]:
    """One session per conversation."""
    sessions = [
        _session(path, holder, messages, format, index, damaged)
        for index, (holder, messages) in enumerate(conversations(value, is_message))
    ]
    if sessions:
        sessions[0].damaged = damaged
    return sessions


def from_lines(path: str, objects: Iterable[Record], damaged: list[Damage]) -> list[Session]:
    """JSONL: lines that are messages make one session, a line that holds messages makes one by itself."""
    sessions: list[Session] = []
    loose: list[Any] = []
    other = 0
    for value in objects:
        if is_message(value):
            loose.append(value)
            continue
        found = False
        for holder, messages in conversations(value, is_message):
            found = True
            sessions.append(_session(path, holder, messages, "openai-chat", len(sessions), damaged))
        other += not found
    if loose:
        sessions.insert(0, _session(path, {}, loose, "openai-chat", 0, damaged))
    if sessions:
        if other:
            sessions[0].notes.append(f"{other} lines hold no chat message")
        sessions[0].damaged = damaged
    return sessions


def _session(
    path: str, holder: Record, messages: list[Any], format: str, index: int, damaged: list[Damage]
) -> Session:
    session = Session(path, format, episode_name(holder, index))
    session.tools = dicts(holder.get("tools")) or dicts(holder.get("functions"))
    session.model = holder["model"] if isinstance(holder.get("model"), str) else None
    log = MessageLog()
    for position, message in enumerate(messages):
        if is_message(message):
            add_message(log, message)
        else:
            damaged.append(Damage(0, 0, f"element {position} of conversation {index} is no chat message"))
    return log.finish(session)


def episode_name(holder: Record, index: int) -> str:
    """A short name for one of several conversations."""
    for key in _NAME_KEYS:
        value = holder.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            trial = holder.get("trial")
            return f"{key} {value}" + (f" trial {trial}" if isinstance(trial, int) else "")
    return f"conversation {index}"


def add_message(log: MessageLog, message: Record) -> None:
    """Append one OpenAI chat message, the old `function_call` form included."""
    role = ROLES[message["role"]]
    calls = [openai_call(call) for call in dicts(message.get("tool_calls"))] if role == "assistant" else []
    legacy = message.get("function_call")
    if role == "assistant" and not calls and isinstance(legacy, dict):
        calls = [tool_call(f"function-call-{len(log.messages)}", legacy.get("name"), legacy.get("arguments"))]
    answers = message.get("tool_call_id")
    if role == "tool" and answers is None and message["role"] == "function":
        answers = _open_legacy_call(log)
    own = message.get("id")
    name = message.get("name")
    mark = message.get("mt_context")
    log.add(
        role,
        simplify(message.get("content")),
        tool_calls=calls or None,
        tool_call_id=as_text(answers) if role == "tool" else None,
        name=name if isinstance(name, str) and name else None,
        id=own if isinstance(own, str) and own else None,
        reasoning_content=reasoning(message),
        timestamp_ms=timestamp_ms(
            message.get("timestamp_ms") or message.get("timestamp") or message.get("created_at")
        ),
        status="error" if message.get("status") == "error" or message.get("is_error") is True else None,
        usage=usage(message.get("usage")) if role == "assistant" else None,
        mt_context=mark if isinstance(mark, dict) else None,
    )


def openai_call(call: Record) -> Record:
    """A call as it is in the message, with every field a string."""
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return tool_call(call.get("id"), function.get("name"), function.get("arguments"))


def reasoning(message: Record) -> str | None:
    """The reasoning text under any of the names that providers give it. An empty one is kept: DeepSeek wants
    it back."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str):
            return str(message[key])
    return None


def _open_legacy_call(log: MessageLog) -> str:
    """The id that we gave to the last `function_call`."""
    for message in reversed(log.messages):
        if message.get("tool_calls"):
            return str(message["tool_calls"][-1]["id"])
    return ""
