//! BGP-4 (RFC 4271 and its extensions), the archive format MRT (RFC 6396, 8050) and the monitoring
//! protocol BMP (RFC 7854): views of bytes first, typed values on demand, both directions.
//!
//! # Problem
//!
//! A route collector must retain every byte that a speaker sent, and must decode at memory speed. A
//! message is first a [`Message`] (framed bytes), then an `Update` or `Open` (offsets of its
//! parts), then an iterator of typed attributes and prefixes. Unknown types stay opaque and are
//! never an error. The verdict on a malformed message is the one that RFC 7606 requires of a
//! router, and the bytes of the message are retained.
//!
//! # Sections
//!
//! | topic | module |
//! |---|---|
//! | framing: marker, length, type (RFC 4271 §4.1) | [`message`] |
//! | negotiated capabilities of a session (RFC 5492, 6793, 7911, 8654) | [`negotiated`] |
//! | OPEN and its capabilities (RFC 4271 §4.2, 5492, 9072) | [`open`], [`capability`] |
//! | routes and their attributes, in one pass or in parts (RFC 4271 §4.3) | [`update`] |
//! | error handling of a message (RFC 7606) | [`verdict`] |
//! | end of a session and route refresh (RFC 4271 §4.5; 2918, 7313) | [`notification`], [`route_refresh`] |
//! | prefixes, also labelled and of VPNs (RFC 8277, 4364); other routes opaque | [`nlri`], [`nlri::Destination`] |
//! | attributes, typed or opaque | [`attribute`] |
//! | archive records (RFC 6396, 8050) | [`mrt`] |
//! | BGP monitoring protocol (RFC 7854, 8671, 9069) | [`bmp`] |
//! | address families, prefixes, AS numbers | [`family`], [`prefix`], [`asn`] |
#![forbid(unsafe_code)]

pub mod asn;
pub mod attribute;
pub mod bmp;
pub mod capability;
mod cursor;
mod error;
pub mod family;
pub mod message;
pub mod mrt;
pub mod negotiated;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod prefix;
pub mod route_refresh;
mod text;
pub mod update;
pub mod verdict;

pub use asn::Asn;
pub use error::Error;
pub use family::{Afi, Family, Safi};
pub use message::{HEADER, MARKER, Message, MessageType};
pub use negotiated::Negotiated;
pub use prefix::{ParsePrefixError, Prefix};

/// Result of the parsers of this crate.
pub type Result<T> = std::result::Result<T, Error>;
