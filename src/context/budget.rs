//! The budget of a window: limits, thresholds, levels, and the clamps that every absolute number of the plan obeys.
//!
//! Invariants:
//! - I1 `auto` is positive, monotone and continuous in the window, for every window (plan M0, spec 1).
//! - I2 a [`TokenBudget`] never acts on a threshold below the small-window value, whatever was passed; it tells so
//!   (`raised`), so that 20 000 and 13 000 for a 32K model don't compact on every turn.
//! - I3 `warn <= auto <= hard`, and what a compaction may keep lies well below `auto` (policies 5.1).

use crate::limits;

/// Tokens that may be sent: the window less what a summary's output needs, at least 1 (plan M0).
pub fn effective_context_limit(token_limit: u64, reserved_summary_tokens: u64) -> u64 {
    token_limit.saturating_sub(reserved_summary_tokens).max(1)
}

/// The threshold at which auto compact fires, in tokens (plan M0).
///
/// With both arguments absent, windows below 65 536 get the small-window value. Explicit arguments are taken literally
/// (at least 1).
pub fn auto_compact_threshold(
    token_limit: u64,
    reserved_summary_tokens: Option<u64>,
    buffer_tokens: Option<u64>,
) -> u64 {
    let reserved = reserved_summary_tokens.unwrap_or(limits::SUMMARY_RESERVED_TOKENS);
    let buffer = buffer_tokens.unwrap_or(limits::AUTOCOMPACT_BUFFER_TOKENS);
    let literal = effective_context_limit(token_limit, reserved)
        .saturating_sub(buffer)
        .max(1);
    if reserved_summary_tokens.is_none() && buffer_tokens.is_none() {
        literal.max(small_window_threshold(token_limit))
    } else {
        literal
    }
}

/// The least threshold that makes sense for a window: min(0.7·W, 32 536), at least 1 (spec 1).
pub fn small_window_threshold(token_limit: u64) -> u64 {
    share(token_limit, limits::SMALL_WINDOW_FRACTION).clamp(1, limits::SMALL_WINDOW_MAX_THRESHOLD)
}

/// How full the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Below every level.
    Ok,
    /// The user should know.
    Warn,
    /// Compact now.
    Auto,
    /// Compact even with the breaker open, without an LLM.
    Hard,
}

impl Level {
    /// The level's name: `ok`, `warn`, `auto` or `hard`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Auto => "auto",
            Self::Hard => "hard",
        }
    }
}

/// Every number of one window, in tokens (policies 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBudget {
    /// The model's window.
    pub token_limit: u64,
    /// The window less the reserve for a summary.
    pub effective_context_limit: u64,
    /// The user is told from here on.
    pub warn: u64,
    /// Auto compact fires from here on.
    pub auto: u64,
    /// Compaction happens from here on whatever the breaker says.
    pub hard: u64,
    /// A compaction's result lies below this.
    pub target: u64,
    /// A compaction keeps at least about this much verbatim.
    pub keep_min: u64,
    /// … and at most about this much.
    pub keep_max: u64,
    /// One read may add this much.
    pub read_max: u64,
    /// The tool results of one assistant message may add this much.
    pub aggregate_max: u64,
    /// A session-memory summary may take this much.
    pub memory_max: u64,
    /// User messages kept verbatim may take this much.
    pub user_messages_max: u64,
    /// A summary may take this much.
    pub summary_max: u64,
    /// True if the arguments asked for a threshold below the small-window value.
    pub raised: bool,
}

impl TokenBudget {
    /// The budget of a window. Absent arguments take the plan's defaults.
    pub fn new(
        token_limit: u64,
        reserved_summary_tokens: Option<u64>,
        buffer_tokens: Option<u64>,
    ) -> Self {
        let reserved = reserved_summary_tokens.unwrap_or(limits::SUMMARY_RESERVED_TOKENS);
        let literal = auto_compact_threshold(token_limit, reserved_summary_tokens, buffer_tokens);
        let least = small_window_threshold(token_limit);
        let auto = literal.max(least);
        let keep_max = limits::PRESERVE_MAX_TOKENS.min(share(auto, limits::KEEP_MAX_FRACTION));
        Self {
            token_limit,
            effective_context_limit: effective_context_limit(token_limit, reserved),
            warn: auto - limits::WARN_MARGIN_TOKENS.min(share(auto, limits::WARN_MARGIN_FRACTION)),
            auto,
            hard: auto.max(
                token_limit.saturating_sub(reserved.saturating_add(limits::HARD_MARGIN_TOKENS)),
            ),
            target: share(auto, limits::TARGET_FRACTION),
            keep_min: limits::PRESERVE_MIN_TOKENS
                .min(share(auto, limits::KEEP_MIN_FRACTION))
                .min(keep_max),
            keep_max,
            read_max: share(auto, limits::READ_FRACTION),
            aggregate_max: share(auto, limits::AGGREGATE_FRACTION),
            memory_max: share(auto, limits::MEMORY_FRACTION),
            user_messages_max: limits::USER_MESSAGES_TOKENS
                .min(share(auto, limits::MEMORY_FRACTION)),
            summary_max: reserved
                .min(limits::SUMMARY_RESERVED_TOKENS)
                .min(share(auto, limits::MEMORY_FRACTION)),
            raised: literal < least,
        }
    }

