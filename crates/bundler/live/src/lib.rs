//! Bundler's gateways on real hosts.
//!
//! The state machines of crate `bundler` use neither clocks nor sockets; this crate provides both.
//! A sendbox reads a site's packets from a TUN device to which the site's routes lead, and writes
//! back the packets to be sent; a receivebox observes arriving packets without modifying them.
//!
//! ```text
//! hosts → gateway ─ rule: not from bundle0, to the site → bundle0 → SendBox ┐
//!                └─ the previous routes ← from bundle0 ──────────────────────┘ → Internet
//! ```
//!
//! The device is removed with the process, and the routes through it with the device: if the
//! process dies, the host's routing is as before.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod config;
mod error;
mod filter;
mod mail;
mod packet;
mod port;
mod prefix;
pub mod receive;
mod reload;
mod route;
pub mod send;
pub mod status;
mod wait;

pub use error::Error;
pub use prefix::{Prefix, PrefixError};
pub use reload::{Changes, Control};

pub type Result<T> = std::result::Result<T, Error>;
