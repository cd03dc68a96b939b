//! Scripted runs: events, and the outputs of the coordinator.

use super::*;
use crate::control::ShardProgress;

#[derive(Clone, Debug)]
enum Event {
    Reserved(u16),
    Refused(u16),
    Started(u16),
    Begin,
    Is(u16, Phase),
    Idle(u16),
    EndsEarly(u16),
    /// The first agent has ended its shard because it lost the second one.
    EndsFor(u16, u16),
    Lost(u16),
    Regained(u16),
    Replaced(u16),
    Fetched(u16),
    NotFetched(u16),
    Interrupt,
    Wait(u64),
}

use Event::*;
use Phase::{Failed, Finished, Preparing, Ready, Running};

struct Script {
    coordinator: Coordinator,
    now: Time,
    sequence: u64,
    outputs: Vec<String>,
}

impl Script {
    fn new(agents: u64, on_loss: OnLoss) -> Self {
        let terms = Terms {
            instances: (100..100 + agents).collect(),
            duration: Span::from_secs(100),
            grace: Span::from_secs(60),
            stay: false,
            waits_for_begin: false,
            on_loss,
        };
        let now = Time::ZERO + Span::from_secs(1000);
        let coordinator = Coordinator::new(now, terms);
        let mut script = Self { coordinator, now, sequence: 0, outputs: Vec::new() };
        script.collect_outputs();
        script
    }

    fn collect_outputs(&mut self) {
        while let Some(output) = self.coordinator.poll() {
            self.outputs.push(match output {
                Output::Reserve(agent) => format!("reserve {agent}"),
                Output::Prepare(agent) => format!("prepare {agent}"),
                Output::Start { agent, origin_ns: None } => format!("choose {agent}"),
                Output::Start { agent, origin_ns: Some(_) } => format!("start {agent}"),
                Output::Order { agent, order: Order::Stop } => format!("stop {agent}"),
                Output::Order { agent, .. } => format!("drop {agent}"),
                Output::Fetch(agent) => format!("fetch {agent}"),
                Output::Ready => "ready".to_owned(),
                Output::Started => "started".to_owned(),
                Output::Ended(Ending::Failed { agent: Some(agent), refusal }) => {
                    format!("failed {agent} {}", refusal.code)
                }
                Output::Ended(Ending::Failed { agent: None, refusal }) => {
                    format!("failed {}", refusal.code)
                }
                Output::Ended(Ending::Ran { fetched, keep, outages, interrupted }) => {
                    let fetched: Vec<String> = fetched.iter().map(AgentId::to_string).collect();
                    let outages: Vec<String> = outages
                        .iter()
                        .map(|o| format!("{}{}", o.agent, o.until.map_or("", |_| " back")))
                        .collect();
                    let how = if interrupted { "interrupted" } else { "over" };
                    let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
                    let (fetched, outages) = (fetched.join(","), outages.join(","));
                    format!("{how} [{fetched}] [{outages}] keep [{}]", keep.join(","))
                }
            });
        }
    }

    fn report(
        &mut self,
        agent: u16,
        phase: Phase,
        idle: bool,
        failure: Option<&str>,
        lost: Option<AgentId>,
    ) {
        self.sequence += 1;
        let failure = failure.map(|text| Refusal { text: text.to_owned(), code: 5 });
        let report = Report {
            agent: AgentId(agent),
            instance: 100 + u64::from(agent),
            sequence: self.sequence,
            phase,
            awaited: (phase == Preparing).then_some(Awaited::Clock),
            failure,
            progress: Some(ShardProgress { idle, ..ShardProgress::default() }),
            lost,
            programs: Vec::new(),
            result_bytes: 0,
        };
        self.coordinator.report(self.now, &report);
    }

