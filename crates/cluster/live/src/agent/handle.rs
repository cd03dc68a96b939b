//! The reactions of an agent to events.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, Span};
use cluster::control::{
    ClockKey, Heartbeat, LabOrder, Order, Phase, Prepare, Refusal, Reserve, Reserved, Start,
    Started,
};
use zenoh::query::Query;

use super::Event;
use super::builder::open_trunk;
use super::machine;
use super::notification::Notification;
use super::shard::{Shard, read_range, refusal};
use super::state::{Agent, Notify};
use crate::session::{self, Peer, key};
use crate::system::now;
use crate::{Error, Result};

/// Time to fetch the results after the agent was asked to stop.
const LEAVE_TIMEOUT: Span = Span::from_secs(15);
/// Max agents with one certificate that are tracked. Agents of a Kubernetes job share one.
const MAX_NAMES_PER_CERTIFICATE: usize = 1024;
/// Max labs, including those whose results have not been fetched.
const MAX_LABS: usize = 64;

impl Agent {
    pub(super) fn handle(&mut self, event: Event, notify: Notify<'_>) -> Result<()> {
        match event {
            Event::Command { query, coordinator, command } => {
                self.on_command(&query, coordinator, &command, notify);
            }
            Event::Heartbeat(sender, beat) => return self.on_heartbeat(&sender, &beat, notify),
            Event::ClockKey(name, key) => self.clocks.answer_to(&name, &key.secret),
            Event::Coordinator(id) => {
                if self.shards.contains_key(&id) {
                    self.coordinators.on_heartbeat(now(), &id, 0);
                }
            }
            Event::Report(id, report) => {
                if let Some(shard) = self.shards.get_mut(&id) {
                    shard.on_report(&report);
                }
            }
            Event::Program(id, event) => {
                if let Some(shard) = self.shards.get_mut(&id) {
                    shard.on_program_event(event);
                }
            }
            Event::ProcessStarted(id, process) => match self.shards.get_mut(&id) {
                Some(shard) => shard.on_process_started(process, &self.events),
                // The shard was dropped in the meantime.
                None => {
                    if let Ok(process) = process {
                        process.end(None);
                    }
                }
            },
            Event::Message(id, message) => {
                if let Some(shard) = self.shards.get_mut(&id) {
                    shard.on_message(message, &self.bus, &self.events);
                }
            }
            Event::Disconnected(id) => {
                if let Some(shard) = self.shards.get_mut(&id) {
                    shard.on_disconnect(&self.events);
                }
            }
            Event::Exited(id, why) => {
                let Some(shard) = self.shards.get_mut(&id) else { return Ok(()) };
                let name = shard.terms().name.clone();
                shard.on_exit(&why);
                notify(Notification::Failed { lab: id, name, why });
            }
            Event::Packed(id, packed) => {
                let Some(shard) = self.shards.get_mut(&id) else { return Ok(()) };
                let (lab, name) = (id, shard.terms().name.clone());
                notify(match &packed {
                    Ok(bytes) => Notification::Finished { lab, name, bytes: *bytes },
                    Err(error) => Notification::Failed { lab, name, why: error.text.clone() },
                });
                shard.on_packed(packed);
            }
            Event::NoPeers(why) => {
                if self.detector.known().next().is_none() {
                    notify(Notification::NoPeers { why });
                }
            }
            Event::Probed(found) => self.recovery.on_probed(now(), found.as_deref()),
            Event::SessionReplaced(result) => self.on_session_replaced(result, notify),
            Event::Stop => self.stop_all(),
        }
        Ok(())
    }

    /// Stops all running shards in order and drops those that have not started.
    fn stop_all(&mut self) {
        self.stops += 1;
        self.leave_deadline.get_or_insert(now() + LEAVE_TIMEOUT);
        self.shards.values_mut().for_each(Shard::stop_with_agent);
        let (idle, running): (BTreeMap<_, _>, _) = std::mem::take(&mut self.shards)
            .into_iter()
            .partition(|(_, shard)| shard.phase() < Phase::Running);
        self.shards = running;
        idle.into_values().for_each(Shard::end);
    }

