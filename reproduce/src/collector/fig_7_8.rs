//! Figure 7.8: loss of regular traffic against its rate, without BGP, with it, and cloned.

use base::Direction;

use super::router::{self, Testbed};
use super::{LIMIT, PAPER_LIMIT, PAPER_SEGMENTS, PAPER_TRANSFER_S, loss, regular};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, File, Job, Line, Plot, Result, Run, Stage, Style, Table,
};

pub(super) const FIGURE: Figure = Figure {
    id: "7.8",
    title: "frame loss against packet rate, without and with cloning",
    takes: "6 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &FILES,
    make,
};

pub(super) const MODEL: &str = "collector/model.toml";

/// The testbed's files and the model.
const FILES: [File; router::FILES.len() + 1] = {
    let mut all = [lab_file!("collector/model.toml"); router::FILES.len() + 1];
    let mut at = 0;
    while at < router::FILES.len() {
        all[at] = router::FILES[at];
        at += 1;
    }
    all
};

/// Rates of regular traffic, in % of what the lines carry.
const RATES: [f64; 7] = [20.0, 40.0, 60.0, 65.0, 70.0, 85.0, 100.0];
const MODEL_RATES: [f64; 11] = [20.0, 30.0, 40.0, 50.0, 60.0, 62.0, 65.0, 70.0, 80.0, 90.0, 100.0];
const FEW: [f64; 3] = [40.0, 62.0, 90.0];
/// How far the loss may be from what the capacity leaves, in percentage points.
const TOLERANCE: f64 = 1.0;
/// What cloning may add on the wall clock, in percentage points; the paper shows no difference.
const NO_DIFFERENCE: f64 = 1.0;

/// What the router has to do beside regular traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Baseline,
    Updates,
    Cloned,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Baseline, Self::Updates, Self::Cloned];

    /// As the paper's legend has it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Updates => "BGP-updates-no-mirror",
            Self::Cloned => "BGP-updates-mirror",
        }
    }
}

/// Rates of the model's lines in Mbit/s, and payload of its packets over their bytes on the wire.
const MODEL_LINE: f64 = 100.0;
const MODEL_PAYLOAD: f64 = 18.0 / 84.0;
/// Payload in bits.
const MODEL_PACKET: f64 = 18.0 * 8.0;
/// The model's packet rates over the paper's.
const SCALE: f64 = 0.1;

/// The model with regular traffic at a share of the lines' rate in %.
pub(super) fn model(name: String, mode: Mode, share: f64) -> Job {
    let rate = (MODEL_LINE * share / 100.0 * MODEL_PAYLOAD * 1e6).round();
    let mut job = Job::new(MODEL, name, Clock::Virtual);
    for name in ["east", "west"] {
        job = job.set(format!("flow.{name}.rate"), format!("{rate:.0} bit/s"));
    }
    let bgp = (PAPER_SEGMENTS / PAPER_TRANSFER_S * SCALE * MODEL_PACKET).round();
    for (name, wanted) in [("bgp", mode != Mode::Baseline), ("clones", mode == Mode::Cloned)] {
        job = job.set(format!("flow.{name}.rate"), format!("{bgp:.0} bit/s"));
        if !wanted {
            // A flow cannot be left out, nor end before the others; this one is a packet each 8 s.
            job = job.set(format!("flow.{name}.rate"), "100 bit/s");
            job = job.set(format!("flow.{name}.packet"), "100 B");
        }
    }
    job
}

/// Loss in % that a capacity leaves of an offered rate.
fn expected(rate: f64) -> f64 {
    (1.0 - LIMIT / rate).max(0.0) * 100.0
}

/// A point: what was offered, and what became of it.
struct Point {
    mode: Mode,
    clock: Clock,
    rate: f64,
    loss: f64,
    sent: u64,
    lost: u64,
    /// Packets that the speakers sent.
    bgp: u64,
    /// Segments that the collector got; `None` where none is cloned.
    cloned: Option<u64>,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut points = Vec::new();
    for clock in stage.clocks() {
        match clock {
            Clock::Wall => wall(stage, &mut points)?,
            Clock::Virtual => simulated(stage, &mut points)?,
        }
    }
    let mut evidence = Evidence::default();
    let heads = [
        "clock",
        "what",
        "rate",
        "sent",
        "lost",
        "loss",
        "capacity leaves",
        "packets of BGP",
        "segments cloned",
    ];
    let mut table = Table::new("Regular traffic, both directions together", &heads);
    for point in &points {
        row(point, &mut table);
    }
    evidence.tables.push(table);
    for clock in stage.clocks() {
        let of: Vec<&Point> = points.iter().filter(|point| point.clock == clock).collect();
        evidence.plots.push(plot(clock, &of));
        claims(clock, &of, &mut evidence);
    }
    notes(&mut evidence);
    Ok(evidence)
}

