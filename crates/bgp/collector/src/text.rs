//! Messages and archive records as text.
//!
//! | format | where |
//! |---|---|
//! | the lines of `bgpdump -m` | [`bgpdump`] |
//! | RIPE's RIS Live | [`ris_live`] |
//! | JSON Lines of records and events | [`json_lines`] |

pub mod bgpdump;
mod digits;
mod json;
pub mod json_lines;
pub mod ris_live;
