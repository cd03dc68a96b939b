//! One bundle: its queue, pacer and epochs.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, RandomStream, Ratio, Span, Time};
use queue::{DropReason, Ecn, QueueLimit, Queued, Slab, Verdicts, Waiting};

use super::pacer::Pacer;
use super::state::{Cause, State, Transition};
use super::status::{Counters, Status};
use super::tick::{Loop, TICK};
use crate::association::{Association, Received, Role, Sent};
use crate::digest::{self, PacketKey};
use crate::encapsulation::{Envelope, Header};
use crate::measure::{Arrived, Mark};
use crate::receivebox::BundleIndex;
use crate::settings::{Marking, Mode, Settings};

const HEARTBEAT: Span = Span::from_secs(1);
/// Interval of heartbeats while the last one is unanswered, or after the period has changed.
const HEARTBEAT_SOON: Span = Span::from_millis(100);
/// Time without packets after which the control loop pauses.
const REST: Span = Span::from_secs(1);
/// Target number of epochs per round trip; an epoch is at most [`MAX_EPOCH`].
const EPOCHS_PER_ROUND_TRIP: u64 = 4;
//= deviation: the paper's prototype uses a quarter of the round trip and periods of 4 to 1024.
const MAX_EPOCH: Span = Span::from_millis(10);
/// On paths with short round trips, more than a thousand ACKs per second carry no new information,
/// and take CPU time from packets.
const MIN_EPOCH: Span = Span::from_millis(1);
const MAX_PERIOD: u32 = 65_536;
/// Period before the path is measured.
const FIRST_PERIOD: u32 = 4;
const FULL_PACKET: u64 = 1538;

/// A packet of a bundle from the site. `B` is the driver's handle.
#[derive(Clone, Debug)]
pub struct Arrival<B> {
    /// Handle of the packet.
    pub body: B,
    /// Layer-3 bytes.
    pub size: u32,
    /// Hash of addresses, protocol and ports, by which fair queueing distinguishes flows.
    pub flow: u32,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Its [`crate::digest`], equal to that of the receivebox.
    pub digest: u64,
}

/// Outputs of the sendbox.
#[derive(Clone, Debug)]
pub enum Output<B> {
    /// Send the packet.
    Forward {
        /// Index of the bundle.
        bundle: BundleIndex,
        /// Handle of the packet.
        body: B,
        /// Whether the scheduler marked it with congestion experienced.
        marked: bool,
        /// The encapsulation; `None`: the packet is sent unchanged, because the bundle is not
        /// encapsulated or the receivebox could not decapsulate it.
        encapsulation: Option<Envelope>,
    },
    /// The scheduler has dropped the packet.
    Drop {
        /// Index of the bundle.
        bundle: BundleIndex,
        /// Handle of the packet.
        body: B,
        /// Reason of the drop.
        reason: DropReason,
    },
    /// A message for the receivebox.
    Message {
        /// Index of the bundle.
        bundle: BundleIndex,
        /// The UDP payload.
        payload: Vec<u8>,
    },
    /// A bundle's state has changed.
    Transition {
        /// Index of the bundle.
        bundle: BundleIndex,
        /// States and cause.
        transition: Transition,
    },
}

/// A queued packet.
#[derive(Debug)]
struct Waiter<B> {
    body: B,
    digest: u64,
}

#[derive(Debug)]
pub(super) struct Bundle<B> {
    pub(super) index: BundleIndex,
    pub(super) settings: Settings,
    packets: Slab<Waiter<B>>,
    queue: Waiting,
    verdicts: Verdicts,
    pub(super) pacer: Pacer,
    pub(super) association: Association,
    pub(super) control: Loop,
    pub(super) counters: Counters,
    /// Sequence number of the last encapsulated packet.
    sequence: u64,
    /// The key of encapsulated packets, once the receivebox has confirmed that it accepts them.
    packet_key: Option<PacketKey>,
    pub(super) period: u32,
    /// The period in the last heartbeat.
    announced_period: u32,
    pub(super) last_sent: Time,
    next_tick: Option<Time>,
    pub(super) heartbeat_at: Time,
    pub(super) heartbeat_sent: Option<Time>,
    /// Whether the receivebox has confirmed the period.
    settled: bool,
    pub(super) sojourn: Span,
    /// Time for which the sendbox has scheduled a call for this bundle.
    pub(super) scheduled: Option<Time>,
}

