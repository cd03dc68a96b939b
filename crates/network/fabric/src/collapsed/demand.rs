//! Start and end of flows, and their demands.

use sharing::{FlowName, Notice, Window};

use super::State;
use super::path::{Reach, constant};
use super::tunnel::IDLE;
use crate::network::Fabric;
use crate::packet::Part;

impl State {
    /// Whether a packet makes its flow take part in the sharing, with an unlimited demand.
    pub(super) fn starts(&self, at: usize, part: Part) -> bool {
        let tunnel = &self.tunnels[at];
        matches!(part, Part::Opening | Part::Data)
            && !tunnel.elastic
            && tunnel.key.reach == Reach::Whole
            && tunnel.key.to.is_some()
    }

    /// A flow starts to take part; `most` is its observed rate if its demand is limited.
    pub(super) fn start<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        at: usize,
        most: Option<base::Bandwidth>,
    ) {
        self.withdraw(fabric, at);
        let tunnel = &mut self.tunnels[at];
        let Some(to) = tunnel.key.to else { return };
        let flow = FlowName { sender: self.sender, number: self.names };
        self.names = self.names.wrapping_add(1);
        tunnel.name = Some(flow);
        tunnel.most = most;
        tunnel.elastic = most.is_none();
        let (from, hash, windowed) = (tunnel.key.from, tunnel.key.hash, tunnel.elastic);
        self.by_name.insert(flow, at as u32);
        self.announce(&Notice::Started { flow, from, to, hash, windowed, most }, at);
        self.solve(fabric);
        self.set_rate(fabric, at);
    }

    /// A flow stops taking part.
    fn end<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        if self.withdraw(fabric, at) {
            self.solve(fabric);
            self.set_rate(fabric, at);
        }
    }

    /// The same without a computation of shares; returns whether the flow took part.
    fn withdraw<B>(&mut self, fabric: &mut Fabric<B>, at: usize) -> bool {
        let tunnel = &mut self.tunnels[at];
        let Some(flow) = tunnel.name.take() else { return false };
        (tunnel.most, tunnel.elastic, tunnel.closing) = (None, false, false);
        self.by_name.remove(&flow);
        let link = &mut fabric.links[self.own + at];
        link.observed = link.reports_at_once();
        self.announce(&Notice::Ended { flow }, at);
        true
    }

    /// Sets the maximum rate of a flow; returns whether it has changed.
    fn ask(&mut self, at: usize, most: Option<base::Bandwidth>) -> bool {
        let tunnel = &mut self.tunnels[at];
        let Some(flow) = tunnel.name.filter(|_| tunnel.is_news(most)) else { return false };
        tunnel.most = most;
        self.announce(&Notice::Rate { flow, most }, at);
        true
    }

    /// Updates a flow's state after a packet has entered its tunnel.
    pub(super) fn heed<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        at: usize,
        part: Part,
    ) {
        let tunnel = &mut self.tunnels[at];
        if tunnel.name.is_none() {
            return;
        }
        let link = &mut fabric.links[self.own + at];
        if matches!(part, Part::Closing | Part::Reset) {
            // The flow keeps its share until its last packet has left.
            tunnel.closing = true;
            link.observed = true;
        }
        if tunnel.closing && link.backlog() == 0 && !link.is_busy() {
            self.end(fabric, at);
        } else if tunnel.wants_more(link.backlog()) && self.ask(at, None) {
            self.solve(fabric);
        }
    }

    /// Checks a tunnel whose transmitter has advanced: a closing flow may have ended.
    pub(super) fn look(&mut self, fabric: &mut Fabric<impl Clone + 'static>, at: usize) {
        let link = &fabric.links[self.own + at];
        if self.tunnels[at].closing && link.backlog() == 0 && !link.is_busy() {
            self.end(fabric, at);
        }
    }

    /// Measures every flow at the end of a period.
    pub(super) fn end_period<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>) {
        let now = fabric.now;
        if self.tick != Some(now) {
            return;
        }
        self.tick = None;
        let mut changed = false;
        for at in 0..self.tunnels.len() {
            if !self.tunnels[at].alive {
                continue;
            }
            let index = self.own + at;
            fabric.links[index].settle(now, &mut fabric.packets);
            fabric.reschedule(index);
            let link = &fabric.links[index];
            self.tunnels[at].measure(link.stats.offered_bytes);
            let busy = link.backlog() > 0 || self.tunnels[at].fills(constant(&link.config));
            if self.tunnels[at].name.is_some() {
                changed |= self.revise(fabric, at, busy);
            } else if self.counts(at) {
                let demand = self.tunnels[at].demand();
                self.start(fabric, at, Some(demand));
            }
            if now.since(self.tunnels[at].last) > IDLE && fabric.links[index].is_empty() {
                self.remove(fabric, at);
            }
        }
        if changed {
            self.solve(fabric);
        }
        for at in 0..self.tunnels.len() {
            // The rates of other flows change its allowance, not its share.
            if self.tunnels[at].alive && self.tunnels[at].most.is_some() {
                self.set_rate(fabric, at);
            }
        }
        if self.tunnels.len() > self.free.len() {
            self.schedule_tick(fabric);
        }
    }

    /// Whether a flow shares the capacity because of the data that it has sent, although no single
    /// packet started it.
    fn counts(&self, at: usize) -> bool {
        let tunnel = &self.tunnels[at];
        (!tunnel.stream || self.law.acks)
            && tunnel.key.reach == Reach::Whole
            && tunnel.key.to.is_some()
            && tunnel.measured[0] > 0
    }

    /// Measures the data that a flow has sent; returns whether its demand has changed.
    fn revise<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        at: usize,
        busy: bool,
    ) -> bool {
        let tunnel = &self.tunnels[at];
        if !tunnel.elastic {
            if tunnel.is_silent() {
                self.end(fabric, at);
                return false;
            }
            let demand = tunnel.demand();
            return self.ask(at, Some(demand));
        }
        if fabric.now.since(tunnel.last) > IDLE && !busy {
            self.end(fabric, at);
            return false;
        }
        if self.law.window != Window::Auto {
            return false;
        }
        let most = (!busy).then(|| tunnel.demand());
        self.ask(at, most)
    }

    /// Removes an empty tunnel.
    fn remove<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        self.end(fabric, at);
        self.account_one(fabric, at);
        let tunnel = &mut self.tunnels[at];
        tunnel.alive = false;
        self.by_key.remove(&tunnel.key);
        self.free.push(at as u32);
    }
}
