//! Messages and archive records as text.
//!
//! | format | where |
//! |---|---|
//! | the lines of `bgpdump -m` | [`bgpdump`] |
//! | RIPE's RIS Live | [`ris_live`] |

pub mod bgpdump;
mod digits;
mod json;
pub mod ris_live;
