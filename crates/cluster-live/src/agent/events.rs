//! What happens to an agent, and what it does then.

use std::collections::BTreeMap;

use base::Span;
use cluster::control::{
    ClockKey, FromPiece, Heartbeat, Order, Ordered, Phase, Prepare, ProgramEvent, Refusal, Report,
    Reserve, Reserved, Start, Started,
};
use zenoh::query::Query;

use super::lab::{Lab, open_trunk, part, refuse};
use super::process::Process;
use super::{Agent, MOST_LABS, News, machine, now};
use crate::session::{self, Peer, key};
use crate::{Error, Result};

/// An agent that is asked to end waits so long for its results to be fetched.
const LEAVING: Span = Span::from_secs(15);

/// Something that happened.
pub(super) enum Event {
    /// A coordinator sends a command.
    Asked {
        query: Query,
        /// The number in its certificate.
        coordinator: u16,
        verb: String,
    },
    /// Another agent is there.
    Heartbeat(Peer, Heartbeat),
    /// Another agent is going to ask for the time.
    ClockKey(String, ClockKey),
    /// The coordinator of a lab is there.
    Coordinator(String),
    /// Another member of a lab says how it is.
    Report(String, Report),
    /// Something has happened to a program of another member.
    Program(String, ProgramEvent),
    /// A piece's process was started, or not.
    Built(String, Result<Process, Refusal>),
    /// A piece has said something.
    Said(String, FromPiece),
    /// A piece's process says no more.
    Gone(String),
    /// A piece's process is gone, with these words.
    Died(String, String),
    /// Results have been packed.
    Packed(String, Result<u64, Refusal>),
    /// Nobody is heard, and why that may be.
    Alone(String),
    /// Somebody wants the agent to end.
    Stop,
}

impl Agent {
    /// Does what follows from an event.
    pub(super) fn take(&mut self, event: Event, tell: &mut dyn FnMut(News)) -> Result<()> {
        match event {
            Event::Asked { query, coordinator, verb } => {
                self.asked(&query, coordinator, &verb, tell);
            }
            Event::Heartbeat(sender, beat) => return self.heartbeat(&sender, &beat, tell),
            Event::ClockKey(name, key) => self.clocks.answer_to(&name, &key.secret),
            Event::Coordinator(lab) => {
                if self.labs.contains_key(&lab) {
                    self.coordinators.hear(now(), &lab, 0);
                }
            }
            Event::Report(lab, report) => {
                if let Some(lab) = self.labs.get_mut(&lab) {
                    lab.hear(&report);
                }
            }
            Event::Program(lab, event) => {
                if let Some(lab) = self.labs.get_mut(&lab) {
                    lab.program(event);
                }
            }
            Event::Built(id, process) => match self.labs.get_mut(&id) {
                Some(lab) => lab.started(process),
                // It was dropped meanwhile.
                None => {
                    if let Ok(process) = process {
                        process.end(None);
                    }
                }
            },
            Event::Said(id, said) => {
                let Some(lab) = self.labs.get_mut(&id) else { return Ok(()) };
                lab.said(said, &self.bus, &self.events);
            }
            Event::Gone(id) => {
                if let Some(lab) = self.labs.get_mut(&id) {
                    lab.process_gone(&self.events);
                }
            }
            Event::Died(id, words) => {
                let Some(lab) = self.labs.get_mut(&id) else { return Ok(()) };
                let name = lab.terms().name.clone();
                lab.died(&words);
                tell(News::Failed { lab: id, name, why: words });
            }
            Event::Packed(id, packed) => {
                let Some(lab) = self.labs.get_mut(&id) else { return Ok(()) };
                let name = lab.terms().name.clone();
                match &packed {
                    Ok(bytes) => tell(News::Finished { lab: id.clone(), name, bytes: *bytes }),
                    Err(error) => {
                        tell(News::Failed { lab: id.clone(), name, why: error.text.clone() });
                    }
                }
                lab.keep(packed);
            }
            Event::Alone(why) => {
                if self.detector.known().next().is_none() {
                    tell(News::Alone { why });
                }
            }
            Event::Stop => self.stop_all(),
        }
        Ok(())
    }

