"""The native core of mt_context: typed reference.

Counts are tokens, sizes are characters, times are ms since the epoch, unless a name says otherwise. A `messages` argument is a list of
LangChain messages, OpenAI-style dicts or transcript records, mixed or not; it is never mutated. No function raises for what a message holds:
lone surrogates, `None`, lists, numbers. A bug in the core raises `mt_context.exceptions.InternalError`, never a `BaseException`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

__all__ = [
    "ArtifactStore",
    "SessionWriter",
    "TokenBudget",
    "TokenCounter",
    "ToolResultLimits",
    "adjust_index_to_preserve_message_groups",
    "adjust_index_to_preserve_tool_pairs",
    "adjust_index_to_respect_boundary",
    "auto_compact_threshold",
    "calibrate",
    "check_artifact_path",
    "clean_text",
    "cleared_text",
    "compact_boundary_text",
    "context_window_for_model",
    "defuse",
    "effective_context_limit",
    "encoding_for_model",
    "encodings",
    "find_compaction_working_start",
    "find_last_assistant_timestamp_ms",
    "find_last_compact_boundary",
    "find_safe_split",
    "legal_cuts",
    "limits",
    "memory_summary_text",
    "microcompact_after_pause",
    "microcompact_under_pressure",
    "persisted_output_text",
    "plan_compaction",
    "preview_text",
    "repair_messages",
    "resume_session",
    "safe_name",
    "scan_session",
    "session_listing",
    "small_window_threshold",
    "summary_text",
    "validate_messages",
    "vocabulary",
]

@final
class TokenCounter:
    """Counts texts and message lists in tokens, and remembers the lists it has seen (spec 1).

    Args:
        model: a model's name, with or without a provider's prefix. Exact where the model's vocabulary is in this build, else the
            fitted estimator.
        encoding: a vocabulary's name, such as `o200k_base`; goes before `model`.
        tokenizer_json: the bytes of a Hugging Face `tokenizer.json`; goes before both.
        include_reasoning: whether `reasoning_content` and thinking blocks are sent back to the provider, and so count.

    With no argument it is the estimator. Results never depend on what was counted before.

    Raises:
        ValueError: for an unknown encoding, or a `tokenizer_json` that cannot be read.
    """

    def __new__(
        cls,
        model: str | None = None,
        *,
        encoding: str | None = None,
        tokenizer_json: bytes | None = None,
        include_reasoning: bool = True,
    ) -> TokenCounter: ...
    @property
    def name(self) -> str:
        """The vocabulary's name, or the estimator's."""

    @property
    def is_exact(self) -> bool:
        """False for an estimator."""

    @property
    def include_reasoning(self) -> bool:
        """Whether reasoning counts."""

    def count(self, text: Any) -> int:
        """Tokens of a text, or of bytes as UTF-8; special tokens count as ordinary text. `None` is 0; anything else counts as `str()` of it."""

    def count_messages(
        self, messages: Sequence[Any], *, system: str | None = None, tools: Sequence[Any] | None = None
    ) -> int:
        """Tokens of a request: the messages, a system prompt and tool schemas outside of the list."""

    def count_each(self, messages: Sequence[Any]) -> list[int]:
        """Tokens of each message."""

    def count_overhead(self, system: Any = None, tools: Any = None) -> int:
        """Tokens of a system prompt and tool schemas."""

    def anchored_total(
        self, messages: Sequence[Any], *, token_limit: int, overhead: int = 0
    ) -> tuple[int, str, float | None]:
        """Tokens of the next request, anchored on the usage that the provider reported last (spec 1, `policies.md` 5.1).

        Returns:
            The total; `reported` or `counted`; and reported over counted for the same prefix, when a figure was used. A figure from
            before a compaction, above the window, or outside of 0.5 to 2 times our count is not used; what was cleared since it
            was reported is subtracted.
        """

@final
class TokenBudget:
    """Every number of one window, in tokens (plan M0, `policies.md` 5.1).

    Args:
        token_limit: the model's window.
        reserved_summary_tokens: kept free for a summary; the plan's 20 000 by default.
        buffer_tokens: kept free below that; the plan's 13 000 by default.

    It never acts on a threshold below the small-window value, whatever was passed; `raised` tells.
    """

    def __new__(
        cls, token_limit: int, *, reserved_summary_tokens: int | None = None, buffer_tokens: int | None = None
    ) -> TokenBudget: ...
    def level(self, tokens: int) -> str:
        """`ok`, `warn`, `auto` or `hard`."""

    def adapted_to(self, fixed: int) -> TokenBudget:
        """The budget for a request of which `fixed` tokens (system prompt, tool schemas) stay in every view: where they leave too little
        room, the threshold moves up towards `ceiling`, so that a large system prompt in a small window doesn't compact on every turn."""

    @property
    def ceiling(self) -> int:
        """The most that a view may fill: the window less room for an answer."""

    @property
    def token_limit(self) -> int: ...
    @property
    def effective_context_limit(self) -> int: ...
    @property
    def warn(self) -> int:
        """The user is told from here on."""

    @property
    def auto(self) -> int:
        """Auto compact fires from here on."""

    @property
    def hard(self) -> int:
        """Compaction happens from here on even with the breaker open, and then without an LLM."""

    @property
    def target(self) -> int:
        """A compaction's result lies below this."""

    @property
    def keep_min(self) -> int:
        """A compaction keeps at least about this much verbatim."""

    @property
    def keep_max(self) -> int:
        """… and at most about this much."""

    @property
    def read_max(self) -> int:
        """One read may add this much."""

    @property
    def aggregate_max(self) -> int:
        """The results of one assistant message may add this much."""

    @property
    def memory_max(self) -> int:
        """A session-memory summary may take this much."""

    @property
    def user_messages_max(self) -> int:
        """User messages kept verbatim may take this much."""

    @property
    def summary_max(self) -> int:
        """A summary may take this much."""

    @property
    def raised(self) -> bool:
        """True if the arguments asked for a threshold below the small-window value."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

def effective_context_limit(token_limit: int, reserved_summary_tokens: int | None = None) -> int:
    """Tokens that may be sent: the window less what a summary's output needs, at least 1 (plan M0)."""

