//! Figure 3.8: small messages, each in a packet of its own, over a link of 10 Mbit/s.

use base::Direction;

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Plot, Result, Run, Stage, Style, Table, moments,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.8",
    title: "throughput of small messages over 10 Mbit/s",
    takes: "3 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/messages.toml")],
    make,
};

/// Lengths of messages in bytes: the paper's, and those up to a full segment for the curve.
const LENGTHS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const FEW: [u32; 3] = [1, 8, 32];
/// The longest of the paper.
const LONGEST: u32 = 32;
/// The slowest link, in Mbit/s.
const LINK: f64 = 10.0;
/// Headers of a packet: Ethernet 38, IPv4 20, TCP 20 and 12 of time stamps.
const HEADERS: u32 = 38 + 20 + 20 + 12;
/// The same as the paper counts them, without time stamps.
const PAPER_HEADERS: u32 = 38 + 20 + 20;
/// Slow start is over by then.
const SETTLED_S: f64 = 1.0;
/// How far the throughput may be from the formula.
const TOLERANCE: f64 = 0.02;

/// Payload in Mbit/s when each message costs so many bytes more on the wire.
fn formula(length: u32, headers: u32) -> f64 {
    LINK * f64::from(length) / f64::from(length + headers)
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let duration = stage.size("6 s", "3 s");
    let lengths: &[u32] = if stage.short() { &FEW } else { &LENGTHS };
    let mut jobs = Vec::new();
    for (clock, model) in stage.settings() {
        for length in lengths {
            let job = Job::new("splaynet/messages.toml", format!("messages-{length}"), clock);
            jobs.push(
                job.model(model)
                    .set("flow.messages.message", format!("{length} B"))
                    .set("lab.duration", duration),
            );
        }
    }
    let runs = stage.run(&jobs)?;
    let mut evidence = Evidence::default();
    let mut plot = Plot::new(
        "Throughput of messages",
        Axis::log("length of a message in bytes"),
        Axis::linear("throughput at the server in Mbit/s").from(0.0),
    );
    let heads = [
        "run",
        "message",
        "formula",
        "throughput",
        "off by",
        "least s",
        "most s",
        "wire B a packet",
        "packets/s",
        "link used",
        "resent",
    ];
    let mut table = Table::new("Payload in Mbit/s, without the first second", &heads);
    for (clock, model) in stage.settings() {
        let of = runs.iter().filter(|run| run.clock == clock && run.model == Some(model));
        let measured = lengths.iter().zip(of).map(|(length, run)| Measured::new(*length, run));
        let measured: Vec<Measured<'_>> = measured.collect::<Result<_>>()?;
        for of in &measured {
            of.row(&mut table);
        }
        claims(&measured, &mut evidence);
        if let Some(first) = measured.first() {
            let points = measured.iter().map(|of| (f64::from(of.length), of.mean)).collect();
            plot.lines.push(Line::new(first.run.label(), points));
        }
    }
    for (label, headers) in
        [("m / (m + 90)", HEADERS), ("m / (m + 78), the paper's", PAPER_HEADERS)]
    {
        let points = lengths.iter().map(|m| (f64::from(*m), formula(*m, headers))).collect();
        let line = Line::new(format!("10 Mbit/s × {label}"), points).style(Style::Reference);
        plot.lines.push(line);
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    notes(&mut evidence);
    Ok(evidence)
}

/// What came of a length of messages.
struct Measured<'a> {
    length: u32,
    run: &'a Run,
    /// Payload in Mbit/s.
    mean: f64,
    least: f64,
    most: f64,
    /// Packets over the slowest link.
    packets: u64,
    /// Their mean length on the wire.
    wire: f64,
    resent: u64,
}

impl<'a> Measured<'a> {
    fn new(length: u32, run: &'a Run) -> Result<Self> {
        let rates = run.flow_rate("messages", 1.0)?;
        let settled = rates.iter().filter(|(at, _)| *at > SETTLED_S);
        let settled: Vec<f64> = settled.map(|(_, rate)| rate / 1e6).collect();
        let of = moments(&settled);
        let link = run.link("middle", Direction::Up)?;
        Ok(Self {
            length,
            run,
            mean: of.mean,
            least: of.min,
            most: of.max,
            packets: link.sent_packets,
            wire: link.sent_bytes as f64 / link.sent_packets.max(1) as f64,
            resent: run.flow("messages")?.retransmits.unwrap_or(0),
        })
    }

