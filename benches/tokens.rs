//! Throughput of exact counting, in MB/s and as a ratio to tiktoken-rs, per kind of text (`performance.md` 1.1 and 1.3).
//!
//! `cargo bench --bench tokens` runs everything (about two minutes); further arguments select kinds by a part of their
//! name, and `TOKENS_TEXTS` names a folder whose files are counted instead. "first" is the first pass over a text after
//! other texts, "warm" the best of the following ones: only "first" speaks about new text.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "a benchmark reads files, prints and may fail"
)]

use mt_context::tokens::encoding::Encoding;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A fixed sequence of numbers, so that every run counts the same texts.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % n
    }
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u32) as usize]
    }
}

const SIZE: usize = 1_000_000;

fn until_full(mut line: impl FnMut(&mut String)) -> String {
    let mut text = String::with_capacity(SIZE + 1000);
    while text.len() < SIZE {
        line(&mut text);
    }
    text
}

/// The files with one of the endings below `folder`, in order of their names, up to [`SIZE`] bytes.
fn gather(folders: &[PathBuf], endings: &[&str]) -> Option<String> {
    fn walk(path: &Path, endings: &[&str], text: &mut String) {
        if text.len() >= SIZE {
            return;
        }
        if path.is_dir() {
            let Ok(entries) = std::fs::read_dir(path) else {
                return;
            };
            let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
            paths.sort();
            paths.iter().for_each(|p| walk(p, endings, text));
        } else if path
            .to_str()
            .is_some_and(|p| endings.iter().any(|e| p.ends_with(e)))
            && let Ok(file) = std::fs::read_to_string(path)
        {
            let mut end = file.len().min(60_000);
            while !file.is_char_boundary(end) {
                end -= 1;
            }
            text.push_str(&file[..end]);
        }
    }
    let mut text = String::new();
    folders.iter().for_each(|f| walk(f, endings, &mut text));
    (text.len() > SIZE / 4).then_some(text)
}

fn texts() -> Vec<(String, String)> {
    if let Some(folder) = std::env::var_os("TOKENS_TEXTS") {
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .collect();
        paths.sort();
        return paths
            .iter()
            .map(|p| {
                let name = p.file_stem().unwrap().to_string_lossy().into_owned();
                (
                    name,
                    String::from_utf8_lossy(&std::fs::read(p).unwrap()).into_owned(),
                )
            })
            .collect();
    }
    let mut r = Random(1);
    let words = [
        "error", "the", "cache", "of", "request", "timeout", "value", "is", "not", "loaded",
        "node", "and", "retry",
    ];
    let home = PathBuf::from(std::env::var_os("CARGO_HOME").unwrap_or_else(|| {
        let mut home = std::env::var_os("HOME").unwrap_or_default();
        home.push("/.cargo");
        home
    }));
    let registry = vec![home.join("registry/src")];
    let python = vec![
        PathBuf::from("/usr/lib/python3"),
        PathBuf::from("/usr/lib/python3.11"),
        PathBuf::from("/root/.pyenv/versions"),
    ];
    let include = vec![PathBuf::from("/usr/include"), PathBuf::from("/usr/src")];
    let mut texts: Vec<(&str, Option<String>)> = vec![
        ("rs_src", gather(&registry, &[".rs"])),
        ("md_docs", gather(&registry, &[".md"])),
        ("py_src", gather(&python, &[".py"])),
        ("c_src", gather(&include, &[".h"])),
    ];
    let han: Vec<char> = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从".chars().collect();
    texts.push((
        "zh_prose",
        Some(until_full(|t| {
            for _ in 0..8 + r.below(24) {
                let (a, b) = (r.below(han.len() as u32), r.below(han.len() as u32));
                t.push(han[a.min(b) as usize]);
            }
            t.push(if r.below(3) == 0 { '。' } else { '，' });
        })),
    ));
    texts.push((
        "zh_mixed",
        Some(until_full(|t| {
            for _ in 0..4 + r.below(10) {
                t.push(han[r.below(han.len() as u32) as usize]);
            }
            t.push_str(&format!(" `{}_{}` ", r.pick(&words), r.pick(&words)));
            t.push_str(if r.below(4) == 0 { "。\n" } else { "，" });
        })),
    ));
    texts.push((
        "svc_log",
        Some(until_full(|t| {
            t.push_str(&format!(
                "2026-11-{:02}T{:02}:{:02}:{:02}.{:03}Z {} [worker-{}] {} {} id={:08x} took {}ms\n",
                1 + r.below(28),
                r.below(24),
                r.below(60),
                r.below(60),
                r.below(1000),
                r.pick(&["INFO ", "WARN ", "ERROR"]),
                r.below(16),
                r.pick(&words),
                r.pick(&words),
                r.below(u32::MAX),
                r.below(5000)
            ));
        })),
    ));
    texts.push((
        "csv_num",
        Some(until_full(|t| {
            t.push_str(&format!(
                "{},{}.{:04},{}.{:02},-{}\n",
                r.below(100_000),
                r.below(100),
                r.below(10_000),
                r.below(1000),
                r.below(100),
                r.below(500)
            ));
        })),
    ));
    texts.push((
        "json_compact",
        Some(until_full(|t| {
            t.push_str(&format!(
                "{{\"id\":{},\"name\":\"{}_{}\",\"ok\":{},\"tags\":[\"{}\",\"{}\"],\"t\":{}.{}}},",
                r.below(100_000),
                r.pick(&words),
                r.pick(&words),
                r.below(2) == 0,
                r.pick(&words),
                r.pick(&words),
                r.below(100),
                r.below(1000)
            ));
        })),
    ));
    texts.push(("json_pretty", Some(until_full(|t| {
        t.push_str(&format!("    {{\n      \"id\": {},\n      \"name\": \"{} {}\",\n      \"value\": null\n    }},\n", r.below(100_000), r.pick(&words), r.pick(&words)));
    }))));
    texts.push((
        "grep",
        Some(until_full(|t| {
            t.push_str(&format!(
                "src/{}/{}_{}.rs:{}:    let {} = {}({}, {});\n",
                r.pick(&words),
                r.pick(&words),
                r.pick(&words),
                r.below(900),
                r.pick(&words),
                r.pick(&words),
                r.pick(&words),
                r.below(99)
            ));
        })),
    ));
    texts.push((
        "ls_find",
        Some(until_full(|t| {
            t.push_str(&format!(
                "-rw-r--r-- 1 root root {:>8} Nov {:>2} {:02}:{:02} {}-{}.{}\n",
                r.below(9_999_999),
                1 + r.below(30),
                r.below(24),
                r.below(60),
                r.pick(&words),
                r.below(999),
                r.pick(&["rs", "py", "log", "o"])
            ));
        })),
    ));
    texts.push((
        "hexdump",
        Some(until_full(|t| {
            t.push_str(&format!("{:08x}: ", t.len()));
            for _ in 0..8 {
                t.push_str(&format!("{:04x} ", r.below(65_536)));
            }
            t.push_str(" ..k.@.....:w...\n");
        })),
    ));
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut letters = |wrap: bool| {
        let mut line = 0;
        until_full(|t| {
            t.push(char::from(base64[r.below(64) as usize]));
            line += 1;
            if wrap && line % 76 == 0 {
                t.push('\n');
            }
        })
    };
    texts.push(("base64", Some(letters(true))));
    texts.push(("! base64 one line", Some(letters(false))));
    let punct = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    texts.push(("! spaces", Some(" ".repeat(SIZE))));
    texts.push(("! 'a'", Some("a".repeat(SIZE))));
    texts.push(("! newlines", Some("\n".repeat(SIZE))));
    texts.push((
        "! punctuation",
        Some(until_full(|t| {
            t.push(char::from(punct[r.below(32) as usize]))
        })),
    ));
    texts.push((
        "! letters",
        Some(until_full(|t| t.push(char::from(b'a' + r.below(26) as u8)))),
    ));
    texts.push((
        "! one Han paragraph",
        Some(until_full(|t| {
            t.push(han[r.below(han.len() as u32) as usize])
        })),
    ));
    texts.push((
        "! random Han",
        Some(until_full(|t| {
            t.push(char::from_u32(0x4E00 + r.below(20_900)).unwrap())
        })),
    ));
    texts.push((
        "! emoji",
        Some(until_full(|t| {
            t.push(char::from_u32(0x1F600 + r.below(64)).unwrap())
        })),
    ));
    texts.push((
        "! random Unicode",
        Some(until_full(|t| t.extend(char::from_u32(r.below(0x1_1000))))),
    ));
    texts.push((
        "! hex one line",
        Some(until_full(|t| {
            t.push_str(&format!("{:08x}", r.below(u32::MAX)))
        })),
    ));
    texts.push((
        "! ANSI colours",
        Some(until_full(|t| {
            t.push_str(&format!(
                "\x1b[{};{}m{}\x1b[0m ",
                r.below(2),
                30 + r.below(8),
                r.pick(&words)
            ))
        })),
    ));
    texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), text?)))
        .collect()
}

fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
}

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let texts = texts();
    for (encoding, reference) in [
        (Encoding::O200kBase, tiktoken_rs::o200k_base_singleton()),
        (Encoding::Cl100kBase, tiktoken_rs::cl100k_base_singleton()),
    ] {
        let load = Instant::now();
        encoding.count("x").unwrap();
        println!(
            "\n{}: loaded in {:.1} ms",
            encoding.name(),
            load.elapsed().as_secs_f64() * 1e3
        );
        println!(
            "{:<22}{:>8}{:>10}{:>10}{:>14}{:>8}",
            "MB/s", "tokens", "first", "warm", "tiktoken-rs", "x"
        );
        let mut logs = (0.0, 0.0, 0);
        for (name, text) in &texts {
            if !chosen.is_empty() && !chosen.iter().any(|c| name.contains(c.as_str())) {
                continue;
            }
            let mut tokens = 0;
            let first = speed(text.len(), || {
                tokens = encoding.count(black_box(text)).unwrap()
            });
            let warm = (0..3)
                .map(|_| {
                    speed(text.len(), || {
                        drop(black_box(encoding.count(black_box(text))))
                    })
                })
                .fold(0.0, f64::max);
            let theirs = if name == "! spaces" {
                f64::NAN // tiktoken-rs panics
            } else {
                let mut count = 0;
                let speed = speed(text.len(), || {
                    count = reference.count_ordinary(black_box(text))
                });
                assert_eq!(tokens, count as u64, "{name}");
                speed
            };
            println!(
                "{name:<22}{tokens:>8}{first:>10.1}{warm:>10.1}{theirs:>14.1}{:>8.1}",
                first / theirs
            );
            if !name.starts_with('!') {
                logs = (
                    logs.0 + (first / theirs).ln(),
                    logs.1 + first.ln(),
                    logs.2 + 1,
                );
            }
        }
        let n = f64::from(logs.2);
        println!(
            "geometric mean: {:.1} MB/s, {:.1} x tiktoken-rs",
            (logs.1 / n).exp(),
            (logs.0 / n).exp()
        );
    }
}
