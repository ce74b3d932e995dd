//! Which tool results are too large for the model's view (plan M2, spec 3, policies 5.2).
//!
//! - I1 sizes are characters of the text that the model would see;
//! - I2 "already persisted" is a fact that the caller passes, never read from a text;
//! - I3 the aggregate plan depends on the batch alone, not on the order in which results came in;
//! - I4 nothing is persisted that would not become clearly smaller.

use super::budget::TokenBudget;
use crate::limits;
use std::collections::BTreeMap;

/// Limits per tool and per assistant message, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResultPolicy {
    /// Limit of tools that are not named.
    pub default_chars: u64,
    /// Limits by tool name; `None` for tools that limit themselves.
    pub by_tool: BTreeMap<String, Option<u64>>,
    /// Limit of the results of one assistant message together.
    pub aggregate_chars: u64,
    /// Size of a preview.
    pub preview_chars: usize,
    /// Length of a preview in lines.
    pub preview_lines: usize,
}

impl Default for ToolResultPolicy {
    fn default() -> Self {
        let mut by_tool = BTreeMap::new();
        by_tool.insert("grep".to_owned(), Some(limits::GREP_MAX_CHARS));
        for shell in [
            "shell",
            "bash",
            "powershell",
            "run_shell",
            "execute",
            "run_command",
        ] {
            by_tool.insert(shell.to_owned(), Some(limits::SHELL_MAX_CHARS));
        }
        // They page on their own; persisting what was read back would make a loop (bug case 13).
        for reader in ["read_file", "recall"] {
            by_tool.insert(reader.to_owned(), None);
        }
        Self {
            default_chars: limits::DEFAULT_MAX_RESULT_CHARS,
            by_tool,
            aggregate_chars: limits::AGGREGATE_MAX_CHARS,
            preview_chars: limits::PREVIEW_MAX_CHARS,
            preview_lines: limits::PREVIEW_MAX_LINES,
        }
    }
}

/// Characters that a token of tool output has at least: what a limit in tokens allows in characters without counting.
const CHARS_PER_TOKEN: u64 = 2;

impl ToolResultPolicy {
    /// The plan's limits, clamped by a window: one result at most a quarter, a batch at most 0.35 of the threshold (policies 5.1).
    pub fn for_budget(budget: &TokenBudget) -> Self {
        let mut policy = Self::default();
        let one = budget
            .read_max
            .saturating_mul(CHARS_PER_TOKEN)
            .max(limits::AGGREGATE_FLOOR_CHARS);
        policy.default_chars = policy.default_chars.min(one);
        for limit in policy.by_tool.values_mut().flatten() {
            *limit = (*limit).min(one);
        }
        let batch = budget
            .aggregate_max
            .saturating_mul(CHARS_PER_TOKEN)
            .max(limits::AGGREGATE_FLOOR_CHARS);
        policy.aggregate_chars = policy.aggregate_chars.min(batch);
        policy.preview_chars = policy
            .preview_chars
            .min(usize::try_from(one / 2).unwrap_or(usize::MAX))
            .max(1_000);
        policy
    }

    /// The limit of a tool; `None` if it limits itself.
    pub fn limit(&self, tool: &str) -> Option<u64> {
        match self
            .by_tool
            .get(tool)
            .or_else(|| self.by_tool.get(tool.to_ascii_lowercase().as_str()))
        {
            Some(limit) => *limit,
            None => Some(self.default_chars),
        }
    }

    /// Whether a single result must become a preview.
    pub fn exceeds(&self, tool: &str, chars: u64) -> bool {
        self.limit(tool).is_some_and(|limit| chars > limit) && self.is_worth_it(chars)
    }

    fn is_worth_it(&self, chars: u64) -> bool {
        chars >= (self.preview_chars as u64).saturating_add(limits::PERSIST_MIN_SAVED_CHARS)
    }
}

/// One result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Characters that the model would see.
    pub chars: u64,
    /// A preview already, or otherwise not to be touched.
    pub settled: bool,
}

