//! Counts the packets in tunnels on the network's own links.

use base::{Bandwidth, IfaceId, Time};
use sharing::Sharing;

use super::State;
use crate::network::Fabric;
use crate::stats::{LinkStats, QueueLevel};

/// The share and counters of a flow at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The interface through which it enters the network.
    pub from: IfaceId,
    /// The interface of its destination address.
    pub to: IfaceId,
    /// See [`crate::Packet::flow`].
    pub flow: u32,
    /// Whether it is one direction of a TCP connection.
    pub stream: bool,
    /// Its share of its path; `None`: its path is unlimited.
    pub share: Option<Bandwidth>,
    /// Its maximum rate; `None`: unlimited.
    pub most: Option<Bandwidth>,
    /// Time at which it was first seen, or seen again after a long idle time.
    pub since: Time,
    /// Wire bytes that it has sent since then.
    pub sent: u64,
}

impl<B: Clone + 'static> Fabric<B> {
    /// The flows that share the network in the collapsed model, in no stable order; none
    /// in the other model.
    pub fn shares(&self) -> impl Iterator<Item = Share> + '_ {
        let state = self.collapsed.as_deref();
        state.into_iter().flat_map(|state| {
            state.tunnels.iter().enumerate().filter_map(|(at, tunnel)| {
                let name = tunnel.name?;
                Some(Share {
                    from: tunnel.key.from,
                    to: tunnel.key.to?,
                    flow: tunnel.key.hash,
                    stream: tunnel.stream,
                    share: match state.law.sharing {
                        Sharing::None => tunnel.capacity,
                        _ => state.table.share(name).filter(|share| *share < super::UNLIMITED),
                    },
                    most: tunnel.most,
                    since: tunnel.made,
                    sent: self.links[state.own + at].stats.sent_bytes,
                })
            })
        })
    }

    /// Number of computations of shares.
    pub fn shares_computed(&self) -> u64 {
        self.collapsed.as_ref().map_or(0, |state| state.solved)
    }

    /// Updates the counters of the network's links with the packets in tunnels up to now.
    pub(crate) fn account_tunnels(&mut self) {
        let now = self.now;
        let Some(mut state) = self.collapsed.take() else { return };
        if state.accounted != Some(now) {
            for level in &mut state.levels {
                (level.packets, level.bytes) = (0, 0);
            }
            for at in 0..state.tunnels.len() {
                if state.tunnels[at].alive {
                    state.account_one(self, at);
                    state.count_waiting(self, at);
                }
            }
            state.accounted = Some(now);
        }
        self.collapsed = Some(state);
    }

    /// The tunnels' queue for the link direction at `index`; resets the peak. `None`
    /// in the other model.
    pub(crate) fn take_tunnel_level(&mut self, index: usize) -> Option<QueueLevel> {
        let level = &mut self.collapsed.as_mut()?.levels[index];
        let (packets, bytes) = (level.packets, level.bytes);
        let rest = QueueLevel {
            packets,
            bytes,
            peak_packets: packets,
            peak_bytes: bytes,
            ..QueueLevel::default()
        };
        Some(std::mem::replace(level, rest))
    }

    /// Number of link crossings by packets in tunnels that the network's links
    /// have not counted yet.
    pub(crate) fn uncounted_hops(&self) -> u64 {
        let Some(state) = self.collapsed.as_deref() else { return 0 };
        let hops = |(at, tunnel): (usize, &super::Tunnel)| {
            let delivered = self.links[state.own + at].stats.delivered_packets;
            let fresh = delivered.saturating_sub(tunnel.counted.delivered_packets);
            fresh * tunnel.route.hops.len() as u64
        };
        state.tunnels.iter().enumerate().filter(|(_, t)| t.alive).map(hops).sum()
    }

    /// The directions of the network's own links.
    pub(crate) fn own_links(&self) -> usize {
        self.collapsed.as_ref().map_or(self.links.len(), |state| state.own)
    }
}

impl State {
    /// Counts the packets of one tunnel on the links of its route: drops and queue at the narrowest
    /// link, offered packets before it, delivered packets after it.
    pub(super) fn account_one<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        let (own, tunnel) = (self.own, &mut self.tunnels[at]);
        let (links, tunnels) = fabric.links.split_at_mut(own);
        let link = &mut tunnels[at];
        link.settle(fabric.now, &mut fabric.packets);
        let narrow = tunnel.route.hops[tunnel.narrowest].index();
        let level = link.take_queue_level();
        let total = &mut self.levels[narrow];
        total.peak_packets = total.peak_packets.max(level.peak_packets);
        total.peak_bytes = total.peak_bytes.max(level.peak_bytes);
        total.peak_delay = total.peak_delay.max(level.peak_delay);
        if let Some(waits) = link.waits.take() {
            links[narrow].waits.get_or_insert_default().merge(&waits);
        }
        let fresh = link.stats.since(&tunnel.counted);
        if fresh != LinkStats::default() {
            tunnel.counted = link.stats.clone();
            for (hop, iface) in tunnel.route.hops.iter().enumerate() {
                let share = match hop.cmp(&tunnel.narrowest) {
                    std::cmp::Ordering::Less => {
                        LinkStats::passed(fresh.offered_packets, fresh.offered_bytes)
                    }
                    std::cmp::Ordering::Equal => fresh.clone(),
                    std::cmp::Ordering::Greater => {
                        LinkStats::passed(fresh.delivered_packets, fresh.delivered_bytes)
                    }
                };
                links[iface.index()].stats.add(&share);
            }
        }
        fabric.reschedule(own + at);
    }

    /// Adds a tunnel's queue to that of its narrowest link.
    fn count_waiting<B: Clone + 'static>(&mut self, fabric: &Fabric<B>, at: usize) {
        let tunnel = &self.tunnels[at];
        let level = fabric.links[self.own + at].queue_level();
        let total = &mut self.levels[tunnel.route.hops[tunnel.narrowest].index()];
        total.packets += level.packets;
        total.bytes += level.bytes;
        total.peak_packets = total.peak_packets.max(total.packets);
        total.peak_bytes = total.peak_bytes.max(total.bytes);
    }
}