    /// Ends in order: pieces that run are ended, and their results given a moment to be fetched.
    fn stop_all(&mut self) {
        self.stopping += 1;
        self.leaves_by.get_or_insert(now() + LEAVING);
        self.labs.values_mut().for_each(Lab::leave);
        let idle: Vec<String> = self
            .labs
            .iter()
            .filter(|(_, lab)| lab.phase() < Phase::Running)
            .map(|(id, _)| id.clone())
            .collect();
        for id in idle {
            if let Some(lab) = self.labs.remove(&id) {
                lab.end();
            }
        }
    }

    fn heartbeat(
        &mut self,
        sender: &Peer,
        beat: &Heartbeat,
        tell: &mut dyn FnMut(News),
    ) -> Result<()> {
        let name = &sender.name;
        if *name == self.options.name {
            // The one whose instance is higher gives way, so that one of them stays.
            return if beat.instance < self.instance && !beat.leaves {
                let text = format!(
                    "the cluster has an agent {name} already: give this one another --name and, \
                     unless they share a certificate, a certificate of its own"
                );
                Err(Error::Usage { text })
            } else {
                Ok(())
            };
        }
        let change = if beat.leaves {
            self.detector.leave(name)
        } else {
            if let Some(secret) = self.clocks.know(name, beat.clock)? {
                let place = key::clock_key(sender, &self.bus.own);
                self.bus.put_certified(&place, &session::bytes(&ClockKey { secret }));
            }
            self.detector.hear(now(), name, beat.instance)
        };
        if let Some(change) = change {
            self.changed(change, tell);
        }
        Ok(())
    }

    fn asked(&mut self, query: &Query, coordinator: u16, verb: &str, tell: &mut dyn FnMut(News)) {
        let payload = query.payload().map(zenoh::bytes::ZBytes::to_bytes).unwrap_or_default();
        match verb {
            "status" => self.bus.reply(query, &Ok(self.status())),
            "reserve" => {
                let answer =
                    parse(&payload).and_then(|terms| self.reserve(terms, coordinator, tell));
                self.bus.reply(query, &answer);
            }
            "prepare" => {
                let files = query.attachment().map(|files| files.to_bytes().into_owned());
                let answer = parse(&payload).and_then(|prepare| {
                    self.prepare(prepare, coordinator, files.unwrap_or_default())
                });
                self.bus.reply(query, &answer);
            }
            "start" => {
                let clocks = &self.clocks;
                let answer = parse(&payload).and_then(|start: Start| {
                    let lab = lab_of(&mut self.labs, &start.lab, coordinator)?;
                    let origin_ns = lab.start(start.origin_ns, clocks)?;
                    let (lab, name) = (start.lab, lab.terms().name.clone());
                    tell(News::Started { lab, name });
                    Ok(Started { origin_ns })
                });
                self.bus.reply(query, &answer);
            }
            "order" => match parse(&payload) {
                Ok(Ordered { lab, order: Order::Fetch { offset, length } }) => {
                    self.fetch(query, &lab, offset, length);
                }
                Ok(ordered) => {
                    let answer = self.order(&ordered, tell);
                    self.bus.reply(query, &answer);
                }
                Err(refusal) => self.bus.reply::<()>(query, &Err(refusal)),
            },
            _ => self.bus.reply::<()>(query, &Err(refuse(format!("cannot {verb}")))),
        }
    }

    /// Answers with a part of a lab's results, beside the own thread: the way may be slow.
    fn fetch(&self, query: &Query, lab: &str, offset: u64, length: u32) {
        let opened = self.labs.get(lab).ok_or_else(|| unknown(lab)).and_then(Lab::packed_results);
        let (file, bytes) = match opened {
            Ok(opened) => opened,
            Err(refusal) => return self.bus.reply::<()>(query, &Err(refusal)),
        };
        let (query, bus) = (query.clone(), self.bus.clone());
        let answer = move || match part(&file, bytes, offset, length) {
            Ok(part) => {
                // Whoever asked asks again, or is gone.
                let _ = bus.reply_bytes(&query, part);
            }
            Err(refusal) => bus.reply::<()>(&query, &Err(refusal)),
        };
        // Without a thread there is no answer, and it is asked for again.
        let _ = std::thread::Builder::new().name("answer".to_owned()).spawn(answer);
    }

    fn reserve(
        &mut self,
        terms: Reserve,
        coordinator: u16,
        tell: &mut dyn FnMut(News),
    ) -> Result<Reserved, Refusal> {
        let (id, name, hosts) = (terms.lab.clone(), terms.name.clone(), terms.needs.hosts);
        let reserved = self.admit(terms, coordinator);
        tell(match &reserved {
            Ok(_) => News::Reserved { lab: id, name, hosts },
            Err(refusal) => News::Refused { name, why: refusal.text.clone() },
        });
        reserved
    }