    /// Throughput over the formula's, less one.
    fn off(&self) -> f64 {
        self.mean / formula(self.length, HEADERS) - 1.0
    }

    fn row(&self, table: &mut Table) {
        let seconds = self.run.record.elapsed_s;
        let used = (self.wire * self.packets as f64 * 8.0) / (seconds * LINK * 1e6);
        table.row([
            self.run.label(),
            format!("{} B", self.length),
            format!("{:.4}", formula(self.length, HEADERS)),
            format!("{:.4}", self.mean),
            format!("{:+.2} %", self.off() * 100.0),
            format!("{:.4}", self.least),
            format!("{:.4}", self.most),
            format!("{:.2}", self.wire),
            format!("{:.0}", self.packets as f64 / seconds),
            format!("{:.1} %", used * 100.0),
            self.resent.to_string(),
        ]);
    }
}

/// The claims on the runs of one clock and model, by length.
fn claims(measured: &[Measured<'_>], evidence: &mut Evidence) {
    let Some(first) = measured.first() else { return };
    let label = first.run.label();
    let worst = measured.iter().max_by(|a, b| a.off().abs().total_cmp(&b.off().abs()));
    if let Some(worst) = worst {
        evidence.claim(
            format!("against 10 Mbit/s × m / (m + {HEADERS}) ({label})"),
            "on the line of the overhead model",
            format!("at most {:.2} % off, at {} B", worst.off().abs() * 100.0, worst.length),
            worst.off().abs() <= TOLERANCE,
        );
    }
    if let Some(last) = measured.iter().find(|of| of.length == LONGEST) {
        let rising = measured.is_sorted_by(|a, b| a.mean < b.mean);
        evidence.claim(
            format!("from 1 B to {LONGEST} B ({label})"),
            "from under 0.5 to about 3 Mbit/s",
            format!("{:.3} to {:.2} Mbit/s", first.mean, last.mean),
            rising && first.mean < 0.5 && (2.4..=3.2).contains(&last.mean),
        );
    }
    let joined = |of: &Measured<'_>| of.wire / f64::from(of.length + HEADERS) - 1.0;
    let worst = measured.iter().max_by(|a, b| joined(a).abs().total_cmp(&joined(b).abs()));
    if let Some(worst) = worst {
        evidence.claim(
            format!("each message is a packet of m + {HEADERS} B of wire ({label})"),
            "no buffering",
            format!(
                "mean packet at most {:.2} % off: {:.2} B at {} B",
                joined(worst).abs() * 100.0,
                worst.wire,
                worst.length
            ),
            joined(worst).abs() <= 0.005,
        );
    }
}

fn notes(evidence: &mut Evidence) {
    evidence.note(format!(
        "Linux and the simulated TCP send time stamps, so that a message of m bytes takes m + \
         {HEADERS} bytes of wire, not m + {PAPER_HEADERS}: 2.62 instead of 2.91 Mbit/s at 32 B."
    ));
    evidence.note(
        "TCP_NODELAY alone does not keep messages apart: writes that wait for the congestion \
         window are joined into full segments. The built-in flow marks the end of each message \
         (MSG_EOR), which the kernel respects. A sender without that reaches several Mbit/s at 1 B \
         and hides what a packet costs, which may be why ModelNet's line is too high in the paper.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_counts_every_header() {
        // 32 of 110 bytes are payload, or of 122 with time stamps.
        assert!((formula(32, PAPER_HEADERS) - 10.0 * 32.0 / 110.0).abs() < 1e-12);
        assert!((formula(32, HEADERS) - 10.0 * 32.0 / 122.0).abs() < 1e-12);
        // A full segment comes to what bulk streams reach.
        assert!((formula(1448, HEADERS) - 10.0 * 1448.0 / 1538.0).abs() < 1e-12);
        assert!(formula(1, HEADERS) < 0.5);
    }
}
