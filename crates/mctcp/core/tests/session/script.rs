//! Script of a run.

use base::{Bandwidth, Bytes, Ratio, Span, Time};
use mctcp::Settings;
use mctcp::scheduler::SchedulerKind;

pub(crate) fn secs(secs: u64) -> Time {
    millis(1_000 * secs)
}

pub(crate) fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// An application: data that it writes before it ends its stream.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    pub(crate) writes: u64,
    pub(crate) chunk: usize,
    pub(crate) rate: Option<Bandwidth>,
    pub(crate) starts: Time,
}

impl Application {
    pub(crate) fn bulk(writes: u64) -> Self {
        Self { writes, chunk: 64 << 10, rate: None, starts: Time::ZERO }
    }
}

/// Initial state of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) rate: Bandwidth,
    pub(crate) delay: Span,
    pub(crate) queue: Bytes,
    pub(crate) loss: Ratio,
    pub(crate) backup: bool,
}

impl Path {
    pub(crate) fn new(mbits: u64, delay_ms: u64) -> Self {
        Self {
            rate: Bandwidth::from_mbits_per_sec(mbits),
            delay: Span::from_millis(delay_ms),
            queue: Bytes::new(60_000),
            loss: Ratio::ZERO,
            backup: false,
        }
    }
}

/// An event of a path or an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Drops all packets on the path.
    Kill(usize),
    Revive(usize),
    /// TCP acknowledges everything on the path and the peers receive nothing, as behind a hanging
    /// proxy; or the held data arrive.
    Hold(usize, bool),
    /// Resets all its connections.
    Reset(usize),
    /// Starts or stops rejecting connections on it.
    Refuse(usize, bool),
    /// Sets the loss in thousandths.
    Loss(usize, u16),
    Rate(usize, Bandwidth),
    Delay(usize, Span),
    Remove(usize),
    Add(usize),
    JoinNow,
    /// The application of an end stops reading for this time.
    StopReading(usize, Span),
    Abort(usize),
    Schedule(SchedulerKind),
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) paths: Vec<Path>,
    /// Settings of the client and the server.
    pub(crate) settings: [Settings; 2],
    pub(crate) applications: [Application; 2],
    /// `TCP_NOTSENT_LOWAT` and `SO_SNDBUF`.
    pub(crate) low_water: u64,
    pub(crate) socket: u64,
    pub(crate) psk: bool,
    pub(crate) acts: Vec<(Time, Act)>,
}

impl Script {
    /// A client that writes `bytes` over these paths.
    pub(crate) fn upload(paths: &[Path], bytes: u64) -> Self {
        let settings = Settings::default();
        Self {
            seed: 1,
            paths: paths.to_vec(),
            settings: [settings.clone(), settings],
            applications: [Application::bulk(bytes), Application::bulk(0)],
            low_water: 64 << 10,
            socket: 4 << 20,
            psk: false,
            acts: Vec::new(),
        }
    }

    /// Sets both ends' buffers.
    pub(crate) fn buffers(mut self, bytes: u64) -> Self {
        for settings in &mut self.settings {
            settings.send_buffer = Bytes::new(bytes);
            settings.receive_buffer = Bytes::new(bytes);
        }
        self.socket = bytes;
        self
    }

    pub(crate) fn scheduler(mut self, kind: SchedulerKind) -> Self {
        self.settings.iter_mut().for_each(|settings| settings.scheduler = kind);
        self
    }

    pub(crate) fn at(mut self, millis: u64, act: Act) -> Self {
        self.acts.push((self::millis(millis), act));
        self
    }
}
