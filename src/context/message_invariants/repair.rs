//! The least change that makes a history valid for a provider (spec 5, R5).
//!
//! - I1 deterministic: the same history gives the same ids and texts, so the provider's prompt cache holds;
//! - I2 idempotent: a repaired history is repaired to itself;
//! - I3 in both directions: a call without a result gets one that says its outcome is unknown; a result without a call goes;
//! - I4 what is valid is not touched, and results keep their order.
//!
//! The outcome is data ([`Slot`]s in the new order); the adapter builds messages from it. The transcript is never rewritten.

use super::pairs::{CallRef, Pairs, active_loop_start, has_thinking, pair};
use super::validate::{
    Provider, has_trailing_thinking, has_unsigned_thinking, is_blank, loop_without_leading_thinking,
};
use crate::context::message::{Block, Content, Message, Origin, Role};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The result of a call that has none: nobody cancelled it, and it may have run.
pub const OUTCOME_UNKNOWN: &str = "No result was recorded for this call: the run was interrupted. The outcome is unknown and the tool may have run; \
     check its effects before running it again.";
/// The result of a call whose arguments could not be read.
pub const ARGUMENTS_INVALID: &str = "This call was not run: its arguments are not valid JSON.";
/// A user message where a provider demands one.
pub const CONTINUE_FILLER: &str = "[The conversation continues.]";
/// What stands for a blank message that must hold something.
pub const BLANK_FILLER: &str = "(empty)";

/// One change to a kept message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Give a call (and its native block) another id.
    CallId {
        /// Position of the call.
        call: usize,
        /// The new id.
        id: Arc<str>,
    },
    /// Give a call another name.
    CallName {
        /// Position of the call.
        call: usize,
        /// The new name.
        name: Arc<str>,
    },
    /// Point a result at another id.
    ResultId(Arc<str>),
    /// Replace missing, blank or unreadable content by this text.
    Text(&'static str),
    /// Take all thinking blocks out.
    DropThinking,
    /// Take blank text blocks out.
    DropBlankBlocks,
    /// Add an empty `reasoning_content`.
    AddReasoning,
    /// Add Gemini's documented stand-in for a thought signature.
    AddThoughtSignature,
    /// Speak as the user: a system message where none may stand, or a role nobody knows.
    AsUser,
}

/// One place in the repaired list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// A message of the input, with changes.
    Keep {
        /// Its index in the input.
        index: usize,
        /// What changes; empty for "as it is".
        changes: Vec<Change>,
    },
    /// A new result for a call without one.
    MissingResult {
        /// The call.
        call: CallRef,
        /// The call's id, after changes.
        id: Arc<str>,
        /// The call's name, after changes.
        name: Arc<str>,
        /// The text.
        text: &'static str,
    },
    /// A new user message.
    UserFiller,
}

/// A repair: the new list, and what went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The new list.
    pub slots: Vec<Slot>,
    /// Indexes of messages left out: results without a call, results too many, messages with nothing in them.
    pub dropped: Vec<usize>,
}

impl Repair {
    /// True if nothing changes.
    pub fn is_noop(&self) -> bool {
        self.dropped.is_empty()
            && self.slots.iter().enumerate().all(|(i, s)| matches!(s, Slot::Keep { index, changes } if *index == i && changes.is_empty()))
    }
}

/// Repairs a history for a provider.
pub fn repair_messages(messages: &[Message], provider: Provider) -> Repair {
    let pairs = pair(messages);
    let ids = new_ids(messages, provider);
    let thinking_mode = messages.iter().any(|m| m.has_reasoning);
    let mut out = Repair {
        slots: Vec::with_capacity(messages.len()),
        dropped: Vec::new(),
    };
    let mut previous: Option<Role> = None;
    let mut seen_other = false;
    for (i, m) in messages.iter().enumerate() {
        if m.role == Role::Tool {
            // Results are placed with their calls; the others answer nothing.
            if pairs.call_of.get(i).copied().flatten().is_none() {
                out.dropped.push(i);
            }
            continue;
        }
        let mut changes = content_changes(m, provider);
        if is_dead(m, provider, &changes) {
            out.dropped.push(i);
            continue;
        }
        let system_inside = m.role == Role::System && seen_other && provider.system_first();
        if m.role == Role::Other || system_inside {
            changes.push(Change::AsUser);
        }
        let role = if m.role == Role::Other || system_inside {
            Role::User
        } else {
            m.role
        };
        if role != Role::System {
            if !seen_other && provider.user_first() && role != Role::User {
                out.slots.push(Slot::UserFiller);
                previous = Some(Role::User);
            }
            seen_other = true;
        }
        if provider == Provider::Gemini
            && !m.tool_calls.is_empty()
            && previous == Some(Role::Assistant)
        {
            out.slots.push(Slot::UserFiller);
        }
        if provider == Provider::DeepSeek
            && thinking_mode
            && role == Role::Assistant
            && !m.tool_calls.is_empty()
            && !m.has_reasoning
        {
            changes.push(Change::AddReasoning);
        }
        let names = call_changes(m, i, provider, &ids, &mut changes);
        out.slots.push(Slot::Keep { index: i, changes });
        previous = Some(role);
        if !m.tool_calls.is_empty() {
            place_results(messages, i, &pairs, &ids, &names, &mut out.slots);
            previous = Some(Role::Tool);
        }
    }
    if !seen_other {
        out.slots.push(Slot::UserFiller);
    }
    mend_running_loop(messages, provider, &mut out.slots);
    out
}

