//! Rates by SLBN.

use std::collections::BTreeSet;

use base::{Bandwidth, Span, Time};

use super::book::Book;
use super::settling::{Calm, Claim, prove};
use super::{Allocator, DemandId, Limit, Network, Share};
use crate::exchange::{Counters, Exchange, Wire};
use crate::slbn::Slbn;
use crate::{Error, Result, SessionId, Settings};

/// What a run may cost before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Cycles of the protocol for each session, on average. With few sessions of very different
    /// rates the fast ones make many while the slow ones, whose control packets take their share
    /// of little, make one.
    pub cycles: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { cycles: 10_000 }
    }
}

/// What [`Allocator::rates`] has taken in a distributed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Virtual time from the changes until the last rate changed.
    pub converged: Span,
    /// Virtual time until all rates were known to have settled.
    pub settled: Span,
    /// Control packets that came back to their sources.
    pub cycles: u64,
    /// Control packets that were sent.
    pub packets: u64,
    /// Links that they crossed, either way.
    pub crossings: u64,
}

/// An [`Allocator`] in which every session finds its rate by SLBN, over a network that delays
/// control packets by what the links say and neither loses nor queues them.
///
/// When a link goes down, the sessions across it leave first; that takes control packets over the
/// link as if it were only drained. Rates are the protocol's: where shares are no whole bit/s,
/// some bit/s below [`super::Central`]'s.
pub struct Distributed {
    book: Book<Option<SessionId>>,
    settings: Settings,
    effort: Effort,
    exchange: Exchange<Slbn>,
    /// Sessions that the exchange has had.
    pub(super) joined: usize,
    /// By session.
    owners: Vec<Option<DemandId>>,
    calm: Calm,
    // What has changed since it was told the exchange.
    touched: BTreeSet<DemandId>,
    removed: Vec<SessionId>,
    capacities: BTreeSet<u32>,
    /// A run that was given up goes on.
    running: Option<Started>,
    last: Run,
}

#[derive(Clone, Copy)]
struct Started {
    at: Time,
    changed: Time,
    counters: Counters,
}

impl Distributed {
    /// Nobody wants anything of the network yet.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn try_new(network: &Network, settings: Settings, effort: Effort) -> Result<Self> {
        let book = Book::new(network);
        let exchange = exchange(&book, &settings)?;
        Ok(Self {
            book,
            settings,
            effort,
            exchange,
            joined: 0,
            owners: Vec::new(),
            calm: Calm::default(),
            touched: BTreeSet::new(),
            removed: Vec::new(),
            capacities: BTreeSet::new(),
            running: None,
            last: Run::default(),
        })
    }

    /// What the last completed [`Allocator::rates`] took.
    pub fn last_run(&self) -> Run {
        self.last
    }

    /// Tells the exchange what has changed.
    fn apply(&mut self) -> Result<()> {
        // Machines of sessions that have left stay with the exchange: begin anew in time.
        if self.joined > 10_000 + 4 * self.book.len() {
            self.begin_anew()?;
        }
        let now = self.exchange.now();
        for session in std::mem::take(&mut self.removed) {
            self.leave(now, session)?;
        }
        for link in std::mem::take(&mut self.capacities) {
            let capacity = self.book.links()[link as usize].capacity;
            if capacity.is_positive() {
                self.exchange.set_capacity(link, capacity)?;
            }
        }
        for id in std::mem::take(&mut self.touched) {
            self.update(now, id)?;
        }
        self.calm.restart();
        // What has been scheduled for now happens, so that who joins is present.
        self.exchange.run_until(now)
    }

    fn update(&mut self, now: Time, id: DemandId) -> Result<()> {
        let Some(entry) = self.book.get(id) else { return Ok(()) };
        let blocked = self.book.down(&entry.path).is_some();
        match (entry.handle, blocked) {
            (Some(session), false) => self.exchange.change(now, session, entry.demand),
            (Some(session), true) => {
                self.set_handle(id, None);
                self.leave(now, session)
            }
            (None, false) => {
                let session = self.exchange.join(now, &entry.path, entry.demand)?;
                self.joined += 1;
                let place = session.0 as usize;
                if self.owners.len() <= place {
                    self.owners.resize(place + 1, None);
                }
                self.owners[place] = Some(id);
                self.set_handle(id, Some(session));
                Ok(())
            }
            (None, true) => Ok(()),
        }
    }

    fn set_handle(&mut self, id: DemandId, session: Option<SessionId>) {
        if let Some(handle) = self.book.handle_mut(id) {
            *handle = session;
        }
    }

    fn leave(&mut self, now: Time, session: SessionId) -> Result<()> {
        self.owners[session.0 as usize] = None;
        self.exchange.leave(now, session)
    }

    fn begin_anew(&mut self) -> Result<()> {
        self.exchange = exchange(&self.book, &self.settings)?;
        self.owners.clear();
        self.calm = Calm::default();
        self.joined = 0;
        self.removed.clear();
        self.capacities.clear();
        self.running = None;
        let all: Vec<DemandId> = self.book.iter().map(|(id, _)| id).collect();
        for id in all {
            self.set_handle(id, None);
            self.touched.insert(id);
        }
        Ok(())
    }

    /// Lets the protocol run until the rates have settled; what limits each session.
    fn settle(&mut self) -> Result<Vec<(DemandId, u64, Limit)>> {
        let now = self.exchange.now();
        let started = Started { at: now, changed: now, counters: self.exchange.counters() };
        let mut started = *self.running.get_or_insert(started);
        let sessions = self.owners.iter().flatten().count();
        let most = self.effort.cycles.saturating_mul(sessions as u64 + 1);
        let limit = self.exchange.counters().cycles.saturating_add(most);
        loop {
            if self.calm.ready() >= sessions {
                if let Some(found) = self.prove() {
                    self.running = None;
                    self.last = self.run_since(&started);
                    return Ok(found);
                }
                self.calm.restart();
            }
            let within = self.exchange.counters().cycles < limit;
            let next = if within { self.exchange.next_cycle(Time::MAX)? } else { None };
            let Some(session) = next else {
                self.running = Some(started);
                let run = self.run_since(&started);
                return Err(Error::Unsettled { time: run.settled, cycles: run.cycles });
            };
            if self.owners[session.0 as usize].is_some() {
                let rate = self.exchange.rate(session).unwrap_or_default();
                if self.calm.cycle(session.0, rate.bits_per_sec()) {
                    started.changed = self.exchange.now();
                }
            }
        }
    }

    fn run_since(&self, started: &Started) -> Run {
        let (now, counters) = (self.exchange.now(), self.exchange.counters());
        Run {
            converged: started.changed.since(started.at),
            settled: now.since(started.at),
            cycles: counters.cycles - started.counters.cycles,
            packets: counters.packets - started.counters.packets,
            crossings: counters.crossings - started.counters.crossings,
        }
    }

    fn prove(&self) -> Option<Vec<(DemandId, u64, Limit)>> {
        let links = self.book.links();
        let capacities: Vec<u64> = links.iter().map(|link| link.capacity.bits_per_sec()).collect();
        let claims = self.book.iter().filter_map(|(demand, entry)| {
            let rate = self.exchange.rate(entry.handle?).unwrap_or_default().bits_per_sec();
            Some(Claim { demand, path: &entry.path, wants: entry.demand.bits_per_sec(), rate })
        });
        let claims: Vec<Claim<'_>> = claims.collect();
        let limits = prove(&capacities, &claims)?;
        Some(
            claims
                .iter()
                .zip(limits)
                .map(|(claim, limit)| (claim.demand, claim.rate, limit))
                .collect(),
        )
    }

    /// The demands that a link which is down keeps from everything.
    fn blocked(&self) -> Vec<(DemandId, u64, Limit)> {
        let down = |(id, entry): (DemandId, &super::book::Entry<_>)| {
            self.book.down(&entry.path).map(|link| (id, 0, Limit::Down(link)))
        };
        self.book.iter().filter_map(down).collect()
    }
}

