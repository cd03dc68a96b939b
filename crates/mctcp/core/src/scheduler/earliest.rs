//! Earliest arrival: sends a frame where it is expected to arrive first, immediately or
//! after a wait.
//!
//! For each subflow the arrival time of a frame sent now is predicted: after the unsent data in the
//! socket, the data in flight, and half of a round-trip time without queues (as in F. Yang, P.
//! Amer, *Scheduler for Multipath TCP*, 2014). If the earliest subflow has room, it gets the frame.
//! If not, a later one gets it, unless that has a cost:
//!
//! - *End of the stream.* The earlier ones would have delivered everything by then: the frame
//!   would arrive last.
//! - *Credit.* The receiver must buffer all data of the earlier ones until the frame arrives. If
//!   the credit is too small for these data and those of the later one, the earlier ones would
//!   have to stop, and the total could be slower than without the later one. This is BLEST's rule
//!   (Ferlin et al. 2016, §IV) with predicted arrivals instead of round-trip times, plus a
//!   round-trip time for the repair of a loss, and with up to twice the predicted arrival if the
//!   later one adds little rate.
//! - *Pause.* The application gets nothing from the time at which the earlier ones would have
//!   delivered the frame until its arrival. If that is longer than after a failure, the later one
//!   must add much rate. The session measures that with copies (`session/transmit.rs`,
//!   `copy_to_unexplored`).
//!
//! A frame waits at most for the time that the later subflow would have taken: then the prediction
//! for the earlier ones was wrong, and at most twice the time was lost.

use base::{Bandwidth, Span, Time};

use super::{Choice, Scheduler, SubflowView, View, usable};

/// A subflow that adds more than this share of the rate is used, although the stream pauses while
/// the subflow repairs a loss.
const MIN_SHARE_FOR_REPAIR_PAUSE: f64 = 0.25;
/// Maximum pause of the stream because of a late frame: that of a failure, after which a subflow
/// without progress is stale.
pub(crate) const MAX_PAUSE: Span = Span::from_millis(200);
/// A subflow that adds more than this share of the rate is used, although the stream pauses for
/// longer when its use begins and after each of its losses.
const MIN_SHARE_FOR_LONG_PAUSE: f64 = 0.5;
/// A round-trip time above this multiple of the minimum means that there is a queue.
const QUEUED_RTT_RATIO: f64 = 1.25;

/// Selects the subflow on which the next frame is expected to arrive first, immediately or
/// after a wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Earliest {
    /// Latest end of the current wait for an earlier subflow.
    wait_until: Option<Time>,
}

/// Forecast for a subflow. Times are seconds from now.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    /// Bytes per second.
    rate: f64,
    /// Time until the receiver has the frame.
    arrival: f64,
    /// Data are in flight, so that an acknowledgement follows or the subflow becomes stale.
    is_sending: bool,
}

impl Forecast {
    fn of(subflow: &SubflowView, frame: f64) -> Self {
        let bytes = |count: base::Bytes| count.count() as f64;
        let (rtt, window) = (subflow.rtt(), subflow.window());
        let one_way = subflow.min_rtt.as_secs_f64().min(rtt) / 2.0;
        let (notsent, in_flight) = (bytes(subflow.notsent), bytes(subflow.in_flight));
        let is_sending = notsent + in_flight > 0.0;
        let measured = bytes_per_sec(subflow.rate);
        if measured > 0.0 && rtt > QUEUED_RTT_RATIO * 2.0 * one_way {
            // With a queue the rate is that of the bottleneck. Data in flight leave it half a
            // round-trip time before their acknowledgement.
            let drained = in_flight / measured - one_way;
            let arrival = drained.max(one_way) + (notsent + frame) / measured;
            return Self { rate: measured, arrival, is_sending };
        }
        // Without a queue the path's rate is unknown: data within the window leave at once, the
        // rest as acknowledgements arrive.
        let rate = measured.max(window / rtt);
        let backlog = in_flight + notsent + frame;
        let mut arrival = rtt - one_way + (backlog - window).max(0.0) / rate;
        let capacity = bytes_per_sec(subflow.capacity);
        if capacity > 0.0 {
            // A window that has grown because of a queue fills the queue again at once.
            let queued = (backlog / capacity - 2.0 * one_way).max(frame / capacity);
            arrival = arrival.max(one_way + queued);
        }
        Self { rate, arrival, is_sending }
    }
}

