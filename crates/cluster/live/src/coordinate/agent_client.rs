//! Requests of a coordinator to a lab's agents.

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use base::Bytes;
use cluster::AgentId;
use cluster::control::{LabOrder, Order, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zenoh::Wait;
use zenoh::qos::Priority;

use super::event::Event;
use crate::session::{self, Bus, LabPeers, NoReply, Peer, key};
use crate::{Error, Result, results};

const FETCH_BYTES: u32 = 4 << 20;
/// Max attempts to fetch a range.
const MAX_ATTEMPTS: u32 = 4;
/// Max size of a shard's unpacked results.
const MAX_RESULT_BYTES: u64 = 64 << 30;
/// Upper bound: the steps of the coordinator have separate, mostly shorter deadlines.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const DROP_TIMEOUT: Duration = Duration::from_secs(2);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests to the agents of a lab. The replies become events.
pub(super) struct AgentClient {
    bus: Bus,
    events: Sender<Event>,
    lab: String,
    peers: LabPeers,
}

impl AgentClient {
    pub(super) fn new(bus: Bus, events: Sender<Event>, lab: String, peers: LabPeers) -> Self {
        Self { bus, events, lab, peers }
    }

    /// Sends a request. Its reply becomes an event; a timeout causes no event.
    pub(super) fn request<T: DeserializeOwned + 'static>(
        &self,
        agent: AgentId,
        command: &str,
        message: &impl Serialize,
        attachment: Option<&[u8]>,
        event: fn(AgentId, Result<T, Refusal>) -> Event,
    ) -> Result<()> {
        let events = self.events.clone();
        let session = self.bus.session();
        let mut get = session
            .get(key::command(self.peers.get(agent), self.bus.own.number, command))
            .payload(session::bytes(message))
            .timeout(REQUEST_TIMEOUT)
            .callback(move |reply| {
                let answer = match session::answer::<T>(&reply) {
                    Ok(answer) => Ok(answer),
                    Err(NoReply::Refused(refusal)) => Err(refusal),
                    Err(NoReply::Timeout) => return,
                };
                // It fails only if the run is over.
                drop(events.send(event(agent, answer)));
            });
        if let Some(attachment) = attachment.filter(|bytes| !bytes.is_empty()) {
            get = get.attachment(attachment);
        }
        get.wait().map_err(Error::session("send a request to an agent"))
    }

    pub(super) fn order(&self, agent: AgentId, order: Order) -> Result<()> {
        let order = LabOrder { lab: self.lab.clone(), order };
        if order.order == Order::Stop {
            return self.request(agent, "order", &order, None, Event::Ordered);
        }
        // Agents do not reject this order. It is synchronous because the command may end next.
        drop(send_order(&self.bus, self.peers.get(agent), &order, DROP_TIMEOUT));
        Ok(())
    }

    /// Fetches the results of an agent's shard into the folder `into`, in another thread.
    pub(super) fn fetch(&self, agent: AgentId, bytes: u64, into: PathBuf) -> Result<()> {
        let (bus, events) = (self.bus.clone(), self.events.clone());
        let (peer, lab) = (self.peers.get(agent).clone(), self.lab.clone());
        let fetch = move || {
            let progress = || drop(events.send(Event::Fetching));
            let fetched = fetch(&bus, &peer, &lab, bytes, &into, &progress);
            drop(events.send(Event::Fetched(agent, fetched.map(|()| into))));
        };
        let spawned = thread::Builder::new().name("fetcher".to_owned()).spawn(fetch);
        spawned.map(drop).map_err(Error::machine("start a thread"))
    }
}

/// Sends an order and waits for the reply.
fn send_order(
    bus: &Bus,
    agent: &Peer,
    order: &LabOrder,
    timeout: Duration,
) -> Result<Vec<u8>, NoReply> {
    let replies = bus
        .session()
        .get(key::command(agent, bus.own.number, "order"))
        .payload(session::bytes(order))
        .priority(Priority::DataLow)
        .timeout(timeout)
        .wait()
        .map_err(|_| NoReply::Timeout)?;
    let reply = replies.recv().map_err(|_| NoReply::Timeout)?;
    match reply.result() {
        Ok(sample) => Ok(sample.payload().to_bytes().into_owned()),
        Err(error) => Err(session::refusal(&error.payload().to_bytes())),
    }
}

/// Fetches packed results of `bytes` bytes and unpacks them. Calls `progress` after each part.
pub(super) fn fetch(
    bus: &Bus,
    agent: &Peer,
    lab: &str,
    bytes: u64,
    into: &Path,
    progress: &dyn Fn(),
) -> Result<()> {
    if bytes > MAX_RESULT_BYTES {
        let [size, max] = [bytes, MAX_RESULT_BYTES].map(Bytes::new);
        let text = format!("its results have {size}; the maximum is {max}");
        return Err(Error::Agent { agent: agent.name.clone(), text, code: 4 });
    }
    let packed = into.with_extension("packed");
    // A file that an earlier attempt has left, or a link of a program of the lab.
    let _ = std::fs::remove_file(&packed);
    let mut file = run::files::create_new(&packed).map_err(Error::file("make", &packed))?;
    let mut offset = 0;
    while offset < bytes {
        let part = fetch_part(bus, agent, lab, offset)?;
        file.write_all(&part).map_err(Error::file("write", &packed))?;
        offset += part.len() as u64;
        progress();
    }
    file.rewind().map_err(Error::file("read", &packed))?;
    let unpacked = results::unpack(file, into, MAX_RESULT_BYTES);
    std::fs::remove_file(&packed).map_err(Error::file("remove", &packed))?;
    unpacked
}

fn fetch_part(bus: &Bus, agent: &Peer, lab: &str, offset: u64) -> Result<Vec<u8>> {
    let order = Order::Fetch { offset, length: FETCH_BYTES };
    let order = LabOrder { lab: lab.to_owned(), order };
    let failed = |text: String| Error::Agent { agent: agent.name.clone(), text, code: 4 };
    for _ in 0..MAX_ATTEMPTS {
        match send_order(bus, agent, &order, FETCH_TIMEOUT) {
            Ok(part) if part.is_empty() => {
                return Err(failed("its results are shorter than it reported".to_owned()));
            }
            Ok(part) => return Ok(part),
            Err(NoReply::Refused(refusal)) => return Err(failed(refusal.text)),
            Err(NoReply::Timeout) => {}
        }
    }
    Err(failed(format!("no answer to {MAX_ATTEMPTS} requests for its results")))
}
