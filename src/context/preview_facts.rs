//! Facts about tool output that a preview tells: matches per file, the exit code, the lines that matter.
//!
//! Everything is found in one pass with a prefilter; what is not recognised is not guessed.

use crate::limits;
use aho_corasick::AhoCorasick;
use aho_corasick::packed::Searcher;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// How often a pattern was found in which file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// All matches; 0 if the text is not in a known form.
    pub total: usize,
    /// Files with a match.
    pub files: usize,
    /// The files with the most matches, largest first.
    pub largest: Vec<(String, usize)>,
}

/// Files that are counted one by one; the rest are only counted together.
const MAX_FILES: usize = 20_000;
/// Files that are named.
const NAMED: usize = 20;

/// Counts matches in the forms `path:line:text` (grep -n, rg --no-heading), headings with `line:text` below (rg), and headings
/// `File: path` with `L<line>: text` below (MT-Agent's grep).
pub fn matches_per_file(text: &str) -> Matches {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut heading: Option<&str> = None;
    let mut current: Option<(&str, usize)> = None;
    let (mut total, mut lines) = (0usize, 0usize);
    for line in text.lines().filter(|l| !l.is_empty()) {
        let file = match_file(line).or_else(|| heading.filter(|_| is_numbered(line)));
        let Some(file) = file else {
            lines = lines.saturating_add(usize::from(
                line != "--" && line != "---" && !is_context(line),
            ));
            let name = line.strip_prefix("File: ").unwrap_or(line);
            heading = (is_path(name) && !is_numbered(name)).then_some(name);
            continue;
        };
        total = total.saturating_add(1);
        current = Some(match current {
            Some((same, n)) if same == file => (same, n.saturating_add(1)),
            other => {
                add(&mut counts, other);
                (file, 1)
            }
        });
    }
    add(&mut counts, current);
    // More lines that are no matches than matches, beyond one heading a file: not the output of a search for text.
    if total == 0 || lines > total.saturating_add(counts.len().saturating_mul(2)) {
        return Matches::default();
    }
    let files = counts.len();
    let mut largest: Vec<(&str, usize)> = counts.into_iter().collect();
    largest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let largest = largest
        .into_iter()
        .take(NAMED)
        .map(|(file, n)| (file.to_owned(), n))
        .collect();
    Matches {
        total,
        files,
        largest,
    }
}

fn add<'a>(counts: &mut HashMap<&'a str, usize>, run: Option<(&'a str, usize)>) {
    if let Some((file, n)) = run
        && (counts.len() < MAX_FILES || counts.contains_key(file))
    {
        let count = counts.entry(file).or_default();
        *count = count.saturating_add(n);
    }
}

/// The file of a line `path:12:text`; a drive letter is part of the path.
fn match_file(line: &str) -> Option<&str> {
    let mut from = if line.as_bytes().get(1) == Some(&b':') {
        2
    } else {
        0
    };
    // A path may hold colons; the first one that a line number follows is ours.
    for _ in 0..4 {
        let colon = from + memchr::memchr(b':', line.as_bytes().get(from..)?)?;
        let rest = line.get(colon.saturating_add(1)..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && digits < 9 && rest.as_bytes().get(digits) == Some(&b':') {
            let path = line.get(..colon)?;
            return is_path(path).then_some(path);
        }
        from = colon.saturating_add(1);
    }
    None
}

/// A file's name rather than a time or a sentence: it has a letter, and blanks only beside a slash or a dot.
fn is_path(text: &str) -> bool {
    let blank = text.contains(char::is_whitespace);
    text.len() < 400
        && text.contains(char::is_alphabetic)
        && !text.contains(char::is_control)
        && (!blank || text.contains(['/', '\\', '.']))
}

/// `12:text` below a heading, or `L12: text`.
fn is_numbered(line: &str) -> bool {
    let line = line.strip_prefix('L').unwrap_or(line);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && digits < 9 && line.as_bytes().get(digits) == Some(&b':')
}

/// `path-12-text` or `12-text`: context around a match.
fn is_context(line: &str) -> bool {
    line.split('-')
        .skip(usize::from(!line.starts_with(|c: char| c.is_ascii_digit())))
        .take(3)
        .any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        && line.contains('-')
}

/// The exit code that the output itself tells, at its end or in its first lines.
pub fn exit_code(text: &str) -> Option<i64> {
    const WORDS: [&str; 9] = [
        "exited with code",
        "exited with exit code",
        "exit code",
        "exit status",
        "exit_code",
        "exited with",
        "return code",
        "returncode",
        "退出码",
    ];
    let first = crate::text::head(text, 600);
    let last = crate::text::tail(text, 2_000);
    // The last word on it counts; what stands at the beginning is a harness's header.
    let in_last = WORDS
        .iter()
        .filter_map(|w| last.rfind(w).map(|at| (at, *w)))
        .max();
    let found = in_last.map(|(at, w)| (last, at, w)).or_else(|| {
        WORDS
            .iter()
            .filter_map(|w| first.find(w).map(|at| (at, *w)))
            .min()
            .map(|(at, w)| (first, at, w))
    });
    if let Some((part, at, word)) = found {
        let rest = part.get(at.saturating_add(word.len())..)?;
        let rest = rest.trim_start_matches([':', '=', ' ', '：', '"', '\'', '(', '<', '>']);
        return number(rest);
    }
    // make: *** [Makefile:3: all] Error 2
    let at = last.rfind("] Error ")?;
    number(last.get(at.saturating_add("] Error ".len())..)?)
}

fn number(text: &str) -> Option<i64> {
    let sign = usize::from(text.starts_with('-'));
    let digits = text
        .bytes()
        .skip(sign)
        .take_while(u8::is_ascii_digit)
        .count();
    (digits > 0 && digits < 12)
        .then(|| text.get(..sign.saturating_add(digits)))
        .flatten()?
        .parse()
        .ok()
}

/// A line of the middle that a developer would want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Important<'a> {
    /// Its number in the whole text, from 1.
    pub number: usize,
    /// The line.
    pub text: &'a str,
    /// An error rather than a warning.
    pub is_error: bool,
}

