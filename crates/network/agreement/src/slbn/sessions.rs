//! The flows of this agent, each a session of SLBN, and their use of links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Bandwidth, Span, Time};
use sharing::{FlowName, LinkKey, Window, tcp};

use super::links::{Links, MAX_RATE, is_significant};
use super::message::{Claim, Offer};
use crate::Output;

/// Delay of claims of low priority.
const DEFER_INTERVAL: Span = Span::from_secs(1);

/// A deferred claim is sent if its error exceeds the allowed error times 2^−FINE.
const FINE: u32 = 4;

#[derive(Debug)]
struct Session {
    flow: FlowName,
    path: Arc<[u32]>,
    demand: u64,
    path_capacity: u64,
    /// `None` until all links have made an offer.
    rate: Option<u64>,
    /// The link that limits it; `None` if its demand does.
    limit: Option<u32>,
    reported: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) links: Vec<LinkKey>,
    pub(super) round_trip: Span,
    pub(super) windowed: bool,
    pub(super) most: Option<Bandwidth>,
}

#[derive(Debug)]
struct Flow {
    asked: Request,
    /// `None` if its path has no limit.
    session: Option<u32>,
}

/// This agent's information about a link.
#[derive(Debug, Default)]
struct View {
    across: BTreeSet<u32>,
    /// The present use without `top`, and the last claim sent.
    takes: Claim,
    reported: Claim,
    offer: Option<Offer>,
    /// Number of the message with the offer.
    number: u64,
}

/// Whether and when a link's owner receives a new claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    Deferred,
    Never,
}

#[derive(Debug)]
pub(super) struct Sessions {
    window: Window,
    flows: BTreeMap<FlowName, Flow>,
    known: BTreeMap<u32, Session>,
    views: BTreeMap<u32, View>,
    next: u32,
    pub(super) changed_links: BTreeSet<u32>,
    /// Links with a deferred claim.
    deferred: BTreeSet<u32>,
    deferred_until: Option<Time>,
    pub(super) outputs: Vec<Output>,
}