    fn play(&mut self, script: &[Event]) -> Vec<String> {
        let trunk = SocketAddr::from(([127, 0, 0, 1], 1));
        let refusal = || Refusal { text: "no".to_owned(), code: 4 };
        for step in script {
            let (coordinator, now) = (&mut self.coordinator, self.now);
            match step.clone() {
                Reserved(agent) => {
                    let datagram = 1400 + u32::from(agent);
                    let reserved = control::Reserved { trunk, datagram };
                    coordinator.reserved(now, AgentId(agent), reserved);
                }
                Refused(agent) => coordinator.refused(now, AgentId(agent), refusal()),
                Started(agent) => coordinator.started(now, AgentId(agent), 7),
                Begin => coordinator.begin(now),
                Is(agent, Failed) => self.report(agent, Failed, false, Some("dead"), None),
                Is(agent, phase) => self.report(agent, phase, false, None, None),
                Idle(agent) => self.report(agent, Running, true, None, None),
                EndsEarly(agent) => self.report(agent, Finished, false, Some("asked to end"), None),
                EndsFor(agent, other) => {
                    self.report(agent, Finished, false, Some("no heartbeat"), Some(AgentId(other)));
                }
                Lost(agent) => coordinator.lost(now, AgentId(agent)),
                Regained(agent) => coordinator.regained(now, AgentId(agent)),
                Replaced(agent) => coordinator.replaced(now, AgentId(agent)),
                Fetched(agent) => coordinator.fetched(now, AgentId(agent), Ok(())),
                NotFetched(agent) => coordinator.fetched(now, AgentId(agent), Err("no".to_owned())),
                Interrupt => coordinator.interrupt(now),
                Wait(seconds) => {
                    self.now += Span::from_secs(seconds);
                    self.coordinator.on_wake(self.now);
                }
            }
            self.collect_outputs();
        }
        std::mem::take(&mut self.outputs)
    }
}

use crate::control;

const BEGIN: &[Event] =
    &[Reserved(0), Reserved(1), Is(0, Ready), Is(1, Ready), Started(0), Started(1), Idle(9)];

/// A started run on two agents.
fn started_run(on_loss: OnLoss) -> Script {
    let mut script = Script::new(2, on_loss);
    script.play(BEGIN);
    script
}

#[test]
fn runs_all_phases() {
    let mut script = Script::new(2, OnLoss::Stop);
    let outputs = script.play(BEGIN);
    let wanted =
        ["reserve 0", "reserve 1", "prepare 0", "prepare 1", "choose 0", "start 1", "started"];
    assert_eq!(outputs, wanted);
    assert_eq!(script.coordinator.trunks().unwrap().1, 1400, "the smallest datagram");
    let outputs = script.play(&[Idle(0), Is(1, Running), Idle(1)]);
    assert_eq!(outputs, ["stop 0", "stop 1"]);
    let outputs = script.play(&[Is(0, Finished), Is(1, Finished)]);
    assert_eq!(outputs, ["fetch 0", "fetch 1"]);
    let outputs = script.play(&[Fetched(1), Fetched(0)]);
    assert_eq!(outputs, ["over [0,1] [] keep [0,1]"]);
}

#[test]
fn waits_for_begin_when_asked_to() {
    let waiting = || {
        let mut script = Script::new(2, OnLoss::Continue);
        script.coordinator.terms.waits_for_begin = true;
        script.play(&[Reserved(0), Reserved(1), Begin, Is(0, Ready)]);
        assert_eq!(script.play(&[Is(1, Ready), Is(0, Ready), Wait(1000)]), ["ready"]);
        script
    };
    let mut script = waiting();
    assert_eq!(script.play(&[Begin, Begin]), ["choose 0"]);
    assert_eq!(script.play(&[Started(0), Started(1), Begin]), ["start 1", "started"]);
    for (ends, ending) in [(Lost(1), "failed 1 4"), (Interrupt, "failed 130")] {
        assert_eq!(waiting().play(&[ends]), ["drop 0", "drop 1", ending]);
    }
}

