//! Byte-pair merging of one piece, for its number of tokens only.
//!
//! Short pieces: arrays on the stack, the lowest rank found by a scan. Long ones: a linked list and a queue of pairs, so
//! nothing is quadratic. Both merge the pair of lowest rank, the leftmost first, as the reference does.
//!
//! I1: the number equals that of repeated lowest-rank merging (tests: `merge_tests.rs`, `tokens_oracle.rs`).
//! I2: steps grow as n log n at most (test: doubling a piece at most doubles the steps, plus a log).
#![expect(
    clippy::indexing_slicing,
    reason = "hot: fixed arrays, with indexes bounded by the number of parts"
)]

use super::vocab::{NONE, Vocab};

/// Bytes that must lie behind the piece in its buffer, so that wide loads stay inside.
pub const PADDING: usize = 16;
/// Pieces up to this many bytes are merged on the stack.
pub const SHORT: usize = 64;

/// Lanes of the search for the lowest key.
const LANES: usize = 8;
/// The key of a part that cannot be merged with its neighbour. Others are rank * [`SHORT`] + where the part begins, so
/// that the lowest key is the leftmost pair of lowest rank.
const NO_KEY: i32 = i32::MAX;

/// The number of tokens of the first `len` bytes of `buffer`, `2 <= len <= SHORT`.
pub fn short(vocab: &Vocab, buffer: &[u8; SHORT + PADDING], len: usize) -> u32 {
    const MASK: usize = SHORT - 1;
    let len = len.min(SHORT);
    let mut key = [NO_KEY; SHORT];
    // Where the next part begins, and where the one before does; parts don't move.
    let mut next = [0_u8; SHORT];
    let mut before = [0_u8; SHORT];
    for i in 0..len {
        next[i] = i as u8 + 1;
        before[i] = i.saturating_sub(1) as u8;
    }
    let key_of = |rank: u32, at: usize| {
        if rank == NONE {
            NO_KEY
        } else {
            (rank as i32) << SHORT.ilog2() | at as i32
        }
    };
    for (i, key) in key.iter_mut().enumerate().take(len - 1) {
        *key = key_of(vocab.pair(buffer, i), i);
    }
    let lanes = len.div_ceil(LANES);
    let mut parts = len as u32;
    loop {
        let mut lowest = [NO_KEY; LANES];
        for eight in &key.as_chunks::<LANES>().0[..lanes] {
            for (lowest, key) in lowest.iter_mut().zip(eight) {
                *lowest = (*lowest).min(*key);
            }
        }
        let lowest = lowest.into_iter().fold(NO_KEY, i32::min);
        if lowest == NO_KEY {
            return parts;
        }
        let at = lowest as usize & MASK;
        let middle = next[at] as usize & MASK;
        let end = next[middle] as usize;
        key[middle] = NO_KEY;
        next[at] = end as u8;
        parts -= 1;
        key[at] = NO_KEY;
        if end < len {
            before[end] = at as u8;
            key[at] = key_of(vocab.rank(buffer, at, next[end] as usize), at);
        }
        if at > 0 {
            let left = before[at] as usize & MASK;
            key[left] = key_of(vocab.rank(buffer, left, end), left);
        }
    }
}

/// Buffers of [`long`], kept between pieces.
#[derive(Default)]
pub struct Scratch {
    /// The piece and [`PADDING`] zeros.
    buffer: Vec<u8>,
    /// Where the part that begins here ends.
    end: Vec<u32>,
    /// Where the part before the one that begins here begins.
    before: Vec<u32>,
    /// The rank of the part that begins here together with the next one.
    ranks: Vec<u32>,
    queue: RadixQueue,
    /// Steps done so far: what the test of linearity counts.
    pub steps: u64,
}

/// Scratch above this many bytes is given back after use.
const KEEP_SCRATCH: usize = 1 << 20;

