//! Runs as scripts: what happens, and what the coordinator wants then.

use super::*;
use crate::control::PieceProgress;

/// What happens.
#[derive(Clone, Debug)]
enum Do {
    Reserved(u16),
    Refused(u16),
    Started(u16),
    Begin,
    Is(u16, Phase),
    Idle(u16),
    Leaves(u16),
    /// The first has ended its piece because it lost the second.
    Misses(u16, u16),
    Lost(u16),
    Regained(u16),
    Replaced(u16),
    Fetched(u16),
    NotFetched(u16),
    Interrupt,
    Wait(u64),
}

use Do::*;
use Phase::{Failed, Finished, Preparing, Ready, Running};

struct Script {
    machine: Coordinator,
    now: Time,
    sequence: u64,
    said: Vec<String>,
}

impl Script {
    fn new(members: u64, on_loss: OnLoss) -> Self {
        let terms = Terms {
            instances: (100..100 + members).collect(),
            duration: Span::from_secs(100),
            grace: Span::from_secs(60),
            stay: false,
            waits: false,
            on_loss,
        };
        let now = Time::ZERO + Span::from_secs(1000);
        let mut script =
            Self { machine: Coordinator::new(now, terms), now, sequence: 0, said: Vec::new() };
        script.hear();
        script
    }

