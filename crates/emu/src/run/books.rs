//! Where what a run sees goes: to ledgers of its own or, from a piece of a lab over several
//! machines, as it is to a file.

use base::Span;
use cluster::trunk::TrunkStatistics;
use outcome::observation::{Observation as Seen, ObservationWriter, Peer};
use outcome::{Batch, Ledgers};
use record::RecorderHandle;

use super::lab::Job;
use crate::flow::Observation;
use crate::{Result, datapath};

/// A run's books.
pub(super) enum Books {
    /// All is here: tables and summaries are made here, too.
    Whole(Box<Ledgers>),
    /// They are made elsewhere, of all pieces.
    Piece(Box<ObservationWriter>),
}

impl Books {
    /// Those of a run, or of a piece of one, that begins at this wall-clock time.
    pub(super) fn start(job: &Job, recorder: RecorderHandle, started_unix_ns: u64) -> Result<Self> {
        let plan = &job.plan;
        if job.piece.is_some() {
            let writer = ObservationWriter::start(&job.folder, plan, started_unix_ns)?;
            return Ok(Self::Piece(Box::new(writer)));
        }
        Ok(Self::Whole(Box::new(Ledgers::new(plan, recorder))))
    }

    /// Enters the data path's counters.
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
            Self::Piece(writer) => writer.batch(&batch),
        }
    }

    /// Keeps what a flow tells.
    pub(super) fn keep(&mut self, seen: Observation) {
        match (self, seen) {
            (Self::Whole(ledgers), Observation::Sample(sample)) => ledgers.flow(*sample),
            (Self::Whole(ledgers), Observation::Subflow(sample)) => ledgers.subflow(sample),
            (Self::Whole(ledgers), Observation::Transfer(transfer)) => ledgers.transfer(transfer),
            (Self::Piece(writer), Observation::Sample(sample)) => {
                writer.write(&Seen::Flow(sample));
            }
            (Self::Piece(writer), Observation::Subflow(sample)) => {
                writer.write(&Seen::Subflow(sample));
            }
            (Self::Piece(writer), Observation::Transfer(transfer)) => {
                writer.write(&Seen::Transfer(transfer));
            }
        }
    }

    /// Whether writing has failed, as on a full disk: the run should end.
    pub(super) fn failed(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Piece(writer) => writer.failed(),
        }
    }
}

/// What another member sent here, for the record.
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