/// Which results of one assistant message become previews so that all together fit: the largest first, of equals the earlier call; results
/// of tools that limit themselves only when nothing else is left. Indexes into `batch`, in its order.
pub fn plan_aggregate(policy: &ToolResultPolicy, batch: &[Candidate<'_>]) -> Vec<usize> {
    let mut total = batch
        .iter()
        .fold(0u64, |sum, c| sum.saturating_add(c.chars));
    let mut order: Vec<(bool, u64, usize)> = batch
        .iter()
        .enumerate()
        .filter(|(_, c)| !c.settled && policy.is_worth_it(c.chars))
        .map(|(i, c)| {
            (
                policy.limit(c.tool).is_none(),
                u64::MAX.saturating_sub(c.chars),
                i,
            )
        })
        .collect();
    order.sort_unstable();
    let mut chosen = Vec::new();
    for (_, inverse, i) in order {
        if total <= policy.aggregate_chars {
            break;
        }
        let chars = u64::MAX.saturating_sub(inverse);
        total = total.saturating_sub(chars.saturating_sub(policy.preview_chars as u64));
        chosen.push(i);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(tool: &str, chars: u64) -> Candidate<'_> {
        Candidate {
            tool,
            chars,
            settled: false,
        }
    }

    #[test]
    fn the_plan_s_limits_hold_to_the_character() {
        let p = ToolResultPolicy::default();
        for (tool, limit) in [
            ("grep", 20_000),
            ("shell", 30_000),
            ("bash", 30_000),
            ("Bash", 30_000),
            ("ls", 50_000),
        ] {
            assert_eq!(
                [limit - 1, limit, limit + 1].map(|n| p.exceeds(tool, n)),
                [false, false, true],
                "{tool}"
            );
        }
        assert!(!p.exceeds("read_file", u64::MAX));
    }

    #[test]
    fn the_largest_go_first_and_readers_last() {
        let p = ToolResultPolicy::default();
        let batch = [
            of("grep", 90_000),
            of("ls", 120_000),
            of("read_file", 150_000),
            of("ls", 120_000),
        ];
        assert_eq!(plan_aggregate(&p, &batch), [0, 1, 3]);
        assert_eq!(
            plan_aggregate(&p, &[of("read_file", 150_000), of("read_file", 60_000)]),
            [0]
        );
        let settled = Candidate {
            settled: true,
            ..of("ls", 190_000)
        };
        assert_eq!(plan_aggregate(&p, &[settled, of("ls", 49_000)]), [1]);
    }

    #[test]
    fn a_small_window_has_smaller_limits() {
        let p = ToolResultPolicy::for_budget(&TokenBudget::new(8_192, None, None));
        assert!(
            p.limit("grep").unwrap() <= 3_000
                && p.aggregate_chars <= 4_100
                && p.preview_chars <= 1_500
        );
        assert_eq!(
            ToolResultPolicy::for_budget(&TokenBudget::new(1 << 20, None, None)),
            ToolResultPolicy::default()
        );
    }

    proptest! {
        #[test]
        fn whatever_the_batch_the_rest_fits_or_nothing_is_left_to_shrink(
            sizes in prop::collection::vec((0u64..300_000, prop::sample::select(vec!["grep", "read_file", "ls"])), 0..40)
        ) {
            let p = ToolResultPolicy::default();
            let batch: Vec<Candidate<'_>> = sizes.iter().map(|(chars, tool)| of(tool, *chars)).collect();
            let chosen = plan_aggregate(&p, &batch);
            let after: u64 = batch.iter().enumerate().map(|(i, c)| if chosen.contains(&i) { p.preview_chars as u64 } else { c.chars }).sum();
            prop_assert!(after <= p.aggregate_chars);
            let mut reversed: Vec<Candidate<'_>> = batch.clone();
            reversed.reverse();
            let sizes_of = |batch: &[Candidate<'_>], chosen: &[usize]| {
                let mut s: Vec<u64> = chosen.iter().map(|i| batch[*i].chars).collect();
                s.sort_unstable();
                s
            };
            prop_assert_eq!(sizes_of(&batch, &chosen), sizes_of(&reversed, &plan_aggregate(&p, &reversed)));
        }
    }
}
