//! Schedulers that use only order, round-trip time, weight or rate of the subflows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, min_rtt_with_room, usable};
use crate::SubflowId;

/// Sends only on the oldest working subflow. A recovered path gets a new subflow, so that traffic
/// stays on the current one until that fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backup;

impl Scheduler for Backup {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        match usable(subflows).min_by_key(|subflow| subflow.id) {
            Some(first) if first.room.is_positive() => Choice::Send(first.id),
            _ => Choice::Wait(None),
        }
    }
}

/// Sends on the subflow with room that has the smallest smoothed round-trip time, as the first
/// kernel schedulers did (Raiciu et al., *How Hard Can It Be?*, NSDI 2012).
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        min_rtt_with_room(subflows).map_or(Choice::Wait(None), |best| Choice::Send(best.id))
    }
}

/// Sends on the next subflow with room, in the order of their identifiers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<SubflowId>,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        let with_room = usable(subflows).filter(|subflow| subflow.room.is_positive());
        let ids = with_room.map(|subflow| subflow.id);
        let next = ids.clone().filter(|id| Some(*id) > self.last).min();
        let Some(id) = next.or_else(|| ids.min()) else {
            return Choice::Wait(None);
        };
        self.last = Some(id);
        Choice::Send(id)
    }
}

/// Divides the data by weight among the subflows with room (stride scheduling, Waldspurger
/// and Weihl, 1995). It never idles: data that one subflow cannot send go to the others,
/// without later compensation.
#[derive(Clone, Debug, Default)]
pub(super) struct Weighted {
    /// Bytes sent divided by weight, in units of 1/255 byte so that every weight counts.
    passes: BTreeMap<SubflowId, u64>,
    /// Pass of the latest choice, which is the minimum for the next one.
    min_pass: u64,
}

impl Scheduler for Weighted {
    fn pick(&mut self, _now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        self.passes.retain(|id, _| subflows.iter().any(|subflow| subflow.id == *id));
        let with_room = usable(subflows).filter(|subflow| subflow.room.is_positive());
        let pass = |subflow: &SubflowView| {
            self.passes.get(&subflow.id).copied().unwrap_or(0).max(self.min_pass)
        };
        let Some(next) = with_room.min_by_key(|subflow| (pass(subflow), subflow.id)) else {
            return Choice::Wait(None);
        };
        self.min_pass = pass(next);
        let stride = session.frame.count() * 255 / u64::from(next.weight.max(1));
        self.passes.insert(next.id, self.min_pass + stride);
        Choice::Send(next.id)
    }
}

/// Sends a copy of every frame on each subflow with room, including backups, when the subflow with
/// the highest rate has room: otherwise the subflows would share the frames instead of repeating
/// them. A slow subflow misses frames. An idle one, which has delivered everything, continues alone
/// while the fastest makes no progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redundant;

