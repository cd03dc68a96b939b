//! A simple network for very many sessions: FIFO links of constant rate and delay with unlimited
//! queues, sessions on fixed paths that send data at given rates, and control packets that a driver
//! handles at every node.
//!
//! It is exact like [`crate::Fabric`], and deterministic, but optimised for memory bandwidth: a
//! data packet needs no event. Time is divided into windows that are not longer than the delays of
//! (nearly all) links, so that data that leaves such a link in one window arrives in a later one
//! (conservative simulation with lookahead; D. Nicol, "The cost of conservative synchronization in
//! parallel discrete event simulations", J. ACM 40(2), 1993). All data arrivals of a window are
//! thus known at its start; sorted by link and time, they pass through each link in one batch.
//! Everything else passes through an event queue in the order of time, and a link first processes
//! the data that has arrived before.
//!
//! ```text
//! source ─ paced data ─→ first link … ─→ windows (sorted batches) ─→ link ─→ windows …
//! driver ─ control ────→ link, behind the data before it ─→ event queue ─→ Event::Arrived
//! ```
//!
//! With [`Data::Fluid`], changes of rates travel instead of packets, each delayed by the queues on
//! its path, and queues are integrated exactly between changes. A link passes on the rates that it
//! receives as if it were not the bottleneck: if sources overload a link, links after it see higher
//! rates than in reality.
//!
//! Equal times: changes of links come first ([`FifoNetwork::advance_before`]), then arrivals, then
//! [`Event::Wake`]. Among arrivals at a link, batched data comes before the events of the event
//! queue; within each, data sent earlier comes first.

mod link;
mod passage;
mod stream;
#[cfg(test)]
mod tests;
mod window;

use base::{Bandwidth, Bytes, Time};

use crate::{Error, EventQueue};
pub use link::FifoLink;
use link::{Link, Pool};
use stream::{ENDLESS, NEVER, Stream};
use window::{Arrival, Packet, Windows};

/// How data is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Packets of this size on the wire.
    Packets {
        /// 1 B to 1 MB.
        size: Bytes,
    },
    /// Fluid rates, without packets.
    Fluid,
}

/// The direction of a control packet on its session's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// Downstream, towards the session's destination.
    Destination,
    /// Upstream, towards the session's source.
    Source,
}

/// An event for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A control packet has reached the start of link `hop` of its session's path. Downstream it is
    /// about to enter that link (`hop` is the number of links at the destination); upstream it has
    /// crossed the link's opposite direction.
    Arrived {
        /// The number of the session.
        session: u32,
        /// The index of the link in the path.
        hop: u8,
        /// The direction of the packet.
        towards: Towards,
        /// The contents of the packet.
        message: M,
        /// That link; `None` at the destination.
        link: Option<u32>,
    },
    /// A time set with [`FifoNetwork::wake`] is reached.
    Wake(u64),
    /// All data of a session has left its source.
    Sent {
        /// The number of the session.
        session: u32,
    },
    /// All data of a session has arrived.
    Delivered {
        /// The number of the session.
        session: u32,
    },
}

/// The counters and the queue of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// All bytes that have arrived for it since the start.
    pub arrived: Bytes,
    /// The part of them in control packets.
    pub control: Bytes,
    /// Queued bytes and those in transmission.
    pub backlog: Bytes,
    /// The maximum queue since the last call.
    pub peak: Bytes,
}

/// Entries of the event queue.
#[derive(Clone, Copy, Debug)]
enum Live {
    /// A control packet, in [`FifoNetwork::flying`].
    Control(u32),
    /// A data packet that arrives at a link in the same window in which it was sent.
    Data(Packet),
    /// A source sends into its first link.
    Emit { session: u32, link: u32 },
    /// A change of a fluid's rate arrives at a link.
    Surge { delta: i64, place: u32, last: bool },
    /// The last data of a session has arrived.
    Delivered(u32),
}

/// A control packet between two nodes.
#[derive(Clone, Copy, Debug)]
struct Flying<M> {
    session: u32,
    /// Index of the session's first link in the list of all paths.
    first: u32,
    /// The link whose start it travels to, or the entry of the list of paths at the end.
    next: u32,
    /// As in [`Event::Arrived`].
    hop: u8,
    towards: Towards,
    era: u8,
    message: M,
}

impl<M> Flying<M> {
    fn link(&self) -> Option<u32> {
        (self.next & END == 0).then_some(self.next)
    }
}

/// The path of a session.
#[derive(Clone, Copy, Debug)]
struct Path {
    first: u32,
    hops: u8,
}

