//! The smallest round-trip time first, as in the first kernel schedulers (Raiciu et al., *How Hard
//! Can It Be?*, NSDI 2012).

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, quickest_with_room};

/// Sends on the subflow with room that has the smallest smoothed round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        quickest_with_room(subflows).map_or(Choice::Wait(None), |best| Choice::Send(best.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use crate::SubflowId;

    #[test]
    fn the_quickest_with_room_is_taken() {
        let pick = |subflows: &[SubflowView]| MinRtt.pick(Time::ZERO, &bulk(), subflows);
        assert_eq!(pick(&[idle(0, 40, 10), idle(1, 20, 10)]), Choice::Send(SubflowId(1)));
        assert_eq!(pick(&[idle(0, 40, 10), busy(1, 20, 10)]), Choice::Send(SubflowId(0)));
        assert_eq!(pick(&[busy(0, 40, 10)]), Choice::Wait(None));
        assert_eq!(pick(&[]), Choice::Wait(None));
    }

    #[test]
    fn backups_are_taken_only_alone() {
        let backup = SubflowView { backup: true, ..idle(1, 1, 100) };
        let pick = |subflows: &[SubflowView]| MinRtt.pick(Time::ZERO, &bulk(), subflows);
        assert_eq!(pick(&[busy(0, 40, 10), backup]), Choice::Wait(None));
        assert_eq!(pick(&[backup]), Choice::Send(SubflowId(1)));
    }
}
