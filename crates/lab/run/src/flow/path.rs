//! The path of a flow and the minimum time of a transfer over it.

use base::{Bytes, IfaceId, NodeId, Span};
use fabric::{LinkConfig, Rate, Trace};
use lab::plan::{Action, Family, Flow, Plan};
use lab::routes::Routes;

/// TCP's header with the timestamps option (RFC 7323), which every segment has.
const TCP_HEADER_BYTES: u32 = 32;

/// The maximum of the IP length field.
const MAX_PACKET_BYTES: u32 = 65_535;

/// The paths over all links that are up at some time of a run.
#[derive(Debug)]
pub struct Paths<'a> {
    plan: &'a Plan,
    routes: Routes,
    /// Whether each link is up at some time of the run.
    ever_up: Vec<bool>,
    /// The smallest MTU of each interface's link during the run; `None` if unlimited.
    mtus: Vec<Option<u32>>,
}

/// One direction of an empty path at the start of the lab.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Path {
    /// The sum of propagation delays.
    delay: Span,
    /// The lowest link rate in bit/s; `None` if all are unlimited.
    rate: Option<f64>,
}

/// The minimum time of a transfer: see [`Ideal::completion`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ideal {
    /// Propagation delay in both directions.
    round_trip: Span,
    /// Propagation delay to the receiver.
    one_way: Span,
    /// The lowest link rate to the receiver, in bit/s.
    rate: Option<f64>,
    /// Payload of a full segment.
    mss: u32,
    /// Wire bytes of a segment beyond its payload.
    header: u32,
}

/// Bytes of an IP header without options.
pub const fn ip_header(family: Family) -> u32 {
    match family {
        Family::V4 => 20,
        Family::V6 => 40,
    }
}

impl<'a> Paths<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        let ever_up = ever_up(plan);
        let routes = Routes::compute(plan, &ever_up);
        Self { plan, routes, ever_up, mtus: smallest_mtus(plan) }
    }

    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The routes at the start of the run.
    pub fn into_first_routes(self) -> Routes {
        let now: Vec<bool> = self.plan.links.iter().map(|link| link.up).collect();
        if now == self.ever_up { self.routes } else { Routes::compute(self.plan, &now) }
    }

    /// The smallest MTU during the run on any of the equal-cost paths between two nodes.
    pub fn mtu(&self, from: NodeId, to: IfaceId) -> u32 {
        let (mut seen, mut next) = (vec![from], 0);
        let mut smallest = MAX_PACKET_BYTES;
        while let Some(node) = seen.get(next).copied() {
            next += 1;
            for id in self.routes.next(node, to) {
                let iface = &self.plan.ifaces[id.index()];
                smallest = self.mtus[id.index()].map_or(smallest, |mtu| mtu.min(smallest));
                let peer = self.plan.links[iface.link.index()].ends[1 - iface.sends.index()];
                if !seen.contains(&peer) {
                    seen.push(peer);
                }
            }
        }
        smallest
    }

    /// The maximum segment size of a flow whose receiver has the address of `there` and whose
    /// sender has that of `back`; 0 if the headers do not fit.
    pub fn segment(&self, flow: &Flow, there: IfaceId, back: IfaceId) -> u32 {
        let mtu = self.mtu(flow.from, there).min(self.mtu(flow.to, back));
        mtu.saturating_sub(ip_header(flow.family) + TCP_HEADER_BYTES)
    }

    /// The minimum times of a flow's transfers in segments of `mss` bytes; `None` without a path.
    pub fn ideal(&self, flow: &Flow, there: IfaceId, back: IfaceId, mss: u32) -> Option<Ideal> {
        self.between(flow, (flow.from, there), (flow.to, back), mss)
    }

    /// The same for data in the opposite direction.
    pub fn ideal_answer(
        &self,
        flow: &Flow,
        there: IfaceId,
        back: IfaceId,
        mss: u32,
    ) -> Option<Ideal> {
        self.between(flow, (flow.to, back), (flow.from, there), mss)
    }

    fn between(
        &self,
        flow: &Flow,
        out: (NodeId, IfaceId),
        home: (NodeId, IfaceId),
        mss: u32,
    ) -> Option<Ideal> {
        let (out, home) = (self.find_path(out.0, out.1)?, self.find_path(home.0, home.1)?);
        Some(Ideal {
            round_trip: out.delay + home.delay,
            one_way: out.delay,
            rate: out.rate,
            mss,
            header: ip_header(flow.family) + TCP_HEADER_BYTES + self.plan.overhead.count() as u32,
        })
    }

    /// Delay and rate of the first of the equal-cost paths; `None` without a path.
    fn find_path(&self, from: NodeId, to: IfaceId) -> Option<Path> {
        let dest = self.plan.ifaces[to.index()].node;
        let (mut node, mut path) = (from, Path::default());
        // No shortest path visits a node twice.
        for _ in 0..=self.plan.nodes.len() {
            if node == dest {
                return Some(path);
            }
            let iface = &self.plan.ifaces[self.routes.next(node, to).first()?.index()];
            let link = &self.plan.links[iface.link.index()];
            let config = &link.directions[iface.sends.index()];
            path.delay = path.delay.saturating_add(config.delay);
            let rate = bits_per_second(config);
            path.rate = [path.rate, rate].into_iter().flatten().min_by(f64::total_cmp);
            node = link.ends[1 - iface.sends.index()];
        }
        None
    }
}

