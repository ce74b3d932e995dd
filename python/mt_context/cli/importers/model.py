"""What every importer yields: sessions made of neutral message dicts, and the errors that say why a file gave
none.

A message ("record") is a plain dict in OpenAI chat style: `role`, `content`, `tool_calls`, `tool_call_id`,
`name`, plus `id`, `reasoning_content`, `timestamp_ms`, `status`, `usage` and `mt_context` where the source
knows them. Importers keep the agent's real timeline: order, duplicate ids, parallel calls, unanswered calls
and orphan results stay as they are. Repair is not done here. Nothing is ever concluded from a text that looks
like one of our tags; `mt_context` comes from a record type or from metadata alone.
"""

from __future__ import annotations

import calendar
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Record = dict[str, Any]

FORMATS = (
    "openai-chat",
    "langchain",
    "mtagent",
    "claude-code",
    "codex",
    "swe-agent",
    "mini-swe-agent",
)
"""Names that `load(format=…)` and `--format` accept."""


class Damage(NamedTuple):
    """One damaged line: where it begins and what is wrong with it. In a JSON document, line and offset are 0
    when unknown."""

    line_number: int
    byte_offset: int
    reason: str


class Event(NamedTuple):
    """Something the source recorded between messages that no model ever read: a boundary, a microcompaction,
    an abort."""

    before: int
    """Index of the message that follows it (`len(messages)` at the end)."""
    kind: str
    """`boundary`, `microcompact`, `aborted` or `rollback`."""
    details: Record


@dataclass
class Session:
    """One conversation of a file.

    `messages` holds only what was really exchanged with the model, system prompts included (role `system`). A
    summary that a former compaction put into the conversation stays, marked `mt_context.kind == "summary"`;
    boundaries are in `events`. Of a file with several conversations, the first session carries the file's
    damage.
    """

    path: str
    format: str
    name: str
    messages: list[Record] = field(default_factory=list)
    tools: list[Record] = field(default_factory=list)
    model: str | None = None
    damaged: list[Damage] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def damaged_lines(self) -> int:
        """How many damaged lines the file has. A line whose objects could be recovered counts too."""
        return len(self.damaged)


class SessionFileError(ValueError):
    """A file that gives no session. `str(error)` is one line and holds nothing of the session's content."""

    def __init__(self, path: str, hint: str) -> None:
        self.path = path
        self.hint = one_line(hint)
        super().__init__(f"{one_line(path)}: {self.hint}")


class UnreadableFileError(SessionFileError):
    """The file is missing, a directory, empty, unreadable or larger than we load."""


class UnknownFormatError(SessionFileError):
    """The file is none of the known session formats, or not of the format that was asked for."""


def one_line(text: str, limit: int = 400) -> str:
    """`text` without line ends and control characters, at most `limit` characters: fit for a terminal."""
    clean = "".join(c if c.isprintable() else " " for c in text[: 2 * limit])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def counts(counter: Counter[str]) -> str:
    """`progress 141, system 38`: the most frequent first, at most ten."""
    shown = ", ".join(f"{name[:40] or '(none)'} {n}" for name, n in counter.most_common(10))
    return shown + (", …" if len(counter) > 10 else "")


class MessageLog:
    """Collects the messages of one session: keeps their order, names tool results after their call, gives ids
    last.

    An id that the source has is kept, also when it repeats. Messages without one get `m<index>`, chosen at
    the end so that it never equals an id of the source (equal ids would make one group of two messages).
    """

    def __init__(self) -> None:
        self.messages: list[Record] = []
        self.events: list[Event] = []
        self._names: dict[str, str] = {}

    def add(self, role: str, content: Any, **fields: Any) -> Record:
        """Append a message; fields that are None are left out."""
        message: Record = {"role": role, "content": content}
        message.update({key: value for key, value in fields.items() if value is not None})
        if role == "tool" and not message.get("name"):
            message.pop("name", None)
            name = self._names.get(message.get("tool_call_id", ""))
            if name is not None:
                message["name"] = name
        for call in message.get("tool_calls", ()):
            self.learn(call)
        self.messages.append(message)
        return message

    def learn(self, call: Record) -> None:
        """Remember a call's tool name for its result. With reused ids the latest call wins, as in the
        timeline."""
        self._names[call["id"]] = call["function"]["name"]

    def event(self, kind: str, details: Record | None = None) -> None:
        """Note something that happened here and isn't a message."""
        self.events.append(Event(len(self.messages), kind, details or {}))

    def finish(self, session: Session) -> Session:
        """Give the ids that are missing and hand everything to `session`."""
        taken = {m["id"] for m in self.messages if "id" in m}
        for index, message in enumerate(self.messages):
            if "id" not in message:
                own = f"m{index}"
                while own in taken:
                    own += "_"
                taken.add(own)
                message["id"] = own
        session.messages = self.messages
        session.events = self.events
        return session


def tool_call(call_id: Any, name: Any, arguments: Any) -> Record:
    """A call in OpenAI form. Arguments that came as JSON text keep every character."""
    return {
        "id": as_text(call_id),
        "type": "function",
        "function": {"name": as_text(name), "arguments": arguments_text(arguments)},
    }


def arguments_text(arguments: Any) -> str:
    """The JSON text of a call's arguments."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else json_text(arguments)


def json_text(value: Any) -> str:
    """Compact JSON text; a value that JSON can't hold is shown as Python would."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"


def as_text(value: Any) -> str:
    """A string as it is, None as the empty string, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def word(value: Any) -> str:
    """A string as it is; anything else (a damaged field) is the empty string, which equals no known name."""
    return value if isinstance(value, str) else ""


def dicts(value: Any) -> list[Record]:
    """The objects of a list; nothing if it isn't a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def simplify(content: Any) -> Any:
    """One plain text block is its text, no block the empty text; what is no content at all is JSON text."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json_text(content)
    if not content:
        return ""
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        return as_text(content[0].get("text"))
    return content


def count(value: Any) -> int | None:
    """A token count, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def usage(raw: Any) -> Record | None:
    """`{"input_tokens", "output_tokens"}` from any provider's usage dict; the input includes what came from a
    cache."""
    if not isinstance(raw, dict):
        return None
    incoming = count(raw.get("input_tokens"))
    if incoming is None:
        incoming = count(raw.get("prompt_tokens"))
    outgoing = count(raw.get("output_tokens"))
    if outgoing is None:
        outgoing = count(raw.get("completion_tokens"))
    if incoming is None or outgoing is None:
        return None
    for key in (
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ):  # Anthropic reports these beside input_tokens
        incoming += count(raw.get(key)) or 0
    return {"input_tokens": incoming, "output_tokens": outgoing}


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?$")


def timestamp_ms(value: Any) -> int | None:
    """Milliseconds since the epoch from an ISO time (UTC if it names no zone), or from a number of s, ms, µs
    or ns."""
    if isinstance(value, str):
        return _iso_ms(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    for limit, scale in ((1e11, 1000), (1e14, 1), (1e17, 1e-3)):
        if value < limit:
            return int(value * scale)
    return int(value // 1_000_000)


def _iso_ms(text: str) -> int | None:
    found = _ISO.match(text.strip())
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    try:
        seconds = calendar.timegm((*map(int, parts), 0, 0, 0))
    except ValueError:
        return None
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return seconds * 1000 + int(((fraction or "") + "000")[:3])
