//! The connections of a simulation. Idle connections are stored in packed form.

use base::{IfaceId, Time};
use transport::tcp::{Endpoint, Packer, Statistics, Unpacker};

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) tcp: Endpoint,
    /// Deadline of its timer entry; [`Time::MAX`] without one.
    pub(crate) armed: Time,
    /// Hash of its packets. It also distinguishes them from packets of earlier connections in
    /// the same slot.
    pub(crate) hash: u32,
    /// The host's egress interface.
    pub(crate) out: IfaceId,
    /// The state that was last reported to the flow.
    known: State,
    /// The application does not read.
    pub(crate) holds: bool,
}

impl End {
    pub(crate) fn new(tcp: Endpoint, hash: u32, out: IfaceId) -> Self {
        Self { tcp, armed: Time::MAX, hash, out, known: State::default(), holds: false }
    }

    /// Reads received bytes unless the application holds them; returns the number of bytes.
    pub(crate) fn read(&mut self) -> u64 {
        let bytes = if self.holds { 0 } else { self.tcp.readable() };
        if bytes > 0 {
            self.tcp.read(bytes);
        }
        bytes
    }

    /// The end's state, if it has changed since the last call.
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

/// A connection: both ends, and the flow's data about it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [End; 2],
    pub(crate) flow: u32,
    /// Index in `legs`: that of its flow, or of a path of a multipath flow.
    pub(crate) legs: u32,
    pub(crate) tag: u32,
    id: u32,
}

/// Progress of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) established: bool,
    /// The peer has sent everything, and it has arrived.
    pub(crate) finished: bool,
    pub(crate) closed: bool,
}

impl Connection {
    pub(crate) fn new(ends: [End; 2], flow: u32, legs: u32, tag: u32) -> Self {
        Self { ends, flow, legs, tag, id: 0 }
    }

    /// Whether it is a subflow of a multipath flow, which handles every event of it.
    pub(crate) const fn is_subflow(&self) -> bool {
        self.legs != self.flow
    }

    /// Whether nothing is in flight and no timer runs. Subflows are never packed.
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

    /// Restores a packed connection. `out` returns the interface of an end for its flow,
    /// side and hash.
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

/// Capacity below which memory is not freed.
const MIN_CAPACITY: usize = 64;

#[derive(Debug)]
enum Slot {
    Free,
    /// Index in `awake`.
    Awake(u32),
    /// Packed until the next write or arrival.
    Resting(Box<[u8]>),
}

#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Dense and in any order: a large vector returns its memory to the system when it shrinks,
    /// many small allocations between others do not.
    awake: Vec<Connection>,
    /// Bytes of packed connections.
    resting: usize,
    packer: Packer,
}

impl Connections {
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

    /// Removes a connection from `awake`.
    fn vacate(&mut self, place: u32) {
        self.awake.swap_remove(place as usize);
        if let Some(moved) = self.awake.get(place as usize) {
            self.slots[moved.id as usize] = Slot::Awake(place);
        }
        let room = self.awake.capacity();
        if room > MIN_CAPACITY && self.awake.len() < room / 4 {
            self.awake.shrink_to(room / 2);
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        match std::mem::replace(slot, Slot::Free) {
            Slot::Free => return,
            Slot::Awake(place) => self.vacate(place),
            Slot::Resting(bytes) => self.resting -= bytes.len(),
        }
        self.free.push(id);
    }

    /// Returns a connection; unpacks it if it is packed. `out` returns the interface of an end for
    /// its flow, side and hash.
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

    /// Returns a connection unless it is packed.
    pub(crate) fn awake(&mut self, id: u32) -> Option<&mut Connection> {
        match *self.slots.get(id as usize)? {
            Slot::Awake(place) => self.awake.get_mut(place as usize),
            _ => None,
        }
    }

    /// TCP statistics of both ends of a connection; a packed connection stays packed.
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

    /// Packs a connection if nothing is in flight.
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

    /// Connections that are not packed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.awake.iter_mut()
    }

    /// Memory in bytes, without the unacknowledged data of unpacked connections.
    pub(crate) fn memory(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Slot>();
        let awake = self.awake.capacity() * size_of::<Connection>();
        (slots + awake + self.resting) as u64
    }
}
