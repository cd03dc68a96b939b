//! Recording of counters and samples. With one shard they go to ledgers, which create
//! tables and summaries; with several to a file of observations, from which the coordinator
//! fills the same ledgers.

use base::Span;
use cluster::trunk::TrunkStatistics;
use run::observation::{Observation as Seen, ObservationWriter, Peer};
use run::{Batch, Ledgers, Recorder, RecorderHandle, RecorderOptions};

use super::lab::Job;
use crate::flow::Observation;
use crate::{Result, datapath};

pub(super) enum Recording {
    /// The only shard of the lab.
    Whole(Box<Ledgers>),
    /// One of several shards.
    Shard(Box<ObservationWriter>),
}

impl Recording {
    /// Starts the recording of a shard that begins at this wall-clock time.
    pub(super) fn start(job: &Job, recorder: RecorderHandle, started_unix_ns: u64) -> Result<Self> {
        let plan = &job.plan;
        if job.shard.is_some() {
            let writer = ObservationWriter::start(&job.folder, plan, started_unix_ns)?;
            return Ok(Self::Shard(Box::new(writer)));
        }
        Ok(Self::Whole(Box::new(Ledgers::new(plan, recorder))))
    }

    pub(super) fn enter(&mut self, batch: datapath::Batch) {
        let links = batch.links.into_iter().enumerate();
        let changes = batch.bundle_changes.into_iter();
        let batch = Batch {
            at: batch.at,
            links: links.map(|(at, (stats, level))| (at as u32, stats, level)).collect(),
            shares: batch.shares,
            bundles: batch.bundles,
            bundle_changes: changes
                .map(|change| (change.bundle as u32, change.transition))
                .collect(),
        };
        match self {
            Self::Whole(ledgers) => ledgers.enter(batch),
            Self::Shard(writer) => writer.batch(&batch),
        }
    }

    /// Records an observation of a flow.
    pub(super) fn keep(&mut self, seen: Observation) {
        match (self, seen) {
            (Self::Whole(ledgers), Observation::Sample(sample)) => ledgers.flow(*sample),
            (Self::Whole(ledgers), Observation::Subflow(sample)) => ledgers.subflow(sample),
            (Self::Whole(ledgers), Observation::Transfer(transfer)) => ledgers.transfer(transfer),
            (Self::Shard(writer), Observation::Sample(sample)) => {
                writer.write(&Seen::Flow(sample));
            }
            (Self::Shard(writer), Observation::Subflow(sample)) => {
                writer.write(&Seen::Subflow(sample));
            }
            (Self::Shard(writer), Observation::Transfer(transfer)) => {
                writer.write(&Seen::Transfer(transfer));
            }
        }
    }

    /// Whether a write has failed, for example on a full disk: the run should end.
    pub(super) fn failed(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Shard(writer) => writer.failed(),
        }
    }
}

/// Statistics of the packets from another shard, for the record.
pub(super) fn peer(peer: usize, seen: &TrunkStatistics, lead: Span) -> Peer {
    Peer {
        peer: peer as u16,
        sent_datagrams: seen.sent_datagrams,
        sent_bytes: seen.sent_bytes,
        refused: seen.refused_messages,
        datagrams: seen.received_datagrams,
        bytes: seen.received_bytes,
        packets: seen.received_messages,
        lost: seen.lost,
        reordered: seen.reordered,
        duplicate: seen.duplicate,
        forged: seen.forged + seen.malformed,
        late: seen.late_by.clone(),
        delay: seen.delay.clone(),
        lead,
    }
}

/// Starts the recorder of a lab that begins at this wall-clock time.
pub(super) fn start_recorder(
    job: &Job,
    captures: Vec<String>,
    started_unix_ns: u64,
) -> Result<Recorder> {
    let options = RecorderOptions {
        started_unix_ns,
        links: job.plan.links.iter().map(|link| link.name.clone()).collect(),
        flows: job.plan.flows.iter().map(|flow| flow.name.clone()).collect(),
        bundles: job.plan.bundles.iter().map(|bundle| bundle.name.clone()).collect(),
        nodes: job.plan.nodes.iter().map(|node| node.name.clone()).collect(),
        captures,
        lossless: false,
    };
    Ok(Recorder::start(&job.folder, &options)?)
}
