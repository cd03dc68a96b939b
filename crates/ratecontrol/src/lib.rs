//! Explicit rate control: the network tells each session the rate at which it may send.
//!
//! **Problem.** Sessions join, leave and change their demands; each follows a fixed path. Every
//! session is to send at its max-min fair rate, found by messages that travel along the paths,
//! with as little state and work at the links as can be.
//!
//! **Actors.** A protocol is a [`RateController`]: it makes a [`Source`] and a [`Destination`] for
//! each session and a [`Link`] for each direction of each link. All three are state machines that
//! are told the time and the packet, and answer through an [`Outbox`]; whoever drives them moves
//! the packets.
//!
//! ```text
//! Join, Leave, Change → Source ──── Link 0 ──── Link 1 ──── … ──── Destination
//!           Rate ←        ↑           ↑           ↑                     │ bounces
//!                         └───────────┴───────────┴─────────────────────┘
//! ```
//!
//! A packet that goes downstream is seen by link *i* before it enters that link's queue; one that
//! goes upstream is seen by it after it has crossed the opposite direction: both times at the node
//! where the link starts.
#![forbid(unsafe_code)]

pub mod access;
pub mod b_neck;
pub mod bfyz;
mod bounds;
pub mod closed_loop;
pub mod cobb_gouda;
mod controller;
pub mod crowd;
pub mod erica;
mod error;
pub mod exchange;
pub mod piqi_rcp;
mod protocol;
pub mod rcp;
pub mod reliable;
mod session_table;
mod settings;
pub mod slbn;
pub mod trial;
pub mod wan;

pub use bounds::MOST_RATE;
pub use controller::{
    Destination, Fate, Link, Measured, Outbox, RateController, Sending, SessionId, Source, State,
    Towards, Visit,
};
pub use error::{Error, Result};
pub use protocol::{Protocol, Visitor};
pub use settings::{Pace, Settings};
