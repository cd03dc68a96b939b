//! Writes a plan as a lab file with all defaults, addresses and swept values.

use std::fmt::Write;
use std::path::PathBuf;

use base::{Direction, IfaceId, NodeId};
use fabric::{
    Discipline, Jitter, JitterShape, LinkConfig, Loss, QueueConfig, QueueLimit, Rate, Window,
};

use crate::compile::UNLIMITED;
use crate::fields::{
    AT, CODEL, DIRECTION, DUALPI2, FQ_CODEL, GILBERT_ELLIOTT, JITTER, LAB, LIMITS, LINK, NODE,
    NORMAL_JITTER, OPPORTUNITIES, PARETO_JITTER, PIE, POLICER, PRIORITY, PROGRAM, RED, REORDER,
    SFQ, TOLERANCE, UNIFORM_JITTER,
};
use crate::plan::{
    Action, Command, Event, FileScope, Metric, Mirror, MirrorTarget, Model, Node, Plan, Program,
    Ready, Routing, Uplink,
};

mod bundle;
mod cluster;
mod control;
mod flow;

/// A key and its value as TOML.
type Pair = (&'static str, String);

/// Writes the plan as a lab file. Reading it gives the same plan, except for the swept values,
/// which are fixed and listed in the head of the file. Session generators keep their rules, which
/// generate the same hosts again; listed one by one, each session would need about 1 kB of text.
pub fn resolved(plan: &Plan) -> String {
    let mut out =
        String::from("# Resolved by netarium: defaults, addresses and choices written out.\n");
    for (path, value) in &plan.sweep {
        line(&mut out, &format!("# sweep: {path} = {}", value.replace('\n', " ")));
    }
    section(&mut out, "[lab]", &lab(plan));
    let brought = control::brought(plan);
    let named = plan.nodes.iter().zip(&brought).enumerate().filter(|(_, (_, brought))| !**brought);
    for (index, (node, _)) in named {
        let mut pairs = vec![NODE.kind.pair(node.kind)];
        pairs.extend(cluster::node(plan, NodeId::at(index)));
        pairs.extend(environment(node));
        section(&mut out, &format!("[node.{}]", node.name), &pairs);
    }
    for index in 0..plan.links.len() {
        if plan.links[index].ends.iter().any(|end| brought[end.index()]) {
            continue;
        }
        section(&mut out, "[[link]]", &link(plan, index));
    }
    for program in &plan.programs {
        section(&mut out, "[[program]]", &self::program(plan, program));
    }
    if let Some(control) = &plan.control {
        section(&mut out, "[control]", &control::control(plan, control));
    }
    for population in &plan.sessions {
        section(&mut out, "[[sessions]]", &control::population(plan, population));
    }
    for bundle in &plan.bundles {
        section(&mut out, "[[bundle]]", &bundle::pairs(plan, bundle));
    }
    for flow in &plan.flows {
        section(&mut out, "[[flow]]", &flow::pairs(plan, flow));
    }
    if let Some(pairs) = cluster::section(plan) {
        section(&mut out, "[cluster]", &pairs);
    }
    for event in &plan.events {
        section(&mut out, "[[at]]", &self::event(plan, event));
    }
    for mirror in &plan.mirrors {
        section(&mut out, "[[mirror]]", &self::mirror(plan, mirror));
    }
    for expectation in &plan.expectations {
        section(&mut out, "[[expect]]", &[("that", text(&expectation.text))]);
    }
    out
}

fn paths(folders: &[PathBuf]) -> String {
    list(folders.iter().map(|path| text(&path.to_string_lossy())))
}

/// The user and the files of a node's programs.
fn environment(node: &Node) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    pairs.extend(node.user.as_ref().map(|user| ("user", text(&user.name))));
    if let Some(files) = &node.files {
        pairs.push(match &files.folders {
            None => NODE.files.pair(FileScope::Private),
            Some(folders) => ("private", paths(folders)),
        });
        pairs.push(NODE.private_size.pair(files.size));
    }
    pairs
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

fn section(out: &mut String, heading: &str, pairs: &[Pair]) {
    line(out, &format!("\n{heading}"));
    for (key, value) in pairs {
        line(out, &format!("{key} = {value}"));
    }
}

/// A TOML basic string.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn quantity(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn table(pairs: &[Pair]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn node_name(plan: &Plan, node: NodeId) -> &str {
    &plan.nodes[node.index()].name
}

