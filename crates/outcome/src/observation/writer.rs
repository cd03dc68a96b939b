//! Writes what a piece sees.

use std::time::{Duration, Instant};

use base::Histogram;
use fabric::LinkStats;
use lab::plan::Plan;
use record::frames::{FRAME_LIMIT, FrameWriter};
use record::{Error, RunFolder};

use super::{
    BundleRow, ChangeRow, Counters, Ending, FILE, KIND, LinkRow, Observation, Peer, ShareRow,
};
use crate::{Batch, FlowResult};

/// Bytes after which a frame is written, …
const FRAME: usize = 64 << 10;

/// … and the longest that something waits for it.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Rows of counters in one observation: it always fits in a frame.
const ROWS: usize = 2048;

/// Writes a piece's observations. No method but `start` and `finish` ever blocks.
#[derive(Debug)]
pub struct ObservationWriter {
    frames: FrameWriter,
    frame: Vec<u8>,
    /// Observations in it.
    waiting: u64,
    since: Instant,
    last: Vec<LinkStats>,
    lost: u64,
}

impl ObservationWriter {
    /// Makes the file in the folder of a piece of this plan, whose time zero is at this wall-clock
    /// time here.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn start(folder: &RunFolder, plan: &Plan, started_unix_ns: u64) -> Result<Self, Error> {
        let mut this = Self {
            frames: FrameWriter::start(&folder.file(FILE), KIND)?,
            frame: Vec::new(),
            waiting: 0,
            since: Instant::now(),
            last: vec![LinkStats::default(); plan.links.len() * 2],
            lost: 0,
        };
        this.write(&Observation::Begin(started_unix_ns));
        Ok(this)
    }

    /// Writes counters: of links only those that have changed.
    pub fn batch(&mut self, batch: &Batch) {
        let mut rows = Vec::new();
        for (position, stats, level) in &batch.links {
            let Some(last) = self.last.get_mut(*position as usize) else { continue };
            if stats != last || level.peak_packets > 0 || level.peak_bytes > 0 {
                rows.push(LinkRow::new(*position, stats, level));
                last.clone_from(stats);
            }
        }
        let shares: Vec<ShareRow> = batch.shares.iter().map(|share| (*share).into()).collect();
        let bundles = batch.bundles.iter().enumerate();
        let bundles = bundles
            .filter_map(|(at, status)| Some(BundleRow::new(at as u32, status.as_ref()?)))
            .collect();
        let changes = batch.bundle_changes.iter();
        let changes = changes.map(|(bundle, change)| ChangeRow::new(*bundle, change)).collect();
        // The moment is told even if nothing has changed: samples are as long as it was since the
        // moment before.
        let mut links = rows.chunks(ROWS);
        let first = links.next().unwrap_or_default().to_vec();
        let mut more_shares = shares.chunks(ROWS);
        let shares = more_shares.next().unwrap_or_default().to_vec();
        let at = batch.at;
        self.write(&Observation::Counters(Counters { at, links: first, shares, bundles, changes }));
        for links in links {
            let links = links.to_vec();
            self.write(&Observation::Counters(Counters { at, links, ..Counters::default() }));
        }
        for shares in more_shares {
            let shares = shares.to_vec();
            self.write(&Observation::Counters(Counters { at, shares, ..Counters::default() }));
        }
    }

    /// Writes something else.
    pub fn write(&mut self, observation: &Observation) {
        self.encode(observation);
        if self.frame.len() >= FRAME || self.since.elapsed() >= FLUSH_EVERY {
            let frame = self.cut();
            if !self.frames.push(frame) {
                self.lost += self.waiting;
            }
            self.waiting = 0;
        }
    }

    /// Whether writing has failed, as on a full disk: the run should end.
    pub fn failed(&self) -> bool {
        self.frames.failed()
    }

    /// Observations that could not be written in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes what a run has only at its end, and what still waits.
    ///
    /// # Errors
    /// The first that there was in writing.
    pub fn finish(
        mut self,
        results: Vec<FlowResult>,
        queue_delays: &[Histogram],
        peers: Vec<Peer>,
        mut ending: Ending,
    ) -> Result<(), Error> {
        for result in results {
            self.write_at_last(&Observation::Result(Box::new(result)));
        }
        let waited = queue_delays.iter().enumerate().filter(|(_, waited)| waited.count() > 0);
        for (position, waited) in waited {
            self.write_at_last(&Observation::Waited(position as u32, waited.clone()));
        }
        for peer in peers {
            self.write_at_last(&Observation::Peer(Box::new(peer)));
        }
        ending.host.records_lost += self.lost;
        self.write_at_last(&Observation::End(Box::new(ending)));
        let rest = self.cut();
        self.frames.push_waiting(rest);
        self.frames.finish().map_or(Ok(()), Err)
    }

    /// At the end there is time to wait for the disk, and all of it counts.
    pub fn write_at_last(&mut self, observation: &Observation) {
        self.encode(observation);
        if self.frame.len() >= FRAME {
            let frame = self.cut();
            self.frames.push_waiting(frame);
            self.waiting = 0;
        }
    }

    fn encode(&mut self, observation: &Observation) {
        // Nothing that could fail: a vector grows, and all lengths are known.
        let Ok(bytes) = postcard::to_stdvec(observation) else { return };
        if bytes.len() > FRAME_LIMIT {
            // Only texts are so long, such as a program's last words.
            self.lost += 1;
            return;
        }
        if self.frame.len() + bytes.len() > FRAME_LIMIT {
            let frame = self.cut();
            if !self.frames.push(frame) {
                self.lost += self.waiting;
            }
            self.waiting = 0;
        }
        self.frame.extend(bytes);
        self.waiting += 1;
    }

    fn cut(&mut self) -> Vec<u8> {
        self.since = Instant::now();
        std::mem::take(&mut self.frame)
    }
}
