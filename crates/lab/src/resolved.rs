//! A plan written as a lab file, with every default, address and swept value in place.

use std::fmt::Write;

use base::{Direction, IfaceId, NodeId};
use fabric::{
    Discipline, Jitter, JitterShape, LinkConfig, Loss, QueueConfig, QueueLimit, Rate, Window,
};

use crate::compile::UNLIMITED;
use crate::plan::{
    Action, Command, Event, Metric, Mirror, MirrorTarget, Model, Plan, Precision, Program, Ready,
    Restart, Role, Routing,
};

mod bundle;
mod cluster;
mod control;
mod flow;

/// A key and its value as TOML.
type Pair = (&'static str, String);

/// The plan as a lab file; reading it gives the same plan (but for the swept values, which are
/// fixed in it and listed in its head). Populations keep the rules that they are drawn by, which
/// bring the same hosts again: one by one they would make a text of a kilobyte a session.
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
        let kind = match node.kind {
            Role::Host => "host",
            Role::Router => "router",
            Role::Switch => "switch",
            Role::SendBox => "sendbox",
            Role::ReceiveBox => "receivebox",
        };
        let mut pairs = vec![("kind", text(kind))];
        pairs.extend(cluster::node(plan, NodeId::at(index)));
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

/// The model, with its settings where it has any.
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
        ("sharing", text(law.sharing.as_str())),
        ("window", window),
        ("acks", law.acks.to_string()),
    ]
}

fn lab(plan: &Plan) -> Vec<Pair> {
    let routing = match plan.routing {
        Routing::Shortest(Metric::Delay) => "delay",
        Routing::Shortest(Metric::Hops) => "hops",
        Routing::Shortest(Metric::Metric) => "metric",
        Routing::None => "none",
    };
    let precision = match plan.precision {
        Precision::Normal => "normal",
        Precision::High => "high",
    };
    let tolerance =
        [("floor", quantity(plan.tolerance_floor)), ("share", quantity(plan.tolerance_share))];
    let mut pairs = vec![
        ("name", text(&plan.name)),
        ("duration", quantity(plan.duration)),
        ("seed", plan.seed.to_string()),
    ];
    pairs.extend(model(plan.model));
    pairs.extend([
        ("routing", text(routing)),
        ("overhead", quantity(plan.overhead)),
        ("precision", text(precision)),
        ("realtime", plan.realtime.to_string()),
    ]);
    pairs.extend(plan.tick.map(|tick| ("tick", quantity(tick))));
    pairs.push(("tolerance", table(&tolerance)));
    pairs.push(("interval", quantity(plan.interval)));
    pairs.push(("uplink", plan.uplink.to_string()));
    let captures = plan.captures.iter().map(|id| {
        let iface = &plan.ifaces[id.index()];
        text(&format!("{}.{}", node_name(plan, iface.node), iface.name))
    });
    pairs.push(("capture", list(captures)));
    pairs.push(("record", plan.record.to_string()));
    let events = i64::try_from(plan.limits.events).unwrap_or(i64::MAX);
    let limits = [("events", events.to_string()), ("memory", quantity(plan.limits.memory))];
    pairs.push(("limits", table(&limits)));
    pairs
}

