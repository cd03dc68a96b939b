//! Metrics of a running lab: `--metrics` of `run`, `up` and `sim`.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use ::watch::{Follower, LabMetrics, Simulation};
use lab::plan::Plan;
use run::RunRecord;
use run::live::ClockChange;
use sim::live::Live;

use crate::status::{self, Watched};
use crate::terminal::Terminal;
use crate::watch::own_entry;
use crate::{Failure, args};

/// Fails if the address cannot be bound. The server itself starts after the lab, which must not
/// inherit its thread.
pub(crate) fn check_address(address: SocketAddr) -> Result<(), Failure> {
    let cannot = |e| Failure::machine(format!("--metrics: cannot listen at {address}: {e}"));
    TcpListener::bind(address).map(drop).map_err(cannot)
}

/// A server of metrics and the watcher of its lab.
struct Serving {
    _server: ops::Server,
    _follower: Follower,
}

/// Serves the metrics of the lab with this socket.
fn serve(
    command: &'static str,
    socket: &Path,
    address: SocketAddr,
    terminal: &Terminal,
) -> Result<Serving, Failure> {
    let board = Arc::new(LabMetrics::new(command));
    let source = Watched {
        prefix: "netarium_lab",
        board: Arc::clone(&board),
        status: |board| board.status(),
        metrics: |board| board.metrics(),
        is_healthy: |board| board.is_healthy(),
    };
    let options = args::Watch { status: None, metrics: Some(address) };
    let server = status::watch(source, &options, status::socket("lab", None)?, terminal)?;
    let follower = board.follow(socket)?;
    let address = server.address.unwrap_or(address);
    terminal.note(format!("metrics at http://{address}/metrics"));
    Ok(Serving { _server: server, _follower: follower })
}

/// The metrics of a lab that this process runs on the wall clock.
pub(crate) struct RunMetrics<'a> {
    command: &'static str,
    address: SocketAddr,
    terminal: &'a Terminal,
    serving: Option<Serving>,
    has_failed: bool,
}

impl<'a> RunMetrics<'a> {
    pub(crate) fn new(
        command: &'static str,
        address: SocketAddr,
        terminal: &'a Terminal,
    ) -> Result<Self, Failure> {
        check_address(address)?;
        Ok(Self { command, address, terminal, serving: None, has_failed: false })
    }

    /// Starts the server once the lab is registered. Before, this process may have one thread only.
    pub(crate) fn start(&mut self) {
        if self.serving.is_some() || self.has_failed {
            return;
        }
        let socket = own_entry().map(|entry| entry.and_then(|entry| entry.socket));
        let serve = |socket: &Path| serve(self.command, socket, self.address, self.terminal);
        match socket.and_then(|socket| socket.as_deref().map(serve).transpose()) {
            Ok(serving) => self.serving = serving,
            Err(failure) => {
                self.has_failed = true;
                self.terminal.error(format!("no metrics: {}", failure.message));
            }
        }
    }
}

/// The metrics of a run on the virtual clock, which they do not slow down.
pub(crate) struct SimulationMetrics<'a> {
    address: SocketAddr,
    terminal: &'a Terminal,
    live: Arc<Live>,
    feed: Simulation,
    serving: Option<Serving>,
    has_failed: bool,
}

impl<'a> SimulationMetrics<'a> {
    pub(crate) fn new(
        plan: &Plan,
        address: SocketAddr,
        terminal: &'a Terminal,
    ) -> Result<Self, Failure> {
        check_address(address)?;
        let live = Arc::new(Live::new(plan));
        let feed = Simulation::start(Arc::clone(&live))
            .map_err(|e| Failure::machine(format!("no metrics: {e}")))?;
        Ok(Self { address, terminal, live, feed, serving: None, has_failed: false })
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    /// Starts the server once the run waits for its first watcher.
    pub(crate) fn update(&mut self) {
        if self.serving.is_some() || self.has_failed || self.live.hello().is_none() {
            return;
        }
        self.live.change(ClockChange::Speed { permille: None });
        match serve("sim", &self.feed.socket(), self.address, self.terminal) {
            Ok(serving) => self.serving = Some(serving),
            Err(failure) => {
                // Without a watcher, the run would wait indefinitely.
                self.live.watch(true);
                self.has_failed = true;
                self.terminal.error(format!("no metrics: {}", failure.message));
            }
        }
    }

    /// Sends the end of the run.
    pub(crate) fn end(self, record: Option<&RunRecord>) {
        self.feed.end(record);
    }
}