/// The model, with its settings if it has any.
fn model(model: Model) -> Vec<Pair> {
    let law = match model {
        Model::Hop => return vec![("model", text("hop"))],
        Model::Fluid => return vec![("model", text("fluid"))],
        Model::Collapsed(law) => law,
    };
    let window = match law.window {
        Window::Auto => text("auto"),
        Window::Off => text("off"),
        Window::Fixed(size) => quantity(size),
    };
    vec![
        ("model", text("collapsed")),
        LAB.sharing.pair(law.sharing),
        ("window", window),
        LAB.acks.pair(law.acks),
    ]
}

fn lab(plan: &Plan) -> Vec<Pair> {
    let tolerance = [
        TOLERANCE.floor.pair(plan.tolerance.floor),
        TOLERANCE.delay.pair(plan.tolerance.delay),
        TOLERANCE.rate.pair(plan.tolerance.rate),
    ];
    let mut pairs = vec![
        ("name", text(&plan.name)),
        LAB.duration.pair(plan.duration),
        LAB.seed.pair(plan.seed),
    ];
    pairs.extend(model(plan.model));
    pairs.extend([
        LAB.routing.pair(plan.routing),
        ("overhead", quantity(plan.overhead)),
        LAB.precision.pair(plan.precision),
        LAB.realtime.pair(plan.realtime),
    ]);
    pairs.extend(plan.tick.map(|tick| LAB.tick.pair(tick)));
    pairs.push(("tolerance", table(&tolerance)));
    pairs.push(LAB.interval.pair(plan.interval));
    let uplink = match plan.uplink {
        Uplink::None => "false".to_owned(),
        Uplink::Hosts => "true".to_owned(),
        Uplink::Router(node) => text(node_name(plan, node)),
    };
    pairs.push(("uplink", uplink));
    let captures = plan.captures.iter().map(|id| {
        let iface = &plan.ifaces[id.index()];
        text(&format!("{}.{}", node_name(plan, iface.node), iface.name))
    });
    pairs.push(("capture", list(captures)));
    let flows = plan.tcp_events.iter().map(|flow| text(&plan.flows[flow.index()].name));
    if !plan.tcp_events.is_empty() {
        pairs.push(("tcp_events", list(flows)));
    }
    pairs.push(LAB.record.pair(plan.record));
    if !plan.writable.is_empty() {
        pairs.push(("writable", paths(&plan.writable)));
    }
    let events = plan.limits.events.min(i64::MAX as u64);
    let limits = [LIMITS.events.pair(events), LIMITS.memory.pair(plan.limits.memory)];
    pairs.push(("limits", table(&limits)));
    pairs
}

fn link(plan: &Plan, index: usize) -> Vec<Pair> {
    let link = &plan.links[index];
    let mut pairs = vec![
        ("ends", list(link.ends.iter().map(|end| text(node_name(plan, *end))))),
        ("name", text(&link.name)),
        LINK.mtu.pair(link.directions[0].mtu),
        LINK.metric.pair(link.metric),
        ("state", text(if link.up { "up" } else { "down" })),
    ];
    if plan.routing != Routing::Shortest(Metric::Metric) {
        pairs.retain(|(key, _)| *key != "metric");
    }
    for direction in Direction::BOTH {
        let mut fields = direction_fields(&link.directions[direction.index()]);
        // `unlimited` is the default.
        fields.retain(|field| *field != ("rate", text(UNLIMITED)));
        pairs.push((direction.as_str(), table(&fields)));
    }
    let addresses: Vec<String> = (0..2)
        .filter_map(|side| {
            let iface = &plan.ifaces[IfaceId::at(2 * index + side).index()];
            let v4 = iface.v4.map(|(address, prefix)| quantity(format!("{address}/{prefix}")));
            let v6 = iface.v6.map(|(address, prefix)| quantity(format!("{address}/{prefix}")));
            let both: Vec<String> = v4.into_iter().chain(v6).collect();
            let name = node_name(plan, iface.node);
            (!both.is_empty()).then(|| format!("{} = {}", text(name), list(both)))
        })
        .collect();
    if !addresses.is_empty() {
        pairs.push(("addresses", format!("{{ {} }}", addresses.join(", "))));
    }
    pairs
}

