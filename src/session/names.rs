//! Names from ids that come from a model or a host (reliability 2.3, R4).
//!
//! - I1 a well-formed id is its own name; any other becomes `h-` and 32 hex digits of its SHA-256;
//! - I2 no two ids have the same name, and no name leads out of its directory or is special to any system.

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};

/// Longest id that is kept as it is, in bytes.
pub const MAX_ID: usize = 100;

/// A file name for an id of any length and alphabet, as bytes (lone surrogates are WTF-8).
pub fn safe_name(id: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(id)
        && is_plain(text)
        && !is_device(text)
        && !text.starts_with("h-")
    {
        return text.to_owned();
    }
    let digest = Sha256::digest(id);
    let mut name = String::from("h-");
    for byte in digest.iter().take(16) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

fn is_plain(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Names that Windows gives to devices, whatever their case.
fn is_device(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let numbered = |prefix: &str| {
        upper
            .strip_prefix(prefix)
            .is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(
        upper.as_str(),
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN" | "CONOUT"
    ) || numbered("COM")
        || numbered("LPT")
}

/// Folder and name of one of our artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// `tool-results` or `session-memory`.
    pub folder: &'static str,
    /// The file's name.
    pub name: String,
}

/// The folder of full tool results (plan M1).
pub const TOOL_RESULTS: &str = "tool-results";
/// The folder of the session memory (plan M1).
pub const SESSION_MEMORY: &str = "session-memory";
/// The session memory's file (plan M6).
pub const SUMMARY: &str = "summary.md";

/// Reads a relative artifact path: `tool-results/<name>.<suffix>` or `session-memory/summary.md`, and nothing else.
///
/// # Errors
/// [`Error::InvalidArgument`] that says what is accepted.
pub fn parse_relative(path: &str) -> Result<Relative> {
    if path == "session-memory/summary.md" {
        return Ok(Relative {
            folder: SESSION_MEMORY,
            name: SUMMARY.to_owned(),
        });
    }
    let name = path
        .strip_prefix("tool-results/")
        .filter(|name| is_artifact_name(name));
    name.map(|name| Relative { folder: TOOL_RESULTS, name: name.to_owned() }).ok_or_else(|| Error::InvalidArgument {
        what: "path",
        problem: "not the path of an artifact".to_owned(),
        way_out: "Artifacts are named tool-results/<name>.txt or session-memory/summary.md, as the preview tells".to_owned(),
    })
}

/// `<safe name>[.<repetition>].<suffix>`
fn is_artifact_name(name: &str) -> bool {
    let mut parts = name.split('.');
    let stem = parts.next().unwrap_or("");
    let rest: Vec<&str> = parts.collect();
    let suffix_ok = |s: &&str| {
        (1..=8).contains(&s.len())
            && s.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    is_plain(stem)
        && !is_device(stem)
        && (1..=2).contains(&rest.len())
        && rest.iter().all(suffix_ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn well_formed_ids_are_kept_and_all_others_hashed() {
        for kept in ["call_1", "a", "A-b_9", &"x".repeat(100)] {
            assert_eq!(safe_name(kept.as_bytes()), kept);
        }
        for hashed in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../../x",
            "a.b",
            "CON",
            "lpt1",
            "h-1",
            "矩",
            "a\0b",
            &"x".repeat(101),
            "a/b",
            "C:\\x",
        ] {
            let name = safe_name(hashed.as_bytes());
            assert!(name.starts_with("h-") && name.len() == 34, "{hashed}");
        }
        assert_ne!(safe_name(b"\xed\xa0\x80"), safe_name(b"\xed\xa0\x81"));
    }

    #[test]
    fn only_our_own_paths_are_read() {
        for good in [
            "tool-results/call_1.txt",
            "tool-results/call_1.2.txt",
            "tool-results/h-00.bin",
            "session-memory/summary.md",
        ] {
            assert!(parse_relative(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "tool-results/../x.txt",
            "tool-results/.txt",
            "tool-results/a/b.txt",
            "tool-results/a",
            "tool-results/a\0.txt",
            "tool-results\\a.txt",
            "session-memory/x.md",
            "tool-results/CON.txt",
            "tool-results/a.TXT",
            "C:tool-results/a.txt",
            "tool-results/a.b.c.txt",
        ] {
            assert!(parse_relative(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn names_are_safe_and_different_for_different_ids(a in prop::collection::vec(any::<u8>(), 0..150), b in "[ -~]{0,130}") {
            let (x, y) = (safe_name(&a), safe_name(b.as_bytes()));
            prop_assert!(is_plain(&x) && is_plain(&y) && !is_device(&y));
            prop_assert!(a == b.as_bytes() || x != y);
            let path = format!("tool-results/{y}.txt");
            prop_assert!(parse_relative(&path).is_ok());
        }
    }
}