/// Packets that the model's flow `bgp` sent.
fn of_model(run: &Run) -> Result<u64> {
    Ok(run.flow("bgp")?.sent_datagrams.unwrap_or_default())
}

fn simulated(stage: &mut Stage<'_>, points: &mut Vec<Point>) -> Result<()> {
    let rates: &[f64] = stage.size(&MODEL_RATES, &FEW);
    let duration = stage.size("4 s", "1 s");
    let cases: Vec<(Mode, f64)> =
        Mode::ALL.iter().flat_map(|mode| rates.iter().map(|rate| (*mode, *rate))).collect();
    let job = |(mode, rate): &(Mode, f64)| {
        model(format!("{}-{rate}", mode.label()), *mode, *rate).set("lab.duration", duration)
    };
    let jobs: Vec<Job> = cases.iter().map(job).collect();
    for (run, (mode, rate)) in stage.run(&jobs)?.iter().zip(cases) {
        let (sent, lost) = regular(run)?;
        let cloned = (mode == Mode::Cloned).then(|| run.flow("clones"));
        let cloned = cloned.transpose()?.and_then(|flow| flow.sent_datagrams);
        let (clock, bgp) = (Clock::Virtual, of_model(run)?);
        points.push(Point { mode, clock, rate, loss: loss(run)?, sent, lost, bgp, cloned });
    }
    Ok(())
}

fn wall(stage: &mut Stage<'_>, points: &mut Vec<Point>) -> Result<()> {
    let daemon = router::installed()?[0];
    let rates: &[f64] = stage.size(&RATES, &FEW);
    let seconds = stage.size(6.0, 3.0);
    for mode in Mode::ALL {
        for rate in rates {
            // Announcements begin a little before regular traffic and last beyond it.
            let script = match mode {
                Mode::Baseline => format!("{} end", seconds + 5.0),
                Mode::Updates | Mode::Cloned => format!("3 announce {} end", seconds + 5.0),
            };
            let name = format!("{}-{rate}", mode.label());
            let mut testbed = Testbed::new(stage, name, daemon, &script)?
                .prefixes(stage.size(150_000, 20_000))
                .regular(*rate, 7.0, seconds)
                .set("lab.duration", "60 s");
            if mode != Mode::Cloned {
                testbed = testbed.without_mirror();
            }
            let run = stage.run(std::slice::from_ref(&testbed.job))?.remove(0);
            let (sent, lost) = regular(&run)?;
            let mut bgp = 0;
            for peer in 1..=5 {
                bgp += run.link(&format!("p{peer}"), Direction::Up)?.sent_packets;
            }
            let cloned = (mode == Mode::Cloned).then(|| testbed.collected()).transpose()?;
            points.push(Point {
                mode,
                clock: Clock::Wall,
                rate: *rate,
                loss: loss(&run)?,
                sent,
                lost,
                bgp,
                cloned: cloned.map(|of| of.segments),
            });
        }
    }
    Ok(())
}

fn name(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall clock, real router",
        Clock::Virtual => "virtual clock, model",
    }
}

fn row(point: &Point, table: &mut Table) {
    table.row([
        name(point.clock).to_owned(),
        point.mode.label().to_owned(),
        format!("{} %", point.rate),
        point.sent.to_string(),
        point.lost.to_string(),
        format!("{:.4} %", point.loss),
        format!("{:.4} %", expected(point.rate)),
        point.bgp.to_string(),
        point.cloned.map_or("–".to_owned(), |cloned| cloned.to_string()),
    ]);
}

fn plot(clock: Clock, points: &[&Point]) -> Plot {
    let x = Axis::linear("packet rate in % of the lines' maximum").from(0.0).to(100.0);
    let y = Axis::linear("frame loss in %").from(0.0);
    let mut plot = Plot::new(format!("Frame loss ({})", name(clock)), x, y);
    for mode in Mode::ALL {
        let of = points.iter().filter(|point| point.mode == mode);
        let line = of.map(|point| (point.rate, point.loss)).collect();
        plot.lines.push(Line::new(mode.label(), line));
    }
    let line: Vec<(f64, f64)> = (0..=100).map(f64::from).map(|x| (x, expected(x))).collect();
    let label = format!("what a capacity of {LIMIT} % leaves");
    plot.lines.push(Line::new(label, line[1..].to_vec()).style(Style::Reference));
    plot
}

