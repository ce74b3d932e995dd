//! Every violation of a provider's rules, by name (spec 5).
//!
//! The rules are those that the providers answer with a 400: `stack.md` B lists their texts. A history with no violation under a
//! profile is accepted for its form by that provider; sizes are the budget's business.

use super::pairs::{Pairs, active_loop_start, has_thinking, pair};
use crate::context::message::{Block, Content, Message, Role};
use std::collections::HashSet;

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI chat completions, and servers that follow them.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// DeepSeek: OpenAI's rules and `reasoning_content` in thinking mode.
    DeepSeek,
    /// Gemini.
    Gemini,
}

impl Provider {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::DeepSeek, Self::Gemini];

    /// The profile's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::DeepSeek => "deepseek",
            Self::Gemini => "gemini",
        }
    }

    /// The profile of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(name))
    }

    /// Whether a call id is acceptable.
    pub fn accepts_id(self, id: &str) -> bool {
        match self {
            Self::OpenAi => !id.is_empty() && id.chars().count() <= 40,
            Self::Anthropic => !id.is_empty() && id.bytes().all(is_name_byte),
            Self::DeepSeek | Self::Gemini => !id.is_empty(),
        }
    }

    /// Whether a tool's name is acceptable.
    pub fn accepts_tool_name(self, name: &str) -> bool {
        let longest = if matches!(self, Self::Anthropic) {
            128
        } else {
            64
        };
        !name.is_empty()
            && name.len() <= longest
            && name
                .bytes()
                .all(|b| is_name_byte(b) || (self == Self::Gemini && b == b'.'))
    }

    /// Call ids must be unique in the whole request, not only in their message.
    pub fn ids_unique_in_request(self) -> bool {
        matches!(self, Self::Anthropic)
    }

    /// The first message behind the system prompt must be the user's.
    pub fn user_first(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// System messages stand at the start only.
    pub fn system_first(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// Blank messages are refused.
    pub fn refuses_blank(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "`describe` says what each means")]
pub enum Rule {
    EmptyRequest,
    UnknownRole,
    InvalidContent,
    MissingContent,
    BlankContent,
    CallWithoutResult,
    ResultNotBehindCall,
    ResultWithoutCall,
    DuplicateResult,
    DuplicateCallId,
    InvalidCallId,
    InvalidToolName,
    MissingReasoning,
    MissingThinking,
    TrailingThinking,
    UnsignedThinking,
    FirstNotUser,
    SystemNotFirst,
    CallNotBehindUser,
    MissingThoughtSignature,
}

impl Rule {
    /// The rule's name in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyRequest => "empty_request",
            Self::UnknownRole => "unknown_role",
            Self::InvalidContent => "invalid_content",
            Self::MissingContent => "missing_content",
            Self::BlankContent => "blank_content",
            Self::CallWithoutResult => "call_without_result",
            Self::ResultNotBehindCall => "result_not_behind_call",
            Self::ResultWithoutCall => "result_without_call",
            Self::DuplicateResult => "duplicate_result",
            Self::DuplicateCallId => "duplicate_call_id",
            Self::InvalidCallId => "invalid_call_id",
            Self::InvalidToolName => "invalid_tool_name",
            Self::MissingReasoning => "missing_reasoning_content",
            Self::MissingThinking => "missing_thinking",
            Self::TrailingThinking => "trailing_thinking",
            Self::UnsignedThinking => "unsigned_thinking",
            Self::FirstNotUser => "first_not_user",
            Self::SystemNotFirst => "system_not_first",
            Self::CallNotBehindUser => "call_not_behind_user",
            Self::MissingThoughtSignature => "missing_thought_signature",
        }
    }

    /// What the rule demands, in a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::EmptyRequest => "a request holds at least one message that is not the system's",
            Self::UnknownRole => "the role must be system, user, assistant or tool",
            Self::InvalidContent => "content must be a string or a non-empty list of blocks",
            Self::MissingContent => "content may be missing only beside tool calls",
            Self::BlankContent => "content must hold more than white space",
            Self::CallWithoutResult => "every tool call must be answered by a tool message",
            Self::ResultNotBehindCall => {
                "the results must stand directly behind the message that made the calls"
            }
            Self::ResultWithoutCall => "a tool message must answer a call that precedes it",
            Self::DuplicateResult => "a call may be answered only once",
            Self::DuplicateCallId => "call ids must be unique",
            Self::InvalidCallId => {
                "the call id is empty, too long or has characters that the provider refuses"
            }
            Self::InvalidToolName => {
                "the tool name is empty, too long or has characters that the provider refuses"
            }
            Self::MissingReasoning => {
                "assistant turns with tool calls must carry reasoning_content in thinking mode"
            }
            Self::MissingThinking => "a tool loop with thinking must begin with a thinking block",
            Self::TrailingThinking => "a thinking block may not be the last block of a message",
            Self::UnsignedThinking => "a thinking block must carry its signature",
            Self::FirstNotUser => "the first message must be the user's",
            Self::SystemNotFirst => "system messages must stand at the start",
            Self::CallNotBehindUser => {
                "a function call turn must follow a user or a function response turn"
            }
            Self::MissingThoughtSignature => {
                "function calls of the running turn must carry their thought signature"
            }
        }
    }
}