/// What depends on where the running tool loop begins, decided on the list as it will be sent.
fn mend_running_loop(messages: &[Message], provider: Provider, slots: &mut [Slot]) {
    let strips = provider == Provider::Anthropic;
    let signs = provider == Provider::Gemini && messages.iter().any(|m| m.has_thought_signature);
    if !strips && !signs {
        return;
    }
    let view: Vec<Message> = slots
        .iter()
        .filter_map(|slot| apply_slot(messages, slot))
        .collect();
    let strips = strips && loop_without_leading_thinking(&view).is_some();
    for (slot, m) in slots.iter_mut().zip(&view).skip(active_loop_start(&view)) {
        let Slot::Keep { changes, .. } = slot else {
            continue;
        };
        if strips && has_thinking(m) {
            changes.push(Change::DropThinking);
        }
        if signs && !m.tool_calls.is_empty() && !m.has_thought_signature {
            changes.push(Change::AddThoughtSignature);
        }
    }
}

/// Renames calls of a message; returns the names in force.
fn call_changes(
    m: &Message,
    index: usize,
    provider: Provider,
    ids: &HashMap<CallRef, Arc<str>>,
    changes: &mut Vec<Change>,
) -> Vec<Arc<str>> {
    let mut names = Vec::with_capacity(m.tool_calls.len());
    for (call, c) in m.tool_calls.iter().enumerate() {
        if let Some(id) = ids.get(&CallRef {
            message: index,
            call,
        }) {
            changes.push(Change::CallId {
                call,
                id: id.clone(),
            });
        }
        if provider.accepts_tool_name(&c.name) {
            names.push(c.name.clone());
        } else {
            let name: Arc<str> = clean_name(&c.name).into();
            changes.push(Change::CallName {
                call,
                name: name.clone(),
            });
            names.push(name);
        }
    }
    names
}

/// Places the results of a message's calls directly behind it: present ones in their order, then the missing ones.
fn place_results(
    messages: &[Message],
    index: usize,
    pairs: &Pairs,
    ids: &HashMap<CallRef, Arc<str>>,
    names: &[Arc<str>],
    slots: &mut Vec<Slot>,
) {
    let Some(m) = messages.get(index) else { return };
    let answers = pairs.answers.get(index).map_or(&[][..], Vec::as_slice);
    let mut present: Vec<(usize, usize)> = answers
        .iter()
        .enumerate()
        .filter_map(|(c, r)| r.map(|r| (r, c)))
        .collect();
    present.sort_unstable();
    for (result, call) in present {
        let mut changes = Vec::new();
        if let Some(id) = ids.get(&CallRef {
            message: index,
            call,
        }) {
            changes.push(Change::ResultId(id.clone()));
        }
        if let Some(r) = messages.get(result)
            && (matches!(r.content, Content::Missing | Content::Invalid)
                || matches!(&r.content, Content::Blocks(b) if b.is_empty()))
        {
            changes.push(Change::Text(BLANK_FILLER));
        }
        slots.push(Slot::Keep {
            index: result,
            changes,
        });
    }
    for (call, (c, answer)) in m.tool_calls.iter().zip(answers).enumerate() {
        if answer.is_none() {
            let call_ref = CallRef {
                message: index,
                call,
            };
            slots.push(Slot::MissingResult {
                call: call_ref,
                id: ids.get(&call_ref).unwrap_or(&c.id).clone(),
                name: names.get(call).unwrap_or(&c.name).clone(),
                text: if c.arguments_valid {
                    OUTCOME_UNKNOWN
                } else {
                    ARGUMENTS_INVALID
                },
            });
        }
    }
}

fn content_changes(m: &Message, provider: Provider) -> Vec<Change> {
    let mut changes = Vec::new();
    if m.content == Content::Invalid && !m.tool_calls.is_empty() {
        changes.push(Change::Text(""));
    }
    if provider == Provider::Anthropic && (has_unsigned_thinking(m) || has_trailing_thinking(m)) {
        changes.push(Change::DropThinking);
    }
    if provider.refuses_blank() && is_blank(m) && has_blank_block(m) {
        changes.push(Change::DropBlankBlocks);
    }
    changes
}

fn has_blank_block(m: &Message) -> bool {
    matches!(&m.content, Content::Blocks(blocks) if blocks.iter().any(|b| matches!(b, Block::Text { blank: true })))
}

