//! Requests of pages of the live view: no panic, long messages are rejected, and a parsed request
//! has the same meaning after it is written again.

use run::live::{MAX_REQUEST_BYTES, parse_request};

pub(crate) fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(request) = parse_request(text) else { return };
    assert!(text.len() <= MAX_REQUEST_BYTES);
    let written = serde_json::to_string(&request).expect("a request is JSON");
    // Escapes can make it longer than the limit.
    if written.len() <= MAX_REQUEST_BYTES {
        assert_eq!(parse_request(&written), Ok(request));
    }
}