impl Scheduler for Redundant {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        let fastest = subflows.iter().max_by_key(|subflow| (subflow.rate, Reverse(subflow.id)));
        let is_fastest = |subflow: &SubflowView| fastest.is_some_and(|it| it.id == subflow.id);
        let is_idle = |s: &SubflowView| !s.in_flight.is_positive() && !s.notsent.is_positive();
        let ready = |s: &SubflowView| s.room.is_positive() && (is_fastest(s) || is_idle(s));
        if subflows.iter().any(ready) { Choice::SendOnAll } else { Choice::Wait(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use base::Bytes;

    const SEND_0: Choice = Choice::Send(SubflowId(0));
    const SEND_1: Choice = Choice::Send(SubflowId(1));
    const WAIT: Choice = Choice::Wait(None);

    fn pick(mut scheduler: impl Scheduler, subflows: &[SubflowView]) -> Choice {
        scheduler.pick(Time::ZERO, &bulk(), subflows)
    }

    #[test]
    fn backup_uses_the_next_subflow_only_without_the_first() {
        assert_eq!(pick(Backup, &[idle(1, 1, 99), idle(0, 90, 1)]), SEND_0);
        assert_eq!(pick(Backup, &[idle(1, 1, 99), busy(0, 90, 1)]), WAIT);
        assert_eq!(pick(Backup, &[idle(1, 1, 99)]), SEND_1);
    }

    #[test]
    fn backup_uses_a_backup_path_last() {
        let backup = SubflowView { backup: true, ..idle(0, 1, 99) };
        assert_eq!(pick(Backup, &[backup, idle(1, 90, 1)]), SEND_1);
    }

    #[test]
    fn min_rtt_selects_the_smallest_rtt_with_room() {
        assert_eq!(pick(MinRtt, &[idle(0, 40, 10), idle(1, 20, 10)]), SEND_1);
        assert_eq!(pick(MinRtt, &[idle(0, 40, 10), busy(1, 20, 10)]), SEND_0);
        assert_eq!(pick(MinRtt, &[busy(0, 40, 10)]), WAIT);
        assert_eq!(pick(MinRtt, &[]), WAIT);
    }

    #[test]
    fn min_rtt_uses_a_backup_only_without_other_subflows() {
        let backup = SubflowView { backup: true, ..idle(1, 1, 100) };
        assert_eq!(pick(MinRtt, &[busy(0, 40, 10), backup]), WAIT);
        assert_eq!(pick(MinRtt, &[backup]), SEND_1);
    }

    #[test]
    fn round_robin_skips_subflows_without_room() {
        let mut scheduler = RoundRobin::default();
        let mut turns = |subflows: &[SubflowView], n: usize| -> Vec<u32> {
            let choices = (0..n).map(|_| scheduler.pick(Time::ZERO, &bulk(), subflows));
            let id = |choice| if let Choice::Send(SubflowId(id)) = choice { id } else { u32::MAX };
            choices.map(id).collect()
        };
        let three = [idle(5, 10, 1), idle(1, 20, 9), idle(3, 30, 5)];
        assert_eq!(turns(&three, 6), [1, 3, 5, 1, 3, 5]);
        assert_eq!(turns(&[idle(5, 10, 1), idle(1, 20, 9), busy(3, 30, 5)], 3), [1, 5, 1]);
        assert_eq!(turns(&[busy(3, 30, 5)], 1), [u32::MAX]);
    }

    fn weighted(id: u32, weight: u8) -> SubflowView {
        SubflowView { weight, ..idle(id, 20, 10) }
    }

    fn count(scheduler: &mut Weighted, subflows: &[SubflowView], turns: usize) -> [usize; 3] {
        let mut counts = [0; 3];
        for _ in 0..turns {
            if let Choice::Send(SubflowId(id)) = scheduler.pick(Time::ZERO, &bulk(), subflows) {
                counts[id as usize] += 1;
            }
        }
        counts
    }

    #[test]
    fn weighted_divides_frames_by_weight() {
        let subflows = [weighted(0, 1), weighted(1, 2), weighted(2, 5)];
        let counts = count(&mut Weighted::default(), &subflows, 800);
        for (got, want) in counts.into_iter().zip([100usize, 200, 500]) {
            assert!(got.abs_diff(want) <= 1, "{counts:?}");
        }
    }

    #[test]
    fn weighted_does_not_compensate_a_subflow_for_its_time_without_room() {
        let mut scheduler = Weighted::default();
        let blocked = [weighted(0, 1), SubflowView { weight: 9, ..busy(1, 20, 10) }];
        assert_eq!(count(&mut scheduler, &blocked, 100), [100, 0, 0]);
        let counts = count(&mut scheduler, &[weighted(0, 1), weighted(1, 1)], 100);
        assert!(counts[0].abs_diff(50) <= 1 && counts[1].abs_diff(50) <= 1, "{counts:?}");
    }

    #[test]
    fn redundant_sends_when_the_fastest_has_room() {
        // A subflow with room and data in flight.
        let going = |id, mbits| {
            let (room, notsent) = (Bytes::new(9_000), Bytes::ZERO);
            SubflowView { room, notsent, ..busy(id, 20, mbits) }
        };
        assert_eq!(pick(Redundant, &[going(0, 10), busy(1, 20, 5)]), Choice::SendOnAll);
        assert_eq!(pick(Redundant, &[busy(0, 20, 10), going(1, 5)]), WAIT);
        assert_eq!(pick(Redundant, &[busy(0, 20, 10), going(1, 10)]), WAIT);
        assert_eq!(pick(Redundant, &[busy(0, 20, 10), busy(1, 20, 10)]), WAIT);
    }

    #[test]
    fn redundant_sends_when_any_subflow_is_idle() {
        assert_eq!(pick(Redundant, &[busy(0, 20, 10), idle(1, 20, 5)]), Choice::SendOnAll);
    }
}