fn link(plan: &Plan, index: usize) -> Vec<Pair> {
    let link = &plan.links[index];
    let mut pairs = vec![
        ("ends", list(link.ends.iter().map(|end| text(node_name(plan, *end))))),
        ("name", text(&link.name)),
        ("mtu", quantity(link.directions[0].mtu)),
        ("metric", link.metric.to_string()),
        ("state", text(if link.up { "up" } else { "down" })),
    ];
    if plan.routing != Routing::Shortest(Metric::Metric) {
        pairs.retain(|(key, _)| *key != "metric");
    }
    for direction in Direction::BOTH {
        let fields = direction_fields(&link.directions[direction.index()]);
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

/// One direction's properties, all but the MTU. What is absent has no text: an unlimited rate.
pub(crate) fn direction_fields(config: &LinkConfig) -> Vec<Pair> {
    let mut pairs = Vec::new();
    match &config.rate {
        Rate::Unlimited => {}
        Rate::Constant(rate) => pairs.push(("rate", quantity(rate))),
        Rate::Trace(trace) => {
            let opportunities = list(trace.opportunities.iter().map(quantity));
            let fields = [("period", quantity(trace.period)), ("opportunities", opportunities)];
            pairs.push(("trace", table(&fields)));
        }
    }
    pairs.push(("delay", quantity(config.delay)));
    let jitter = config.jitter.as_ref().map_or_else(|| quantity("0 ns"), self::jitter);
    pairs.push(("jitter", jitter));
    pairs.push(("loss", loss(&config.loss)));
    let reorder = config.reorder.as_ref().map_or_else(
        || [("probability", quantity("0 %")), ("by", quantity("1 ns"))],
        |r| [("probability", quantity(r.probability)), ("by", quantity(r.by))],
    );
    pairs.push(("reorder", table(&reorder)));
    pairs.push(("duplicate", quantity(config.duplicate)));
    pairs.push(("corrupt", quantity(config.corrupt)));
    pairs.push(("queue", queue(&config.queue)));
    pairs
}

fn jitter(jitter: &Jitter) -> String {
    let mut pairs = match &jitter.shape {
        JitterShape::Normal { deviation } => {
            vec![("distribution", text("normal")), ("deviation", quantity(deviation))]
        }
        JitterShape::Uniform { spread } => {
            vec![("distribution", text("uniform")), ("spread", quantity(spread))]
        }
        JitterShape::Pareto { mean, shape_milli } => vec![
            ("distribution", text("pareto")),
            ("mean", quantity(mean)),
            ("shape", format!("{}.{:03}", shape_milli / 1000, shape_milli % 1000)),
        ],
        JitterShape::Table(delays) => {
            vec![("distribution", text("table")), ("table", list(delays.iter().map(quantity)))]
        }
    };
    pairs.push(("correlation", quantity(jitter.correlation)));
    table(&pairs)
}

fn loss(loss: &Loss) -> String {
    match loss {
        Loss::None => quantity("0 %"),
        Loss::Bernoulli(p) => quantity(p),
        Loss::GilbertElliott { p, r, loss_good, loss_bad } => table(&[
            ("model", text("gilbert-elliott")),
            ("p", quantity(p)),
            ("r", quantity(r)),
            ("loss_bad", quantity(loss_bad)),
            ("loss_good", quantity(loss_good)),
        ]),
    }
}

fn queue(queue: &QueueConfig) -> String {
    let limit = match queue.limit {
        QueueLimit::UNLIMITED => text(UNLIMITED),
        QueueLimit::Packets(packets) => format!("\"{packets} packets\""),
        QueueLimit::Bytes(bytes) => quantity(bytes),
    };
    let ecn = ("ecn", queue.ecn.to_string());
    let (kind, more): (_, Vec<Pair>) = match &queue.discipline {
        Discipline::DropTail => ("droptail", vec![]),
        Discipline::DropHead => ("drophead", vec![]),
        Discipline::Red { min, max, probability, weight } => (
            "red",
            vec![
                ecn,
                ("min", quantity(min)),
                ("max", quantity(max)),
                ("probability", quantity(probability)),
                ("weight", quantity(weight)),
            ],
        ),
        Discipline::CoDel { target, interval } => {
            ("codel", vec![ecn, ("target", quantity(target)), ("interval", quantity(interval))])
        }
        Discipline::FqCoDel { target, interval, flows, quantum } => (
            "fq-codel",
            vec![
                ecn,
                ("target", quantity(target)),
                ("interval", quantity(interval)),
                ("flows", flows.to_string()),
                ("quantum", quantity(quantum)),
            ],
        ),
        Discipline::Sfq { flows, quantum, perturb } => {
            let mut more = vec![("flows", flows.to_string()), ("quantum", quantity(quantum))];
            more.extend(perturb.map(|perturb| ("perturb", quantity(perturb))));
            ("sfq", more)
        }
        Discipline::Priority { bands } => ("priority", vec![("bands", bands.to_string())]),
        Discipline::Drr { quanta } => ("drr", vec![("quanta", list(quanta.iter().map(quantity)))]),
        Discipline::Policer { rate, burst } => {
            ("policer", vec![("rate", quantity(rate)), ("burst", quantity(burst))])
        }
    };
    let mut pairs = vec![("kind", text(kind)), ("limit", limit)];
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
    pairs.push(("ready_timeout", quantity(program.ready_timeout)));
    let restart = match program.restart {
        Restart::Never => "never",
        Restart::OnFailure => "on-failure",
        Restart::Always => "always",
    };
    pairs.push(("restart", text(restart)));
    let env = program.env.iter().map(|(key, value)| format!("{} = {}", text(key), text(value)));
    pairs.push(("env", format!("{{ {} }}", env.collect::<Vec<_>>().join(", "))));
    let dir = program.dir.as_ref().map(|dir| ("dir", text(&dir.to_string_lossy())));
    pairs.extend(dir);
    pairs.push(("service", program.service.to_string()));
    let exit = program
        .exit
        .as_ref()
        .map_or_else(|| text("any"), |statuses| list(statuses.iter().map(ToString::to_string)));
    pairs.push(("exit", exit));
    pairs.push(("grace", quantity(program.grace)));
    pairs.push(("privileged", program.privileged.to_string()));
    pairs.push(("output", quantity(program.output)));
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
            [("box", at), ("action", text(bundle::action(*action)))]
        }
    };
    vec![("time", quantity(event.at)), what, done]
}