fn exchange<H>(book: &Book<H>, settings: &Settings) -> Result<Exchange<Slbn>> {
    // A link that is down has no sessions, so that its capacity does not matter yet.
    let least = Bandwidth::from_bits_per_sec(1);
    let wire = |link: &super::Link| Wire::new(link.capacity.max(least), link.delay);
    let wires: Vec<Wire> = book.links().iter().map(wire).collect();
    Exchange::try_new(settings, &wires)
}

impl Allocator for Distributed {
    fn add(&mut self, path: &[u32], demand: Bandwidth) -> Result<DemandId> {
        let demand = Book::<Option<SessionId>>::check_demand(demand)?;
        self.book.check_path(path)?;
        let id = self.book.add(path, demand, None);
        self.touched.insert(id);
        Ok(id)
    }

    fn change(&mut self, id: DemandId, demand: Bandwidth) -> Result<()> {
        self.book.change(id, demand)?;
        self.touched.insert(id);
        Ok(())
    }

    fn remove(&mut self, id: DemandId) -> Result<()> {
        let entry = self.book.remove(id)?;
        self.removed.extend(entry.handle);
        self.touched.remove(&id);
        Ok(())
    }

    fn set_capacity(&mut self, link: u32, capacity: Bandwidth) -> Result<()> {
        self.book.set_capacity(link, capacity)?;
        self.capacities.insert(link);
        // Those across it may have to leave, or may return.
        let across = self.book.iter().filter(|(_, entry)| entry.path.contains(&link));
        self.touched.extend(across.map(|(id, _)| id));
        Ok(())
    }

    fn rates(&mut self) -> Result<Vec<Share>> {
        let changed =
            !(self.touched.is_empty() && self.removed.is_empty() && self.capacities.is_empty());
        if !changed && self.running.is_none() {
            return Ok(Vec::new());
        }
        if changed {
            self.apply()?;
        }
        let mut found = self.settle()?;
        found.extend(self.blocked());
        found.sort_unstable_by_key(|(id, ..)| *id);
        let tell = |(id, rate, limit)| self.book.tell(id, rate, limit);
        Ok(found.into_iter().filter_map(tell).collect())
    }

    fn share(&self, id: DemandId) -> Option<Share> {
        self.book.share(id)
    }
}
