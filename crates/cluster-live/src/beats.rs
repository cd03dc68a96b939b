//! Says that a process is there, from a thread of its own: what else it does may take a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use cluster::detector::HEARTBEAT;

use crate::session::Bus;
use crate::{Error, Result, urgent};

/// A process whose main thread has not [ticked](Beats::tick) for so long (ns) hangs, and is not to
/// be taken for alive: with the silence that follows, that is known within three seconds.
const HANGS: u64 = 1_000_000_000;

/// Heartbeats, for as long as this lives.
pub(crate) struct Beats {
    ticked: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beats {
    /// Puts `payload` at `place` once a [`HEARTBEAT`], beginning now.
    pub(crate) fn start(bus: &Bus, place: String, payload: Vec<u8>) -> Result<Self> {
        let ticked = Arc::new(AtomicU64::new(sys::clock::monotonic()));
        let ends = Arc::new(AtomicBool::new(false));
        let (bus, seen, ending) = (bus.clone(), Arc::clone(&ticked), Arc::clone(&ends));
        let beat = move || {
            urgent::hurry();
            while !ending.load(Ordering::Relaxed) {
                let silent = sys::clock::monotonic().saturating_sub(seen.load(Ordering::Relaxed));
                if silent < HANGS {
                    bus.put_certified(&place, &payload);
                }
                thread::park_timeout(HEARTBEAT.to_std());
            }
        };
        let thread = thread::Builder::new()
            .name("beats".to_owned())
            .spawn(beat)
            .map_err(Error::machine("start a thread"))?;
        Ok(Self { ticked, ends, thread: Some(thread) })
    }

    /// The main thread does not hang.
    pub(crate) fn tick(&self) {
        self.ticked.store(sys::clock::monotonic(), Ordering::Relaxed);
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