    fn admit(&mut self, terms: Reserve, coordinator: u16) -> Result<Reserved, Refusal> {
        if self.stopping > 0 {
            return Err(refuse("it is about to end"));
        }
        if terms.instance != self.instance {
            return Err(refuse("it was started anew a moment ago: try again"));
        }
        if !terms.is_valid() {
            return Err(Refusal { text: "the lab's terms are wrong".to_owned(), code: 70 });
        }
        if self.labs.contains_key(&terms.lab) || self.labs.len() >= MOST_LABS {
            return Err(refuse(format!("it has {} labs, which is the most", self.labs.len())));
        }
        self.has_room(&terms)?;
        let (trunk, at) = open_trunk(self.trunk, self.options.ports.as_ref())?;
        let id = terms.lab.clone();
        let members = terms.members.clone();
        let lab = Lab::new(terms, coordinator, trunk, &self.options.dir, &self.bus, &self.events);
        let mut lab = lab.map_err(|e| Refusal { text: e.to_string(), code: e.exit_code() })?;
        for name in members {
            if let Some(instance) = self.detector.instance(&name) {
                lab.regain(&name, instance);
            }
        }
        self.coordinators.hear(now(), &id, 0);
        self.labs.insert(id, lab);
        Ok(Reserved { trunk: at, datagram: machine::datagram(self.trunk) })
    }

    /// Whether what is left is enough. Placement has seen to it, but may not have known of a lab
    /// that came at the same time.
    fn has_room(&self, terms: &Reserve) -> Result<(), Refusal> {
        let (free, needs) = (self.free(), terms.needs);
        let less = |free: Option<u64>, needed: Option<u64>| {
            free.zip(needed).is_some_and(|(free, needed)| free < needed)
        };
        let lacks = if free.hosts < needs.hosts {
            format!("{} hosts are left, and {} are needed", free.hosts, needs.hosts)
        } else if terms.overcommit {
            return Ok(());
        } else if free.cores < needs.cores {
            format!("{:.1} cores are left, and {:.1} are needed", free.cores, needs.cores)
        } else if free.memory < needs.memory {
            let (free, needed) = (base::Bytes::new(free.memory), base::Bytes::new(needs.memory));
            format!("{free} of memory are left, and {needed} are needed")
        } else if less(free.traffic, needs.traffic) || less(free.nic, needs.nic) {
            "other labs have been promised the traffic that it can carry".to_owned()
        } else {
            return Ok(());
        };
        Err(refuse(format!("{lacks} (other labs run there)")))
    }

    fn prepare(
        &mut self,
        prepare: Prepare,
        coordinator: u16,
        files: Vec<u8>,
    ) -> Result<(), Refusal> {
        let lab = lab_of(&mut self.labs, &prepare.lab, coordinator)?;
        lab.prepare(prepare, files, &self.clocks, &self.options.program, &self.events)
    }

    fn order(&mut self, ordered: &Ordered, tell: &mut dyn FnMut(News)) -> Result<(), Refusal> {
        match ordered.order {
            Order::Stop => {
                self.labs.get_mut(&ordered.lab).ok_or_else(|| unknown(&ordered.lab))?.stop()
            }
            // Who is not there is gone already.
            Order::Drop | Order::Fetch { .. } => {
                self.remove(&ordered.lab, "its coordinator is done with it", tell);
                Ok(())
            }
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, Refusal> {
    session::read(payload).ok_or_else(|| Refusal {
        text: "it does not understand the question: is it of the same version?".to_owned(),
        code: 4,
    })
}

/// The lab with this identifier, which this coordinator must have reserved.
fn lab_of<'a>(
    labs: &'a mut BTreeMap<String, Lab>,
    id: &str,
    coordinator: u16,
) -> Result<&'a mut Lab, Refusal> {
    let lab = labs.get_mut(id).ok_or_else(|| unknown(id))?;
    if lab.coordinator() == coordinator {
        Ok(lab)
    } else {
        Err(refuse(format!("lab {id} belongs to another coordinator")))
    }
}

fn unknown(lab: &str) -> Refusal {
    refuse(format!("it knows no lab {lab}"))
}
