//! One subflow at a time.

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, usable};

/// Sends only on the oldest working subflow. A recovered path gets a new subflow, so that traffic
/// stays on the current one until that fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backup;

impl Scheduler for Backup {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        match usable(subflows).min_by_key(|subflow| subflow.id) {
            Some(first) if first.room.is_positive() => Choice::Send(first.id),
            _ => Choice::Wait(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use crate::SubflowId;

    #[test]
    fn the_others_are_used_only_when_the_first_is_gone() {
        let pick = |subflows: &[SubflowView]| Backup.pick(Time::ZERO, &bulk(), subflows);
        assert_eq!(pick(&[idle(1, 1, 99), idle(0, 90, 1)]), Choice::Send(SubflowId(0)));
        assert_eq!(pick(&[idle(1, 1, 99), busy(0, 90, 1)]), Choice::Wait(None));
        assert_eq!(pick(&[idle(1, 1, 99)]), Choice::Send(SubflowId(1)));
    }

    #[test]
    fn one_that_is_meant_as_a_backup_comes_last() {
        let meant = SubflowView { backup: true, ..idle(0, 1, 99) };
        let choice = Backup.pick(Time::ZERO, &bulk(), &[meant, idle(1, 90, 1)]);
        assert_eq!(choice, Choice::Send(SubflowId(1)));
    }
}
