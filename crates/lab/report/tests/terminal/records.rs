//! Records of runs with different outcomes.

use base::{Distribution, Histogram};
use run::RunRecord;
use run::record::*;

fn delay(ns: &[u64]) -> Option<Distribution> {
    let mut histogram = Histogram::new();
    for value in ns {
        histogram.record(*value);
    }
    histogram.distribution()
}

fn flow(name: &str, ends: [&str; 2], mbits: f64, retransmits: u64) -> FlowSummary {
    let [from, to] = ends.map(str::to_owned);
    FlowSummary {
        name: name.to_owned(),
        from,
        to,
        kind: "TCP cubic".to_owned(),
        started_s: Some(0.0),
        ended_s: Some(10.0),
        received_bytes: (mbits * 1.25e6) as u64,
        goodput_bit_per_s: mbits * 1e6,
        retransmits: Some(retransmits),
        rtt: delay(&[52_000_000, 92_000_000, 104_000_000]),
        host_effect: Some(HostEffect {
            goodput_share: 0.003,
            mean_ns: 40_000,
            p50_ns: 20_000,
            p99_ns: 2_200_000,
            trimmed: None,
        }),
        ..FlowSummary::default()
    }
}

fn link(name: &str, ends: [&str; 2], mbits: f64, share: f64) -> LinkSummary {
    let [from, to] = ends.map(str::to_owned);
    LinkSummary {
        name: name.to_owned(),
        direction: "up".to_owned(),
        from,
        to,
        sent_packets: (mbits * 1000.0) as u64,
        sent_bytes: (mbits * 1.25e6) as u64,
        throughput_bit_per_s: mbits * 1e6,
        utilisation: Some(share),
        queue_max_bytes: (mbits * 6000.0) as u64,
        queue_delay: delay(&[(mbits * 5e6) as u64]),
        ..LinkSummary::default()
    }
}

fn expectation(text: &str, outcome: Outcome, measured: &str) -> ExpectationRecord {
    let measured = Some(measured.to_owned()).filter(|text| !text.is_empty());
    ExpectationRecord { text: text.to_owned(), outcome, measured }
}