/// Nothing is left of the message for this provider: no content, no calls, nothing a user or tool said.
fn is_dead(m: &Message, provider: Provider, changes: &[Change]) -> bool {
    if !m.tool_calls.is_empty() {
        return false;
    }
    let drops_thinking = changes.contains(&Change::DropThinking);
    let drops_blank = changes.contains(&Change::DropBlankBlocks);
    match &m.content {
        Content::Missing | Content::Invalid => true,
        Content::Text { blank } => *blank && provider.refuses_blank(),
        Content::Blocks(blocks) => {
            let left: Vec<&Block> = blocks
                .iter()
                .filter(|b| match b {
                    Block::Text { blank } => !(*blank && drops_blank),
                    Block::Thinking { .. } => !drops_thinking,
                    _ => true,
                })
                .collect();
            left.is_empty()
                || (provider.refuses_blank()
                    && m.role == Role::Assistant
                    && left.iter().all(|b| matches!(b, Block::Thinking { .. })))
        }
    }
}

/// New ids for calls whose id is missing, repeated or refused. Stable: made from the old id and how often it was seen.
fn new_ids(messages: &[Message], provider: Provider) -> HashMap<CallRef, Arc<str>> {
    let taken: HashSet<&str> = messages
        .iter()
        .flat_map(|m| &m.tool_calls)
        .map(|c| &*c.id)
        .collect();
    let mut ids = HashMap::new();
    let mut used: HashSet<Arc<str>> = HashSet::new();
    for (message, m) in messages.iter().enumerate() {
        if !provider.ids_unique_in_request() {
            used.clear();
        }
        for (call, c) in m.tool_calls.iter().enumerate() {
            if provider.accepts_id(&c.id) && used.insert(c.id.clone()) {
                continue;
            }
            let mut attempt = 1u32;
            let id: Arc<str> = loop {
                let id: Arc<str> = derived_id(&c.id, &c.name, attempt).into();
                if !taken.contains(&*id) && used.insert(id.clone()) {
                    break id;
                }
                attempt = attempt.saturating_add(1);
            };
            ids.insert(CallRef { message, call }, id);
        }
    }
    ids
}

/// An id that every provider accepts, made from what the call is.
fn derived_id(old: &str, name: &str, attempt: u32) -> String {
    // FNV-1a, 64 bit: needs to be stable across versions and machines, not strong.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for b in old
        .bytes()
        .chain([0])
        .chain(name.bytes())
        .chain(attempt.to_le_bytes())
    {
        hash = (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("call_{hash:016x}")
}

fn clean_name(name: &str) -> String {
    let cleaned: String = name
        .chars()
        .take(64)
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if cleaned.is_empty() {
        "unknown_tool".to_owned()
    } else {
        cleaned
    }
}

/// Carries a repair out on the facts: what the adapters do with real messages. For tests and for planning.
pub fn apply(messages: &[Message], repair: &Repair) -> Vec<Message> {
    repair
        .slots
        .iter()
        .filter_map(|slot| apply_slot(messages, slot))
        .collect()
}

fn apply_slot(messages: &[Message], slot: &Slot) -> Option<Message> {
    match slot {
        Slot::Keep { index, changes } => {
            let mut m = messages.get(*index)?.clone();
            for change in changes {
                apply_change(&mut m, change);
            }
            Some(m)
        }
        Slot::MissingResult { id, name, .. } => {
            let mut m = Message::new(Role::Tool);
            m.origin = Origin::Synthetic;
            m.tool_call_id = Some(id.clone());
            m.name = Some(name.clone());
            m.is_error = true;
            Some(m)
        }
        Slot::UserFiller => {
            let mut m = Message::new(Role::User);
            m.origin = Origin::Synthetic;
            Some(m)
        }
    }
}

fn apply_change(m: &mut Message, change: &Change) {
    match change {
        Change::CallId { call, id } => {
            if let Some(c) = m.tool_calls.get_mut(*call) {
                c.id = id.clone();
            }
        }
        Change::CallName { call, name } => {
            if let Some(c) = m.tool_calls.get_mut(*call) {
                c.name = name.clone();
            }
        }
        Change::ResultId(id) => m.tool_call_id = Some(id.clone()),
        Change::Text(_) => m.content = Content::Text { blank: false },
        Change::DropThinking => retain_blocks(m, |b| !matches!(b, Block::Thinking { .. })),
        Change::DropBlankBlocks => retain_blocks(m, |b| !matches!(b, Block::Text { blank: true })),
        Change::AddReasoning => m.has_reasoning = true,
        Change::AddThoughtSignature => m.has_thought_signature = true,
        Change::AsUser => m.role = Role::User,
    }
}

fn retain_blocks(m: &mut Message, keep: impl Fn(&Block) -> bool) {
    if let Content::Blocks(blocks) = &mut m.content {
        blocks.retain(keep);
    }
}
