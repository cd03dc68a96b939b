//! Streams: paths, windows and sent data.

use base::Span;

use super::{Event, Net, drops};
use crate::fluid::route::{Route, route};
use crate::fluid::stream::{MIN_RTT, Stream, span};
use crate::fluid::tcp::Manner;
use crate::trace::FlowEvent;

/// Seconds until the first retransmission of a SYN (RFC 6298 §2.1).
const HANDSHAKE: f64 = 1.0;

impl Net {
    /// Opens a connection of a flow and returns its two streams. The first one gets
    /// [`Notification::Ready`] after the handshake.
    pub(in crate::fluid) fn connect(
        &mut self,
        flow: u32,
        hash: u32,
        tag: u32,
        both: bool,
    ) -> [u32; 2] {
        let there = self.open(flow, hash, tag, 0);
        let back = if both { self.open(flow, hash, tag, 1) } else { there };
        self.streams[there as usize].twin = back;
        self.streams[back as usize].twin = there;
        let stream = &self.streams[there as usize];
        let (rtt, life) = (stream.rtt, stream.life);
        if stream.routed(self.nowhere) {
            let wait = self.waiting(there);
            let again = if self.loses_one(there) { HANDSHAKE } else { 0.0 };
            let at = self.now + span(rtt + wait + again);
            self.schedule(at, Event::Ready { stream: there, life });
        }
        [there, back]
    }

    /// Sets the payload that a stream sends once it is ready.
    pub(in crate::fluid) fn send_when_ready(&mut self, id: u32, payload: f64) {
        self.streams[id as usize].first = payload;
    }

    /// The streams of a connection, from the client and to it, by one of them; twice the same if
    /// the connection has only one.
    pub(in crate::fluid) fn ends_of(&self, id: u32) -> [u32; 2] {
        let stream = &self.streams[id as usize];
        if stream.side == 0 { [id, stream.twin] } else { [stream.twin, id] }
    }

