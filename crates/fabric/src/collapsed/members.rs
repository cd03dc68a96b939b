//! A fabric that is one of several senders of a lab: what it tells the others and hears of them.

use base::{Bandwidth, IfaceId, Span, Time};
use sharing::{FlowName, Notice, Path, Sharing};

use super::path::{End, Topology};
use super::tunnel::Tunnel;
use super::{State, links_of, topology};
use crate::network::Fabric;

/// What a fabric tells of one of its flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Announced {
    /// What the other senders need to know.
    pub notice: Notice,
    /// The flow's way, where it starts or has another one.
    pub path: Option<Path>,
}

/// Another sender's flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    from: IfaceId,
    to: IfaceId,
    hash: u32,
}

impl<B: Clone + 'static> Fabric<B> {
    /// Makes it the lab's sender of this number, which keeps what it has to tell the others for
    /// [`Self::announced`]. To be called before the first packet.
    pub fn join(&mut self, sender: u32) {
        if let Some(state) = &mut self.collapsed {
            (state.sender, state.announced) = (sender, Some(Vec::new()));
        }
    }

    /// What has to be told the other senders since the last call, in order.
    pub fn announced(&mut self) -> Vec<Announced> {
        let state = self.collapsed.as_mut();
        state.and_then(|state| state.announced.as_mut()).map(std::mem::take).unwrap_or_default()
    }

    /// Whether [`Self::announced`] has something.
    pub fn has_announced(&self) -> bool {
        let announced = self.collapsed.as_ref().and_then(|state| state.announced.as_ref());
        announced.is_some_and(|announced| !announced.is_empty())
    }

    /// Other senders have told these; shares are computed once for all of them.
    pub fn hear(&mut self, now: Time, notices: &[Notice]) {
        self.advance(now);
        self.collapsed(|fabric, state| {
            for notice in notices {
                state.hear(&topology(fabric), notice);
            }
            state.solve(fabric);
        });
    }

    /// Gives one of its own flows a share of its path that was agreed on elsewhere, and what it
    /// may send; `None`: without limit. Only with [`Sharing::Slbn`].
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

    /// Packets for the interfaces that are `meant` are handed out this much before they are due,
    /// and say when they are: whoever carries them on needs that time. A path with a shorter delay
    /// gives its packets as soon as they are on their way. When each is due stays as it was.
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

    /// The way of a flow, as every sender of the lab knows it; `None` in the other model.
    pub fn path_of(&self, from: IfaceId, to: IfaceId, hash: u32) -> Option<Path> {
        self.collapsed.as_ref().map(|_| path_of(&topology(self), Foreign { from, to, hash }))
    }

    /// The capacity of each link direction (zero while it is out of service, `None` without
    /// limit), by the interface that sends into it; empty in the other model.
    pub fn capacities(&self) -> Vec<Option<Bandwidth>> {
        let Some(state) = &self.collapsed else { return Vec::new() };
        let topology = topology(self);
        (0..state.own).map(|at| topology.capacity(IfaceId::at(at))).collect()
    }

    /// Counts changes of links and routes, after which [`Self::capacities`] and paths may be
    /// others.
    pub fn topology_changes(&self) -> u64 {
        self.collapsed.as_ref().map_or(0, |state| state.changes)
    }
}

fn path_of(topology: &Topology<'_>, flow: Foreign) -> Path {
    let way = topology.way(flow.from, Some(flow.to), flow.hash);
    Path { links: links_of(&way), round_trip: topology.round_trip(&way, flow.hash) }
}

impl State {
    /// Works in what another sender has told.
    fn hear(&mut self, topology: &Topology<'_>, notice: &Notice) {
        match *notice {
            Notice::Started { flow, from, to, hash, .. } => {
                // What comes from elsewhere may name anything.
                let known = |iface: IfaceId| iface.index() < self.own;
                if flow.sender == self.sender || !known(from) || !known(to) {
                    return;
                }
                let foreign = Foreign { from, to, hash };
                self.foreign.insert(flow, foreign);
                self.table.hear(notice, || path_of(topology, foreign));
            }
            Notice::Rate { flow, .. } if self.foreign.contains_key(&flow) => {
                self.table.hear(notice, || unreachable!("only a start asks for the path"));
            }
            Notice::Ended { flow } if self.foreign.remove(&flow).is_some() => {
                self.table.hear(notice, || unreachable!("only a start asks for the path"));
            }
            Notice::Rate { .. } | Notice::Ended { .. } => {}
        }
    }

    /// Links or routes have changed: ways of other senders' flows may be others.
    pub(super) fn reroute_foreign(&mut self, topology: &Topology<'_>) {
        self.changes += 1;
        for (flow, foreign) in &self.foreign {
            self.table.reroute(*flow, &path_of(topology, *foreign));
        }
    }

    /// By how much a tunnel's packets are handed out before they are due.
    pub(super) fn lead(&self, tunnel: &Tunnel) -> Span {
        let lead = self.leads.get(tunnel.far().index()).filter(|_| tunnel.way.end == End::Edge);
        lead.copied().unwrap_or_default()
    }
}
