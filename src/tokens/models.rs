//! What we know about a model by its name: its encoding and its context window.
//!
//! Names are matched by their longest known beginning, case-insensitive, without provider prefixes (`openrouter/openai/`,
//! `us.anthropic.`, `ft:`) and whatever the suffix (dates, `-instruct`, `:free`). An unknown name gives `None`, never a guess.
//!
//! Windows are what the vendors' model pages and published model configurations state, and the smaller figure where a
//! family or its usual serving has several: too small costs an early compaction, too large a refused request. The host
//! can always pass the real one, and the provider's error text corrects ours.

use super::encoding::Encoding;

/// How tokens of a model are counted where its vocabulary is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Exactly, by this encoding.
    Exact(Encoding),
    /// By o200k_base times this many thousandths (`performance.md` 2.2).
    ScaledO200k(u32),
    /// Only by the estimator.
    Unknown,
}

use Counting::{Exact, ScaledO200k, Unknown};
use Encoding::{
    Cl100kBase, DeepSeekV3, Glm4, Glm5, KimiK2, Llama3, MiniMaxM2, O200kBase, P50kBase, Qwen2,
    R50kBase,
};

/// Claude 3 to 4.6, and the generation from 4.8 on, which takes more tokens (`performance.md` 2.2: p50 6.5 % and 7.9 %).
const CLAUDE: Counting = ScaledO200k(1_210);
const CLAUDE_NEW: Counting = ScaledO200k(1_450);
/// Gemini's vocabulary was not measured; a tenth more than o200k errs on the safe side.
const GEMINI: Counting = ScaledO200k(1_100);

const K: u64 = 1_024;