    /// The most that a view may fill: the window less room for an answer.
    pub fn ceiling(&self) -> u64 {
        let room =
            limits::OUTPUT_ROOM_TOKENS.max(share(self.token_limit, limits::OUTPUT_ROOM_FRACTION));
        self.token_limit.saturating_sub(room)
    }

    /// The budget for a request of which `fixed` tokens (system prompt, tool schemas) stay in every view.
    ///
    /// Where they leave the conversation less than half of the threshold, the threshold moves up towards the ceiling and the
    /// target is half-way between them: otherwise a large system prompt in a small window would compact on every turn.
    pub fn adapted_to(&self, fixed: u64) -> Self {
        if fixed <= share(self.auto, limits::FIXED_MAX_FRACTION) {
            return *self;
        }
        let ceiling = self.ceiling().max(self.auto);
        let auto = self
            .auto
            .max(ceiling.min(fixed.saturating_add(self.auto / 2)));
        let free = auto.saturating_sub(fixed);
        // Half of the free room stays free after a compaction, so that the next one is some turns away.
        let of_free = |fraction| share(free / 2, fraction / limits::TARGET_FRACTION);
        Self {
            warn: self
                .warn
                .max(auto - share(auto, limits::WARN_MARGIN_FRACTION).min(free / 2)),
            auto,
            hard: self.hard.max(auto),
            target: fixed.saturating_add(free / 2).min(auto),
            keep_min: self.keep_min.min(of_free(limits::KEEP_MIN_FRACTION)),
            keep_max: self.keep_max.min(of_free(limits::KEEP_MAX_FRACTION)),
            read_max: self.read_max.min(share(free, limits::READ_FRACTION)),
            aggregate_max: self
                .aggregate_max
                .min(share(free, limits::AGGREGATE_FRACTION)),
            memory_max: self.memory_max.min(of_free(limits::MEMORY_FRACTION)),
            user_messages_max: self.user_messages_max.min(of_free(limits::MEMORY_FRACTION)),
            summary_max: self.summary_max.min(of_free(limits::MEMORY_FRACTION)),
            ..*self
        }
    }

    /// How full the window is with this many tokens.
    pub fn level(&self, tokens: u64) -> Level {
        match tokens {
            t if t >= self.hard => Level::Hard,
            t if t >= self.auto => Level::Auto,
            t if t >= self.warn => Level::Warn,
            _ => Level::Ok,
        }
    }
}

/// A share of a token figure, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "fractions lie in 0..=1 and token figures far below 2^52; a float cast saturates"
)]
pub fn share(tokens: u64, fraction: f64) -> u64 {
    ((tokens as f64 * fraction) as u64).min(tokens)
}

/// What the provider reported for one request, in tokens, cache reads included in `input`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}

/// Where an anchored total came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The provider's figure plus our count of what came after it.
    Reported,
    /// Our own count: nothing was reported, or the figure cannot belong to this history.
    Counted,
}

/// A total and where it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// Tokens of the next request.
    pub tokens: u64,
    /// Where the figure came from.
    pub source: Source,
    /// Reported over counted for the same prefix, when a figure was used.
    pub ratio: Option<f64>,
}

/// The total of a history, anchored on the provider's own figure where there is a trustworthy one (spec 1, policies 5.1).
///
/// - `counts`: our count per message, `overhead`: system prompt and tool schemas.
/// - `anchor`: position of the assistant message that carries the usage of its own, single request.
/// - `removed`: what was cleared from the prefix since that request, by our count.
///
/// A figure outside of 0.5 to 2 times our count of the same prefix, or above the window, is not of this prefix (it comes from
/// before a boundary, or sums several calls) and is not used.
#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio of token figures needs no more than 52 bits"
)]
pub fn anchored_total(
    counts: &[u64],
    overhead: u64,
    anchor: Option<(usize, Usage)>,
    removed: u64,
    token_limit: u64,
) -> Total {
    let counted = counts.iter().fold(overhead, |a, b| a.saturating_add(*b));
    let fallback = Total {
        tokens: counted,
        source: Source::Counted,
        ratio: None,
    };
    let Some((index, usage)) = anchor else {
        return fallback;
    };
    let Some((prefix, rest)) = counts.split_at_checked(index.saturating_add(1)) else {
        return fallback;
    };
    let same_prefix = prefix
        .iter()
        .fold(overhead, |a, b| a.saturating_add(*b))
        .saturating_add(removed)
        .max(1);
    let reported = usage.input.saturating_add(usage.output);
    let ratio = reported as f64 / same_prefix as f64;
    if !(0.5..=2.0).contains(&ratio) || reported > token_limit {
        return fallback;
    }
    let after = rest.iter().fold(0u64, |a, b| a.saturating_add(*b));
    Total {
        tokens: reported.saturating_sub(removed).saturating_add(after),
        source: Source::Reported,
        ratio: Some(ratio),
    }
}

