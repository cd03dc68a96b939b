//! The passive route collector, without sockets, files or clocks: from cloned TCP segments to BGP
//! messages, state changes and an account of all missing data.
//!
//! # Problem
//!
//! A border router clones the segments of its BGP sessions towards a collector (SPC: selective
//! packet cloning; Vissicchio et al., "Beyond the Best: Real-Time Non-Invasive Collection of BGP
//! Messages", INM/WREN 2010). Clones may be lost, reordered, duplicated, damaged or truncated, and
//! may show one direction only. The collector reports what the router received: each complete
//! message, no message that was not sent, and each gap.
//!
//! # Path of a packet
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
//! Times are capture times in nanoseconds since 1970 (`base::Time`), never those of a clock.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

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
pub use stream::{Close, Connection, ConnectionId, End, Hole, Limit, Receiver};
