//! A disk in memory that forgets what was not made durable, and fails where it is told to (reliability R6, R7, R17).
//!
//! What a crash may leave: of the name changes since the last directory sync any beginning; of a file's changes since its last sync nothing,
//! all, a part, or its length with zeros for content.

use super::artifacts::ArtifactStore;
use super::disk::{Dir, Entry, File, Open};
use super::scan;
use super::transcript::{Sync as Durability, Transcript};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
}

#[derive(Clone)]
enum NameOp {
    Set(String, usize),
    Remove(String),
}

/// A rule of durability that is broken on purpose, to see the checks turn red.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Sabotage {
    #[default]
    None,
    FileSyncDoesNothing,
    DirSyncDoesNothing,
    TruncateDoesNothing,
    LinkOverwrites,
    ShortWritesAreSilent,
}

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending_names: Vec<NameOp>,
    operations: usize,
    /// From this operation on nothing happens any more.
    power_off_at: Option<usize>,
    /// This operation fails, after a part of its work.
    fail_at: Option<(usize, i32)>,
    sabotage: Sabotage,
}

impl State {
    /// Counts an operation; an error if the power is off or this one is to fail.
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.power_off_at.is_some_and(|at| self.operations > at) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        match self.fail_at {
            Some((at, errno)) if at == self.operations => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }

    fn set_name(&mut self, name: &str, inode: usize) {
        self.names.insert(name.to_owned(), inode);
        self.pending_names.push(NameOp::Set(name.to_owned(), inode));
    }

    /// What is left after a crash: the first `names` pending name changes, and for every file's pending content the given choice.
    fn after_crash(&self, names: usize, content: usize) -> Self {
        let mut left = self.durable_names.clone();
        for op in self.pending_names.iter().take(names) {
            match op {
                NameOp::Set(name, inode) => drop(left.insert(name.clone(), *inode)),
                NameOp::Remove(name) => drop(left.remove(name)),
            }
        }
        let inodes = self.inodes.iter().map(|inode| {
            let (old, new) = (&inode.durable, &inode.current);
            let kept = match content {
                0 => old.clone(),
                1 => new.clone(),
                2 if new.starts_with(old) => {
                    new[..old.len() + (new.len() - old.len()) / 2].to_vec()
                }
                3 if new.starts_with(old) => [old.clone(), vec![0; new.len() - old.len()]].concat(),
                _ => new.clone(),
            };
            Inode {
                durable: kept.clone(),
                current: kept,
            }
        });
        Self {
            inodes: inodes.collect(),
            durable_names: left.clone(),
            names: left,
            sabotage: self.sabotage,
            ..Self::default()
        }
    }
}

#[derive(Clone, Default)]
struct SimDir {
    state: Arc<Mutex<State>>,
    prefix: String,
}

