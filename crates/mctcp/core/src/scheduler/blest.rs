//! BLEST: does not use a slow subflow that would block the fast one.
//!
//! S. Ferlin, Ö. Alay, O. Mehani, R. Boreli, *BLEST: Blocking Estimation-Based MPTCP Scheduler for
//! Heterogeneous Networks*, IFIP Networking 2016, §IV: let n be the round-trip time of the slow
//! subflow in units of that of the fast one. While a segment is in flight on the slow subflow (one
//! round-trip time of it), the fast one sends X = MSS·(CWND + (n − 1)/2)·n. The slow one is used
//! only if the send window has room for λX in addition to its data in flight.

use base::{Span, Time};

use super::{Choice, Scheduler, SubflowView, View, min_rtt, min_rtt_with_room};

const MSS: f64 = 1448.0;
/// Bounds and steps of λ, from the authors' implementation for Linux.
const MIN_LAMBDA: f64 = 1.0;
const MAX_LAMBDA: f64 = 1.3;
const LAMBDA_STEP_UP: f64 = 0.04;
const LAMBDA_STEP_DOWN: f64 = 0.01;

#[derive(Clone, Copy, Debug)]
pub(super) struct Blest {
    lambda: f64,
    /// Whether the credit was exhausted since the last change of λ.
    blocked: bool,
    changed_at: Time,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: 1.2, blocked: false, changed_at: Time::ZERO }
    }
}

impl Blest {
    /// Adapts λ to the result of the decisions, once per round-trip time of the slow subflow.
    fn adapt(&mut self, now: Time, round: Span) {
        if now.since(self.changed_at) < round {
            return;
        }
        self.lambda += if self.blocked { LAMBDA_STEP_UP } else { -LAMBDA_STEP_DOWN };
        self.lambda = self.lambda.clamp(MIN_LAMBDA, MAX_LAMBDA);
        self.blocked = false;
        self.changed_at = now;
    }
}

impl Scheduler for Blest {
    fn pick(&mut self, now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        self.blocked |= session.blocked;
        let (Some(fast), Some(slow)) = (min_rtt(subflows), min_rtt_with_room(subflows)) else {
            return Choice::Wait(None);
        };
        if fast.id == slow.id {
            return Choice::Send(fast.id);
        }
        self.adapt(now, slow.srtt);
        let rounds = slow.rtt() / fast.rtt();
        let fast_bytes = (fast.window() + MSS * (rounds - 1.0) / 2.0) * rounds;
        let slow_bytes = slow.outstanding.saturating_add(session.frame);
        let left = session.window.saturating_sub(slow_bytes);
        if fast_bytes * self.lambda <= left.count() as f64 {
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
    fn uses_a_slow_subflow_while_the_window_has_room_for_the_fast_one() {
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
    fn exhausted_credit_raises_lambda() {
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
