//! Builds a shard: unpacks the lab's files, starts the shard's process and opens its trunk.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use cluster::control::{LAB_FILE, Prepare, Refusal, Reserve, Setup};

use super::event::Event;
use super::process::Process;
use crate::{Error, Result, results};

/// Max size of a lab's unpacked files.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A refusal with the exit code for a missing capability of the machine.
pub(super) fn refusal(text: impl Into<String>) -> Refusal {
    Refusal { text: text.into(), code: 4 }
}

/// The sockets of a shard's process.
pub(super) struct Sockets {
    pub(super) trunk: OwnedFd,
    pub(super) notices: OwnedFd,
}

pub(super) struct Builder {
    pub(super) folder: PathBuf,
    pub(super) terms: Reserve,
    pub(super) leads_ns: Vec<u64>,
    pub(super) program: PathBuf,
    pub(super) events: Sender<Event>,
}

impl Builder {
    /// Starts the shard's process. It takes a while: do not call it in the agent's main thread.
    pub(super) fn build(self, prepare: Prepare, files: &[u8], sockets: Sockets) -> Result<Process> {
        let lab_dir = self.folder.join("lab");
        let runs_dir = self.folder.join("runs");
        for dir in [&lab_dir, &runs_dir] {
            std::fs::create_dir(dir).map_err(Error::file("make", dir))?;
        }
        if !files.is_empty() {
            results::unpack(files, &lab_dir, MAX_FILE_BYTES)?;
        }
        let lab = lab_dir.join(LAB_FILE);
        run::files::replace(&lab, prepare.text.as_bytes()).map_err(Error::file("write", &lab))?;
        let id = self.terms.lab.clone();
        let setup = Setup {
            id: self.terms.lab,
            lab,
            own: self.terms.own,
            owners: prepare.owners,
            agents: self.terms.agents,
            trunks: prepare.trunks,
            key: prepare.key,
            encrypt: prepare.encrypt,
            datagram: prepare.datagram,
            leads_ns: self.leads_ns,
            runs_dir,
            on_loss: self.terms.on_loss,
            stay: prepare.stay,
            engine: prepare.engine,
        };
        let fds = [sockets.trunk, sockets.notices];
        let events = self.events;
        Process::start(&self.program, &self.folder, &setup, &fds, move |message| {
            let id = id.clone();
            let event = match message {
                Some(message) => Event::Message(id, message),
                None => Event::Disconnected(id),
            };
            events.send(event).is_ok()
        })
    }
}

/// Opens a trunk's socket at `address`, on the first free port.
pub(super) fn open_trunk(
    address: IpAddr,
    ports: Option<&RangeInclusive<u16>>,
) -> Result<(OwnedFd, SocketAddr), Refusal> {
    /// Buffers datagrams while the lab's process does other work.
    const BUFFER_BYTES: usize = 16 << 20;
    let mut last = refusal("no port for a trunk: the range of --trunk-ports is empty");
    for port in ports.cloned().unwrap_or(0..=0) {
        match sys::socket::train_socket(SocketAddr::new(address, port), BUFFER_BYTES) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = refusal(format!("cannot open a trunk at {address}: {error}")),
        }
    }
    Err(last)
}
