//! placeholder
/// Thousandths of a token.
pub fn milli_tokens(text: &str) -> u64 {
    text.len() as u64 * 250
}
/// Whole tokens.
pub const fn tokens(milli: u64) -> u64 {
    milli.div_ceil(1000)
}