/// Whether it can get a frame: it has room and, if other subflows have samples, it has one too.
/// Until its first sample a subflow carries one frame, so that a slow one is not filled by mistake.
fn is_open(subflow: &SubflowView, any_known: bool) -> bool {
    let untried = !subflow.outstanding.is_positive();
    subflow.room.is_positive() && (subflow.rate.is_some() || untried || !any_known)
}

impl Scheduler for Earliest {
    fn pick(&mut self, now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        let frame = session.frame.count() as f64;
        let forecasts = usable(subflows).map(|subflow| (subflow, Forecast::of(subflow, frame)));
        let any_known = usable(subflows).any(|subflow| subflow.rate.is_some());
        let open = |subflow: &SubflowView| is_open(subflow, any_known);
        let first = forecasts
            .clone()
            .filter(|(subflow, _)| open(subflow))
            .min_by(|(_, a), (_, b)| a.arrival.total_cmp(&b.arrival));
        let Some((chosen, later)) = first else {
            self.wait_until = None;
            return Choice::Wait(None);
        };
        let mut earlier = Earlier::default();
        for (other, forecast) in forecasts {
            if open(other) || !forecast.is_sending || forecast.arrival >= later.arrival {
                earlier.outstanding_later += other.outstanding.count() as f64;
            } else {
                earlier.add(other, &forecast, frame);
            }
        }
        if !earlier.is_wait_better(session, chosen, &later) {
            self.wait_until = None;
            return Choice::Send(chosen.id);
        }
        let wait = Span::from_nanos((later.arrival.min(3600.0) * 1e9) as u64);
        let until = *self.wait_until.get_or_insert(now + wait);
        if now >= until {
            self.wait_until = None;
            return Choice::Send(chosen.id);
        }
        Choice::Wait(Some(until))
    }
}

fn bytes_per_sec(rate: Option<Bandwidth>) -> f64 {
    rate.map_or(0.0, |rate| rate.bits_per_sec() as f64 / 8.0)
}

/// The subflows without room on which the frame would nevertheless arrive earlier, combined.
#[derive(Clone, Copy, Debug)]
struct Earlier {
    any: bool,
    /// Bytes per second.
    rate: f64,
    /// Sum of their peak rates, in bytes per second.
    peak: f64,
    /// Time until the first of them would have delivered the frame.
    arrival: f64,
    /// By time t they will have delivered `rate`·t minus this number of bytes.
    backlog: f64,
    /// Time of a DACK on the fastest return path, in seconds.
    dack_delay: f64,
    /// Bytes on all other subflows.
    outstanding_later: f64,
}

impl Default for Earlier {
    fn default() -> Self {
        Self {
            any: false,
            rate: 0.0,
            peak: 0.0,
            arrival: f64::INFINITY,
            backlog: 0.0,
            dack_delay: f64::INFINITY,
            outstanding_later: 0.0,
        }
    }
}

impl Earlier {
    fn add(&mut self, subflow: &SubflowView, forecast: &Forecast, frame: f64) {
        self.any = true;
        self.rate += forecast.rate;
        self.peak += bytes_per_sec(subflow.peak).max(forecast.rate);
        self.arrival = self.arrival.min(forecast.arrival);
        self.backlog += forecast.rate * forecast.arrival - frame;
        self.dack_delay = self.dack_delay.min(subflow.min_rtt.as_secs_f64() / 2.0);
    }