#[test]
fn failure_before_start_drops_lab_on_all_agents() {
    let reserved = &[Reserved(0), Reserved(1)][..];
    let ready = &[Reserved(0), Reserved(1), Is(0, Ready), Is(1, Ready)][..];
    let cases: &[(&[Event], &[Event], &str)] = &[
        (&[Reserved(0)], &[Refused(1)], "failed 1 4"),
        (&[Reserved(0)], &[Wait(10)], "failed 1 4"),
        (&[], &[Lost(1)], "failed 1 4"),
        (&[], &[Interrupt], "failed 130"),
        (reserved, &[Is(1, Failed)], "failed 1 5"),
        (reserved, &[Is(0, Ready), Is(1, Preparing), Wait(120)], "failed 1 4"),
        (reserved, &[Replaced(0)], "failed 0 4"),
        (ready, &[Wait(5)], "failed 0 4"),
        (ready, &[Refused(0)], "failed 0 4"),
        (ready, &[Started(0), Wait(5)], "failed 1 4"),
        (ready, &[Started(0), Interrupt], "failed 130"),
    ];
    for (before, then, ending) in cases {
        let mut script = Script::new(2, OnLoss::Continue);
        script.play(before);
        let mut outputs = script.play(then);
        outputs.retain(|output| output != "start 1");
        assert_eq!(outputs, ["drop 0", "drop 1", ending], "{before:?} {then:?}");
        assert!(script.play(&[Is(0, Failed), Lost(0), Interrupt, Wait(500)]).is_empty());
    }
}

#[test]
fn names_what_a_late_shard_waits_for() {
    let cases: &[(&[Event], &str)] = &[
        (&[Is(0, Ready)], "no report of it was received"),
        (&[Is(0, Ready), Is(1, Preparing)], "its clock offset to the first agent is not known"),
        (&[Is(0, Ready), Is(1, Phase::Reserved)], "it is reserved by its last report"),
    ];
    for (reports, why) in cases {
        let mut script = Script::new(2, OnLoss::Stop);
        script.play(&[Reserved(0), Reserved(1)]);
        script.play(reports);
        script.coordinator.on_wake(script.now + PREPARE_TIMEOUT);
        let ended = std::iter::from_fn(|| script.coordinator.poll()).last();
        let text = format!("did not build its shard within 120 s: {why}");
        let refusal = Refusal { text, code: 4 };
        let agent = Some(AgentId(1));
        assert_eq!(ended, Some(Output::Ended(Ending::Failed { agent, refusal })));
    }
}

#[test]
fn reacts_to_events_after_start() {
    let cases: &[(OnLoss, &[Event], &[&str])] = &[
        (OnLoss::Stop, &[Lost(1)], &["stop 0"]),
        (OnLoss::Continue, &[Lost(1)], &[]),
        (OnLoss::Continue, &[Lost(1), Idle(0)], &["stop 0"]),
        (OnLoss::Continue, &[Lost(1), Regained(1), Idle(0)], &[]),
        (OnLoss::Stop, &[Is(1, Failed)], &["stop 0"]),
        (OnLoss::Continue, &[Is(1, Failed), Idle(0)], &["stop 0"]),
        (OnLoss::Continue, &[Replaced(1), Regained(1), Idle(0)], &["stop 0"]),
        (OnLoss::Stop, &[EndsEarly(1)], &["stop 0"]),
        (OnLoss::Continue, &[EndsEarly(1), Fetched(1)], &["fetch 1", "drop 1"]),
        (OnLoss::Stop, &[Is(1, Finished)], &["stop 0"]),
        (OnLoss::Continue, &[Wait(100), Is(1, Finished)], &[]),
        (OnLoss::Continue, &[Wait(160)], &[]),
        (OnLoss::Continue, &[Wait(161)], &["stop 0", "stop 1"]),
        (OnLoss::Continue, &[Interrupt], &["stop 0", "stop 1"]),
        (OnLoss::Continue, &[Lost(0), Lost(1)], &["over [] [0,1] keep []"]),
    ];
    for (on_loss, then, wanted) in cases {
        assert_eq!(started_run(*on_loss).play(then), *wanted, "{on_loss:?} {then:?}");
    }
}

