//! Data on the links: from sources, in batches from window to window, and in the event queue.

use base::Time;

use super::link::Link;
use super::stream::{NEVER, Stream};
use super::window::{Arrival, Packet};
use super::{CHUNK, Data, END, Event, FifoNetwork, Flying, Live, Towards};

impl<M: Copy> FifoNetwork<M> {
    /// Prefetches the data of the next events, so that cache misses overlap: first the data that
    /// refers to the rest.
    pub(super) fn read_ahead(&mut self) {
        let fluid = self.data == Data::Fluid;
        let mut read = 0;
        for live in self.live.upcoming() {
            read ^= match *live {
                Live::Emit { session, link } => {
                    self.links[link as usize].next ^ self.streams[session as usize].place
                }
                Live::Data(packet) => self.hops[packet.place as usize],
                Live::Control(slot) => self.flying[slot as usize].session,
                Live::Surge { place, .. } => self.hops[place as usize],
                Live::Delivered(_) => 0,
            };
        }
        for live in self.live.upcoming() {
            let link = match *live {
                Live::Control(slot) => {
                    let Flying { first, hop, towards, .. } = self.flying[slot as usize];
                    let place = first as usize + usize::from(hop);
                    match towards {
                        Towards::Destination => self.hops[place],
                        // It continues over the previous link, in the opposite direction.
                        Towards::Source => self.hops[place.saturating_sub(1)] ^ 1,
                    }
                }
                Live::Surge { place, .. } if fluid => self.hops[place as usize],
                _ => continue,
            };
            read ^= if fluid {
                self.pools.get(link as usize).map_or(0, |pool| pool.delay as u32)
            } else {
                self.links.get(link as usize).map_or(0, |link| link.next)
            };
        }
        std::hint::black_box(read);
        self.known = self.live.upcoming().len();
    }

    /// Whether data is in flight outside the event queue.
    pub(super) fn carries_data(&self) -> bool {
        !(self.batch.is_empty() && self.windows.is_empty())
    }

    /// Handles an event of the queue.
    pub(super) fn happen(&mut self, live: Live) -> Option<Event<M>> {
        match live {
            Live::Control(slot) => {
                let flying = self.flying[slot as usize];
                let Flying { session, first, hop, towards, era, message, .. } = flying;
                self.free.push(slot);
                if self.outages && self.links[self.crossed(first, hop, towards)].era() != era {
                    return None;
                }
                self.here = (session, first);
                let link = flying.link();
                return Some(Event::Arrived { session, hop, towards, message, link });
            }
            Live::Data(packet) => self.arrive(self.now, packet),
            Live::Emit { session, link } => return self.emit(session, link),
            Live::Surge { delta, place, last } => self.surge(self.now, delta, place, last),
            Live::Delivered(session) => return Some(Event::Delivered { session }),
        }
        None
    }

    /// The link that a packet has crossed to reach `hop`.
    fn crossed(&self, first: u32, hop: u8, towards: Towards) -> usize {
        let place = first as usize + usize::from(hop);
        let link = match towards {
            Towards::Destination => self.hops[place - 1],
            Towards::Source => self.hops[place] ^ 1,
        };
        link as usize
    }

    /// Handles a source's deadline: a packet, or the end of a fluid.
    fn emit(&mut self, session: u32, link: u32) -> Option<Event<M>> {
        let now = self.now;
        let stream = &mut self.streams[session as usize];
        if stream.next != now {
            return None;
        }
        if self.data == Data::Fluid {
            let delta = -(stream.rate as i64);
            stream.left = 0;
            stream.rate = 0;
            stream.next = NEVER;
            let place = stream.place;
            self.surge(now, delta, place, true);
            return Some(Event::Sent { session });
        }
        let last = stream.sent(self.size * 8);
        let Stream { place, second, .. } = *stream;
        if !last {
            self.live.push(Time::from_nanos(stream.next), Live::Emit { session, link });
        }
        self.settle(link, now);
        self.cross(link, now, Packet { place, last, era: 0 }, second);
        last.then_some(Event::Sent { session })
    }

    /// Handles a data packet from the event queue that arrives at its link.
    fn arrive(&mut self, at: u64, packet: Packet) {
        let place = packet.place as usize;
        let (link, next) = (self.hops[place], self.hops[place + 1]);
        if self.outages && self.is_stale(packet) {
            return;
        }
        self.settle(link, at);
        self.cross(link, at, packet, next);
    }

    /// Whether the link that a packet comes from has gone down since it was sent.
    fn is_stale(&self, packet: Packet) -> bool {
        let came = self.hops[packet.place as usize - 1];
        self.links[came as usize].era() != packet.era
    }