def auto_compact_threshold(
    token_limit: int, reserved_summary_tokens: int | None = None, buffer_tokens: int | None = None
) -> int:
    """The threshold of auto compact in tokens (plan M0): 131072 → 98072, 65536 → 32536, 32768 → 22937.

    With neither argument given, windows below 65 536 get the small-window value; explicit arguments are taken literally, at least 1.
    """

def small_window_threshold(token_limit: int) -> int:
    """The least threshold that makes sense for a window: min(0.7·W, 32 536) (spec 1)."""

def calibrate(factor: float, ratio: float) -> float:
    """One step of an estimator's calibration: `ratio` is reported over counted. Slow, and clamped to 0.5 … 2."""

def encoding_for_model(model: str) -> str | None:
    """The vocabulary of a model, or `None` where none is published or in this build."""

def context_window_for_model(model: str) -> int | None:
    """The window of a model in tokens, or `None` for a model we don't know."""

def encodings() -> list[str]:
    """Names of all vocabularies in this build."""

def vocabulary(encoding: str) -> dict[bytes, int]:
    """The tokens of a vocabulary and their ranks, for other engines to count with.

    Raises:
        ValueError: for an unknown encoding.
    """

def limits() -> dict[str, int | float]:
    """Every number of the plan by name, with its unit in the name."""

def find_safe_split(
    counter: TokenCounter, messages: Sequence[Any], min_keep_tokens: int, max_keep_tokens: int
) -> tuple[int, list[int], int, int] | None:
    """(index, pinned, kept tokens, tokens over the maximum); see `mt_context.context.message_invariants.find_safe_split`."""

def legal_cuts(counter: TokenCounter, messages: Sequence[Any]) -> list[bool]:
    """For each position from 0 to the length, whether a cut there parts no pair, no batch, no chunks of one message."""

def adjust_index_to_preserve_tool_pairs(counter: TokenCounter, messages: Sequence[Any], index: int) -> int:
    """Moves an index back to where no call is parted from its result."""

def adjust_index_to_preserve_message_groups(
    counter: TokenCounter, messages: Sequence[Any], index: int
) -> int:
    """Moves an index back while it would part neighbours with the same id."""

def adjust_index_to_respect_boundary(counter: TokenCounter, messages: Sequence[Any], index: int) -> int:
    """Moves an index behind the last boundary."""

def find_last_compact_boundary(counter: TokenCounter, messages: Sequence[Any]) -> int | None:
    """Index of the last boundary, known by metadata."""

def find_compaction_working_start(counter: TokenCounter, messages: Sequence[Any]) -> int:
    """Where compactable history begins."""

def validate_messages(
    counter: TokenCounter, messages: Sequence[Any], provider_name: str
) -> list[tuple[int, str, str]]:
    """(index, rule, what it demands) for every violation of a provider's rules.

    Raises:
        ValueError: for a provider without a profile.
    """

