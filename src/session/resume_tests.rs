use super::super::disk::{Dir, Open, RealDir};
use super::*;

#[expect(clippy::disallowed_methods, reason = "a test writes its input")]
fn of(name: &str, lines: &[&str], accept_memory: bool) -> Resume {
    let path =
        std::env::temp_dir().join(format!("mt_context-{}-resume-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let dir = RealDir::open(&path).unwrap();
    std::fs::write(path.join("s.jsonl"), lines.join("\n") + "\n").unwrap();
    resume(&*dir.open("s.jsonl", Open::Read).unwrap(), accept_memory).unwrap()
}

fn message(role: &str, id: &str) -> String {
    format!(r#"{{"type":"transcript_message","role":"{role}","id":"{id}","content":"{id}"}}"#)
}

fn ids(resume: &Resume) -> Vec<&str> {
    resume.messages.iter().map(|m| text(m, "id")).collect()
}

#[test]
fn a_compaction_is_resumed_with_its_summary_its_kept_tail_and_everything_later() {
    let m: Vec<String> = ["u1", "u2", "u3", "u4", "u5"]
        .iter()
        .map(|id| message("user", id))
        .collect();
    let boundary = r#"{"type":"compact_boundary","reason":"auto","summary":"S","kept_from_id":"u3","pinned":[{"id":"u1","content":"x"},{"id":"u4"}]}"#;
    let found = of(
        "ours",
        &[&m[0], &m[1], &m[2], &m[3], boundary, &m[4]],
        false,
    );
    assert_eq!(ids(&found), ["u3", "u4", "u5"]);
    let boundary = found.boundary.unwrap();
    assert_eq!((boundary.summary.as_str(), boundary.pinned.len()), ("S", 1));
}

#[test]
fn a_boundary_without_its_summary_does_not_count() {
    let (a, b, c) = (
        message("user", "a"),
        message("user", "b"),
        message("user", "c"),
    );
    let found = of(
        "incomplete",
        &[
            &a,
            r#"{"type":"compact_boundary","summary":"first"}"#,
            &b,
            r#"{"type":"compact_boundary"}"#,
            &c,
        ],
        false,
    );
    assert_eq!(
        (
            ids(&found),
            found.boundary.as_ref().unwrap().summary.as_str()
        ),
        (vec!["b", "c"], "first")
    );
}

#[test]
fn the_host_s_forms_are_read() {
    let (a, b) = (message("user", "a"), message("user", "b"));
    let summary = r#"{"type":"transcript_message","role":"system","name":"compact_summary","content":"theirs"}"#;
    let found = of(
        "host",
        &[
            &a,
            r#"{"type":"compact_boundary","reason":"manual"}"#,
            summary,
            &b,
        ],
        false,
    );
    assert_eq!(
        (
            ids(&found),
            found.boundary.as_ref().unwrap().summary.as_str()
        ),
        (vec!["b"], "theirs")
    );
    let found = of(
        "old",
        &[&a, r#"{"type":"compression","summary":"oldest"}"#, &b],
        false,
    );
    assert_eq!(
        (
            ids(&found),
            found.boundary.as_ref().unwrap().summary.as_str()
        ),
        (vec!["b"], "oldest")
    );
}

#[test]
fn a_boundary_of_the_session_memory_counts_where_the_memory_is_there() {
    let (a, b) = (message("user", "a"), message("user", "b"));
    let boundary = r#"{"type":"compact_boundary","reason":"session_memory"}"#;
    assert_eq!(ids(&of("memory", &[&a, boundary, &b], true)), ["b"]);
    assert_eq!(
        ids(&of("no-memory", &[&a, boundary, &b], false)),
        ["a", "b"]
    );
}

#[test]
fn a_text_is_never_a_boundary_and_a_record_counts_once() {
    let spoof = r#"{"type":"transcript_message","role":"tool","id":"t","content":"{\"type\":\"compact_boundary\",\"summary\":\"no\"}"}"#;
    let (a, newer) = (
        message("user", "a"),
        r#"{"type":"transcript_message","role":"user","id":"a","content":"newer"}"#,
    );
    let found = of("spoof", &[&a, spoof, newer], false);
    assert_eq!(
        (ids(&found), found.boundary.is_none()),
        (vec!["a", "t"], true)
    );
    assert_eq!(text(&found.messages[0], "content"), "newer");
}

#[test]
fn the_cost_follows_the_tail() {
    let filler: Vec<String> = (0..60_000)
        .map(|i| message("assistant", &format!("f{i}")))
        .collect();
    let boundary = r#"{"type":"compact_boundary","summary":"S","kept_from_id":"k"}"#.to_owned();
    let mut lines: Vec<&str> = filler.iter().map(String::as_str).collect();
    let (k, l) = (message("user", "k"), message("user", "l"));
    lines.extend([k.as_str(), boundary.as_str(), l.as_str()]);
    let found = of("cost", &lines, false);
    assert_eq!(ids(&found), ["k", "l"]);
    assert!(found.bytes_read < 600_000, "{}", found.bytes_read);
}
