//! The live view of a run: its pace, requests of watchers, and frames. The thread of the run never
//! waits for a watcher but as the pace demands.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Time;
use lab::Diagnostics;
use lab::plan::Plan;
use run::RunRecord;
use run::live::{
    ClockChange, ClockState, Frame, FrameBuilder, Hello, Source, Tap, link_numbers, renumber,
};

use crate::pace::Pace;

/// Interval at which a waiting run looks at the clock and at the stop flag.
const WAIT_INTERVAL: Duration = Duration::from_millis(10);

/// A request that the thread of the run handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fields of links and their values.
    Set(Vec<(String, String)>),
    /// A text for the list of events.
    Mark(String),
}

/// What a request did.
#[derive(Debug)]
pub struct Done {
    pub at: Time,
    pub events: Vec<String>,
    pub warnings: Option<Diagnostics>,
    /// The change as `[[at]]` events for the end of the lab file.
    pub at_events: String,
}

/// Why a request had no effect.
#[derive(Debug)]
pub enum Refusal {
    Wrong(Diagnostics),
    /// The engine has no such request.
    Impossible(&'static str),
}

pub type Reply = Result<Done, Refusal>;

/// What the thread of a run and the server of its watchers share.
#[derive(Debug)]
pub struct Live {
    tap: Arc<Tap>,
    started: Instant,
    shared: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Debug)]
struct Shared {
    pace: Pace,
    /// The virtual time that the run has reached.
    at: Time,
    /// Whether the run waits at this time.
    is_waiting: bool,
    /// The time of the last samples.
    sampled: Time,
    hello: Option<Hello>,
    /// Positions in the hello of the links of the plan.
    numbers: Vec<Option<u32>>,
    requests: Vec<(Action, Sender<Reply>)>,
}

impl Live {
    /// The live view of a run of this plan, which waits for the first watcher.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tap: Arc::new(Tap::new(FrameBuilder::on_virtual_clock(plan))),
            started: Instant::now(),
            shared: Mutex::new(Shared {
                pace: Pace::new(),
                at: Time::ZERO,
                is_waiting: false,
                sampled: Time::ZERO,
                hello: None,
                numbers: Vec::new(),
                requests: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The description of the run; `None` before its start.
    pub fn hello(&self) -> Option<Hello> {
        self.lock().hello.clone()
    }

    /// Registers whether there are watchers.
    pub fn watch(&self, is_watched: bool) {
        let mut shared = self.lock();
        let at = shared.at;
        shared.pace.watch(self.started.elapsed(), at, is_watched);
        if !is_watched {
            self.tap.unwatch();
        }
        self.changed.notify_all();
    }

    /// The state before the next frame, for a new watcher.
    pub fn first(&self) -> Frame {
        let shared = self.lock();
        let mut frame = self.tap.watch(shared.at);
        renumber(&mut frame, &shared.numbers);
        frame
    }

    /// The next frame, if it is complete.
    pub fn frame(&self) -> Option<Frame> {
        let shared = self.lock();
        if !self.tap.is_watched() {
            self.tap.with(|builder| builder.apply_changes(shared.sampled));
            return None;
        }
        let mut frame = self.tap.with(|builder| builder.poll(shared.sampled))?;
        renumber(&mut frame, &shared.numbers);
        Some(frame)
    }

    /// The last frames of a run that has ended.
    pub fn last(&self) -> Vec<Frame> {
        let first = self.frame();
        let shared = self.lock();
        let is_watched = self.tap.is_watched();
        let rest = is_watched.then(|| self.tap.with(|builder| builder.finish(shared.at)));
        let mut rest = rest.unwrap_or_default();
        for frame in &mut rest {
            renumber(frame, &shared.numbers);
        }
        first.into_iter().chain(rest).collect()
    }

    /// Changes the pace; returns the virtual time.
    pub fn change(&self, change: ClockChange) -> Time {
        let mut shared = self.lock();
        let at = shared.at;
        shared.pace.change(self.started.elapsed(), at, change);
        self.changed.notify_all();
        at
    }

    pub fn clock(&self) -> ClockState {
        let shared = self.lock();
        let state = shared.pace.state(shared.at);
        // After a request to pause, a run first reaches its limit.
        ClockState { is_paused: state.is_paused && shared.is_waiting, ..state }
    }

    /// Whether the run goes on without watchers.
    pub fn is_unattended(&self) -> bool {
        self.lock().pace.is_unattended()
    }

    /// Passes a request to the thread of the run; nothing is received after the end of the run.
    pub fn request(&self, action: Action) -> Receiver<Reply> {
        let (reply, replies) = channel();
        self.lock().requests.push((action, reply));
        self.changed.notify_all();
        replies
    }

    pub(crate) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    pub(crate) fn begin(&self, plan: &Plan, record: &RunRecord, folder: &Path, can_set: bool) {
        let mut hello = Hello::of(plan, record, folder, Source::Live);
        hello.interval_s = plan.interval.as_secs_f64();
        let commands = ["clock", "mark"].into_iter().chain(can_set.then_some("set"));
        hello.commands = commands.map(str::to_owned).collect();
        let mut shared = self.lock();
        shared.numbers = link_numbers(plan, record);
        shared.hello = Some(hello);
    }

    /// Waits until a run that has reached `at` may go on, or has requests, or stops. Returns how
    /// far it may go on.
    pub(crate) fn wait(&self, at: Time, stop: &AtomicBool) -> Time {
        let mut shared = self.lock();
        shared.at = at;
        loop {
            let limit = shared.pace.limit(self.started.elapsed(), at);
            if limit > at || !shared.requests.is_empty() || stop.load(Ordering::Relaxed) {
                shared.is_waiting = false;
                return limit;
            }
            shared.is_waiting = true;
            let waited = self.changed.wait_timeout(shared, WAIT_INTERVAL);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes the samples up to `at` available to watchers.
    pub(crate) fn sampled(&self, at: Time) {
        let mut shared = self.lock();
        (shared.sampled, shared.at) = (at, shared.at.max(at));
    }

    pub(crate) fn take_requests(&self) -> Vec<(Action, Sender<Reply>)> {
        std::mem::take(&mut self.lock().requests)
    }
}
