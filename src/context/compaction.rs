//! What a compaction keeps, pins, summarises and shrinks, as one plan (spec 8, policies 5.5 to 5.7).
//!
//! - I1 what the plan keeps fits the target, or [`Error::IrreducibleContext`] names what fills the window;
//! - I2 the current user request is always kept; it is shrunk to a preview only when nothing else is left to shrink;
//! - I3 nothing is parted: the tail begins at an atom's edge;
//! - I4 shrinking goes from tool results (largest first) over call arguments and assistant texts to user messages, and from generous to
//!   small sizes.
//!
//! The plan needs no LLM: with a deterministic summary it is the floor that always works.

use super::budget::TokenBudget;
use super::message::{Block, Content, Message, Origin, Role};
use super::message_invariants::pairs::find_compaction_working_start;
use super::message_invariants::split::{Split, find_safe_split, suffix_tokens};
use crate::error::{Error, Result};
use crate::limits;
use std::collections::HashSet;

/// Which part of a message is shrunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The text.
    Content,
    /// The arguments of its calls.
    Arguments,
}

/// One message part that must become smaller; the full text stays in the transcript or an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reduction {
    /// The message.
    pub index: usize,
    /// Its part.
    pub part: Part,
    /// Tokens it may have afterwards.
    pub max_tokens: u64,
}

/// What a compaction does with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Messages that the summary replaces, in order; a former summary among them is its basis.
    pub summarise: Vec<usize>,
    /// Leading system messages; they stay first.
    pub system: Vec<usize>,
    /// User messages before the tail that stay verbatim, in order; the current request among them if it is not in the tail.
    pub pinned: Vec<usize>,
    /// The tail begins here.
    pub tail: usize,
    /// Parts that must shrink.
    pub reductions: Vec<Reduction>,
    /// Tokens after the compaction, the summary's allowance included.
    pub planned_tokens: u64,
}

/// The sizes a compaction works with, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionSizes {
    /// System prompt and tool schemas outside of the list.
    pub overhead: u64,
    /// The whole view must be no larger than this.
    pub target: u64,
    /// Allowance for boundary and summary.
    pub summary: u64,
    /// The tail keeps at least about this.
    pub keep_min: u64,
    /// … and at most about this.
    pub keep_max: u64,
    /// Budget for pinned user messages.
    pub user_messages: u64,
}

impl CompactionSizes {
    /// The sizes of a budget.
    pub fn of(budget: &TokenBudget, overhead: u64) -> Self {
        Self {
            overhead,
            target: budget.target,
            summary: budget.summary_max,
            keep_min: budget.keep_min,
            keep_max: budget.keep_max,
            user_messages: budget.user_messages_max,
        }
    }
}

/// Plans a compaction. `from` asks for a cut of the user's own (`/compact from`), already moved to a legal place.
///
/// # Errors
/// [`Error::IrreducibleContext`] if what must stay is larger than the target.
pub fn plan_compaction(
    messages: &[Message],
    sizes: &CompactionSizes,
    from: Option<usize>,
) -> Result<CompactionPlan> {
    let start = find_compaction_working_start(messages);
    let system: Vec<usize> = messages
        .iter()
        .take(start)
        .enumerate()
        .filter(|(_, m)| m.role == Role::System)
        .map(|(i, _)| i)
        .collect();
    let system_tokens = total(messages, &system);
    let fixed = sizes
        .overhead
        .saturating_add(system_tokens)
        .saturating_add(sizes.summary);
    let room = sizes.target.saturating_sub(fixed);
    let user_budget = sizes.user_messages.min(room / 3);
    let keep_max = sizes.keep_max.min(room.saturating_sub(user_budget));
    let split = match from {
        Some(index) => Some(explicit_split(messages, start, index)),
        None => find_safe_split(messages, sizes.keep_min.min(keep_max), keep_max),
    };
    let split = split.unwrap_or_else(|| Split {
        index: start,
        pinned: Vec::new(),
        kept_tokens: suffix_tokens(messages).get(start).copied().unwrap_or(0),
        over: 0,
    });
    let pinned = pin_user_messages(messages, start, &split, user_budget);
    let pinned_set: HashSet<usize> = pinned.iter().chain(&system).copied().collect();
    let summarise = (0..split.index)
        .filter(|i| !pinned_set.contains(i))
        .collect();
    let kept: Vec<usize> = pinned
        .iter()
        .copied()
        .chain(split.index..messages.len())
        .collect();
    let (reductions, kept_tokens) = reduce_to_fit(messages, &kept, room);
    if kept_tokens > room {
        return Err(irreducible(
            messages,
            sizes,
            &system,
            &kept,
            fixed.saturating_add(kept_tokens),
        ));
    }
    Ok(CompactionPlan {
        summarise,
        system,
        pinned,
        tail: split.index,
        reductions,
        planned_tokens: fixed.saturating_add(kept_tokens),
    })
}

