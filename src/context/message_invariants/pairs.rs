//! Which result answers which call, and the atoms that no cut may enter.
//!
//! - I1 a call has at most one answer, and a result answers at most one call;
//! - I2 a result is matched to the nearest preceding unanswered call with its id (providers repeat `call_0`), by position
//!   among equal ids of one message; adjacency plays no part;
//! - I3 a second result for an answered call replaces the first only if the first is an error and it is not;
//! - I4 atoms are contiguous, disjoint and cover the list; a cut at an atom's start never parts a pair.

use crate::context::message::{Block, Content, Message, Origin, Role};
use std::collections::HashMap;

/// A call: the assistant message's index and the call's position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallRef {
    /// Index of the assistant message.
    pub message: usize,
    /// Position in its `tool_calls`.
    pub call: usize,
}

/// Who answers whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    /// For each message, for each of its calls, the index of the tool message that answers it.
    pub answers: Vec<Vec<Option<usize>>>,
    /// For each tool message, the call it answers; `None` for orphans and duplicates.
    pub call_of: Vec<Option<CallRef>>,
    /// For each tool message that is one result too many, the message whose call it repeats.
    pub duplicate_of: Vec<Option<usize>>,
}

/// Pairs results with calls.
pub fn pair(messages: &[Message]) -> Pairs {
    let mut pairs = Pairs {
        answers: messages
            .iter()
            .map(|m| vec![None; m.tool_calls.len()])
            .collect(),
        call_of: vec![None; messages.len()],
        duplicate_of: vec![None; messages.len()],
    };
    // All calls so far by id, oldest first; few entries share an id, so scanning back is cheap.
    let mut calls: HashMap<&str, Vec<CallRef>> = HashMap::new();
    for (i, m) in messages.iter().enumerate() {
        match m.role {
            Role::Assistant => {
                for (c, call) in m.tool_calls.iter().enumerate() {
                    calls.entry(&call.id).or_default().push(CallRef {
                        message: i,
                        call: c,
                    });
                }
            }
            Role::Tool => {
                let id = m.tool_call_id.as_deref().unwrap_or("");
                match_result(
                    messages,
                    &mut pairs,
                    calls.get(id).map_or(&[], Vec::as_slice),
                    i,
                );
            }
            Role::System | Role::User | Role::Other => {}
        }
    }
    pairs
}

fn match_result(messages: &[Message], pairs: &mut Pairs, candidates: &[CallRef], result: usize) {
    let Some(newest) = candidates.last() else {
        return;
    };
    let answer = |p: &Pairs, c: &CallRef| {
        p.answers
            .get(c.message)
            .and_then(|a| a.get(c.call))
            .copied()
            .flatten()
    };
    // The nearest message that still waits for this id; within it the first such call.
    let waiting = candidates.iter().rev().find(|c| answer(pairs, c).is_none());
    if let Some(waiting) = waiting {
        let first = candidates
            .iter()
            .find(|c| c.message == waiting.message && answer(pairs, c).is_none())
            .unwrap_or(waiting);
        // A late duplicate of the newest call must not reach back to an old call that was never answered.
        if first.message == newest.message || answer(pairs, newest).is_none() {
            set_answer(pairs, *first, result);
            return;
        }
    }
    // One result too many: the completed one wins over an aborted one (I3).
    let is_error = |i: usize| messages.get(i).is_some_and(|m| m.is_error);
    let failed = candidates
        .iter()
        .rev()
        .take_while(|c| c.message == newest.message)
        .find_map(|c| {
            answer(pairs, c)
                .filter(|old| is_error(*old) && !is_error(result))
                .map(|old| (*c, old))
        });
    if let Some((call, old)) = failed {
        set_answer(pairs, call, result);
        set(&mut pairs.call_of, old, None);
        set(&mut pairs.duplicate_of, old, Some(newest.message));
    } else {
        set(&mut pairs.duplicate_of, result, Some(newest.message));
    }
}

fn set_answer(pairs: &mut Pairs, call: CallRef, result: usize) {
    if let Some(slot) = pairs
        .answers
        .get_mut(call.message)
        .and_then(|a| a.get_mut(call.call))
    {
        *slot = Some(result);
    }
    set(&mut pairs.call_of, result, Some(call));
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}

/// For each position `0..=len`, whether a cut there parts nothing: no pair, no parallel batch, no chunks of one message,
/// no boundary from its summary.
pub fn legal_cuts(messages: &[Message], pairs: &Pairs) -> Vec<bool> {
    // `reach[i]`: the last message that message i is tied to.
    let mut legal = Vec::with_capacity(messages.len().saturating_add(1));
    let mut last_of_id: HashMap<&str, usize> = HashMap::new();
    let mut reach: Vec<usize> = (0..messages.len()).collect();
    let tie = |reach: &mut Vec<usize>, from: usize, to: usize| {
        if let Some(slot) = reach.get_mut(from) {
            *slot = (*slot).max(to);
        }
    };
    for (i, m) in messages.iter().enumerate() {
        if let Some(call) = pairs.call_of.get(i).copied().flatten() {
            tie(&mut reach, call.message, i);
        }
        if let Some(owner) = pairs.duplicate_of.get(i).copied().flatten() {
            tie(&mut reach, owner, i);
        }
        match m.role {
            // Ids of providers that give every message the same id tie only within one user turn.
            Role::User if m.origin == Origin::Plain => last_of_id.clear(),
            Role::Assistant => {
                if let Some(id) = m.id.as_deref().filter(|id| !id.is_empty())
                    && let Some(first) = last_of_id.insert(id, i)
                {
                    tie(&mut reach, first, i);
                }
            }
            _ => {}
        }
        if m.origin == Origin::Boundary
            && let Some(next) = messages.get(i.saturating_add(1))
            && matches!(next.origin, Origin::Summary | Origin::MemorySummary)
        {
            tie(&mut reach, i, i.saturating_add(1));
        }
    }
    let mut open_until = 0;
    legal.push(true);
    for (i, r) in reach.iter().enumerate() {
        open_until = open_until.max(*r);
        legal.push(open_until <= i);
    }
    legal
}

/// True for messages whose content holds thinking blocks.
pub fn has_thinking(m: &Message) -> bool {
    m.role == Role::Assistant
        && matches!(&m.content, Content::Blocks(blocks) if blocks.iter().any(|b| matches!(b, Block::Thinking { .. })))
}

/// Start of the running turn: behind the last real user message that no assistant text has closed. `len` if no tool loop runs.
pub fn active_loop_start(messages: &[Message]) -> usize {
    let start = messages
        .iter()
        .rposition(|m| matches!(m.role, Role::User | Role::System))
        .map_or(0, |i| i.saturating_add(1));
    let runs = messages
        .iter()
        .skip(start)
        .any(|m| !m.tool_calls.is_empty());
    if runs { start } else { messages.len() }
}

/// Index of the last boundary, by metadata.
pub fn find_last_compact_boundary(messages: &[Message]) -> Option<usize> {
    messages.iter().rposition(|m| m.origin == Origin::Boundary)
}

/// Where compactable history begins: behind the last boundary and the summaries that follow it, else behind the system messages.
pub fn find_compaction_working_start(messages: &[Message]) -> usize {
    let after_boundary = find_last_compact_boundary(messages).map_or(0, |b| b.saturating_add(1));
    let skip = messages
        .iter()
        .skip(after_boundary)
        .take_while(|m| {
            m.role == Role::System
                || matches!(
                    m.origin,
                    Origin::Summary | Origin::MemorySummary | Origin::Boundary
                )
        })
        .count();
    after_boundary.saturating_add(skip)
}
