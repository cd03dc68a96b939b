//! Runs with a live view: pauses and steps have no effect, and changes are events.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use lab::plan::Plan;
use run::RunRecord;
use run::live::{ClockChange, Source};
use sim::live::{Action, Live, Refusal};
use sim::run::{Options, Progress};

use super::labs::plan;

const LAB: &str = "[lab]\nname = \"pair\"\nduration = \"3 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nname = \"wire\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
    [[flow]]\nname = \"mice\"\nfrom = \"b\"\nto = \"a\"\nsize = \"10 kB\"\n\
    arrivals = { poisson = \"50 ms\" }\n\
    [[at]]\ntime = \"2 s\"\nlink = \"wire\"\nset = { loss = \"1 %\" }\n";

const SESSIONS: &str = "[lab]\nname = \"pair\"\nduration = \"3 s\"\n\
    model = \"fluid\"\n[control]\nprotocol = \"slbn\"\n[node.a]\n[node.b]\n\
    [[link]]\nname = \"wire\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\n\
    control = \"slbn\"\n";

fn run(plan: &Plan, dir: &Path, live: Option<Arc<Live>>) -> RunRecord {
    let options = Options { runs_dir: dir.to_owned(), repeat: String::new(), alone: false, live };
    sim::run::run(plan, &options, &mut |_: &Progress| {}, &AtomicBool::new(false)).unwrap()
}

/// Ends the control of a run, also after a panic.
struct Resume<'a>(&'a Live);

impl Drop for Resume<'_> {
    fn drop(&mut self) {
        self.0.change(ClockChange::Speed { permille: None });
        self.0.change(ClockChange::Resume);
    }
}

/// Runs a plan while `watch` controls it.
fn watched(plan: &Plan, watch: impl FnOnce(&Live) + Send) -> RunRecord {
    let dir = tempfile::tempdir().unwrap();
    let live = Arc::new(Live::new(plan));
    thread::scope(|scope| {
        let view = Arc::clone(&live);
        scope.spawn(move || {
            let view = Resume(&view);
            view.0.change(ClockChange::Pause);
            view.0.watch(true);
            view.0.first();
            watch(view.0);
        });
        run(plan, dir.path(), Some(live))
    })
}

/// Runs for this time, and waits for the pause after it.
fn step(live: &Live, ms: u64, end_s: f64) {
    live.change(ClockChange::Step { ns: ms * 1_000_000 });
    while live.clock().now < end_s {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((live.clock().now, live.clock().is_paused), (end_s, true));
}

/// The parts of a record that depend on what happened in the network.
fn results(record: &RunRecord) -> String {
    let RunRecord { trace_hash, flows, links, events, elapsed_s, status, .. } = record;
    assert!(trace_hash.is_some());
    format!("{trace_hash:?} {flows:#?} {links:#?} {events:#?} {elapsed_s} {status:?}")
}

#[test]
fn watched_run_without_changes_has_the_results_of_another() {
    let hop = plan(LAB);
    let fluid = plan(&LAB.replace("[node.a]", "model = \"fluid\"\n[node.a]"));
    let collapsed = plan(&LAB.replace("[node.a]", "model = \"collapsed\"\n[node.a]"));
    for plan in [hop, collapsed, fluid, plan(SESSIONS)] {
        let dir = tempfile::tempdir().unwrap();
        let alone = run(&plan, dir.path(), None);
        let mut frames = 0;
        let record = watched(&plan, |live| {
            step(live, 7, 0.007);
            step(live, 93, 0.1);
            step(live, 1_234, 1.334);
            frames = std::iter::from_fn(|| live.frame()).count();
        });
        assert_eq!(results(&record), results(&alone), "{:?}", plan.model);
        assert_eq!(frames, 1, "frames of 13 intervals are one");
    }
}

#[test]
fn change_in_a_watched_run_is_an_event_of_the_lab_at_that_time() {
    let mut at_s = 0.0;
    let record = watched(&plan(LAB), |live| {
        step(live, 1_050, 1.05);
        let hello = live.hello().unwrap();
        assert_eq!(
            (hello.source, hello.commands),
            (Source::Live, ["clock", "mark", "set"].map(str::to_owned).to_vec())
        );
        let wrong = vec![("link.wire.los".to_owned(), "1 %".to_owned())];
        let reply = live.request(Action::Set(wrong)).recv().unwrap();
        assert!(matches!(reply, Err(Refusal::Wrong(_))), "{reply:?}");
        let slow = vec![("link.wire.delay".to_owned(), "40 ms".to_owned())];
        let done = live.request(Action::Set(slow)).recv().unwrap().unwrap();
        at_s = done.at.as_secs_f64();
        assert_eq!(done.events.len(), 2, "both directions");
        let done = live.request(Action::Mark("slow".to_owned())).recv().unwrap().unwrap();
        assert_eq!((done.at.as_secs_f64(), done.events), (at_s, vec!["mark: slow".to_owned()]));
        step(live, 100, at_s + 0.1);
        let frame = live.frame().unwrap();
        assert_eq!((frame.changes[0].values.delay_s, frame.events.len()), ([0.04; 2], 3));
    });
    assert_eq!(at_s.to_string(), "1.050000001");
    let event =
        format!("[[at]]\ntime = \"{at_s} s\"\nlink = \"wire\"\nset = {{ delay = \"40 ms\" }}\n");
    let dir = tempfile::tempdir().unwrap();
    let planned = run(&plan(&format!("{LAB}{event}")), dir.path(), None);
    assert_eq!(record.trace_hash, planned.trace_hash);
    assert_eq!((&record.flows, &record.links), (&planned.flows, &planned.links));
    let events =
        |record: &RunRecord| record.simulation.as_ref().map(|simulation| simulation.events);
    assert_eq!(events(&record), events(&planned));
    let alone = run(&plan(LAB), dir.path(), None);
    assert_ne!(record.trace_hash, alone.trace_hash);
    let texts: Vec<&str> = record.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert_eq!(texts[2], "mark: slow");
}

#[test]
fn other_models_refuse_changes() {
    let plan = plan(&LAB.replace("[node.a]", "model = \"fluid\"\n[node.a]"));
    watched(&plan, |live| {
        step(live, 10, 0.01);
        assert_eq!(live.hello().unwrap().commands, ["clock", "mark"]);
        let slow = vec![("link.wire.delay".to_owned(), "40 ms".to_owned())];
        let reply = live.request(Action::Set(slow)).recv().unwrap();
        assert!(matches!(reply, Err(Refusal::Impossible(_))), "{reply:?}");
    });
}
