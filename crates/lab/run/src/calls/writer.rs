//! The writer of call recordings, with a separate thread for the disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use base::{IfaceId, NodeId, Span, Time, fnv};
use fabric::Packet;

use super::{FILE, MAGIC, VERSION, code};
use crate::{Error, RunFolder, files};

/// Size from which a frame is sent to the writer thread.
const FRAME_BYTES: usize = 64 << 10;

const MAX_QUEUED_FRAMES: usize = 1024;

/// Records the calls of one fabric. Only `start` and `finish` block.
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

#[derive(Debug, Default)]
pub struct CallReport {
    /// Calls missing because the disk was too slow. A run with missing calls cannot be replayed.
    pub lost: u64,
    /// The error that stopped the recording.
    pub error: Option<Error>,
}

impl CallWriter {
    /// Creates the file and starts the thread. `lab` is the resolved lab file.
    pub fn start(folder: &RunFolder, lab: &str) -> Result<Self, Error> {
        let path = folder.file(FILE);
        let file = files::create_new(&path).map_err(|e| Error::io("create", &path, e))?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((lab.len() as u32).to_le_bytes());
        head.extend(lab.as_bytes());
        head.extend(fnv::hash(lab.as_bytes()).to_le_bytes());
        let (filled, frames) = sync_channel(MAX_QUEUED_FRAMES);
        let (recycled, emptied) = channel();
        let failed = Arc::new(AtomicBool::new(false));
        let mut disk = WriterThread { path, file, recycled, failed: Arc::clone(&failed) };
        disk.write(&[&head])?;
        let thread = std::thread::Builder::new()
            .name("calls".to_owned())
            .spawn(move || disk.run(&frames))
            .map_err(|e| Error::io("start a thread for", folder.path(), e))?;
        let (frame, last) = (Vec::with_capacity(FRAME_BYTES + 256), Time::ZERO);
        Ok(Self { frame, calls: 0, lost: 0, last, filled, emptied, failed, thread })
    }

    /// Records [`Call::Inject`](super::Call::Inject).
    pub fn inject<B>(&mut self, at: Time, iface: IfaceId, packet: &Packet<B>) {
        let since = self.since(at);
        code::inject(&mut self.frame, since, iface, packet);
        self.count();
    }

    /// Records [`Call::Originate`](super::Call::Originate).
    pub fn originate<B>(&mut self, at: Time, node: NodeId, packet: &Packet<B>) {
        let since = self.since(at);
        code::originate(&mut self.frame, (since, at), node, packet);
        self.count();
    }

    /// Records [`Call::Forward`](super::Call::Forward).
    pub fn forward<B>(&mut self, at: Time, iface: IfaceId, packet: &Packet<B>) {
        let since = self.since(at);
        code::forward(&mut self.frame, (since, at), iface, packet);
        self.count();
    }

    /// Records [`Call::Change`](super::Call::Change).
    pub fn change(&mut self, at: Time, event: usize) {
        let since = self.since(at);
        code::change(&mut self.frame, since, event);
        self.count();
    }

    /// A flag that becomes true when writing has failed; the run should then end.
    pub fn failure(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.failed)
    }

    /// Writes the queued calls and the end of the run.
    pub fn finish(mut self, at: Time, events: u64, trace_hash: u64) -> CallReport {
        if self.lost == 0 {
            let since = self.since(at);
            code::end(&mut self.frame, since, events, trace_hash);
        } else {
            self.frame = vec![code::GAP];
        }
        // The thread receives frames until the end, even after an error.
        let _ = self.filled.send(std::mem::take(&mut self.frame));
        drop(self.filled);
        let error = self.thread.join().unwrap_or(Some(Error::WriterGone));
        CallReport { lost: self.lost, error }
    }

    fn since(&mut self, at: Time) -> Span {
        debug_assert!(at >= self.last, "a fabric's time does not decrease");
        let since = at.since(self.last);
        self.last = at;
        since
    }

    fn count(&mut self) {
        self.calls += 1;
        if self.frame.len() < FRAME_BYTES {
            return;
        }
        let mut next = self.emptied.try_recv().unwrap_or_default();
        next.clear();
        std::mem::swap(&mut self.frame, &mut next);
        // Calls after a gap cannot be replayed: they are only counted.
        if self.lost > 0 || self.filled.try_send(next).is_err() {
            self.lost += self.calls;
        }
        self.calls = 0;
    }
}

struct WriterThread {
    path: PathBuf,
    file: File,
    recycled: Sender<Vec<u8>>,
    failed: Arc<AtomicBool>,
}

impl WriterThread {
    fn run(mut self, frames: &Receiver<Vec<u8>>) -> Option<Error> {
        let mut error = None;
        for frame in frames {
            if error.is_none() {
                let length = (frame.len() as u32).to_le_bytes();
                let sum = fnv::hash(&frame).to_le_bytes();
                error = self.write(&[&length, &sum, &frame]).err();
                self.failed.store(error.is_some(), Relaxed);
            }
            // After the end of the run, the receiver of empty frames no longer exists.
            let _ = self.recycled.send(frame);
        }
        error
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let written = parts.iter().try_for_each(|part| self.file.write_all(part));
        written.map_err(|e| Error::io("write", &self.path, e))
    }
}
