//! Rates by solving.

use base::Bandwidth;
use sharing::{Bottleneck, FlowKey, LinkKey, Solver};

use super::book::{Book, Entry};
use super::{Allocator, DemandId, Limit, Network, Share};
use crate::Result;

/// Makes up for what the solver's floats lose of whole numbers, bit/s; no sum on a link gets above
/// its capacity by it, as rates are rounded down.
const NUDGE: f64 = 1e-3;

/// An [`Allocator`] that knows everything: [`sharing::Solver`], which refills only what a change
/// reaches. Rates are rounded down to whole bit/s.
#[derive(Clone, Debug)]
pub struct Central {
    book: Book<FlowKey>,
    solver: Solver,
    /// By [`FlowKey`].
    owners: Vec<Option<DemandId>>,
    /// Those that have not been told anything.
    fresh: Vec<DemandId>,
}

impl Central {
    /// Nobody wants anything of the network yet.
    pub fn new(network: &Network) -> Self {
        let mut solver = Solver::new();
        for link in network.links() {
            solver.add_link(link.capacity.bits_per_sec() as f64);
        }
        Self { book: Book::new(network), solver, owners: Vec::new(), fresh: Vec::new() }
    }

    fn found(&self, entry: &Entry<FlowKey>) -> (u64, Limit) {
        if let Some(link) = self.book.down(&entry.path) {
            return (0, Limit::Down(link));
        }
        let rate = (self.solver.rate(entry.handle) + NUDGE).floor() as u64;
        let limit = match self.solver.bottleneck(entry.handle) {
            Bottleneck::Cap => Limit::Demand,
            Bottleneck::Link(link) => Limit::Link(link.0),
        };
        (rate.min(entry.demand.bits_per_sec()), limit)
    }
}

impl Allocator for Central {
    fn add(&mut self, path: &[u32], demand: Bandwidth) -> Result<DemandId> {
        let demand = Book::<FlowKey>::check_demand(demand)?;
        self.book.check_path(path)?;
        let keys: Vec<LinkKey> = path.iter().map(|link| LinkKey(*link)).collect();
        let key = self.solver.add_flow(&keys, 1.0, demand.bits_per_sec() as f64);
        let id = self.book.add(path, demand, key);
        if self.owners.len() <= key.0 as usize {
            self.owners.resize(key.0 as usize + 1, None);
        }
        self.owners[key.0 as usize] = Some(id);
        self.fresh.push(id);
        Ok(id)
    }

    fn change(&mut self, id: DemandId, demand: Bandwidth) -> Result<()> {
        let entry = self.book.change(id, demand)?;
        self.solver.set_demand(entry.handle, 1.0, entry.demand.bits_per_sec() as f64);
        Ok(())
    }

    fn remove(&mut self, id: DemandId) -> Result<()> {
        let entry = self.book.remove(id)?;
        self.owners[entry.handle.0 as usize] = None;
        self.solver.remove_flow(entry.handle);
        Ok(())
    }

    fn set_capacity(&mut self, link: u32, capacity: Bandwidth) -> Result<()> {
        self.book.set_capacity(link, capacity)?;
        self.solver.set_capacity(LinkKey(link), capacity.bits_per_sec() as f64);
        Ok(())
    }

    fn rates(&mut self) -> Result<Vec<Share>> {
        let changed = self.solver.solve();
        let owned = changed.iter().filter_map(|key| self.owners[key.0 as usize]);
        let mut ids: Vec<DemandId> = owned.chain(self.fresh.drain(..)).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut told = Vec::new();
        for id in ids {
            // Some of the new ones have gone already.
            let Some(entry) = self.book.get(id) else { continue };
            let (rate, limit) = self.found(entry);
            told.extend(self.book.tell(id, rate, limit));
        }
        Ok(told)
    }

    fn share(&self, id: DemandId) -> Option<Share> {
        self.book.share(id)
    }
}