def repair_messages(
    counter: TokenCounter, messages: Sequence[Any], provider_name: str
) -> tuple[list[dict[str, Any]], list[int]] | None:
    """The repaired list as slots, and the indexes left out; `None` if nothing changes.

    A slot is `{"keep": index, "changes": […]}`, `{"result_for": id, "name": …, "text": …}` or `{"user": text}`;
    `mt_context.context.message_invariants.repair_messages` builds messages from them.
    """

def plan_compaction(
    counter: TokenCounter,
    messages: Sequence[Any],
    *,
    budget: TokenBudget,
    overhead: int = 0,
    target: int | None = None,
    summary_tokens: int | None = None,
    cut: int | None = None,
) -> dict[str, Any]:
    """What a compaction keeps, pins, summarises and shrinks; see `mt_context.context.compaction.CompactionPlan`.

    Raises:
        IrreducibleContextError: if what must stay is larger than the target.
    """

def find_last_assistant_timestamp_ms(counter: TokenCounter, messages: Sequence[Any]) -> int | None:
    """When the model last spoke."""

def microcompact_after_pause(
    counter: TokenCounter,
    messages: Sequence[Any],
    *,
    now_ms: int,
    last_assistant_ms: int | None,
    gap_minutes: int,
    keep_recent: int,
    tools: set[str],
) -> list[int]:
    """Indexes of the results that a pause clears (plan M7)."""

def microcompact_under_pressure(
    counter: TokenCounter, messages: Sequence[Any], *, total: int, budget: TokenBudget, tools: set[str]
) -> tuple[list[int], int, bool]:
    """(indexes to clear, tokens won, whether the view is then below its target); see `policies.md` 5.4."""