impl SimDir {
    fn with(state: State) -> Arc<Self> {
        Arc::new(Self {
            state: Arc::new(Mutex::new(state)),
            prefix: String::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    inode: usize,
}

impl Dir for SimDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.step()?;
        let name = self.name(name);
        let inode = match (state.names.get(&name).copied(), how) {
            (Some(_), Open::CreateNew) => {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            (Some(inode), _) => inode,
            (None, Open::Read) => return Err(io::Error::from(io::ErrorKind::NotFound)),
            (None, _) => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.set_name(&name, inode);
                inode
            }
        };
        Ok(Box::new(SimFile {
            state: self.state.clone(),
            inode,
        }))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let to = self.name(to);
        if state.names.contains_key(&to) && state.sabotage != Sabotage::LinkOverwrites {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let inode = *state
            .names
            .get(&self.name(from))
            .ok_or(io::ErrorKind::NotFound)?;
        state.set_name(&to, inode);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let inode = state
            .names
            .remove(&self.name(from))
            .ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (self.name(from), self.name(to));
        state.pending_names.push(NameOp::Remove(from));
        // One change: a crash leaves the old name or the new one.
        let _ = state.pending_names.pop();
        state.set_name(&to, inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let name = self.name(name);
        state.names.remove(&name).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameOp::Remove(name));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.sabotage != Sabotage::DirSyncDoesNothing {
            state.durable_names = state.names.clone();
            state.pending_names.clear();
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let own = state.names.iter().filter_map(|(name, inode)| {
            let name = name
                .strip_prefix(&self.prefix)
                .filter(|n| !n.contains('/'))?;
            Some(Entry {
                name: name.to_owned(),
                len: state.inodes[*inode].current.len() as u64,
                modified_ms: 0,
                is_file: true,
            })
        });
        Ok(own.collect())
    }

    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        Ok(Arc::new(Self {
            state: self.state.clone(),
            prefix: format!("{}{name}/", self.prefix),
        }))
    }

    fn lock(&self, _: &str, _: &str) -> io::Result<Box<dyn Send + std::marker::Sync>> {
        Ok(Box::new(()))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("sim")
    }
}

impl File for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        if let Err(error) = state.step() {
            if error.raw_os_error().is_some() {
                // A full disk takes a part before it says no.
                let half = &bytes[..bytes.len() / 2];
                state.inodes[self.inode].current.extend_from_slice(half);
                if state.sabotage == Sabotage::ShortWritesAreSilent {
                    return Ok(bytes.len());
                }
            }
            return Err(error);
        }
        state.inodes[self.inode].current.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.step()?;
        if state.sabotage != Sabotage::FileSyncDoesNothing {
            let inode = &mut state.inodes[self.inode];
            inode.durable = inode.current.clone();
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.step()?;
        if state.sabotage != Sabotage::TruncateDoesNothing {
            state.inodes[self.inode].current.truncate(len as usize);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().inodes[self.inode].current.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let rest = state.inodes[self.inode]
            .current
            .get(offset as usize..)
            .unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn identity(&self) -> io::Result<[u64; 4]> {
        Ok([1, self.inode as u64, self.len()?, 0])
    }
}

// --- workloads

#[derive(Clone, Copy, Debug)]
enum Op {
    Append,
    ArtifactAndRecord,
    Summary,
    Reopen,
}

const OPS: [Op; 4] = [Op::Append, Op::ArtifactAndRecord, Op::Summary, Op::Reopen];

/// What a run tried and what was acknowledged.
#[derive(Default, Clone)]
struct Log {
    attempted: Vec<String>,
    acked: usize,
    summaries: Vec<Vec<u8>>,
    summary_acked: usize,
}

fn run(dir: &Arc<SimDir>, workload: &[Op]) -> Log {
    let mut log = Log::default();
    let open = || Transcript::open(dir.clone(), "t.jsonl", Durability::Always);
    let store = ArtifactStore::new(dir.clone());
    let Ok((mut transcript, _)) = open() else {
        return log;
    };
    for (n, op) in workload.iter().enumerate() {
        let line: String = match op {
            Op::Append => format!("{{\"n\":{n}}}"),
            Op::ArtifactAndRecord => {
                match store.write(b"same-id", format!("content {n}").as_bytes(), true, ".txt") {
                    Ok(written) => {
                        format!("{{\"n\":{n},\"artifact\":\"{}\"}}", written.relative_path)
                    }
                    Err(_) => continue,
                }
            }
            Op::Summary => {
                log.summaries.push(format!("summary {n}").into_bytes());
                if store.replace_summary(log.summaries.last().unwrap()).is_ok() {
                    log.summary_acked = log.summaries.len();
                }
                continue;
            }
            Op::Reopen => {
                drop(transcript);
                match open() {
                    Ok((again, _)) => transcript = again,
                    Err(_) => return log,
                }
                continue;
            }
        };
        let before = log.attempted.clone();
        log.attempted.push(line.clone());
        match transcript.append(&line) {
            Ok(()) => log.acked = log.attempted.len(),
            // The power is off, or the batch was undone: then it was never there.
            Err(_) if dir.state().power_off_at.is_some() => return log,
            Err(_) => {
                // After a failed sync nobody knows what the disk has: only a new file is sure not to hold the batch.
                if transcript.flush().is_err() && transcript.reopen().is_err() {
                    return log;
                }
                log.attempted = before;
            }
        }
    }
    log
}

/// Checks the contract on what is left. `Err` says what was broken.
fn check(left: State, log: &Log) -> Result<(), String> {
    let dir = SimDir::with(left);
    let (transcript, _) =
        Transcript::open(dir.clone(), "t.jsonl", Durability::Always).map_err(|e| e.to_string())?;
    let mut lines = Vec::new();
    scan::forward(transcript.file(), 0, |_, line| {
        lines.push(String::from_utf8_lossy(line.unwrap_or_default()).into_owned());
        true
    })
    .map_err(|e| e.to_string())?;
    if !log.attempted.starts_with(&lines) {
        return Err(format!("recovered what was never attempted: {lines:?}"));
    }
    if lines.len() < log.acked {
        return Err(format!(
            "lost {} acknowledged records",
            log.acked - lines.len()
        ));
    }
    let store = ArtifactStore::new(dir.clone());
    for line in &lines {
        let record = scan::parse_line(line.as_bytes())
            .records
            .pop()
            .ok_or("a damaged record")?;
        if let Some(path) = record.get("artifact").and_then(|p| p.as_str()) {
            let file = store
                .open(path)
                .map_err(|e| format!("a recorded artifact is missing: {e}"))?;
            let mut content = vec![0; file.len().unwrap() as usize];
            super::disk::read_full(&*file, &mut content, 0).unwrap();
            if content != format!("content {}", record["n"]).as_bytes() {
                return Err("a recorded artifact has other content".to_owned());
            }
        }
    }
    let summary = store.open("session-memory/summary.md").ok().map(|file| {
        let mut content = vec![0; file.len().unwrap() as usize];
        super::disk::read_full(&*file, &mut content, 0).unwrap();
        content
    });
    let expected: Vec<Option<Vec<u8>>> = match log.summary_acked {
        0 => std::iter::once(None)
            .chain(log.summaries.first().cloned().map(Some))
            .collect(),
        n => log
            .summaries
            .iter()
            .skip(n - 1)
            .cloned()
            .map(Some)
            .collect(),
    };
    if expected.contains(&summary) {
        Ok(())
    } else {
        Err("the summary is neither the old nor the new one".to_owned())
    }
}

/// Every crash state of a workload; how many, and the first broken one.
fn crash_states(workload: &[Op], sabotage: Sabotage) -> (usize, Option<String>) {
    let steps = {
        let dir = SimDir::with(State {
            sabotage,
            ..State::default()
        });
        run(&dir, workload);
        dir.state().operations
    };
    let mut states = 0;
    for power_off_at in 0..=steps {
        let dir = SimDir::with(State {
            sabotage,
            power_off_at: Some(power_off_at),
            ..State::default()
        });
        let log = run(&dir, workload);
        let state = dir.state().clone();
        for names in 0..=state.pending_names.len() {
            for content in 0..4 {
                states += 1;
                if let Err(problem) = check(state.after_crash(names, content), &log) {
                    return (
                        states,
                        Some(format!(
                            "{workload:?} off at {power_off_at}, {names} names, content {content}: {problem}"
                        )),
                    );
                }
            }
        }
    }
    (states, None)
}

fn workloads(longest: u32) -> impl Iterator<Item = Vec<Op>> {
    (1..=longest).flat_map(|length| {
        (0..OPS.len().pow(length)).map(move |mut code| {
            (0..length)
                .map(|_| {
                    let op = OPS[code % OPS.len()];
                    code /= OPS.len();
                    op
                })
                .collect()
        })
    })
}

#[test]
fn no_crash_state_of_any_small_workload_breaks_the_contract() {
    let longest = if std::env::var_os("MT_CONTEXT_SLOW").is_some() {
        6
    } else {
        4
    };
    let mut states = 0;
    for workload in workloads(longest) {
        let (n, problem) = crash_states(&workload, Sabotage::None);
        states += n;
        assert_eq!(problem, None);
    }
    println!(
        "R6: {states} crash states of all workloads of up to {longest} operations, 0 violations"
    );
    assert!(states > if longest > 4 { 100_000 } else { 10_000 });
}

#[test]
fn every_broken_rule_of_durability_turns_the_check_red() {
    for sabotage in [
        Sabotage::FileSyncDoesNothing,
        Sabotage::DirSyncDoesNothing,
        Sabotage::LinkOverwrites,
    ] {
        let caught = workloads(2).any(|workload| crash_states(&workload, sabotage).1.is_some());
        assert!(caught, "{sabotage:?} went unnoticed");
    }
    for sabotage in [
        Sabotage::TruncateDoesNothing,
        Sabotage::ShortWritesAreSilent,
    ] {
        let caught = (1..40).any(|at| failing(at, 28, sabotage).is_err());
        assert!(caught, "{sabotage:?} went unnoticed");
    }
}

/// One run in which one operation fails; then the disk works again and one more record is appended.
fn failing(at: usize, errno: i32, sabotage: Sabotage) -> Result<(), String> {
    let workload = [
        Op::Append,
        Op::ArtifactAndRecord,
        Op::Append,
        Op::Summary,
        Op::Append,
    ];
    let dir = SimDir::with(State {
        sabotage,
        fail_at: Some((at, errno)),
        ..State::default()
    });
    let log = run(&dir, &workload);
    let state = dir.state().clone();
    check(state.after_crash(state.pending_names.len(), 1), &log)?;
    let left: Vec<String> = state
        .names
        .keys()
        .filter(|n| n.contains(".tmp-"))
        .cloned()
        .collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("left behind {left:?}"))
    }
}

#[test]
fn a_disk_that_fails_at_any_operation_loses_nothing_and_leaves_nothing_behind() {
    for errno in [28, 5] {
        for at in 1..60 {
            // The clean-up of a temporary file is the one operation whose failure leaves it.
            let result = failing(at, errno, Sabotage::None);
            assert!(
                result.is_ok()
                    || result
                        .as_ref()
                        .is_err_and(|e| e.starts_with("left behind") && at > 4),
                "{errno} at {at}: {result:?}"
            );
        }
    }
}
