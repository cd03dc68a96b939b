//! Replay of a recorded wall-clock run on the virtual clock.
//!
//! The recording has every call into the fabric with its logical time. A fabric of the same plan
//! must, for the same calls, deliver the same packets at the same nanoseconds: only the arrival
//! times of packets depended on the host.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use agreement::AgreementClient;
use base::Time;
use fabric::{Fabric, Packet};
use lab::plan::Plan;
use lab::routes::Routes;
use run::RunFolder;
use run::calls::{Call, CallReader};
use run::{Change, Schedule};
use timeline::{Components, Moment, NextWakes, Rank};

use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Calls into the fabric.
    pub calls: u64,
    /// Packets that entered the fabric; each segment of a super-packet counts.
    pub packets: u64,
    /// Events that the fabric processed.
    pub events: u64,
    /// Duration of the run.
    pub until: Time,
    /// The hash over all deliveries of the wall-clock run.
    pub wall_trace_hash: String,
    /// The hash over all deliveries of the replay.
    pub replayed_trace_hash: String,
    /// Whether the two hashes are equal.
    pub identical: bool,
}

/// Replays the run in `folder`.
///
/// # Errors
/// If the run has no recording, or the recording is damaged, incomplete or of another run.
pub fn replay(folder: &RunFolder) -> Result<Replay> {
    let record = folder.read_record()?;
    let mut reader = CallReader::open(folder)?;
    if run::lab_hash(reader.lab()) != record.plan_hash {
        return Err(Error::ForeignRecording { what: "it has another lab" });
    }
    let live: Vec<_> = record.events.into_iter().map(|event| event.set).collect();
    let live = live.into_iter().filter(|set| !set.is_empty()).collect();
    let replay = feed(&mut reader, folder.path(), live)?;
    match record.trace_hash {
        Some(hash) if hash != replay.wall_trace_hash => {
            Err(Error::ForeignRecording { what: "it has another trace hash" })
        }
        _ => Ok(replay),
    }
}

/// A fabric and, if flows agree on shares of links, their agreement.
struct Network {
    fabric: Fabric<()>,
    agreement: Option<Box<AgreementClient>>,
}

impl Network {
    fn try_new(plan: &Plan) -> Result<Self> {
        let up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let mut fabric = run::fabric(plan, Box::new(Routes::compute(plan, &up)))?;
        let agreement = crate::net::agreement(plan, &mut fabric);
        Ok(Self { fabric, agreement })
    }

    /// Applies a lab change at a time that may be later than planned.
    fn change(&mut self, at: Time, change: Change) {
        self.run_before(Moment::new(at, Rank::LabEvent));
        Change { at, ..change }.apply(&mut self.fabric);
    }

    /// Advances the fabric to the end of the run.
    fn end(&mut self, at: Time) -> &Fabric<()> {
        self.run_before(Moment::after(at));
        self.fabric.advance(at);
        &self.fabric
    }
}

impl Components for Network {
    fn next_wakes(&self) -> NextWakes {
        let agreement = self.agreement.as_ref();
        NextWakes {
            arrival: self.fabric.next_wake(),
            agreement: agreement.and_then(|agreement| agreement.next_wake(&self.fabric)),
            ..NextWakes::default()
        }
    }

    fn on_arrivals(&mut self, until: Time) -> bool {
        // The recorded calls contain the next hop of the packets.
        let has_arrived = self.fabric.advance_to_output(until);
        while self.fabric.poll().is_some() {}
        has_arrived
    }

    fn on_agreement_wake(&mut self, now: Time) {
        if let Some(agreement) = &mut self.agreement {
            agreement.turn(now, &mut self.fabric, |_, _| {});
        }
    }
}

fn foreign(what: &'static str) -> Error {
    Error::ForeignRecording { what }
}

/// Replays all recorded calls. `live` has the fields of each change of the running lab.
fn feed(
    reader: &mut CallReader<impl Read>,
    folder: &Path,
    live: Vec<Vec<(String, String)>>,
) -> Result<Replay> {
    let mut live = live.into_iter();
    let plan = Arc::new(plan(reader.lab(), folder)?);
    let mut network = Network::try_new(&plan)?;
    let mut schedule = Schedule::new(Arc::clone(&plan));
    let (mut calls, mut packets) = (0, 0);
    let known = |packet: &Packet<()>| match packet.to {
        Some(to) if to.index() >= plan.ifaces.len() => {
            Err(foreign("it has packets for interfaces that are not in the lab"))
        }
        _ => Ok(u64::from(packet.count)),
    };
    while let Some(call) = reader.next_call()? {
        calls += 1;
        match call {
            Call::Inject { at, iface, packet } => {
                if iface.index() >= plan.ifaces.len() {
                    return Err(foreign("it has packets from interfaces that are not in the lab"));
                }
                packets += known(&packet)?;
                network.run_before(Moment::new(at, Rank::Agreement));
                network.fabric.inject(at, iface, packet);
            }
            Call::Forward { at, iface, packet } => {
                let here = plan.ifaces.get(iface.index()).map(|iface| iface.node);
                if !here.is_some_and(|node| plan.nodes[node.index()].kind.is_box()) {
                    return Err(foreign(
                        "it has packets from Bundler gateways that are not in the lab",
                    ));
                }
                packets += known(&packet)?;
                network.fabric.forward(at, iface, packet);
            }
            Call::Originate { at, node, packet } => {
                if node.index() >= plan.nodes.len() {
                    return Err(foreign("it has packets from nodes that are not in the lab"));
                }
                packets += known(&packet)?;
                network.run_before(Moment::new(at, Rank::Agreement));
                network.fabric.originate(at, node, packet);
            }
            Call::Change { at, event } => {
                let change = if event < plan.events.len() {
                    schedule.pop_change()
                } else {
                    let fields = live.next().unwrap_or_default();
                    let found = schedule.set(at, &fields, folder);
                    found.ok().and_then(|(mut changes, _)| changes.pop())
                };
                let what = "its events differ from those of the lab and of the record";
                let change = change.filter(|change| change.event == event);
                network.change(at, change.ok_or(foreign(what))?);
            }
            Call::End { at, events, trace_hash } => {
                let fabric = network.end(at);
                calls -= 1;
                // Checks that this call is the last one.
                reader.next_call()?;
                return Ok(Replay {
                    identical: fabric.trace_hash() == trace_hash && fabric.events() == events,
                    calls,
                    packets,
                    events: fabric.events(),
                    until: at,
                    wall_trace_hash: run::hash_text(trace_hash),
                    replayed_trace_hash: run::hash_text(fabric.trace_hash()),
                });
            }
        }
        // The replay does not need the delivered packets; later calls are in the recording.
        while network.fabric.poll().is_some() {}
    }
    Err(Error::ForeignRecording { what: "the end of the run is missing" })
}

/// Compiles the plan of a recorded lab.
fn plan(lab: &str, folder: &Path) -> Result<Plan> {
    let overrides = lab::Overrides { trust_programs: true, ..lab::Overrides::default() };
    let lab = lab::parse_with(RunFolder::RESOLVED_LAB, lab, folder, &overrides)
        .map_err(|why| Error::RecordedLab { why: why.to_string() })?;
    let [plan] = <[Plan; 1]>::try_from(lab.plans).map_err(|plans| Error::RecordedLab {
        why: format!("it is a sweep of {} runs", plans.len()),
    })?;
    Ok(plan)
}

#[cfg(test)]
mod tests;
