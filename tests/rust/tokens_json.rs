//! Counting by a `tokenizer.json` (cargo feature `tokenizer-json`). The expected counts are those of Python's `tokenizers`
//! 0.23.3 on the same file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mt_context::tokens::TokenCounter;

/// A byte-level BPE with four merges and one added token, in the form Hugging Face writes.
fn tokenizer_json() -> String {
    // Byte-level BPE writes the bytes 33 to 126 as themselves and a space as U+0120.
    let mut tokens: Vec<String> = (33..=126_u8).map(|b| char::from(b).to_string()).collect();
    tokens.push("\u{120}".into());
    let merges = [
        ("h", "e"),
        ("l", "l"),
        ("he", "ll"),
        ("hell", "o"),
        ("\u{120}", "w"),
    ];
    tokens.extend(merges.map(|(a, b)| format!("{a}{b}")));
    let vocab: Vec<String> = tokens
        .iter()
        .enumerate()
        .map(|(id, t)| format!("{}:{id}", serde_json::to_string(t).unwrap()))
        .collect();
    let merges: Vec<String> = merges.map(|(a, b)| format!("[\"{a}\",\"{b}\"]")).to_vec();
    format!(
        r#"{{"version":"1.0","truncation":{{"direction":"Right","max_length":4,"strategy":"LongestFirst","stride":0}},
        "padding":null,"added_tokens":[{{"id":999,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,
        "normalized":false,"special":true}}],"normalizer":null,"pre_tokenizer":{{"type":"Sequence","pretokenizers":[
        {{"type":"Split","pattern":{{"Regex":"\\p{{N}}{{1,3}}| ?\\p{{L}}+|\\s+(?!\\S)|\\s+|[^\\s\\p{{L}}\\p{{N}}]+"}},
        "behavior":"Isolated","invert":false}},
        {{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}}]}},
        "post_processor":null,"decoder":null,"model":{{"type":"BPE","dropout":null,"unk_token":null,
        "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
        "vocab":{{{}}},"merges":[{}]}}}}"#,
        vocab.join(","),
        merges.join(",")
    )
}

#[test]
fn a_tokenizer_json_counts_as_pythons_tokenizers_does() {
    let json = tokenizer_json();
    if let Some(path) = std::env::var_os("TOKENS_JSON_OUT") {
        #[expect(clippy::disallowed_methods, reason = "to compare with Python by hand")]
        std::fs::write(path, &json).unwrap();
    }
    let counter = TokenCounter::from_tokenizer_json(json.as_bytes()).unwrap();
    assert_eq!(
        (counter.name(), counter.is_exact()),
        ("tokenizer.json", true)
    );
    for (text, tokens) in [
        ("", 0),
        ("hello", 1),
        ("hello world", 6),
        ("help 12345", 9),
        ("x  <end>y", 5),
    ] {
        assert_eq!(counter.count(text), tokens, "{text:?}");
    }
    assert_eq!(counter.count_many(&["hello", "hello world"]), [1, 6]);
}

#[test]
fn what_is_no_tokenizer_json_is_refused_with_the_way_out() {
    for bytes in [&b""[..], b"{}", b"\xFF\xFE", b"[1,2]"] {
        let error = TokenCounter::from_tokenizer_json(bytes)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("tokenizer.json: ") && error.contains("weights"),
            "{error}"
        );
    }
}