impl<B> Bundle<B> {
    pub(super) fn new(now: Time, index: BundleIndex, settings: Settings, incarnation: u64) -> Self {
        let random = || RandomStream::new(settings.seed, &format!("bundle/{}/queue", settings.id));
        let mut bundle = Self {
            index,
            packets: Slab::default(),
            queue: Waiting::new(&settings.scheduler, None, random),
            verdicts: Verdicts::default(),
            pacer: Pacer::default(),
            association: Association::new(Role::SendBox, settings.id, &settings.key, incarnation),
            control: Loop::new(now, &settings),
            counters: Counters::default(),
            sequence: 0,
            packet_key: None,
            period: FIRST_PERIOD,
            announced_period: FIRST_PERIOD,
            last_sent: now,
            next_tick: None,
            heartbeat_at: now,
            heartbeat_sent: None,
            settled: false,
            sojourn: Span::ZERO,
            scheduled: None,
            settings,
        };
        bundle.pace(now);
        bundle
    }

    pub(super) fn deadline(&self) -> Time {
        let mut at = self.heartbeat_at;
        if let Some(tick) = self.next_tick {
            at = at.min(tick);
        }
        if self.queue.packets() > 0 {
            at = at.min(self.pacer.ready_at());
        }
        at
    }

    pub(super) fn on_packet(
        &mut self,
        now: Time,
        arrival: Arrival<B>,
        out: &mut VecDeque<Output<B>>,
    ) {
        let Arrival { body, size, flow, dscp, ecn, digest } = arrival;
        let size = size + self.per_packet();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(size);
        let slot = self.packets.put(Waiter { body, digest });
        let entry = Queued { since: now, slot, size, flow, dscp, ecn };
        self.queue.enqueue(now, entry, &mut self.verdicts);
        self.account(out);
        self.release(now, out);
        if self.next_tick.is_none() {
            if self.heartbeat_sent.is_some() || !self.settled {
                self.heartbeat_at = self.heartbeat_at.min(now + HEARTBEAT_SOON);
            }
            self.control.rested(now);
            self.next_tick = Some(now + TICK);
        }
    }

    pub(super) fn on_message(&mut self, now: Time, payload: &[u8], out: &mut VecDeque<Output<B>>) {
        let Ok(received) = self.association.receive(now, payload) else {
            self.counters.rejected_messages += 1;
            return;
        };
        match received {
            Received::Report { report, peer_restarted } => {
                self.control.reported(now, now.since(Time::from_nanos(report.sent_at)));
                if peer_restarted {
                    self.counters.peer_restarts += 1;
                    self.control.restart();
                    self.heartbeat(now, out);
                }
                // A period in a report means that the receivebox has adopted this incarnation.
                self.packet_key = report.period_log2.and_then(|_| self.new_packet_key());
                self.settled = report.period_log2 == Some(self.announced_period.ilog2() as u8);
                if report.period_log2.is_none() && !peer_restarted {
                    // The receivebox has no confirmation of its adoption yet.
                    self.heartbeat(now, out);
                } else if !self.settled {
                    self.heartbeat_at = self.heartbeat_at.min(now + HEARTBEAT_SOON);
                }
            }
            Received::Ack(ack) => {
                let arrived = Arrived {
                    digest: ack.digest,
                    received_at: Time::from_nanos(ack.received_at),
                    bytes: ack.bytes_received,
                    packets: ack.packets_received,
                };
                self.control.acknowledged(now, &arrived, &mut self.counters);
            }
            Received::Heartbeat { .. } => {}
        }
        self.heartbeat_sent = None;
        if let Some(cause) = self.control.feedback_received(now) {
            self.change(now, State::Learning, cause, out);
        }
    }

