//! Max-min fair rates for a controller of a wide-area network: topology and demands in, rates out.
//!
//! **Problem.** A traffic engineering controller (B4, SWAN) keeps a list of demands, each over a
//! path that it has chosen, and wants to know what each may send: as fair as can be, and no link
//! over its capacity. Demands come, change and go, and links fail; what has not changed should not
//! be told again.
//!
//! **Two ways to the same rates.** [`Central`] knows everything and solves; it is exact and fast.
//! [`Distributed`] lets [SLBN](crate::slbn)'s machines talk over an ideal network
//! ([`crate::exchange`]) until the rates have settled, and tells how long that took
//! ([`Distributed::last_run`]): what routers that run the protocol by themselves would need. Both
//! are an [`Allocator`]. Rates are whole bit/s. Where all rates are unchanged by rounding, both
//! give the same; else they differ by some bit/s, as each link of SLBN rounds its share down.
//!
//! **Links** are directed and numbered from 0 in the order in which the [`Network`] lists them.
//! One whose capacity is 0 is down: demands across it stay, get nothing, and have [`Limit::Down`]
//! until it returns or they are removed. New demands across it are refused: choose another path.
//!
//! **No weights.** SLBN has none, so there are none here: sessions at one bottleneck get the same.
//! A demand that is to count twice is two demands.
//!
//! ```
//! use base::{Bandwidth, Span};
//! use ratecontrol::wan::{Allocator, Central, Limit, Link, Network};
//!
//! let gbits = |rate: u64| Bandwidth::from_mbits_per_sec(rate * 1_000);
//! let link = |capacity, millis| Link { capacity, delay: Span::from_millis(millis) };
//! // Amsterdam → Berlin → Copenhagen.
//! let network = Network::try_new(&[link(gbits(10), 5), link(gbits(4), 4)])?;
//! let mut wan = Central::new(&network);
//!
//! let bulk = wan.add(&[0, 1], gbits(100))?;
//! let video = wan.add(&[0], gbits(1))?;
//! let backup = wan.add(&[0], gbits(100))?;
//! let rates: Vec<_> = wan.rates()?.iter().map(|share| share.rate).collect();
//! assert_eq!(rates, [gbits(4), gbits(1), gbits(5)]);
//! assert_eq!(wan.share(bulk).map(|share| share.limit), Some(Limit::Link(1)));
//!
//! // Changes made together are worked in together; what stays as it was is not told again.
//! wan.change(video, gbits(2))?;
//! wan.set_capacity(1, gbits(3))?;
//! let changed = wan.rates()?;
//! let told: Vec<_> = changed.iter().map(|share| (share.demand, share.rate)).collect();
//! assert_eq!(told, [(bulk, gbits(3)), (video, gbits(2))]);
//! # Ok::<(), ratecontrol::Error>(())
//! ```

mod book;
mod central;
mod distributed;
mod settling;
#[cfg(test)]
mod tests;

use std::fmt;

use base::{Bandwidth, Span};

pub use central::Central;
pub use distributed::{Distributed, Effort, Run};

use crate::{Error, MOST_RATE, Result};

/// The longest delay of a link.
const LONGEST: Span = Span::from_secs(3_600);

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What is shared; 0 while the link is down, 2⁵⁶ bit/s at most.
    pub capacity: Bandwidth,
    /// Its delay, an hour at most: how long [`Distributed`] runs take depends on it, rates don't.
    pub delay: Span,
}

/// Links, numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    links: Vec<Link>,
}

impl Network {
    /// A network of these links.
    ///
    /// # Errors
    /// [`Error::Capacity`] or [`Error::Delay`] if one is too large.
    pub fn try_new(links: &[Link]) -> Result<Self> {
        for link in links {
            check_capacity(link.capacity)?;
            if link.delay > LONGEST {
                return Err(Error::Delay { delay: link.delay, most: LONGEST });
            }
        }
        Ok(Self { links: links.to_vec() })
    }

    /// The links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}

fn check_capacity(capacity: Bandwidth) -> Result<()> {
    if capacity.bits_per_sec() > MOST_RATE {
        return Err(Error::Capacity { capacity });
    }
    Ok(())
}

/// A demand of an [`Allocator`]. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DemandId(u64);

impl fmt::Display for DemandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What keeps a demand from more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: it gets all that it asks for.
    Demand,
    /// This link is full, and nobody has more of it. Of several such links it is any.
    Link(u32),
    /// This link of its path is down: it gets nothing.
    Down(u32),
}

/// What a demand gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which demand.
    pub demand: DemandId,
    /// What it may send.
    pub rate: Bandwidth,
    /// Why not more.
    pub limit: Limit,
}

/// Shares a network's links among demands.
///
/// Changes are collected; [`Allocator::rates`] works them in, all together. A change that is
/// refused changes nothing.
pub trait Allocator {
    /// A new demand over the links of `path`, in order from its source.
    ///
    /// # Errors
    /// [`Error::Demand`] if it wants nothing, [`Error::Path`] if the path is empty or too long,
    /// [`Error::NoSuchLink`], [`Error::Loop`], and [`Error::Down`] if a link of the path is down.
    fn add(&mut self, path: &[u32], demand: Bandwidth) -> Result<DemandId>;

    /// A demand wants another rate.
    ///
    /// # Errors
    /// [`Error::NoSuchDemand`], [`Error::Demand`].
    fn change(&mut self, id: DemandId, demand: Bandwidth) -> Result<()>;

    /// A demand ends.
    ///
    /// # Errors
    /// [`Error::NoSuchDemand`].
    fn remove(&mut self, id: DemandId) -> Result<()>;

    /// A link has another capacity; with 0 it is down.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`], [`Error::Capacity`].
    fn set_capacity(&mut self, link: u32, capacity: Bandwidth) -> Result<()>;

    /// Works in what has changed. The demands whose rate is another one than they were told, new
    /// ones included, by their number. Changes by a relative 10⁻⁸ or 1 bit/s are rounding and not
    /// told.
    ///
    /// # Errors
    /// [`Error::Unsettled`] if that takes a distributed run more effort than it may; all changes
    /// stay, nobody has been told anything, and the next call goes on from there.
    fn rates(&mut self) -> Result<Vec<Share>>;

    /// What a demand was told last.
    fn share(&self, id: DemandId) -> Option<Share>;
}