@final
class ToolResultLimits:
    """Which tool results are too large for the model's view, in characters (plan M2, spec 3).

    Args:
        budget: clamps the plan's limits to a window.
        by_tool: limits by tool name that replace or extend the plan's; `None` for a tool that limits itself.
        default_chars: limit of tools that are not named (50 000).
        aggregate_chars: limit of the results of one assistant message together (200 000).
        preview_chars: size of a preview (4 000).
        preview_lines: length of a preview (80).
    """

    def __new__(
        cls,
        *,
        budget: TokenBudget | None = None,
        by_tool: dict[str, int | None] | None = None,
        default_chars: int | None = None,
        aggregate_chars: int | None = None,
        preview_chars: int | None = None,
        preview_lines: int | None = None,
    ) -> ToolResultLimits: ...
    def limit(self, tool_name: str) -> int | None:
        """The limit of a tool; `None` if it limits itself."""

    def exceeds(self, tool_name: str, chars: int) -> bool:
        """Whether a single result must become a preview."""

    def plan_aggregate(self, batch: Sequence[tuple[str, int, bool]]) -> list[int]:
        """Which results of one assistant message become previews so that all together fit.

        Args:
            batch: for each result, in order of the calls: tool name, characters, whether it is a preview already.
        """

    @property
    def default_chars(self) -> int: ...
    @property
    def aggregate_chars(self) -> int: ...
    @property
    def preview_chars(self) -> int: ...
    @property
    def preview_lines(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

def preview_text(
    tool_name: str,
    content: str | bytes,
    *,
    max_chars: int = 4000,
    max_lines: int = 80,
    artifact: str | None = None,
    exit_code: int | None = None,
    note: str | None = None,
) -> str:
    """What the model sees of a large result (spec 3): never more than `max_chars` characters and `max_lines` lines, whatever the input.

    A search shows its true number of matches and files, the first of them, and how many each file has. A command's output shows 20 % head and
    80 % tail, the exit code, and error and warning lines of the middle with their numbers. Anything else shows head and tail. Escape
    sequences are gone, redrawn lines are in their last frame. Bytes are decoded (UTF-8, UTF-16, GBK, …) or described.
    """

def clean_text(text: str) -> str:
    """What a terminal would show in the end: no escape sequences, no controls but newline and tab, redrawn lines in their last frame."""

def cleared_text(artifact: str | None = None) -> str:
    """The plan's text for a cleared result; a second line names its artifact (plan M7)."""

def persisted_output_text(
    tool_name: str, preview: str, *, path: str | None, original_chars: int, truncated: bool = False
) -> str:
    """The plan's tag around a preview, well-formed whatever the name and the preview hold (plan M2, R3)."""

def compact_boundary_text(pre_tokens: int, post_tokens: int, reason: str) -> str:
    """A compaction's boundary (plan M5)."""

def summary_text(text: str) -> str:
    """A conversation summary in its tag."""

def memory_summary_text(text: str, path: str) -> str:
    """A session-memory summary in its tag."""

def defuse(text: str) -> str:
    """Replaces `<` by `&lt;` where one of our tags would begin, in any spelling, and nothing else (R3)."""

@final
class SessionWriter:
    """The one writer of a session's transcript (reliability 2.1, 2.2).

    Args:
        directory: where the transcript lies; made if missing, private.
        name: its file name.
        sync: `always` or `turn`.

    Bytes behind the last line are saved beside the file and cut off before anything is appended.

    Raises:
        SessionLockedError: if the session has another writer.
        StorageError: if the disk refuses.
        ValueError: for an unknown `sync`.
    """

    def __new__(cls, directory: str | Path, name: str, *, sync: str = "always") -> SessionWriter: ...
    def record(self, record: str) -> int:
        """Appends a record, the JSON text of an object; returns its `seq`.

        Raises:
            StorageError: nothing was recorded. After a failed sync the writer refuses until `reopen`.
            SessionLockedError: in a fork of the process that opened it.
            ValueError: for a text that is no JSON object.
        """

    def flush(self) -> None:
        """Makes everything durable."""

    def reopen(self) -> None:
        """Goes on after a failed sync: a new file with what was acknowledged takes the old one's place."""

    def close(self) -> None:
        """Lets the session go."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int:
        """What was acknowledged, in bytes."""

    @property
    def torn_tail(self) -> tuple[str, int] | None:
        """Where bytes behind the last line were saved when the session was opened, and how many."""

@final
class ArtifactStore:
    """The artifacts in a session's directory (plan M1, reliability 2.3). Paths are relative: `tool-results/<name>.txt`."""

    def __new__(cls, directory: str | Path) -> ArtifactStore: ...
    def write(self, tool_call_id: str, content: str | bytes, *, suffix: str | None = None) -> dict[str, Any]:
        """Keeps a result: `path`, `size_bytes`, `truncated`, `kind`, `lossy`. Nothing is ever overwritten.

        Raises:
            StorageError: nothing is left behind then.
        """

    def replace_summary(self, content: str | bytes) -> dict[str, Any]:
        """Replaces `session-memory/summary.md`, atomically."""

    def read(self, relative_path: str) -> bytes:
        """A whole artifact.

        Raises:
            ValueError: for a path that is not an artifact's.
            StorageError: if it cannot be read.
        """

    def read_range(
        self,
        relative_path: str,
        *,
        line: int | None = None,
        byte: int | None = None,
        max_lines: int = 2000,
        max_chars: int = 50000,
    ) -> dict[str, Any]:
        """A part: `text`, `start_line`, `num_lines`, `start_byte`, `next_byte`, `next_line`, `total_lines`, `size`."""

    def search(
        self,
        relative_path: str,
        pattern: str,
        *,
        regex: bool = True,
        ignore_case: bool = False,
        max_hits: int = 50,
        max_line_chars: int = 300,
    ) -> dict[str, Any]:
        """Lines that match: `hits` as (line, byte, text), `total`, `more`.

        Raises:
            ValueError: for a pattern that cannot be read.
        """

    def list(self) -> Sequence[tuple[str, int, int]]:
        """(path, bytes, last change in ms since the epoch), oldest first."""

def safe_name(id: str) -> str:
    """A file name for an id: itself if it is `[A-Za-z0-9_-]{1,100}`, else `h-` and 32 hex digits (R4)."""

def check_artifact_path(path: str) -> None:
    """Nothing, for the relative path of an artifact.

    Raises:
        ValueError: for anything else.
    """

def resume_session(path: str | Path, *, accept_memory: bool = False) -> dict[str, Any]:
    """What a session goes on with, read backward to its last complete compaction (spec 4).

    Returns:
        `boundary` (`record`, `summary`, `pinned`) or `None`, `messages` and `others` as records, `damaged` as (byte, reason), `bytes_read`.
    """

def session_listing(path: str | Path) -> dict[str, Any]:
    """Head and tail of a session: `start`, `end`, `first_user_message`, `message_count`, `estimated`, `size`."""

def scan_session(
    path: str | Path, visit: Callable[[int, dict[str, Any]], Any], *, from_byte: int = 0
) -> Sequence[tuple[int, str]]:
    """Calls `visit(byte, record)` for every record in order; returns the damaged lines as (byte, reason)."""