/// The network. See the module documentation.
#[derive(Debug)]
pub struct FifoNetwork<M> {
    now: u64,
    data: Data,
    /// Bytes of a data packet.
    size: u64,
    links: Vec<Link>,
    /// By link; only with fluids.
    pools: Vec<Pool>,
    paths: Vec<Path>,
    /// The links of all paths; after the last link of each path, [`END`] and the session.
    hops: Vec<u32>,
    /// By link: whether its packets may arrive in the same window. Separate, since it is read for
    /// links that are not otherwise touched.
    prompt: Vec<bool>,
    streams: Vec<Stream>,
    /// Time up to which a fluid's amount is known; only with fluids.
    since: Vec<u64>,
    live: EventQueue<Live>,
    wakes: EventQueue<u64>,
    flying: Vec<Flying<M>>,
    free: Vec<u32>,
    windows: Windows,
    /// Arrivals of the present window, by link.
    batch: Vec<Arrival>,
    /// Whether a link was ever down.
    outages: bool,
    /// Number of next events that have been prefetched.
    known: usize,
    /// Whether they have been prefetched since the last event.
    fresh: bool,
    /// The session of the last event, and the start of its path.
    here: (u32, u32),
    /// Number of events removed from the event queue.
    events: u64,
    /// Number of arrivals processed in batches.
    batched: u64,
    packet_hops: u64,
}

/// Marks the end of a path.
const END: u32 = 1 << 31;

/// Arrivals that are prefetched together, so that cache misses overlap.
const CHUNK: usize = 64;

/// Windows have lengths from 2^10 ns to 2^24 ns.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=24;

impl<M: Copy> FifoNetwork<M> {
    /// A network of directed links: link *l* has the directions `2l` and `2l + 1`.
    ///
    /// # Errors
    /// If the number of directions is odd, or packets are empty or larger than 1 MB.
    pub fn try_new(links: &[FifoLink], data: Data) -> Result<Self, Error> {
        if links.len() % 2 == 1 {
            return Err(Error::HalfLink { directions: links.len() });
        }
        let size = match data {
            Data::Packets { size } => size.count(),
            Data::Fluid => 1,
        };
        if !(1..=1_000_000).contains(&size) {
            return Err(Error::PacketSize { size: Bytes::new(size) });
        }
        let bits = window_bits(links);
        let pools = if data == Data::Fluid { links.len() } else { 0 };
        Ok(Self {
            now: 0,
            data,
            size,
            links: links.iter().map(Link::new).collect(),
            prompt: links.iter().map(|link| link.delay.as_nanos() >> bits == 0).collect(),
            pools: links[..pools].iter().map(Pool::new).collect(),
            paths: Vec::new(),
            hops: Vec::new(),
            streams: Vec::new(),
            since: Vec::new(),
            live: EventQueue::default(),
            wakes: EventQueue::default(),
            flying: Vec::new(),
            free: Vec::new(),
            windows: Windows::new(bits),
            batch: Vec::new(),
            outages: false,
            known: 0,
            fresh: false,
            here: (u32::MAX, 0),
            events: 0,
            batched: 0,
            packet_hops: 0,
        })
    }

    /// Adds a session over directed links; sessions are numbered from 0.
    ///
    /// # Errors
    /// If the path is empty, longer than 255 links, or refers to a link that does not exist; with
    /// more than 2³² hops of all paths or 2³¹ links.
    pub fn add_session(&mut self, path: &[u32]) -> Result<u32, Error> {
        let hops = u8::try_from(path.len()).ok().filter(|hops| *hops > 0);
        let hops = hops.ok_or(Error::PathLength { hops: path.len() })?;
        if let Some(link) = path.iter().find(|link| **link as usize >= self.links.len()) {
            return Err(Error::NoSuchLink { link: base::LinkId(link / 2) });
        }
        let first = u32::try_from(self.hops.len()).ok().filter(|first| *first < u32::MAX - 256);
        let first = first.ok_or(Error::PathLength { hops: path.len() })?;
        let session = self.paths.len() as u32;
        self.hops.extend_from_slice(path);
        self.hops.push(END | session);
        self.paths.push(Path { first, hops });
        self.streams.push(Stream::new(first, self.hops[first as usize + 1]));
        if self.data == Data::Fluid {
            self.since.push(self.now);
        }
        Ok(session)
    }

