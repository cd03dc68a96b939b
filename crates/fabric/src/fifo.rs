//! A lean network for very many sessions: FIFO links of constant rate and delay with unlimited
//! queues, sessions on fixed paths that send data at set rates, and control packets that a driver
//! handles at every node.
//!
//! Exact as [`crate::Fabric`] is, and deterministic, but built for memory bandwidth: a data packet
//! costs no event. Time is cut into windows no longer than (nearly all) links' delays, so that
//! what leaves such a link in one window arrives in a later one (conservative simulation with
//! lookahead; D. Nicol, "The cost of conservative synchronization in parallel discrete event
//! simulations", J. ACM 40(2), 1993). All data arrivals of a window are thus known at its start;
//! sorted by link and time they run through each link in one go. Whatever is not data goes through
//! an event queue in the order of time, and a link first takes the data that has arrived before.
//!
//! ```text
//! source ─ paced data ─→ first link … ─→ windows (sorted batches) ─→ link ─→ windows …
//! driver ─ control ────→ link, behind the data before it ─→ event queue ─→ Event::Arrived
//! ```
//!
//! Where data is a [`Data::Fluid`], changes of rates travel instead of packets, each through the
//! queues that it finds, and queues are integrated exactly from change to change. A link passes
//! on what it receives as if it had not been the bottleneck: where sources overload a link, links
//! behind it see more than they would.
//!
//! Equal times: changes of links come first ([`FifoNetwork::advance_before`]), then arrivals, then
//! [`Event::Wake`]. Among arrivals at a link, batched data comes before what the event queue holds;
//! within each, what was sent first.

mod link;
mod passage;
mod stream;
#[cfg(test)]
mod tests;
mod window;

use base::{Bandwidth, Bytes, Span, Time};

use crate::{Error, EventQueue};
use link::{Link, Pool};
use stream::{ENDLESS, NEVER, Stream};
use window::{Arrival, Packet, Windows};

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoLink {
    /// Zero for no limit.
    pub rate: Bandwidth,
    /// Propagation.
    pub delay: Span,
}

/// How data is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Packets of this size on the wire.
    Packets {
        /// 1 B to 1 MB.
        size: Bytes,
    },
    /// Rates.
    Fluid,
}

/// Which end of its session's path a control packet travels to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// Downstream.
    Destination,
    /// Upstream.
    Source,
}

/// What a driver has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A control packet is where link `hop` of its session's path starts. Downstream it is about
    /// to enter that link (`hop` is the number of links at the destination); upstream it has
    /// crossed its opposite direction.
    Arrived {
        /// Whose.
        session: u32,
        /// The place in the path.
        hop: u8,
        /// Where it goes.
        towards: Towards,
        /// What it carries.
        message: M,
        /// That link; `None` at the destination.
        link: Option<u32>,
    },
    /// A time set with [`FifoNetwork::wake`] has come.
    Wake(u64),
    /// All data of a session has left its source.
    Sent {
        /// Whose.
        session: u32,
    },
    /// All data of a session has arrived.
    Delivered {
        /// Whose.
        session: u32,
    },
}

/// What one direction of a link has carried and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Everything that has arrived for it since the start.
    pub arrived: Bytes,
    /// Control packets among that.
    pub control: Bytes,
    /// What waits or is being transmitted.
    pub backlog: Bytes,
    /// The most that has waited since this was last taken.
    pub peak: Bytes,
}

/// What waits in the event queue.
#[derive(Clone, Copy, Debug)]
enum Live {
    /// A control packet, in [`FifoNetwork::flying`].
    Control(u32),
    /// A data packet that arrives for a link within the window in which it was sent.
    Data(Packet),
    /// A source sends into its first link.
    Emit { session: u32, link: u32 },
    /// A change of a fluid's rate arrives for a link.
    Surge { delta: i64, place: u32, last: bool },
    /// The last of a session has arrived.
    Delivered(u32),
}

/// A control packet between two nodes.
#[derive(Clone, Copy, Debug)]
struct Flying<M> {
    session: u32,
    /// Where the list of all paths has the session's first link.
    first: u32,
    /// The link whose start it travels to, or what the list of paths has at the end.
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

/// The network. See the module's head.
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
    /// The links of all paths; behind the last of each, [`END`] and its session.
    hops: Vec<u32>,
    /// By link: whether what it sends may arrive within the same window. Apart, since it is asked
    /// of links that are not otherwise touched.
    prompt: Vec<bool>,
    streams: Vec<Stream>,
    /// Up to when a fluid's amount is known; only with fluids.
    since: Vec<u64>,
    live: EventQueue<Live>,
    wakes: EventQueue<u64>,
    flying: Vec<Flying<M>>,
    free: Vec<u32>,
    windows: Windows,
    /// Arrivals of the present window, by link.
    batch: Vec<Arrival>,
    /// Whether a link has ever gone down.
    outages: bool,
    /// So many of the next events have been read ahead.
    known: usize,
    /// Whether they have been since the last event.
    fresh: bool,
    /// The session that the last event was about, and where its path begins.
    here: (u32, u32),
    /// Taken from the event queue.
    events: u64,
    /// Arrivals taken from batches.
    batched: u64,
    packet_hops: u64,
}

