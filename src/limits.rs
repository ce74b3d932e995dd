//! Every number of the plan, named, with its unit. Python's defaults are read from here (`mt_context._core.LIMITS`).

/// Default window of a model nobody told us about, in tokens (plan M0).
pub const DEFAULT_TOKEN_LIMIT: u64 = 131_072;
/// Tokens kept free for a summary's output (plan M0).
pub const SUMMARY_RESERVED_TOKENS: u64 = 20_000;
/// Safety buffer below the effective limit, in tokens (plan M0).
pub const AUTOCOMPACT_BUFFER_TOKENS: u64 = 13_000;
/// Windows below this get the small-window threshold, in tokens (spec 1).
pub const SMALL_WINDOW_TOKENS: u64 = 65_536;
/// A small window's threshold is at most this, in tokens: the threshold of a 65 536 window (spec 1).
pub const SMALL_WINDOW_MAX_THRESHOLD: u64 = 32_536;
/// … and at most this share of the window (spec 1).
pub const SMALL_WINDOW_FRACTION: f64 = 0.7;
/// The hard level lies this many tokens below the effective limit (policies 5.1).
pub const HARD_MARGIN_TOKENS: u64 = 3_000;
/// The warn level lies at most this many tokens below the auto level (policies 5.1).
pub const WARN_MARGIN_TOKENS: u64 = 20_000;
/// … and at most this share of it (policies 5.1).
pub const WARN_MARGIN_FRACTION: f64 = 0.15;
/// Tokens of the window that no view may fill, so that an answer has room, at least …
pub const OUTPUT_ROOM_TOKENS: u64 = 1_024;
/// … or this share of the window, whichever is larger.
pub const OUTPUT_ROOM_FRACTION: f64 = 1.0 / 16.0;
/// What stays in every view (system prompt, tool schemas, summary) may take this share of the threshold before the
/// threshold moves up to make room for the conversation.
pub const FIXED_MAX_FRACTION: f64 = 0.5;
/// A compaction's result must be below this share of the threshold (policies 5.4, 5.6).
pub const TARGET_FRACTION: f64 = 0.7;

/// A compaction keeps at least about this many tokens verbatim (plan M5).
pub const PRESERVE_MIN_TOKENS: u64 = 10_000;
/// … and at most about this many (plan M5).
pub const PRESERVE_MAX_TOKENS: u64 = 40_000;
/// … and never more than this share of the threshold (policies 5.1).
pub const KEEP_MAX_FRACTION: f64 = 0.4;
/// The minimum to keep is at most this share of the threshold (policies 5.5).
pub const KEEP_MIN_FRACTION: f64 = 0.25;
/// One read may fill at most this share of the threshold (policies 5.1).
pub const READ_FRACTION: f64 = 0.25;
/// The tool results of one assistant message may fill at most this share of the threshold (policies 5.1).
pub const AGGREGATE_FRACTION: f64 = 0.35;
/// Session memory, and the user messages kept verbatim, may fill at most this share of the threshold (policies 5.1, 5.6).
pub const MEMORY_FRACTION: f64 = 0.15;
/// User messages kept verbatim by a compaction, in tokens, newest first (spec 8).
pub const USER_MESSAGES_TOKENS: u64 = 20_000;

/// A grep result above this many characters is persisted (plan M2).
pub const GREP_MAX_CHARS: u64 = 20_000;
/// A shell result above this many characters is persisted (plan M2).
pub const SHELL_MAX_CHARS: u64 = 30_000;
/// Any other result above this many characters is persisted (plan M2).
pub const DEFAULT_MAX_RESULT_CHARS: u64 = 50_000;
/// The results of one assistant message together, in characters (plan M2).
pub const AGGREGATE_MAX_CHARS: u64 = 200_000;
/// A preview's size, in characters (spec 3).
pub const PREVIEW_MAX_CHARS: usize = 4_000;
/// A preview's length, in lines (plan M2).
pub const PREVIEW_MAX_LINES: usize = 80;
/// Share of a preview of command output that shows the head; the rest shows the tail (policies 5.2).
pub const PREVIEW_HEAD_FRACTION: f64 = 0.2;
/// Error and warning lines a preview saves from the middle (spec 3).
pub const PREVIEW_ERROR_LINES: usize = 20;
/// A line longer than this many characters is cut in a preview (policies 5.2).
pub const PREVIEW_MAX_LINE_CHARS: usize = 2_000;
/// Persisting must save at least this many characters (policies 5.2).
pub const PERSIST_MIN_SAVED_CHARS: u64 = 500;
/// The aggregate rule never shrinks a result below this many characters (policies 5.2).
pub const AGGREGATE_FLOOR_CHARS: u64 = 2_000;
/// An artifact's size, in bytes (plan M1).
pub const MAX_ARTIFACT_BYTES: u64 = 64 * 1024 * 1024;

/// A pause of this many minutes clears old tool results (plan M7).
pub const MICROCOMPACT_GAP_MINUTES: u64 = 60;
/// … but the most recent ones stay (plan M7).
pub const MICROCOMPACT_KEEP_RECENT: usize = 5;
/// Clearing under pressure leaves the newest tokens alone (policies 5.4).
pub const PRESSURE_PROTECT_TOKENS: u64 = 40_000;
/// … and these many user turns (policies 5.4).
pub const PRESSURE_PROTECT_TURNS: usize = 2;
/// … and is done only for at least this gain, in tokens (policies 5.4).
pub const PRESSURE_MIN_GAIN_TOKENS: u64 = 20_000;
/// … which is at most this share of the threshold (policies 5.4).
pub const PRESSURE_MIN_GAIN_FRACTION: f64 = 0.2;
/// A result is worth clearing under pressure if it is longer than the placeholder by this many characters (policies 5.4).
pub const PRESSURE_MIN_RESULT_CHARS: u64 = 200;

