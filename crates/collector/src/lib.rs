//! The passive route collector, without sockets, files or clocks: cloned TCP segments in; BGP
//! messages, state changes and a full account of what is missing out.
//!
//! # Problem
//!
//! A border router clones the segments of its BGP sessions towards a collector (SPC: selective
//! packet cloning; Vissicchio et al., "Beyond the Best: Real-Time Non-Invasive Collection of BGP
//! Messages", INM/WREN 2010). The clones may be lost, reordered, doubled, damaged, cut short, and
//! they may show one direction only. The collector says what the router heard: each message that
//! is wholly there, nothing that was not sent, and each hole.
//!
//! # Way of a packet
//!
//! | step | in | out | where |
//! |---|---|---|---|
//! | capture | bytes of a file or ring | [`Frame`] | `capture` |
//! | decapsulation | [`Frame`] | [`Segment`] | `decapsulate` |
//! | reassembly and framing | [`Segment`] | calls of a [`Receiver`] | `reassembly` |
//! | sessions | calls of a [`Receiver`] | [`Event`] to a [`Sink`] | `session` |
//! | or archives and BMP instead | bytes | [`Event`] to a [`Sink`] | [`input`] |
//! | monitoring stations | [`Event`] | bytes of BMP | [`export`] |
//! | archive, routes, feed, integrity | [`Event`] | records, routes, text | `archive`, `rib`, ... |
//!
//! Times are those of the capture, in nanoseconds since 1970 (`base::Time`), never of a clock.
#![forbid(unsafe_code)]

pub mod archive;
pub mod capture;
pub mod decapsulate;
mod error;
pub mod event;
pub mod export;
pub mod filter;
pub mod frame;
pub mod input;
pub mod integrity;
pub mod reassembly;
pub mod rib;
pub mod segment;
pub mod session;
pub mod stream;
pub mod text;

pub use error::Error;
pub use event::{
    Confidence, Event, Gap, GapCause, Peering, PeeringId, Reading, Reason, Sender, Sink, State,
};
pub use frame::{Frame, LinkType};
pub use segment::{Checksum, MirrorId, Segment};
pub use stream::{Close, Connection, ConnectionId, End, Hole, Receiver};
