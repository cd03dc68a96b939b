//! Controlled delay (RFC 8289).

use base::{Span, Time};

use crate::aqm::Aqm;
use crate::backlog::{Backlog, Load, mark};
use crate::{DropReason, Queued, Verdicts};

/// `CoDel`'s parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) target: Span,
    pub(crate) interval: Span,
    pub(crate) ecn: bool,
}

/// Queue length in bytes up to which no packet is dropped: one full Ethernet frame
/// (RFC 8289 §4.4, MAXPACKET).
const MAX_PACKET: u64 = 1538;

/// The state of RFC 8289 §5, for a queue or for each flow of FQ-CoDel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoDel {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    /// `dodequeue` (§5.5): the head packet, and whether it may be dropped.
    fn head(
        &mut self,
        now: Time,
        parameters: &Parameters,
        backlog: &mut Backlog,
        load: &mut Load,
    ) -> (Option<Queued>, bool) {
        let Some(entry) = backlog.pop(load) else {
            self.first_above = None;
            return (None, false);
        };
        let sojourn = now.since(entry.since);
        if sojourn < parameters.target || backlog.bytes <= MAX_PACKET {
            self.first_above = None;
            return (Some(entry), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + parameters.interval);
                (Some(entry), false)
            }
            Some(first) => (Some(entry), now >= first),
        }
    }

    /// `t + interval / √count` (§5.6).
    fn control(&self, from: Time, parameters: &Parameters) -> Time {
        let square = u128::from(parameters.interval.as_nanos()).pow(2);
        from + Span::from_nanos((square / u128::from(self.count.max(1))).isqrt() as u64)
    }

    fn enter_dropping(&mut self, now: Time, parameters: &Parameters) {
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.since(self.drop_next) < parameters.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control(now, parameters);
        self.last_count = self.count;
    }
}

impl Aqm for CoDel {
    type Parameters = Parameters;

    /// `dequeue` (§5.5).
    fn dequeue(
        &mut self,
        now: Time,
        parameters: &Parameters,
        backlog: &mut Backlog,
        load: &mut Load,
        verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        let (mut entry, mut may_drop) = self.head(now, parameters, backlog, load);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let mut head = entry?;
                self.count += 1;
                if mark(&mut head, parameters.ecn) {
                    verdicts.marked += 1;
                    self.drop_next = self.control(self.drop_next, parameters);
                    return Some(head);
                }
                verdicts.drop(head, DropReason::Early);
                (entry, may_drop) = self.head(now, parameters, backlog, load);
                if may_drop {
                    self.drop_next = self.control(self.drop_next, parameters);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            let mut head = entry?;
            let marked = mark(&mut head, parameters.ecn);
            if marked {
                verdicts.marked += 1;
                entry = Some(head);
            } else {
                verdicts.drop(head, DropReason::Early);
                (entry, _) = self.head(now, parameters, backlog, load);
            }
            self.enter_dropping(now, parameters);
        }
        entry
    }
}
