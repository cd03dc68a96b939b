//! Writes calls from a thread of its own.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use base::{IfaceId, NodeId, Span, Time};
use fabric::Packet;

use super::{FILE, MAGIC, VERSION, checksum, code};
use crate::{Error, RunFolder};

/// Bytes after which a frame is handed over.
const FRAME: usize = 64 << 10;

/// Frames that may wait for the disk: 64 MiB.
const WAITING: usize = 1024;

/// Records the calls of one fabric. No method but `start` and `finish` ever blocks.
#[derive(Debug)]
pub struct CallWriter {
    frame: Vec<u8>,
    calls: u64,
    lost: u64,
    last: Time,
    filled: SyncSender<Vec<u8>>,
    emptied: Receiver<Vec<u8>>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Option<Error>>,
}

/// What became of a recording.
#[derive(Debug, Default)]
pub struct CallReport {
    /// Calls that are missing because the disk was too slow; such a run can't be replayed.
    pub lost: u64,
    /// What stopped the recording, if anything did.
    pub error: Option<Error>,
}

impl CallWriter {
    /// Makes the file and starts the thread. `lab` is the resolved lab file.
    pub fn start(folder: &RunFolder, lab: &str) -> Result<Self, Error> {
        let path = folder.file(FILE);
        let file = File::create_new(&path).map_err(|e| Error::io("create", &path, e))?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((lab.len() as u32).to_le_bytes());
        head.extend(lab.as_bytes());
        head.extend(checksum(lab.as_bytes()).to_le_bytes());
        let (filled, frames) = sync_channel(WAITING);
        let (give_back, emptied) = channel();
        let failed = Arc::new(AtomicBool::new(false));
        let mut disk = Disk { path, file, give_back, failed: Arc::clone(&failed) };
        disk.write(&[&head])?;
        let thread = std::thread::Builder::new()
            .name("calls".to_owned())
            .spawn(move || disk.run(&frames))
            .map_err(|e| Error::io("start a thread for", folder.path(), e))?;
        let (frame, last) = (Vec::with_capacity(FRAME + 256), Time::ZERO);
        Ok(Self { frame, calls: 0, lost: 0, last, filled, emptied, failed, thread })
    }

    /// A packet leaves a node through `iface`.
    pub fn inject<B>(&mut self, at: Time, iface: IfaceId, packet: &Packet<B>) {
        let since = self.since(at);
        code::inject(&mut self.frame, since, iface, packet);
        self.count();
    }

    /// A router sends a packet of its own.
    pub fn originate<B>(&mut self, at: Time, node: NodeId, packet: &Packet<B>) {
        let since = self.since(at);
        code::originate(&mut self.frame, (since, at), node, packet);
        self.count();
    }

    /// A middlebox sends on what had come through `iface`.
    pub fn forward<B>(&mut self, at: Time, iface: IfaceId, packet: &Packet<B>) {
        let since = self.since(at);
        code::forward(&mut self.frame, (since, at), iface, packet);
        self.count();
    }

    /// The event at this position of the plan changes the network.
    pub fn change(&mut self, at: Time, event: usize) {
        let since = self.since(at);
        code::change(&mut self.frame, since, event);
        self.count();
    }

    /// Becomes true when recording has stopped, as on a full disk: the run should end.
    pub fn failure(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.failed)
    }

    /// Writes what still waits and how the run ended.
    pub fn finish(mut self, at: Time, events: u64, trace_hash: u64) -> CallReport {
        if self.lost == 0 {
            let since = self.since(at);
            code::end(&mut self.frame, since, events, trace_hash);
        } else {
            self.frame = vec![code::GAP];
        }
        // The thread takes frames to the end, even after a failure.
        let _ = self.filled.send(std::mem::take(&mut self.frame));
        drop(self.filled);
        let error = self.thread.join().unwrap_or(Some(Error::WriterGone));
        CallReport { lost: self.lost, error }
    }

    fn since(&mut self, at: Time) -> Span {
        debug_assert!(at >= self.last, "a fabric's time never goes back");
        let since = at.since(self.last);
        self.last = at;
        since
    }

    fn count(&mut self) {
        self.calls += 1;
        if self.frame.len() < FRAME {
            return;
        }
        let mut next = self.emptied.try_recv().unwrap_or_default();
        next.clear();
        std::mem::swap(&mut self.frame, &mut next);
        // After a gap the rest is of no use, but it is counted.
        if self.lost > 0 || self.filled.try_send(next).is_err() {
            self.lost += self.calls;
        }
        self.calls = 0;
    }
}

/// The thread's side.
struct Disk {
    path: PathBuf,
    file: File,
    give_back: Sender<Vec<u8>>,
    failed: Arc<AtomicBool>,
}

impl Disk {
    fn run(mut self, frames: &Receiver<Vec<u8>>) -> Option<Error> {
        let mut error = None;
        for frame in frames {
            if error.is_none() {
                let length = (frame.len() as u32).to_le_bytes();
                let sum = checksum(&frame).to_le_bytes();
                error = self.write(&[&length, &sum, &frame]).err();
                self.failed.store(error.is_some(), Relaxed);
            }
            // Nobody wants frames back once the run is over.
            let _ = self.give_back.send(frame);
        }
        error
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let written = parts.iter().try_for_each(|part| self.file.write_all(part));
        written.map_err(|e| Error::io("write", &self.path, e))
    }
}