impl Ideal {
    /// Propagation delay to the receiver.
    pub const fn one_way(&self) -> Span {
        self.one_way
    }

    /// Wire bytes of a segment beyond its payload.
    pub fn header(&self) -> u32 {
        self.header
    }

    /// The completion time on an empty path: one round trip for the handshake, the payload with
    /// all headers at the lowest link rate, and the propagation delay. A lower bound: it includes
    /// neither slow start nor store-and-forward delay.
    pub fn completion(&self, size: Bytes) -> Span {
        self.answer(size) + self.one_way
    }

    /// The time from a small request over an open connection to the end of its response, on an
    /// empty path: one round trip, and the payload with all headers at the lowest link rate.
    pub fn answer(&self, size: Bytes) -> Span {
        let segments = size.count().div_ceil(u64::from(self.mss.max(1))).max(1);
        let bits = (size.count() as f64 + segments as f64 * f64::from(self.header)) * 8.0;
        let sending = self.rate.map_or(0.0, |rate| bits / rate * 1e9);
        self.round_trip + Span::from_nanos(sending as u64)
    }
}

fn ever_up(plan: &Plan) -> Vec<bool> {
    let mut up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    for event in &plan.events {
        match event.action {
            Action::LinkUp(link) => up[link.index()] = true,
            Action::NodeUp(node) => {
                for iface in &plan.nodes[node.index()].ifaces {
                    up[plan.ifaces[iface.index()].link.index()] = true;
                }
            }
            _ => {}
        }
    }
    up
}

/// The mean rate of a link direction; `None` if unlimited.
pub(crate) fn bits_per_second(config: &LinkConfig) -> Option<f64> {
    match &config.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(rate.bits_per_sec() as f64),
        Rate::Trace(trace) => {
            let bytes = Trace::OPPORTUNITY.count() * trace.opportunities.len() as u64;
            Some(bytes as f64 * 8.0 / trace.period.as_secs_f64())
        }
    }
}

fn smallest_mtus(plan: &Plan) -> Vec<Option<u32>> {
    let limit = |config: &LinkConfig| {
        let bytes = config.mtu.count();
        (bytes > 0).then(|| u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    let mut mtus: Vec<Option<u32>> = plan
        .links
        .iter()
        .flat_map(|link| [0, 1].map(|side| limit(&link.directions[side])))
        .collect();
    for event in &plan.events {
        if let Action::Set { link, direction, config } = &event.action {
            let entry = &mut mtus[link.index() * 2 + direction.index()];
            *entry = [*entry, limit(config)].into_iter().flatten().min();
        }
    }
    mtus
}

#[cfg(test)]
mod tests {
    use base::FlowId;

    use super::*;

    const LAB: &str = r#"
lab = { name = "path", duration = "10 s" }
node = { a = {}, r = { kind = "router" }, s = { kind = "router" }, b = {} }
flow = [{ from = "a", to = "b", size = "1 MB" }]
link = [
    { ends = ["a", "r"], rate = "100 Mbit/s", delay = "1 ms" },
    { name = "short", ends = ["r", "b"], rate = "10 Mbit/s", delay = "4 ms", mtu = "1032 B" },
    { ends = ["r", "s"], delay = "10 ms" },
    { ends = ["s", "b"], rate = "20 Mbit/s", delay = "10 ms" },
]
"#;

    fn ideal(text: &str) -> Option<(u32, Ideal)> {
        let plan =
            lab::parse("path.toml", text, std::path::Path::new(".")).unwrap().plans.remove(0);
        let paths = Paths::new(&plan);
        let flow = &plan.flows[FlowId(0).index()];
        let iface = |node: NodeId, at: usize| plan.nodes[node.index()].ifaces[at];
        let at = usize::from(paths.routes().path_delay(flow.from, iface(flow.to, 0)).is_none());
        let (there, back) = (iface(flow.to, at), iface(flow.from, 0));
        let mss = paths.segment(flow, there, back);
        paths.ideal(flow, there, back, mss).map(|ideal| (mss, ideal))
    }

    #[test]
    fn ideal_time_is_handshake_plus_transmission_plus_delay() {
        let (mss, ideal) = ideal(LAB).unwrap();
        assert_eq!((mss, ideal.header()), (1032 - 52, 52 + 38));
        // Ten segments of 1070 B with Ethernet at 10 Mbit/s, RTT 10 ms, one-way delay 5 ms.
        let expected = Span::from_micros(8560 + 10_000 + 5_000);
        assert_eq!(ideal.completion(Bytes::new(9800)), expected);
        assert_eq!(ideal.completion(Bytes::new(9801)), expected + Span::from_nanos(72_800));
    }

    #[test]
    fn path_avoids_links_that_are_never_up() {
        let lab = LAB.replace("name = \"short\"", "name = \"short\", state = \"down\"");
        let (mss, slow) = ideal(&lab).unwrap();
        assert_eq!(mss, 1500 - 52);
        // 20 Mbit/s, RTT 42 ms, one-way delay 21 ms.
        assert_eq!(slow.completion(Bytes::new(1448)), Span::from_nanos(615_200 + 63_000_000));
        let later = lab + "at = [{ time = \"5 s\", link = \"short\", up = true }]\n";
        assert_eq!(ideal(&later), ideal(LAB));
    }
}