    fn open(&mut self, flow: u32, hash: u32, tag: u32, side: u8) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::vacant());
            self.streams.len() as u32 - 1
        });
        let manner = self.ends[flow as usize].manner;
        let life = self.streams[id as usize].life.wrapping_add(1);
        let round_number = self.streams[id as usize].round_number;
        self.streams[id as usize] = Stream {
            flow,
            tag,
            side,
            hash,
            life,
            round_number,
            alive: true,
            slow_start: true,
            window: manner.first_window().min(manner.window_limit()),
            since: self.now,
            ..Stream::vacant()
        };
        self.find_way(id);
        id
    }

    /// Computes a stream's path and the values that depend on it.
    fn find_way(&mut self, id: u32) {
        let stream = &self.streams[id as usize];
        let ends = &self.ends[stream.flow as usize];
        let (here, there) = (usize::from(stream.side), 1 - usize::from(stream.side));
        // The hash of a packet includes its direction.
        let hash = |side: usize| crate::net::mix(stream.hash, side as u32);
        let way = |from: usize, to: usize| {
            let (node, address) = (ends.nodes[from], ends.addresses[to]);
            route(&self.routes, node, address, hash(from))
        };
        let (forth, back) = (way(here, there), way(there, here));
        let segment = ends.manner.segment_bits();
        let (Some(forth), Some(back)) = (forth, back) else {
            self.streams[id as usize].route = Route { links: Box::new([self.nowhere]) };
            return;
        };
        let one_way = self.links.measure(&forth.links, segment);
        // Acknowledgements carry no payload.
        let ack = segment - ends.manner.mss * 8.0;
        let return_way = self.links.measure(&back.links, ack);
        let queueing = one_way
            .slowest
            .map_or(0.0, |link| Manner::sharing_delay(&self.links.table[link.0 as usize]));
        let manner = ends.manner;
        let stream = &mut self.streams[id as usize];
        stream.segment = segment;
        stream.narrowest = one_way.narrowest;
        stream.loss = one_way.loss;
        stream.latency = one_way.delay + one_way.transmission - segment / one_way.narrowest;
        let there_and_back =
            one_way.delay + one_way.transmission + return_way.delay + return_way.transmission;
        stream.rtt = there_and_back.max(MIN_RTT);
        stream.weight = manner.weight(stream.rtt + queueing);
        stream.route = forth;
    }

    /// Gives a stream payload to send (infinite: without end).
    pub(in crate::fluid) fn send(&mut self, id: u32, payload: f64) {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        self.trace.note(self.now, FlowEvent::Given as u8, stream.flow, payload.to_bits());
        stream.settle(self.now);
        stream.parameters += payload;
        stream.left += manner.wire_bits(payload);
        stream.burst = stream.left;
        if stream.key.is_none() {
            stream.round = self.now;
            self.begin(id);
        } else {
            let finish = self.streams[id as usize].finish(self.now);
            self.finishes.set(id, finish);
        }
    }

    /// Adds a stream with data to send to the sharing of links.
    fn begin(&mut self, id: u32) {
        let wait = self.waiting(id);
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        let rtt = stream.rtt + wait;
        stream.rate = 0.0;
        stream.since = self.now;
        stream.wait = wait;
        stream.epoch = self.epoch;
        stream.cap = manner.rate_limit(stream, rtt);
        let key = self.solver.add_flow(&stream.route.links, stream.weight, stream.cap);
        stream.key = Some(key);
        if self.owners.len() <= key.0 as usize {
            self.owners.resize(key.0 as usize + 1, 0);
        }
        self.owners[key.0 as usize] = id;
        if stream.slow_start || stream.recovers {
            let slow_start = stream.slow_start;
            stream.round_number = stream.round_number.wrapping_add(1);
            let event = Event::Round { stream: id, round: stream.round_number };
            self.arrivals.push(self.now + span(rtt), event);
            let window = if slow_start { stream.window } else { 0.0 };
            self.burst(id, window, rtt);
        }
    }

    /// Handles the end of a slow-start round.
    pub(super) fn next_round(&mut self, id: u32) {
        let wait = self.waiting(id);
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        let Some(key) = stream.key else { return };
        stream.settle(self.now);
        let rtt = stream.rtt + wait;
        if stream.epoch == self.epoch {
            // The stream has no share yet.
            let event = Event::Round { stream: id, round: stream.round_number };
            self.arrivals.push(self.now + span(rtt), event);
            return;
        }
        stream.epoch = self.epoch;
        let most = manner.window_limit();
        let goes_on = stream.at_cap() && stream.window < most;
        let slow_start = stream.slow_start;
        let growth = if slow_start { stream.window } else { manner.segment_bits() };
        let grown = if goes_on {
            growth.min(most - stream.window)
        } else {
            // The excess of the window over its share.
            (stream.window - stream.rate * rtt).max(0.0)
        };
        if goes_on {
            stream.window += grown;
            let event = Event::Round { stream: id, round: stream.round_number };
            self.arrivals.push(self.now + span(rtt), event);
        }
        if slow_start {
            self.burst(id, grown, rtt);
        }
        let stream = &mut self.streams[id as usize];
        if !goes_on {
            (stream.slow_start, stream.recovers) = (false, false);
            stream.drops = drops(stream, &manner, &self.solver, &self.links);
        }
        stream.round = self.now;
        stream.burst = stream.left;
        stream.cap = manner.rate_limit(stream, rtt);
        self.solver.set_demand(key, stream.weight, stream.cap);
        let finish = stream.finish(self.now);
        self.finishes.set(id, finish);
    }

    /// Handles a stream that has sent all its payload.
    pub(super) fn sent_all(&mut self, id: u32) {
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        // The last round's burst was faster than the average rate.
        let missing = std::mem::replace(&mut stream.left, 0.0);
        stream.sent += missing;
        self.links.add_burst(&stream.route.links, missing);
        if stream.slow_start && 2.0 * stream.burst > stream.window {
            stream.window += stream.burst.min(stream.window);
        }
        stream.round_number = stream.round_number.wrapping_add(1);
        let event = Event::Arrived { stream: id, life: stream.life };
        let late = std::mem::replace(&mut stream.late, 0.0);
        let at = self.now + span(stream.latency + stream.wait + late);
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
        }
        self.arrivals.push(at, event);
    }

    pub(in crate::fluid) fn close(&mut self, id: u32) {
        let stream = &mut self.streams[id as usize];
        if !std::mem::replace(&mut stream.alive, false) {
            return;
        }
        stream.settle(self.now);
        stream.life = stream.life.wrapping_add(1);
        stream.round_number = stream.round_number.wrapping_add(1);
        stream.route = Route::default();
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
        }
        self.finishes.set(id, None);
        self.free.push(id);
    }

    pub(in crate::fluid) fn set_tag(&mut self, id: u32, tag: u32) {
        self.streams[id as usize].tag = tag;
    }

    /// The flow and tag of a stream.
    pub(in crate::fluid) fn stream(&self, id: u32) -> (u32, u32) {
        let stream = &self.streams[id as usize];
        (stream.flow, stream.tag)
    }

    /// Payload bytes that have arrived since the last call; if `all`, also those still in flight.
    pub(in crate::fluid) fn arrived(&mut self, id: u32, all: bool) -> u64 {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        let total = if all {
            stream.parameters
        } else {
            let flying = stream.rate * stream.latency;
            let bytes = (stream.sent - flying).max(0.0) * manner.payload_per_bit();
            bytes.min(stream.parameters)
        };
        let new = (total.floor() - stream.credited).max(0.0);
        stream.credited += new;
        new as u64
    }

    /// Segments that a stream has lost.
    pub(in crate::fluid) fn lost(&mut self, id: u32) -> u64 {
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        stream.lost.round() as u64
    }

    /// Payload bytes that a stream has sent.
    pub(in crate::fluid) fn sent(&mut self, id: u32) -> u64 {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        (stream.sent * manner.payload_per_bit()).min(stream.parameters) as u64
    }

    /// A stream's RTT with the current queues, and its window in payload bytes.
    pub(in crate::fluid) fn observe(&self, id: u32) -> (Span, u64) {
        let stream = &self.streams[id as usize];
        let rtt = stream.rtt + self.waiting(id);
        let manner = &self.ends[stream.flow as usize].manner;
        let window = if stream.slow_start { stream.window } else { stream.rate * rtt };
        (span(rtt), (window * manner.payload_per_bit()) as u64)
    }

    pub(super) fn reroute_stream(&mut self, id: u32) {
        let before = self.streams[id as usize].route.clone();
        self.find_way(id);
        if before == self.streams[id as usize].route {
            return;
        }
        let lost = before.links.first() == Some(&self.nowhere);
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
            self.finishes.set(id, None);
            self.begin(id);
        } else if lost && stream.parameters == 0.0 && stream.routed(self.nowhere) {
            // The connection could not be opened before.
            let event = Event::Ready { stream: id, life: stream.life };
            let at = self.now + span(stream.rtt);
            self.arrivals.push(at, event);
        }
    }
}
