//! Messages and archive records as text.

pub mod bgpdump;
mod digits;
