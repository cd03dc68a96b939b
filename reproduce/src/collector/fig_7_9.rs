//! Figure 7.9: loss of regular traffic near the router's limit, while five full tables come and go.

use base::Direction;

use super::fig_7_8::{FIGURE as RATES, Mode, model};
use super::router::{self, Testbed};
use super::{LIMIT, PAPER_LIMIT, truth};
use crate::{Axis, Clock, Evidence, Figure, Job, Line, Plot, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "7.9",
    title: "frame loss while five full tables are withdrawn and announced",
    takes: "7 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: RATES.files,
    make,
};

/// With and without cloning, as the paper's legend has it.
const MODES: [(Mode, &str); 2] =
    [(Mode::Updates, "reset-no-mirror"), (Mode::Cloned, "reset-mirror")];
/// Regular traffic on the wall clock, in % of the lines' rate: just what the router carries.
const SHARE: f64 = 61.9;
/// In the model: 0.003 % more than it carries.
const MODEL_SHARE: f64 = LIMIT * 1.000_03;
/// Length of the steps that loss is counted in, in s.
const STEP: f64 = 2.0;
/// What the paper's loss never reached, in %.
const PAPER_MOST: f64 = 0.04;
/// On the wall clock, in seconds of the speakers.
const SCRIPT: &str = "4 announce 65 withdraw 80 announce 140 end";
const SHORT: &str = "4 announce 6 withdraw 7 announce 9 end";
/// Regular packets that cloning may cost for each packet of BGP on the wall clock, where clones
/// take nothing of the modelled capacity: noise of TCP's own course.
const NO_DIFFERENCE: f64 = 0.25;

/// A run, and what is read of it.
struct Course {
    clock: Clock,
    label: &'static str,
    /// Middle of each step in s, loss in it in %.
    loss: Vec<(f64, f64)>,
    sent: f64,
    lost: f64,
    /// Packets of BGP that the speakers sent.
    bgp: u64,
    /// Those that go with each of them where clones cost as much.
    clones: u64,
}

impl Course {
    fn read(run: &Run, label: &'static str, bgp: u64) -> Result<Self> {
        let (sent, lost) = super::regular(run)?;
        let (east, west) = (run.flow_rate("east", STEP)?, run.flow_rate("west", STEP)?);
        let sends = [run.flow_sent_rate("east", STEP)?, run.flow_sent_rate("west", STEP)?];
        let mut points = Vec::new();
        for (index, (at, received)) in east.iter().enumerate() {
            let sum = |lines: &[Vec<(f64, f64)>]| -> f64 {
                lines.iter().filter_map(|line| line.get(index)).map(|point| point.1).sum()
            };
            let sent = sum(&sends);
            let received = received + west.get(index).map_or(0.0, |point| point.1);
            points.push((*at, sent, received));
        }
        // Steps in which traffic started or stopped are no full ones.
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let full = |point: &&(f64, f64, f64)| point.1 > 0.99 * most;
        let loss = points.iter().filter(full).map(|(at, sent, received)| {
            let share = (1.0 - received / sent).max(0.0);
            (*at, share * 100.0)
        });
        let (clock, loss) = (run.clock, loss.collect());
        let (sent, lost) = (sent as f64, lost as f64);
        Ok(Self { clock, label, loss, sent, lost, bgp, clones: 0 })
    }

