//! Explicit rate control: the network assigns each session the rate at which it may send.
//!
//! **Problem.** Sessions join, leave and change their demands; each follows a fixed path. Every
//! session should send at its max-min fair rate, which is determined by messages along the paths,
//! with as little state and work at the links as possible.
//!
//! **Parts.** A protocol is a [`RateController`]: it creates a [`Source`] per session and a
//! [`Link`] per direction of each link. Both are state machines that get the time and a packet and
//! write to an [`Outbox`]; a driver transports the packets. Destinations are stateless:
//! [`RateController::answer`].
//!
//! ```text
//! Join, Leave, Change → Source ──── Link 0 ──── Link 1 ──── … ──── Destination
//!           Rate ←        ↑           ↑           ↑                     │ bounces
//!                         └───────────┴───────────┴─────────────────────┘
//! ```
//!
//! A downstream packet visits link *i* before it enters that link's queue; an upstream packet
//! visits it after it has crossed the opposite direction: both at the node where the link starts.
#![forbid(unsafe_code)]

pub mod access;
pub mod b_neck;
pub mod bfyz;
mod bounds;
pub mod closed_loop;
pub mod cobb_gouda;
mod controller;
pub mod erica;
mod error;
pub mod exchange;
pub mod piqi_rcp;
pub mod population;
mod protocol;
pub mod rcp;
mod session_table;
mod settings;
pub mod slbn;
pub mod trial;

pub use bounds::MAX_RATE;
pub use controller::{
    Fate, Link, Measured, Outbox, RateController, Sending, SessionId, Source, State, Towards, Visit,
};
pub use error::{Error, Result};
pub use protocol::{Protocol, Visitor};
pub use settings::{Pace, Settings};