    fn on_heartbeat(&mut self, sender: &Peer, beat: &Heartbeat, notify: Notify<'_>) -> Result<()> {
        let name = &sender.name;
        if *name == self.options.name {
            // The agent with the higher instance ends, so that one of the two stays.
            return if beat.instance < self.instance && !beat.leaves {
                let text = format!(
                    "the cluster has an agent {name} already: give this one another --name and, \
                     unless they share a certificate, another certificate"
                );
                Err(Error::Usage { text })
            } else {
                Ok(())
            };
        }
        let change = if beat.leaves {
            self.recovery.on_return(name);
            self.detector.leave(name)
        } else {
            let names = self.certificates.entry(sender.number).or_default();
            if !may_track(names, name) {
                return Ok(());
            }
            let change = self.detector.on_heartbeat(now(), name, beat.instance);
            self.detector.set_timeout(name, Span::from_nanos(beat.silence_timeout_ns));
            if self.detector.instance(name).is_none() {
                return Ok(());
            }
            names.insert(name.clone());
            if let Some(secret) = self.clocks.add(name, beat.clock)? {
                let key = key::clock_key(sender, &self.bus.own);
                self.bus.put_certified(&key, &session::bytes(&ClockKey { secret }));
            }
            change
        };
        if let Some(change) = change {
            self.on_peer_change(change, notify);
        }
        Ok(())
    }

    fn on_command(&mut self, query: &Query, coordinator: u16, command: &str, notify: Notify<'_>) {
        let payload = query.payload().map(zenoh::bytes::ZBytes::to_bytes).unwrap_or_default();
        match command {
            "status" => self.bus.reply(query, &Ok(self.status())),
            "reserve" => {
                let answer =
                    parse(&payload).and_then(|terms| self.reserve(terms, coordinator, notify));
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
                    let shard = shard_of(&mut self.shards, &start.lab, coordinator)?;
                    let origin_ns = shard.start(start.origin_ns, clocks)?;
                    let (lab, name) = (start.lab, shard.terms().name.clone());
                    notify(Notification::Started { lab, name });
                    Ok(Started { origin_ns })
                });
                self.bus.reply(query, &answer);
            }
            "order" => match parse(&payload) {
                Ok(LabOrder { lab, order: Order::Fetch { offset, length } }) => {
                    self.fetch(query, &lab, offset, length);
                }
                Ok(order) => {
                    let answer = self.order(&order, notify);
                    self.bus.reply(query, &answer);
                }
                Err(refusal) => self.bus.reply::<()>(query, &Err(refusal)),
            },
            _ => {
                let text = format!("unknown command `{command}`: is it of the same version?");
                self.bus.reply::<()>(query, &Err(refusal(text)));
            }
        }
    }

    /// Replies with a range of a lab's results, in a new thread because the network may be slow.
    fn fetch(&self, query: &Query, lab: &str, offset: u64, length: u32) {
        let shard = self.shards.get(lab).ok_or_else(|| unknown_lab(lab));
        let (file, bytes) = match shard.and_then(Shard::packed_results) {
            Ok(opened) => opened,
            Err(refusal) => return self.bus.reply::<()>(query, &Err(refusal)),
        };
        let (query, bus) = (query.clone(), self.bus.clone());
        let answer = move || match read_range(&file, bytes, offset, length) {
            Ok(range) => {
                // After an error the coordinator repeats the request, or has ended.
                let _ = bus.reply_bytes(&query, range);
            }
            Err(refusal) => bus.reply::<()>(&query, &Err(refusal)),
        };
        // If the thread cannot start, the coordinator repeats the request.
        let _ = std::thread::Builder::new().name("answer".to_owned()).spawn(answer);
    }

    fn reserve(
        &mut self,
        terms: Reserve,
        coordinator: u16,
        notify: Notify<'_>,
    ) -> Result<Reserved, Refusal> {
        let (id, name, hosts) = (terms.lab.clone(), terms.name.clone(), terms.needs.hosts);
        let reserved = self.admit(terms, coordinator);
        notify(match &reserved {
            Ok(_) => Notification::Reserved { lab: id, name, hosts },
            Err(refusal) => Notification::Refused { name, why: refusal.text.clone() },
        });
        reserved
    }

    fn admit(&mut self, terms: Reserve, coordinator: u16) -> Result<Reserved, Refusal> {
        if self.stops > 0 {
            return Err(refusal("the agent is stopping"));
        }
        if terms.instance != self.instance {
            return Err(refusal("the agent was restarted: try again"));
        }
        if !terms.is_valid() {
            return Err(Refusal { text: "invalid reservation".to_owned(), code: 70 });
        }
        if self.shards.contains_key(&terms.lab) {
            return Err(refusal(format!("lab {} is reserved already", terms.lab)));
        }
        if self.shards.len() >= MAX_LABS {
            let text = format!("the agent has {MAX_LABS} labs, which is the maximum");
            return Err(refusal(text));
        }
        self.check_resources(&terms)?;
        let (trunk, at) = open_trunk(self.trunk, self.options.ports.as_ref())?;
        let id = terms.lab.clone();
        let agents = terms.agents.clone();
        let dir = &self.options.dir;
        let shard = Shard::new(terms, coordinator, trunk, dir, &self.bus, &self.events);
        let mut shard =
            shard.map_err(|e| Refusal { text: e.to_string(), code: e.exit_code().code() })?;
        for name in agents {
            if let Some(instance) = self.detector.instance(&name) {
                shard.regain(&name, instance);
            }
        }
        self.coordinators.on_heartbeat(now(), &id, 0);
        self.shards.insert(id, shard);
        Ok(Reserved { trunk: at, datagram: machine::datagram(self.trunk) })
    }

    /// Checks that the free resources suffice. The placement has checked them too, but another
    /// lab may have reserved some since then.
    fn check_resources(&self, terms: &Reserve) -> Result<(), Refusal> {
        let (free, needs) = (self.free(), terms.needs);
        let less = |free: Option<u64>, needed: Option<u64>| {
            free.zip(needed).is_some_and(|(free, needed)| free < needed)
        };
        let lack = if free.hosts < needs.hosts {
            format!("{} hosts are free, and the lab needs {}", free.hosts, needs.hosts)
        } else if terms.overcommit {
            return Ok(());
        } else if free.cores < needs.cores {
            format!("{:.1} cores are free, and the lab needs {:.1}", free.cores, needs.cores)
        } else if free.memory < needs.memory {
            let (free, needed) = (Bytes::new(free.memory), Bytes::new(needs.memory));
            format!("{free} of memory are free, and the lab needs {needed}")
        } else if less(free.traffic, needs.traffic) || less(free.nic, needs.nic) {
            "other labs have reserved its traffic capacity".to_owned()
        } else {
            return Ok(());
        };
        Err(refusal(format!("{lack} (it also runs other labs)")))
    }

    fn prepare(
        &mut self,
        prepare: Prepare,
        coordinator: u16,
        files: Vec<u8>,
    ) -> Result<(), Refusal> {
        let shard = shard_of(&mut self.shards, &prepare.lab, coordinator)?;
        shard.prepare(prepare, files, &self.clocks, &self.options.program, &self.events)
    }

    fn order(&mut self, order: &LabOrder, notify: Notify<'_>) -> Result<(), Refusal> {
        match order.order {
            Order::Stop => {
                self.shards.get_mut(&order.lab).ok_or_else(|| unknown_lab(&order.lab))?.stop()
            }
            // Dropping an unknown lab is not an error.
            Order::Drop | Order::Fetch { .. } => {
                self.remove(&order.lab, "its coordinator no longer needs it", notify);
                Ok(())
            }
        }
    }
}

