//! The flows of this member, each a session of SLBN, and what they take of links together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Bandwidth, Span, Time};
use ratecontrol::MOST_RATE;
use sharing::{FlowName, LinkKey, Window, tcp};

use super::links::Links;
use super::message::{Claim, Offer};
use super::notable;
use crate::agreement::Output;

/// What matters to nobody yet waits so long for more of it.
const LATE: Span = Span::from_secs(1);

/// What matters little may differ by 2 to the minus this of what would matter.
const FINE: u32 = 4;

#[derive(Debug)]
struct Session {
    flow: FlowName,
    path: Arc<[u32]>,
    demand: u64,
    /// What the path can carry: whatever is said, it gets no more.
    least: u64,
    /// None before all links have told what they have.
    rate: Option<u64>,
    /// The link that limits it; none if it asks for no more.
    limit: Option<u32>,
    told: Option<(u64, u64)>,
}

/// A flow as it was announced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) links: Vec<LinkKey>,
    pub(super) round_trip: Span,
    pub(super) windowed: bool,
    pub(super) most: Option<Bandwidth>,
}

#[derive(Debug)]
struct Flow {
    asked: Asked,
    /// Its session; none where its path has no limit.
    session: Option<u32>,
}

/// A link as this member knows it.
#[derive(Debug, Default)]
struct View {
    across: BTreeSet<u32>,
    /// What these take of it, but for `top`; and what its owner has heard.
    takes: Claim,
    told: Claim,
    offer: Option<Offer>,
    /// The message that the offer came with.
    number: u64,
}