    /// Whether the frame should wait for these subflows instead of being sent on `chosen`.
    fn is_wait_better(&self, session: &View, chosen: &SubflowView, later: &Forecast) -> bool {
        if !self.any {
            return false;
        }
        let done = (session.unsent.count() as f64 + self.backlog) / self.rate;
        if !session.more && done < later.arrival {
            return true;
        }
        let share = bytes_per_sec(chosen.capacity).max(bytes_per_sec(chosen.peak)) / self.peak;
        let pause = later.arrival - self.arrival;
        if pause > MAX_PAUSE.as_secs_f64() && share < MIN_SHARE_FOR_LONG_PAUSE {
            return true;
        }
        // A subflow that was never full may add much.
        let share = chosen.capacity.map_or(1.0, |rate| bytes_per_sec(Some(rate)) / self.peak);
        // 0 for a share above the threshold, 1 for a subflow that adds nothing.
        let penalty = (1.0 - share / MIN_SHARE_FOR_REPAIR_PAUSE).max(0.0);
        let repair = penalty * chosen.rtt();
        let jitter = chosen.rtt_var.as_secs_f64();
        let late = (1.0 + penalty) * later.arrival + repair + self.dack_delay + jitter;
        let delivered = self.peak * late;
        let frame = session.frame.count() as f64;
        delivered + self.outstanding_later + frame > session.window.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use crate::SubflowId;
    use base::Bytes;

    const SEND_0: Choice = Choice::Send(SubflowId(0));
    const SEND_1: Choice = Choice::Send(SubflowId(1));

    fn pick(session: &View, subflows: &[SubflowView]) -> Choice {
        Earliest::default().pick(Time::ZERO, session, subflows)
    }

    fn waits(session: &View, subflows: &[SubflowView]) -> bool {
        matches!(pick(session, subflows), Choice::Wait(Some(_)))
    }

    /// The subflow had a queue: its rate is known.
    fn queued(subflow: SubflowView) -> SubflowView {
        SubflowView { srtt: subflow.srtt + subflow.srtt, ..subflow }
    }

    #[test]
    fn compares_rate_and_round_trip_time() {
        // 16 KiB take 65.5 ms at 2 Mbit/s.
        let pair = [idle(0, 20, 100), queued(idle(1, 2, 2))];
        assert_eq!(pick(&bulk(), &pair), SEND_0);
        let small = View { frame: Bytes::new(100), ..bulk() };
        assert_eq!(pick(&small, &pair), SEND_1);
        assert_eq!(pick(&bulk(), &[busy(0, 20, 100)]), Choice::Wait(None));
    }

    #[test]
    fn counts_unsent_data_in_the_socket() {
        let notsent = Bytes::new(64 << 10);
        let filled = SubflowView { notsent, in_flight: Bytes::new(25_000), ..idle(0, 20, 10) };
        assert_eq!(pick(&bulk(), &[filled, idle(1, 40, 10)]), SEND_1);
    }

    #[test]
    fn estimates_the_rate_of_an_application_limited_subflow_by_its_window() {
        let rate = Some(base::Bandwidth::from_bits_per_sec(100_000));
        let limited = SubflowView { rate, ..idle(0, 20, 10) };
        assert_eq!(pick(&bulk(), &[limited, idle(1, 60, 10)]), SEND_0);
    }

    #[test]
    fn tries_a_new_subflow_with_one_frame() {
        let new = SubflowView { rate: None, ..idle(1, 2, 2) };
        let tried = SubflowView { outstanding: Bytes::new(16 << 10), ..new };
        assert_eq!(pick(&bulk(), &[idle(0, 20, 100), new]), SEND_1);
        assert_eq!(pick(&bulk(), &[idle(0, 20, 100), tried]), SEND_0);
        assert_eq!(pick(&bulk(), &[tried]), SEND_1, "the first of a session has no other");
    }

    #[test]
    fn uses_a_slow_subflow_within_the_credit() {
        let (fast, slow) = (busy(0, 20, 10), idle(1, 200, 10));
        assert_eq!(pick(&bulk(), &[fast, slow]), SEND_1);
        // In the 111 ms until the frame has arrived and is acknowledged, the fast one sends 139 kB.
        let narrow = View { window: Bytes::new(262_144), ..bulk() };
        let carries = |bytes| SubflowView { outstanding: Bytes::new(bytes), ..slow };
        assert_eq!(pick(&narrow, &[fast, carries(80_000)]), SEND_1);
        assert!(waits(&narrow, &[fast, carries(110_000)]));
    }

    #[test]
    fn keeps_a_slow_link_from_filling_the_window() {
        let pair = [busy(0, 20, 100), queued(idle(1, 2, 2))];
        assert_eq!(pick(&bulk(), &pair), SEND_1);
        let window = |bytes| View { window: Bytes::new(bytes), ..bulk() };
        assert!(waits(&window(256 << 10), &pair));
        assert_eq!(pick(&window(1 << 20), &pair), SEND_1);
        // The subflow is known to add little.
        let capacity = Some(base::Bandwidth::from_mbits_per_sec(2));
        assert!(waits(&window(1 << 20), &[pair[0], SubflowView { capacity, ..pair[1] }]));
    }

    #[test]
    fn omits_a_late_path_unless_it_adds_much_rate() {
        let mbits = |mbits| Some(base::Bandwidth::from_mbits_per_sec(mbits));
        let late = |rtt, rate| [busy(0, 20, 20), SubflowView { peak: rate, ..idle(1, rtt, 2) }];
        assert!(waits(&bulk(), &late(1_000, mbits(9))));
        assert_eq!(pick(&bulk(), &late(1_000, mbits(11))), SEND_1);
        let known = |rate| {
            let [first, second] = late(1_000, None);
            [first, SubflowView { capacity: rate, ..second }]
        };
        assert!(waits(&bulk(), &known(mbits(9))));
        assert_eq!(pick(&bulk(), &known(mbits(11))), SEND_1);
        // 200 ms later than the first one, which is 46 ms behind.
        assert_eq!(pick(&bulk(), &late(400, mbits(9))), SEND_1);
        assert!(waits(&bulk(), &late(520, mbits(9))));
    }

    #[test]
    fn sends_the_last_frames_where_they_arrive_first() {
        let pair = [busy(0, 20, 10), idle(1, 200, 10)];
        let rest = |bytes| View { unsent: Bytes::new(bytes), more: false, ..bulk() };
        assert!(waits(&rest(30_000), &pair));
        assert_eq!(pick(&rest(80_000), &pair), SEND_1);
        let more = View { more: true, ..rest(30_000) };
        assert_eq!(pick(&more, &pair), SEND_1, "it is not the end");
    }

    #[test]
    fn stops_waiting_after_the_later_arrival() {
        let pair = [busy(0, 20, 10), idle(1, 200, 10)];
        let rest = View { unsent: Bytes::new(30_000), more: false, ..bulk() };
        let mut scheduler = Earliest::default();
        let Choice::Wait(Some(until)) = scheduler.pick(Time::ZERO, &rest, &pair) else {
            panic!("waits for the fast one")
        };
        assert!(until <= Time::ZERO + Span::from_millis(100), "{until}");
        assert_eq!(scheduler.pick(Time::from_nanos(1), &rest, &pair), Choice::Wait(Some(until)));
        assert_eq!(scheduler.pick(until, &rest, &pair), SEND_1);
    }

    #[test]
    fn does_not_wait_for_a_subflow_without_progress() {
        let stuck = SubflowView { room: Bytes::ZERO, ..idle(0, 20, 10) };
        let rest = View { unsent: Bytes::new(30_000), more: false, ..bulk() };
        assert_eq!(pick(&rest, &[stuck, idle(1, 200, 10)]), SEND_1);
    }
}
