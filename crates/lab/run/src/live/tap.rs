//! Passes recorded samples and log lines to a frame builder while a watcher is connected.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use base::Time;

use super::{Frame, FrameBuilder};

/// A frame builder that the threads of a run share.
#[derive(Debug)]
pub struct Tap {
    is_watched: AtomicBool,
    builder: Mutex<FrameBuilder>,
}

impl Tap {
    pub fn new(builder: FrameBuilder) -> Self {
        Self { is_watched: AtomicBool::new(false), builder: Mutex::new(builder) }
    }

    /// Whether samples and log lines are needed.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut FrameBuilder) -> R) -> R {
        act(&mut self.builder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts making frames unless it has started; returns the state before the next frame.
    pub fn watch(&self, now: Time) -> Frame {
        let was_watched = self.is_watched.swap(true, Ordering::Relaxed);
        self.with(|builder| {
            if !was_watched {
                builder.restart(now);
            }
            builder.state()
        })
    }

    /// Stops making frames.
    pub fn unwatch(&self) {
        self.is_watched.store(false, Ordering::Relaxed);
    }
}
