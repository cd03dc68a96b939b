//! A recorded wall-clock run, once more on the virtual clock.
//!
//! The recording has every call into the fabric with its logical time. A fabric of the same plan
//! that is called in the same way must deliver the same packets at the same nanoseconds: the
//! machine decided when packets came, and nothing after that.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use base::{Moment, Rank, Time, Timeline};
use cluster::agreement::Seat;
use fabric::{Fabric, Packet};
use lab::plan::Plan;
use lab::routes::Routes;
use outcome::{Change, Schedule};
use record::RunFolder;
use record::calls::{Call, CallReader};

use crate::{Error, Result};

/// What a replay came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Calls into the fabric.
    pub calls: u64,
    /// Packets that entered it, segments of super-packets counted one by one.
    pub packets: u64,
    /// Events that the fabric processed.
    pub events: u64,
    /// How long the run was.
    pub until: Time,
    /// The wall-clock run's hash over all deliveries.
    pub wall_trace_hash: String,
    /// The replay's.
    pub replayed_trace_hash: String,
    /// Whether both fabrics did the same.
    pub identical: bool,
}

/// Replays the run in `folder`.
///
/// # Errors
/// If the run was not recorded, or its recording is damaged, incomplete or another run's.
pub fn replay(folder: &RunFolder) -> Result<Replay> {
    let record = folder.read_record()?;
    let mut reader = CallReader::open(folder)?;
    if outcome::lab_hash(reader.lab()) != record.plan_hash {
        return Err(Error::ForeignRecording { what: "its lab is another" });
    }
    let replay = feed(&mut reader, folder.path())?;
    match record.trace_hash {
        Some(hash) if hash != replay.wall_trace_hash => {
            Err(Error::ForeignRecording { what: "its trace hash is another" })
        }
        _ => Ok(replay),
    }
}

/// A fabric, and where flows agree on shares of links, their agreement.
struct Network {
    fabric: Fabric<()>,
    seat: Option<Box<Seat>>,
}

impl Network {
    fn try_new(plan: &Plan) -> Result<Self> {
        let up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let mut fabric = outcome::fabric(plan, Box::new(Routes::compute(plan, &up)))?;
        let seat = crate::net::seat(plan, &mut fabric);
        Ok(Self { fabric, seat })
    }

    /// Does what comes before a call.
    fn advance(&mut self, until: Moment) {
        while self.step(until) {}
    }

    /// Changes the network at a time that may be later than the lab's.
    fn change(&mut self, at: Time, change: Change) {
        self.advance(Moment::new(at, Rank::LabEvent));
        Change { at, ..change }.apply(&mut self.fabric);
    }

    /// The fabric at the end of the run.
    fn end(&mut self, at: Time) -> &Fabric<()> {
        self.advance(Moment::after(at));
        self.fabric.advance(at);
        &self.fabric
    }
}

impl Timeline for Network {
    fn arrive(&mut self, until: Time) -> bool {
        // The recorded calls say where the packets went from here.
        let has_arrived = self.fabric.advance_to_output(until);
        while self.fabric.poll().is_some() {}
        has_arrived
    }

    fn next_moment(&self) -> Moment {
        let seat = self.seat.as_ref();
        let at = seat.and_then(|seat| seat.next_turn(&self.fabric)).unwrap_or(Time::MAX);
        Moment::new(at, Rank::Agreement)
    }

    fn meet(&mut self, Moment { at, .. }: Moment) {
        if let Some(seat) = &mut self.seat {
            seat.turn(at, &mut self.fabric, |_, _| {});
        }
    }
}

/// Makes all recorded calls.
fn feed(reader: &mut CallReader<impl Read>, folder: &Path) -> Result<Replay> {
    let plan = Arc::new(plan(reader.lab(), folder)?);
    let mut network = Network::try_new(&plan)?;
    let mut schedule = Schedule::new(Arc::clone(&plan));
    let (mut calls, mut packets) = (0, 0);
    let known = |packet: &Packet<()>| match packet.to {
        Some(to) if to.index() >= plan.ifaces.len() => Err(Error::ForeignRecording {
            what: "it has packets for interfaces that the lab has not",
        }),
        _ => Ok(u64::from(packet.count)),
    };
    while let Some(call) = reader.next_call()? {
        calls += 1;
        match call {
            Call::Inject { at, iface, packet } => {
                if iface.index() >= plan.ifaces.len() {
                    let what = "it has packets from interfaces that the lab has not";
                    return Err(Error::ForeignRecording { what });
                }
                packets += known(&packet)?;
                network.advance(Moment::new(at, Rank::Agreement));
                network.fabric.inject(at, iface, packet);
            }
            Call::Forward { at, iface, packet } => {
                let here = plan.ifaces.get(iface.index()).map(|iface| iface.node);
                if !here.is_some_and(|node| plan.nodes[node.index()].kind.is_box()) {
                    let what = "it has packets from boxes that the lab has not";
                    return Err(Error::ForeignRecording { what });
                }
                packets += known(&packet)?;
                network.fabric.forward(at, iface, packet);
            }
            Call::Originate { at, node, packet } => {
                if node.index() >= plan.nodes.len() {
                    let what = "it has packets from nodes that the lab has not";
                    return Err(Error::ForeignRecording { what });
                }
                packets += known(&packet)?;
                network.advance(Moment::new(at, Rank::Agreement));
                network.fabric.originate(at, node, packet);
            }
            Call::Change { at, event } => match schedule.take_change() {
                Some(change) if change.event == event => network.change(at, change),
                _ => {
                    let what = "its events are not the lab's";
                    return Err(Error::ForeignRecording { what });
                }
            },
            Call::End { at, events, trace_hash } => {
                let fabric = network.end(at);
                // Nothing follows, which the reader checks.
                calls -= 1;
                reader.next_call()?;
                let identical = fabric.trace_hash() == trace_hash && fabric.events() == events;
                return Ok(Replay {
                    calls,
                    packets,
                    events: fabric.events(),
                    until: at,
                    wall_trace_hash: outcome::hash_text(trace_hash),
                    replayed_trace_hash: outcome::hash_text(fabric.trace_hash()),
                    identical,
                });
            }
        }
        // Where packets go was decided by who sent them; here nobody waits for them.
        while network.fabric.poll().is_some() {}
    }
    Err(Error::ForeignRecording { what: "it has no end" })
}

/// The plan of a recorded lab.
fn plan(lab: &str, folder: &Path) -> Result<Plan> {
    let overrides = lab::Overrides { trust_programs: true, ..lab::Overrides::default() };
    let lab = lab::parse_with(RunFolder::RESOLVED_LAB, lab, folder, &overrides)
        .map_err(|why| Error::RecordedLab { why: why.to_string() })?;
    let [plan] = <[Plan; 1]>::try_from(lab.plans).map_err(|plans| Error::RecordedLab {
        why: format!("it stands for {} runs", plans.len()),
    })?;
    Ok(plan)
}

#[cfg(test)]
mod tests;