impl Sessions {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            flows: BTreeMap::new(),
            known: BTreeMap::new(),
            views: BTreeMap::new(),
            next: 0,
            changed_links: BTreeSet::new(),
            deferred: BTreeSet::new(),
            deferred_until: None,
            outputs: Vec::new(),
        }
    }

    /// Starts a flow, or changes its path or demand.
    pub(super) fn ask(&mut self, links: &Links, flow: FlowName, asked: Request) {
        let demand = demand(&asked, self.window);
        let path = limited(links, &asked.links);
        let path_capacity = path_capacity(links, &path);
        let known = self.flows.get(&flow).and_then(|flow| flow.session);
        let same = |number: &u32| self.known.get(number).is_some_and(|s| *s.path == path);
        let session = if let Some(number) = known.filter(same) {
            if let Some(session) = self.known.get_mut(&number) {
                (session.demand, session.path_capacity) = (demand, path_capacity);
            }
            self.update_rate(number);
            Some(number)
        } else {
            self.end(flow);
            (!path.is_empty()).then(|| self.begin(flow, path, [demand, path_capacity]))
        };
        if session.is_none() {
            let share = (demand < MAX_RATE).then_some(Bandwidth::from_bits_per_sec(demand));
            self.outputs.push(Output::Share { flow, share, allowance: None });
        }
        self.flows.insert(flow, Flow { asked, session });
    }

    /// Changes the maximum rate of a flow.
    pub(super) fn limit(&mut self, links: &Links, flow: FlowName, most: Option<Bandwidth>) {
        let Some(known) = self.flows.get(&flow) else { return };
        let asked = Request { most, ..known.asked.clone() };
        self.ask(links, flow, asked);
    }

    pub(super) fn end(&mut self, flow: FlowName) {
        let Some(Flow { session: Some(number), .. }) = self.flows.remove(&flow) else { return };
        let Some(session) = self.known.remove(&number) else { return };
        for link in &*session.path {
            if let Some(view) = self.views.get_mut(link) {
                view.across.remove(&number);
                view.takes = session.with_session(*link, view.takes, false);
                self.changed_links.insert(*link);
            }
        }
    }

    pub(super) fn set_capacities(&mut self, links: &Links) {
        let all: Vec<(FlowName, Request)> =
            self.flows.iter().map(|(name, flow)| (*name, flow.asked.clone())).collect();
        for (flow, asked) in all {
            self.ask(links, flow, asked);
        }
    }

    pub(super) fn on_offer(&mut self, link: u32, number: u64, offer: Offer) {
        let Some(view) = self.views.get_mut(&link).filter(|view| view.number <= number) else {
            return;
        };
        view.number = number;
        // The offer may raise the priority of the claim.
        self.changed_links.insert(link);
        view.offer = Some(offer);
        let across: Vec<u32> = view.across.iter().copied().collect();
        for number in across {
            self.update_rate(number);
        }
    }

    /// The claim on a link, recorded as sent.
    pub(super) fn tell(&mut self, link: u32) -> Claim {
        let mut claim = self.takes(link);
        if let Some(view) = self.views.get_mut(&link) {
            claim.asks = view.offer.is_none();
            view.reported = claim;
            if claim.all == 0 {
                // The next flow must request an offer.
                view.offer = None;
            }
        }
        claim
    }

    /// Requests offers from the new owners of links; the old offers are valid until
    /// the new ones arrive.
    pub(super) fn ask_owners_of(&mut self, with_session: impl Fn(u32) -> bool) {
        for (link, view) in self.views.iter_mut().filter(|(link, _)| with_session(**link)) {
            (view.reported, view.number) = (Claim::default(), 0);
            self.changed_links.insert(*link);
        }
    }

    /// All links that this agent has ever used.
    pub(super) fn links(&self) -> impl Iterator<Item = u32> {
        self.views.keys().copied()
    }

    /// When to send the claim on a link; a deferred one is recorded.
    pub(super) fn when_to_claim(&mut self, now: Time, link: u32) -> When {
        let when = self.when_to_report(link);
        if when == When::Deferred {
            self.deferred.insert(link);
            self.deferred_until.get_or_insert(now + DEFER_INTERVAL);
        }
        when
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.deferred_until
    }

    /// The links whose deferred claims are due.
    pub(super) fn take_deferred(&mut self, now: Time) -> Vec<u32> {
        if self.deferred_until.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.deferred_until = None;
        let mut deferred: Vec<u32> = std::mem::take(&mut self.deferred).into_iter().collect();
        deferred.retain(|link| self.when_to_report(*link) != When::Never);
        deferred
    }

    fn when_to_report(&self, link: u32) -> When {
        self.views.get(&link).map_or(When::Never, |view| view.when_to_claim(self.takes(link)))
    }

    fn takes(&self, link: u32) -> Claim {
        let Some(view) = self.views.get(&link) else { return Claim::default() };
        let sessions = view.across.iter().filter_map(|number| self.known.get(number));
        let elsewhere = sessions.filter(|session| session.limit != Some(link));
        let top = elsewhere.filter_map(|session| session.rate).max().unwrap_or(0);
        Claim { top, ..view.takes }
    }

    fn begin(&mut self, flow: FlowName, path: Vec<u32>, [demand, path_capacity]: [u64; 2]) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let path = path.into();
        let session =
            Session { flow, path, demand, path_capacity, rate: None, limit: None, reported: None };
        for link in &*session.path {
            let view = self.views.entry(*link).or_default();
            view.across.insert(number);
            view.takes = session.with_session(*link, view.takes, true);
            self.changed_links.insert(*link);
        }
        self.known.insert(number, session);
        self.update_rate(number);
        number
    }

    /// Recomputes a session's rate from the offers of its links.
    fn update_rate(&mut self, number: u32) {
        let Some(session) = self.known.get_mut(&number) else { return };
        let (mut rate, mut limit, mut may, mut asks) = (session.demand, None, MAX_RATE, false);
        for link in &*session.path {
            let Some(offer) = self.views.get(link).and_then(|view| view.offer) else {
                asks = true;
                continue;
            };
            if offer.level < rate {
                (rate, limit) = (offer.level, Some(*link));
            }
            may = may.min(session.potential_share(*link, offer));
        }
        if asks {
            let Some(before) = session.rate else { return };
            // The rate rises only when all links have sent an offer.
            if before < rate {
                (rate, limit) = (before, None);
            }
        }
        if (session.rate, session.limit) != (Some(rate), limit) {
            let after =
                Session { path: Arc::clone(&session.path), rate: Some(rate), limit, ..*session };
            for link in &*session.path {
                if let Some(view) = self.views.get_mut(link) {
                    view.takes = session.with_session(*link, view.takes, false);
                    view.takes = after.with_session(*link, view.takes, true);
                    self.changed_links.insert(*link);
                }
            }
            *session = after;
        }
        self.outputs.extend(session.share_update(rate, may));
    }
}

