//! Which old tool results to clear from the view (plan M7, spec 6).
//!
//! - I1 only results of the named tools, never one that is cleared already;
//! - I2 the most recent results stay;
//! - I3 idempotent: on the same messages a second decision clears nothing more;
//! - I4 under pressure nothing happens for a small gain: a little on every turn would break the provider's prompt cache.
//!
//! Transcript and artifacts keep everything; the caller writes an artifact first for results that have none.

use super::budget::TokenBudget;
use super::message::{Message, Origin, Role};
use crate::limits;

/// Tools whose old results may be cleared (plan M7).
pub const COMPACTABLE_TOOL_NAMES: [&str; 7] = [
    "read_file",
    "grep",
    "glob",
    "ls",
    "edit_file",
    "write_file",
    "shell",
];

/// Tokens of the text that replaces a cleared result, path included.
pub const PLACEHOLDER_TOKENS: u64 = 45;

/// When the model last spoke, in ms since the epoch.
pub fn find_last_assistant_timestamp_ms(messages: &[Message]) -> Option<i64> {
    messages
        .iter()
        .rev()
        .find_map(|m| m.timestamp_ms.filter(|_| m.role == Role::Assistant))
}

/// True when the pause since the model last spoke is long enough. A clock that ran backwards never triggers.
pub fn gap_reached(now_ms: i64, last_assistant_ms: Option<i64>, gap_minutes: u64) -> bool {
    let gap_ms = i64::try_from(gap_minutes.saturating_mul(60_000)).unwrap_or(i64::MAX);
    // 0 is what hosts store for "never".
    last_assistant_ms
        .filter(|last| *last > 0)
        .is_some_and(|last| now_ms.saturating_sub(last) >= gap_ms)
}

/// Which results a long pause clears: all of the named tools but the most recent `keep_recent`. Indexes in order.
pub fn time_based<'a>(
    messages: &[Message],
    tools: impl Fn(&str) -> bool + 'a,
    keep_recent: usize,
) -> Vec<usize> {
    let compactable: Vec<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, m)| is_compactable(m, &tools))
        .map(|(i, _)| i)
        .collect();
    let cleared = compactable.len().saturating_sub(keep_recent);
    compactable.into_iter().take(cleared).collect()
}

/// What clearing under pressure would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PressurePlan {
    /// Results to clear, in order; empty when the gain is too small.
    pub clear: Vec<usize>,
    /// Tokens won.
    pub gain: u64,
    /// Whether the view is then below its target, so that no summary is needed.
    pub reaches_target: bool,
}

/// Which results to clear when the threshold is reached, before any LLM is asked (policies 5.4).
///
/// `total` is the size of the next request. The newest 40 000 tokens and two user turns are left alone (clamped by the window), and so
/// are results hardly longer than the placeholder. A failed result is left alone within the protected turns, like everything there.
pub fn under_pressure(
    messages: &[Message],
    total: u64,
    budget: &TokenBudget,
    tools: impl Fn(&str) -> bool,
) -> PressurePlan {
    let protect_tokens = limits::PRESSURE_PROTECT_TOKENS.min(budget.keep_max);
    let protected_from = protected_start(messages, protect_tokens);
    let mut plan = PressurePlan::default();
    for (i, m) in messages.iter().enumerate().take(protected_from) {
        if is_compactable(m, &tools)
            && m.chars > placeholder_chars().saturating_add(limits::PRESSURE_MIN_RESULT_CHARS)
        {
            plan.clear.push(i);
            plan.gain = plan
                .gain
                .saturating_add(m.tokens.saturating_sub(PLACEHOLDER_TOKENS));
        }
    }
    let min_gain = limits::PRESSURE_MIN_GAIN_TOKENS.min(super::budget::share(
        budget.auto,
        limits::PRESSURE_MIN_GAIN_FRACTION,
    ));
    if plan.gain < min_gain.max(1) {
        return PressurePlan::default();
    }
    plan.reaches_target = total.saturating_sub(plan.gain) <= budget.target;
    plan
}

