//! Beyond the paper: control packets get lost. SLBN keeps the only copy of a session's state in its
//! packet; with epochs, links count anew what is there.

use super::accuracy::{self, Where};
use super::course::{Course, amount_of_all, bottleneck, rateless};
use super::{EPOCHS, Rival, SLBN};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "loss",
    title: "beyond the paper: SLBN where control packets get lost, with epochs and without",
    takes: "5 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/loss.toml")],
    make,
};

const LAB: &str = "slbn/loss.toml";
/// Loss of control packets on each link, in %.
const LOSSES: [u32; 3] = [0, 1, 5];
/// From here on nobody comes or goes, and epochs have counted anew.
const SETTLED_S: f64 = 5.0;
/// Without loss, the mean amount of errors of all sessions then, in %.
const EXACT: f64 = 1.0;
/// By how much bottlenecks may be over in the mean, in %.
const OVER: f64 = 5.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut jobs = Vec::new();
    let mut labels = Vec::new();
    for rival in [SLBN, EPOCHS] {
        for loss in LOSSES {
            jobs.push(sized(stage, rival, loss));
            labels.push((rival, loss));
        }
    }
    let runs = stage.run(&jobs)?;
    let read = runs.iter().zip(&labels);
    let courses: Vec<Course> = read
        .map(|(run, (rival, loss))| Course::read(run, format!("{}, {loss} % lost", rival.1)))
        .collect::<Result<_>>()?;
    let all: Vec<&Course> = courses.iter().collect();
    let mut evidence = Evidence::default();
    let end = courses.first().map_or(0.0, Course::end);
    for (title, whose) in
        [("Errors at sources", Where::Sources), ("Errors at bottlenecks", Where::Bottlenecks)]
    {
        let mut plot = accuracy::plot(title, &all, whose, Some((-100.0, 60.0)), (0.0, end));
        // Six bands on top of each other hide the lines.
        plot.lines.iter_mut().for_each(|line| line.spread.clear());
        "Means.".clone_into(&mut plot.note);
        evidence.plots.push(plot);
    }
    let axis = Axis::log("ms to send the longest queue");
    evidence.plots.push(accuracy::over_time("Longest queue", axis, &all, |m| m.queue_ms));
    evidence.tables.push(settled(&courses));
    evidence.tables.push(accuracy::table(&all, &[1.0, 2.0, 3.0, 4.0, end]));
    claims(&mut evidence, &labels, &courses);
    evidence.note(
        "The paper leaves lost packets to “classical techniques”. Without any, a session whose \
         packet is lost keeps its rate for ever, or never gets one, and its links what they had \
         counted of it. With epochs, a source sends its packet again, and links replace their \
         sums once in an epoch by what they have counted in it.",
    );
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival, loss: u32) -> Job {
    let job = Job::new(LAB, format!("{}-{loss}", rival.0), Clock::Virtual)
        .set("control.protocol", rival.0)
        .set("control.loss", format!("{loss} %"));
    if !stage.short() {
        return job;
    }
    super::smaller(job)
        .set("sessions.first.count", "1000")
        .set("sessions.first.leave_count", "500")
        .set("sessions.second.count", "500")
}

fn settled(courses: &[Course]) -> Table {
    let heads = ["run", "lost", "all sessions", "without a rate", "bottlenecks", "state"];
    let title = format!(
        "After {SETTLED_S} s, in the mean: amount of the errors of all sessions (one without a rate \
         is 100 % off), how many have none, and errors at bottlenecks, in %; numbers that a link \
         keeps"
    );
    let mut table = Table::new(title, &heads);
    for course in courses {
        let after = (SETTLED_S, course.end());
        let mean =
            |value: Option<[f64; 3]>| value.map_or("–".to_owned(), |v| format!("{:.2}", v[1]));
        table.row([
            course.label.clone(),
            course.sum.lost.to_string(),
            mean(course.range(after, amount_of_all)),
            mean(course.range(after, rateless)),
            mean(course.range(after, bottleneck)),
            course.sum.link_numbers_max.to_string(),
        ]);
    }
    table
}

fn claims(evidence: &mut Evidence, labels: &[(Rival, u32)], courses: &[Course]) {
    let after = |course: &Course| (SETTLED_S, course.end());
    let error = |rival: Rival, loss: u32| {
        let at = labels.iter().position(|label| *label == (rival, loss))?;
        Some(courses[at].range(after(&courses[at]), amount_of_all)?[1])
    };
    for loss in LOSSES {
        let what =
            format!("mean amount of the errors of all sessions after the changes, {loss} % lost");
        let (Some(plain), Some(epochs)) = (error(SLBN, loss), error(EPOCHS, loss)) else {
            evidence.claim(what, "samples after the changes", "none", false);
            continue;
        };
        let ours = format!("{plain:.2} % without epochs, {epochs:.2} % with");
        match loss {
            0 => evidence.claim(
                what,
                format!("the exact rates (here: at most {EXACT} %)"),
                ours,
                plain.max(epochs) <= EXACT,
            ),
            _ => evidence.claim(
                what,
                "not in the paper (expected: smaller with epochs)",
                ours,
                epochs < plain,
            ),
        }
    }
    for ((rival, _), course) in labels.iter().zip(courses) {
        if *rival != EPOCHS {
            continue;
        }
        let range = course.range(after(course), bottleneck);
        evidence.claim(
            format!("rates at bottlenecks after the changes ({})", course.label),
            format!("not in the paper (expected: at most {OVER} % over)"),
            range.map_or("no samples".to_owned(), |[_, mean, over]| {
                format!("{mean:+.2} %, at most {over:+.2} %")
            }),
            range.is_some_and(|[_, _, over]| over <= OVER),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn epochs_must_keep_errors_small_where_packets_get_lost() {
        let labels = [(SLBN, 0), (EPOCHS, 0), (SLBN, 1), (EPOCHS, 1), (SLBN, 5), (EPOCHS, 5)];
        let runs = [(0.1, 0.0), (0.2, 0.0), (30.0, 0.0), (14.0, 0.0), (40.0, 0.0), (41.0, 6.0)];
        let runs: Vec<Course> =
            runs.iter().map(|(error, links)| course("a", &[(*error, *links, 0); 60])).collect();
        let mut evidence = Evidence::default();
        claims(&mut evidence, &labels, &runs);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, false, true, true, false]);
    }

    #[test]
    fn sessions_without_a_rate_and_runs_without_samples_fail() {
        let labels = [(SLBN, 0), (EPOCHS, 0)];
        let mut runs = [(); 2].map(|()| course("a", &[(0.1, 0.0, 0); 60])).to_vec();
        runs[1].moments.iter_mut().for_each(|moment| moment.assigned = 9);
        let holds = |runs: &[Course]| {
            let mut evidence = Evidence::default();
            claims(&mut evidence, &labels, runs);
            evidence.claims.iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(&runs), [false, false, false, true]);
        runs[1].moments.truncate(3);
        assert_eq!(holds(&runs), [false, false, false, false]);
    }
}
