//! The links that this member owns.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bandwidth, RandomStream, Span, Time};
use ratecontrol::MOST_RATE;

use super::message::{Claim, Offer};
use super::{differs, notable};
use crate::AgentId;

/// From a claim until what follows for its link is told, at least, and at most so much more.
const ROUND: Span = Span::from_micros(500);

/// Until what matters little is told.
const LATE: Span = Span::from_secs(1);

#[derive(Debug)]
struct User {
    agent: AgentId,
    claim: Claim,
    /// The message that it came with.
    number: u64,
    told: Option<Offer>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Links {
    /// By link direction: what it can carry.
    capacities: Vec<Option<Bandwidth>>,
    /// Of each link: the members whose flows cross it.
    owned: BTreeMap<u32, Vec<User>>,
    /// Links that may have news.
    changed: BTreeSet<u32>,
    next_round: Option<Time>,
    /// Those that have told little things to nobody yet.
    late: BTreeSet<u32>,
    late_at: Option<Time>,
    dice: RandomStream,
}

/// Whether a user of a link is to be told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Late,
    Never,
}

impl Links {
    pub(super) fn new(dice: RandomStream) -> Self {
        Self {
            capacities: Vec::new(),
            owned: BTreeMap::new(),
            changed: BTreeSet::new(),
            next_round: None,
            late: BTreeSet::new(),
            late_at: None,
            dice,
        }
    }

    /// Whether there is such a link direction.
    pub(super) fn has(&self, link: u32) -> bool {
        (link as usize) < self.capacities.len()
    }

    /// What it can carry, if it has a limit that matters.
    pub(super) fn capacity(&self, link: u32) -> Option<Bandwidth> {
        let capacity = self.capacities.get(link as usize).copied().flatten();
        capacity.filter(|capacity| capacity.bits_per_sec() < MOST_RATE)
    }

    /// Other capacities from now on.
    pub(super) fn set_capacities(&mut self, now: Time, capacities: &[Option<Bandwidth>]) {
        self.capacities = capacities.to_vec();
        let links: Vec<u32> = self.owned.keys().copied().collect();
        for link in links {
            self.change(now, link);
        }
    }

    /// What the flows of a member take of a link from now on.
    pub(super) fn take(&mut self, now: Time, link: u32, from: (AgentId, u64), claim: Claim) {
        let users = self.owned.entry(link).or_default();
        let (agent, number) = from;
        let at = users.iter().position(|user| user.agent == agent).unwrap_or_else(|| {
            users.push(User { agent, claim: Claim::default(), number: 0, told: None });
            users.len() - 1
        });
        let user = &mut users[at];
        if number < user.number {
            return;
        }
        if user.claim.all == 0 || claim.asks {
            user.told = None;
        }
        (user.claim, user.number) = (claim, number);
        self.change(now, link);
    }

    /// A member is gone, and with it what its flows took.
    pub(super) fn forget(&mut self, now: Time, agent: AgentId) {
        self.each_of(now, agent, |users| users.retain(|user| user.agent != agent));
    }

    /// A member has forgotten what it was told.
    pub(super) fn repeat(&mut self, now: Time, agent: AgentId) {
        let of = |user: &&mut User| user.agent == agent;
        self.each_of(now, agent, |users| {
            users.iter_mut().filter(of).for_each(|user| user.told = None);
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
        let more = Span::from_nanos(self.dice.below(ROUND.as_nanos()));
        self.next_round.get_or_insert(now + ROUND + more);
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        [self.next_round, self.late_at].into_iter().flatten().min()
    }

    /// The links to ask for their news.
    pub(super) fn round(&mut self, now: Time) -> Vec<u32> {
        let mut round = Vec::new();
        if self.next_round.is_some_and(|at| at <= now) {
            self.next_round = None;
            round.extend(std::mem::take(&mut self.changed));
        }
        round
    }

    /// Who is to be told of a link.
    pub(super) fn news(&mut self, now: Time, link: u32) -> Vec<AgentId> {
        let Some(offer) = self.offer(link) else { return Vec::new() };
        let users = self.owned.get(&link).into_iter().flatten();
        let mut news = Vec::new();
        for user in users {
            match user.hears(offer) {
                When::Now => news.push(user.agent),
                When::Late => {
                    self.late.insert(link);
                    self.late_at.get_or_insert(now + LATE);
                }
                When::Never => {}
            }
        }
        news
    }

    /// Who is to be told of which links, though it matters little.
    pub(super) fn late_news(&mut self, now: Time) -> Vec<(AgentId, u32)> {
        if self.late_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.late_at = None;
        let mut news = Vec::new();
        for link in std::mem::take(&mut self.late) {
            let Some(offer) = self.offer(link) else { continue };
            let users = self.owned.get(&link).into_iter().flatten();
            let users = users.filter(|user| user.hears(offer) != When::Never);
            news.extend(users.map(|user| (user.agent, link)));
        }
        news
    }

    /// What a link has for a member, which is told with this; nothing where it has no flows.
    pub(super) fn tell(&mut self, agent: AgentId, link: u32) -> Option<Offer> {
        let offer = self.offer(link)?;
        let user = self.owned.get_mut(&link)?.iter_mut().find(|user| user.agent == agent)?;
        user.told = Some(offer);
        (user.claim.all > 0).then_some(offer)
    }

    /// What each flow gets that a link limits: what the others leave, in equal parts, but no less
    /// than an equal part of all.
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
            // Whoever has most will be limited here, or could be.
            level = share(whole + u128::from(top), limited + 1);
        }
        let level = level.min(whole) as u64;
        let level = level.max(capacity / all.max(1));
        let members = claims().filter(|claim| claim.all > 0).count().max(1) as u64;
        let room = match limited {
            // What nobody waits for may be off by more.
            0 => ((level.saturating_sub(top)) / 2).max(level >> ACCURACY),
            _ => level.saturating_mul(limited) >> ACCURACY,
        };
        let slack = (room / members).max(1).ilog2() as u8;
        Some(Offer { level, limited: limited.min(u64::from(u32::MAX)) as u32, slack })
    }
}

/// What claims are off by all together may move a link's level by 2 to the minus this.
const ACCURACY: u32 = 8;

impl User {
    fn hears(&self, offer: Offer) -> When {
        if self.claim.all == 0 {
            return When::Never;
        }
        let Some(told) = self.told else { return When::Now };
        let level = told.level.min(offer.level);
        let cares = self.claim.limited > 0 || self.claim.cares_from() >= level;
        // The others rely on this.
        let is_tight = offer.level < told.level / 2 || offer.slack + 1 < told.slack;
        if cares && notable(offer.level, told.level) || is_tight {
            When::Now
        } else if cares && differs(offer.level, told.level)
            || offer.level.abs_diff(told.level) > offer.level >> 4
            || offer.slack > told.slack + 1
        {
            When::Late
        } else {
            When::Never
        }
    }
}
