//! The links owned by this agent.

use std::collections::{BTreeMap, BTreeSet};

use base::{AgentId, Bandwidth, RandomStream, Span, Time};

use super::message::{Claim, Offer};

/// Rates above this are unlimited, bit/s.
pub(super) const MAX_RATE: u64 = 1 << 56;

/// Whether the difference of two rates justifies a message now.
pub(super) fn is_significant(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) >> 9
}

/// Whether the difference justifies a deferred message.
pub(super) fn is_different(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) >> 12
}

/// Delay from a claim to the offers of its link; up to twice as long.
const ROUND_INTERVAL: Span = Span::from_micros(500);

/// Delay of updates of low priority.
const DEFER_INTERVAL: Span = Span::from_secs(1);

#[derive(Debug)]
struct User {
    agent: AgentId,
    claim: Claim,
    /// Number of the message with the claim.
    number: u64,
    sent: Option<Offer>,
}

#[derive(Debug)]
pub(super) struct Links {
    /// Capacity by link direction.
    capacities: Vec<Option<Bandwidth>>,
    /// Per link: the agents whose flows cross it.
    owned: BTreeMap<u32, Vec<User>>,
    /// Links whose offers may have changed.
    changed: BTreeSet<u32>,
    next_round: Option<Time>,
    /// Links with a deferred offer.
    deferred: BTreeSet<u32>,
    deferred_until: Option<Time>,
    rng: RandomStream,
}

/// Whether and when an agent receives a new offer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Deferred,
    Never,
}

impl Links {
    pub(super) fn new(rng: RandomStream) -> Self {
        Self {
            capacities: Vec::new(),
            owned: BTreeMap::new(),
            changed: BTreeSet::new(),
            next_round: None,
            deferred: BTreeSet::new(),
            deferred_until: None,
            rng,
        }
    }

    pub(super) fn has(&self, link: u32) -> bool {
        (link as usize) < self.capacities.len()
    }

    /// The capacity of a link direction; `None` if it is unlimited.
    pub(super) fn capacity(&self, link: u32) -> Option<Bandwidth> {
        let capacity = self.capacities.get(link as usize).copied().flatten();
        capacity.filter(|capacity| capacity.bits_per_sec() < MAX_RATE)
    }

    pub(super) fn set_capacities(&mut self, now: Time, capacities: &[Option<Bandwidth>]) {
        self.capacities = capacities.to_vec();
        let links: Vec<u32> = self.owned.keys().copied().collect();
        for link in links {
            self.change(now, link);
        }
    }

    /// Stores an agent's claim on a link.
    pub(super) fn take(&mut self, now: Time, link: u32, from: (AgentId, u64), claim: Claim) {
        let users = self.owned.entry(link).or_default();
        let (agent, number) = from;
        let at = users.iter().position(|user| user.agent == agent).unwrap_or_else(|| {
            users.push(User { agent, claim: Claim::default(), number: 0, sent: None });
            users.len() - 1
        });
        let user = &mut users[at];
        if number < user.number {
            return;
        }
        if user.claim.all == 0 || claim.asks {
            user.sent = None;
        }
        (user.claim, user.number) = (claim, number);
        self.change(now, link);
    }

    pub(super) fn remove_agent(&mut self, now: Time, agent: AgentId) {
        self.each_of(now, agent, |users| users.retain(|user| user.agent != agent));
    }

    /// Resends all offers to an agent that has reset its state.
    pub(super) fn resend_all(&mut self, now: Time, agent: AgentId) {
        let of = |user: &&mut User| user.agent == agent;
        self.each_of(now, agent, |users| {
            users.iter_mut().filter(of).for_each(|user| user.sent = None);
        });
    }

    fn each_of(&mut self, now: Time, agent: AgentId, act: impl Fn(&mut Vec<User>)) {
        let mut changed = Vec::new();
        for (link, users) in &mut self.owned {
            if users.iter().any(|user| user.agent == agent) {
                act(users);
                changed.push(*link);
            }
        }
        for link in changed {
            self.change(now, link);
        }
    }

    fn change(&mut self, now: Time, link: u32) {
        self.changed.insert(link);
        let more = Span::from_nanos(self.rng.below(ROUND_INTERVAL.as_nanos()));
        self.next_round.get_or_insert(now + ROUND_INTERVAL + more);
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        [self.next_round, self.deferred_until].into_iter().flatten().min()
    }