/// The properties of one direction except the MTU.
pub(crate) fn direction_fields(config: &LinkConfig) -> Vec<Pair> {
    let mut pairs = Vec::new();
    match &config.rate {
        Rate::Unlimited => pairs.push(("rate", text(UNLIMITED))),
        Rate::Constant(rate) => pairs.push(("rate", quantity(rate))),
        Rate::Trace(trace) => {
            let opportunities = list(trace.opportunities.iter().map(quantity));
            let fields =
                [OPPORTUNITIES.period.pair(trace.period), ("opportunities", opportunities)];
            pairs.push(("trace", table(&fields)));
        }
    }
    pairs.push(DIRECTION.delay.pair(config.delay));
    let jitter = config.jitter.as_ref().map_or_else(|| quantity("0 ns"), self::jitter);
    pairs.push(("jitter", jitter));
    pairs.push(("loss", loss(&config.loss)));
    let reorder = config.reorder.as_ref().map_or_else(
        || [("probability", quantity("0 %")), ("by", quantity("1 ns"))],
        |r| [REORDER.probability.pair(r.probability), REORDER.by.pair(r.by)],
    );
    pairs.push(("reorder", table(&reorder)));
    pairs.push(DIRECTION.duplicate.pair(config.duplicate));
    pairs.push(DIRECTION.corrupt.pair(config.corrupt));
    pairs.push(("queue", queue(&config.queue)));
    pairs
}

fn jitter(jitter: &Jitter) -> String {
    let mut pairs = match &jitter.shape {
        JitterShape::Normal { deviation } => {
            vec![("distribution", text("normal")), NORMAL_JITTER.deviation.pair(deviation)]
        }
        JitterShape::Uniform { spread } => {
            vec![("distribution", text("uniform")), UNIFORM_JITTER.spread.pair(spread)]
        }
        JitterShape::Pareto { mean, shape_milli } => vec![
            ("distribution", text("pareto")),
            PARETO_JITTER.mean.pair(mean),
            ("shape", format!("{}.{:03}", shape_milli / 1000, shape_milli % 1000)),
        ],
        JitterShape::Table(delays) => {
            vec![("distribution", text("table")), ("table", list(delays.iter().map(quantity)))]
        }
    };
    pairs.push(JITTER.correlation.pair(jitter.correlation));
    pairs.push(JITTER.keep_order.pair(jitter.keep_order));
    table(&pairs)
}

fn loss(loss: &Loss) -> String {
    match loss {
        Loss::None => quantity("0 %"),
        Loss::Bernoulli(p) => quantity(p),
        Loss::GilbertElliott { p, r, loss_good, loss_bad } => table(&[
            ("model", text("gilbert-elliott")),
            GILBERT_ELLIOTT.p.pair(p),
            GILBERT_ELLIOTT.r.pair(r),
            GILBERT_ELLIOTT.loss_bad.pair(loss_bad),
            GILBERT_ELLIOTT.loss_good.pair(loss_good),
        ]),
    }
}

fn queue(queue: &QueueConfig) -> String {
    let limit = match queue.limit {
        QueueLimit::UNLIMITED => text(UNLIMITED),
        QueueLimit::Packets(packets) => format!("\"{packets} packets\""),
        QueueLimit::Bytes(bytes) => quantity(bytes),
    };
    let ecn = RED.ecn.pair(queue.ecn);
    let more: Vec<Pair> = match &queue.discipline {
        Discipline::DropTail | Discipline::DropHead => vec![],
        Discipline::Red { min, max, probability, weight, harddrop } => vec![
            ecn,
            RED.min.pair(min),
            RED.max.pair(max),
            RED.probability.pair(probability),
            RED.weight.pair(weight),
            RED.harddrop.pair(*harddrop),
        ],
        Discipline::CoDel { target, interval } => {
            vec![ecn, CODEL.target.pair(target), CODEL.interval.pair(interval)]
        }
        Discipline::Fq { flows, quantum } => {
            vec![FQ_CODEL.flows.pair(flows), FQ_CODEL.quantum.pair(quantum)]
        }
        Discipline::FqCoDel { target, interval, flows, quantum } => vec![
            ecn,
            CODEL.target.pair(target),
            CODEL.interval.pair(interval),
            FQ_CODEL.flows.pair(flows),
            FQ_CODEL.quantum.pair(quantum),
        ],
        Discipline::Pie { target, update, burst } => {
            vec![ecn, PIE.target.pair(target), PIE.update.pair(update), PIE.burst.pair(burst)]
        }
        Discipline::FqPie { target, update, burst, flows, quantum } => vec![
            ecn,
            PIE.target.pair(target),
            PIE.update.pair(update),
            PIE.burst.pair(burst),
            FQ_CODEL.flows.pair(flows),
            FQ_CODEL.quantum.pair(quantum),
        ],
        Discipline::DualPi2 { target, step } => {
            vec![ecn, DUALPI2.target.pair(target), DUALPI2.step.pair(step)]
        }
        Discipline::Sfq { flows, quantum, perturb } => {
            let mut more = vec![FQ_CODEL.flows.pair(flows), FQ_CODEL.quantum.pair(quantum)];
            more.extend(perturb.map(|perturb| SFQ.perturb.pair(perturb)));
            more
        }
        Discipline::Priority { bands } => vec![PRIORITY.bands.pair(bands)],
        Discipline::Drr { quanta } => vec![("quanta", list(quanta.iter().map(quantity)))],
        Discipline::Policer { rate, burst } => {
            vec![POLICER.rate.pair(rate), POLICER.burst.pair(burst)]
        }
    };
    let mut pairs = vec![("kind", text(queue.discipline.name())), ("limit", limit)];
    pairs.extend(more);
    table(&pairs)
}