/// Parts of words that a line of interest holds, in the spellings that occur: so the search needs no case folding and
/// runs in vectors.
const HINTS: [&str; 40] = [
    "rror",
    "RROR",
    "fail",
    "Fail",
    "FAIL",
    "warn",
    "Warn",
    "WARN",
    "panic",
    "Panic",
    "xception",
    "raceback",
    "ndefined",
    "fatal",
    "Fatal",
    "FATAL",
    "bort",
    "egmentation",
    "ssertion",
    "annot ",
    "ot found",
    "o such file",
    "enied",
    "illed",
    "verflow",
    "OVERFLOW",
    "ly lost",
    "ATA RACE",
    "ata race",
    "imed out",
    "nvalid read",
    "nvalid write",
    "eprecated",
    "E   ",
    "错误",
    "警告",
    "失败",
    "未定义",
    "异常",
    "找不到",
];

/// Where a hint begins. In vectors where the processor has them, else by automaton.
fn find_hint(bytes: &[u8]) -> Option<usize> {
    static VECTORS: OnceLock<Option<Searcher>> = OnceLock::new();
    static AUTOMATON: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    match VECTORS.get_or_init(|| Searcher::new(HINTS)) {
        Some(searcher) => searcher.find(bytes).map(|found| found.start()),
        None => {
            let automaton = AUTOMATON.get_or_init(|| AhoCorasick::new(HINTS).ok());
            automaton.as_ref()?.find(bytes).map(|found| found.start())
        }
    }
}

/// Error and warning lines of a text whose first line has the number `lines_before + 1`: errors first, no two alike, in order of their place.
pub fn important_lines(text: &str, lines_before: usize) -> Vec<Important<'_>> {
    let bytes = text.as_bytes();
    let mut errors: Vec<Important<'_>> = Vec::new();
    let mut warnings: Vec<Important<'_>> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let (mut at, mut counted_to, mut number) = (0usize, 0usize, lines_before.saturating_add(1));
    while let Some(found) = bytes.get(at..).and_then(find_hint) {
        let hit = at.saturating_add(found);
        let start = memchr::memrchr(b'\n', bytes.get(..hit).unwrap_or_default())
            .map_or(0, |i| i.saturating_add(1));
        let end = memchr::memchr(b'\n', bytes.get(hit..).unwrap_or_default())
            .map_or(bytes.len(), |i| hit.saturating_add(i));
        number = number.saturating_add(
            memchr::memchr_iter(b'\n', bytes.get(counted_to..start).unwrap_or_default()).count(),
        );
        counted_to = start;
        at = end.saturating_add(1);
        let Some(line) = text.get(start..end) else {
            continue;
        };
        let Some(is_error) = classify(line) else {
            continue;
        };
        let list = if is_error { &mut errors } else { &mut warnings };
        if list.len() < limits::PREVIEW_ERROR_LINES && seen.insert(shape(line)) {
            list.push(Important {
                number,
                text: line,
                is_error,
            });
        }
        if errors.len() >= limits::PREVIEW_ERROR_LINES {
            break;
        }
    }
    let room = limits::PREVIEW_ERROR_LINES.saturating_sub(errors.len());
    errors.extend(warnings.into_iter().take(room));
    errors.sort_unstable_by_key(|line| line.number);
    errors
}

