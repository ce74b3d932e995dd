//! The durable part: transcript and artifacts (being written).