/// Marks the end of a path.
const END: u32 = 1 << 31;

/// Arrivals whose memory is read ahead together, so that the waits for it overlap.
const CHUNK: usize = 64;

/// Windows span 2^10 ns to 2^24 ns.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=24;

impl<M: Copy> FifoNetwork<M> {
    /// A network of directed links: link *l* is `2l` one way and `2l + 1` the other.
    ///
    /// # Errors
    /// With an odd number of directions, and with packets of no or more than 1 MB.
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
    /// If the path is empty, longer than 255 links, or names a link that isn't there; beyond 2³²
    /// hops of all paths and 2³¹ links.
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

    /// Makes room for so many sessions with so many links in all their paths, each with a control
    /// packet.
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

    /// How far it is.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// The links of a session's path.
    pub fn path(&self, session: u32) -> &[u32] {
        let Path { first, hops } = self.paths[session as usize];
        &self.hops[first as usize..][..usize::from(hops)]
    }

    /// Sets the rate at which a session's source sends data from now on, at most a packet each
    /// nanosecond.
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

    /// Sets what a session has still to send, rounded up to whole packets. What has no amount
    /// never ends.
    pub fn set_amount(&mut self, session: u32, amount: Bytes) {
        let left = match self.data {
            Data::Packets { .. } => amount.count().div_ceil(self.size),
            Data::Fluid => amount.count().saturating_mul(8),
        };
        self.streams[session as usize].left = left.clamp(1, ENDLESS - 1);
    }

    /// What a session has still to send; `None` without an end.
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

    /// Where the list of all paths has a session's first link.
    fn first(&self, session: u32) -> u32 {
        if self.here.0 == session {
            return self.here.1;
        }
        self.paths[session as usize].first
    }

    /// The next control packets: session, hop and link as in [`Event::Arrived`], for reading ahead
    /// what the driver needs for them. Each is told once, or not at all.
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

    /// Asks for [`Event::Wake`] with this token.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.wakes.push(at.max(self.now()), token);
    }

    /// Makes `at` the present, before its events; [`Self::next`] has returned all before it.
    pub fn advance_before(&mut self, at: Time) {
        self.now = self.now.max(at.as_nanos());
    }

    /// Changes one direction of a link, before data arrives at the present time. What waits leaves
    /// as it would have; a fluid goes on at the new rate.
    pub fn set_link(&mut self, link: u32, properties: &FifoLink) {
        self.settle(link, self.now.saturating_sub(1));
        let window = self.windows.end() - self.windows.start();
        self.links[link as usize].configure(properties);
        self.prompt[link as usize] = properties.delay.as_nanos() < window;
        if let Some(pool) = self.pools.get_mut(link as usize) {
            pool.configure(self.now, properties);
        }
    }

    /// Takes both directions of a link out of service, or puts them back, before data arrives at
    /// the present time. What is on it is lost.
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

    /// Goes on to the next event, or to `until`.
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
                // Where a link's delay has become shorter than a window, what was on its way to it
                // may be taken up late.
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

    /// What a direction of a link has carried. Begins a new peak.
    pub fn take_level(&mut self, link: u32) -> Level {
        let mut level = self.level(link);
        let peak = match self.pools.get_mut(link as usize) {
            Some(pool) => pool.take_peak(),
            None => self.links[link as usize].take_peak(self.now),
        };
        level.peak = Bytes::new(peak);
        level
    }

    /// As [`Self::take_level`], without a peak and without beginning one.
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

    /// Events of the event queue and arrivals taken from batches, so far.
    pub fn events(&self) -> u64 {
        self.events + self.batched
    }

    /// Links that packets have crossed, so far.
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

    /// Bytes of memory that sessions take: paths, senders' states and control packets.
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

/// The window's length, as a power of two of nanoseconds: at most nearly all delays, those of links
/// within a site not counted.
fn window_bits(links: &[FifoLink]) -> u32 {
    const NEAR: u64 = 1 << 14;
    let delays = links.iter().map(|link| link.delay.as_nanos());
    let mut delays: Vec<u64> = delays.filter(|delay| *delay >= NEAR).collect();
    if delays.is_empty() {
        return *WINDOW_BITS.start();
    }
    let low = delays.len() / 50;
    let (_, delay, _) = delays.select_nth_unstable(low);
    delay.ilog2().clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end())
}