fn mirror(plan: &Plan, mirror: &Mirror) -> Vec<Pair> {
    let mut pairs =
        vec![("name", text(&mirror.name)), ("link", text(&plan.links[mirror.link.index()].name))];
    let direction = match mirror.directions {
        [true, false] => "up",
        [false, true] => "down",
        _ => "both",
    };
    pairs.push(("direction", text(direction)));
    let filter = mirror.filter.text(&|node| node_name(plan, node).to_owned());
    if !filter.is_empty() {
        pairs.push(("filter", text(&filter)));
    }
    if let MirrorTarget::Node(node) = mirror.to {
        pairs.push(("to", text(node_name(plan, node))));
    }
    pairs
}

fn program(plan: &Plan, program: &Program) -> Vec<Pair> {
    let run = match &program.command {
        Command::Shell(line) => text(line),
        Command::Exec(words) => list(words.iter().map(|word| text(word))),
    };
    let after = program.after.iter().map(|id| text(&plan.programs[id.index()].name));
    let mut pairs = vec![
        ("name", text(&program.name)),
        ("node", text(node_name(plan, program.node))),
        ("run", run),
        ("start", quantity(program.start)),
        ("after", list(after)),
    ];
    pairs.extend(program.ready.as_ref().map(|ready| ("ready", text(&ready_text(ready)))));
    pairs.push(PROGRAM.ready_timeout.pair(program.ready_timeout));
    pairs.push(PROGRAM.restart.pair(program.restart));
    let env = program.env.iter().map(|(key, value)| format!("{} = {}", text(key), text(value)));
    pairs.push(("env", format!("{{ {} }}", env.collect::<Vec<_>>().join(", "))));
    let dir = program.dir.as_ref().map(|dir| ("dir", text(&dir.to_string_lossy())));
    pairs.extend(dir);
    pairs.extend(program.user.as_ref().map(|user| ("user", text(&user.name))));
    pairs.push(PROGRAM.service.pair(program.service));
    let exit = program
        .exit
        .as_ref()
        .map_or_else(|| text("any"), |statuses| list(statuses.iter().map(ToString::to_string)));
    pairs.push(("exit", exit));
    pairs.push(PROGRAM.grace.pair(program.grace));
    pairs.push(PROGRAM.privileged.pair(program.privileged));
    pairs.push(PROGRAM.output.pair(program.output));
    pairs
}

fn ready_text(ready: &Ready) -> String {
    match ready {
        Ready::Port(port) => format!("port {port}"),
        Ready::UdpPort(port) => format!("udp port {port}"),
        Ready::Output(line) => format!("output \"{line}\""),
        Ready::File(path) => format!("file \"{}\"", path.display()),
        Ready::After(span) => span.to_string(),
        Ready::Command(line) => format!("command \"{line}\""),
    }
}

fn event(plan: &Plan, event: &Event) -> Vec<Pair> {
    let yes = || "true".to_owned();
    let link = |id: base::LinkId| ("link", text(&plan.links[id.index()].name));
    let program = |id: base::ProgramId| ("program", text(&plan.programs[id.index()].name));
    let flow = |id: base::FlowId| ("flow", text(&plan.flows[id.index()].name));
    let node = |id: NodeId| ("node", text(node_name(plan, id)));
    let [what, done] = match &event.action {
        Action::Set { link: id, direction, config } => {
            let change = [(direction.as_str(), table(&direction_fields(config)))];
            [link(*id), ("set", table(&change))]
        }
        Action::LinkDown(id) => [link(*id), ("down", yes())],
        Action::LinkUp(id) => [link(*id), ("up", yes())],
        Action::Stop(id) => [program(*id), ("stop", yes())],
        Action::Kill(id) => [program(*id), ("kill", yes())],
        Action::Start(id) => [program(*id), ("start", yes())],
        Action::NodeDown(id) => [node(*id), ("down", yes())],
        Action::NodeUp(id) => [node(*id), ("up", yes())],
        Action::FlowStart(id) => [flow(*id), ("start", yes())],
        Action::FlowStop(id) => [flow(*id), ("stop", yes())],
        Action::Box(id, action) => {
            let (_, at) = node(*id);
            [("box", at), AT.action.pair(action)]
        }
    };
    vec![("time", quantity(event.at)), what, done]
}
