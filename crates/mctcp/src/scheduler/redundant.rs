//! Copies on all: the stream goes as fast as the best subflow of every moment.

use base::Time;

use super::{Choice, Scheduler, SubflowView, View};

/// Sends a copy of every frame on each subflow that has room, backups among them. One that lags
/// behind misses frames rather than hold the others up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn pick(&mut self, _now: Time, _session: &View, subflows: &[SubflowView]) -> Choice {
        if subflows.iter().any(|subflow| subflow.room.is_positive()) {
            Choice::SendOnAll
        } else {
            Choice::Wait(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;

    #[test]
    fn copies_go_out_as_soon_as_one_has_room() {
        let pick = |subflows: &[SubflowView]| Redundant.pick(Time::ZERO, &bulk(), subflows);
        assert_eq!(pick(&[idle(0, 40, 10), busy(1, 20, 10)]), Choice::SendOnAll);
        assert_eq!(pick(&[busy(0, 40, 10), busy(1, 20, 10)]), Choice::Wait(None));
    }
}
