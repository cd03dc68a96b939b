//! Who takes part: sessions of populations and rate-controlled flows, in canonical order.

use base::{Bandwidth, Bytes, NodeId, Span, Time};
use lab::plan::{Flow, Plan, Traffic};

/// No time, no amount, no demand, no number.
pub(super) const NEVER: u64 = u64::MAX;
pub(super) const NONE: u32 = u32::MAX;

/// A session of the lab. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// Position in [`Cast::names`].
    pub(super) group: u32,
    /// Its present run: the number in the network of its path; [`NONE`] before it has one.
    pub(super) run: u32,
    pub(super) start: u64,
    /// When it leaves or has left.
    pub(super) leave: u64,
    /// When all had arrived.
    pub(super) completed: u64,
    /// Wire bytes to send.
    pub(super) size: u64,
    /// Bit/s.
    demand: u64,
    /// Its flow in the oracle while it is there.
    pub(super) fair: u32,
    pub(super) state: State,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has not joined.
    Waiting,
    /// It sends, or would if it had a path.
    Present,
    /// It has left, and the last of its data may be under way.
    Left,
}

impl Member {
    /// What it asks for: the most that protocols take if it demands nothing in particular.
    pub(super) fn demand(&self) -> Bandwidth {
        Bandwidth::from_bits_per_sec(self.demand.min(ratecontrol::MOST_RATE))
    }

    /// What it can use at most, for the oracle, bit/s.
    pub(super) fn cap(&self) -> f64 {
        if self.demand == NEVER { f64::INFINITY } else { self.demand as f64 }
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Cast {
    /// Names of populations, then of flows.
    pub(super) names: Vec<String>,
    pub(super) members: Vec<Member>,
    /// Where the flows' members begin: one each, in the order of the canonical plan.
    pub(super) flows: usize,
    /// How long each flow sends once it has started, ns.
    durations: Vec<u64>,
    /// What a data packet of each group has on the wire.
    pub(super) packets: Vec<Bytes>,
    /// Joins and leaves in time order: twice the member's number, and one more for a leave.
    pub(super) agenda: Vec<u32>,
    /// How many of them are over.
    pub(super) next: usize,
}

/// Headers of a datagram: IPv4 and UDP.
pub(super) const HEADERS: u64 = 28;

impl Cast {
    /// The sessions of a canonical plan and its flows, all of which are rate-controlled.
    pub(super) fn new(plan: &Plan, flows: &[Flow]) -> Self {
        let mut cast = Self::default();
        let total: usize = plan.sessions.iter().map(|population| population.sessions.len()).sum();
        cast.members.reserve_exact(total + flows.len());
        for population in &plan.sessions {
            let group = cast.names.len() as u32;
            cast.names.push(population.name.clone());
            cast.packets.push(population.packet);
            cast.members.extend(population.sessions.iter().map(|session| Member {
                from: session.from,
                to: session.to,
                group,
                run: NONE,
                start: session.start.as_nanos(),
                leave: session.leave.map_or(NEVER, Time::as_nanos),
                completed: NEVER,
                size: session.size.map_or(NEVER, Bytes::count),
                demand: session.demand.map_or(NEVER, Bandwidth::bits_per_sec),
                fair: NONE,
                state: State::Waiting,
            }));
        }
        cast.flows = cast.members.len();
        for flow in flows {
            cast.add_flow(flow, plan.overhead);
        }
        let mut agenda: Vec<u32> = (0..cast.members.len() as u32).map(|at| at * 2).collect();
        let leaves = |at: &u32| cast.members[*at as usize / 2].leave != NEVER;
        let leaves: Vec<u32> = agenda.iter().copied().filter(leaves).map(|at| at + 1).collect();
        agenda.extend(leaves);
        agenda.sort_by_key(|code| (cast.at(*code), *code));
        cast.agenda = agenda;
        cast
    }

    fn add_flow(&mut self, flow: &Flow, overhead: Bytes) {
        let Traffic::Controlled { demand, packet, size } = flow.traffic else { return };
        let headers = HEADERS + overhead.count();
        // Datagrams are of one size, the last one too.
        let datagrams = size.map(|size| size.count().div_ceil(packet.count().max(1)));
        let start = flow.start.as_nanos();
        let duration = flow.duration.map_or(NEVER, Span::as_nanos);
        self.durations.push(duration);
        self.packets.push(Bytes::new(packet.count() + headers));
        self.members.push(Member {
            from: flow.from,
            to: flow.to,
            group: self.names.len() as u32,
            run: NONE,
            start,
            leave: start.saturating_add(duration),
            completed: NEVER,
            size: datagrams.map_or(NEVER, |n| n.saturating_mul(packet.count() + headers)),
            demand: demand.map_or(NEVER, Bandwidth::bits_per_sec),
            fair: NONE,
            state: State::Waiting,
        });
        self.names.push(flow.name.clone());
    }

    /// A flow's member that is not there starts now, and leaves when its time is over again.
    pub(super) fn restart(&mut self, member: u32, now: Time) {
        let Some(flow) = (member as usize).checked_sub(self.flows) else { return };
        let leave = now.as_nanos().saturating_add(self.durations[flow]);
        let entry = &mut self.members[member as usize];
        (entry.state, entry.completed) = (State::Waiting, NEVER);
        (entry.start, entry.leave) = (now.as_nanos(), leave);
        let code = 2 * member + 1;
        let mut ahead = self.agenda.split_off(self.next);
        ahead.retain(|other| *other != code);
        if leave != NEVER {
            let later = ahead.iter().position(|other| self.at(*other) > leave);
            ahead.insert(later.unwrap_or(ahead.len()), code);
        }
        self.agenda.extend(ahead);
    }

    /// When an entry of the agenda is due.
    fn at(&self, code: u32) -> u64 {
        let member = &self.members[code as usize / 2];
        if code % 2 == 1 { member.leave } else { member.start }
    }

    /// When the next join or leave is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.agenda.get(self.next).map(|code| Time::from_nanos(self.at(*code)))
    }

    /// Bytes that all this takes.
    pub(super) fn memory(&self) -> u64 {
        (self.members.capacity() * size_of::<Member>() + self.agenda.capacity() * 4) as u64
    }
}