/// Beginning of the name, counting, window in tokens (0: not known).
#[rustfmt::skip]
const MODELS: &[(&str, Counting, u64)] = &[
    // OpenAI: model pages. GPT-5's 400 000 are 272 000 of input and the rest output.
    ("chatgpt-4o", Exact(O200kBase), 128_000),
    ("codex-mini", Exact(O200kBase), 200_000),
    ("gpt-3.5", Exact(Cl100kBase), 16_385),
    ("gpt-3.5-turbo-instruct", Exact(Cl100kBase), 4_096),
    ("gpt-35", Exact(Cl100kBase), 16_385),
    ("gpt-4", Exact(Cl100kBase), 8_192),
    ("gpt-4-0125", Exact(Cl100kBase), 128_000),
    ("gpt-4-1106", Exact(Cl100kBase), 128_000),
    ("gpt-4-32k", Exact(Cl100kBase), 32_768),
    ("gpt-4-turbo", Exact(Cl100kBase), 128_000),
    ("gpt-4-vision", Exact(Cl100kBase), 128_000),
    ("gpt-4.1", Exact(O200kBase), 1_047_576),
    ("gpt-4.5", Exact(O200kBase), 128_000),
    ("gpt-4o", Exact(O200kBase), 128_000),
    ("gpt-5", Exact(O200kBase), 272_000),
    ("gpt-5-chat", Exact(O200kBase), 128_000),
    ("gpt-oss", Exact(O200kBase), 128 * K),
    ("gpt2", Exact(R50kBase), 1_024),
    ("gpt-2", Exact(R50kBase), 1_024),
    ("text-davinci-00", Exact(P50kBase), 4_096),
    ("text-embedding-3", Exact(Cl100kBase), 8_191),
    ("text-embedding-ada", Exact(Cl100kBase), 8_191),
    ("o1", Exact(O200kBase), 200_000),
    ("o1-mini", Exact(O200kBase), 128_000),
    ("o1-preview", Exact(O200kBase), 128_000),
    ("o3", Exact(O200kBase), 200_000),
    ("o4", Exact(O200kBase), 200_000),
    // DeepSeek: V3 and later share a vocabulary; older ones and distillates have another.
    ("deepseek", Exact(DeepSeekV3), 64 * K),
    ("deepseek-chat", Exact(DeepSeekV3), 128 * K),
    ("deepseek-coder", Unknown, 16 * K),
    ("deepseek-coder-v2", Unknown, 128 * K),
    ("deepseek-llm", Unknown, 4 * K),
    ("deepseek-r1", Exact(DeepSeekV3), 128 * K),
    ("deepseek-r1-distill-llama", Exact(Llama3), 128 * K),
    ("deepseek-r1-distill-qwen", Exact(Qwen2), 128 * K),
    ("deepseek-reasoner", Exact(DeepSeekV3), 128 * K),
    ("deepseek-v2", Unknown, 128 * K),
    ("deepseek-v3", Exact(DeepSeekV3), 128 * K),
    ("deepseek-v4", Exact(DeepSeekV3), 128 * K),
    // Qwen: 2 to 3 share a vocabulary, 3.5 has a new one. Native windows, without YaRN.
    ("qwen", Exact(Qwen2), 32 * K),
    ("qwen-flash", Exact(Qwen2), 128 * K),
    ("qwen-plus", Exact(Qwen2), 128 * K),
    ("qwen-turbo", Exact(Qwen2), 128 * K),
    ("qwen3-coder", Exact(Qwen2), 256 * K),
    ("qwen3-max", Exact(Qwen2), 256 * K),
    ("qwen3-next", Exact(Qwen2), 256 * K),
    ("qwen3.5", Unknown, 256 * K),
    ("qwen3.6", Unknown, 256 * K),
    ("qwen4", Unknown, 0),
    ("qwq", Exact(Qwen2), 32 * K),
    ("qvq", Exact(Qwen2), 32 * K),
    // GLM (Zhipu, Z.ai).
    ("chatglm", Unknown, 8 * K),
    ("glm-4", Exact(Glm4), 128 * K),
    ("glm-4.6", Exact(Glm4), 200_000),
    ("glm-4.7", Exact(Glm4), 200_000),
    ("glm-5", Exact(Glm5), 200_000),
    ("glm-z1", Exact(Glm4), 32 * K),
    ("glm4", Exact(Glm4), 128 * K),
    ("glm5", Exact(Glm5), 200_000),
    // Kimi (Moonshot).
    ("kimi", Exact(KimiK2), 128 * K),
    ("kimi-k2-0905", Exact(KimiK2), 256 * K),
    ("kimi-k2-thinking", Exact(KimiK2), 256 * K),
    ("kimi-k2.5", Exact(KimiK2), 256 * K),
    ("kimi-k2.6", Exact(KimiK2), 256 * K),
    ("kimi-k3", Exact(KimiK2), 256 * K),
    ("moonshot", Exact(KimiK2), 8 * K),
    ("moonshot-v1-128k", Exact(KimiK2), 128 * K),
    ("moonshot-v1-32k", Exact(KimiK2), 32 * K),
    // MiniMax: M2 and M3 share a vocabulary.
    ("minimax-m1", Unknown, 1_000_000),
    ("minimax-m2", Exact(MiniMaxM2), 192 * K),
    ("minimax-m3", Exact(MiniMaxM2), 192 * K),
    ("minimax-text", Unknown, 1_000_000),
    // Anthropic: 200 000 without the opt-in for a million.
    ("claude", CLAUDE_NEW, 200_000),
    ("claude-2", CLAUDE, 100_000),
    ("claude-2.1", CLAUDE, 200_000),
    ("claude-3", CLAUDE, 200_000),
    ("claude-haiku-3", CLAUDE, 200_000),
    ("claude-haiku-4", CLAUDE, 200_000),
    ("claude-haiku-4-8", CLAUDE_NEW, 200_000),
    ("claude-haiku-4-9", CLAUDE_NEW, 200_000),
    ("claude-instant", CLAUDE, 100_000),
    ("claude-opus-4", CLAUDE, 200_000),
    ("claude-opus-4-8", CLAUDE_NEW, 200_000),
    ("claude-opus-4-9", CLAUDE_NEW, 200_000),
    ("claude-sonnet-3", CLAUDE, 200_000),
    ("claude-sonnet-4", CLAUDE, 200_000),
    ("claude-sonnet-4-8", CLAUDE_NEW, 200_000),
    ("claude-sonnet-4-9", CLAUDE_NEW, 200_000),
    // Google.
    ("gemini", GEMINI, 30_720),
    ("gemini-1.5", GEMINI, 1_048_576),
    ("gemini-flash", GEMINI, 1_048_576),
    ("gemini-pro-latest", GEMINI, 1_048_576),
    ("gemini-2", GEMINI, 1_048_576),
    ("gemini-3", GEMINI, 1_048_576),
    ("gemma", Unknown, 8 * K),
    ("gemma-3", Unknown, 128 * K),
    ("gemma-3-1b", Unknown, 32 * K),
    ("gemma3", Unknown, 128 * K),
    // Meta: 4's ten million are rarely served.
    ("llama-2", Unknown, 4 * K),
    ("llama-3", Exact(Llama3), 8 * K),
    ("llama-3.1", Exact(Llama3), 128 * K),
    ("llama-3.2", Exact(Llama3), 128 * K),
    ("llama-3.3", Exact(Llama3), 128 * K),
    ("llama-4", Unknown, 128 * K),
    ("llama2", Unknown, 4 * K),
    ("llama3", Exact(Llama3), 8 * K),
    ("llama3.1", Exact(Llama3), 128 * K),
    ("llama3.2", Exact(Llama3), 128 * K),
    ("llama3.3", Exact(Llama3), 128 * K),
    ("meta-llama-3", Exact(Llama3), 8 * K),
    ("meta-llama-3.1", Exact(Llama3), 128 * K),
    // Mistral.
    ("codestral", Unknown, 32 * K),
    ("devstral", Unknown, 128 * K),
    ("magistral", Unknown, 40_000),
    ("ministral", Unknown, 128 * K),
    ("mistral", Unknown, 32 * K),
    ("mistral-large", Unknown, 128 * K),
    ("mistral-medium", Unknown, 128 * K),
    ("mixtral", Unknown, 32 * K),
    ("open-mistral-nemo", Unknown, 128 * K),
    ("open-mixtral", Unknown, 32 * K),
    ("pixtral", Unknown, 128 * K),
];

