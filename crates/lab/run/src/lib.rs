//! One run, on either clock, from its start to its verdict.
//!
//! A driver creates a [`RunFolder`] with the record that [`begin`] makes, starts a [`Recorder`] in
//! it, applies the lab's events by a [`Schedule`], counts flows in [`FlowCounters`] and enters
//! counters of the network into [`Ledgers`], which turn them into samples. At the end it
//! [`complete`]s the record: summaries, expectations, exit code. The run folders of shards become
//! one by [`merge`].
//!
//! Most files depend on each other: `record` and `sample` contain the parts of a run (network,
//! verdict, metrics, captures), and the parts use their types and [`Error`].
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod calls;
mod captures;
mod complete;
pub mod effect;
mod error;
mod exit;
pub mod files;
mod flow;
mod folder;
pub mod frames;
mod ledger;
pub mod live;
pub mod merge;
mod metrics;
pub mod observation;
pub mod pcapng;
pub mod record;
mod recorder;
pub mod sample;
mod schedule;
pub mod shards;
pub mod stalls;
mod start;
pub mod supervisor;
pub mod table;
pub mod verdict;
pub mod waits;

pub use captures::Captures;
pub use complete::{RunResults, complete};
pub use error::Error;
pub use exit::Exit;
pub use flow::adjusted::{Adjusted, AdjustedDelays};
pub use flow::counters::FlowCounters;
pub use flow::multipath::{PathResult, Subflow};
pub use flow::path::{Ideal, Paths, ip_header};
pub use flow::{FlowEnds, FlowLifetime, FlowResult, Outcome, Transfers};
pub use folder::RunFolder;
pub use folder::reserve::save_records_without_memory;
pub use ledger::bundles::BundleLedger;
pub use ledger::links::{FlowLedger, LinkLedger, link_counters, take_queue_delays};
pub use ledger::shares::ShareLedger;
pub use ledger::{Batch, Ledgers};
pub use metrics::whole_run::{RunMetric, metrics};
pub use record::RunRecord;
pub use recorder::{CaptureId, Recorder, RecorderHandle, RecorderOptions, RecorderReport};
pub use sample::bundle::{BundleCounts, BundleSample};
pub use sample::control::{ControlSample, SessionRow};
pub use sample::shares::{FlowKind, ShareSample};
pub use sample::subflow::SubflowSample;
pub use sample::{DropReason, FlowSample, Level, LinkSample, PacketRecord, Transfer};
pub use schedule::{Change, ChangeKind, Schedule, fabric};
pub use start::topology::topology;
pub use start::{Start, begin, hash_text, lab_hash, machine, unix_ms};
pub use workload::Datagrams;

#[cfg(test)]
mod tests;