    /// Reserves memory for `sessions` with `hops` links in all their paths, each with
    /// a control packet.
    pub fn reserve(&mut self, sessions: usize, hops: usize) {
        self.flying.reserve_exact(sessions);
        self.free.reserve_exact(sessions);
        self.paths.reserve_exact(sessions);
        self.streams.reserve_exact(sessions);
        self.hops.reserve_exact(hops + sessions);
        if self.data == Data::Fluid {
            self.since.reserve_exact(sessions);
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// The links of a session's path.
    pub fn path(&self, session: u32) -> &[u32] {
        let Path { first, hops } = self.paths[session as usize];
        &self.hops[first as usize..][..usize::from(hops)]
    }

    /// Sets the rate at which a session's source sends data from now on, at most
    /// one packet per nanosecond.
    pub fn set_rate(&mut self, session: u32, rate: Bandwidth) {
        let (now, rate) = (self.now, rate.bits_per_sec());
        let link = self.path(session)[0];
        let stream = &mut self.streams[session as usize];
        if stream.rate == rate {
            return;
        }
        if self.data == Data::Fluid {
            let delta = stream.flow(now, rate, &mut self.since[session as usize]);
            if stream.next != NEVER {
                self.live.push(Time::from_nanos(stream.next), Live::Emit { session, link });
            }
            let place = stream.place;
            if delta != 0 {
                self.surge(now, delta, place, false);
            }
        } else if stream.pace(now, rate) {
            self.live.push(Time::from_nanos(stream.next), Live::Emit { session, link });
        }
    }

    /// Sets the remaining data of a session, rounded up to whole packets. A session without
    /// an amount never ends.
    pub fn set_amount(&mut self, session: u32, amount: Bytes) {
        let left = match self.data {
            Data::Packets { .. } => amount.count().div_ceil(self.size),
            Data::Fluid => amount.count().saturating_mul(8),
        };
        self.streams[session as usize].left = left.clamp(1, ENDLESS - 1);
    }

    /// The remaining data of a session; `None` without an end.
    pub fn left(&self, session: u32) -> Option<Bytes> {
        let stream = &self.streams[session as usize];
        if stream.left == ENDLESS {
            return None;
        }
        Some(Bytes::new(match self.data {
            Data::Packets { .. } => stream.left * self.size,
            Data::Fluid => stream.left_at(self.now, self.since[session as usize]).div_ceil(8),
        }))
    }

    /// Sends a control packet of `size` bytes over link `hop` of a session's path, upstream in
    /// the opposite direction. A packet for a link that is down is lost.
    pub fn send(&mut self, session: u32, hop: u8, towards: Towards, size: u32, message: M) {
        let first = self.first(session);
        let place = first as usize + usize::from(hop);
        let (forward, behind) = (self.hops[place], self.hops[place + 1]);
        let (link, hop, next) = match towards {
            Towards::Destination => (forward, hop + 1, behind),
            Towards::Source => (forward ^ 1, hop, forward),
        };
        let mut era = 0;
        if self.outages {
            let state = &self.links[link as usize];
            if !state.is_up() {
                return;
            }
            era = state.era();
        }
        self.packet_hops += 1;
        let at = if self.data == Data::Fluid {
            let pool = &mut self.pools[link as usize];
            pool.run(self.now);
            pool.add(u64::from(size));
            self.now.saturating_add(pool.wait()).saturating_add(pool.delay)
        } else {
            self.settle(link, self.now);
            let state = &mut self.links[link as usize];
            state.count_control(u64::from(size));
            state.take(self.now, u64::from(size))
        };
        let flying = Flying { session, first, next, hop, towards, era, message };
        let slot = if let Some(slot) = self.free.pop() {
            self.flying[slot as usize] = flying;
            slot
        } else {
            self.flying.push(flying);
            self.flying.len() as u32 - 1
        };
        self.live.push(Time::from_nanos(at), Live::Control(slot));
    }

    /// Index of a session's first link in the list of all paths.
    fn first(&self, session: u32) -> u32 {
        if self.here.0 == session {
            return self.here.1;
        }
        self.paths[session as usize].first
    }

    /// The next control packets, with session, hop and link as in [`Event::Arrived`], so that the
    /// driver can prefetch its data. Each is returned at most once.
    pub fn upcoming(&self) -> impl Iterator<Item = (u32, u8, Option<u32>)> {
        let known = self.live.upcoming().take(if self.fresh { self.known } else { 0 });
        known.filter_map(|live| match live {
            Live::Control(slot) => {
                let flying = &self.flying[*slot as usize];
                Some((flying.session, flying.hop, flying.link()))
            }
            _ => None,
        })
    }

    /// Schedules an [`Event::Wake`] with this token.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.wakes.push(at.max(self.now()), token);
    }

    /// Advances to `at`, before its events; [`Self::next`] must have returned all earlier ones.
    pub fn advance_before(&mut self, at: Time) {
        self.now = self.now.max(at.as_nanos());
    }

    /// Changes one direction of a link, before data arrives at the present time. Queued data leaves
    /// at the times planned before; a fluid continues at the new rate.
    pub fn set_link(&mut self, link: u32, properties: &FifoLink) {
        self.settle(link, self.now.saturating_sub(1));
        let window = self.windows.end() - self.windows.start();
        self.links[link as usize].configure(properties);
        self.prompt[link as usize] = properties.delay.as_nanos() < window;
        if let Some(pool) = self.pools.get_mut(link as usize) {
            pool.configure(self.now, properties);
        }
    }

    /// Sets both directions of a link up or down, before data arrives at the present time. Data
    /// on it is lost.
    pub fn set_up(&mut self, link: base::LinkId, up: bool) {
        self.outages = true;
        self.settle_all(self.now.saturating_sub(1));
        for direction in [2 * link.0, 2 * link.0 + 1] {
            self.links[direction as usize].set_up(self.now, up);
            if let Some(pool) = self.pools.get_mut(direction as usize) {
                pool.cut(self.now);
            }
        }
    }

    /// Advances to the next event, or to `until`.
    pub fn next(&mut self, until: Time) -> Option<Event<M>> {
        let until = until.as_nanos();
        loop {
            let end = self.windows.end();
            let [live, wake] = [self.live.next_time(), self.wakes.next_time()]
                .map(|at| at.map_or(u64::MAX, Time::as_nanos));
            let due = live.min(wake);
            if wake < live && wake < end && wake <= until {
                let (at, token) = self.wakes.pop_until(Time::from_nanos(wake))?;
                self.now = self.now.max(at.as_nanos());
                self.fresh = false;
                self.events += 1;
                return Some(Event::Wake(token));
            }
            if due < end && due <= until {
                let (at, live) = self.live.pop_until(Time::from_nanos(due))?;
                self.fresh = self.known == 0;
                if self.fresh {
                    self.read_ahead();
                } else {
                    self.known -= 1;
                }
                // If a link's delay has become shorter than a window, data in flight to it
                // may be processed late.
                self.now = self.now.max(at.as_nanos());
                self.events += 1;
                if let Some(event) = self.happen(live) {
                    return Some(event);
                }
            } else if end <= until && (due <= until || self.carries_data()) {
                self.turn(due.min(until));
            } else {
                self.now = self.now.max(until);
                return None;
            }
        }
    }

    /// The counters of a direction of a link. Resets the peak.
    pub fn take_level(&mut self, link: u32) -> Level {
        let mut level = self.level(link);
        let peak = match self.pools.get_mut(link as usize) {
            Some(pool) => pool.take_peak(),
            None => self.links[link as usize].take_peak(self.now),
        };
        level.peak = Bytes::new(peak);
        level
    }

    /// Like [`Self::take_level`], without the peak and without resetting it.
    pub fn level(&mut self, link: u32) -> Level {
        let [arrived, control, backlog] = if let Some(pool) = self.pools.get_mut(link as usize) {
            pool.run(self.now);
            [pool.arrived(), pool.control, pool.backlog()]
        } else {
            self.settle(link, self.now);
            let state = &self.links[link as usize];
            [state.arrived(), state.control(), state.backlog(self.now)]
        };
        Level {
            arrived: Bytes::new(arrived),
            control: Bytes::new(control),
            backlog: Bytes::new(backlog),
            peak: Bytes::new(0),
        }
    }

    /// Number of events of the event queue and of arrivals in batches.
    pub fn events(&self) -> u64 {
        self.events + self.batched
    }

    /// Number of link crossings by packets.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        let links = self.links.capacity() * size_of::<Link>()
            + self.prompt.capacity()
            + self.pools.capacity() * size_of::<Pool>();
        let data = self.batch.capacity() * size_of::<Arrival>() + self.windows.memory();
        (links + data) as u64 + self.session_memory()
    }

    /// Memory of sessions in bytes: paths, senders' states and control packets.
    pub fn session_memory(&self) -> u64 {
        let sessions = self.paths.capacity() * size_of::<Path>()
            + self.hops.capacity() * size_of::<u32>()
            + self.streams.capacity() * size_of::<Stream>()
            + self.since.capacity() * size_of::<u64>();
        let waiting = self.live.len() * (size_of::<Live>() + size_of::<u64>())
            + self.wakes.len() * 2 * size_of::<u64>()
            + self.flying.capacity() * size_of::<Flying<M>>();
        (sessions + waiting) as u64
    }
}

/// The window's length, as a power of two of nanoseconds: at most nearly all delays, without those
/// of links within a site.
fn window_bits(links: &[FifoLink]) -> u32 {
    const MIN_DELAY: u64 = 1 << 14;
    let delays = links.iter().map(|link| link.delay.as_nanos());
    let mut delays: Vec<u64> = delays.filter(|delay| *delay >= MIN_DELAY).collect();
    if delays.is_empty() {
        return *WINDOW_BITS.start();
    }
    let low = delays.len() / 50;
    let (_, delay, _) = delays.select_nth_unstable(low);
    delay.ilog2().clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end())
}