/// A compaction that must shrink what it keeps goes through these sizes, in tokens per message part (policies 5.5).
pub const REDUCTION_STEPS_TOKENS: [u64; 4] = [8_000, 1_000, 250, 60];

/// Failures in a row that open the breaker (plan M4).
pub const MAX_CONSECUTIVE_FAILURES: u32 = 3;

/// Tokens an image block counts, whatever its size (spec 1; `policies.md` 5.1).
pub const IMAGE_TOKENS: u64 = 1_600;
/// Tokens a document (PDF) block counts when its size is not known (policies 5.1).
pub const DOCUMENT_TOKENS: u64 = 25_800;
/// Tokens every message costs beyond its text (spec 1).
pub const MESSAGE_OVERHEAD_TOKENS: u64 = 4;
/// Tokens every tool call costs beyond its name and arguments.
pub const TOOL_CALL_OVERHEAD_TOKENS: u64 = 4;

/// All whole numbers above, by name: what Python's defaults are read from.
pub fn integers() -> Vec<(&'static str, u64)> {
    vec![
        ("DEFAULT_TOKEN_LIMIT", DEFAULT_TOKEN_LIMIT),
        ("SUMMARY_RESERVED_TOKENS", SUMMARY_RESERVED_TOKENS),
        ("AUTOCOMPACT_BUFFER_TOKENS", AUTOCOMPACT_BUFFER_TOKENS),
        ("SMALL_WINDOW_TOKENS", SMALL_WINDOW_TOKENS),
        ("SMALL_WINDOW_MAX_THRESHOLD", SMALL_WINDOW_MAX_THRESHOLD),
        ("HARD_MARGIN_TOKENS", HARD_MARGIN_TOKENS),
        ("WARN_MARGIN_TOKENS", WARN_MARGIN_TOKENS),
        ("OUTPUT_ROOM_TOKENS", OUTPUT_ROOM_TOKENS),
        ("PRESERVE_MIN_TOKENS", PRESERVE_MIN_TOKENS),
        ("PRESERVE_MAX_TOKENS", PRESERVE_MAX_TOKENS),
        ("USER_MESSAGES_TOKENS", USER_MESSAGES_TOKENS),
        ("GREP_MAX_CHARS", GREP_MAX_CHARS),
        ("SHELL_MAX_CHARS", SHELL_MAX_CHARS),
        ("DEFAULT_MAX_RESULT_CHARS", DEFAULT_MAX_RESULT_CHARS),
        ("AGGREGATE_MAX_CHARS", AGGREGATE_MAX_CHARS),
        ("PREVIEW_MAX_CHARS", PREVIEW_MAX_CHARS as u64),
        ("PREVIEW_MAX_LINES", PREVIEW_MAX_LINES as u64),
        ("PREVIEW_ERROR_LINES", PREVIEW_ERROR_LINES as u64),
        ("PREVIEW_MAX_LINE_CHARS", PREVIEW_MAX_LINE_CHARS as u64),
        ("PERSIST_MIN_SAVED_CHARS", PERSIST_MIN_SAVED_CHARS),
        ("AGGREGATE_FLOOR_CHARS", AGGREGATE_FLOOR_CHARS),
        ("MAX_ARTIFACT_BYTES", MAX_ARTIFACT_BYTES),
        ("MICROCOMPACT_GAP_MINUTES", MICROCOMPACT_GAP_MINUTES),
        ("MICROCOMPACT_KEEP_RECENT", MICROCOMPACT_KEEP_RECENT as u64),
        ("PRESSURE_PROTECT_TOKENS", PRESSURE_PROTECT_TOKENS),
        ("PRESSURE_PROTECT_TURNS", PRESSURE_PROTECT_TURNS as u64),
        ("PRESSURE_MIN_GAIN_TOKENS", PRESSURE_MIN_GAIN_TOKENS),
        ("PRESSURE_MIN_RESULT_CHARS", PRESSURE_MIN_RESULT_CHARS),
        ("MAX_CONSECUTIVE_FAILURES", MAX_CONSECUTIVE_FAILURES as u64),
        ("IMAGE_TOKENS", IMAGE_TOKENS),
        ("DOCUMENT_TOKENS", DOCUMENT_TOKENS),
        ("MESSAGE_OVERHEAD_TOKENS", MESSAGE_OVERHEAD_TOKENS),
        ("TOOL_CALL_OVERHEAD_TOKENS", TOOL_CALL_OVERHEAD_TOKENS),
    ]
}

/// All shares above, by name.
pub fn fractions() -> Vec<(&'static str, f64)> {
    vec![
        ("SMALL_WINDOW_FRACTION", SMALL_WINDOW_FRACTION),
        ("WARN_MARGIN_FRACTION", WARN_MARGIN_FRACTION),
        ("OUTPUT_ROOM_FRACTION", OUTPUT_ROOM_FRACTION),
        ("FIXED_MAX_FRACTION", FIXED_MAX_FRACTION),
        ("TARGET_FRACTION", TARGET_FRACTION),
        ("KEEP_MAX_FRACTION", KEEP_MAX_FRACTION),
        ("KEEP_MIN_FRACTION", KEEP_MIN_FRACTION),
        ("READ_FRACTION", READ_FRACTION),
        ("AGGREGATE_FRACTION", AGGREGATE_FRACTION),
        ("MEMORY_FRACTION", MEMORY_FRACTION),
        ("PREVIEW_HEAD_FRACTION", PREVIEW_HEAD_FRACTION),
        ("PRESSURE_MIN_GAIN_FRACTION", PRESSURE_MIN_GAIN_FRACTION),
    ]
}