/// One step of the calibration of an estimator by reported usage: a slow average, clamped (policies 5.1).
pub fn calibrate(factor: f64, ratio: f64) -> f64 {
    let step = (0.2 * (factor * ratio - factor)).clamp(-0.15, 0.15);
    (factor + step).clamp(0.5, 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_plan_s_thresholds() {
        let t = |w| auto_compact_threshold(w, None, None);
        assert_eq!(
            [t(131_072), t(65_536), t(50_000), t(32_768), t(8_192), t(0)],
            [98_072, 32_536, 32_536, 22_937, 5_734, 1]
        );
        assert_eq!(effective_context_limit(131_072, 20_000), 111_072);
    }

    #[test]
    fn explicit_arguments_are_literal_but_a_budget_does_not_act_on_them() {
        assert_eq!(
            auto_compact_threshold(32_768, Some(20_000), Some(13_000)),
            1
        );
        let b = TokenBudget::new(32_768, Some(20_000), Some(13_000));
        assert_eq!((b.auto, b.raised), (22_937, true));
        assert!(!TokenBudget::new(131_072, Some(20_000), Some(13_000)).raised);
    }

    #[test]
    fn a_reported_figure_counts_only_what_came_after_it() {
        let u = Usage {
            input: 1_000,
            output: 50,
        };
        let t = anchored_total(&[400, 500, 60, 30], 100, Some((2, u)), 0, 131_072);
        assert_eq!((t.tokens, t.source), (1_080, Source::Reported));
        let cleared = anchored_total(&[100, 500, 60, 30], 100, Some((2, u)), 300, 131_072);
        assert_eq!(cleared.tokens, 780);
    }

    #[test]
    fn a_figure_that_cannot_be_of_this_prefix_is_not_used() {
        let u = Usage {
            input: 9_000,
            output: 50,
        };
        assert_eq!(
            anchored_total(&[400, 500], 100, Some((1, u)), 0, 131_072).source,
            Source::Counted
        );
        assert_eq!(
            anchored_total(&[9_000], 0, Some((0, u)), 0, 9_000).source,
            Source::Counted
        );
        assert_eq!(
            anchored_total(&[400], 0, Some((7, u)), 0, 9_000).tokens,
            400
        );
    }

    #[test]
    fn a_large_system_prompt_in_a_small_window_leaves_room_to_work() {
        let budget = TokenBudget::new(16_384, None, None);
        assert_eq!(budget.adapted_to(5_000), budget);
        let adapted = budget.adapted_to(10_878);
        assert_eq!((adapted.auto, adapted.ceiling()), (15_360, 15_360));
        assert!(
            adapted.target > 10_878
                && adapted.target < adapted.auto
                && adapted.hard >= adapted.auto
        );
    }

    proptest! {
        #[test]
        fn an_adapted_budget_stays_ordered(w in 1_024u64..4_000_000, fixed in 0u64..4_000_000) {
            let b = TokenBudget::new(w, None, None).adapted_to(fixed);
            prop_assert!(b.warn <= b.auto && b.auto <= b.hard && b.target <= b.auto && b.auto <= w);
            prop_assert!(b.keep_min <= b.keep_max && b.keep_max <= b.auto);
        }

        #[test]
        fn levels_are_ordered_and_monotone_for_any_window(w in any::<u64>().prop_map(|w| w >> 12), d in 0u64..1_000_000) {
            let (a, b) = (TokenBudget::new(w, None, None), TokenBudget::new(w.saturating_add(d), None, None));
            prop_assert!(a.auto >= 1 && a.warn <= a.auto && a.auto <= a.hard && a.keep_min <= a.keep_max);
            prop_assert!(a.auto <= b.auto);
            prop_assert!(a.keep_max + a.summary_max + a.user_messages_max <= a.auto);
            prop_assert!(w < 16 || a.auto < w);
        }
    }
}
