//! Where a compaction cuts: on an atom's edge, behind the last boundary, keeping about `min..max` tokens.
//!
//! - I1 the cut is legal ([`legal_cuts`]), lies behind the working start, and leaves something to summarise;
//! - I2 the last user request stays: in the tail where that fits, else as a pinned message;
//! - I3 when one atom alone exceeds the maximum, it stays whole, and `over` says by how much its contents must shrink;
//! - I4 when the running loop has thinking, the tail begins with thinking or a user message, so that no signed block
//!   loses its place (Anthropic).

use super::pairs::{
    active_loop_start, find_compaction_working_start, find_last_compact_boundary, has_thinking,
    legal_cuts, pair,
};
use crate::context::message::{Message, Role};

/// A cut and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Messages from here on are kept verbatim.
    pub index: usize,
    /// Messages before the cut that stay nevertheless: the current user request.
    pub pinned: Vec<usize>,
    /// Tokens of the tail.
    pub kept_tokens: u64,
    /// Tokens of the tail above `max_keep_tokens` because one atom is that large.
    pub over: u64,
}

/// Finds the cut of a compaction, or `None` when there is nothing before it to summarise.
pub fn find_safe_split(
    messages: &[Message],
    min_keep_tokens: u64,
    max_keep_tokens: u64,
) -> Option<Split> {
    let max_keep = max_keep_tokens.max(min_keep_tokens);
    let start = find_compaction_working_start(messages);
    let legal = thinking_safe_cuts(messages, legal_cuts(messages, &pair(messages)));
    let is_legal = |i: usize| legal.get(i).copied().unwrap_or(false);
    let kept = suffix_tokens(messages);
    let kept_from = |i: usize| kept.get(i).copied().unwrap_or(0);

    // The newest legal cut that keeps the minimum; the list's end is no cut.
    let enough = (start..messages.len())
        .rev()
        .find(|i| is_legal(*i) && kept_from(*i) >= min_keep_tokens)?;
    // One atom may carry the tail over the maximum: then the next newer cut is the better one if it keeps anything.
    let newer = ((enough.saturating_add(1))..messages.len()).find(|i| is_legal(*i));
    let mut index = match newer {
        Some(newer)
            if kept_from(enough) > max_keep
                && kept_from(newer).saturating_mul(2) >= min_keep_tokens =>
        {
            newer
        }
        _ => enough,
    };
    // A turn's start reads better than its middle, where that costs little.
    let affordable = |i: usize, base: usize| {
        kept_from(i) <= max_keep.min(kept_from(base).saturating_add(kept_from(base) / 4))
    };
    let turn = (start..=index)
        .rev()
        .find(|i| messages.get(*i).is_some_and(Message::is_user_request));
    if let Some(turn) = turn.filter(|t| is_legal(*t) && affordable(*t, index)) {
        index = turn;
    }
    let current = messages
        .iter()
        .rposition(Message::is_user_request)
        .filter(|c| *c >= start);
    let mut pinned = Vec::new();
    if let Some(current) = current.filter(|c| *c < index) {
        match (start..=current)
            .rev()
            .find(|i| is_legal(*i))
            .filter(|i| kept_from(*i) <= max_keep)
        {
            Some(before) => index = before,
            None => pinned.push(current),
        }
    }
    let summarised = (start..index).filter(|i| !pinned.contains(i)).count();
    let kept_tokens = kept_from(index);
    (summarised > 0).then(|| Split {
        index,
        pinned,
        kept_tokens,
        over: kept_tokens.saturating_sub(max_keep),
    })
}

/// [`find_safe_split`] where the cut must have the last user request behind it only if that fits; the plain index.
pub fn find_safe_split_index(
    messages: &[Message],
    min_keep_tokens: u64,
    max_keep_tokens: u64,
) -> Option<usize> {
    find_safe_split(messages, min_keep_tokens, max_keep_tokens).map(|s| s.index)
}

/// Moves an index back to where no tool call is parted from its result, or results from their siblings (plan M5).
pub fn adjust_index_to_preserve_tool_pairs(messages: &[Message], index: usize) -> usize {
    if index == 0 || index >= messages.len() {
        return index;
    }
    let pairs = pair(messages);
    // Follow the pairs alone: chunks and boundaries have functions of their own.
    let mut at = index;
    loop {
        let parted = pairs
            .answers
            .iter()
            .take(at)
            .enumerate()
            .rev()
            .find_map(|(i, answers)| {
                let tied = |r: usize| r >= at;
                let parts = answers.iter().flatten().any(|r| tied(*r))
                    || pairs
                        .duplicate_of
                        .iter()
                        .enumerate()
                        .any(|(r, owner)| *owner == Some(i) && tied(r));
                parts.then_some(i)
            });
        match parted {
            Some(i) => at = i,
            None => return at,
        }
    }
}

/// Moves an index back while it would part chunks of one message, i.e. neighbours with the same id (plan M5).
pub fn adjust_index_to_preserve_message_groups(messages: &[Message], index: usize) -> usize {
    let id = |i: usize| {
        messages
            .get(i)
            .and_then(|m| m.id.as_deref())
            .filter(|id| !id.is_empty())
    };
    let mut at = index;
    while at > 0 && id(at).is_some() && id(at) == id(at.saturating_sub(1)) {
        at = at.saturating_sub(1);
    }
    at
}

/// Moves an index behind the last boundary (plan M5).
pub fn adjust_index_to_respect_boundary(messages: &[Message], index: usize) -> usize {
    find_last_compact_boundary(messages).map_or(index, |b| index.max(b.saturating_add(1)))
}

/// Tokens from each position to the end.
pub fn suffix_tokens(messages: &[Message]) -> Vec<u64> {
    let mut sums = vec![0u64; messages.len().saturating_add(1)];
    let mut total = 0u64;
    for (slot, m) in sums.iter_mut().rev().skip(1).zip(messages.iter().rev()) {
        total = total.saturating_add(m.tokens);
        *slot = total;
    }
    sums
}

/// Inside a running loop with thinking, only cuts before a message with thinking stay legal (I4), if there is one.
fn thinking_safe_cuts(messages: &[Message], legal: Vec<bool>) -> Vec<bool> {
    let start = active_loop_start(messages);
    if !messages.iter().skip(start).any(has_thinking) {
        return legal;
    }
    let narrowed: Vec<bool> = legal
        .iter()
        .enumerate()
        .map(|(i, ok)| {
            *ok && (i <= start
                || messages
                    .get(i)
                    .is_none_or(|m| m.role != Role::Assistant || has_thinking(m))
                || !messages.iter().skip(i).any(has_thinking))
        })
        .collect();
    narrowed
}
