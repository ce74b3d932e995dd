"""Codex rollouts: `response_item` records are the conversation, `event_msg` records only repeat it for the
screen.

Items between two outputs (reasoning, texts, calls) are one assistant message: Codex records what one response
produced before it records the outputs. A `compacted` record replaces Codex' own view by
`replacement_history`; here the whole history stays, and the place becomes a `boundary` event.
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
    arguments_text,
    as_text,
    counts,
    dicts,
    json_text,
    simplify,
    timestamp_ms,
    tool_call,
    usage,
    word,
)

_ROLES = {"developer": "system", "system": "system", "user": "user"}
_ENDS_TURN = {"task_started", "task_complete", "turn_started", "turn_complete", "turn_aborted"}
_RECORDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}


def is_record(value: Record) -> bool:
    """True for a rollout line: a record type of Codex with its payload."""
    return word(value.get("type")) in _RECORDS and isinstance(value.get("payload"), dict)


class _Reader:
    """The state while one rollout is read."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.log = MessageLog()
        self.group: Record | None = None
        self.reasoning: list[str] = []
        self.last: Record | None = None
        self.system_known = False
        self.skipped: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        payload = record.get("payload")
        kind = as_text(record.get("type"))
        if not isinstance(payload, dict):
            self.skipped[kind] += 1
            return
        when = timestamp_ms(record.get("timestamp"))
        if kind == "response_item":
            self._item(payload, when)
        elif kind == "session_meta":
            self._meta(payload, when)
        elif kind == "turn_context":
            if isinstance(payload.get("model"), str):
                self.session.model = payload["model"]
        elif kind == "compacted":
            self._close()
            replaced = payload.get("replacement_history")
            self.log.event(
                "boundary", {"replacement_items": len(replaced)} if isinstance(replaced, list) else {}
            )
        elif kind == "event_msg":
            self._event(payload)
        else:
            self.skipped[kind] += 1

    def _meta(self, payload: Record, when: int | None) -> None:
        if isinstance(payload.get("id"), str) and self.session.name == "session":
            self.session.name = payload["id"]
        base = payload.get("base_instructions")
        text = base.get("text") if isinstance(base, dict) else payload.get("instructions")
        if isinstance(text, str) and text and not self.system_known:
            self.system_known = True
            self.log.add("system", text, timestamp_ms=when)
        self.session.tools = dicts(payload.get("dynamic_tools")) or self.session.tools

    def _event(self, payload: Record) -> None:
        kind = word(payload.get("type"))
        if kind in _ENDS_TURN:
            self._close()
        if kind == "turn_aborted":
            self.log.event("aborted", {"reason": as_text(payload.get("reason"))})
        elif kind == "thread_rolled_back":
            self.log.event("rollback", {"num_turns": payload.get("num_turns")})
        elif kind == "token_count" and self.last is not None:
            info = payload.get("info")
            reported = info.get("last_token_usage") if isinstance(info, dict) else None
            # Codex' input_tokens include the cached ones, which it names apart.
            figures = (
                usage({k: reported.get(k) for k in ("input_tokens", "output_tokens")})
                if isinstance(reported, dict)
                else None
            )
            if figures is not None:
                self.last["usage"] = figures

    def _item(self, item: Record, when: int | None) -> None:
        kind = as_text(item.get("type"))
        if kind == "message" and word(item.get("role")) in _ROLES:
            self._close()
            self.log.add(
                _ROLES[item["role"]], _content(item.get("content")), id=_own_id(item), timestamp_ms=when
            )
        elif kind == "message" and item.get("role") == "assistant":
            self._open(when, _own_id(item))["content"].extend(_content_blocks(item.get("content")))
        elif kind == "reasoning":
            self._reason(item)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
            call = _call(kind, item)
            self._open(when, None).setdefault("tool_calls", []).append(call)
            self.log.learn(call)
        elif kind in (
            "function_call_output",
            "custom_tool_call_output",
            "local_shell_call_output",
            "tool_search_output",
        ):
            self._close()
            self._output(kind, item, when)
        elif kind in (
            "web_search_call",
            "image_generation_call",
        ):  # run by the provider: call and result are one block
            self._open(when, None)["content"].append(
                {k: v for k, v in item.items() if k in ("type", "id", "status", "action")}
            )
        else:
            self.skipped[f"response_item/{kind}"] += 1

    def _reason(self, item: Record) -> None:
        parts = [*dicts(item.get("summary")), *dicts(item.get("content"))]
        texts = [text for part in parts if (text := word(part.get("text")))]
        if self.group is not None and texts:
            self.group["reasoning_content"] = "\n\n".join(
                [self.group.get("reasoning_content", ""), *texts]
            ).strip()
        else:
            self.reasoning += texts

    def _output(self, kind: str, item: Record, when: int | None) -> None:
        output = item.get("tools") if kind == "tool_search_output" else item.get("output")
        failed = False
        if isinstance(output, dict):
            failed = output.get("success") is False
            output = output.get("content", output)
        if isinstance(output, list) and kind != "tool_search_output":
            output = _content(output)
        elif not isinstance(output, str):
            output = as_text(output)
        self.log.add(
            "tool",
            output,
            tool_call_id=as_text(item.get("call_id")),
            id=_own_id(item),
            timestamp_ms=when,
            status="error" if failed else None,
        )

    def _open(self, when: int | None, own: str | None) -> Record:
        """The assistant message that is being collected."""
        if self.group is None:
            text = "\n\n".join(self.reasoning) or None
            self.reasoning = []
            self.group = self.log.add("assistant", [], id=own, reasoning_content=text, timestamp_ms=when)
            self.last = self.group
        return self.group

    def _close(self) -> None:
        if self.reasoning:  # reasoning that led to nothing (the turn was interrupted)
            self._open(None, None)
        if self.group is not None:
            self.group["content"] = simplify(self.group["content"])
            self.group = None

    def finish(self) -> Session:
        self._close()
        if self.skipped:
            self.session.notes.append("records without messages: " + counts(self.skipped))
        boundaries = sum(event.kind == "boundary" for event in self.log.events)
        if boundaries:
            self.session.notes.append(
                f"{boundaries} compactions of Codex; the whole history is kept, not its replacement_history"
            )
        return self.log.finish(self.session)


