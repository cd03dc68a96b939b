//! The effect of TCP's window on a flow's rate, and of a flow's rate on a queue.
//!
//! A sender is in slow start until its share of some link is less than its window allows: in each
//! round the rate is at most window / RTT, and the window doubles from round to round. After slow
//! start the sender gets its weighted share, at most its receive window per RTT and, on lossy
//! paths, at most the rate of its congestion controller's response function.

use transport::tcp::control::Control;

use super::backlog::Swing;
use super::links::{Link, StandingQueue};
use super::stream::{MIN_RTT, Stream};

/// TCP parameters that all connections of a flow share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) control: Control,
    /// Payload bytes of a full segment.
    pub(super) mss: f64,
    /// Wire bytes of a segment beside its payload.
    pub(super) header: f64,
    /// Receive window in payload bytes.
    pub(super) receive_window: f64,
    /// Initial window in segments.
    pub(super) initial_window: f64,
    /// Whether routers may mark packets instead of dropping them.
    pub(super) ecn: bool,
}

impl Manner {
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

    /// The maximum rate at random loss rate `p`, in wire bit/s.
    ///
    //= RFC 9438 §5.1 (CUBIC's average window), Mathis et al. 1997 (Reno's: the constant with
    //= delayed acknowledgements is that of SACK TCP without them, √(3/2))
    pub(super) fn loss_limit(&self, rtt: f64, p: f64) -> f64 {
        if p <= 0.0 {
            return f64::INFINITY;
        }
        let reno = (1.5 / p).sqrt();
        let segments = match self.control {
            Control::Reno | Control::Dctcp | Control::Prague => reno,
            Control::Cubic => {
                let cubic = 1.054 * (rtt / p).powf(0.75);
                cubic.max(reno)
            }
            // The loss tolerance is 20 % (version 1) and 2 % (version 3).
            Control::Bbr | Control::Bbr3 => {
                let blind = if self.control == Control::Bbr { 0.2 } else { 0.02 };
                if p < blind { f64::INFINITY } else { reno }
            }
        };
        segments.max(1.0) * self.segment_bits() / rtt
    }

    /// The maximum rate of a stream by its window and by random loss, bit/s.
    pub(super) fn rate_limit(&self, stream: &Stream, rtt: f64) -> f64 {
        let grows = stream.slow_start || stream.recovers;
        let window = if grows { stream.window } else { self.window_limit() };
        let loss =
            if stream.slow_start { f64::INFINITY } else { self.loss_limit(rtt, stream.loss) };
        (window / rtt).min(loss)
    }

    /// The loss rate that keeps a stream at its rate where this link limits it: the inverse of the
    /// response function. 0 where packets are marked.
    pub(super) fn drops(&self, link: &Link, stream: &Stream) -> f64 {
        if self.ecn && !matches!(link.standing, StandingQueue::Buffer(_)) {
            return 0.0;
        }
        let rtt = stream.rtt + self.standing_queue(link, stream.rtt) / link.capacity().max(1.0);
        let window = (stream.rate * rtt / self.segment_bits()).max(1.0);
        let reno = 1.5 / (window * window);
        match self.control {
            Control::Reno | Control::Dctcp | Control::Prague => reno.min(1.0),
            Control::Cubic => {
                let root = (1.054 / window).cbrt();
                reno.max(rtt * root.powi(4)).min(1.0)
            }
            _ => 0.0,
        }
    }

    /// The sawtooth of a link's queue that limits `count` flows like this with base RTT `rtt`;
    /// `None` if the link has no queue.
    pub(super) fn swing(&self, link: &Link, rtt: f64, count: f64) -> Option<Swing> {
        let capacity = link.capacity();
        if capacity <= 0.0 || capacity.is_infinite() {
            return None;
        }
        let StandingQueue::Buffer(high) = link.standing else {
            let low = self.standing_queue(link, rtt);
            return Some(Swing { low, high: f64::INFINITY, ..Swing::default() });
        };
        let round = rtt + high / capacity;
        let (product, passes) = (capacity * rtt, capacity * round);
        let kept = match self.control {
            Control::Reno | Control::Dctcp | Control::Prague => 0.5,
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

    /// The weight of a flow with this RTT, queueing included. BBR shares by its bandwidth estimate.
    /// Reno and CUBIC favour short RTTs: in theory as 1/RTT if flows lose at different times, and
    /// as 1/RTT² if all lose at once (Lakshman and Madhow 1997); two groups of flows in the packet
    /// engine gave exponents of 0.7 to 2 (Reno) and 0.4 to 1.9 (CUBIC), and the exponents here lie
    /// in the middle of these ranges.
    pub(super) fn weight(&self, rtt: f64) -> f64 {
        match self.control {
            Control::Reno => rtt.max(MIN_RTT).powf(-1.5),
            Control::Cubic => rtt.max(MIN_RTT).powf(-1.25),
            _ => 1.0,
        }
    }

    /// Queueing delay at a link, in seconds, that counts as part of the RTT when flows share the
    /// link: three quarters of a full buffer.
    pub(super) fn sharing_delay(link: &Link) -> f64 {
        let capacity = link.capacity();
        match link.standing {
            _ if capacity <= 0.0 || capacity.is_infinite() => 0.0,
            StandingQueue::Buffer(limit) => 0.75 * limit / capacity,
            StandingQueue::Delay(delay) => delay,
            StandingQueue::Level(level) => level / capacity,
        }
    }

    /// Queued bits at a link that limits flows like this with base RTT `rtt`, averaged
    /// over the sawtooth.
    pub(super) fn standing_queue(&self, link: &Link, rtt: f64) -> f64 {
        let capacity = link.capacity();
        let limit = match link.standing {
            StandingQueue::Buffer(limit) => limit,
            StandingQueue::Delay(delay) => return delay * capacity,
            StandingQueue::Level(level) => return level,
        };
        let product = capacity * rtt;
        let queue = match self.control {
            // The window varies between half (Reno) or 0.7 (CUBIC) of its maximum and the maximum;
            // CUBIC stays near the maximum for longer.
            Control::Reno | Control::Dctcp | Control::Prague => 0.75 * (product + limit) - product,
            Control::Cubic => 0.85 * (product + limit) - product,
            Control::Bbr => product,
            Control::Bbr3 => 0.25 * product,
        };
        queue.clamp(0.0, limit)
    }
}