    fn most(&self) -> f64 {
        self.loss.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Regular packets lost for each packet of BGP.
    fn displaced(&self) -> f64 {
        self.lost / (self.bgp.max(1) as f64)
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let heads = [
        "clock",
        "what",
        "sent",
        "lost",
        "loss",
        "most in a step",
        "packets of BGP",
        "clones",
        "lost for each",
    ];
    let mut table = Table::new("Regular traffic, both directions together", &heads);
    for clock in stage.clocks() {
        let courses = match clock {
            Clock::Wall => wall(stage, &mut evidence)?,
            Clock::Virtual => simulated(stage)?,
        };
        for course in &courses {
            row(course, &mut table);
        }
        evidence.plots.push(plot(clock, &courses));
        if let [without, with] = &courses[..] {
            match clock {
                Clock::Wall => wall_claims(without, with, &mut evidence),
                Clock::Virtual => model_claims(without, with, &mut evidence),
            }
        }
    }
    evidence.tables.push(table);
    notes(&mut evidence);
    Ok(evidence)
}

fn simulated(stage: &mut Stage<'_>) -> Result<Vec<Course>> {
    let (duration, burst, start) = stage.size(("80 s", "10 s", "10 s"), ("8 s", "2 s", "2 s"));
    let job = |(mode, label): (Mode, &str)| -> Job {
        let mut job = model(label.to_owned(), mode, MODEL_SHARE).set("lab.duration", duration);
        job = job.set("flow.bgp.start", start);
        let pattern = format!("{{ on = \"{burst}\", off = \"{burst}\" }}");
        job = job.set("flow.bgp.pattern", &pattern);
        if mode == Mode::Cloned {
            job = job.set("flow.clones.start", start).set("flow.clones.pattern", &pattern);
        }
        job
    };
    let runs = stage.run(&MODES.map(job))?;
    let course = |(run, mode): (&Run, (Mode, &'static str))| -> Result<Course> {
        let sent = |name| run.flow(name).map(|flow| flow.sent_datagrams.unwrap_or_default());
        let mut course = Course::read(run, mode.1, sent("bgp")?)?;
        course.clones = if mode.0 == Mode::Cloned { sent("clones")? } else { 0 };
        Ok(course)
    };
    runs.iter().zip(MODES).map(course).collect()
}

fn wall(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<Vec<Course>> {
    let daemon = router::installed()?[0];
    let mut courses = Vec::new();
    for (mode, label) in MODES {
        let mut testbed = Testbed::new(stage, label, daemon, stage.size(SCRIPT, SHORT))?
            .regular(SHARE, 6.0, stage.size(140.0, 8.0))
            .set("lab.duration", stage.size("240 s", "60 s"));
        if stage.short() {
            testbed = testbed.prefixes(20_000);
        }
        if mode != Mode::Cloned {
            testbed = testbed.without_mirror();
        }
        let run = stage.run(std::slice::from_ref(&testbed.job))?.remove(0);
        let mut bgp = 0;
        for peer in 1..=5 {
            bgp += run.link(&format!("p{peer}"), Direction::Up)?.sent_packets;
        }
        let mut course = Course::read(&run, label, bgp)?;
        if mode == Mode::Cloned {
            let collected = testbed.collected()?;
            course.clones = collected.segments;
            let dump = truth::read(&testbed.out.join("router.mrt"))?;
            let compared = truth::compare(&dump, &truth::read(&testbed.out.join("archive"))?);
            evidence.claim(
                "archive beside the router's own dump, under this load",
                "correct in all experiments, also when regular traffic was dropped",
                format!(
                    "{} of {} peers the same bytes, {} UPDATEs; {} segments dropped",
                    compared.same, compared.peers, compared.updates, collected.kernel_drops
                ),
                compared.peers == 5 && compared.same == 5 && collected.kernel_drops == 0,
            );
        }
        courses.push(course);
    }
    Ok(courses)
}

fn name(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall clock, real router",
        Clock::Virtual => "virtual clock, model",
    }
}

fn row(course: &Course, table: &mut Table) {
    table.row([
        name(course.clock).to_owned(),
        course.label.to_owned(),
        format!("{:.0}", course.sent),
        format!("{:.0}", course.lost),
        format!("{:.4} %", course.lost / course.sent.max(1.0) * 100.0),
        format!("{:.4} %", course.most()),
        course.bgp.to_string(),
        course.clones.to_string(),
        format!("{:.2}", course.displaced()),
    ]);
}

fn plot(clock: Clock, courses: &[Course]) -> Plot {
    let x = Axis::linear("time in s");
    let y = Axis::linear("frame loss in %").from(0.0);
    let mut plot = Plot::new(format!("Frame loss during bursts ({})", name(clock)), x, y);
    for course in courses {
        plot.lines.push(Line::new(course.label, course.loss.clone()));
    }
    plot
}

fn wall_claims(without: &Course, with: &Course, evidence: &mut Evidence) {
    evidence.claim(
        "regular packets lost for each packet of BGP, without cloning and with it (wall)",
        "loss is likely due to the BGP traffic itself: at most one",
        format!("{:.2} and {:.2}", without.displaced(), with.displaced()),
        without.displaced() <= 1.1 && with.displaced() <= 1.1,
    );
    let more = with.displaced() - without.displaced();
    evidence.claim(
        "what cloning adds to that (wall)",
        "a very small extent",
        format!("{more:+.3}; {NO_DIFFERENCE} allowed"),
        more <= NO_DIFFERENCE,
    );
}

fn model_claims(without: &Course, with: &Course, evidence: &mut Evidence) {
    let least = without.loss.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    evidence.claim(
        "loss between bursts, without cloning (model)",
        "about 0.005 %",
        format!("{least:.4} %"),
        least <= 0.01,
    );
    evidence.claim(
        "most loss in bursts, without cloning and with it (model)",
        format!("higher with cloning, never {PAPER_MOST} %"),
        format!("{:.4} and {:.4} %", without.most(), with.most()),
        with.most() > without.most() && with.most() < PAPER_MOST,
    );
    let added = (with.lost - without.lost) / with.clones.max(1) as f64;
    evidence.claim(
        "regular packets that a clone displaces where it costs as much as a packet (model)",
        "not in the paper (expected: one)",
        format!("{added:.3}"),
        (0.9..=1.1).contains(&added),
    );
}

fn notes(evidence: &mut Evidence) {
    evidence.note(format!(
        "Near the limit every packet that the router handles beside regular traffic displaces one. \
         Five tables in two minutes are 310 packets/s, {:.3} % of the paper's {PAPER_LIMIT:.0}; \
         cloned, twice that, which with what was lost anyway is the height of the \
         paper's spikes. So a Cisco 7201 seems to spend about one packet's work on a clone.",
        super::PAPER_SEGMENTS / super::PAPER_TRANSFER_S / PAPER_LIMIT * 100.0,
    ));
    evidence.note(
        "On the wall clock clones leave through a port of their own and take nothing of the \
         modelled capacity, so both courses should be alike; what differs is TCP's course between \
         losses. The router is 200 times slower than the paper's, so the same five sessions \
         displace a larger share: what carries over is packets lost for each packet of BGP.",
    );
    evidence.note(
        "Speakers withdraw and announce all prefixes over sessions that stay, as the paper's \
         Quagga processes do when their sessions with the ISP end and return.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(lost: f64, bgp: u64, most: f64) -> Course {
        Course {
            clock: Clock::Virtual,
            label: "x",
            loss: vec![(1.0, 0.005), (3.0, most)],
            sent: 1e6,
            lost,
            bgp,
            clones: 100,
        }
    }

    fn judged(
        claims: impl Fn(&Course, &Course, &mut Evidence),
        without: &Course,
        with: &Course,
    ) -> Vec<bool> {
        let mut evidence = Evidence::default();
        claims(without, with, &mut evidence);
        evidence.claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn each_claim_can_fail() {
        let (without, with) = (course(150.0, 100, 0.02), course(250.0, 100, 0.037));
        assert_eq!(judged(model_claims, &without, &with), [true; 3]);
        assert_eq!(judged(model_claims, &without, &course(250.0, 100, 0.05)), [true, false, true]);
        assert_eq!(judged(model_claims, &without, &course(350.0, 100, 0.03)), [true, true, false]);
        let (without, with) = (course(80.0, 100, 1.0), course(85.0, 100, 1.0));
        assert_eq!(judged(wall_claims, &without, &with), [true; 2]);
        assert_eq!(judged(wall_claims, &without, &course(150.0, 100, 1.0)), [false; 2]);
    }
}