/// The number of tokens of `piece`, of any length that fits 32 bits.
pub fn long(vocab: &Vocab, piece: &[u8], scratch: &mut Scratch) -> u32 {
    let len = piece.len();
    let Scratch {
        buffer,
        end,
        before,
        ranks,
        queue,
        steps,
    } = scratch;
    buffer.clear();
    buffer.extend_from_slice(piece);
    buffer.extend_from_slice(&[0; PADDING]);
    end.clear();
    end.extend(1..=len as u32);
    before.clear();
    before.extend((0..len as u32).map(|i| i.saturating_sub(1)));
    queue.clear();
    ranks.clear();
    ranks.resize(len, NONE);
    for (i, rank) in ranks.iter_mut().enumerate().take(len.saturating_sub(1)) {
        *rank = vocab.pair(buffer, i);
        if *rank != NONE {
            queue.push(*rank, i as u32);
        }
    }
    let mut parts = len as u32;
    while let Some((rank, at)) = queue.pop() {
        *steps += 1;
        let at = at as usize;
        // An entry is stale when one of its parts has changed since.
        if ranks[at] != rank {
            continue;
        }
        let middle = end[at] as usize;
        let right = end[middle] as usize;
        end[at] = right as u32;
        ranks[middle] = NONE;
        parts -= 1;
        ranks[at] = NONE;
        if right < len {
            before[right] = at as u32;
            ranks[at] = vocab.rank(buffer, at, end[right] as usize);
            if ranks[at] != NONE {
                queue.push(ranks[at], at as u32);
            }
        }
        if at > 0 {
            let left = before[at] as usize;
            ranks[left] = vocab.rank(buffer, left, right);
            if ranks[left] != NONE {
                queue.push(ranks[left], left as u32);
            }
        }
    }
    *steps += queue.moves;
    if len > KEEP_SCRATCH {
        let steps = scratch.steps;
        *scratch = Scratch {
            steps,
            ..Scratch::default()
        };
    }
    parts
}

/// A priority queue of (rank, position) for keys that hardly ever fall below the last one taken: a radix heap, which
/// moves memory in order where a binary heap jumps. Keys not above the last rank taken go to a small binary heap.
#[derive(Default)]
struct RadixQueue {
    /// Bucket b holds the keys whose highest bit that differs from `last` is b - 1; bucket 0 holds those
    /// of `last` itself, in falling order, and is only taken from.
    buckets: Vec<Vec<u64>>,
    /// Keys that came too late for their bucket.
    low: std::collections::BinaryHeap<std::cmp::Reverse<u64>>,
    last: u32,
    filled: u64,
    moves: u64,
}

impl RadixQueue {
    fn clear(&mut self) {
        self.buckets.resize_with(33, Vec::new);
        for bucket in &mut self.buckets {
            bucket.clear();
        }
        self.low.clear();
        self.last = 0;
        self.filled = 0;
        self.moves = 0;
    }

    #[inline]
    fn push(&mut self, rank: u32, at: u32) {
        let key = u64::from(rank) << 32 | u64::from(at);
        if rank <= self.last {
            self.low.push(std::cmp::Reverse(key));
        } else {
            let bucket = 32 - (rank ^ self.last).leading_zeros() as usize;
            self.buckets[bucket].push(key);
            self.filled |= 1 << bucket;
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(u32, u32)> {
        let next = self.buckets.first()?.last().copied();
        let key = match (self.low.peek(), next) {
            (Some(std::cmp::Reverse(low)), next) if next.is_none_or(|next| *low < next) => {
                self.low.pop()?.0
            }
            (_, Some(_)) => self.buckets[0].pop()?,
            (_, None) => self.refill()?,
        };
        Some(((key >> 32) as u32, key as u32))
    }

    #[inline(never)]
    fn refill(&mut self) -> Option<u64> {
        self.filled &= !1;
        if self.filled == 0 {
            return None;
        }
        let bucket = self.filled.trailing_zeros() as usize;
        self.filled &= !(1 << bucket);
        let mut keys = std::mem::take(&mut self.buckets[bucket]);
        self.last = keys.iter().map(|key| (key >> 32) as u32).min()?;
        self.moves += keys.len() as u64;
        for &key in &keys {
            let to = 32 - ((key >> 32) as u32 ^ self.last).leading_zeros() as usize;
            self.buckets[to].push(key);
            self.filled |= 1 << to;
        }
        keys.clear();
        self.buckets[bucket] = keys;
        // Leftmost first: positions within one rank are taken in rising order.
        self.buckets[0].sort_unstable_by(|a, b| b.cmp(a));
        self.buckets[0].pop()
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
