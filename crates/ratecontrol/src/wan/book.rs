//! Who wants what: the part of an allocator that does not depend on how rates are found.

use std::collections::BTreeMap;

use base::Bandwidth;

use super::{DemandId, Limit, Link, Network, Share, check_capacity};
use crate::slbn::MOST_HOPS;
use crate::{Error, Result, bounds};

/// A demand, and what the allocator knows it by.
#[derive(Clone, Debug)]
pub(super) struct Entry<H> {
    pub(super) path: Box<[u32]>,
    pub(super) demand: Bandwidth,
    pub(super) handle: H,
    told: Option<Share>,
}

/// Links and demands.
#[derive(Clone, Debug)]
pub(super) struct Book<H> {
    links: Vec<Link>,
    demands: BTreeMap<DemandId, Entry<H>>,
    next: u64,
}

impl<H> Book<H> {
    pub(super) fn new(network: &Network) -> Self {
        Self { links: network.links.clone(), demands: BTreeMap::new(), next: 0 }
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// What can be asked for: more is as good as no limit.
    pub(super) fn check_demand(demand: Bandwidth) -> Result<Bandwidth> {
        bounds::demand(demand).map(Bandwidth::from_bits_per_sec)
    }

    pub(super) fn check_path(&self, path: &[u32]) -> Result<()> {
        if path.is_empty() || path.len() > usize::from(MOST_HOPS) {
            return Err(Error::Path { hops: path.len(), most: usize::from(MOST_HOPS) });
        }
        for (place, &link) in path.iter().enumerate() {
            if link as usize >= self.links.len() {
                return Err(Error::NoSuchLink { link });
            }
            if path[..place].contains(&link) {
                return Err(Error::Loop { link });
            }
        }
        self.down(path).map_or(Ok(()), |link| Err(Error::Down { link }))
    }

    /// The first link of a path that is down.
    pub(super) fn down(&self, path: &[u32]) -> Option<u32> {
        let is_down = |link: &u32| !self.links[*link as usize].capacity.is_positive();
        path.iter().copied().find(is_down)
    }

    /// Adds a demand that has been checked.
    pub(super) fn add(&mut self, path: &[u32], demand: Bandwidth, handle: H) -> DemandId {
        let id = DemandId(self.next);
        self.next += 1;
        let entry = Entry { path: path.into(), demand, handle, told: None };
        self.demands.insert(id, entry);
        id
    }

    pub(super) fn change(&mut self, id: DemandId, demand: Bandwidth) -> Result<&Entry<H>> {
        let demand = Self::check_demand(demand)?;
        let entry = self.demands.get_mut(&id).ok_or(Error::NoSuchDemand { demand: id.0 })?;
        entry.demand = demand;
        Ok(entry)
    }

    pub(super) fn remove(&mut self, id: DemandId) -> Result<Entry<H>> {
        self.demands.remove(&id).ok_or(Error::NoSuchDemand { demand: id.0 })
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: Bandwidth) -> Result<()> {
        check_capacity(capacity)?;
        let known = self.links.get_mut(link as usize).ok_or(Error::NoSuchLink { link })?;
        known.capacity = capacity;
        Ok(())
    }

    pub(super) fn get(&self, id: DemandId) -> Option<&Entry<H>> {
        self.demands.get(&id)
    }

    pub(super) fn handle_mut(&mut self, id: DemandId) -> Option<&mut H> {
        self.demands.get_mut(&id).map(|entry| &mut entry.handle)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (DemandId, &Entry<H>)> {
        self.demands.iter().map(|(id, entry)| (*id, entry))
    }

    pub(super) fn len(&self) -> usize {
        self.demands.len()
    }

    pub(super) fn share(&self, id: DemandId) -> Option<Share> {
        self.demands.get(&id).and_then(|entry| entry.told)
    }

    /// Notes what a demand gets; what to tell if its rate is another one than it was told. Rates
    /// that links limit come from roundings, which need not be told.
    pub(super) fn tell(&mut self, id: DemandId, rate: u64, limit: Limit) -> Option<Share> {
        let entry = self.demands.get_mut(&id)?;
        let share = Share { demand: id, rate: Bandwidth::from_bits_per_sec(rate), limit };
        let rounding = if limit == Limit::Demand { 0 } else { rate / 100_000_000 + 1 };
        let told = entry.told.map(|told| told.rate.bits_per_sec());
        if let Some(told) = told.filter(|told| told.abs_diff(rate) <= rounding) {
            let rate = Bandwidth::from_bits_per_sec(told);
            entry.told = Some(Share { rate, ..share });
            return None;
        }
        entry.told = Some(share);
        Some(share)
    }
}