fn explicit_split(messages: &[Message], start: usize, index: usize) -> Split {
    let index = index.clamp(start, messages.len());
    let current = messages
        .iter()
        .rposition(Message::is_user_request)
        .filter(|c| *c >= start && *c < index);
    Split {
        index,
        pinned: current.into_iter().collect(),
        kept_tokens: 0,
        over: 0,
    }
}

/// The current request, the first one, then the newest, as far as the budget goes; in the order of the history.
fn pin_user_messages(messages: &[Message], start: usize, split: &Split, budget: u64) -> Vec<usize> {
    let before: Vec<usize> = (start..split.index)
        .filter(|i| messages.get(*i).is_some_and(Message::is_user_request))
        .collect();
    let mut pinned = split.pinned.clone();
    let mut left = budget.saturating_sub(total(messages, &pinned));
    for i in before.first().into_iter().chain(before.iter().rev()) {
        let tokens = messages.get(*i).map_or(0, |m| m.tokens);
        if !pinned.contains(i) && tokens <= left {
            left -= tokens;
            pinned.push(*i);
        }
    }
    pinned.sort_unstable();
    pinned
}

/// Shrinks parts of the kept messages until they fit; returns what to do and the size then.
fn reduce_to_fit(messages: &[Message], kept: &[usize], room: u64) -> (Vec<Reduction>, u64) {
    let mut sizes: Vec<(usize, Part, u64, u8)> = Vec::new();
    for i in kept {
        let Some(m) = messages.get(*i) else { continue };
        if m.call_tokens > 0 {
            sizes.push((*i, Part::Arguments, m.call_tokens, 1));
        }
        if let Some(class) = reducible_class(m) {
            let content = m
                .tokens
                .saturating_sub(m.call_tokens)
                .saturating_sub(limits::MESSAGE_OVERHEAD_TOKENS);
            sizes.push((*i, Part::Content, content, class));
        }
    }
    let mut now = total(messages, kept);
    let mut reductions: Vec<Reduction> = Vec::new();
    for step in limits::REDUCTION_STEPS_TOKENS {
        for class in 0..=3u8 {
            let mut of_class: Vec<&mut (usize, Part, u64, u8)> = sizes
                .iter_mut()
                .filter(|s| s.3 == class && s.2 > step)
                .collect();
            // Largest first; of equals the older one.
            of_class.sort_by_key(|s| (std::cmp::Reverse(s.2), s.0));
            for size in of_class {
                if now <= room {
                    return (reductions, now);
                }
                now = now.saturating_sub(size.2.saturating_sub(step));
                size.2 = step;
                reductions.retain(|r| (r.index, r.part) != (size.0, size.1));
                reductions.push(Reduction {
                    index: size.0,
                    part: size.1,
                    max_tokens: step,
                });
            }
        }
    }
    (reductions, now)
}

/// In which order a content may shrink: results, (arguments,) assistant texts, user messages. `None`: never.
fn reducible_class(m: &Message) -> Option<u8> {
    // Signed thinking must go back as it came, and media cannot be cut.
    if matches!(&m.content, Content::Blocks(b) if b.iter().any(|b| matches!(b, Block::Thinking { .. })))
    {
        return None;
    }
    match m.role {
        Role::Tool => Some(0),
        Role::Assistant => Some(2),
        Role::User if m.origin == Origin::Plain => Some(3),
        Role::User | Role::System | Role::Other => None,
    }
}

fn total(messages: &[Message], indexes: &[usize]) -> u64 {
    indexes
        .iter()
        .filter_map(|i| messages.get(*i))
        .fold(0, |sum, m| sum.saturating_add(m.tokens))
}

