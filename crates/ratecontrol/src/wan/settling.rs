//! When a distributed run is over.
//!
//! SLBN never falls silent, so that its rates have settled must be seen from them. They have once
//! every session has gone round twice without a change of its rate, and the rates prove themselves:
//! each session has what it wants or crosses a full link of which nobody has more, which only the
//! max-min fair rates fulfil (Bertsekas and Gallager, *Data Networks*, §6.5.2).

use super::{DemandId, Limit};

/// Rates that differ by less count as equal: shares are rounded down at every link.
fn slack(rate: u64) -> u64 {
    rate / 100_000_000 + 8
}

/// Who has gone round since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Calm {
    /// By session.
    sessions: Vec<Standing>,
    /// Changes with each change of a rate.
    epoch: u64,
    /// Sessions that have gone round twice in this epoch.
    ready: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    epoch: u64,
    cycles: u8,
    rate: u64,
}

impl Calm {
    const CYCLES: u8 = 2;

    /// All sessions have to show anew that their rates don't change.
    pub(super) fn restart(&mut self) {
        self.epoch += 1;
        self.ready = 0;
    }

    /// A session has gone round and has this rate now; whether that is another one.
    pub(super) fn cycle(&mut self, session: u32, rate: u64) -> bool {
        let session = session as usize;
        if self.sessions.len() <= session {
            self.sessions.resize(session + 1, Standing::default());
        }
        let standing = &mut self.sessions[session];
        let changed = standing.rate.abs_diff(rate) > slack(rate);
        if changed {
            self.epoch += 1;
            self.ready = 0;
            standing.rate = rate;
        }
        if standing.epoch != self.epoch {
            *standing = Standing { epoch: self.epoch, cycles: 0, rate: standing.rate };
        }
        standing.cycles = standing.cycles.saturating_add(1);
        self.ready += usize::from(standing.cycles == Self::CYCLES);
        changed
    }

    /// Sessions that have gone round often enough.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }
}

/// A session's part in the proof.
pub(super) struct Claim<'a> {
    pub(super) demand: DemandId,
    pub(super) path: &'a [u32],
    pub(super) wants: u64,
    pub(super) rate: u64,
}

#[derive(Clone, Copy, Default)]
struct Use {
    sum: u128,
    sessions: u64,
    most: u64,
    /// Sessions that have as much as any.
    top: u64,
}

impl Use {
    fn is_full(&self, capacity: u64) -> bool {
        // Each session's share may have lost a bit/s to rounding, and each of those that the link
        // limits may still be within the slack of its rate.
        let rounding = u128::from(self.sessions);
        let slack = u128::from(self.top) * u128::from(slack(self.most));
        self.sum + rounding + slack >= u128::from(capacity)
    }

    fn is_over(&self, capacity: u64) -> bool {
        let slack = u128::from(self.top) * u128::from(slack(self.most));
        self.sum > u128::from(capacity) + slack
    }
}

/// What limits each session, if the rates are max-min fair.
pub(super) fn prove(capacities: &[u64], claims: &[Claim<'_>]) -> Option<Vec<Limit>> {
    let mut uses = vec![Use::default(); capacities.len()];
    for claim in claims {
        for link in claim.path {
            let used = &mut uses[*link as usize];
            used.sum += u128::from(claim.rate);
            used.sessions += 1;
            used.most = used.most.max(claim.rate);
        }
    }
    let tops = |used: &Use, rate: u64| rate + slack(used.most) >= used.most;
    for claim in claims {
        for link in claim.path {
            let used = &mut uses[*link as usize];
            used.top += u64::from(tops(used, claim.rate));
        }
    }
    if uses.iter().zip(capacities).any(|(used, capacity)| used.is_over(*capacity)) {
        return None;
    }
    let limit = |claim: &Claim<'_>| {
        if claim.rate == claim.wants {
            return Some(Limit::Demand);
        }
        let limits = |link: &&u32| {
            let (used, capacity) = (&uses[**link as usize], capacities[**link as usize]);
            tops(used, claim.rate) && used.is_full(capacity)
        };
        claim.path.iter().find(limits).map(|link| Limit::Link(*link))
    };
    claims.iter().map(limit).collect()
}
