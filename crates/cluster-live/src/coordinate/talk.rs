//! Questions and orders to a lab's agents; answers become events.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use cluster::AgentId;
use cluster::control::{Order, Ordered, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zenoh::Wait;
use zenoh::qos::Priority;

use super::Event;
use crate::session::{self, Bus, NoAnswer, Peer, key};
use crate::{Error, Result, results};

/// Bytes that are fetched at once.
const PART: u32 = 4 << 20;
/// How often a part that does not come is asked for.
const ATTEMPTS: u32 = 4;
/// Largest results of a piece, unpacked.
const LARGEST: u64 = 64 << 30;
/// How long an answer may take; whole steps have their own deadlines.
const ANSWER: Duration = Duration::from_secs(60);

/// The way to a lab's agents.
pub(super) struct Talk {
    bus: Bus,
    events: Sender<Event>,
    lab: String,
    members: Vec<Peer>,
}

impl Talk {
    pub(super) fn new(bus: Bus, events: Sender<Event>, lab: String, members: Vec<Peer>) -> Self {
        Self { bus, events, lab, members }
    }

    /// Asks an agent; its answer becomes an event. One that does not answer in time makes none.
    pub(super) fn ask<T: DeserializeOwned + 'static>(
        &self,
        agent: AgentId,
        verb: &str,
        question: &impl Serialize,
        attachment: Option<&[u8]>,
        event: fn(AgentId, Result<T, Refusal>) -> Event,
    ) -> Result<()> {
        let events = self.events.clone();
        let mut get = self
            .bus
            .session
            .get(key::command(&self.members[agent.index()], self.bus.own.number, verb))
            .payload(session::bytes(question))
            .timeout(ANSWER)
            .callback(move |reply| {
                let answer = match session::answer::<T>(&reply) {
                    Ok(answer) => Ok(answer),
                    Err(NoAnswer::Refused(refusal)) => Err(refusal),
                    Err(NoAnswer::Silence) => return,
                };
                // A run that is over hears no more.
                drop(events.send(event(agent, answer)));
            });
        if let Some(attachment) = attachment.filter(|bytes| !bytes.is_empty()) {
            get = get.attachment(attachment);
        }
        get.wait().map_err(Error::session("ask an agent"))
    }

    /// Orders an agent to do something.
    pub(super) fn order(&self, agent: AgentId, order: Order) -> Result<()> {
        let ordered = Ordered { lab: self.lab.clone(), order };
        let is_stop = ordered.order == Order::Stop;
        let event: fn(AgentId, Result<(), Refusal>) -> Event = |agent, answer| match answer {
            Ok(()) => Event::Prepared(agent, Ok(())),
            Err(refusal) => Event::Refused(agent, refusal),
        };
        if is_stop {
            return self.ask(agent, "order", &ordered, None, event);
        }
        // Dropping is not refused; it is waited for, since the command may end right after it.
        let member = &self.members[agent.index()];
        drop(ask_now(&self.bus, member, &ordered, Duration::from_secs(2)));
        Ok(())
    }

    /// Fetches the results of an agent's piece into the folder `into`, beside the caller.
    pub(super) fn fetch(&self, agent: AgentId, bytes: u64, into: PathBuf) -> Result<()> {
        let (bus, events) = (self.bus.clone(), self.events.clone());
        let (member, lab) = (self.members[agent.index()].clone(), self.lab.clone());
        let fetch = move || {
            let news = events.clone();
            let moved = || drop(news.send(Event::Fetching));
            let fetched = fetch(&bus, &member, &lab, bytes, &into, &moved);
            drop(events.send(Event::Fetched(agent, fetched.map(|()| into))));
        };
        let spawned = thread::Builder::new().name("fetcher".to_owned()).spawn(fetch);
        spawned.map(drop).map_err(Error::machine("start a thread"))
    }
}

/// Asks and waits for the answer's bytes.
fn ask_now(
    bus: &Bus,
    agent: &Peer,
    ordered: &Ordered,
    patience: Duration,
) -> Result<Vec<u8>, NoAnswer> {
    let replies = bus
        .session
        .get(key::command(agent, bus.own.number, "order"))
        .payload(session::bytes(ordered))
        .priority(Priority::DataLow)
        .timeout(patience)
        .wait()
        .map_err(|_| NoAnswer::Silence)?;
    let reply = replies.recv().map_err(|_| NoAnswer::Silence)?;
    match reply.result() {
        Ok(sample) => Ok(sample.payload().to_bytes().into_owned()),
        Err(error) => Err(session::refusal(&error.payload().to_bytes())),
    }
}

/// Fetches and unpacks packed results of `bytes` bytes.
pub(super) fn fetch(
    bus: &Bus,
    agent: &Peer,
    lab: &str,
    bytes: u64,
    into: &Path,
    moved: &dyn Fn(),
) -> Result<()> {
    if bytes > LARGEST {
        let text = format!("its results have {}, which is too much", base::Bytes::new(bytes));
        return Err(Error::Agent { agent: agent.name.clone(), text, code: 4 });
    }
    let packed = into.with_extension("packed");
    let mut file = File::create(&packed).map_err(Error::file("make", &packed))?;
    let mut offset = 0;
    while offset < bytes {
        let part = fetch_part(bus, agent, lab, offset)?;
        file.write_all(&part).map_err(Error::file("write", &packed))?;
        offset += part.len() as u64;
        moved();
    }
    drop(file);
    let file = File::open(&packed).map_err(Error::file("read", &packed))?;
    let unpacked = results::unpack(file, into, LARGEST);
    std::fs::remove_file(&packed).map_err(Error::file("remove", &packed))?;
    unpacked
}

fn fetch_part(bus: &Bus, agent: &Peer, lab: &str, offset: u64) -> Result<Vec<u8>> {
    let order = Order::Fetch { offset, length: PART };
    let ordered = Ordered { lab: lab.to_owned(), order };
    let failed = |text: String| Error::Agent { agent: agent.name.clone(), text, code: 4 };
    for _ in 0..ATTEMPTS {
        match ask_now(bus, agent, &ordered, Duration::from_secs(10)) {
            Ok(part) if part.is_empty() => {
                return Err(failed("its results are shorter than it said".to_owned()));
            }
            Ok(part) => return Ok(part),
            Err(NoAnswer::Refused(refusal)) => return Err(failed(refusal.text)),
            Err(NoAnswer::Silence) => {}
        }
    }
    Err(failed("its results do not come".to_owned()))
}