    fn hear(&mut self) {
        while let Some(output) = self.machine.poll() {
            self.said.push(match output {
                Output::Reserve(agent) => format!("reserve {agent}"),
                Output::Prepare(agent) => format!("prepare {agent}"),
                Output::Start { agent, origin_ns: None } => format!("choose {agent}"),
                Output::Start { agent, origin_ns: Some(_) } => format!("start {agent}"),
                Output::Order { agent, order: Order::Stop } => format!("stop {agent}"),
                Output::Order { agent, .. } => format!("drop {agent}"),
                Output::Fetch(agent) => format!("fetch {agent}"),
                Output::Stands => "stands".to_owned(),
                Output::Begun => "begun".to_owned(),
                Output::Over(Ending::Failed { agent: Some(agent), refusal }) => {
                    format!("failed {agent} {}", refusal.code)
                }
                Output::Over(Ending::Failed { agent: None, refusal }) => {
                    format!("failed {}", refusal.code)
                }
                Output::Over(Ending::Ran { fetched, keep, outages, interrupted }) => {
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
            failure,
            progress: Some(PieceProgress { idle, ..PieceProgress::default() }),
            lost,
            programs: Vec::new(),
            result_bytes: 0,
        };
        self.machine.report(self.now, &report);
    }

    fn play(&mut self, script: &[Do]) -> Vec<String> {
        let trunk = SocketAddr::from(([127, 0, 0, 1], 1));
        let refusal = || Refusal { text: "no".to_owned(), code: 4 };
        for step in script {
            let (machine, now) = (&mut self.machine, self.now);
            match step.clone() {
                Reserved(agent) => {
                    let datagram = 1400 + u32::from(agent);
                    let reserved = control::Reserved { trunk, datagram };
                    machine.reserved(now, AgentId(agent), reserved);
                }
                Refused(agent) => machine.refused(now, AgentId(agent), refusal()),
                Started(agent) => machine.started(now, AgentId(agent), 7),
                Begin => machine.begin(now),
                Is(agent, Failed) => self.report(agent, Failed, false, Some("dead"), None),
                Is(agent, phase) => self.report(agent, phase, false, None, None),
                Idle(agent) => self.report(agent, Running, true, None, None),
                Leaves(agent) => self.report(agent, Finished, false, Some("asked to end"), None),
                Misses(agent, other) => {
                    self.report(agent, Finished, false, Some("not heard"), Some(AgentId(other)));
                }
                Lost(agent) => machine.lost(now, AgentId(agent)),
                Regained(agent) => machine.regained(now, AgentId(agent)),
                Replaced(agent) => machine.replaced(now, AgentId(agent)),
                Fetched(agent) => machine.fetched(now, AgentId(agent), Ok(())),
                NotFetched(agent) => machine.fetched(now, AgentId(agent), Err("no".to_owned())),
                Interrupt => machine.interrupt(now),
                Wait(seconds) => {
                    self.now += Span::from_secs(seconds);
                    self.machine.look(self.now);
                }
            }
            self.hear();
        }
        std::mem::take(&mut self.said)
    }
}

use crate::control;

const BEGIN: &[Do] =
    &[Reserved(0), Reserved(1), Is(0, Ready), Is(1, Ready), Started(0), Started(1), Idle(9)];

/// Two members that have begun.
fn begun(on_loss: OnLoss) -> Script {
    let mut script = Script::new(2, on_loss);
    script.play(BEGIN);
    script
}

#[test]
fn the_usual_run() {
    let mut script = Script::new(2, OnLoss::Stop);
    let said = script.play(BEGIN);
    let wanted =
        ["reserve 0", "reserve 1", "prepare 0", "prepare 1", "choose 0", "start 1", "begun"];
    assert_eq!(said, wanted);
    assert_eq!(script.machine.trunks().unwrap().1, 1400, "the least datagram");
    let said = script.play(&[Idle(0), Is(1, Running), Idle(1)]);
    assert_eq!(said, ["stop 0", "stop 1"]);
    let said = script.play(&[Is(0, Finished), Is(1, Finished)]);
    assert_eq!(said, ["fetch 0", "fetch 1"]);
    let said = script.play(&[Fetched(1), Fetched(0)]);
    assert_eq!(said, ["over [0,1] [] keep [0,1]"]);
}

#[test]
fn labs_that_begin_together_wait_for_each_other() {
    let waiting = || {
        let mut script = Script::new(2, OnLoss::Continue);
        script.machine.terms.waits = true;
        script.play(&[Reserved(0), Reserved(1), Begin, Is(0, Ready)]);
        assert_eq!(script.play(&[Is(1, Ready), Is(0, Ready), Wait(1000)]), ["stands"]);
        script
    };
    let mut script = waiting();
    assert_eq!(script.play(&[Begin, Begin]), ["choose 0"]);
    assert_eq!(script.play(&[Started(0), Started(1), Begin]), ["start 1", "begun"]);
    for (ends, ending) in [(Lost(1), "failed 1 4"), (Interrupt, "failed 130")] {
        assert_eq!(waiting().play(&[ends]), ["drop 0", "drop 1", ending]);
    }
}

#[test]
fn before_it_has_begun_one_ends_it_for_all_and_nothing_is_left() {
    let reserved = &[Reserved(0), Reserved(1)][..];
    let ready = &[Reserved(0), Reserved(1), Is(0, Ready), Is(1, Ready)][..];
    let cases: &[(&[Do], &[Do], &str)] = &[
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
        let mut said = script.play(then);
        said.retain(|said| said != "start 1");
        assert_eq!(said, ["drop 0", "drop 1", ending], "{before:?} {then:?}");
        assert!(script.play(&[Is(0, Failed), Lost(0), Interrupt, Wait(500)]).is_empty());
    }
}

#[test]
fn what_follows_once_it_has_begun() {
    let cases: &[(OnLoss, &[Do], &[&str])] = &[
        (OnLoss::Stop, &[Lost(1)], &["stop 0"]),
        (OnLoss::Continue, &[Lost(1)], &[]),
        (OnLoss::Continue, &[Lost(1), Idle(0)], &["stop 0"]),
        (OnLoss::Continue, &[Lost(1), Regained(1), Idle(0)], &[]),
        (OnLoss::Stop, &[Is(1, Failed)], &["stop 0"]),
        (OnLoss::Continue, &[Is(1, Failed), Idle(0)], &["stop 0"]),
        (OnLoss::Continue, &[Replaced(1), Regained(1), Idle(0)], &["stop 0"]),
        (OnLoss::Stop, &[Leaves(1)], &["stop 0"]),
        (OnLoss::Continue, &[Leaves(1), Fetched(1)], &["fetch 1", "drop 1"]),
        (OnLoss::Stop, &[Is(1, Finished)], &["stop 0"]),
        (OnLoss::Continue, &[Wait(100), Is(1, Finished)], &[]),
        (OnLoss::Continue, &[Wait(160)], &[]),
        (OnLoss::Continue, &[Wait(161)], &["stop 0", "stop 1"]),
        (OnLoss::Continue, &[Interrupt], &["stop 0", "stop 1"]),
        (OnLoss::Continue, &[Lost(0), Lost(1)], &["over [] [0,1] keep []"]),
    ];
    for (on_loss, then, wanted) in cases {
        assert_eq!(begun(*on_loss).play(then), *wanted, "{on_loss:?} {then:?}");
    }
}

#[test]
fn results_of_those_that_are_there() {
    type Case<'a> = (OnLoss, &'a [Do], &'a [Do], &'a [&'a str]);
    let cases: &[Case] = &[
        (OnLoss::Stop, &[Lost(1), Is(0, Finished)], &[Fetched(0)], &["over [0] [1] keep [0]"]),
        (OnLoss::Stop, &[Misses(0, 1), Lost(1)], &[Fetched(0)], &["over [0] [1] keep [0]"]),
        (OnLoss::Stop, &[Misses(0, 1), Replaced(1)], &[Fetched(0)], &["over [0] [1] keep [0,1]"]),
        (
            OnLoss::Stop,
            &[Misses(0, 1), Misses(1, 0)],
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
        let mut script = begun(*on_loss);
        script.play(before);
        assert_eq!(script.play(then), *wanted, "{before:?} {then:?}");
    }
}

#[test]
fn results_on_their_way_are_waited_for() {
    let mut script = begun(OnLoss::Stop);
    script.play(&[Interrupt, Is(0, Finished), Is(1, Finished), Fetched(0)]);
    for _ in 0..10 {
        script.machine.fetching(script.now);
        assert!(script.play(&[Wait(59)]).is_empty());
    }
    assert_eq!(script.play(&[Wait(60)]), ["interrupted [0] [1] keep [0,1]"]);
}

#[test]
fn reports_of_others_and_old_ones_say_nothing() {
    let mut script = begun(OnLoss::Stop);
    let sequence = script.sequence;
    script.sequence = 0;
    assert!(script.play(&[Is(1, Failed)]).is_empty(), "older than the last");
    script.sequence = sequence;
    let mut report = Report {
        agent: AgentId(1),
        instance: 7,
        sequence: sequence + 1,
        phase: Failed,
        failure: None,
        progress: None,
        lost: None,
        programs: Vec::new(),
        result_bytes: 0,
    };
    script.machine.report(script.now, &report);
    assert!(script.play(&[]).is_empty(), "of another process");
    report.agent = AgentId(77);
    script.machine.report(script.now, &report);
    assert!(script.play(&[]).is_empty(), "of nobody");
}