fn verdict(trusted: bool, reasons: &[&str]) -> Verdict {
    Verdict {
        trusted,
        machine_fit: trusted,
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// A trusted run on the wall clock, without expectations.
fn run(name: &str) -> RunRecord {
    let mut core = link("core", ["r1", "r2"], 9.66, 0.966);
    core.drops.insert("queue full".to_owned(), 123);
    let record = RunRecord {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        id: "1a2b3c".to_owned(),
        status: Status::Finished,
        planned_s: 20.0,
        elapsed_s: 20.0,
        verdict: Some(verdict(
            true,
            &[
                "p99.9 lateness 52.0 µs of 1 ms tolerated",
                "the hypervisor gave 2.48 s of CPU time to other guests",
            ],
        )),
        engine: Engine {
            name: "tun".to_owned(),
            why: "TUN devices with super-packets are the fastest engine".to_owned(),
            rejected: Vec::new(),
        },
        flows: vec![
            flow("alice-bob", ["alice", "bob"], 8.12, 110),
            flow("carol-dave", ["carol", "dave"], 0.545, 12),
        ],
        links: vec![
            core,
            link("alice-r1", ["alice", "r1"], 5.86, 0.0586),
            link("core", ["r2", "r1"], 0.31, 0.031),
        ],
        ..RunRecord::default()
    };
    concluded(record)
}

fn concluded(mut record: RunRecord) -> RunRecord {
    record.exit_code = record.conclusion().map(|conclusion| conclusion.exit_code);
    record
}

pub(crate) fn passed() -> RunRecord {
    let text = "link.core.up.utilisation.mean >= 0.8 between 6 s and 10 s";
    let expectations = vec![expectation(text, Outcome::Passed, "100 %")];
    RunRecord { expectations, ..run("passed") }
}

pub(crate) fn failed_expectations() -> RunRecord {
    concluded(RunRecord {
        expectations: vec![
            expectation("flow.alice-bob.rtt.p99 <= 200 ms", Outcome::Passed, "104 ms"),
            expectation("flow.alice-bob.goodput.mean >= 9 Mbit/s", Outcome::Failed, "8.12 Mbit/s"),
            expectation(
                "flow.carol-dave.completion.p99 <= 150 ms between 1 s and 9 s",
                Outcome::Unmeasured,
                "",
            ),
        ],
        ..run("expectations")
    })
}

pub(crate) fn crashed_program() -> RunRecord {
    let program = |at: usize| ProgramSummary {
        name: format!("worker.{at}"),
        node: format!("site{at}"),
        command: format!(
            "python3 -m service.worker --site site{at} --listen 0.0.0.0:8080 --log-level debug \
             --peers site1,site2,site3"
        ),
        started_s: Some(0.0),
        ended_s: Some(20.0),
        end: Some(ProgramEnd::Stopped),
        as_expected: true,
        ..ProgramSummary::default()
    };
    let mut programs: Vec<ProgramSummary> = (1..=12).map(program).collect();
    let crashed = &mut programs[8];
    crashed.end = Some(ProgramEnd::Exit(1));
    crashed.ended_s = Some(4.2);
    crashed.as_expected = false;
    crashed.last_stderr = (1..=6).map(|n| format!("INFO request {n} of 6")).collect();
    crashed.last_stderr.extend([
        "Traceback (most recent call last):".to_owned(),
        "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8080): \
         address already in use"
            .to_owned(),
    ]);
    concluded(RunRecord { programs, flows: Vec::new(), ..run("crashed") })
}

pub(crate) fn untrusted() -> RunRecord {
    concluded(RunRecord {
        verdict: Some(verdict(
            false,
            &[
                "packets left late: p99.9 is 4.10 ms, the lab tolerates 1 ms",
                "the machine dropped 12 packets between programs and the network",
                "the machine's 2 CPUs were 98 % busy in the busiest second, 61 % on average, 3 \
                 other labs ran, this lab used 0.71 CPUs; run fewer labs at once",
            ],
        )),
        ..run("untrusted")
    })
}

pub(crate) fn no_packets() -> RunRecord {
    let reason = "no packet crossed the network, so nothing was measured";
    let idle = |record: RunRecord| RunRecord {
        verdict: Some(verdict(false, &[reason])),
        flows: Vec::new(),
        links: Vec::new(),
        ..record
    };
    let program = ProgramSummary {
        name: "a.sleep".to_owned(),
        node: "a".to_owned(),
        command: "sleep 1".to_owned(),
        started_s: Some(0.0),
        ended_s: Some(1.0),
        end: Some(ProgramEnd::Exit(0)),
        as_expected: true,
        ..ProgramSummary::default()
    };
    concluded(RunRecord { programs: vec![program], ..idle(run("idle")) })
}

pub(crate) fn traceroute() -> RunRecord {
    let mut hop = link("a-r1", ["a", "r1"], 0.01, 0.001);
    hop.drops.insert("ttl exceeded".to_owned(), 9);
    let links = vec![hop, link("r1-b", ["r1", "b"], 0.005, 0.0005)];
    concluded(RunRecord { links, flows: Vec::new(), ..run("traceroute") })
}

/// 40 links with long names.
pub(crate) fn large() -> RunRecord {
    let one = |at: usize| {
        let ends = [format!("router-{at}.example.net"), format!("router-{}.example.net", at + 1)];
        let mut link = link(
            &format!("backbone-link-{at}"),
            [&ends[0], &ends[1]],
            at as f64 / 4.0,
            at as f64 / 50.0,
        );
        link.marks = at as u64 * 12_345;
        link.drops.insert("aqm".to_owned(), at as u64 * 7);
        link.drops.insert("loss".to_owned(), at as u64);
        link
    };
    RunRecord { links: (1..=40).map(one).collect(), ..run("large") }
}

pub(crate) fn all() -> Vec<RunRecord> {
    vec![
        passed(),
        failed_expectations(),
        crashed_program(),
        untrusted(),
        no_packets(),
        traceroute(),
        large(),
    ]
}

/// Runs of a sweep of two parameters; the third one failed.
pub(crate) fn sweep() -> Vec<RunRecord> {
    let one = |at: usize| {
        let mut record = if at == 2 { failed_expectations() } else { passed() };
        let value =
            |parameter: &str, value: String| SweepValue { parameter: parameter.to_owned(), value };
        record.sweep = vec![
            value("link.core.delay", format!("{at} ms")),
            value("link.core.queue", format!("{} packets", at * 100)),
        ];
        record.id = format!("{at:06x}");
        record
    };
    (0..25).map(one).collect()
}
