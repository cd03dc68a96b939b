//! What TCP's window does to a flow's rate, and what a flow's rate does to a queue.
//!
//! A sender is in slow start until its share of some link is less than its window asks for:
//! within each round trip the rate is bounded by window / RTT, and the window doubles from round
//! to round. After that it takes its weighted share, bounded by the receive window and, on lossy
//! paths, by the response function of its congestion control.

use transport::tcp::control::Control;

use super::backlog::Swing;
use super::links::{Link, Standing};
use super::stream::Stream;

/// What all connections of a flow have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) control: Control,
    /// Payload of a full segment, bytes.
    pub(super) mss: f64,
    /// Wire bytes of a segment beside its payload.
    pub(super) header: f64,
    /// Payload bytes.
    pub(super) receive_window: f64,
    /// Segments.
    pub(super) initial_window: f64,
    /// Whether packets may be marked instead of dropped.
    pub(super) ecn: bool,
}

impl Manner {
    /// Bits on the wire for a payload.
    pub(super) fn wire_bits(&self, payload: f64) -> f64 {
        (payload + (payload / self.mss).ceil() * self.header) * 8.0
    }

    /// Payload bytes per wire bit of full segments.
    pub(super) fn payload_per_bit(&self) -> f64 {
        self.mss / (self.mss + self.header) / 8.0
    }

    /// Wire bits of a full segment.
    pub(super) fn segment_bits(&self) -> f64 {
        (self.mss + self.header) * 8.0
    }

    /// The initial window in wire bits.
    pub(super) fn first_window(&self) -> f64 {
        self.initial_window * self.segment_bits()
    }

    /// The receive window in wire bits.
    pub(super) fn window_limit(&self) -> f64 {
        (self.receive_window / self.mss).max(1.0) * self.segment_bits()
    }

    /// The most that random loss `p` leaves, in wire bit/s.
    ///
    //= RFC 9438 §5.1 (CUBIC's average window), Mathis et al. 1997 (Reno's: the constant with
    //= delayed acknowledgements is that of SACK TCP without them, √(3/2))
    pub(super) fn loss_limit(&self, rtt: f64, p: f64) -> f64 {
        if p <= 0.0 {
            return f64::INFINITY;
        }
        let reno = (1.5 / p).sqrt();
        let segments = match self.control {
            Control::Reno => reno,
            Control::Cubic => {
                let cubic = 1.054 * (rtt / p).powf(0.75);
                cubic.max(reno)
            }
            // Blind to loss below a fifth (version 1) and 2 % (version 3).
            Control::Bbr | Control::Bbr3 => {
                let blind = if self.control == Control::Bbr { 0.2 } else { 0.02 };
                if p < blind { f64::INFINITY } else { reno }
            }
        };
        segments.max(1.0) * self.segment_bits() / rtt
    }

    /// The share of segments that a stream loses to keep it at its rate where this link limits it:
    /// the response function the other way round. None is lost where packets are marked.
    pub(super) fn drops(&self, link: &Link, stream: &Stream) -> f64 {
        if self.ecn && !matches!(link.standing, Standing::Buffer(_)) {
            return 0.0;
        }
        let rtt = stream.rtt + self.standing_queue(link, stream.rtt) / link.capacity().max(1.0);
        let window = (stream.rate * rtt / self.segment_bits()).max(1.0);
        let reno = 1.5 / (window * window);
        match self.control {
            Control::Reno => reno.min(1.0),
            Control::Cubic => {
                let root = (1.054 / window).cbrt();
                reno.max(rtt * root.powi(4)).min(1.0)
            }
            _ => 0.0,
        }
    }

    /// How the queue of a link swings that limits `count` flows like this with base round-trip
    /// time `rtt`; `None` if nothing can wait there.
    pub(super) fn swing(&self, link: &Link, rtt: f64, count: f64) -> Option<Swing> {
        let capacity = link.capacity();
        if capacity <= 0.0 || capacity.is_infinite() {
            return None;
        }
        let Standing::Buffer(high) = link.standing else {
            let low = self.standing_queue(link, rtt);
            return Some(Swing { low, high: f64::INFINITY, ..Swing::default() });
        };
        let round = rtt + high / capacity;
        let (product, passes) = (capacity * rtt, capacity * round);
        let kept = match self.control {
            Control::Reno => 0.5,
            Control::Cubic => 0.7,
            Control::Bbr | Control::Bbr3 => {
                let low = self.standing_queue(link, rtt);
                return Some(Swing { low, high, growth: 0.0, round, passes });
            }
        };
        let low = (kept * passes - product).clamp(0.0, high);
        let growth = count * self.segment_bits() / round;
        Some(Swing { low, high, growth, round, passes })
    }

    /// The weight of a flow with this round-trip time, queueing included. BBR shares by what it
    /// estimates of the bandwidth. Reno and CUBIC favour short round trips: by theory as 1/RTT
    /// when flows lose at different times and as 1/RTT² when all lose at once (Lakshman and
    /// Madhow 1997); two groups of flows in the packet engine gave exponents of 0.7 to 2 (Reno)
    /// and 0.4 to 1.9 (CUBIC), and these are the middle.
    pub(super) fn weight(&self, rtt: f64) -> f64 {
        match self.control {
            Control::Reno => rtt.max(FLOOR).powf(-1.5),
            Control::Cubic => rtt.max(FLOOR).powf(-1.25),
            _ => 1.0,
        }
    }

    /// Seconds of queueing at a link that count as part of the round-trip time when flows share
    /// it: three quarters of what a buffer holds.
    pub(super) fn sharing_delay(link: &Link) -> f64 {
        let capacity = link.capacity();
        match link.standing {
            _ if capacity <= 0.0 || capacity.is_infinite() => 0.0,
            Standing::Buffer(limit) => 0.75 * limit / capacity,
            Standing::Delay(delay) => delay,
            Standing::Level(level) => level / capacity,
        }
    }

    /// Bits that wait at a link which limits flows like this with base round-trip time `rtt`,
    /// averaged over the sawtooth.
    pub(super) fn standing_queue(&self, link: &Link, rtt: f64) -> f64 {
        let capacity = link.capacity();
        let limit = match link.standing {
            Standing::Buffer(limit) => limit,
            Standing::Delay(delay) => return delay * capacity,
            Standing::Level(level) => return level,
        };
        let product = capacity * rtt;
        let queue = match self.control {
            // The window swings between a half (Reno) or 0.7 (CUBIC) of what fits and all of it;
            // CUBIC stays near the top for longer.
            Control::Reno => 0.75 * (product + limit) - product,
            Control::Cubic => 0.85 * (product + limit) - product,
            Control::Bbr => product,
            Control::Bbr3 => 0.25 * product,
        };
        queue.clamp(0.0, limit)
    }
}

/// No round trip is shorter than this, in seconds: a path without delay has a finite window and
/// weight.
pub(super) const FLOOR: f64 = 1e-6;
