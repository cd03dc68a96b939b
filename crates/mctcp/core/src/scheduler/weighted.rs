//! Subflows in proportion to their weights.

use std::collections::BTreeMap;

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, usable};
use crate::SubflowId;

/// Divides the data by weight among the subflows with room (stride scheduling, Waldspurger
/// and Weihl, 1995). It never idles: data that one subflow cannot send go to the others,
/// without later compensation.
#[derive(Clone, Debug, Default)]
pub struct Weighted {
    /// Bytes sent divided by weight, in units of 1/255 byte so that every weight counts.
    passes: BTreeMap<SubflowId, u64>,
    /// Pass of the latest choice; no subflow stays below it for long.
    now: u64,
}

impl Scheduler for Weighted {
    fn pick(&mut self, _now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        self.passes.retain(|id, _| subflows.iter().any(|subflow| subflow.id == *id));
        let with_room = usable(subflows).filter(|subflow| subflow.room.is_positive());
        let pass = |subflow: &SubflowView| {
            self.passes.get(&subflow.id).copied().unwrap_or(0).max(self.now)
        };
        let Some(next) = with_room.min_by_key(|subflow| (pass(subflow), subflow.id)) else {
            return Choice::Wait(None);
        };
        self.now = pass(next);
        let stride = session.frame.count() * 255 / u64::from(next.weight.max(1));
        self.passes.insert(next.id, self.now + stride);
        Choice::Send(next.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;

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
    fn shares_follow_weights() {
        let subflows = [weighted(0, 1), weighted(1, 2), weighted(2, 5)];
        let counts = count(&mut Weighted::default(), &subflows, 800);
        for (got, want) in counts.into_iter().zip([100usize, 200, 500]) {
            assert!(got.abs_diff(want) <= 1, "{counts:?}");
        }
    }

    #[test]
    fn a_turn_that_was_lost_is_not_made_up_for() {
        let mut scheduler = Weighted::default();
        let blocked = [weighted(0, 1), SubflowView { weight: 9, ..busy(1, 20, 10) }];
        assert_eq!(count(&mut scheduler, &blocked, 100), [100, 0, 0]);
        let counts = count(&mut scheduler, &[weighted(0, 1), weighted(1, 1)], 100);
        assert!(counts[0].abs_diff(50) <= 1 && counts[1].abs_diff(50) <= 1, "{counts:?}");
    }
}