#[test]
fn fetches_results_of_available_agents() {
    type Case<'a> = (OnLoss, &'a [Event], &'a [Event], &'a [&'a str]);
    let cases: &[Case] = &[
        (OnLoss::Stop, &[Lost(1), Is(0, Finished)], &[Fetched(0)], &["over [0] [1] keep [0]"]),
        (OnLoss::Stop, &[EndsFor(0, 1), Lost(1)], &[Fetched(0)], &["over [0] [1] keep [0]"]),
        (OnLoss::Stop, &[EndsFor(0, 1), Replaced(1)], &[Fetched(0)], &["over [0] [1] keep [0,1]"]),
        (
            OnLoss::Stop,
            &[EndsFor(0, 1), EndsFor(1, 0)],
            &[Fetched(0), Fetched(1)],
            &["over [0,1] [1] keep [0,1]"],
        ),
        (
            OnLoss::Continue,
            &[Lost(1), Regained(1), Idle(0), Idle(1), Is(0, Finished), Is(1, Finished)],
            &[Fetched(0), Fetched(1)],
            &["over [0,1] [1 back] keep [0,1]"],
        ),
        (
            OnLoss::Stop,
            &[Interrupt, Is(0, Finished), Is(1, Finished)],
            &[Fetched(0), NotFetched(1)],
            &["interrupted [0] [1] keep [0,1]"],
        ),
        (
            OnLoss::Stop,
            &[Interrupt, Is(0, Finished), Wait(60)],
            &[Fetched(0)],
            &["interrupted [0] [1] keep [0,1]"],
        ),
        (
            OnLoss::Stop,
            &[Interrupt, Is(0, Finished), Is(1, Finished)],
            &[Fetched(0), Wait(60)],
            &["interrupted [0] [1] keep [0,1]"],
        ),
        (OnLoss::Stop, &[Interrupt], &[Interrupt], &["interrupted [] [] keep [0,1]"]),
        (
            OnLoss::Continue,
            &[Is(1, Failed), Idle(0), Is(0, Finished)],
            &[Fetched(0)],
            &["over [0] [1] keep [0,1]"],
        ),
    ];
    for (on_loss, before, then, wanted) in cases {
        let mut script = started_run(*on_loss);
        script.play(before);
        assert_eq!(script.play(then), *wanted, "{before:?} {then:?}");
    }
}

#[test]
fn extends_deadline_while_results_arrive() {
    let mut script = started_run(OnLoss::Stop);
    script.play(&[Interrupt, Is(0, Finished), Is(1, Finished), Fetched(0)]);
    for _ in 0..10 {
        script.coordinator.fetching(script.now);
        assert!(script.play(&[Wait(59)]).is_empty());
    }
    assert_eq!(script.play(&[Wait(60)]), ["interrupted [0] [1] keep [0,1]"]);
}

#[test]
fn ignores_old_and_foreign_reports() {
    let mut script = started_run(OnLoss::Stop);
    let sequence = script.sequence;
    script.sequence = 0;
    assert!(script.play(&[Is(1, Failed)]).is_empty(), "older than the latest report");
    script.sequence = sequence;
    let mut report = Report {
        agent: AgentId(1),
        instance: 7,
        sequence: sequence + 1,
        phase: Failed,
        awaited: None,
        failure: None,
        progress: None,
        lost: None,
        programs: Vec::new(),
        result_bytes: 0,
    };
    script.coordinator.report(script.now, &report);
    assert!(script.play(&[]).is_empty(), "instance of another process");
    report.agent = AgentId(77);
    script.coordinator.report(script.now, &report);
    assert!(script.play(&[]).is_empty(), "unknown agent");
}