def _call(kind: str, item: Record) -> Record:
    if kind == "local_shell_call":
        return tool_call(
            item.get("call_id") or item.get("id"), "local_shell", arguments_text(item.get("action"))
        )
    if kind == "custom_tool_call":  # free text, not JSON
        return tool_call(
            item.get("call_id"), item.get("name"), json_text({"input": as_text(item.get("input"))})
        )
    name = "tool_search" if kind == "tool_search_call" else item.get("name")
    return tool_call(item.get("call_id"), name, item.get("arguments"))


def _own_id(item: Record) -> str | None:
    own = item.get("id")
    return own if isinstance(own, str) and own else None


def _content(content: Any) -> Any:
    return content if isinstance(content, str) else simplify(_content_blocks(content))


def _content_blocks(content: Any) -> list[Record]:
    """Responses blocks as chat blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks: list[Record] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind in ("input_text", "output_text", "text"):
            blocks.append({"type": "text", "text": as_text(block.get("text"))})
        elif kind == "input_image":
            blocks.append({"type": "image_url", "image_url": {"url": as_text(block.get("image_url"))}})
        else:
            blocks.append(block)
    return blocks


def from_lines(path: str, objects: Iterable[Record], damaged: list[Damage]) -> list[Session]:
    """The one session of the rollout."""
    reader = _Reader(Session(path, "codex", "session", damaged=damaged))
    for record in objects:
        reader.take(record)
    return [reader.finish()]