fn claims(clock: Clock, points: &[&Point], evidence: &mut Evidence) {
    let of = |mode| points.iter().filter(move |point| point.mode == mode);
    let below = of(Mode::Baseline).filter(|point| point.rate < LIMIT - 1.0);
    let worst = below.map(|point| point.loss).fold(0.0, f64::max);
    evidence.claim(
        format!("baseline below {LIMIT} % ({})", name(clock)),
        "no loss up to 1,845,000 packets/s, 62 %",
        format!("at most {worst:.4} %"),
        worst <= if clock == Clock::Wall { 0.1 } else { 0.0 },
    );
    let off = |point: &&&Point| (point.loss - expected(point.rate)).abs();
    let worst = of(Mode::Baseline).max_by(|a, b| off(a).total_cmp(&off(b)));
    if let Some(worst) = worst {
        evidence.claim(
            format!("baseline beyond it ({})", name(clock)),
            "rises roughly linearly to 38 % at full rate",
            format!(
                "at most {:.2} points off 1 − {LIMIT} % / rate, at {} %",
                off(&worst),
                worst.rate
            ),
            off(&worst) <= TOLERANCE,
        );
    }
    for (mode, other, paper) in [
        (Mode::Updates, Mode::Baseline, "a peering does not cause more packets to be dropped"),
        (Mode::Cloned, Mode::Updates, "activating cloning has no impact"),
    ] {
        let pairs = of(mode).zip(of(other));
        let apart = pairs.map(|(a, b)| a.loss - b.loss);
        let worst = apart.fold(0.0_f64, |worst, x| if x.abs() > worst.abs() { x } else { worst });
        // Five sessions are a far larger share of the scaled router's capacity.
        let share = match (clock, mode) {
            (Clock::Virtual, _) => PAPER_SEGMENTS / PAPER_TRANSFER_S / PAPER_LIMIT * 100.0 + 0.005,
            (Clock::Wall, Mode::Updates) => 10.0,
            (Clock::Wall, _) => NO_DIFFERENCE,
        };
        evidence.claim(
            format!("{} beside {} ({})", mode.label(), other.label(), name(clock)),
            paper,
            format!("{worst:+.4} points at most; {share:.4} allowed"),
            worst.abs() <= share,
        );
    }
}

fn notes(evidence: &mut Evidence) {
    evidence.note(
        "There is no Cisco 7201 here. What limits the router is given to it as the rate and queue \
         of the link `engine`, 62 % of the lines' rate as the paper measured: the baseline is the \
         model's, not a discovery. What is measured is what BGP and cloning add to it.",
    );
    evidence.note(
        "On the wall clock the router is a Linux network namespace that forwards, with a real \
         BGP daemon, real sessions and real clones. It is 200 times slower than the paper's and \
         carries full-size packets instead of minimum ones, so five sessions at 2 Mbit/s each \
         take up to a sixth of what enters it in their direction, where the paper's took 0.02 \
         %; beyond 62 % they displace as much regular traffic. Clones leave through a port of \
         their own, as a switch's do, and cost the machine's time only. Routes are not put into \
         the kernel's table: in the paper, too, regular traffic used static ones.",
    );
    evidence.note(
        "The model on the virtual clock has the paper's proportions at a tenth of its rates: \
         minimum packets, 310 packets/s of BGP (37,157 segments in two minutes), and clones that \
         cost the router as much as any other packet. BGP goes first, as routers have it.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(loss: impl Fn(Mode, f64) -> f64) -> Vec<Point> {
        let point = |mode, rate| Point {
            mode,
            clock: Clock::Virtual,
            rate,
            loss: loss(mode, rate),
            sent: 1,
            lost: 0,
            bgp: 0,
            cloned: None,
        };
        Mode::ALL.iter().flat_map(|mode| FEW.map(|rate| point(*mode, rate))).collect()
    }

    fn judged(loss: impl Fn(Mode, f64) -> f64) -> Vec<bool> {
        let points = points(loss);
        let mut evidence = Evidence::default();
        claims(Clock::Virtual, &points.iter().collect::<Vec<_>>(), &mut evidence);
        evidence.claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn the_capacity_leaves_what_the_paper_lost() {
        assert!(expected(40.0) < 1e-9 && (expected(100.0) - 38.0).abs() < 1e-9);
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(judged(|_, rate| expected(rate)), [true; 4]);
        let early = |mode, rate| expected(rate) + f64::from(mode == Mode::Baseline && rate < 50.0);
        assert_eq!(judged(early), [false, true, false, true]);
        let cloned = |mode, rate| expected(rate) + 0.1 * f64::from(mode == Mode::Cloned);
        assert_eq!(judged(cloned), [true, true, true, false]);
        assert_eq!(judged(|_, rate| expected(rate) * 1.2), [true, false, true, true]);
    }
}