/// Where the protected part begins: the newest tokens, and the last user turns as far as they are no larger than that.
fn protected_start(messages: &[Message], protect_tokens: u64) -> usize {
    let mut kept = 0u64;
    let mut turns = 0usize;
    for (i, m) in messages.iter().enumerate().rev() {
        kept = kept.saturating_add(m.tokens);
        if kept > protect_tokens
            && (turns >= limits::PRESSURE_PROTECT_TURNS || kept > protect_tokens.saturating_mul(2))
        {
            return i.saturating_add(1);
        }
        turns = turns.saturating_add(usize::from(m.is_user_request()));
    }
    0
}

fn is_compactable(m: &Message, tools: &impl Fn(&str) -> bool) -> bool {
    m.role == Role::Tool && m.origin != Origin::Cleared && m.name.as_deref().is_some_and(tools)
}

fn placeholder_chars() -> u64 {
    // The plan's text and a line with a path; a figure, not a rendering: markers.rs renders.
    180
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> bool {
        COMPACTABLE_TOOL_NAMES.contains(&name)
    }

    fn result(name: &str, tokens: u64) -> Message {
        let mut m = Message::new(Role::Tool);
        m.name = Some(name.into());
        m.tokens = tokens;
        m.chars = tokens * 4;
        m
    }

    #[test]
    fn a_pause_of_an_hour_clears_all_but_the_recent_five() {
        assert!(
            !gap_reached(3_599_999 + 5, Some(5), 60) && gap_reached(3_600_000 + 5, Some(5), 60)
        );
        let mut history: Vec<Message> = (0..8).map(|_| result("grep", 10)).collect();
        history.insert(3, result("recall", 10));
        assert_eq!(time_based(&history, named, 5), [0, 1, 2]);
        for i in [0, 1, 2] {
            history[i].origin = Origin::Cleared;
        }
        assert!(
            time_based(&history, named, 5).is_empty(),
            "a second decision clears nothing more"
        );
    }

    #[test]
    fn a_clock_that_ran_backwards_or_a_missing_time_never_triggers() {
        assert!(!gap_reached(5, Some(i64::MAX), 60));
        assert!(!gap_reached(i64::MAX, None, 60) && !gap_reached(i64::MAX, Some(0), 60));
        assert!(!gap_reached(5, Some(1), u64::MAX));
    }

    #[test]
    fn pressure_waits_for_a_gain_worth_a_broken_cache() {
        let budget = TokenBudget::new(131_072, None, None);
        let user = || {
            let mut m = Message::new(Role::User);
            m.tokens = 10;
            m
        };
        let small: Vec<Message> = [
            result("grep", 5_000),
            user(),
            user(),
            user(),
            result("grep", 60_000),
        ]
        .into();
        assert_eq!(
            under_pressure(&small, 98_072, &budget, named),
            PressurePlan::default()
        );
        let large: Vec<Message> = [
            result("grep", 45_000),
            user(),
            result("recall", 30_000),
            user(),
            user(),
            result("grep", 41_000),
        ]
        .into();
        let plan = under_pressure(&large, 116_000, &budget, named);
        assert_eq!(
            (plan.clear, plan.gain, plan.reaches_target),
            (vec![0], 44_955, false)
        );
    }

    proptest! {
        #[test]
        fn clearing_is_idempotent(tokens in prop::collection::vec((0u64..9_000, any::<bool>()), 0..60), keep in 0usize..7) {
            let mut history: Vec<Message> =
                tokens.iter().map(|(t, user)| if *user { Message::new(Role::User) } else { result("ls", *t) }).collect();
            for i in time_based(&history, named, keep) {
                history[i].origin = Origin::Cleared;
            }
            prop_assert!(time_based(&history, named, keep).is_empty());
            let left = history.iter().filter(|m| m.role == Role::Tool && m.origin != Origin::Cleared).count();
            prop_assert!(left <= keep);
        }
    }
}
