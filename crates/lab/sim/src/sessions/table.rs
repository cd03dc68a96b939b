//! The members of a lab: sessions of generators and rate-controlled flows, in canonical order.

use base::{Bandwidth, Bytes, NodeId, Span, Time};
use lab::plan::{Flow, Plan, Traffic};

/// Stands for an absent time, amount, demand or number.
pub(super) const NEVER: u64 = u64::MAX;
pub(super) const NONE: u32 = u32::MAX;

/// A session of the lab. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// Position in [`SessionTable::names`].
    pub(super) group: u32,
    /// The number of its present run, which has its path in the network; [`NONE`] before the first.
    pub(super) run: u32,
    pub(super) start: u64,
    /// Time at which it leaves or has left.
    pub(super) leave: u64,
    /// Time at which all data had arrived.
    pub(super) completed: u64,
    /// Total wire bytes to send.
    pub(super) size: u64,
    /// bit/s.
    demand: u64,
    /// Its number in the oracle while it is present.
    pub(super) fair: u32,
    pub(super) state: State,
}

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has not joined.
    Waiting,
    /// It sends, or waits for a path.
    Present,
    /// It has left; its last data may be in flight.
    Left,
}

impl Member {
    /// Its demand; without one, the maximum of protocols.
    pub(super) fn demand(&self) -> Bandwidth {
        Bandwidth::from_bits_per_sec(self.demand.min(ratecontrol::MAX_RATE))
    }

    /// Its maximum rate for the oracle, bit/s.
    pub(super) fn cap(&self) -> f64 {
        if self.demand == NEVER { f64::INFINITY } else { self.demand as f64 }
    }
}

#[derive(Debug, Default)]
pub(super) struct SessionTable {
    /// Names of session generators, then of flows.
    pub(super) names: Vec<String>,
    pub(super) members: Vec<Member>,
    /// Index of the first flow; each flow has one member, in the order of the canonical plan.
    pub(super) flows: usize,
    /// Sending time of each flow after its start, ns.
    durations: Vec<u64>,
    /// Wire size of a data packet of each group.
    pub(super) packets: Vec<Bytes>,
    /// Joins and leaves in time order: twice the member's number, plus 1 for a leave.
    pub(super) agenda: Vec<u32>,
    /// Number of handled entries of `agenda`.
    pub(super) next: usize,
}

/// Headers of a datagram: IPv4 and UDP.
pub(super) const HEADERS: u64 = 28;

impl SessionTable {
    /// The sessions of a canonical plan and of its flows, all of which are rate-controlled.
    pub(super) fn new(plan: &Plan, flows: &[Flow]) -> Self {
        let mut table = Self::default();
        let total: usize = plan.sessions.iter().map(|population| population.sessions.len()).sum();
        table.members.reserve_exact(total + flows.len());
        for population in &plan.sessions {
            let group = table.names.len() as u32;
            table.names.push(population.name.clone());
            table.packets.push(population.packet);
            table.members.extend(population.sessions.iter().map(|session| Member {
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
        table.flows = table.members.len();
        for flow in flows {
            table.add_flow(flow, plan.overhead);
        }
        let mut agenda: Vec<u32> = (0..table.members.len() as u32).map(|at| at * 2).collect();
        let leaves = |at: &u32| table.members[*at as usize / 2].leave != NEVER;
        let leaves: Vec<u32> = agenda.iter().copied().filter(leaves).map(|at| at + 1).collect();
        agenda.extend(leaves);
        agenda.sort_by_key(|code| (table.at(*code), *code));
        table.agenda = agenda;
        table
    }

    fn add_flow(&mut self, flow: &Flow, overhead: Bytes) {
        let Traffic::Controlled { demand, packet, size } = flow.traffic else { return };
        let headers = HEADERS + overhead.count();
        // All datagrams have the same size, including the last.
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

    /// Restarts a flow's member that is not present; it leaves after the flow's duration.
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

    /// Due time of an agenda entry.
    fn at(&self, code: u32) -> u64 {
        let member = &self.members[code as usize / 2];
        if code % 2 == 1 { member.leave } else { member.start }
    }

    /// Due time of the next join or leave.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.agenda.get(self.next).map(|code| Time::from_nanos(self.at(*code)))
    }

    pub(super) fn memory(&self) -> u64 {
        (self.members.capacity() * size_of::<Member>() + self.agenda.capacity() * 4) as u64
    }
}
