"""Which format a file has, from its content alone; and what a file that is none of ours looks like.

Other formats are looked for before ours wherever they look alike (an LLM request log holds chat messages
too): a wrong guess would replay a conversation that never took place, so what isn't surely ours is refused by
name.
"""

from __future__ import annotations

from typing import Any

from . import claude_code, codex, langchain, mtagent, openai_chat, swe_agent


def document_format(value: Any) -> str | None:
    """The format of a JSON document."""
    if foreign_document(value) is not None:
        return None
    if swe_agent.is_swe_agent(value):
        return "swe-agent"
    if swe_agent.is_mini(value):
        return "mini-swe-agent"
    if langchain.is_document(value):
        return "langchain"
    return "openai-chat" if openai_chat.is_document(value) else None


def record_format(value: dict[str, Any]) -> str | None:
    """The format of a JSONL file in which this record stands. None if it fits several or none."""
    if mtagent.is_record(value):
        return "mtagent"
    if codex.is_record(value):
        return "codex"
    if claude_code.is_record(value):
        return "claude-code"
    if foreign_record(value) is not None or foreign_document(value) is not None:
        return None
    if langchain.is_message(value) or langchain.is_document(value):
        return "langchain"
    if openai_chat.is_message(value) or openai_chat.is_document(value):
        return "openai-chat"
    return None


def foreign_document(value: Any) -> str | None:
    """What a JSON document of a known other format is."""
    if isinstance(value, dict):
        return _foreign_object(value)
    if isinstance(value, list):
        for item in value[:50]:
            found = _foreign_item(item)
            if found is not None:
                return found
    return None


def _foreign_object(value: dict[str, Any]) -> str | None:
    keys = value.keys()
    if "requests" in keys and ("responderUsername" in keys or "initialLocation" in keys):
        return "a VS Code Copilot chat export"
    if {"exportedAt", "prompts"} <= keys:
        return "a VS Code Copilot chat replay"
    if "resourceSpans" in keys or isinstance(value.get("spans"), list):
        return "an OpenTelemetry trace"
    if {"run_type", "inputs"} <= keys:
        return "a LangSmith run"
    if {"sessionId", "projectHash"} <= keys:
        return "a Gemini CLI chat"
    if {"sessionId", "messages", "agent"} <= keys and "version" in keys:
        return "a Cline session"
    if "messages" in keys and keys & {"kwargs", "response", "raw_messages", "context_window", "completion"}:
        return "an LLM request log (--format openai-chat reads the messages of its request)"
    if "messages" in keys and "system" in keys and "max_tokens" in keys:
        return "an Anthropic API request"
    for key in openai_chat.LIST_KEYS:
        if isinstance(value.get(key), list):
            found = next((f for f in map(_foreign_blocks, value[key]) if f is not None), None)
            if found is not None:
                return found
    return None


def _foreign_item(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    keys = item.keys()
    if "role" in keys and isinstance(item.get("parts"), list):
        return "a Gemini history of Content objects"
    if item.get("type") == "system" and "session_id" in keys and "subtype" in keys:
        return "a stream of the Claude SDK"
    if "source" in keys and ("action" in keys or "observation" in keys):
        return "OpenHands events"
    if {"request", "response"} <= keys:
        return "a log of API requests"
    if item.get("type") in ("function_call", "function_call_output", "reasoning") and "role" not in keys:
        return "OpenAI Responses items"
    return _foreign_object(item) or _foreign_blocks(item)


def _foreign_blocks(message: Any) -> str | None:
    """As `openai_chat.foreign_blocks`, but LangChain keeps its providers' own blocks."""
    return None if langchain.is_message(message) else openai_chat.foreign_blocks(message)


def foreign_record(value: dict[str, Any]) -> str | None:
    """What a JSONL file of a known other format is, from one record."""
    kind, keys = value.get("type"), value.keys()
    if isinstance(kind, str) and "." in kind and isinstance(value.get("data"), dict):
        return "events of the Copilot CLI"
    if kind == "session" and "version" in keys and "createdAt" in keys:
        return "a DeepSeek Harness session"
    if kind == "session" and "cwd" in keys:
        return "a pi session"
    if isinstance(kind, str) and "/" in kind and "seq" in keys and isinstance(value.get("data"), dict):
        return "a DeepSeek Harness session"
    if "responses_create_params" in keys:
        return "OpenAI Responses rollouts"
    if kind in ("user", "assistant", "result") and "session_id" in keys and "parentUuid" not in keys:
        return "a stream of the Claude SDK"
    if isinstance(value.get("history"), list) and "instance_id" in keys:
        return "an OpenHands output"
    if kind in ("gemini", "info") and "timestamp" in keys and "content" in keys:
        return "a Gemini CLI chat"
    if keys and all(
        isinstance(node, dict) and isinstance(node.get("messages"), list) for node in value.values()
    ):
        return "a stream of LangGraph state updates"
    return _foreign_item(value)


def describe(value: Any) -> str:
    """What an unknown JSON value is: its kind and first keys, none of its content."""
    if isinstance(value, dict):
        return f"a JSON object {_keys(value)}"
    if isinstance(value, list):
        if not value:
            return "an empty JSON list"
        inner = (
            f"objects {_keys(value[0])}"
            if isinstance(value[0], dict)
            else f"{type(value[0]).__name__} values"
        )
        return f"a JSON list of {len(value)} {inner}"
    return f"a single JSON value ({type(value).__name__})"


def _keys(value: dict[str, Any]) -> str:
    if not value:
        return "without keys"
    shown = ", ".join(key[:32] for key in list(value)[:6])
    return f"with the keys {shown}{', …' if len(value) > 6 else ''}"