    /// Processes all data of the batch that has arrived at a link by `until`.
    #[inline]
    pub(super) fn settle(&mut self, link: u32, until: u64) {
        if self.batch.is_empty() {
            return;
        }
        let Link { next, end, .. } = self.links[link as usize];
        if next < end {
            self.settle_some(link, until);
        }
    }

    fn settle_some(&mut self, link: u32, until: u64) {
        let start = self.windows.start();
        let Link { mut next, end, .. } = self.links[link as usize];
        let batch = std::mem::take(&mut self.batch);
        while next < end {
            let Arrival { offset, packet, .. } = batch[next as usize];
            let at = start + u64::from(offset);
            if at > until {
                break;
            }
            next += 1;
            self.batched += 1;
            if !(self.outages && self.is_stale(packet)) {
                let behind = self.hops[packet.place as usize + 1];
                self.cross(link, at, packet, behind);
            }
        }
        self.links[link as usize].next = next;
        self.batch = batch;
    }

    /// Processes all data that has arrived at any link by `until`.
    pub(super) fn settle_all(&mut self, until: u64) {
        let batch = std::mem::take(&mut self.batch);
        let start = self.windows.start();
        for (chunk, arrivals) in batch.chunks(CHUNK).enumerate() {
            let mut behind = [0; CHUNK];
            let mut read = 0;
            for (Arrival { link, packet, .. }, behind) in arrivals.iter().zip(&mut behind) {
                *behind = self.hops[packet.place as usize + 1];
                read ^= self.links[*link as usize].next;
            }
            std::hint::black_box(read);
            for (index, arrival) in (chunk * CHUNK..).zip(arrivals) {
                let Arrival { offset, link, packet } = *arrival;
                let state = &mut self.links[link as usize];
                let at = start + u64::from(offset);
                if state.next as usize != index || at > until {
                    continue;
                }
                state.next += 1;
                self.batched += 1;
                if !(self.outages && self.is_stale(packet)) {
                    self.cross(link, at, packet, behind[index % CHUNK]);
                }
            }
        }
        self.batch = batch;
    }

    /// A data packet crosses a link; `next` is the next entry of the list of paths.
    #[inline]
    fn cross(&mut self, link: u32, at: u64, packet: Packet, next: u32) {
        let Packet { place, last, .. } = packet;
        let state = &mut self.links[link as usize];
        if !state.is_up() {
            return;
        }
        self.packet_hops += 1;
        let arrives = state.take(at, self.size);
        let packet = Packet { place: place + 1, last, era: state.era() };
        if next & END != 0 {
            if last {
                let session = next & !END;
                self.live.push(Time::from_nanos(arrives.max(self.now)), Live::Delivered(session));
            }
            return;
        }
        // After a link with a short delay, data that arrives in one window may leave in the same:
        // such arrivals are events. At the end of a path no data leaves; only the end of a session
        // is an event. Data that a slow link delays beyond all stored windows is an event too.
        let ends = !last && self.hops[place as usize + 2] & END != 0;
        if !self.windows.hold(arrives) || (!ends && self.prompt[next as usize]) {
            self.live.push(Time::from_nanos(arrives.max(self.now)), Live::Data(packet));
        } else {
            self.windows.push(arrives, next, packet);
        }
    }

    /// Handles a change of a fluid's rate that arrives at the link at `place` of the list of paths.
    pub(super) fn surge(&mut self, at: u64, delta: i64, place: u32, last: bool) {
        let (link, behind) = (self.hops[place as usize], self.hops[place as usize + 1]);
        let pool = &mut self.pools[link as usize];
        pool.run(at);
        let lost = self.outages && !self.links[link as usize].is_up();
        let wait = if lost { 0 } else { pool.wait() };
        pool.change(delta);
        let at = Time::from_nanos(at.saturating_add(wait).saturating_add(pool.delay));
        if behind & END == 0 {
            self.live.push(at, Live::Surge { delta, place: place + 1, last });
        } else if last {
            self.live.push(at, Live::Delivered(behind & !END));
        }
    }

    /// Ends the present window and starts the next.
    pub(super) fn turn(&mut self, due: u64) {
        self.settle_all(u64::MAX);
        self.windows.turn(due, &mut self.batch);
        self.now = self.now.max(self.windows.start());
        let mut first = 0;
        while let Some(Arrival { link, .. }) = self.batch.get(first).copied() {
            let same = self.batch[first..].iter().take_while(|arrival| arrival.link == link);
            let end = first + same.count();
            let state = &mut self.links[link as usize];
            (state.next, state.end) = (first as u32, end as u32);
            first = end;
        }
    }
}
