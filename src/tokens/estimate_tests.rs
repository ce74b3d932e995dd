use super::*;
use crate::tokens::Encoding;

fn estimate(text: &str) -> u64 {
    tokens(milli_tokens(text))
}

/// Bug case 18: Chinese text undercounted.
#[test]
fn chinese_is_not_undercounted_and_english_and_code_stay_near_a_quarter() {
    let zh = "请把双缓冲矩阵乘法内核移植到数字信号处理器上，并说明每一步的访存开销。".repeat(300);
    let en = "Please port the double-buffered matrix kernel and explain the cost of each memory access. ".repeat(150);
    let code = "for (int i = 0; i < n; ++i) y[i] = alpha * x[i] + y[i];\n".repeat(200);
    let chars = |text: &str| text.chars().count() as f64;
    let ratio = estimate(&zh) as f64 / chars(&zh);
    assert!((0.55..=1.5).contains(&ratio), "{ratio}");
    assert!((estimate(&en) as f64 - chars(&en) / 4.0).abs() <= chars(&en) / 12.0);
    // Code of short names and many signs has more tokens than a quarter of its characters; the vocabulary's own count says
    // how many.
    let exact = Encoding::O200kBase.count(&code).unwrap() as f64;
    assert!(
        (estimate(&code) as f64 - exact).abs() <= exact / 8.0,
        "{} {exact}",
        estimate(&code)
    );
    for (a, b) in [(&zh, &en), (&en, &zh), (&zh, &code), (&code, &en)] {
        let parts = estimate(a) + estimate(b);
        let whole = estimate(&format!("{a}{b}"));
        assert!(
            whole.abs_diff(parts) as f64 <= 0.05 * parts as f64 + 8.0,
            "{whole} {parts}"
        );
    }
}

#[test]
fn degenerate_texts_are_estimated_within_a_third() {
    for text in [
        " ".repeat(300_000),
        "\n".repeat(300_000),
        "=".repeat(300_000),
        "a".repeat(300_000),
        "0".repeat(300_000),
    ] {
        let exact = Encoding::O200kBase.count(&text).unwrap() as f64;
        let estimated = estimate(&text) as f64;
        let head: String = text.chars().take(4).collect();
        assert!(
            (estimated / exact - 1.0).abs() < 0.34,
            "{head:?}: {estimated} for {exact}"
        );
    }
}

#[test]
fn every_class_lies_in_the_table_and_no_piece_is_free() {
    let all: String = (0..0x3000)
        .chain(0x4E00..0x4F00)
        .chain(0x1F600..0x1F640)
        .filter_map(char::from_u32)
        .collect();
    each_piece(&all, |class, at, end| {
        assert!(class < CLASSES && bucket(end - at) < BUCKETS);
    });
    assert_eq!(
        (TOKENS.len(), SLOPES.len()),
        (CLASSES, CLASSES),
        "run scripts/fit_estimator.py"
    );
    assert!(TOKENS.as_flattened().iter().all(|&t| t >= 1_000));
    assert_eq!(
        (estimate(""), estimate("a"), estimate("hello world")),
        (0, 1, 2)
    );
}
