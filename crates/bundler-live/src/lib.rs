//! Bundler's boxes on real gateways.
//!
//! The machines of crate `bundler` know neither clocks nor sockets; here they get both. A sendbox
//! takes a site's packets from a TUN device that the site's routes lead through, and writes back
//! what may go on; a receivebox looks at what arrives, and touches nothing.
//!
//! ```text
//! hosts → gateway ─ rule: not from bundle0, to the site → bundle0 → SendBox ┐
//!                └─ the routes that were there before ← from bundle0 ───────┘ → Internet
//! ```
//!
//! The device goes with the process, and the routes through it go with the device: a box that dies
//! leaves the gateway as it was before.
#![forbid(unsafe_code)]

pub mod config;
mod error;
mod filter;
mod mail;
mod monitor;
mod packet;
mod port;
mod prefix;
pub mod receive;
mod route;
pub mod send;
pub mod status;
mod wait;

pub use error::Error;
pub use prefix::{Prefix, PrefixError};

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