/// One violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The message's index; the list's length for what is missing at the end.
    pub index: usize,
    /// The broken rule.
    pub rule: Rule,
}

/// All violations of a provider's rules, in order of the messages.
pub fn validate_messages(messages: &[Message], provider: Provider) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |index, rule| found.push(Violation { index, rule });
    let pairs = pair(messages);
    if !messages.iter().any(|m| m.role != Role::System) {
        report(messages.len(), Rule::EmptyRequest);
    }
    let thinking_mode = provider == Provider::DeepSeek && messages.iter().any(|m| m.has_reasoning);
    for (i, m) in messages.iter().enumerate() {
        content_rules(i, m, provider, thinking_mode, &mut report);
        call_rules(&pairs, messages, i, m, provider, &mut report);
    }
    unique_ids(messages, provider, &mut report);
    order_rules(messages, provider, &mut report);
    if provider == Provider::Anthropic {
        thinking_rules(messages, &mut report);
    }
    found.sort_by_key(|v| (v.index, v.rule.name()));
    found.dedup();
    found
}

fn content_rules(
    i: usize,
    m: &Message,
    provider: Provider,
    thinking_mode: bool,
    report: &mut impl FnMut(usize, Rule),
) {
    if m.role == Role::Other {
        report(i, Rule::UnknownRole);
    }
    match &m.content {
        Content::Invalid => report(i, Rule::InvalidContent),
        Content::Blocks(blocks) if blocks.is_empty() && !may_be_empty(m) => {
            report(i, Rule::InvalidContent)
        }
        Content::Missing if !may_be_empty(m) => report(i, Rule::MissingContent),
        Content::Blocks(_) | Content::Missing | Content::Text { .. } => {}
    }
    if provider.refuses_blank() && is_blank(m) {
        report(i, Rule::BlankContent);
    }
    if thinking_mode && m.role == Role::Assistant && !m.tool_calls.is_empty() && !m.has_reasoning {
        report(i, Rule::MissingReasoning);
    }
}

fn may_be_empty(m: &Message) -> bool {
    m.role == Role::Assistant && !m.tool_calls.is_empty()
}

/// Nothing but white space, where something is demanded.
pub(super) fn is_blank(m: &Message) -> bool {
    match &m.content {
        // An assistant message with calls may be blank: adapters leave the text block out then. So may a tool result.
        _ if may_be_empty(m) || m.role == Role::Tool => false,
        Content::Text { blank } => *blank,
        // One blank text block is refused even beside others.
        Content::Blocks(blocks) => {
            blocks
                .iter()
                .any(|b| matches!(b, Block::Text { blank: true }))
                || (m.role == Role::Assistant
                    && !blocks.is_empty()
                    && blocks.iter().all(|b| matches!(b, Block::Thinking { .. })))
        }
        Content::Missing | Content::Invalid => false,
    }
}

