//! Built-in flows.

use base::{Bytes, FlowId, NodeId, Span, Time};
use transport::workload::{Pattern, Sizes, Think};

use super::Compiler;
use super::names::free_name;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::plan::{Family, Flow, Tcp, Traffic};
use crate::tree::{At, Table, Value};

const MOST_FLOWS: usize = 10_000;

/// Keys that only some kinds of flows heed.
const ONLY_BULK: &[&str] = &["streams", "message"];
const ONLY_UDP: &[&str] = &["rate", "packet"];
const ONLY_RPC: &[&str] = &["request", "response", "count", "interval"];

impl Compiler<'_> {
    pub(super) fn read_flows(&mut self) {
        for (at, table) in self.entries("flow") {
            let pairs = self.pairs(table);
            let traffic = self.traffic(table, &at);
            let start = self.moment(table, "start").unwrap_or(Time::ZERO);
            let Some(traffic) = traffic else { continue };
            for (from, to) in &pairs {
                if !self.no_switch(*from, &at, "sends nothing")
                    || !self.no_switch(*to, &at, "receives nothing")
                    || !self.room(self.plan.flows.len(), MOST_FLOWS, "flows", &at)
                {
                    continue;
                }
                let name = self.flow_name(table, (*from, *to), pairs.len() > 1, &at);
                self.places.flows.push(at.clone());
                self.plan.flows.push(Flow {
                    name,
                    from: *from,
                    to: *to,
                    family: family(table),
                    start,
                    duration: table.span("duration"),
                    traffic: traffic.clone(),
                    dscp: table.whole("dscp").and_then(|v| u8::try_from(v).ok()).unwrap_or(0),
                });
            }
        }
    }

    fn pairs(&mut self, table: &Table) -> Vec<(NodeId, NodeId)> {
        let (Some(from_value), Some(to_value)) = (table.get("from"), table.get("to")) else {
            return Vec::new();
        };
        let from = self.node_group(from_value);
        let to = self.node_group(to_value);
        let pairs: Vec<_> = match (from.len(), to.len()) {
            (0, _) | (_, 0) => return Vec::new(),
            (1, _) => to.iter().map(|to| (from[0], *to)).collect(),
            (_, 1) => from.iter().map(|from| (*from, to[0])).collect(),
            (a, b) if a == b => from.iter().copied().zip(to.iter().copied()).collect(),
            (a, b) => {
                self.sink
                    .report(Code::Conflict, &to_value.at, format!("{a} senders, {b} receivers"))
                    .also(&from_value.at, "the senders")
                    .help("as many receivers as senders, or one of either");
                return Vec::new();
            }
        };
        for (from, to) in &pairs {
            if from == to {
                let name = &self.plan.nodes[from.index()].name;
                let message = format!("`{name}` would send to itself");
                self.sink
                    .report(Code::Conflict, &to_value.at, message)
                    .help("that would never cross a link; name another node");
            }
        }
        pairs.into_iter().filter(|(from, to)| from != to).collect()
    }

    fn traffic(&mut self, table: &Table, at: &At) -> Option<Traffic> {
        let udp = table.text("transport") == Some("udp");
        let rpc = !udp && ONLY_RPC.iter().any(|key| table.get(key).is_some());
        let (kind, wrong): (_, &[&[&str]]) = match (udp, rpc) {
            (true, _) => ("a UDP flow", &[ONLY_BULK, ONLY_RPC, &["control"]]),
            (_, true) => ("a request-response flow", &[ONLY_BULK, ONLY_UDP, &["size"]]),
            _ => ("a TCP flow", &[ONLY_UDP]),
        };
        for key in wrong.iter().flat_map(|keys| keys.iter()) {
            if let Some(entry) = table.entry(key) {
                let message = format!("`{key}` has no effect on {kind}");
                self.sink.report(Code::Conflict, &entry.key_at, message).help(match *key {
                    "rate" | "packet" => "say `transport = \"udp\"`, or drop it",
                    "size" => "a request-response flow has a `count`",
                    _ => "drop it",
                });
            }
        }
        let tcp = Tcp { control: self.control(table), ..Tcp::default() };
        if udp {
            let Some(rate) = table.get("rate") else {
                self.sink
                    .report(Code::MissingKey, at, "a UDP flow needs `rate`")
                    .help("the rate of its payload, such as `rate = \"1 Mbit/s\"`");
                return None;
            };
            let packet = table.bytes("packet").unwrap_or_else(|| self.largest_datagram(table));
            let rate = rate.text()?.parse().ok()?;
            let pattern = Pattern::Constant;
            return Some(Traffic::Paced { rate, packet, size: table.bytes("size"), pattern });
        }
        if rpc {
            return Some(Traffic::Rpc {
                request: Sizes::Fixed(table.bytes("request").unwrap_or(Bytes::new(64))),
                response: Sizes::Fixed(table.bytes("response").unwrap_or(Bytes::new(1000))),
                count: table.whole("count").and_then(|count| u64::try_from(count).ok()),
                interval: table.span("interval").unwrap_or(Span::ZERO),
                think: Think::Fixed(Span::ZERO),
                tcp,
            });
        }
        Some(Traffic::Bulk {
            size: table.bytes("size"),
            tcp,
            streams: table.whole("streams").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            message: table.bytes("message"),
        })
    }

    /// The kernel allows 15 characters; which of them exist shows on the machine.
    fn control(&mut self, table: &Table) -> Option<String> {
        let value = table.get("control")?;
        let name = value.text()?;
        let fit = (1..=15).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        if !fit {
            self.sink
                .report(Code::BadName, &value.at, format!("`{name}` is no congestion control"))
                .help("such as `cubic`, `reno` or `bbr`, as the kernel names it");
        }
        Some(name.to_owned())
    }

    /// What fits everywhere without fragments.
    fn largest_datagram(&self, table: &Table) -> Bytes {
        let mtus = self.plan.links.iter().flat_map(|link| link.directions.iter().map(|d| d.mtu));
        let mtu = mtus.min().unwrap_or(Bytes::new(1500));
        let headers = Bytes::new(if family(table) == Family::V6 { 48 } else { 28 });
        mtu.saturating_sub(headers).max(Bytes::new(16))
    }

    fn flow_name(
        &mut self,
        table: &Table,
        ends: (NodeId, NodeId),
        several: bool,
        at: &At,
    ) -> String {
        let node = |id: NodeId| self.plan.nodes[id.index()].name.as_str();
        let pair = format!("{}-{}", node(ends.0), node(ends.1));
        let given = table.get("name").and_then(|value| {
            let name = value.text()?;
            self.label(name, &value.at, "flow")
        });
        let taken = |name: &str| self.plan.flows.iter().any(|flow| flow.name == name);
        let Some(given) = given else { return free_name(&pair, taken) };
        let name = if several { format!("{given}.{pair}") } else { given.clone() };
        self.label(&name, at, "flow");
        if let Some(other) = self.plan.flows.iter().position(|flow| flow.name == name) {
            let first = self.places.flows[other].clone();
            self.sink
                .report(Code::Duplicate, at, format!("there is a flow `{name}` already"))
                .also(&first, "the first");
        }
        self.places.flow_groups.entry(given).or_default().push(self.plan.flows.len());
        name
    }

    /// The flows that a name means; a name given to several means all.
    pub(super) fn flow_group(&mut self, value: &Value) -> Vec<FlowId> {
        let Some(name) = value.text() else { return Vec::new() };
        if let Some(index) = self.plan.flows.iter().position(|flow| flow.name == name) {
            return vec![FlowId::at(index)];
        }
        if let Some(group) = self.places.flow_groups.get(name) {
            return group.iter().map(|index| FlowId::at(*index)).collect();
        }
        let known = self.plan.flows.iter().map(|flow| flow.name.as_str());
        let help = suggest(name, known, "flows");
        self.sink
            .report(Code::UnknownName, &value.at, format!("there is no flow `{name}`"))
            .help(help);
        Vec::new()
    }
}

fn family(table: &Table) -> Family {
    if table.text("family") == Some("ipv6") { Family::V6 } else { Family::V4 }
}
