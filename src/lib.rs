//! The native core of `mt_context`: context management for long-running LangGraph agents.
//!
//! Decisions are pure functions over a small neutral message model; effects live in one folder; the folder listing
//! shows it:
//!
//! | module | what it is | may use |
//! |---|---|---|
//! | [`limits`] | every number of the plan, named, with its unit | nothing |
//! | [`error`] | the one [`Error`](error::Error) enum | nothing |
//! | [`text`] | counting and cutting text, cleaning terminal output | `limits` |
//! | [`tokens`] | exact counting by vocabulary, and the fitted estimator | `text`, `limits`, `error` |
//! | [`context`] | policies: budget, previews, invariants, microcompact, compaction. PURE: no I/O, no clock, no Python | the above |
//! | [`session`] | transcript and artifacts. DURABLE: the only code with effects | the above |
//! | `py` | feature `python`: the only code that knows Python | all |

pub mod context;
pub mod error;
pub mod limits;
pub mod session;
pub mod text;
pub mod tokens;

#[cfg(feature = "python")]
pub mod py;