/// Vendors that Bedrock and others put before the name with a dot.
const DOTTED: [&str; 9] = [
    "amazon.",
    "anthropic.",
    "deepseek.",
    "meta.",
    "minimax.",
    "mistral.",
    "moonshot.",
    "openai.",
    "qwen.",
];

fn find(model: &str) -> Option<&'static (&'static str, Counting, u64)> {
    let lower = model.trim().to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let name = DOTTED
        .iter()
        .find_map(|v| name.split_once(v).map(|(_, rest)| rest))
        .unwrap_or(name);
    // `claude-3.5-sonnet` and `claude-opus-4.8` are written with a dash by the vendor.
    let dashed;
    let name = if name.starts_with("claude") && !name.starts_with("claude-2") {
        dashed = name.replace('.', "-");
        &dashed
    } else {
        name
    };
    MODELS
        .iter()
        .filter(|(known, ..)| begins(name, known))
        .max_by_key(|(known, ..)| known.len())
}

/// Whether `name` is `known` or goes on behind it. A known name that ends in a digit is not the beginning of a longer
/// number: `o1` does not match `o1234`, nor `gpt-4` a `gpt-40`.
fn begins(name: &str, known: &str) -> bool {
    let last_is_digit = known.ends_with(|c: char| c.is_ascii_digit());
    name.strip_prefix(known)
        .is_some_and(|rest| !(last_is_digit && rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// How to count for that model.
pub fn counting_for_model(model: &str) -> Counting {
    find(model).map_or(Unknown, |(_, counting, _)| *counting)
}

/// The encoding of that model, if its vocabulary is published and embedded (spec 1); `None`: use the estimator.
pub fn encoding_for_model(model: &str) -> Option<Encoding> {
    match counting_for_model(model) {
        Exact(encoding) => Some(encoding),
        ScaledO200k(_) | Unknown => None,
    }
}

/// The context window of that model in tokens, input and output together unless the vendor caps the input; `None` if
/// unknown (then take [`DEFAULT_TOKEN_LIMIT`](crate::limits::DEFAULT_TOKEN_LIMIT) and learn it from the provider).
pub fn context_window_for_model(model: &str) -> Option<u64> {
    find(model)
        .map(|(_, _, window)| *window)
        .filter(|&window| window > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_encoding_whatever_the_provider_date_or_case() {
        for (name, encoding) in [
            ("gpt-4o", Some(O200kBase)),
            ("openai/gpt-4o-2024-08-06", Some(O200kBase)),
            ("ft:gpt-4o-mini:acme::x1", Some(O200kBase)),
            ("GPT-4.1-nano", Some(O200kBase)),
            ("gpt-5.2-codex", Some(O200kBase)),
            ("o3-mini", Some(O200kBase)),
            ("o1", Some(O200kBase)),
            ("openai/gpt-oss-120b", Some(O200kBase)),
            ("openai.gpt-oss-20b-1:0", Some(O200kBase)),
            ("gpt-4-0613", Some(Cl100kBase)),
            ("gpt-3.5-turbo", Some(Cl100kBase)),
            ("openrouter/deepseek/deepseek-chat", Some(DeepSeekV3)),
            ("DeepSeek-V3.2-Exp", Some(DeepSeekV3)),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", Some(Qwen2)),
            ("Qwen/Qwen2.5-72B-Instruct", Some(Qwen2)),
            ("qwen3:8b", Some(Qwen2)),
            ("qwen3-coder-480b", Some(Qwen2)),
            ("qwen3.5-plus", None),
            ("glm-4.6", Some(Glm4)),
            ("z-ai/glm-5", Some(Glm5)),
            ("moonshotai/Kimi-K2-Instruct", Some(KimiK2)),
            ("moonshot-v1-8k", Some(KimiK2)),
            ("MiniMax-M2", Some(MiniMaxM2)),
            ("meta-llama/Llama-3.3-70B-Instruct", Some(Llama3)),
            ("claude-sonnet-4-5-20250929", None),
            ("gemini-2.5-pro", None),
            ("o12345", None),
            ("my-model", None),
            ("", None),
        ] {
            assert_eq!(encoding_for_model(name), encoding, "{name:?}");
        }
    }

    #[test]
    fn claude_and_gemini_count_by_a_scaled_o200k() {
        for (name, counting) in [
            ("us.anthropic.claude-3-5-sonnet-20240620-v1:0", CLAUDE),
            ("anthropic/claude-3.5-haiku", CLAUDE),
            ("claude-opus-4.6", CLAUDE),
            ("claude-opus-4-20250514", CLAUDE),
            ("claude-opus-4-8", CLAUDE_NEW),
            ("claude-next", CLAUDE_NEW),
            ("google/gemini-3-pro", GEMINI),
        ] {
            assert_eq!(counting_for_model(name), counting, "{name:?}");
        }
    }

    #[test]
    fn windows_are_the_models_own_and_unknown_where_unknown() {
        for (name, window) in [
            ("gpt-4", Some(8_192)),
            ("gpt-4-32k-0613", Some(32_768)),
            ("gpt-4o-mini", Some(128_000)),
            ("gpt-4.1", Some(1_047_576)),
            ("gpt-5", Some(272_000)),
            ("deepseek/deepseek-chat-v3.1", Some(131_072)),
            ("Qwen2.5-7B-Instruct", Some(32_768)),
            ("claude-sonnet-4-5", Some(200_000)),
            ("gemini-2.5-flash", Some(1_048_576)),
            ("mistral-large-latest", Some(131_072)),
            ("llama-3-8b", Some(8_192)),
            ("llama-3.1-8b", Some(131_072)),
            ("something-new", None),
        ] {
            assert_eq!(context_window_for_model(name), window, "{name:?}");
        }
    }
}