/// Whether to track the agent `name` besides the tracked `names` of its certificate.
fn may_track(names: &BTreeSet<String>, name: &str) -> bool {
    names.contains(name) || names.len() < MAX_NAMES_PER_CERTIFICATE
}

fn parse<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, Refusal> {
    session::read(payload)
        .ok_or_else(|| refusal("it cannot read the command: is it of the same version?"))
}

/// The shard of a lab, which must have been reserved by this coordinator.
fn shard_of<'a>(
    shards: &'a mut BTreeMap<String, Shard>,
    id: &str,
    coordinator: u16,
) -> Result<&'a mut Shard, Refusal> {
    let shard = shards.get_mut(id).ok_or_else(|| unknown_lab(id))?;
    if shard.coordinator() == coordinator {
        Ok(shard)
    } else {
        Err(refusal(format!("lab {id} belongs to another coordinator")))
    }
}

fn unknown_lab(lab: &str) -> Refusal {
    refusal(format!("it has no lab {lab}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_a_limited_number_of_names_of_a_certificate() {
        let mut names = BTreeSet::new();
        for name in (0..5_500).map(|number| number.to_string()) {
            if may_track(&names, &name) {
                names.insert(name);
            }
        }
        assert_eq!(names.len(), MAX_NAMES_PER_CERTIFICATE);
        assert!(may_track(&names, "0") && !may_track(&names, "5499"));
        // It is forgotten.
        names.remove("0");
        assert!(may_track(&names, "5499"));
    }
}
