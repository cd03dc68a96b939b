//! Experiment 1b, figures 5 and 6: how long sessions with an amount to send take, and how queues
//! grow meanwhile.

use super::completion::{Session, bins, mean, sessions};
use super::course::Course;
use super::{BFYZ, BNECK, COBB, ERICA, PIQI, RCP, Rival, SLBN, accuracy, job, of};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Line, Plot, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "1b",
    title: "completion times by size and queues of finite sessions (figures 5 and 6)",
    takes: "20 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/1b.toml")],
    make,
};

const LAB: &str = "slbn/1b.toml";
const RIVALS: [Rival; 7] = [SLBN, BFYZ, ERICA, RCP, PIQI, COBB, BNECK];
/// Those whose completion times the paper calls similar.
const ALIKE: [Rival; 4] = [BFYZ, ERICA, PIQI, COBB];
/// Bytes of a data packet.
const PACKET: f64 = 2000.0;
/// The last sessions have joined half a second before, and what that caused is over.
const SETTLED_S: f64 = 1.0;
/// A queue that grows by less than this factor later on is bounded.
const BOUNDED: f64 = 1.05;
/// Mean completion times up to this factor of SLBN's are similar, from there much worse.
const SIMILAR: f64 = 1.5;
/// The paper's largest queues of Cobb-Gouda in the first three seconds, in packets.
const COBB_QUEUES: [f64; 3] = [5293.0, 8265.0, 4775.0];
/// How far they may be from these, as a factor.
const KIND: f64 = 2.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let jobs: Vec<Job> = RIVALS.map(|rival| sized(stage, rival)).to_vec();
    let runs = stage.run(&jobs)?;
    let mut courses = Vec::new();
    let mut done = Vec::new();
    for (run, rival) in runs.iter().zip(RIVALS) {
        courses.push(Course::read(run, rival.1)?);
        done.push(sessions(run, PACKET)?);
    }
    let mut evidence = Evidence::default();
    evidence.plots.push(times(&courses, &done));
    let all: Vec<&Course> = courses.iter().collect();
    let queues = "packets in the largest queue";
    evidence.plots.push(accuracy::over_time(
        "Figure 6: largest queue",
        Axis::log(queues),
        &all,
        |moment| moment.queue as f64,
    ));
    let near: Vec<&Course> = [SLBN, BFYZ, BNECK].iter().filter_map(|r| of(&courses, *r)).collect();
    evidence.plots.push(accuracy::over_time(
        "Figure 6: largest queue, the smallest of them",
        Axis::linear(queues).from(0.0),
        &near,
        |moment| moment.queue as f64,
    ));
    evidence.tables.push(summary(&courses, &done));
    evidence.tables.push(by_size(&courses, &done));
    evidence.tables.push(accuracy::cost(&all));
    claims(&mut evidence, &courses, &done, stage.short());
    evidence.note(
        "A session's time is from its joining to the arrival of its last packet. The figure of the \
         paper has times from 1.5 to 5 s.",
    );
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival) -> Job {
    let job = job(stage, LAB, rival);
    if stage.short() { job.set("sessions.finite.count", "2000") } else { job }
}

/// Figure 5.
fn times(courses: &[Course], done: &[Vec<Session>]) -> Plot {
    let mut plot = Plot::new(
        "Figure 5: mean completion time by session size",
        Axis::log("packets of a session"),
        Axis::linear("completion time in s").from(0.0),
    );
    for (course, sessions) in courses.iter().zip(done) {
        let points = bins(sessions).iter().map(|bin| (bin.packets, bin.seconds)).collect();
        plot.lines.push(Line::new(&course.label, points));
    }
    plot
}

fn summary(courses: &[Course], done: &[Vec<Session>]) -> Table {
    let heads =
        ["protocol", "mean time", "not done", "0–1 s", "1–2 s", "2–3 s", "later", "longest"];
    let title = "Completion times; largest queues in packets; the longest time that a link needed \
                 to send what waited for it";
    let mut table = Table::new(title, &heads);
    for (course, sessions) in courses.iter().zip(done) {
        let (time, open) = mean(sessions);
        let queue = |from, to| course.queue(from, to).to_string();
        let waited = course.moments.iter().map(|m| m.queue_ms).fold(0.0, f64::max);
        table.row([
            course.label.clone(),
            format!("{time:.2} s"),
            open.to_string(),
            queue(0.0, 1.0),
            queue(1.0, 2.0),
            queue(2.0, 3.0),
            queue(3.0, f64::INFINITY),
            format!("{waited:.0} ms"),
        ]);
    }
    table
}

fn by_size(courses: &[Course], done: &[Vec<Session>]) -> Table {
    let heads = ["protocol", "packets", "sessions", "done", "mean time"];
    let mut table = Table::new("Completion times by size of the session", &heads);
    for (course, sessions) in courses.iter().zip(done) {
        for bin in bins(sessions) {
            table.row([
                course.label.clone(),
                format!("{:.0}", bin.packets),
                bin.all.to_string(),
                bin.done.to_string(),
                format!("{:.3} s", bin.seconds),
            ]);
        }
    }
    table
}

/// The largest queue up to the end of the joins, the largest later, and whether that is no more.
fn bounded(course: &Course) -> (u64, u64, bool) {
    let first = course.queue(0.0, SETTLED_S);
    let later = course.queue(SETTLED_S, f64::INFINITY);
    (first, later, later as f64 <= first as f64 * BOUNDED)
}