/// Whether a link's owner is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    Late,
    Never,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sessions {
    window: Window,
    flows: BTreeMap<FlowName, Flow>,
    known: BTreeMap<u32, Session>,
    views: BTreeMap<u32, View>,
    /// The next session's number.
    next: u32,
    /// Links of which flows take something else now.
    pub(super) touched: BTreeSet<u32>,
    /// Links whose owners are to be told some time.
    late: BTreeSet<u32>,
    late_at: Option<Time>,
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
            touched: BTreeSet::new(),
            late: BTreeSet::new(),
            late_at: None,
            outputs: Vec::new(),
        }
    }

    /// A flow starts, or has another way, or asks for something else.
    pub(super) fn ask(&mut self, links: &Links, flow: FlowName, asked: Asked) {
        let demand = demand(&asked, self.window);
        let path = limited(links, &asked.links);
        let least = least(links, &path);
        let known = self.flows.get(&flow).and_then(|flow| flow.session);
        let same = |number: &u32| self.known.get(number).is_some_and(|s| *s.path == path);
        let session = if let Some(number) = known.filter(same) {
            if let Some(session) = self.known.get_mut(&number) {
                (session.demand, session.least) = (demand, least);
            }
            self.resolve(number);
            Some(number)
        } else {
            self.end(flow);
            (!path.is_empty()).then(|| self.begin(flow, path, [demand, least]))
        };
        if session.is_none() {
            let share = (demand < MOST_RATE).then_some(Bandwidth::from_bits_per_sec(demand));
            self.outputs.push(Output::Share { flow, share, allowance: None });
        }
        self.flows.insert(flow, Flow { asked, session });
    }

    /// It takes at most this from now on.
    pub(super) fn limit(&mut self, links: &Links, flow: FlowName, most: Option<Bandwidth>) {
        let Some(known) = self.flows.get(&flow) else { return };
        let asked = Asked { most, ..known.asked.clone() };
        self.ask(links, flow, asked);
    }

    /// It is over.
    pub(super) fn end(&mut self, flow: FlowName) {
        let Some(Flow { session: Some(number), .. }) = self.flows.remove(&flow) else { return };
        let Some(session) = self.known.remove(&number) else { return };
        for link in &*session.path {
            if let Some(view) = self.views.get_mut(link) {
                view.across.remove(&number);
                view.takes = session.moved(*link, view.takes, false);
                self.touched.insert(*link);
            }
        }
    }

    /// Links are not what they were.
    pub(super) fn relink(&mut self, links: &Links) {
        let all: Vec<(FlowName, Asked)> =
            self.flows.iter().map(|(name, flow)| (*name, flow.asked.clone())).collect();
        for (flow, asked) in all {
            self.ask(links, flow, asked);
        }
    }

    /// A link's owner tells what it has.
    pub(super) fn hear(&mut self, link: u32, number: u64, offer: Offer) {
        let Some(view) = self.views.get_mut(&link).filter(|view| view.number <= number) else {
            return;
        };
        view.number = number;
        // What was claimed may matter more than it did.
        self.touched.insert(link);
        view.offer = Some(offer);
        let across: Vec<u32> = view.across.iter().copied().collect();
        for number in across {
            self.resolve(number);
        }
    }

    /// What flows take of a link, which is told with this to its owner.
    pub(super) fn tell(&mut self, link: u32) -> Claim {
        let mut claim = self.takes(link);
        if let Some(view) = self.views.get_mut(&link) {
            claim.asks = view.offer.is_none();
            view.told = claim;
            if claim.all == 0 {
                // Whoever comes next has to ask.
                view.offer = None;
            }
        }
        claim
    }

    /// Links `moved` to other owners, who have heard nothing; what the old ones said holds until
    /// these speak.
    pub(super) fn ask_others(&mut self, moved: impl Fn(u32) -> bool) {
        for (link, view) in self.views.iter_mut().filter(|(link, _)| moved(**link)) {
            (view.told, view.number) = (Claim::default(), 0);
            self.touched.insert(*link);
        }
    }

    /// The links of which this member has ever taken something.
    pub(super) fn links(&self) -> impl Iterator<Item = u32> {
        self.views.keys().copied()
    }

    /// Whether the owner of a link is to be told what flows take of it; if late, it is remembered.
    pub(super) fn urgency(&mut self, now: Time, link: u32) -> When {
        let when = self.judge(link);
        if when == When::Late {
            self.late.insert(link);
            self.late_at.get_or_insert(now + LATE);
        }
        when
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.late_at
    }

    /// Links whose owners are to be told by now.
    pub(super) fn late_news(&mut self, now: Time) -> Vec<u32> {
        if self.late_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.late_at = None;
        let mut late: Vec<u32> = std::mem::take(&mut self.late).into_iter().collect();
        late.retain(|link| self.judge(*link) != When::Never);
        late
    }

    fn judge(&self, link: u32) -> When {
        self.views.get(&link).map_or(When::Never, |view| view.urgency(self.takes(link)))
    }

    fn takes(&self, link: u32) -> Claim {
        let Some(view) = self.views.get(&link) else { return Claim::default() };
        let sessions = view.across.iter().filter_map(|number| self.known.get(number));
        let elsewhere = sessions.filter(|session| session.limit != Some(link));
        let top = elsewhere.filter_map(|session| session.rate).max().unwrap_or(0);
        Claim { top, ..view.takes }
    }

    /// Begins a session that asks for so much, over a path that can carry so much.
    fn begin(&mut self, flow: FlowName, path: Vec<u32>, [demand, least]: [u64; 2]) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let path = path.into();
        let session = Session { flow, path, demand, least, rate: None, limit: None, told: None };
        for link in &*session.path {
            let view = self.views.entry(*link).or_default();
            view.across.insert(number);
            view.takes = session.moved(*link, view.takes, true);
            self.touched.insert(*link);
        }
        self.known.insert(number, session);
        self.resolve(number);
        number
    }

    /// Gives a session what its links have for it.
    fn resolve(&mut self, number: u32) {
        let Some(session) = self.known.get_mut(&number) else { return };
        let (mut rate, mut limit, mut may, mut asks) = (session.demand, None, MOST_RATE, false);
        for link in &*session.path {
            let Some(offer) = self.views.get(link).and_then(|view| view.offer) else {
                asks = true;
                continue;
            };
            if offer.level < rate {
                (rate, limit) = (offer.level, Some(*link));
            }
            may = may.min(session.could(*link, offer));
        }
        if asks {
            let Some(before) = session.rate else { return };
            // It rises when all have spoken.
            if before < rate {
                (rate, limit) = (before, None);
            }
        }
        if (session.rate, session.limit) != (Some(rate), limit) {
            let after =
                Session { path: Arc::clone(&session.path), rate: Some(rate), limit, ..*session };
            for link in &*session.path {
                if let Some(view) = self.views.get_mut(link) {
                    view.takes = session.moved(*link, view.takes, false);
                    view.takes = after.moved(*link, view.takes, true);
                    self.touched.insert(*link);
                }
            }
            *session = after;
        }
        self.outputs.extend(session.news(rate, may));
    }
}

