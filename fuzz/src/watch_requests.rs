//! Requests of pages of the live view and of their terminals: no panic, long messages are rejected,
//! and a parsed request has the same meaning after it is written again.

use std::fmt::Debug;

use run::live::{MAX_REQUEST_BYTES, parse_request, parse_terminal_request};
use serde::Serialize;

pub(crate) fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(text, parse_request);
    check(text, parse_terminal_request);
}

fn check<T: Debug + PartialEq + Serialize>(text: &str, parse: fn(&str) -> Result<T, String>) {
    let Ok(request) = parse(text) else { return };
    assert!(text.len() <= MAX_REQUEST_BYTES);
    let written = serde_json::to_string(&request).expect("a request is JSON");
    // Escapes can make it longer than the limit.
    if written.len() <= MAX_REQUEST_BYTES {
        assert_eq!(parse(&written), Ok(request));
    }
}