/// Alike but for numbers: the same complaint about another place.
fn shape(line: &str) -> String {
    line.chars()
        .filter(|c| !c.is_ascii_digit())
        .take(160)
        .collect()
}

/// `Some(true)` for an error, `Some(false)` for a warning, `None` for a line that only mentions such a word.
fn classify(line: &str) -> Option<bool> {
    let line = line.trim();
    if line.is_empty() || line.len() > 4_000 {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    const NONE: [&str; 8] = [
        "0 error",
        "no error",
        "0 failed",
        "0 warning",
        "without error",
        "errors: 0",
        "failures: 0",
        "failed: 0",
    ];
    if NONE.iter().any(|n| lower.contains(n)) && !lower.contains("error:") {
        return None;
    }
    const ERRORS: [&str; 40] = [
        "error:",
        "error[",
        "error -",
        "error(",
        " error ",
        "errors:",
        "fatal",
        "failed",
        "failure",
        "fail:",
        "--- fail",
        "fail\t",
        "panicked at",
        "panic:",
        "traceback",
        "exception",
        "undefined reference",
        "undefined symbol",
        "segmentation fault",
        "assertion",
        "assert ",
        "abort",
        "cannot ",
        "not found",
        "no such file",
        "permission denied",
        "killed",
        "overflow",
        "definitely lost",
        "data race",
        "timed out",
        "invalid read",
        "invalid write",
        "错误",
        "失败",
        "未定义",
        "异常",
        "找不到",
        "error c",
        "error lnk",
    ];
    const WARNINGS: [&str; 5] = ["warning:", "warning[", "warn", "警告", "deprecated"];
    let begins = ["error", "fail", "e   ", "panic", "fatal"]
        .iter()
        .any(|w| lower.starts_with(w));
    let warns = WARNINGS.iter().any(|w| lower.contains(w));
    let errs = begins || ERRORS.iter().any(|w| lower.contains(w));
    match (errs, warns) {
        (_, true) if lower.contains("warning:") || lower.contains("警告") => Some(false),
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_counted_in_every_form_of_a_search() {
        let plain = "src/a.c:12:int x;\nsrc/a.c-13-context\n--\nsrc/b.c:1:int x;\nsrc/b.c:2:x\nC:\\k.c:9:x\n";
        let found = matches_per_file(plain);
        assert_eq!((found.total, found.files), (4, 3));
        assert_eq!(found.largest[0], ("src/b.c".to_owned(), 2));
        let heading = "src/a.c\n12:int x;\n15:int y;\n\nsrc/b.c\n3:z\n";
        assert_eq!(
            (
                matches_per_file(heading).total,
                matches_per_file(heading).files
            ),
            (3, 2)
        );
        let host = "Found 3 matches:\n---\nFile: a.py\nL1: x\nL2: y\n---\nFile: b.py\nL7: z\n";
        assert_eq!(
            (matches_per_file(host).total, matches_per_file(host).files),
            (3, 2)
        );
        for other in [
            "a\nb\nc\n",
            "total 12\ndrwxr-xr-x 2 root root 4096 Dec  1 12:21 src\n",
            "",
            "12:30:01 start\n12:30:02 end\n",
        ] {
            assert_eq!(matches_per_file(other).total, 0, "{other}");
        }
    }

    #[test]
    fn the_exit_code_is_read_and_never_guessed() {
        for (text, code) in [
            ("x\nProcess exited with code 0\nOutput:\n…", Some(0)),
            ("…\nExit code: 137\n".to_lowercase().as_str(), Some(137)),
            ("make: *** [Makefile:3: all] Error 2\n", Some(2)),
            ("process exited with exit status: 101", Some(101)),
            ("the exit code matters", None),
            ("nothing", None),
        ] {
            assert_eq!(exit_code(text), code, "{text}");
        }
    }

    #[test]
    fn errors_go_before_warnings_and_repetitions_are_shown_once() {
        let mut text = String::new();
        for i in 0..100 {
            text += &format!("a.c:{i}: warning: unused variable\nCompiling errors.rs\n");
        }
        text += "b.c:7: error: no member named 'x'\nb.c:9: error: no member named 'x'\n编译失败\n0 errors, 0 failed\n";
        let found = important_lines(&text, 10);
        assert_eq!(
            found
                .iter()
                .map(|l| (l.number, l.is_error))
                .collect::<Vec<_>>(),
            [(11, false), (211, true), (213, true)]
        );
    }
}
