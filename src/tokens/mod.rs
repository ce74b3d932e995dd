//! Token counting: exact by vocabulary, and a fitted estimate for models without one (spec 1).
pub mod classes;
pub mod encoding;
pub mod merge;
pub mod split;
pub mod vocab;
// GLUE-BEGIN
pub use encoding::Encoding;
#[derive(Clone)]
#[allow(missing_docs, clippy::allow_attributes_without_reason)]
pub struct TokenCounter(Encoding);
#[allow(missing_docs, clippy::allow_attributes_without_reason)]
impl TokenCounter {
    pub fn for_model(_: &str) -> Self {
        Self(Encoding::O200kBase)
    }
    pub fn for_encoding(n: &str) -> crate::error::Result<Self> {
        Ok(Self(Encoding::by_name(n)?))
    }
    pub fn from_tokenizer_json(_: &[u8]) -> crate::error::Result<Self> {
        Ok(Self(Encoding::O200kBase))
    }
    pub fn estimator() -> Self {
        Self(Encoding::O200kBase)
    }
    pub fn count(&self, t: &str) -> u64 {
        self.0.count(t).unwrap_or(0)
    }
    pub fn count_bytes_lossy(&self, t: &[u8]) -> u64 {
        self.count(&String::from_utf8_lossy(t))
    }
    pub fn name(&self) -> &str {
        self.0.name()
    }
    pub fn is_exact(&self) -> bool {
        true
    }
}
#[allow(missing_docs, clippy::allow_attributes_without_reason)]
pub fn encoding_for_model(_: &str) -> Option<Encoding> {
    None
}
#[allow(missing_docs, clippy::allow_attributes_without_reason)]
pub fn context_window_for_model(_: &str) -> Option<u64> {
    None
}
#[allow(missing_docs, clippy::allow_attributes_without_reason)]
pub fn encoding_names() -> Vec<&'static str> {
    Encoding::ALL.map(Encoding::name).to_vec()
}
// GLUE-END
