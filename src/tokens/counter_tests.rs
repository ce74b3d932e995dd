use super::*;
use crate::tokens::encoding_names;

#[test]
fn a_counter_says_what_it_is_and_whether_it_is_exact() {
    let exact = TokenCounter::for_model("openrouter/openai/gpt-4o");
    assert_eq!(
        (exact.name(), exact.is_exact(), exact.count("hello world")),
        ("o200k_base", true, 2)
    );
    let claude = TokenCounter::for_model("claude-sonnet-4-5");
    assert_eq!(
        (
            claude.name(),
            claude.is_exact(),
            claude.count("hello world")
        ),
        ("o200k_base*1.21", false, 3)
    );
    let unknown = TokenCounter::for_model("my-own-model");
    assert_eq!((unknown.name(), unknown.is_exact()), ("estimate", false));
    for name in encoding_names() {
        assert_eq!(TokenCounter::for_encoding(name).unwrap().name(), name);
    }
    assert_eq!(
        TokenCounter::for_encoding("o200k_harmony").unwrap().name(),
        "o200k_base"
    );
    let error = TokenCounter::for_encoding("o300k").unwrap_err().to_string();
    assert!(
        error.contains("o300k") && error.contains("cl100k_base"),
        "{error}"
    );
}

#[test]
fn special_tokens_in_a_text_are_ordinary_text() {
    assert!(
        TokenCounter::for_encoding("o200k_base")
            .unwrap()
            .count("<|endoftext|>")
            > 5
    );
    assert!(
        TokenCounter::for_encoding("qwen2")
            .unwrap()
            .count("<|im_end|>")
            > 3
    );
}

#[test]
fn invalid_bytes_and_lone_surrogates_count_as_the_replacement_character() {
    for (bytes, text) in [
        (&b"ab"[..], "ab"),
        (b"a\xFFb\xC3", "a\u{FFFD}b\u{FFFD}"),
        (b"\xED\xA0\x80x\xED\xB0\x80", "\u{FFFD}x\u{FFFD}"),
        (b"\xED\xB0\x80\xED\xA0\x80", "\u{FFFD}\u{FFFD}"),
        (b"\xED\xA0\xBD\xED\xB8\x80!", "😀!"),
        (b"\xE4\xB8", "\u{FFFD}"),
        (b"\xED\xA0", "\u{FFFD}\u{FFFD}"),
        (b"", ""),
    ] {
        assert_eq!(decode_lossy(bytes), text, "{bytes:x?}");
    }
    let counter = TokenCounter::for_encoding("o200k_base").unwrap();
    assert_eq!(
        counter.count_bytes_lossy(b"a \xED\xA0\x80 b"),
        counter.count("a \u{FFFD} b")
    );
}

#[test]
fn many_threads_count_what_one_thread_counts() {
    let line = "fn main() { println!(\"你好, world {}\", 1 + 2); }\n/// docs\n\n  indented\r\n";
    let long = line.repeat(30_000);
    let unbroken = "x y ".repeat(300_000);
    for counter in [
        "o200k_base",
        "cl100k_base",
        "deepseek_v3",
        "kimi_k2",
        "p50k_base",
    ]
    .map(TokenCounter::for_encoding)
    {
        let counter = counter.unwrap();
        assert_eq!(
            counter.count(&long),
            counter.count_here(&long),
            "{}",
            counter.name()
        );
        let texts = ["", "a", &long, &unbroken, "b"];
        let one_by_one = texts.map(|t| counter.count_here(t));
        assert_eq!(counter.count_many(&texts), one_by_one, "{}", counter.name());
    }
}

#[test]
fn a_long_text_is_cut_only_where_no_piece_crosses() {
    let text = "a\n/b\n c\n\nd\n".repeat(100_000);
    let parts = parallel::cut(&text, 4);
    assert!(parts.len() > 2);
    assert_eq!(parts.concat(), text);
    for part in parts.iter().skip(1) {
        assert!(part.starts_with(|c: char| c.is_ascii_graphic() && c != '/'));
    }
    assert_eq!(parallel::safe_cut(b"a\n/b\n\n c", 0), None);
    assert_eq!(parallel::safe_cut(b"a\nb", 2), Some(2));
}

#[cfg(feature = "reference")]
#[test]
fn the_reference_engine_counts_the_same_and_its_panic_does_not_get_out() {
    let reference = TokenCounter::for_encoding("reference:o200k_base").unwrap();
    assert!(reference.is_exact());
    assert_eq!(
        reference.count("Hello, wörld! 你好"),
        TokenCounter::for_encoding("o200k_base")
            .unwrap()
            .count("Hello, wörld! 你好")
    );
    let spaces = " ".repeat(1_000_000);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let engine = reference::Engine::by_name("o200k_base")
        .unwrap()
        .count(&spaces);
    std::panic::set_hook(hook);
    assert!(engine.is_err());
    assert!(TokenCounter::for_encoding("reference:qwen2").is_err());
}

#[cfg(not(feature = "reference"))]
#[test]
fn the_reference_engine_is_refused_where_it_is_not_built() {
    let error = TokenCounter::for_encoding("reference:o200k_base")
        .unwrap_err()
        .to_string();
    assert!(error.contains("cargo feature `reference`"), "{error}");
}
