//! What agreeing on shares costs the machines of one lab, on the virtual clock: more of them than
//! anybody has at hand.
//!
//! `agents` lets the machines grow in number, `flows` the flows, `delays` asks how soon a change is
//! worked in everywhere. All are of the network with 150 hosts of `SplayNet`'s §3.4.4.

mod agents;
mod delays;
mod flows;

use placement::agreement_cost::{Cost, DEFAULT_DURATION, LAN, Load, Scene, cost};
use sharing::{Sharing, SharingPolicy, Window};

use crate::paper::lab_file;
use crate::{Axis, Error, Evidence, File, Line, Paper, Plot, Result, Stage, Table};

pub(crate) const PAPER: Paper = Paper {
    name: "cluster",
    title: "Agreeing on shares over many machines",
    citation: "by notices (Schiavoni, Rivière and Felber, SplayNet, Middleware 2013) and by \
               claims (SLBN), beside what Kollaps tells (EuroSys 2020)",
    figures: &[agents::FIGURE, flows::FIGURE, delays::FIGURE],
};

/// The network of all figures.
const LAB: File = lab_file!("splaynet/large.toml");

/// The ways of agreeing, as labs and as legends call them.
const WAYS: [(&str, Sharing); 2] =
    [("notices", Sharing::RttMaxMin), ("claims (slbn)", Sharing::Slbn)];

/// Bytes around a message that travels alone: Ethernet with preamble and gap, IPv4, TCP with time
/// stamps, and what was measured of Zenoh.
const HEADERS: f64 = 38.0 + 20.0 + 32.0 + 18.0;

fn scene() -> Result<Scene> {
    let text = String::from_utf8_lossy(LAB.bytes);
    let lab = lab::parse(LAB.path, &text, std::path::Path::new("."));
    let lab = lab.map_err(|wrong| Error::Refused(format!("{}: {wrong:?}", LAB.path)))?;
    let plan = lab.plans.first();
    Ok(Scene::new(plan.ok_or_else(|| Error::Refused(format!("{} is empty", LAB.path)))?))
}

fn law(sharing: Sharing) -> SharingPolicy {
    SharingPolicy { sharing, window: Window::Off }
}

fn load(agents: usize, flows: usize, changes: u32) -> Load {
    Load { agents, flows, changes, time: DEFAULT_DURATION, seed: 1, measures_shares: false }
}

/// A load and what it came to under each way.
struct Row {
    load: Load,
    costs: [Cost; 2],
}

/// Bears each load both ways.
fn bear(stage: &Stage<'_>, scene: &Scene, loads: impl Iterator<Item = Load>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for load in loads {
        stage.check()?;
        let costs = WAYS.map(|(_, sharing)| cost(scene, law(sharing), LAN, &load));
        rows.push(Row { load, costs });
    }
    Ok(rows)
}

impl Row {
    /// Payload that a member sends each second, bytes.
    fn payload(&self, way: usize) -> f64 {
        self.costs[way].per_agent(&self.load).1
    }

    /// The same with headers.
    fn wire(&self, way: usize) -> f64 {
        let (messages, bytes) = self.costs[way].per_agent(&self.load);
        bytes + messages * HEADERS
    }
}

/// Shows what grows with `x`, as a plot and a table.
fn show(evidence: &mut Evidence, title: &str, what: &str, rows: &[Row], x: fn(&Load) -> usize) {
    let axes = [what, "B/s of payload that each machine sends"].map(Axis::log);
    let [along, up] = axes;
    let mut plot = Plot::new(title, along, up);
    for (way, (name, _)) in WAYS.iter().enumerate() {
        // One machine has nobody to talk to, which a logarithm cannot show.
        let rows = rows.iter().filter(|row| row.payload(way) > 0.0);
        let points = rows.map(|row| (x(&row.load) as f64, row.payload(way)));
        plot.lines.push(Line::new(*name, points.collect()));
    }
    evidence.plots.push(plot);
    evidence.tables.push(table(title, rows));
}

fn table(title: &str, rows: &[Row]) -> Table {
    let heads = [
        "machines",
        "flows",
        "changes/s",
        "notices: messages/s",
        "payload B/s",
        "on the wire B/s",
        "claims: messages/s",
        "payload B/s",
        "on the wire B/s",
    ];
    let mut table = Table::new(title, &heads);
    for row in rows {
        let Load { agents, flows, changes, .. } = row.load;
        let mut cells = vec![agents.to_string(), flows.to_string(), changes.to_string()];
        for way in 0..WAYS.len() {
            let (messages, _) = row.costs[way].per_agent(&row.load);
            cells.extend([messages, row.payload(way), row.wire(way)].map(|x| format!("{x:.0}")));
        }
        table.row(cells);
    }
    table
}

/// Milliseconds of a delay.
fn millis(delay: base::Span) -> f64 {
    delay.as_secs_f64() * 1e3
}

const NOTE: &str = "Simulated: the members' own machines and codecs on the virtual clock, messages \
                    that take 0.3 to 0.5 ms each, none lost. Payload is what members hand to the \
                    transport; the wire adds 108 B to each message, as if each travelled alone in \
                    a TCP segment over Ethernet.";
