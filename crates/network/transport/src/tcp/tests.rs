//! Two endpoints and a scripted path between them.

mod closing;
mod flow_control;
mod marks;
mod opening;
mod pacing;
mod pipe;
mod properties;
mod recovery;
mod reordering;
mod rest;
mod timeouts;
mod work;

use base::{Bandwidth, Bytes, Span, Time};

use super::{Config, Control, Ect, End, Endpoint, Flags, Segment};
use pipe::{Pipe, Side};
use testnet::Fate;

/// Reno, so that windows are easy to predict.
fn reno() -> Config {
    Config { mss: 1000, control: Control::Reno, ..Config::default() }
}

fn millis(count: u64) -> Span {
    Span::from_millis(count)
}

fn at_millis(count: u64) -> Time {
    Time::ZERO + millis(count)
}
