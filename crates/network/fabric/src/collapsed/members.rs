//! A fabric that is one of several senders of a lab: the notices that it sends and receives.

use base::{Bandwidth, IfaceId, Span, Time};
use sharing::{FlowName, Notice, Path, Sharing};

use super::path::{End, Topology};
use super::tunnel::Tunnel;
use super::{State, links_of, topology};
use crate::network::Fabric;

/// An announcement about one of the fabric's flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Announced {
    /// The notice for the other senders.
    pub notice: Notice,
    /// The flow's route when it starts or changes its route.
    pub path: Option<Path>,
}

/// A flow of another sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    from: IfaceId,
    to: IfaceId,
    hash: u32,
}

impl<B: Clone + 'static> Fabric<B> {
    /// Makes it the lab's sender of this number, which stores its notices to the others for
    /// [`Self::announced`]. Must be called before the first packet.
    pub fn join(&mut self, sender: u32) {
        if let Some(state) = &mut self.collapsed {
            (state.sender, state.announced) = (sender, Some(Vec::new()));
        }
    }

    /// Takes the notices for the other senders since the last call, in order.
    pub fn announced(&mut self) -> Vec<Announced> {
        let state = self.collapsed.as_mut();
        state.and_then(|state| state.announced.as_mut()).map(std::mem::take).unwrap_or_default()
    }

    /// Whether [`Self::announced`] would return notices.
    pub fn has_announced(&self) -> bool {
        let announced = self.collapsed.as_ref().and_then(|state| state.announced.as_ref());
        announced.is_some_and(|announced| !announced.is_empty())
    }

    /// Applies notices of other senders; shares are computed once for all of them.
    pub fn apply_notices(&mut self, now: Time, notices: &[Notice]) {
        self.advance(now);
        self.collapsed(|fabric, state| {
            for notice in notices {
                state.apply_notice(&topology(fabric), notice);
            }
            state.solve(fabric);
        });
    }

    /// Sets the share and the allowance of one of its flows, as the agents have agreed; `None`:
    /// unlimited. Only with [`Sharing::Slbn`].
    pub fn assign(
        &mut self,
        now: Time,
        flow: FlowName,
        share: Option<Bandwidth>,
        allowance: Option<Bandwidth>,
    ) {
        self.advance(now);
        self.collapsed(|fabric, state| {
            if state.law.sharing != Sharing::Slbn {
                return;
            }
            let most = super::UNLIMITED;
            state.table.assign(flow, share.unwrap_or(most), allowance.unwrap_or(most));
            state.solved += 1;
            if let Some(at) = state.by_name.get(&flow) {
                state.set_rate(fabric, *at as usize);
            }
        });
    }

    /// Packets for the interfaces that are `meant` are delivered this long before they are due,
    /// with their due times, because their carrier needs this time. A path with a shorter delay
    /// delivers its packets as soon as they are in flight. Due times do not change.
    pub fn set_lead(&mut self, now: Time, meant: impl Fn(IfaceId) -> bool, lead: Span) {
        self.advance(now);
        self.collapsed(|fabric, state| {
            state.leads.resize(fabric.at.len(), Span::ZERO);
            for (at, known) in state.leads.iter_mut().enumerate() {
                if meant(IfaceId::at(at)) {
                    *known = lead;
                }
            }
            for at in 0..state.tunnels.len() {
                let tunnel = &state.tunnels[at];
                if tunnel.alive && meant(tunnel.far()) {
                    fabric.links[state.own + at].lead = state.lead(tunnel);
                    fabric.reschedule(state.own + at);
                }
            }
        });
    }

    /// The route of a flow, as all senders of the lab compute it; `None` in the other model.
    pub fn path_of(&self, from: IfaceId, to: IfaceId, hash: u32) -> Option<Path> {
        self.collapsed.as_ref().map(|_| path_of(&topology(self), Foreign { from, to, hash }))
    }

    /// The capacity of each link direction (zero while it is down, `None` if unlimited), by its
    /// egress interface; empty in the other model.
    pub fn capacities(&self) -> Vec<Option<Bandwidth>> {
        let Some(state) = &self.collapsed else { return Vec::new() };
        let topology = topology(self);
        (0..state.own).map(|at| topology.capacity(IfaceId::at(at))).collect()
    }

    /// Number of changes of links and routes, after which [`Self::capacities`]
    /// and paths may differ.
    pub fn topology_changes(&self) -> u64 {
        self.collapsed.as_ref().map_or(0, |state| state.changes)
    }
}

fn path_of(topology: &Topology<'_>, flow: Foreign) -> Path {
    let route = topology.route(flow.from, Some(flow.to), flow.hash);
    Path { links: links_of(&route), round_trip: topology.round_trip(&route, flow.hash) }
}

impl State {
    /// Applies a notice of another sender.
    fn apply_notice(&mut self, topology: &Topology<'_>, notice: &Notice) {
        match *notice {
            Notice::Started { flow, from, to, hash, .. } => {
                // A notice from another host may contain any identifiers.
                let known = |iface: IfaceId| iface.index() < self.own;
                if flow.sender == self.sender || !known(from) || !known(to) {
                    return;
                }
                let foreign = Foreign { from, to, hash };
                self.foreign.insert(flow, foreign);
                self.table.apply_notice(notice, || path_of(topology, foreign));
            }
            Notice::Rate { flow, .. } if self.foreign.contains_key(&flow) => {
                self.table.apply_notice(notice, || unreachable!("only a start asks for the path"));
            }
            Notice::Ended { flow } if self.foreign.remove(&flow).is_some() => {
                self.table.apply_notice(notice, || unreachable!("only a start asks for the path"));
            }
            Notice::Rate { .. } | Notice::Ended { .. } => {}
        }
    }

    /// Updates the routes of other senders' flows after a change of links or routes.
    pub(super) fn reroute_foreign(&mut self, topology: &Topology<'_>) {
        self.changes += 1;
        for (flow, foreign) in &self.foreign {
            self.table.reroute(*flow, &path_of(topology, *foreign));
        }
    }

    /// The lead time of a tunnel's packets.
    pub(super) fn lead(&self, tunnel: &Tunnel) -> Span {
        let lead = self.leads.get(tunnel.far().index()).filter(|_| tunnel.route.end == End::Edge);
        lead.copied().unwrap_or_default()
    }
}
