//! Counting one long text, or many texts, on several threads, with the same result.
//!
//! Threads are made for the call and joined in it. No pool: a process that forks after rayon's pool has started hangs in
//! the child (`stack.md` C), and agents do fork. If a thread cannot be made, the work is done on the caller's.
//!
//! I1: a text is only cut where no encoding has a piece that crosses (`performance.md` 1.2): behind a line feed that a
//! printable ASCII character other than '/' follows.

use std::sync::OnceLock;

/// Below this many bytes threads cost more than they bring (`performance.md` 7).
pub const PARALLEL_MIN_BYTES: usize = 512 * 1024;
/// No text is cut into shorter parts than this, in bytes.
const PART_MIN_BYTES: usize = 128 * 1024;
/// More threads than this only compete for memory.
const MAX_THREADS: usize = 8;

/// Asked once: on Linux the answer is read from files, which takes longer than counting a short text.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS))
    })
}

/// The next place at or behind `from` where a text may be cut; `None` if there is none.
pub fn safe_cut(text: &[u8], from: usize) -> Option<usize> {
    let start = from.max(1) - 1;
    memchr::memchr_iter(b'\n', text.get(start..)?)
        .map(|i| start + i + 1)
        .find(|&cut| {
            text.get(cut)
                .is_some_and(|&b| b.is_ascii_graphic() && b != b'/')
        })
}

/// `text` in about `parts` parts, cut at safe places only: together they are the text.
pub fn cut(text: &str, parts: usize) -> Vec<&str> {
    let size = (text.len() / parts.max(1)).max(PART_MIN_BYTES);
    let mut rest = text;
    let mut found = Vec::with_capacity(parts);
    while rest.len() > size + size / 2 {
        let Some((part, after)) =
            safe_cut(rest.as_bytes(), size).and_then(|at| rest.split_at_checked(at))
        else {
            break;
        };
        found.push(part);
        rest = after;
    }
    found.push(rest);
    found
}

/// The sum of `count` over `text`, on several threads if it is long.
pub fn count(text: &str, count: impl Fn(&str) -> u64 + Sync) -> u64 {
    let threads = threads();
    if text.len() < PARALLEL_MIN_BYTES || threads < 2 {
        return count(text);
    }
    each(&cut(text, threads * 2), threads, &count)
        .into_iter()
        .sum()
}

/// `count` of every text, in order, on several threads if they are long together.
pub fn count_many(texts: &[&str], count: impl Fn(&str) -> u64 + Sync) -> Vec<u64> {
    let threads = threads();
    let bytes: usize = texts.iter().map(|t| t.len()).sum();
    if bytes < PARALLEL_MIN_BYTES || threads < 2 {
        return texts.iter().map(|t| count(t)).collect();
    }
    // Long texts are cut, so that one of them does not keep a thread busy while the others wait.
    let parts: Vec<(usize, &str)> = texts
        .iter()
        .enumerate()
        .flat_map(|(i, t)| {
            cut(t, t.len() / PARALLEL_MIN_BYTES)
                .into_iter()
                .map(move |p| (i, p))
        })
        .collect();
    let pieces: Vec<&str> = parts.iter().map(|&(_, part)| part).collect();
    let mut totals = vec![0; texts.len()];
    for ((i, _), tokens) in parts.iter().zip(each(&pieces, threads, &count)) {
        if let Some(total) = totals.get_mut(*i) {
            *total += tokens;
        }
    }
    totals
}

/// `count` of every text, in order. Each thread takes a contiguous stretch of about the same number of bytes.
fn each(texts: &[&str], threads: usize, count: &(impl Fn(&str) -> u64 + Sync)) -> Vec<u64> {
    let bytes: usize = texts.iter().map(|t| t.len()).sum();
    let share = bytes / threads + 1;
    let mut stretches: Vec<Vec<&str>> = vec![Vec::new()];
    let mut filled = 0;
    for text in texts {
        if filled >= share && stretches.len() < threads {
            stretches.push(Vec::new());
            filled = 0;
        }
        filled += text.len();
        if let Some(last) = stretches.last_mut() {
            last.push(text);
        }
    }
    let serial = |stretch: &[&str]| stretch.iter().map(|t| count(t)).collect::<Vec<u64>>();
    let (own, others) = stretches
        .split_first()
        .map_or((&[][..], &[][..]), |(first, rest)| (first.as_slice(), rest));
    std::thread::scope(|scope| {
        let running: Vec<_> = others
            .iter()
            .map(|stretch| std::thread::Builder::new().spawn_scoped(scope, || serial(stretch)))
            .collect();
        let mut counts = serial(own);
        for (thread, stretch) in running.into_iter().zip(others) {
            let done = thread.ok().and_then(|handle| handle.join().ok());
            counts.extend(done.unwrap_or_else(|| serial(stretch)));
        }
        counts
    })
}
