//! BLEST: does not use a slow subflow that would block the fast one.
//!
//! S. Ferlin, Ö. Alay, O. Mehani, R. Boreli, *BLEST: Blocking Estimation-Based MPTCP Scheduler for
//! Heterogeneous Networks*, IFIP Networking 2016, §IV: let n be the round-trip time of the slow
//! subflow in units of that of the fast one. While a segment is in flight on the slow subflow (one
//! round-trip time of it), the fast one sends X = MSS·(CWND + (n − 1)/2)·n. The slow one is used
//! only if the send window has room for λX in addition to its data in flight.

use base::{Span, Time};

use super::{Choice, Scheduler, SubflowView, View, quickest, quickest_with_room};

const MSS: f64 = 1448.0;
/// Bounds and steps of λ, from the authors' implementation for Linux.
const LAMBDA: (f64, f64) = (1.0, 1.3);
const STEP_UP: f64 = 0.04;
const STEP_DOWN: f64 = 0.01;

/// BLEST: a slow subflow is not used if it would block the fast one (Ferlin et al., IFIP Networking
/// 2016).
#[derive(Clone, Copy, Debug)]
pub struct Blest {
    lambda: f64,
    /// Whether the credit was exhausted since the last change of λ.
    blocked: bool,
    changed: Time,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: 1.2, blocked: false, changed: Time::ZERO }
    }
}

impl Blest {
    /// Adapts λ to the result of the decisions, once per round-trip time of the slow subflow.
    fn learn(&mut self, now: Time, round: Span) {
        if now.since(self.changed) < round {
            return;
        }
        self.lambda += if self.blocked { STEP_UP } else { -STEP_DOWN };
        self.lambda = self.lambda.clamp(LAMBDA.0, LAMBDA.1);
        self.blocked = false;
        self.changed = now;
    }
}

impl Scheduler for Blest {
    fn pick(&mut self, now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        self.blocked |= session.blocked;
        let (Some(fast), Some(slow)) = (quickest(subflows), quickest_with_room(subflows)) else {
            return Choice::Wait(None);
        };
        if fast.id == slow.id {
            return Choice::Send(fast.id);
        }
        self.learn(now, slow.srtt);
        let rtts = slow.rtt() / fast.rtt();
        let fast_sends = (fast.window() + MSS * (rtts - 1.0) / 2.0) * rtts;
        let slow_holds = slow.outstanding.saturating_add(session.frame);
        let left = session.window.saturating_sub(slow_holds);
        if fast_sends * self.lambda <= left.count() as f64 {
            Choice::Send(slow.id)
        } else {
            Choice::Wait(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use crate::SubflowId;
    use base::Bytes;

    #[test]
    fn a_slow_subflow_is_used_while_the_window_holds_what_the_fast_one_sends() {
        let subflows = [busy(0, 20, 10), idle(1, 200, 10)];
        let mut scheduler = Blest::default();
        let choice = scheduler.pick(Time::ZERO, &bulk(), &subflows);
        assert_eq!(choice, Choice::Send(SubflowId(1)));
        // Ten windows of 25 kB plus their growth: about 315 kB.
        let narrow = View { window: Bytes::new(262_144), ..bulk() };
        assert_eq!(scheduler.pick(Time::ZERO, &narrow, &subflows), Choice::Wait(None));
        let free = [idle(0, 20, 10), idle(1, 200, 10)];
        assert_eq!(scheduler.pick(Time::ZERO, &narrow, &free), Choice::Send(SubflowId(0)));
    }

    #[test]
    fn blocking_makes_it_careful() {
        let subflows = [busy(0, 20, 10), idle(1, 200, 10)];
        let just = View { window: Bytes::new(400_000), ..bulk() };
        let blocked = View { blocked: true, ..just };
        let mut scheduler = Blest::default();
        let rounds = |n: u64| Time::ZERO + Span::from_millis(200 * n);
        assert_eq!(scheduler.pick(rounds(0), &just, &subflows), Choice::Send(SubflowId(1)));
        for n in 1..4 {
            scheduler.pick(rounds(n), &blocked, &subflows);
        }
        assert_eq!(scheduler.pick(rounds(5), &just, &subflows), Choice::Wait(None));
        for n in 6..40 {
            scheduler.pick(rounds(n), &just, &subflows);
        }
        assert_eq!(scheduler.pick(rounds(41), &just, &subflows), Choice::Send(SubflowId(1)));
    }
}
