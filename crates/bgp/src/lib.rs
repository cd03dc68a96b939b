//! BGP-4 (RFC 4271 and its extensions), the archive format MRT (RFC 6396, 8050) and the monitoring
//! protocol BMP (RFC 7854): views of bytes first, typed values on demand, both directions.
//!
//! # Problem
//!
//! A route collector must keep every byte that a speaker sent, whatever it means, and must be able
//! to say what it means at memory speed. So a message is first a [`Message`] (its bytes, framed),
//! then an `Update` or `Open` (where its parts are), then typed attributes and prefixes as an
//! iterator meets them. What is not known stays opaque and is never an error; what is wrong gets
//! the verdict that RFC 7606 asks of a router, and is kept all the same.
//!
//! # Sections
//!
//! | what | where |
//! |---|---|
//! | framing: marker, length, type (RFC 4271 §4.1) | [`message`] |
//! | what two speakers agreed on (RFC 5492, 6793, 7911, 8654) | [`negotiated`] |
//! | who speaks, and what they can do (RFC 4271 §4.2, 5492, 9072) | [`open`], [`capability`] |
//! | routes and their attributes, in one pass or in parts (RFC 4271 §4.3) | [`update`] |
//! | what a router should do about a message (RFC 7606) | [`verdict`] |
//! | ends and refreshes (RFC 4271 §4.5; 2918, 7313) | [`notification`], [`route_refresh`] |
//! | routes of each family, typed (RFC 8277 to 9830) | [`nlri`], [`nlri::Destination`] |
//! | attributes, typed | [`attribute`] |
//! | archive records (RFC 6396, 6397, 8050) | [`mrt`] |
//! | monitoring by a router (RFC 7854, 8671, 9069) | [`bmp`] |
//! | address families, prefixes, AS numbers | [`family`], [`prefix`], [`asn`] |
#![forbid(unsafe_code)]

pub mod asn;
pub mod attribute;
pub mod bmp;
pub mod capability;
mod cursor;
mod error;
pub mod family;
mod fields;
pub mod message;
pub mod mrt;
pub mod negotiated;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod prefix;
pub mod route_refresh;
pub mod update;
pub mod verdict;

pub use asn::Asn;
pub use error::Error;
pub use family::{Afi, Family, Safi, UnknownFamily};
pub use message::{HEADER, MARKER, Message, MessageType};
pub use negotiated::Negotiated;
pub use prefix::Prefix;

/// What this crate's parsers return.
pub type Result<T> = std::result::Result<T, Error>;