fn claims(evidence: &mut Evidence, courses: &[Course], done: &[Vec<Session>], short: bool) {
    let Some(slbn) = of(courses, SLBN) else { return };
    let (first, later, is) = bounded(slbn);
    evidence.claim(
        "largest queue (SLBN)",
        format!("bounded (here: no larger after {SETTLED_S} s than before)"),
        format!("{first} packets until {SETTLED_S} s, {later} later"),
        is,
    );
    let open: usize = done.first().map_or(0, |sessions| mean(sessions).1);
    evidence.claim(
        "sessions that are not done at the end (SLBN)",
        "none",
        open.to_string(),
        open == 0,
    );
    // Few sessions in a small network tell nothing of how the others fare in a large one.
    if short {
        return;
    }
    let names = |wanted: &dyn Fn(&Course) -> bool| -> String {
        let of: Vec<&str> =
            courses.iter().filter(|c| wanted(c)).map(|c| c.label.as_str()).collect();
        if of.is_empty() { "none".to_owned() } else { of.join(", ") }
    };
    let paper = |course: &Course| course.label != BNECK.1;
    let ours = names(&|course| paper(course) && bounded(course).2);
    evidence.claim("whose largest queue is bounded", "SLBN's alone", ours.clone(), ours == SLBN.1);
    let whole = |course: &Course| course.queue(0.0, f64::INFINITY);
    let mut order: Vec<&Course> = courses.iter().filter(|course| paper(course)).collect();
    order.sort_by_key(|course| std::cmp::Reverse(whole(course)));
    let most: Vec<String> =
        order.iter().map(|course| format!("{} {}", course.label, whole(course))).collect();
    let two = order.len() > 2 && order[..2].iter().all(|c| [COBB.1, PIQI.1].contains(&&*c.label));
    evidence.claim(
        "largest queues over the whole time, in packets",
        "Cobb-Gouda and PIQI-RCP stress the links most",
        most.join(", "),
        two,
    );
    if let Some(cobb) = of(courses, COBB) {
        let ours = [0.0, 1.0, 2.0].map(|from| cobb.queue(from, from + 1.0));
        let near = ours
            .iter()
            .zip(COBB_QUEUES)
            .all(|(ours, paper)| (paper / KIND..=paper * KIND).contains(&(*ours as f64)));
        evidence.claim(
            "largest queue in each of the first three seconds (Cobb-Gouda)",
            "5,293, 8,265 and 4,775 packets (here: within a factor of 2)",
            format!("{}, {}, {} packets", ours[0], ours[1], ours[2]),
            near,
        );
    }
    completion(evidence, courses, done);
}

fn completion(evidence: &mut Evidence, courses: &[Course], done: &[Vec<Session>]) {
    let time = |rival: Rival| {
        let index = courses.iter().position(|course| course.label == rival.1)?;
        Some(mean(&done[index]).0)
    };
    let Some(slbn) = time(SLBN) else { return };
    let alike: Vec<(Rival, f64)> =
        ALIKE.iter().filter_map(|rival| Some((*rival, time(*rival)? / slbn))).collect();
    let told: Vec<String> =
        alike.iter().map(|(rival, ratio)| format!("{} {ratio:.2}", rival.1)).collect();
    evidence.claim(
        "mean completion times over SLBN's",
        format!("similar for BFYZ, ERICA, PIQI-RCP, Cobb-Gouda (here: up to {SIMILAR} times)"),
        format!("{} times SLBN's {slbn:.2} s", told.join(", ")),
        alike.iter().all(|(_, ratio)| (1.0 / SIMILAR..=SIMILAR).contains(ratio)),
    );
    if let Some(rcp) = time(RCP) {
        evidence.claim(
            "mean completion time (RCP)",
            format!("much worse than SLBN's (here: more than {SIMILAR} times)"),
            format!("{rcp:.2} s, {:.2} times", rcp / slbn),
            rcp > slbn * SIMILAR,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn bounded_queues_do_not_grow_when_all_have_joined() {
        let early = [(0.0, 0.0, 90); 10];
        let flat = course("a", &[&early[..], &[(0.0, 0.0, 94)]].concat());
        assert_eq!(bounded(&flat), (90, 94, true));
        let grows = course("b", &[&early[..], &[(0.0, 0.0, 95)]].concat());
        assert_eq!(bounded(&grows), (90, 95, false));
    }

    #[test]
    fn completion_is_compared_with_slbns() {
        let session = |seconds| Session { packets: 300.0, seconds: Some(seconds) };
        let runs: Vec<Course> = RIVALS.iter().map(|r| course(r.1, &[(0.0, 0.0, 1); 11])).collect();
        let mut times = [2.0, 2.2, 2.5, 5.0, 2.9, 1.5, 2.0].map(|s| vec![session(s)]);
        let mut evidence = Evidence::default();
        completion(&mut evidence, &runs, &times);
        assert!(evidence.claims.iter().all(|claim| claim.holds), "{:?}", evidence.claims);
        times[3] = vec![session(2.9)];
        times[4] = vec![session(3.1)];
        let mut evidence = Evidence::default();
        completion(&mut evidence, &runs, &times);
        assert!(evidence.claims.iter().all(|claim| !claim.holds), "{:?}", evidence.claims);
    }
}
