//! What happens to an agent, and what it does then.

use base::Span;
use cluster::control::{
    FromPiece, Heartbeat, Order, Ordered, Phase, Prepare, ProgramEvent, Refusal, Report, Reserve,
    Reserved, Start, Started,
};
use zenoh::Wait;
use zenoh::query::Query;

use super::lab::{Lab, open_trunk, part, refuse};
use super::process::Process;
use super::{Agent, MOST_LABS, News, machine, now};
use crate::session;
use crate::{Error, Result};

/// An agent that is asked to end waits so long for its results to be fetched.
const LEAVING: Span = Span::from_secs(15);

/// Something that happened.
pub(super) enum Event {
    /// Somebody asks something.
    Asked(Query),
    /// Another agent is there.
    Heartbeat(Heartbeat),
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
            Event::Asked(query) => self.asked(&query, tell),
            Event::Heartbeat(beat) => return self.heartbeat(&beat, tell),
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
                lab.said(said, &self.session, &self.events);
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

    fn heartbeat(&mut self, beat: &Heartbeat, tell: &mut dyn FnMut(News)) -> Result<()> {
        if !session::is_name(&beat.name) {
            return Ok(());
        }
        if beat.name == self.options.name && beat.instance != self.instance {
            // The one whose number is higher gives way, so that one of them stays.
            return if beat.instance < self.instance && !beat.leaves {
                let text = format!(
                    "the cluster has an agent {} already: give this one another --name",
                    beat.name
                );
                Err(Error::Usage { text })
            } else {
                Ok(())
            };
        }
        let change = if beat.leaves {
            self.detector.leave(&beat.name)
        } else {
            self.clocks.know(&beat.name, beat.clock, beat.clock_secret);
            self.detector.hear(now(), &beat.name, beat.instance)
        };
        if let Some(change) = change {
            self.changed(change, tell);
        }
        Ok(())
    }

    fn asked(&mut self, query: &Query, tell: &mut dyn FnMut(News)) {
        let payload = query.payload().map(zenoh::bytes::ZBytes::to_bytes).unwrap_or_default();
        let verb = query.key_expr().as_str().rsplit('/').next().unwrap_or_default().to_owned();
        match &*verb {
            "status" => session::reply(query, &Ok(self.status())),
            "reserve" => {
                let answer = parse(&payload).and_then(|terms| self.reserve(terms, tell));
                session::reply(query, &answer);
            }
            "prepare" => {
                let files = query.attachment().map(|files| files.to_bytes().into_owned());
                let answer = parse(&payload)
                    .and_then(|prepare| self.prepare(prepare, files.unwrap_or_default()));
                session::reply(query, &answer);
            }
            "start" => {
                let answer = parse(&payload).and_then(|start: Start| {
                    let lab = self.labs.get_mut(&start.lab).ok_or_else(|| unknown(&start.lab))?;
                    let origin_ns = lab.start(start.origin_ns, &self.clocks)?;
                    let (lab, name) = (start.lab, lab.terms().name.clone());
                    tell(News::Started { lab, name });
                    Ok(Started { origin_ns })
                });
                session::reply(query, &answer);
            }
            "order" => match parse(&payload) {
                Ok(Ordered { lab, order: Order::Fetch { offset, length } }) => {
                    self.fetch(query, &lab, offset, length);
                }
                Ok(ordered) => session::reply(query, &self.order(&ordered, tell)),
                Err(refusal) => session::reply::<()>(query, &Err(refusal)),
            },
            _ => session::reply::<()>(query, &Err(refuse(format!("cannot {verb}")))),
        }
    }

    /// Answers with a part of a lab's results, beside the own thread: the way may be slow.
    fn fetch(&self, query: &Query, lab: &str, offset: u64, length: u32) {
        let opened = self.labs.get(lab).ok_or_else(|| unknown(lab)).and_then(Lab::packed_results);
        let (file, bytes) = match opened {
            Ok(opened) => opened,
            Err(refusal) => return session::reply::<()>(query, &Err(refusal)),
        };
        let query = query.clone();
        let answer = move || match part(&file, bytes, offset, length) {
            Ok(part) => {
                // Whoever asked asks again, or is gone.
                let _ = query.reply(query.key_expr().clone(), part).wait();
            }
            Err(refusal) => session::reply::<()>(&query, &Err(refusal)),
        };
        // Without a thread there is no answer, and it is asked for again.
        let _ = std::thread::Builder::new().name("answer".to_owned()).spawn(answer);
    }

    fn reserve(&mut self, terms: Reserve, tell: &mut dyn FnMut(News)) -> Result<Reserved, Refusal> {
        let (id, name, hosts) = (terms.lab.clone(), terms.name.clone(), terms.needs.hosts);
        let reserved = self.admit(terms);
        tell(match &reserved {
            Ok(_) => News::Reserved { lab: id, name, hosts },
            Err(refusal) => News::Refused { name, why: refusal.text.clone() },
        });
        reserved
    }

    fn admit(&mut self, terms: Reserve) -> Result<Reserved, Refusal> {
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
        let lab = Lab::new(terms, trunk, &self.options.dir, &self.session, &self.events);
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

    fn prepare(&mut self, prepare: Prepare, files: Vec<u8>) -> Result<(), Refusal> {
        let lab = self.labs.get_mut(&prepare.lab).ok_or_else(|| unknown(&prepare.lab))?;
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

fn unknown(lab: &str) -> Refusal {
    refuse(format!("it knows no lab {lab}"))
}
