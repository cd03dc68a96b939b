//! The connections of a simulation. Those that idle are packed.

use base::{IfaceId, Time};
use transport::tcp::{Endpoint, Packer, Statistics, Unpacker};

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) tcp: Endpoint,
    /// When its entry among the timers is due; [`Time::MAX`] without one.
    pub(crate) armed: Time,
    /// Hash of its packets, which also tells them from those of the slot's earlier connections.
    pub(crate) hash: u32,
    /// The interface through which a host sends.
    pub(crate) out: IfaceId,
    /// What its flow has been told of its state.
    known: State,
    /// Its application does not read.
    pub(crate) holds: bool,
}

impl End {
    pub(crate) fn new(tcp: Endpoint, hash: u32, out: IfaceId) -> Self {
        Self { tcp, armed: Time::MAX, hash, out, known: State::default(), holds: false }
    }

    /// Takes what has arrived, unless that is to wait; tells how much.
    pub(crate) fn read(&mut self) -> u64 {
        let bytes = if self.holds { 0 } else { self.tcp.readable() };
        if bytes > 0 {
            self.tcp.read(bytes);
        }
        bytes
    }

    /// The end's state, if it is new.
    pub(crate) fn learn(&mut self) -> Option<State> {
        let state = State {
            established: self.tcp.is_established(),
            finished: self.tcp.peer_finished(),
            closed: self.tcp.is_closed(),
        };
        let new = state != self.known;
        self.known = state;
        new.then_some(state)
    }
}

/// A connection: both ends, and what its flow keeps with it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [End; 2],
    pub(crate) flow: u32,
    /// Its place among the legs: its flow's, unless it goes another way.
    pub(crate) legs: u32,
    /// The flow's own number for it.
    pub(crate) tag: u32,
    /// Its own number.
    id: u32,
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) established: bool,
    /// The peer has sent all, and all has arrived.
    pub(crate) finished: bool,
    pub(crate) closed: bool,
}

impl Connection {
    pub(crate) fn new(ends: [End; 2], flow: u32, legs: u32, tag: u32) -> Self {
        Self { ends, flow, legs, tag, id: 0 }
    }

    /// Whether it is a subflow: its flow is told of everything that happens to it.
    pub(crate) const fn is_subflow(&self) -> bool {
        self.legs != self.flow
    }

    /// Whether nothing is under way and no timer runs. Subflows never rest.
    fn is_at_rest(&self) -> bool {
        let [client, server] = &self.ends;
        !self.is_subflow()
            && client.armed == Time::MAX
            && server.armed == Time::MAX
            && !server.holds
            && client.tcp.is_at_rest()
            && server.tcp.is_at_rest()
    }

    fn pack(&self, packer: &mut Packer) {
        for number in [self.flow, self.tag, self.ends[0].hash, self.ends[1].hash] {
            packer.number(number.into());
        }
        self.ends.iter().for_each(|end| end.tcp.pack(packer));
    }

    /// As it was packed. `out` gives an end's interface for flow, side and hash.
    fn unpack(bytes: &[u8], out: impl Fn(u32, usize, u32) -> IfaceId) -> Self {
        let mut from = Unpacker::new(bytes);
        let [flow, tag, client, server] = std::array::from_fn(|_| from.number() as u32);
        let mut end = |side: usize, hash: u32| {
            let mut end = End::new(Endpoint::unpack(&mut from), hash, out(flow, side, hash));
            end.learn();
            end
        };
        let ends = [end(0, client), end(1, server)];
        Self::new(ends, flow, flow, tag)
    }
}

/// Room for so many is kept.
const KEPT: usize = 64;

/// Where a connection is.
#[derive(Debug)]
enum Slot {
    Free,
    /// At this place among those that are awake.
    Awake(u32),
    /// Packed until something is written or arrives.
    Resting(Box<[u8]>),
}

/// All connections, by number.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Without gaps, in any order: what a large vector gives up goes back to the system, which
    /// is not so with many small pieces between others.
    awake: Vec<Connection>,
    /// Bytes of those that rest.
    resting: usize,
    packer: Packer,
}

impl Connections {
    /// Adds one and gives its number.
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() as u32 - 1
        });
        self.wake(id, connection);
        id
    }

    fn wake(&mut self, id: u32, connection: Connection) {
        self.slots[id as usize] = Slot::Awake(self.awake.len() as u32);
        self.awake.push(Connection { id, ..connection });
    }

    /// Takes one from those that are awake.
    fn vacate(&mut self, place: u32) {
        self.awake.swap_remove(place as usize);
        if let Some(moved) = self.awake.get(place as usize) {
            self.slots[moved.id as usize] = Slot::Awake(place);
        }
        let room = self.awake.capacity();
        if room > KEPT && self.awake.len() < room / 4 {
            self.awake.shrink_to(room / 2);
        }
    }

    /// Forgets one.
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        match std::mem::replace(slot, Slot::Free) {
            Slot::Free => return,
            Slot::Awake(place) => self.vacate(place),
            Slot::Resting(bytes) => self.resting -= bytes.len(),
        }
        self.free.push(id);
    }

    /// One of them, which wakes if it rests. `out` gives an end's interface for flow, side and
    /// hash.
    pub(crate) fn get_mut(
        &mut self,
        id: u32,
        out: impl Fn(u32, usize, u32) -> IfaceId,
    ) -> Option<&mut Connection> {
        if let Slot::Resting(bytes) = self.slots.get(id as usize)? {
            self.resting -= bytes.len();
            let connection = Connection::unpack(bytes, out);
            self.wake(id, connection);
        }
        self.awake(id)
    }

    /// One of them unless it rests.
    pub(crate) fn awake(&mut self, id: u32) -> Option<&mut Connection> {
        match *self.slots.get(id as usize)? {
            Slot::Awake(place) => self.awake.get_mut(place as usize),
            _ => None,
        }
    }

    /// What both ends know of a connection, which goes on resting if it rests.
    pub(crate) fn statistics(&self, id: u32) -> Option<[Statistics; 2]> {
        let of = |connection: &Connection| {
            let [client, server] = &connection.ends;
            [client.tcp.statistics(), server.tcp.statistics()]
        };
        match self.slots.get(id as usize)? {
            Slot::Free => None,
            Slot::Awake(place) => self.awake.get(*place as usize).map(of),
            Slot::Resting(bytes) => Some(of(&Connection::unpack(bytes, |_, _, _| IfaceId(0)))),
        }
    }

    /// Packs one, if nothing is under way.
    pub(crate) fn rest(&mut self, id: u32) {
        if let Some(Slot::Awake(place)) = self.slots.get(id as usize)
            && let Some(connection) = self.awake.get(*place as usize)
            && connection.is_at_rest()
        {
            let place = *place;
            self.packer.clear();
            connection.pack(&mut self.packer);
            self.vacate(place);
            self.resting += self.packer.bytes().len();
            self.slots[id as usize] = Slot::Resting(Box::from(self.packer.bytes()));
        }
    }

    /// Those that do not rest.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.awake.iter_mut()
    }

    /// Bytes that they take, what those that are awake have outstanding left out.
    pub(crate) fn memory(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Slot>();
        let awake = self.awake.capacity() * size_of::<Connection>();
        (slots + awake + self.resting) as u64
    }
}