impl View {
    fn urgency(&self, takes: Claim) -> When {
        match (self.told.all, takes.all) {
            (0, 0) => When::Never,
            // Who takes something has to be made an offer.
            (0, _) => When::Now,
            _ => self.measure(takes),
        }
    }

    /// By how much the owner is wrong about what flows use as long as the link's level is as it is.
    fn measure(&self, takes: Claim) -> When {
        let Some(offer) = self.offer else { return When::Never };
        let told = self.told;
        let uses = |claim: Claim| {
            i128::from(claim.used) + i128::from(claim.limited) * i128::from(offer.level)
        };
        let wrong = uses(takes).abs_diff(uses(told));
        let slack = 1_u128 << offer.slack.min(63);
        // Whom the level concerns has to hear of it from now on.
        let rises = takes.top > told.cares_from() && takes.top >= offer.level / 2;
        let concerned = told.limited == 0 && (takes.limited > 0 || rises);
        if concerned || wrong > slack {
            When::Now
        } else if wrong > slack >> FINE || told.all != takes.all || told.limited != takes.limited {
            When::Late
        } else {
            When::Never
        }
    }
}

impl Session {
    /// What flows take of a link if this one does too, or no longer.
    fn moved(&self, link: u32, takes: Claim, joins: bool) -> Claim {
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

    /// What a link would give it if it asked for all.
    fn could(&self, link: u32, offer: Offer) -> u64 {
        let (rate, limited) = (self.rate.unwrap_or(0), u128::from(offer.limited));
        if limited == 0 || self.limit == Some(link) || rate >= offer.level {
            return offer.level;
        }
        let whole = u128::from(offer.level) * limited + u128::from(rate);
        (whole / (limited + 1)) as u64
    }

    /// What the data path has not been told yet.
    fn news(&mut self, rate: u64, may: u64) -> Option<Output> {
        let share = rate.min(self.least);
        let wants_all = self.demand >= MOST_RATE;
        let allowance = if wants_all { share } else { share.max(may.min(self.least)) };
        if let Some((old, may)) = self.told
            && old == share
            && !notable(may, allowance)
        {
            return None;
        }
        self.told = Some((share, allowance));
        let below = |rate: u64| (rate < MOST_RATE).then_some(Bandwidth::from_bits_per_sec(rate));
        let (share, allowance) = (below(share), below(allowance));
        Some(Output::Share { flow: self.flow, share, allowance })
    }
}

/// What a flow takes at most.
fn demand(asked: &Asked, window: Window) -> u64 {
    let most = asked.most.map_or(MOST_RATE, Bandwidth::bits_per_sec);
    let cap = match window {
        Window::Fixed(window) if asked.windowed => tcp::window_cap(window, asked.round_trip) as u64,
        _ => MOST_RATE,
    };
    most.min(cap).clamp(1, MOST_RATE)
}

/// The lowest capacity of these links.
fn least(links: &Links, path: &[u32]) -> u64 {
    let capacities = path.iter().filter_map(|link| links.capacity(*link));
    capacities.map(Bandwidth::bits_per_sec).min().unwrap_or(MOST_RATE)
}

/// The links of a path that have a limit, each once.
fn limited(links: &Links, path: &[LinkKey]) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    for LinkKey(link) in path {
        if links.capacity(*link).is_some() && !found.contains(link) {
            found.push(*link);
        }
    }
    found
}