fn irreducible(
    messages: &[Message],
    sizes: &CompactionSizes,
    system: &[usize],
    kept: &[usize],
    needed: u64,
) -> Error {
    let mut parts = vec![
        (
            "system prompt and tool schemas".to_owned(),
            sizes.overhead.saturating_add(total(messages, system)),
        ),
        ("summary allowance".to_owned(), sizes.summary),
    ];
    for i in kept {
        if let Some(m) = messages.get(*i) {
            parts.push((format!("message {i} ({})", m.role.name()), m.tokens));
        }
    }
    parts.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let parts: Vec<String> = parts
        .iter()
        .take(3)
        .map(|(what, tokens)| format!("{what} {tokens}"))
        .collect();
    Error::IrreducibleContext {
        needed,
        limit: sizes.target,
        parts: parts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::message::ToolCall;
    use proptest::prelude::*;

    fn message(role: Role, tokens: u64, id: usize) -> Message {
        let mut m = Message::new(role);
        m.tokens = tokens;
        match role {
            Role::Assistant => {
                m.tool_calls = vec![ToolCall {
                    id: format!("c{id}").into(),
                    name: "grep".into(),
                    arguments_valid: true,
                }];
                m.call_tokens = tokens.saturating_sub(4);
            }
            Role::Tool => m.tool_call_id = Some(format!("c{id}").into()),
            _ => {}
        }
        m
    }

    fn loop_of(rounds: &[(u64, u64)]) -> Vec<Message> {
        let mut history = vec![message(Role::User, 50, 0)];
        for (i, (call, result)) in rounds.iter().enumerate() {
            history.extend([
                message(Role::Assistant, *call, i),
                message(Role::Tool, *result, i),
            ]);
        }
        history
    }

    #[test]
    fn a_loop_on_one_request_keeps_the_request_and_the_newest_rounds() {
        let budget = TokenBudget::new(16_384, None, None);
        let history = loop_of(&[(100, 700); 30]);
        let plan = plan_compaction(&history, &CompactionSizes::of(&budget, 500), None).unwrap();
        assert_eq!((plan.pinned.clone(), plan.reductions.len()), (vec![0], 0));
        assert!(plan.planned_tokens <= budget.target && plan.tail > 40);
        assert_eq!(plan.summarise, (1..plan.tail).collect::<Vec<_>>());
    }

    #[test]
    fn one_giant_result_is_shrunk_where_it_stands() {
        let budget = TokenBudget::new(16_384, None, None);
        let history = loop_of(&[(100, 90_000)]);
        let plan = plan_compaction(&history, &CompactionSizes::of(&budget, 500), None).unwrap();
        assert_eq!(
            plan.reductions,
            [Reduction {
                index: 2,
                part: Part::Content,
                max_tokens: 1_000
            }]
        );
        assert!(plan.summarise.is_empty());
    }

    #[test]
    fn a_giant_request_is_shrunk_last_and_never_dropped() {
        let budget = TokenBudget::new(8_192, None, None);
        let mut history = loop_of(&[(100, 900)]);
        history[0].tokens = 50_000;
        let plan = plan_compaction(&history, &CompactionSizes::of(&budget, 500), None).unwrap();
        assert!(plan.pinned == [0] || plan.tail == 0);
        assert!(plan.reductions.iter().any(|r| r.index == 0));
    }

    #[test]
    fn what_cannot_shrink_is_named() {
        let budget = TokenBudget::new(8_192, None, None);
        let error = plan_compaction(
            &loop_of(&[(10, 10)]),
            &CompactionSizes::of(&budget, 60_000),
            None,
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("system prompt and tool schemas 60000"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn a_plan_fits_or_says_why(rounds in prop::collection::vec((5u64..3_000, 5u64..60_000), 1..40), w in 8_192u64..200_000, overhead in 0u64..3_000) {
            let budget = TokenBudget::new(w, None, None);
            let history = loop_of(&rounds);
            let sizes = CompactionSizes::of(&budget, overhead);
            let plan = plan_compaction(&history, &sizes, None);
            prop_assert!(plan.is_ok());
            let plan = plan.unwrap();
            prop_assert!(plan.planned_tokens <= budget.target);
            prop_assert!(plan.tail == 0 || plan.pinned.contains(&0));
        }
    }
}
