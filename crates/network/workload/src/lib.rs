//! The built-in traffic of flows, sans-IO: send times, amounts of data, and counters.
//!
//! | kind | state machine | over |
//! |---|---|---|
//! | RPC, requests, transfers | [`RpcFlow`], [`RequestsFlow`], [`TransfersFlow`] | a [`Transport`] |
//! | bulk | [`BulkFlow`] | the driver's connections |
//! | queries | [`QueriesFlow`] | datagrams |
//! | paced and rate-controlled datagrams | [`PacedFlow`] | datagrams |
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod bulk;
mod counts;
pub mod datagram;
mod error;
mod on_off;
mod paced;
mod pause;
mod queries;
mod requests;
mod rpc;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod traffic;
mod transfers;
mod transport;

pub use bulk::BulkFlow;
pub use counts::Datagrams;
pub use error::Error;
pub use on_off::{Lengths, OnOff};
pub use paced::{PacedFlow, PacedSender};
pub use pause::Pause;
pub use queries::{Queries, QueriesFlow, QueryStep};
pub use requests::{Requests, RequestsFlow};
pub use rpc::{Rpc, RpcFlow};
pub use source::Source;
pub use traffic::{Arrivals, DatagramTrace, Pattern, SizeTable, Sizes, Think};
pub use transfers::{Transfers, TransfersFlow};
pub use transport::{Completion, Event, Progress, Report, Side, Transport, Workload};
