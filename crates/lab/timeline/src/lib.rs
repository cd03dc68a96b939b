//! The event loop of a run: one total order of events for both clocks and for replays.
//!
//! A run has one component of each [`Rank`]: lab events, the network in which packets arrive, the
//! timers of hosts, Bundler gateways, the agreement on shares, samples. [`Components`] returns the
//! next deadline of each, and [`Components::step`] handles the earliest one.
//!
//! **Order.** Events are ordered by time, then by the rank of their component, then by the
//! component's own sequence. There is no sequence number across components, so the order of two
//! events does not depend on earlier events of other components.
//!
//! An event created at the present time is ordered by its rank: a packet that a timer sends over a
//! link without delay arrives before the next timer fires.
//!
//! **Clocks.** The virtual clock calls [`Components::step`] until it returns `false`. The wall
//! clock first waits until [`NextWakes::earliest`]. Both pass the deadline as `now`, so that the
//! replay of a recorded wall-clock run gives the same trace.
#![forbid(unsafe_code)]

mod components;
mod moment;

pub use components::{Components, NextWakes};
pub use moment::{Moment, Rank};