impl View {
    fn when_to_claim(&self, takes: Claim) -> When {
        match (self.reported.all, takes.all) {
            (0, 0) => When::Never,
            // A new user needs an offer.
            (0, _) => When::Now,
            _ => self.measure(takes),
        }
    }

    /// The error of the owner's data at the link's present level decides.
    fn measure(&self, takes: Claim) -> When {
        let Some(offer) = self.offer else { return When::Never };
        let reported = self.reported;
        let uses = |claim: Claim| {
            i128::from(claim.used) + i128::from(claim.limited) * i128::from(offer.level)
        };
        let wrong = uses(takes).abs_diff(uses(reported));
        let slack = 1_u128 << offer.slack.min(63);
        // From here on the level affects these flows.
        let rises = takes.top > reported.relevant_level() && takes.top >= offer.level / 2;
        let concerned = reported.limited == 0 && (takes.limited > 0 || rises);
        if concerned || wrong > slack {
            When::Now
        } else if wrong > slack >> FINE
            || reported.all != takes.all
            || reported.limited != takes.limited
        {
            When::Deferred
        } else {
            When::Never
        }
    }
}

impl Session {
    /// The use of a link with this session added or removed.
    fn with_session(&self, link: u32, takes: Claim, joins: bool) -> Claim {
        let is_limited = u32::from(self.limit == Some(link));
        let used = self.rate.filter(|_| is_limited == 0).unwrap_or(0);
        let Claim { top, .. } = takes;
        if joins {
            let used = takes.used.saturating_add(used);
            Claim { used, top, limited: takes.limited + is_limited, all: takes.all + 1, ..takes }
        } else {
            let used = takes.used.saturating_sub(used);
            Claim { used, top, limited: takes.limited - is_limited, all: takes.all - 1, ..takes }
        }
    }

    /// The rate that a link would give the flow if its demand were unlimited.
    fn potential_share(&self, link: u32, offer: Offer) -> u64 {
        let (rate, limited) = (self.rate.unwrap_or(0), u128::from(offer.limited));
        if limited == 0 || self.limit == Some(link) || rate >= offer.level {
            return offer.level;
        }
        let whole = u128::from(offer.level) * limited + u128::from(rate);
        (whole / (limited + 1)) as u64
    }

    /// The share, if it differs from the reported one.
    fn share_update(&mut self, rate: u64, may: u64) -> Option<Output> {
        let share = rate.min(self.path_capacity);
        let wants_all = self.demand >= MAX_RATE;
        let allowance = if wants_all { share } else { share.max(may.min(self.path_capacity)) };
        if let Some((old, may)) = self.reported
            && old == share
            && !is_significant(may, allowance)
        {
            return None;
        }
        self.reported = Some((share, allowance));
        let below = |rate: u64| (rate < MAX_RATE).then_some(Bandwidth::from_bits_per_sec(rate));
        let (share, allowance) = (below(share), below(allowance));
        Some(Output::Share { flow: self.flow, share, allowance })
    }
}

fn demand(asked: &Request, window: Window) -> u64 {
    let most = asked.most.map_or(MAX_RATE, Bandwidth::bits_per_sec);
    let cap = match window {
        Window::Fixed(window) if asked.windowed => tcp::window_cap(window, asked.round_trip) as u64,
        _ => MAX_RATE,
    };
    most.min(cap).clamp(1, MAX_RATE)
}

fn path_capacity(links: &Links, path: &[u32]) -> u64 {
    let capacities = path.iter().filter_map(|link| links.capacity(*link));
    capacities.map(Bandwidth::bits_per_sec).min().unwrap_or(MAX_RATE)
}

/// The bottleneck links without duplicates.
fn limited(links: &Links, path: &[LinkKey]) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    for LinkKey(link) in path {
        if links.capacity(*link).is_some() && !found.contains(link) {
            found.push(*link);
        }
    }
    found
}
