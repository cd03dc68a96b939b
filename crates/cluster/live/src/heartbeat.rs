//! Sends the heartbeats of a process from a separate thread, so that long operations of the main
//! thread do not delay them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use cluster::detector::HEARTBEAT_INTERVAL;

use crate::session::Bus;
use crate::{Error, Result, priority};

/// Time in ns without a [tick](HeartbeatSender::tick) of the main thread after which no heartbeats
/// are sent: the process hangs. With the timeout of the receivers, they detect that within 3 s.
const HANG_TIMEOUT: u64 = 1_000_000_000;

/// Sends heartbeats until it is dropped.
pub(crate) struct HeartbeatSender {
    last_tick: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HeartbeatSender {
    /// Publishes `payload` under `key` now and every [`HEARTBEAT_INTERVAL`].
    pub(crate) fn start(bus: &Bus, key: String, payload: Vec<u8>) -> Result<Self> {
        let last_tick = Arc::new(AtomicU64::new(sys::clock::monotonic()));
        let ends = Arc::new(AtomicBool::new(false));
        let (bus, tick, ending) = (bus.clone(), Arc::clone(&last_tick), Arc::clone(&ends));
        let send = move || {
            priority::raise();
            while !ending.load(Ordering::Relaxed) {
                let age = sys::clock::monotonic().saturating_sub(tick.load(Ordering::Relaxed));
                if age < HANG_TIMEOUT {
                    bus.put_certified(&key, &payload);
                }
                thread::park_timeout(HEARTBEAT_INTERVAL.to_std());
            }
        };
        let thread = thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(send)
            .map_err(Error::machine("start a thread"))?;
        Ok(Self { last_tick, ends, thread: Some(thread) })
    }

    /// Shows that the main thread does not hang. Call it at least every second.
    pub(crate) fn tick(&self) {
        self.last_tick.store(sys::clock::monotonic(), Ordering::Relaxed);
    }
}

impl Drop for HeartbeatSender {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
