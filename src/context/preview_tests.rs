use super::*;
use crate::text::terminal::clean;
use proptest::prelude::*;

fn of<'a>(tool: &'a str, text: &'a str) -> Source<'a> {
    Source {
        tool,
        text,
        original_chars: count_chars(text),
        artifact: Some("tool-results/c1.txt"),
        exit_code: None,
        note: None,
        max_chars: limits::PREVIEW_MAX_CHARS,
        max_lines: limits::PREVIEW_MAX_LINES,
    }
}

#[test]
fn a_search_tells_its_matches_and_where_they_are() {
    let text: String = (0..240)
        .map(|i| format!("src/k{}.c:{i}:  double_buffer({i});\n", i % 12))
        .collect();
    let shown = preview(&of("grep", &text));
    assert!(
        shown.starts_with("Found 240 matches in 12 files (240 lines, "),
        "{shown}"
    );
    assert!(
        shown.contains("src/k0.c:0:")
            && shown.contains("Matches per file:\n    20  src/k0.c")
            && shown.contains("more lines left out (")
    );
    assert!(
        shown.ends_with(", or grep in \"tool-results/c1.txt\"."),
        "{shown}"
    );
}

#[test]
fn a_command_shows_its_end_its_exit_code_and_the_errors_of_its_middle() {
    let mut text: String = (1..=2_000)
        .map(|i| format!("[{i}/4000] Compiling unit {i}\n"))
        .collect();
    text += "kernel.c:120:9: error: use of undeclared identifier 'buf'\n";
    text += &(2_002..=4_000)
        .map(|i| format!("[{i}/4000] Compiling unit {i}\n"))
        .collect::<String>();
    text += "make: *** [all] Error 2\n";
    let shown = preview(&of("shell", &text));
    assert!(
        shown.starts_with("Exit code 2. Output: 4,001 lines"),
        "{shown}"
    );
    assert!(
        shown.contains("  2001: kernel.c:120:9: error: use of undeclared identifier 'buf'"),
        "{shown}"
    );
    assert!(
        shown.contains("[1/4000]")
            && shown.contains("[4000/4000]")
            && shown.contains("make: *** [all] Error 2")
    );
    assert!(shown.lines().count() <= 80);
}

#[test]
fn one_giant_line_shows_both_ends_and_its_length() {
    let text = format!("BEGIN{}END", "abcdefghij".repeat(60_000));
    let shown = preview(&of("http_get", &text));
    assert!(
        shown.contains("BEGIN") && shown.contains("END") && shown.contains("characters…]"),
        "{shown}"
    );
    assert!(shown.contains("1 line, 600,008 characters"));
}

#[test]
fn bug_case_13_few_very_long_lines_are_cut_inside() {
    let text = [
        "x".repeat(18_900),
        "abcdefghij".repeat(2_000),
        "矩阵乘法".repeat(5_000),
        "A".repeat(20_000),
    ]
    .join("\n");
    let shown = preview(&Source {
        max_chars: 2_000,
        ..of("http_get", &text)
    });
    assert!(
        count_chars(&shown) <= 2_000 && shown.contains("矩阵乘法") | shown.contains("AAAA"),
        "{shown}"
    );
}

#[test]
fn bug_case_15_every_limit_cuts_between_characters() {
    let text = "编译失败：第 12 行 “缺少分号”\n──────────────\n👩‍👩‍👧‍👦 🇨🇳 👍🏽 é (e + U+0301: é) ﷽ 𠮷野家 ½\n│ 错误 │ 警告 │\nสวัสดี नमस्ते\n";
    for limit in 1..=200 {
        let shown = preview(&Source {
            max_chars: limit,
            ..of("shell", text)
        });
        assert!(
            count_chars(&shown) <= limit && !shown.contains('\u{fffd}') && text.starts_with(&shown),
            "{limit}: {shown:?}"
        );
    }
}

#[test]
fn bug_case_19_progress_bars_and_colours_are_gone() {
    let raw = format!(
        "\u{1b}[1m\u{1b}[92m   Compiling\u{1b}[0m kernel v0.1.0\r\n{}Receiving objects: 100% (500/500), done.\r\n{}\u{1b}[2K\u{1b}[1G\u{1b}[31merror\u{1b}[0m: linker command failed with exit code 1\n",
        "Receiving objects:  42% (210/500), 1.2 MiB | 900 KiB/s\r".repeat(4_000),
        "\u{1b}[2K\u{1b}[1G⠋ linking…".repeat(1_500),
    );
    let cleaned = clean(&raw);
    let shown = preview(&Source {
        original_chars: count_chars(&raw),
        ..of("shell", &cleaned)
    });
    assert!(!shown.contains('\u{1b}') && !shown.contains('\r'));
    assert_eq!(
        shown
            .matches("Receiving objects: 100% (500/500), done.")
            .count(),
        1,
        "{shown}"
    );
    assert!(shown.contains("error: linker command failed") && shown.len() * 100 < raw.len());
    assert!(shown.starts_with("Exit code 1."));
}

#[test]
fn a_text_that_fits_is_shown_whole_and_nothing_is_said_to_be_missing() {
    let shown = preview(&of("shell", "a\nb\n"));
    assert_eq!(shown, "Output: 2 lines, 4 characters.\na\nb");
}

#[test]
fn without_an_artifact_nobody_is_sent_to_one() {
    let text = "word\n".repeat(5_000);
    let shown = preview(&Source {
        artifact: None,
        ..of("http_get", &text)
    });
    assert!(shown.ends_with("The rest was not kept.") && !shown.contains("read_file"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_for_any_text_and_any_tool(
        parts in prop::collection::vec(("[a-z0-9:é矩👍 ./-]{0,80}", 1usize..60, any::<bool>()), 0..20),
        max_chars in 1usize..3_000,
        max_lines in 1usize..90,
        tool in prop::sample::select(vec!["grep", "shell", "http_get", ""]),
        exit_code in prop::option::of(any::<i64>()),
    ) {
        let text: String = parts.iter().map(|(t, n, end)| t.repeat(*n) + if *end { "\n" } else { "" }).collect();
        let shown = preview(&Source { max_chars, max_lines, exit_code, ..of(tool, &text) });
        prop_assert!(count_chars(&shown) <= max_chars);
        prop_assert!(count_lines(&shown) <= max_lines);
    }
}
