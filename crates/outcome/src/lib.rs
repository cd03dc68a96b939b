//! What a run came to, on either clock.
//!
//! A driver [`begin`]s a record, hands changes of the network out by a [`Schedule`], enters the
//! counters of links into a [`LinkLedger`] and those of flows into a [`Tally`] each, and at the end
//! [`complete`]s the record: summaries, expectations, exit code.
#![forbid(unsafe_code)]

mod begin;
mod bundles;
mod capacity;
mod crowd;
mod flow;
mod join;
mod ledger;
mod ledgers;
mod measure;
pub mod merge;
mod multipath;
pub mod observation;
mod path;
mod picture;
mod schedule;
mod sequence;
mod shares;
mod summary;
mod tally;
pub mod verdict;

pub use begin::{Start, begin, hash_text, lab_hash, machine, unix_ms};
pub use bundles::BundleLedger;
pub use flow::{Course, Datagrams, FlowResult, Half, Outcome, Transfers};
pub use ledger::{FlowLedger, LinkLedger, link_counters, take_queue_delays};
pub use ledgers::{Batch, Ledgers};
pub use multipath::{PathResult, Subflow};
pub use path::{Ideal, Paths, ip_header};
pub use picture::topology;
pub use schedule::{Change, Schedule, What, fabric};
pub use sequence::{Arrived, Sequence};
pub use shares::ShareLedger;
pub use summary::{Ended, complete};
pub use tally::Tally;

#[cfg(test)]
mod tests;