    pub(super) fn on_wake(&mut self, now: Time, out: &mut VecDeque<Output<B>>) {
        if self.next_tick.is_some_and(|at| at <= now) {
            self.tick(now, out);
            let rests = self.queue.packets() == 0 && now.since(self.last_sent) > REST;
            self.next_tick = (!rests).then_some(now + TICK);
        }
        if self.heartbeat_at <= now {
            self.heartbeat(now, out);
        }
        self.release(now, out);
    }

    fn tick(&mut self, now: Time, out: &mut VecDeque<Output<B>>) {
        let backlog = Bytes::new(self.queue.bytes());
        if let Some((state, cause)) = self.control.tick(now, backlog, &self.settings) {
            self.change(now, state, cause, out);
        }
        self.pace(now);
        self.adapt_period(now);
        if self.control.is_quiet(now) {
            self.heartbeat_at = self.heartbeat_at.min(now + HEARTBEAT_SOON);
        }
        if self.settings.scheduler.limit == QueueLimit::UNLIMITED
            && let Some(limit) = self.control.room()
        {
            self.queue.set_limit(QueueLimit::Bytes(limit));
        }
    }

    /// Applies the rate of the control loop.
    pub(super) fn pace(&mut self, now: Time) {
        let backlog = self.queue.packets() > 0;
        let rate = match self.settings.mode {
            Mode::Enforce => self.control.rate(backlog, &self.settings),
            Mode::Observe | Mode::DryRun => None,
        };
        self.pacer.set_rate(now, rate);
    }

    fn change(&mut self, now: Time, to: State, cause: Cause, out: &mut VecDeque<Output<B>>) {
        let from = self.control.state;
        if to == State::FailOpen {
            self.packet_key = None;
        }
        self.control.enter(now, to);
        self.counters.transitions += 1;
        let transition = Transition { at: now, from, to, cause };
        out.push_back(Output::Transition { bundle: self.index, transition });
        self.pace(now);
    }

    /// Sends the packets that the pacer allows.
    fn release(&mut self, now: Time, out: &mut VecDeque<Output<B>>) {
        while self.queue.packets() > 0 && self.pacer.ready_at() <= now {
            let entry = self.queue.dequeue(now, &mut self.verdicts);
            self.account(out);
            let Some(entry) = entry else { return };
            self.send(now, entry, out);
        }
    }

    fn send(&mut self, now: Time, entry: Queued, out: &mut VecDeque<Output<B>>) {
        let Waiter { body, mut digest } = self.packets.take(entry.slot);
        self.pacer.leave(now, entry.size);
        self.sojourn = now.since(entry.since);
        self.last_sent = now;
        let counters = &mut self.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += u64::from(entry.size);
        let encapsulation = self.packet_key.map(|key| {
            self.sequence += 1;
            let (bundle, sequence) = (self.settings.id, self.sequence);
            let incarnation = self.association.incarnation();
            Envelope { header: Header { bundle, incarnation, sequence }, key }
        });
        if let Some(envelope) = &encapsulation {
            digest = envelope.header.digest(&self.settings.key.digest());
        }
        // For an encapsulated bundle, the receivebox does not see packets without encapsulation.
        let is_visible = encapsulation.is_some() || self.settings.marking == Marking::Header;
        if is_visible && digest::ends_epoch(digest, self.period) {
            counters.epochs += 1;
            self.control.measure.sent(Mark {
                digest,
                sent_at: now,
                bytes: counters.sent_bytes,
                packets: counters.sent_packets,
                flow: entry.flow,
                limited: entry.since < now,
            });
        }
        let marked = entry.ecn == queue::Ecn::Marked;
        out.push_back(Output::Forward { bundle: self.index, body, marked, encapsulation });
    }

    /// Outputs the packets that the scheduler dropped.
    fn account(&mut self, out: &mut VecDeque<Output<B>>) {
        self.counters.marked_packets += std::mem::take(&mut self.verdicts.marked);
        for (slot, reason) in self.verdicts.dropped.drain(..) {
            self.counters.dropped_packets += 1;
            let body = self.packets.take(slot).body;
            out.push_back(Output::Drop { bundle: self.index, body, reason });
        }
    }

