//! Two endpoints and a path between them that follows a script.

mod closing;
mod flow_control;
mod marks;
mod opening;
mod pipe;
mod properties;
mod recovery;
mod reordering;
mod rest;
mod timeouts;
mod work;

use base::{Bytes, Span, Time};

use super::{Config, Control, End, Endpoint, Flags, Segment};
use pipe::{Fate, Pipe, Side};

/// Reno, so that windows are easy to foretell.
fn reno() -> Config {
    Config { mss: 1000, control: Control::Reno, ..Config::default() }
}

fn millis(count: u64) -> Span {
    Span::from_millis(count)
}

fn at_millis(count: u64) -> Time {
    Time::ZERO + millis(count)
}