fn call_rules(
    pairs: &Pairs,
    messages: &[Message],
    i: usize,
    m: &Message,
    provider: Provider,
    report: &mut impl FnMut(usize, Rule),
) {
    for (c, call) in m.tool_calls.iter().enumerate() {
        if !provider.accepts_id(&call.id) {
            report(i, Rule::InvalidCallId);
        }
        if !provider.accepts_tool_name(&call.name) {
            report(i, Rule::InvalidToolName);
        }
        if pairs
            .answers
            .get(i)
            .and_then(|a| a.get(c))
            .copied()
            .flatten()
            .is_none()
        {
            report(i, Rule::CallWithoutResult);
        }
    }
    if m.role != Role::Tool {
        return;
    }
    match pairs.call_of.get(i).copied().flatten() {
        Some(call) => {
            let between = messages
                .get(call.message.saturating_add(1)..i)
                .unwrap_or(&[]);
            if between.iter().any(|m| m.role != Role::Tool) {
                report(i, Rule::ResultNotBehindCall);
            }
        }
        None if pairs.duplicate_of.get(i).copied().flatten().is_some() => {
            report(i, Rule::DuplicateResult)
        }
        None => report(i, Rule::ResultWithoutCall),
    }
}

fn unique_ids(messages: &[Message], provider: Provider, report: &mut impl FnMut(usize, Rule)) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (i, m) in messages.iter().enumerate() {
        if !provider.ids_unique_in_request() {
            seen.clear();
        }
        for call in &m.tool_calls {
            if !call.id.is_empty() && !seen.insert(&call.id) {
                report(i, Rule::DuplicateCallId);
            }
        }
    }
}

fn order_rules(messages: &[Message], provider: Provider, report: &mut impl FnMut(usize, Rule)) {
    let first = messages.iter().position(|m| m.role != Role::System);
    if provider.user_first()
        && let Some(first) = first
        && messages.get(first).is_some_and(|m| m.role != Role::User)
    {
        report(first, Rule::FirstNotUser);
    }
    let mut previous = None;
    for (i, m) in messages.iter().enumerate() {
        if provider.system_first() && m.role == Role::System && first.is_some_and(|f| i > f) {
            report(i, Rule::SystemNotFirst);
        }
        if provider == Provider::Gemini
            && !m.tool_calls.is_empty()
            && previous == Some(Role::Assistant)
        {
            report(i, Rule::CallNotBehindUser);
        }
        previous = Some(m.role);
    }
    if provider == Provider::Gemini && messages.iter().any(|m| m.has_thought_signature) {
        let start = active_loop_start(messages);
        for (i, m) in messages.iter().enumerate().skip(start) {
            if !m.tool_calls.is_empty() && !m.has_thought_signature {
                report(i, Rule::MissingThoughtSignature);
            }
        }
    }
}

fn thinking_rules(messages: &[Message], report: &mut impl FnMut(usize, Rule)) {
    for (i, m) in messages.iter().enumerate() {
        if has_unsigned_thinking(m) {
            report(i, Rule::UnsignedThinking);
        }
        if has_trailing_thinking(m) {
            report(i, Rule::TrailingThinking);
        }
    }
    if let Some(i) = loop_without_leading_thinking(messages) {
        report(i, Rule::MissingThinking);
    }
}

/// A thinking block that the provider cannot verify.
pub(super) fn has_unsigned_thinking(m: &Message) -> bool {
    matches!(&m.content, Content::Blocks(b) if has_thinking(m) && b.iter().any(|b| matches!(b, Block::Thinking { signed: false })))
}

/// The last block that is not blank is thinking, and no call follows it.
pub(super) fn has_trailing_thinking(m: &Message) -> bool {
    let Content::Blocks(blocks) = &m.content else {
        return false;
    };
    let last = blocks
        .iter()
        .rev()
        .find(|b| !matches!(b, Block::Text { blank: true }));
    m.role == Role::Assistant
        && matches!(last, Some(Block::Thinking { .. }))
        && m.tool_calls.is_empty()
}

/// The running tool loop's first assistant message, if the loop has thinking but does not begin with it.
pub(super) fn loop_without_leading_thinking(messages: &[Message]) -> Option<usize> {
    let start = active_loop_start(messages);
    let mut running = messages
        .iter()
        .enumerate()
        .skip(start)
        .filter(|(_, m)| m.role == Role::Assistant);
    let (first, m) = running.next()?;
    (!has_thinking(m) && running.any(|(_, m)| has_thinking(m))).then_some(first)
}
