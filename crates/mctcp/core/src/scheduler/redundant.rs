//! Copies on all subflows: the stream is always as fast as the best subflow.

use std::cmp::Reverse;

use base::Time;

use super::{Choice, Scheduler, SubflowView, View};

/// Sends a copy of every frame on each subflow with room, including backups. The one with the
/// highest rate sets the pace: if any subflow with room did, they would share the frames instead of
/// repeating them. A slow subflow misses frames; one that has delivered everything continues alone
/// while the fastest makes no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundant;

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

    fn pick(subflows: &[SubflowView]) -> Choice {
        Redundant.pick(Time::ZERO, &bulk(), subflows)
    }

    /// A subflow with room and data in flight.
    fn going(id: u32, mbits: u64) -> SubflowView {
        SubflowView { room: Bytes::new(9_000), notsent: Bytes::ZERO, ..busy(id, 20, mbits) }
    }

    #[test]
    fn the_fastest_sets_the_pace() {
        assert_eq!(pick(&[going(0, 10), busy(1, 20, 5)]), Choice::SendOnAll);
        assert_eq!(pick(&[busy(0, 20, 10), going(1, 5)]), Choice::Wait(None));
        assert_eq!(pick(&[busy(0, 20, 10), going(1, 10)]), Choice::Wait(None));
        assert_eq!(pick(&[busy(0, 20, 10), busy(1, 20, 10)]), Choice::Wait(None));
    }

    #[test]
    fn one_that_has_delivered_everything_waits_for_nobody() {
        assert_eq!(pick(&[busy(0, 20, 10), idle(1, 20, 5)]), Choice::SendOnAll);
    }
}
