//! Built-in flows.

use base::{FlowId, NodeId, RandomStream, Span, Time};
use workload::Arrivals;

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{FLOW, START};
use crate::plan::{Flow, Traffic};
use crate::tree::{At, Table, Value};

const MAX_FLOWS: usize = 200_000;
/// Larger numbers would exceed the limits of any run.
const MAX_TRANSFERS: u64 = 1_000_000_000;

impl Compiler<'_> {
    pub(super) fn read_flows(&mut self) {
        for (at, table) in self.entries("flow") {
            let pairs = self.pairs(table);
            let traffic = self.traffic(table, pairs.len(), &at);
            let (start, jitter) = self.start(table);
            let Some(traffic) = traffic else { continue };
            self.refuse_endless_arrivals(&traffic, table, &at);
            for (from, to) in &pairs {
                if !self.no_switch(*from, &at, "sends nothing")
                    || !self.no_switch(*to, &at, "receives nothing")
                    || !self.room(self.plan.flows.len(), MAX_FLOWS, "flows", &at)
                {
                    continue;
                }
                let mut traffic = traffic.clone();
                if !self.give_paths(table, (*from, *to), &mut traffic, &at) {
                    continue;
                }
                let name = self.flow_name(table, (*from, *to), pairs.len() > 1, &at);
                self.places.flow_names.insert(name.clone(), self.plan.flows.len());
                self.places.flows.push(at.clone());
                let start = self.jittered(start, jitter, &name);
                self.plan.flows.push(Flow {
                    name,
                    from: *from,
                    to: *to,
                    family: table.read(FLOW.family),
                    start,
                    duration: table.read(FLOW.duration),
                    traffic,
                    dscp: table.read(FLOW.dscp),
                });
            }
        }
    }

    /// The earliest start of a flow, and its maximum random delay.
    fn start(&mut self, table: &Table) -> (Time, Span) {
        let by_default = self.plan.start_jitter.unwrap_or(Span::ZERO);
        let start = table.read(FLOW.start);
        let (at, jitter) = match start.table() {
            Some(table) => (table.value(START.at), table.read(START.jitter)),
            None => (start, None),
        };
        (self.moment(&at).unwrap_or(Time::ZERO), jitter.unwrap_or(by_default))
    }

    /// A random start, before the end of the run.
    fn jittered(&self, start: Time, jitter: Span, name: &str) -> Time {
        let left = self.plan.duration.saturating_sub(start.since(Time::ZERO)).as_nanos();
        let jitter = jitter.as_nanos().min(left.saturating_sub(1));
        if jitter == 0 {
            return start;
        }
        let mut random = RandomStream::new(self.plan.seed, &format!("flow/{name}/start"));
        start + Span::from_nanos(random.below(jitter + 1))
    }

    /// An open loop must have a fixed number of transfers.
    fn refuse_endless_arrivals(&mut self, traffic: &Traffic, table: &Table, at: &At) {
        let (arrivals, count) = match traffic {
            Traffic::Transfers { spec, .. } => (&spec.arrivals, spec.count),
            Traffic::Requests { spec, .. } => (&spec.arrivals, spec.count),
            _ => return,
        };
        let (Arrivals::Poisson(gap) | Arrivals::Every(gap)) = arrivals else { return };
        let time = table.read(FLOW.duration).unwrap_or(self.plan.duration).min(self.plan.duration);
        let transfers = time.as_nanos() / gap.as_nanos().max(1);
        let transfers = transfers.min(count.unwrap_or(u64::MAX));
        if transfers > MAX_TRANSFERS {
            let message = format!("this flow would start {transfers} transfers");
            self.sink
                .report(Code::Limit, at, message)
                .help(format!("at most {MAX_TRANSFERS}: one in {gap} for {time} is too much"));
        }
    }

    fn pairs(&mut self, table: &Table) -> Vec<(NodeId, NodeId)> {
        let (Some(from_value), Some(to_value)) = (table.get(FLOW.from), table.get(FLOW.to)) else {
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

    fn flow_name(
        &mut self,
        table: &Table,
        ends: (NodeId, NodeId),
        several: bool,
        at: &At,
    ) -> String {
        let node = |id: NodeId| self.plan.nodes[id.index()].name.as_str();
        let pair = format!("{}-{}", node(ends.0), node(ends.1));
        let given = table.get(FLOW.name).and_then(|value| {
            let name = value.text()?;
            self.label(name, &value.at, "flow")
        });
        let names = &self.places.flow_names;
        let taken = |name: &str| names.contains_key(name);
        let Some(given) = given else {
            return self.places.free_flow_names.next(&pair, taken);
        };
        let name = if several { format!("{given}.{pair}") } else { given.clone() };
        self.label(&name, at, "flow");
        if let Some(other) = self.places.flow_names.get(&name) {
            let first = self.places.flows[*other].clone();
            self.sink
                .report(Code::Duplicate, at, format!("there is a flow `{name}` already"))
                .also(&first, "the first");
        }
        self.places.flow_groups.entry(given).or_default().push(self.plan.flows.len());
        name
    }

    /// The flows that a name refers to; a name given to several flows refers to all of them.
    pub(super) fn flow_group(&mut self, value: &Value) -> Vec<FlowId> {
        let Some(name) = value.text() else { return Vec::new() };
        if let Some(index) = self.places.flow_names.get(name) {
            return vec![FlowId::at(*index)];
        }
        if let Some(group) = self.places.flow_groups.get(name) {
            return group.iter().map(|index| FlowId::at(*index)).collect();
        }
        let known = self.plan.flows.iter().map(|flow| flow.name.as_str());
        let help = suggest(name, known, "flows");
        self.sink.report(Code::UnknownName, &value.at, format!("unknown flow `{name}`")).help(help);
        Vec::new()
    }
}
