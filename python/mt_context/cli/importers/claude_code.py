"""Claude Code's session JSONL.

One API message is written as several records with the same `message.id`, with tool results in between when
calls ran in parallel; they become one assistant message again, at the place of the first record. Thinking
blocks stay in the content (Anthropic form, with their signature); calls move to `tool_calls`. Each side chain
(a subagent) is a session of its own. Compaction and microcompaction are known by record type and metadata
only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .model import (
    Damage,
    MessageLog,
    Record,
    Session,
    as_text,
    count,
    counts,
    dicts,
    simplify,
    timestamp_ms,
    tool_call,
    usage,
    word,
)

_BOUNDARIES = {
    "compact_boundary": ("boundary", "compactMetadata"),
    "microcompact_boundary": ("microcompact", "microcompactMetadata"),
}


def is_record(value: Record) -> bool:
    """True for a conversation record of Claude Code (its SDK's stream has neither `parentUuid` nor a
    camel-case session id)."""
    if not ("parentUuid" in value or ("uuid" in value and "sessionId" in value)):
        return False
    return value.get("type") in ("user", "assistant", "system", "progress", "attachment")


class _Chain:
    """The main conversation, or one side chain."""

    def __init__(self) -> None:
        self.log = MessageLog()
        self.by_api_id: dict[str, Record] = {}
        self.written: set[tuple[str, str]] = set()
        self.model: str | None = None

    def assistant(self, record: Record, message: Record) -> None:
        api_id = as_text(message.get("id"))
        own = as_text(record.get("uuid"))
        if api_id and own:  # a resumed session writes the same part of a message again
            if (api_id, own) in self.written:
                return
            self.written.add((api_id, own))
        target = self.by_api_id.get(api_id) if api_id else None
        if target is None:
            target = self.log.add(
                "assistant",
                [],
                id=api_id or own or None,
                timestamp_ms=timestamp_ms(record.get("timestamp")),
                mt_context={"kind": "synthetic"} if message.get("model") == "<synthetic>" else None,
            )
            if api_id:
                self.by_api_id[api_id] = target
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_use":
                call = tool_call(block.get("id"), block.get("name"), block.get("input"))
                target.setdefault("tool_calls", []).append(call)
                self.log.learn(call)
            else:
                target["content"].append(block)
        reported = usage(message.get("usage"))  # the last record of a message has the final figure
        if reported is not None and message.get("model") != "<synthetic>":
            target["usage"] = reported
        model = message.get("model")
        if isinstance(model, str) and model and model != "<synthetic>":
            self.model = model

    def user(self, record: Record, message: Record) -> None:
        common: Record = {"timestamp_ms": timestamp_ms(record.get("timestamp"))}
        own = as_text(record.get("uuid"))
        rest: list[Record] = []
        made = 0

        def next_id() -> str | None:
            nonlocal made
            made += 1
            return None if not own else own if made == 1 else f"{own}:{made}"

        def flush() -> None:
            if rest:
                self.log.add(
                    "user", simplify(list(rest)), id=next_id(), mt_context=_user_mark(record), **common
                )
                rest.clear()

        content = message.get("content")
        if isinstance(content, str):
            self.log.add("user", content, id=next_id(), mt_context=_user_mark(record), **common)
            return
        for block in _blocks(content):
            if block.get("type") != "tool_result":
                rest.append(block)
                continue
            flush()
            result = block.get("content")
            self.log.add(
                "tool",
                simplify(result) if isinstance(result, str | list) else as_text(result),
                tool_call_id=as_text(block.get("tool_use_id")),
                id=next_id(),
                status="error" if block.get("is_error") is True else None,
                mt_context=_persisted(record),
                **common,
            )
        flush()

    def close(self, session: Session) -> Session:
        for message in self.log.messages:
            if message["role"] == "assistant":
                message["content"] = simplify(message["content"])
        session.model = self.model
        return self.log.finish(session)


def _blocks(content: Any) -> list[Record]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return dicts(content)


def _user_mark(record: Record) -> Record | None:
    if record.get("isCompactSummary") is True:
        return {"kind": "summary"}
    return {"kind": "meta"} if record.get("isMeta") is True else None


def _persisted(record: Record) -> Record | None:
    result = record.get("toolUseResult")
    if isinstance(result, dict) and isinstance(result.get("persistedOutputPath"), str):
        mark: Record = {"kind": "persisted", "path": result["persistedOutputPath"]}
        size = count(result.get("persistedOutputSize"))
        return mark if size is None else {**mark, "size_bytes": size}
    return None


def from_lines(path: str, objects: Iterable[Record], damaged: list[Damage]) -> list[Session]:
    """The main conversation first, then one session per side chain, in order of their beginning."""
    chains: dict[str, _Chain] = {"": _Chain()}
    roots: dict[str, str] = {}
    name = "session"
    skipped: Counter[str] = Counter()
    for record in objects:
        kind = as_text(record.get("type"))
        if isinstance(record.get("sessionId"), str) and record["sessionId"]:
            name = record["sessionId"] if name == "session" else name
        message = record.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            key = _chain_key(record, roots)
            chain = chains.setdefault(key, _Chain())
            (chain.user if kind == "user" else chain.assistant)(record, message)
        elif kind == "system" and word(record.get("subtype")) in _BOUNDARIES:
            event, metadata = _BOUNDARIES[record["subtype"]]
            details = record.get(metadata)
            chains[""].log.event(event, details if isinstance(details, dict) else {})
        else:
            skipped[kind if kind != "system" else f"system/{as_text(record.get('subtype'))}"] += 1
    sessions = [
        chain.close(Session(path, "claude-code", f"{name} side chain {key}" if key else name))
        for key, chain in chains.items()
        if chain.log.messages or not key
    ]
    if (
        not sessions[0].messages and len(sessions) > 1
    ):  # a subagent's own file holds nothing but its side chain
        sessions.pop(0)
    sessions[0].damaged = damaged
    if skipped:
        sessions[0].notes.append("record types without messages: " + counts(skipped))
    return sessions


def _chain_key(record: Record, roots: dict[str, str]) -> str:
    """Which side chain a record belongs to; empty for the main conversation."""
    if record.get("isSidechain") is not True:
        return ""
    own = as_text(record.get("uuid"))
    agent = record.get("agentId")
    key = (
        agent
        if isinstance(agent, str) and agent
        else roots.get(as_text(record.get("parentUuid")), own or "?")
    )
    if own:
        roots[own] = key
    return key
