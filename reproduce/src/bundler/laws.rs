//! Figure 12: laws that set the bundle's rate, and congestion controls of the hosts.

use super::requests::{Class, DEFINITION, Requests};
use super::{Case, bundler, runs, slowdowns, status_quo, times};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Stage, Table};

pub(super) const LAWS: Figure = Figure {
    id: "laws",
    title: "figure 12: laws that set the bundle's rate",
    takes: "4 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/requests.toml")],
    make: laws,
};

pub(super) const HOSTS: Figure = Figure {
    id: "hosts",
    title: "requests of hosts with Reno and BBR",
    takes: "4 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/requests.toml")],
    make: hosts,
};

fn sized(stage: &Stage<'_>, case: Case) -> Case {
    case.set("flow.requests.count", stage.size("100000", "20000"))
}

fn read(stage: &mut Stage<'_>, cases: &[Case]) -> Result<Vec<Requests>> {
    let sized: Vec<Case> = cases.iter().map(|case| sized(stage, case.clone())).collect();
    let all = runs(stage, slowdowns::LAB, &sized, stage.size(5, 3))?;
    all.iter().map(|runs| Requests::read(runs, "requests")).collect()
}

fn table(title: &str, cases: &[Case], requests: &[Requests], paper: &[Option<f64>]) -> Table {
    let heads = ["", "median, the paper's / ours", "up to 10 kB, 75 %", "99 %", "above 1 MB"];
    let mut table = Table::new(title, &heads);
    for ((case, requests), paper) in cases.iter().zip(requests).zip(paper) {
        let paper = paper.map_or("–".to_owned(), |paper| format!("{paper:.2}"));
        table.row([
            case.label.clone(),
            format!("{paper} / {:.2}", requests.median(Class::All)),
            format!("{:.2}", requests.quantile(Class::Small, 0.75)),
            format!("{:.2}", requests.quantile(Class::All, 0.99)),
            format!("{:.2}", requests.median(Class::Large)),
        ]);
    }
    table
}

fn laws(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut cases = vec![status_quo()];
    let law = |name: &str, label: &str| Case::new(name, label).set("bundle.site.control", name);
    for (name, label) in
        [("copa", "Bundler, Copa"), ("basic-delay", "Bundler, BasicDelay"), ("bbr", "Bundler, BBR")]
    {
        cases.push(law(name, label));
    }
    let requests = read(stage, &cases)?;
    let paper = [Some(1.76), Some(1.09), Some(1.32), Some(1.91)];
    let mut evidence = Evidence::default();
    evidence.tables.push(table("Slowdown of requests by law", &cases, &requests, &paper));
    let medians: Vec<f64> = requests.iter().map(|all| all.median(Class::All)).collect();
    for (at, most, paper) in
        [(1, 0.75, "0.62 × (here: at most 0.75 ×)"), (2, 0.95, "0.75 × (here: at most 0.95 ×)")]
    {
        let ratio = medians[at] / medians[0];
        let what = format!("median slowdown, {} over status quo", cases[at].label);
        evidence.claim(what, paper, times(ratio), ratio <= most);
    }
    let best = medians[1..3].iter().copied().fold(f64::INFINITY, f64::min);
    evidence.claim(
        "median slowdown, BBR against the laws that keep delay short",
        "the worst of all, 1.09 × status quo (here: worse than the best of them)",
        format!("{:.2} against {best:.2}", medians[3]),
        medians[3] > best,
    );
    evidence.note(DEFINITION);
    Ok(evidence)
}

fn hosts(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut cases = Vec::new();
    for control in ["cubic", "reno", "bbr"] {
        for case in [status_quo(), bundler()] {
            let label = format!("{control}, {}", case.label);
            let case = case.called(control).set("flow.requests.control", control);
            cases.push(Case { label, ..case });
        }
    }
    let requests = read(stage, &cases)?;
    let paper = [Some(1.76), Some(1.26), None, None, Some(2.68), Some(1.14)];
    let mut evidence = Evidence::default();
    evidence.tables.push(table("Slowdown by hosts' control", &cases, &requests, &paper));
    for (pair, (control, paper)) in
        requests.chunks(2).zip([("Cubic", "0.72 ×"), ("Reno", "below 1 ×"), ("BBR", "0.43 ×")])
    {
        let [quo, ours] = pair else { continue };
        let ratio = ours.median(Class::All) / quo.median(Class::All);
        evidence.claim(
            format!("median slowdown with {control} hosts, Bundler over status quo"),
            format!("{paper} (here: at most 0.8 ×)"),
            times(ratio),
            ratio <= 0.8,
        );
    }
    evidence.note(DEFINITION);
    Ok(evidence)
}