    /// The links whose offers must be checked now.
    pub(super) fn round(&mut self, now: Time) -> Vec<u32> {
        let mut round = Vec::new();
        if self.next_round.is_some_and(|at| at <= now) {
            self.next_round = None;
            round.extend(std::mem::take(&mut self.changed));
        }
        round
    }

    /// The agents to which a new offer of `link` must be sent.
    pub(super) fn take_updates(&mut self, now: Time, link: u32) -> Vec<AgentId> {
        let Some(offer) = self.offer(link) else { return Vec::new() };
        let users = self.owned.get(&link).into_iter().flatten();
        let mut take_updates = Vec::new();
        for user in users {
            match user.when_to_offer(offer) {
                When::Now => take_updates.push(user.agent),
                When::Deferred => {
                    self.deferred.insert(link);
                    self.deferred_until.get_or_insert(now + DEFER_INTERVAL);
                }
                When::Never => {}
            }
        }
        take_updates
    }

    /// The deferred offers that are due.
    pub(super) fn take_deferred(&mut self, now: Time) -> Vec<(AgentId, u32)> {
        if self.deferred_until.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.deferred_until = None;
        let mut take_updates = Vec::new();
        for link in std::mem::take(&mut self.deferred) {
            let Some(offer) = self.offer(link) else { continue };
            let users = self.owned.get(&link).into_iter().flatten();
            let users = users.filter(|user| user.when_to_offer(offer) != When::Never);
            take_updates.extend(users.map(|user| (user.agent, link)));
        }
        take_updates
    }

    /// The offer of a link for an agent, recorded as sent; `None` if the agent has no flow there.
    pub(super) fn tell(&mut self, agent: AgentId, link: u32) -> Option<Offer> {
        let offer = self.offer(link)?;
        let user = self.owned.get_mut(&link)?.iter_mut().find(|user| user.agent == agent)?;
        user.sent = Some(offer);
        (user.claim.all > 0).then_some(offer)
    }

    /// The rate of each flow that the link limits: an equal part of the capacity that other flows
    /// leave, and at least an equal part of the total capacity.
    //= slbn §III: shBW = max((C − BF)/NR, C/N)
    fn offer(&self, link: u32) -> Option<Offer> {
        let capacity = self.capacity(link)?.bits_per_sec().max(1);
        let claims = || self.owned.get(&link).into_iter().flatten().map(|user| user.claim);
        let (mut used, mut limited, mut all) = (0_u128, 0_u64, 0_u64);
        for claim in claims() {
            used += u128::from(claim.used);
            limited += u64::from(claim.limited);
            all += u64::from(claim.all);
        }
        let top = claims().map(|claim| claim.top).max().unwrap_or(0);
        let share = |left: u128, among: u64| left.saturating_sub(used) / u128::from(among.max(1));
        let whole = u128::from(capacity);
        let mut level = share(whole, limited);
        if limited == 0 || u128::from(top) > level {
            // The flow with the highest rate will be limited by this link, or could be.
            level = share(whole + u128::from(top), limited + 1);
        }
        let level = level.min(whole) as u64;
        let level = level.max(capacity / all.max(1));
        let agents = claims().filter(|claim| claim.all > 0).count().max(1) as u64;
        let room = match limited {
            // No flow waits for this level, so a larger error is allowed.
            0 => ((level.saturating_sub(top)) / 2).max(level >> ACCURACY),
            _ => level.saturating_mul(limited) >> ACCURACY,
        };
        let slack = (room / agents).max(1).ilog2() as u8;
        Some(Offer { level, limited: limited.min(u64::from(u32::MAX)) as u32, slack })
    }
}

/// The error of all claims together may move a link's level by 2^−ACCURACY.
const ACCURACY: u32 = 8;

impl User {
    fn when_to_offer(&self, offer: Offer) -> When {
        if self.claim.all == 0 {
            return When::Never;
        }
        let Some(sent) = self.sent else { return When::Now };
        let level = sent.level.min(offer.level);
        let cares = self.claim.limited > 0 || self.claim.relevant_level() >= level;
        // The claims of the other agents depend on this.
        let is_tight = offer.level < sent.level / 2 || offer.slack + 1 < sent.slack;
        if cares && is_significant(offer.level, sent.level) || is_tight {
            When::Now
        } else if cares && is_different(offer.level, sent.level)
            || offer.level.abs_diff(sent.level) > offer.level >> 4
            || offer.slack > sent.slack + 1
        {
            When::Deferred
        } else {
            When::Never
        }
    }
}