    /// Sends all queued packets at once.
    pub(super) fn let_go(&mut self, now: Time, out: &mut VecDeque<Output<B>>) {
        self.pacer.set_rate(now, None);
        self.release(now, out);
    }

    /// The key of encapsulated packets to the adopted receivebox.
    fn new_packet_key(&self) -> Option<PacketKey> {
        let Settings { id, key, marking, .. } = &self.settings;
        let receiver = self.association.peer().filter(|_| *marking == Marking::Encapsulation)?;
        Some(key.packets(*id, self.association.incarnation(), receiver))
    }

    fn per_packet(&self) -> u32 {
        self.settings.overhead.count().min(10_000) as u32
    }

    /// Sends the period and the counters to the receivebox, which replies with a report.
    fn heartbeat(&mut self, now: Time, out: &mut VecDeque<Output<B>>) {
        let sent = Sent {
            period_log2: self.period.ilog2() as u8,
            bytes: self.counters.sent_bytes,
            packets: self.counters.sent_packets,
        };
        let payload = self.association.heartbeat(now, sent);
        self.counters.messages += 1;
        self.announced_period = self.period;
        let unanswered = self.heartbeat_sent.is_some();
        self.heartbeat_sent = Some(self.heartbeat_sent.unwrap_or(now));
        self.control.asked();
        // An idle bundle with a silent receivebox sends heartbeats at the normal interval.
        let rests = self.next_tick.is_none();
        let soon = !rests && (unanswered || !self.settled);
        let next = if soon { HEARTBEAT_SOON } else { HEARTBEAT };
        self.heartbeat_at = now + next;
        out.push_back(Output::Message { bundle: self.index, payload });
    }

    /// Adapts the period so that there are several epochs per round trip at any rate.
    fn adapt_period(&mut self, now: Time) {
        let Some((rate, rtt)) = self.control.epochs_of() else { return };
        let epoch = Span::from_nanos(rtt.as_nanos() / EPOCHS_PER_ROUND_TRIP);
        let epoch = epoch.clamp(MIN_EPOCH, MAX_EPOCH);
        let packets = (rate.bytes_in(epoch).count() / FULL_PACKET).clamp(1, u64::from(MAX_PERIOD));
        let wanted = 1_u32 << packets.ilog2();
        // Toggling between two periods would only cause messages.
        let near = wanted == self.period * 2 && packets < u64::from(wanted) * 5 / 4;
        if wanted != self.period && !near {
            self.period = wanted;
            self.settled = false;
            self.heartbeat_at = self.heartbeat_at.min(now + HEARTBEAT_SOON);
        }
    }

    pub(super) fn status(&self) -> Status {
        let control = &self.control;
        let delays = control.measure.delays();
        let rates = control.measure.rates(control.measure.window());
        let share = |part: u64, whole: u64| {
            Ratio::from_parts_per_billion(part.saturating_mul(1_000_000_000) / whole.max(1))
        };
        let span = control.measure.window();
        let proposed: Option<Bandwidth> = control.rate(false, &self.settings);
        Status {
            state: control.state,
            since: control.since,
            rate: self.pacer.rate(),
            proposed,
            rtt: delays.map(|delays| delays.rtt),
            min_rtt: control.measure.min_rtt(),
            queueing: delays.map(|delays| delays.queueing),
            send_rate: rates.map(|rates| rates.send),
            receive_rate: rates.map(|rates| rates.receive),
            capacity: control.measure.capacity(),
            loss: rates.map(|rates| share(rates.lost.count(), rates.send.bytes_in(span).count())),
            out_of_order: control.out_of_order(),
            backlog: Bytes::new(self.queue.bytes()),
            backlog_packets: self.queue.packets() as u64,
            sojourn: self.sojourn,
            period: self.period,
            counters: Counters { rebases: control.rebases, ..self.counters },
        }
    }
}
