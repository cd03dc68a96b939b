//! Metrics of a running lab: a watcher of the lab that sums up its frames.
//!
//! Gauges have the values of the last frame, counters the sums over all frames. So that the number
//! of series is bounded, only the first [`MAX_ELEMENTS`] links, flows and programs in the order of
//! the lab file have their own; totals cover all.

use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Metric;
use emu::control;
use run::live::{End, Frame, Hello, LinkRow, LinkValues, MachineState, Message, ProgramRow};
use serde_json::{Value, json};

mod elements;
#[cfg(test)]
mod tests;

/// Maximum number of links, of flows and of programs with their own series.
pub const MAX_ELEMENTS: usize = 500;

/// Time without a frame after which a running lab is not healthy.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// What the frames of a lab sum up to.
#[derive(Debug)]
pub struct LabMetrics {
    command: &'static str,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` until the lab has described itself.
    hello: Option<Hello>,
    /// Lab time in seconds.
    time_s: f64,
    last_frame: Instant,
    frames: u64,
    dropped_frames: u64,
    links: Vec<Link>,
    flows: Vec<Flow>,
    programs: Vec<ProgramRow>,
    machine: Option<MachineState>,
    end: Option<End>,
    /// Whether the connection to the lab has ended.
    is_closed: bool,
}

#[derive(Debug)]
struct Link {
    values: LinkValues,
    /// The last frame's rates, queues and drops.
    row: LinkRow,
    sent_bytes: [u64; 2],
    dropped_packets: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    goodput_bps: f64,
    rtt_s: Option<f64>,
    received_bytes: u64,
    lost_packets: u64,
}

impl LabMetrics {
    /// Metrics of a lab that this subcommand runs.
    pub fn new(command: &'static str) -> Self {
        let state = State {
            hello: None,
            time_s: 0.0,
            last_frame: Instant::now(),
            frames: 0,
            dropped_frames: 0,
            links: Vec::new(),
            flows: Vec::new(),
            programs: Vec::new(),
            machine: None,
            end: None,
            is_closed: false,
        };
        Self { command, started: Instant::now(), state: Mutex::new(state) }
    }

    /// Watches the lab with this socket until its end, in another thread.
    ///
    /// # Errors
    /// If the lab cannot be reached, or the thread cannot be started.
    pub fn follow(self: &Arc<Self>, socket: &Path) -> io::Result<Follower> {
        let stream = control::watch(socket)?;
        let feed = BufReader::new(stream.try_clone()?);
        let this = Arc::clone(self);
        let read = move || {
            for line in feed.lines().map_while(Result::ok) {
                this.receive(&line);
            }
            this.lock().is_closed = true;
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(read)?;
        Ok(Follower { stream, thread: Some(thread) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, line: &str) {
        let message = serde_json::from_str(line);
        let mut state = self.lock();
        match message {
            Ok(Message::Hello(hello)) => state.begin(*hello),
            Ok(Message::Frame(frame)) => state.add(&frame),
            Ok(Message::End(end)) => {
                state.time_s = end.t;
                state.end = Some(end);
            }
            // The watcher sends no requests; the clock shows in the frames.
            Ok(Message::Answer(_) | Message::Clock(_)) | Err(_) => {}
        }
    }

    /// The status for `netarium status`.
    pub fn status(&self) -> Value {
        let state = self.lock();
        let hello = state.hello.as_ref();
        let count = |programs: &[ProgramRow], name: &str| {
            programs.iter().filter(|row| elements::state_name(row.state) == name).count()
        };
        json!({
            "schema": "netarium.lab/1",
            "role": self.command,
            "pid": std::process::id(),
            "uptime_s": self.started.elapsed().as_secs_f64(),
            "name": hello.map(|hello| hello.lab.as_str()),
            "run": hello.map(|hello| hello.run.as_str()),
            "seed": hello.map(|hello| hello.seed),
            "clock": hello.map(|hello| hello.clock),
            "time_s": state.time_s,
            "duration_s": hello.and_then(|hello| hello.duration_s),
            "links": state.links.len(),
            "flows": state.flows.len(),
            "programs": state.programs.len(),
            "failed_programs": count(&state.programs, "failed"),
            "machine": state.machine,
            "outcome": state.end.as_ref().map(|end| end.outcome.as_str()),
        })
    }

    /// Whether the lab has ended, or has sent a frame within 10 s.
    pub fn is_healthy(&self) -> bool {
        let state = self.lock();
        state.end.is_some() || !state.is_closed && state.last_frame.elapsed() < FRAME_TIMEOUT
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let uptime = self.started.elapsed().as_secs_f64();
        let state = self.lock();
        let mut metrics = vec![Metric::gauge("uptime_s", "Time since the start.", uptime)];
        state.lab(&mut metrics);
        state.machine(&mut metrics);
        state.totals(&mut metrics);
        state.elements(&mut metrics);
        metrics
    }
}

impl State {
    fn begin(&mut self, hello: Hello) {
        let link = |at: usize, values: &LinkValues| Link {
            values: values.clone(),
            row: LinkRow { link: at as u32, ..LinkRow::default() },
            sent_bytes: [0; 2],
            dropped_packets: [0; 2],
        };
        let links = hello.links.iter().enumerate();
        self.links = links.map(|(at, shown)| link(at, &shown.values)).collect();
        self.flows = vec![Flow::default(); hello.flows.len()];
        let program = |at| ProgramRow { program: at as u32, ..ProgramRow::default() };
        self.programs = (0..hello.programs.len()).map(program).collect();
        self.hello = Some(hello);
    }

    fn add(&mut self, frame: &Frame) {
        (self.time_s, self.last_frame) = (frame.t, Instant::now());
        self.frames += 1;
        self.dropped_frames += frame.dropped;
        // A frame has only the links and flows with traffic.
        for (at, link) in self.links.iter_mut().enumerate() {
            link.row = LinkRow { link: at as u32, ..LinkRow::default() };
        }
        for row in &frame.links {
            let Some(link) = self.links.get_mut(row.link as usize) else { continue };
            link.row = *row;
            for (side, direction) in row.directions.iter().enumerate() {
                link.sent_bytes[side] += bytes(direction.sent_bps, frame.span);
                link.dropped_packets[side] += direction.dropped_packets;
            }
        }
        for flow in &mut self.flows {
            (flow.goodput_bps, flow.rtt_s) = (0.0, None);
        }
        for row in &frame.flows {
            let Some(flow) = self.flows.get_mut(row.flow as usize) else { continue };
            (flow.goodput_bps, flow.rtt_s) = (row.goodput_bps, row.rtt_s);
            flow.received_bytes += bytes(row.goodput_bps, frame.span);
            flow.lost_packets += row.lost_packets;
        }
        for row in &frame.programs {
            if let Some(program) = self.programs.get_mut(row.program as usize) {
                *program = *row;
            }
        }
        for change in &frame.changes {
            if let Some(link) = self.links.get_mut(change.link as usize) {
                link.values.clone_from(&change.values);
            }
        }
        self.machine = frame.machine.or(self.machine);
    }
}

/// Bytes sent at this rate in bit/s for this time. A frame has rates of whole bytes.
fn bytes(rate_bps: f64, span_s: f64) -> u64 {
    (rate_bps * span_s / 8.0).round() as u64
}

/// A watcher of a lab. Dropping it ends the connection.
#[derive(Debug)]
pub struct Follower {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
