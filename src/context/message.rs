//! The neutral message that every policy sees: facts about a message, without its text.
//!
//! Texts stay where they are (in Python, or in a transcript line); what a policy decides on (role, ids, sizes, the shape of the
//! content) is small and is cached by the adapter. So one crossing per message list is cheap, and every policy can be
//! tested and fuzzed without Python.
//!
//! Identity is out of band: [`Origin`] comes from metadata or a record's type, never from a text that looks like one of
//! our tags.

use std::sync::Arc;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// System or developer instructions.
    System,
    /// The user (LangChain's `human`).
    User,
    /// The model (LangChain's `ai`).
    Assistant,
    /// A tool's result.
    Tool,
    /// Anything else; passed through untouched.
    Other,
}

impl Role {
    /// The role's name in OpenAI's terms.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other => "other",
        }
    }
}

/// What a message is to us. Known by metadata only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// An ordinary message.
    #[default]
    Plain,
    /// A compaction's boundary.
    Boundary,
    /// A conversation summary that follows a boundary.
    Summary,
    /// A session-memory summary that follows a boundary.
    MemorySummary,
    /// A tool result whose content was cleared by microcompact.
    Cleared,
    /// A tool result whose full text is in an artifact; the message holds a preview.
    Persisted,
    /// A message that `repair_messages` made.
    Synthetic,
    /// A message that the host put in on its own account, such as a session context; sent to the model, but no request of the user.
    Host,
}

/// One tool call of an assistant message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id; may be empty, repeated, or of any length.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// False if the arguments are not a JSON object (LangChain's `invalid_tool_calls`).
    pub arguments_valid: bool,
}

/// One block of list content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text; true if it is empty or white space.
    Text {
        /// True if there is nothing but white space.
        blank: bool,
    },
    /// Model thinking (Anthropic `thinking`, `redacted_thinking`); true if it carries a signature or encrypted data.
    Thinking {
        /// Whether the provider can verify it.
        signed: bool,
    },
    /// A provider-native tool call block with its id.
    ToolUse(Arc<str>),
    /// A server-side tool call or result: its pair lies inside the same message and is left alone.
    Server,
    /// An image, audio or document.
    Media,
    /// Anything else.
    Other,
}

/// The shape of a message's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// `None`.
    #[default]
    Missing,
    /// A string; `blank` if there is nothing but white space.
    Text {
        /// True if there is nothing but white space.
        blank: bool,
    },
    /// A list of blocks.
    Blocks(Vec<Block>),
    /// Something no provider accepts (a number, a dict).
    Invalid,
}

/// The facts of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message id, if it has one. Chunks of one API message share it.
    pub id: Option<Arc<str>>,
    /// Who speaks.
    pub role: Role,
    /// What it is to us.
    pub origin: Origin,
    /// Shape of the content.
    pub content: Content,
    /// Calls of an assistant message, in order, invalid ones last.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<Arc<str>>,
    /// The tool's name on a tool message; a participant's name elsewhere.
    pub name: Option<Arc<str>>,
    /// A tool result with an error status.
    pub is_error: bool,
    /// Whether a reasoning text is attached (`reasoning_content`, even if empty).
    pub has_reasoning: bool,
    /// Whether the first call carries a Gemini thought signature.
    pub has_thought_signature: bool,
    /// Tokens the message costs, its calls included.
    pub tokens: u64,
    /// Tokens of its tool calls alone.
    pub call_tokens: u64,
    /// Characters of its text.
    pub chars: u64,
    /// When it was made, in ms since the epoch.
    pub timestamp_ms: Option<i64>,
}

impl Message {
    /// A message of this role with nothing in it.
    pub fn new(role: Role) -> Self {
        Self {
            id: None,
            role,
            origin: Origin::Plain,
            content: Content::Text { blank: false },
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            is_error: false,
            has_reasoning: false,
            has_thought_signature: false,
            tokens: 0,
            call_tokens: 0,
            chars: 0,
            timestamp_ms: None,
        }
    }

    /// True for a real request of the user: not a boundary, a summary or a synthetic filler.
    pub fn is_user_request(&self) -> bool {
        self.role == Role::User && self.origin == Origin::Plain
    }
}
