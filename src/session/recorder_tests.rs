use super::super::disk::{RealDir, read_full};
use super::*;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mt_context-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn open(path: &Path) -> Result<Recorder> {
    Recorder::open(
        Arc::new(RealDir::open(path).unwrap()),
        "s.jsonl",
        Sync::Always,
    )
}

#[expect(clippy::disallowed_methods, reason = "a test damages files on purpose")]
fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path.join("s.jsonl"), bytes).unwrap();
}

fn records(path: &Path) -> (Vec<Value>, Vec<&'static str>) {
    let dir = RealDir::open(path).unwrap();
    let file = dir.open("s.jsonl", Open::Read).unwrap();
    let (mut found, mut damage) = (Vec::new(), Vec::new());
    scan::forward(&*file, 0, |_, line| {
        let parsed = scan::parse_line(line.unwrap());
        found.extend(parsed.records.into_iter().map(Value::Object));
        damage.extend(parsed.damage);
        true
    })
    .unwrap();
    let mut whole = vec![0; file.len().unwrap() as usize];
    read_full(&*file, &mut whole, 0).unwrap();
    (found, damage)
}

#[test]
fn records_are_numbered_and_line_ends_of_other_readers_are_escaped() {
    let path = folder("numbers");
    let recorder = open(&path).unwrap();
    assert_eq!(recorder.record("{\"a\":\"x\u{2028}y\u{85}z\"}").unwrap(), 1);
    assert_eq!(recorder.record("{}").unwrap(), 2);
    assert_eq!(recorder.record("{\n  \"b\": 2\n}").unwrap(), 3);
    drop(recorder);
    let again = open(&path).unwrap();
    assert_eq!(again.record("{\"c\":3}").unwrap(), 4);
    let (found, damage) = records(&path);
    assert_eq!(
        found
            .iter()
            .map(|r| r["seq"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert_eq!(
        (found[0]["a"].as_str(), found[2]["b"].as_u64(), damage.len()),
        (Some("x\u{2028}y\u{85}z"), Some(2), 0)
    );
    assert!(again.record("[1]").is_err());
}

#[test]
fn a_second_writer_is_refused_at_once_and_told_who_has_it() {
    let path = folder("lock");
    let first = open(&path).unwrap();
    let refused = open(&path).err().unwrap();
    assert!(
        refused
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{refused}"
    );
    drop(first);
    assert!(open(&path).is_ok());
}

#[test]
fn threads_record_without_gaps() {
    let path = folder("threads");
    let recorder = open(&path).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in 0..250 {
                    recorder
                        .record(&format!("{{\"t\":{t},\"i\":{i}}}"))
                        .unwrap();
                }
            });
        }
    });
    let (found, damage) = records(&path);
    assert_eq!(damage.len(), 0);
    assert_eq!(
        found
            .iter()
            .map(|r| r["seq"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        (1..=2_000).collect::<Vec<_>>()
    );
    for t in 0..8 {
        let own: Vec<u64> = found
            .iter()
            .filter(|r| r["t"] == t)
            .map(|r| r["i"].as_u64().unwrap())
            .collect();
        assert_eq!(own, (0..250).collect::<Vec<_>>());
    }
}

#[test]
fn a_tail_torn_at_any_byte_costs_nothing_that_was_or_will_be_written() {
    let path = folder("torn");
    let lines: Vec<String> = (0..40)
        .map(|i| format!("{{\"i\":{i},\"text\":\"矩阵 {}\"}}\n", "x".repeat(i * 3)))
        .collect();
    let whole = lines.concat().into_bytes();
    let mut torn = 0;
    for cut in 0..=whole.len() {
        for filler in [&b""[..], &[0; 7], b"\xff}{garbage"] {
            let _ = std::fs::remove_dir_all(&path);
            drop(RealDir::open(&path).unwrap());
            put(&path, &[&whole[..cut], filler].concat());
            let recorder = open(&path).unwrap();
            torn += usize::from(recorder.opened().torn.is_some());
            recorder.record("{\"new\":1}").unwrap();
            // A record that lacks nothing but its newline is whole.
            let whole_record = filler.is_empty() && whole.get(cut) == Some(&b'\n');
            let kept =
                whole[..cut].iter().filter(|b| **b == b'\n').count() + usize::from(whole_record);
            let (found, damage) = records(&path);
            assert_eq!((found.len(), damage.len()), (kept + 1, 0), "cut at {cut}");
            assert!(
                found[..kept].iter().enumerate().all(|(i, r)| r["i"] == i)
                    && found[kept]["new"] == 1
            );
        }
        if std::env::var_os("MT_CONTEXT_SLOW").is_none() && cut > 700 {
            break;
        }
    }
    println!("R2: {torn} torn tails, 0 lost");
    assert!(torn > 1_000);
}

#[test]
fn one_damaged_line_costs_one_record_and_is_told() {
    let path = folder("damage");
    let lines: Vec<String> = (0..60).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    for (kind, bad) in [
        ("cut", &b"{\"i\":\n"[..]),
        ("nul", b"\0\0\0\0\0\0\n"),
        ("null", b"null\n"),
        ("array", b"[1,2]\n"),
        ("bytes", b"{\"i\":\xff\xfe}\n"),
        ("deep", &[[b'['; 4_000].as_slice(), b"\n"].concat()),
        ("text", b"Traceback (most recent call last)\n"),
    ] {
        for at in [0, 7, 59] {
            let mut damaged: Vec<Vec<u8>> = lines.iter().map(|l| l.clone().into_bytes()).collect();
            damaged[at] = bad.to_vec();
            let _ = std::fs::remove_dir_all(&path);
            drop(RealDir::open(&path).unwrap());
            put(&path, &damaged.concat());
            let (found, damage) = records(&path);
            assert_eq!((found.len(), damage.len()), (59, 1), "{kind} at {at}");
        }
    }
}

#[test]
fn glued_lines_nul_runs_and_lone_surrogates_are_read_as_far_as_they_go() {
    let parse = |text: &[u8]| scan::parse_line(text);
    assert_eq!(
        (
            parse(b"{\"a\":1}{\"b\":2}").records.len(),
            parse(b"{\"a\":1}{\"b\":2}").damage
        ),
        (2, Some("several records on one line"))
    );
    assert_eq!(parse(b"\0\0\0{\"a\":1}").records.len(), 1);
    let lone = parse(br#"{"a":"x\ud800y\udc00z\ud83d\ude00 \\ud800"}"#);
    assert_eq!(
        (lone.records[0]["a"].as_str(), lone.damage),
        (Some("x\u{fffd}y\u{fffd}z😀 \\ud800"), None)
    );
    assert_eq!(parse(b"  "), scan::Line::default());
}

#[test]
fn lines_are_the_same_forward_and_backward() {
    let path = folder("both-ways");
    drop(RealDir::open(&path).unwrap());
    let mut text = String::new();
    for i in 0..3_000usize {
        text += &format!("{i} {}\n", "é".repeat((i * 7919) % 1_000));
    }
    text += "no end";
    put(&path, text.as_bytes());
    let dir = RealDir::open(&path).unwrap();
    let file = dir.open("s.jsonl", Open::Read).unwrap();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    scan::forward(&*file, 0, |at, line| {
        one.push((at, line.unwrap().to_vec()));
        true
    })
    .unwrap();
    scan::backward(&*file, file.len().unwrap(), |at, line| {
        two.push((at, line.unwrap().to_vec()));
        true
    })
    .unwrap();
    two.reverse();
    assert_eq!(one.len(), 3_001);
    assert!(one == two);
}

#[test]
fn files_are_private_whatever_they_were() {
    use std::os::unix::fs::PermissionsExt;
    let path = folder("modes");
    drop(RealDir::open(&path).unwrap());
    put(&path, b"{}\n");
    let loose = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(path.join("s.jsonl"), loose).unwrap();
    drop(open(&path).unwrap());
    for name in ["s.jsonl", "s.jsonl.lock"] {
        let mode = std::fs::metadata(path.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );
}
