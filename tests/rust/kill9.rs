//! A writer that is killed with `kill -9` loses nothing that it acknowledged (reliability R1).
//!
//! The test starts itself again as the writer, reads its acknowledgements, kills it at a random one of them or at a random byte of the file,
//! and opens the session itself: `acked ⊆ recovered ⊆ acked + 1`, byte for byte, in order, numbered without gaps. Then the same session goes on.
//! Every record follows from a seed and its number, so that both sides know what must stand in the file. `MT_CONTEXT_SEED` runs a seed again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, and prints what it found"
)]

use mt_context::session::disk::RealDir;
use mt_context::session::recorder::Recorder;
use mt_context::session::transcript::Sync;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

const TEST: &str = "what_was_acknowledged_survives_kill_nine_at_any_moment";
const NAME: &str = "session.jsonl";
/// A writer that nobody kills ends after so many records, and the test fails.
const MAX_RECORDS: u64 = 2_000;
/// After so many kills another session begins.
const KILLS_PER_SESSION: u32 = 8;
const KILL: i32 = 9;

/// xorshift64*: enough for sizes and letters.
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        let mixed =
            (seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The text of a record, 100 B to 2 MB: half of them small, as most are, and one in ten so large that a kill can land inside its write.
fn record(seed: u64, seq: u64) -> String {
    let mut random = Random::new(seed, seq);
    let size = match random.below(100) {
        0..50 => 100 + random.below(1_900),
        50..90 => 2_000 + random.below(48_000),
        _ => 100_000 + random.below(1_900_000),
    };
    let size = usize::try_from(size).unwrap();
    let mut text =
        format!("{{\"type\":\"transcript_message\",\"id\":\"m-{seq}\",\"content\":\"日本é ")
            .into_bytes();
    text.reserve(size + 16);
    while text.len() < size - 2 {
        let letters = (random.next() & 0x0f0f_0f0f_0f0f_0f0f) + 0x4141_4141_4141_4141;
        text.extend_from_slice(&letters.to_le_bytes());
    }
    text.extend_from_slice(b"\"}");
    String::from_utf8(text).unwrap()
}

/// The line that the record must have become.
fn line(seed: u64, seq: u64) -> String {
    format!("{{\"seq\":{seq},{}\n", &record(seed, seq)[1..])
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The child: records until it is killed. The next record is ready before one is acknowledged, so that a kill at the acknowledgement meets a write.
fn write_until_killed(dir: &Path, seed: u64) {
    let (first, always) = (
        number("MT_KILL9_NEXT").unwrap(),
        number("MT_KILL9_ALWAYS").unwrap() == 1,
    );
    let sync = if always { Sync::Always } else { Sync::Turn };
    let recorder = Recorder::open(Arc::new(RealDir::open(dir).unwrap()), NAME, sync).unwrap();
    let mut out = std::io::stdout().lock();
    let mut next = record(seed, first);
    for seq in first..first + MAX_RECORDS {
        assert_eq!(recorder.record(&next).unwrap(), seq, "numbers have no gaps");
        next = record(seed, seq + 1);
        // One write, which a pipe takes whole.
        out.write_all(format!("\nack {seq}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

#[derive(Default)]
struct Figures {
    kills: u64,
    acked: u64,
    torn: u64,
    torn_bytes: u64,
    unacked_kept: u64,
    written_by_parent: u64,
}

/// One session through several kills.
struct Session {
    dir: PathBuf,
    seed: u64,
    /// What the file must hold: everything that was ever recovered.
    known: Vec<u8>,
    next: u64,
}

impl Session {
    fn start_writer(&self, always: bool) -> (Child, BufReader<ChildStdout>) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
            .env("MT_KILL9_DIR", &self.dir)
            .env("MT_KILL9_SEED", self.seed.to_string())
            .env("MT_KILL9_NEXT", self.next.to_string())
            .env("MT_KILL9_ALWAYS", u8::from(always).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }

    /// Runs a writer, kills it, and returns the last number that it acknowledged; `next - 1` if none.
    fn run_and_kill(&self, random: &mut Random) -> u64 {
        let (mut child, mut out) = self.start_writer(random.below(2) == 0);
        let mut acked = self.next - 1;
        if random.below(3) == 0 {
            // At an acknowledgement, or before the first one.
            for _ in 0..random.below(12) {
                acked = read_ack(&mut out).expect("the writer ended before it was killed");
            }
        } else {
            // At a byte, most often inside of a large record.
            let target = self.known.len() as u64 + random.below(1_000_000);
            while std::fs::metadata(self.dir.join(NAME)).map_or(0, |m| m.len()) < target {
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "the writer ended before it was killed"
                );
            }
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(KILL),
            "the writer was not killed: {status}"
        );
        // What it had said before it died counts too.
        while let Some(ack) = read_ack(&mut out) {
            acked = ack;
        }
        acked
    }

    /// Opens the session after a kill and compares it; then goes on with it.
    fn verify(&mut self, acked: u64, figures: &mut Figures) {
        let recorder = Recorder::open(
            Arc::new(RealDir::open(&self.dir).unwrap()),
            NAME,
            Sync::Always,
        )
        .expect("a dead writer's session opens at once");
        let bytes = std::fs::read(self.dir.join(NAME)).unwrap();
        assert!(
            bytes.starts_with(&self.known),
            "an older record changed or is gone"
        );
        let mut at = self.known.len();
        let before = self.next;
        while at < bytes.len() {
            let expected = line(self.seed, self.next);
            assert!(
                bytes[at..].starts_with(expected.as_bytes()),
                "record {} is not what was recorded; {} bytes at {at}, seed {}",
                self.next,
                bytes.len(),
                self.seed
            );
            at += expected.len();
            self.next += 1;
        }
        let recovered = self.next - 1;
        assert!(
            recovered == acked || recovered == acked + 1,
            "acknowledged up to {acked}, recovered up to {recovered}; seed {}",
            self.seed
        );
        figures.kills += 1;
        figures.acked += acked + 1 - before;
        figures.unacked_kept += recovered - acked;
        if let Some((name, len)) = &recorder.opened().torn {
            let saved = std::fs::read(self.dir.join(name)).unwrap();
            let whole = line(self.seed, self.next);
            assert_eq!(saved.len() as u64, *len);
            assert!(
                saved.len() < whole.len() && whole.as_bytes().starts_with(&saved),
                "the torn tail is not the next record's head"
            );
            figures.torn += 1;
            figures.torn_bytes += len;
        }
        // The same session goes on, behind the repair.
        assert_eq!(
            recorder.record(&record(self.seed, self.next)).unwrap(),
            self.next
        );
        let own = line(self.seed, self.next);
        self.known = bytes;
        self.known.extend_from_slice(own.as_bytes());
        self.next += 1;
        figures.written_by_parent += 1;
        drop(recorder);
        assert_eq!(
            std::fs::metadata(self.dir.join(NAME)).unwrap().len(),
            self.known.len() as u64
        );
    }
}

/// The next acknowledgement; `None` at the end. A line that was not ended was not said.
fn read_ack(out: &mut impl BufRead) -> Option<u64> {
    let mut text = String::new();
    loop {
        text.clear();
        if out.read_line(&mut text).unwrap() == 0 {
            return None;
        }
        if let Some(seq) = text.strip_prefix("ack ").and_then(|t| t.strip_suffix('\n')) {
            return Some(seq.parse().unwrap());
        }
    }
}

#[test]
fn what_was_acknowledged_survives_kill_nine_at_any_moment() {
    if let Some(dir) = std::env::var_os("MT_KILL9_DIR") {
        write_until_killed(Path::new(&dir), number("MT_KILL9_SEED").unwrap());
        return;
    }
    let slow = std::env::var("MT_CONTEXT_SLOW").is_ok_and(|v| !v.is_empty() && v != "0");
    let (kills, min_torn) = if slow { (10_000, 500) } else { (150, 5) };
    let seed = number("MT_CONTEXT_SEED").unwrap_or_else(|| RandomState::new().hash_one("kill9"));
    println!("MT_CONTEXT_SEED={seed}");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill9-{}", std::process::id()));
    let (mut random, mut figures) = (Random::new(seed, 0), Figures::default());
    for session in 0.. {
        if figures.kills >= kills {
            break;
        }
        let dir = root.join(session.to_string());
        let mut session = Session {
            dir,
            seed: random.next(),
            known: Vec::new(),
            next: 1,
        };
        for _ in 0..KILLS_PER_SESSION {
            let acked = session.run_and_kill(&mut random);
            session.verify(acked, &mut figures);
        }
        std::fs::remove_dir_all(&session.dir).unwrap();
    }
    let _ = std::fs::remove_dir_all(&root);
    let Figures {
        kills,
        acked,
        torn,
        torn_bytes,
        unacked_kept,
        written_by_parent,
    } = figures;
    eprintln!(
        "kill9: {kills} kills, {acked} acknowledged records, 0 lost, 0 altered, 0 reordered; {torn} torn tails ({torn_bytes} bytes), \
         {unacked_kept} whole records beyond the last acknowledgement, {written_by_parent} records after a repair"
    );
    assert!(acked > kills, "the writers hardly wrote");
    assert!(
        torn >= min_torn,
        "only {torn} torn tails in {kills} kills: the test met too few of them"
    );
}
