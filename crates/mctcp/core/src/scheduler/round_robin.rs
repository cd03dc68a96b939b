//! Subflows in turn.

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, usable};
use crate::SubflowId;

/// Sends on the next subflow with room, in the order of their identifiers.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
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

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;

    #[test]
    fn everyone_has_a_turn_and_those_without_room_lose_it() {
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
}
