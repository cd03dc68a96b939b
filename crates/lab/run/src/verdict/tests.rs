use base::Time;

use super::*;
use crate::effect::HostDelays;
use crate::record::Status;
use crate::record::cluster::{Member, Outage, Trunk};
use crate::stalls::Stalls;
use crate::tests::star;

const TOLERANCE: Span = Span::from_millis(1);

/// Owned measurements of a host.
#[derive(Clone, Default)]
struct Machine {
    lateness: Histogram,
    ingress: Histogram,
    stalls: Stalls,
    distorted: u64,
    cpu: Span,
    rejected: u64,
    memory_drops: u64,
    faults: HostFaults,
    load: HostLoad,
}

impl Machine {
    fn on_time() -> Self {
        let mut machine = Self::default();
        machine.lateness.record_many(30_000, 10_000);
        machine
    }

    fn stats<'a>(&'a self, name: &'a str) -> MachineStats<'a> {
        MachineStats {
            name,
            lateness: &self.lateness,
            ingress: &self.ingress,
            distorted: self.distorted,
            cpu: self.cpu,
            rejected: self.rejected,
            memory_drops: self.memory_drops,
            faults: &self.faults,
            load: &self.load,
            cpus: 2,
        }
    }

    fn delays(&self) -> HostDelays {
        HostDelays {
            lateness: self.lateness.clone(),
            ingress: self.ingress.clone(),
            stalls: self.stalls.clone(),
            ..HostDelays::default()
        }
    }

    fn verdict(&self) -> Verdict {
        judge_hosts(&[("", self)], None, &[])
    }
}

/// The verdict on a run of 10 s on these hosts.
fn judge_hosts(
    machines: &[(&str, &Machine)],
    cluster: Option<&Cluster>,
    flow_results: &[FlowResult],
) -> Verdict {
    let plan = star();
    let effects = machines.iter().map(|(_, machine)| machine.delays()).collect();
    let machines: Vec<_> = machines.iter().map(|(name, machine)| machine.stats(name)).collect();
    judge(&Evidence {
        plan: &plan,
        machines: &machines,
        effects: &HostEffects::new(effects, Span::from_secs(10)),
        cluster,
        flow_results,
        elapsed: 10.0,
        tolerance: TOLERANCE,
    })
}

#[test]
fn run_without_lateness_is_trusted() {
    let mut machine = Machine::on_time();
    machine.load = HostLoad { busy: 1.0, busiest: 1.0, other_labs: 9, ..HostLoad::default() };
    let verdict = machine.verdict();
    let reason = "delays up to 30.0 µs longer for 1 packet in 1,000, rates exact";
    assert!(verdict.trusted && verdict.machine_fit, "{verdict:?}");
    assert_eq!(verdict.reasons, [reason]);
}

#[test]
fn distrusts_run_for_each_host_fault() {
    let mut machine = Machine { rejected: 1, memory_drops: 2, ..Machine::default() };
    machine.lateness.record_many(30_000, 900);
    machine.lateness.record_many(5_000_000, 100);
    machine.ingress.record_many(9_000_000, 100);
    machine.faults =
        HostFaults { dropped_packets: 3, capture_drops: 1, steal_s: 0.5, ..HostFaults::default() };
    for second in 0..10 {
        let from = Time::ZERO + Span::from_secs(second);
        machine.stalls.record(from, from + Span::from_millis(30));
    }
    machine.distorted = 11;
    let verdict = machine.verdict();
    assert!(!verdict.trusted && !verdict.machine_fit);
    assert_eq!(verdict.reasons.len(), 8, "{verdict:?}");
    let reason = "1.1 % of the packets were late by more than 1 ms and 5 % of their delay; the lab \
                  tolerates 1 %";
    assert_eq!(verdict.reasons[0], reason);
    machine.distorted = 10;
    assert_eq!(machine.verdict().reasons.len(), 7, "1 % is tolerated");
    let rejecting = Machine { rejected: 1, ..Machine::default() };
    let verdict = rejecting.verdict();
    assert_eq!(verdict.reasons.len(), 1, "no limit of the machine: {verdict:?}");
    assert!(!verdict.trusted && verdict.machine_fit);
}

#[test]
fn names_measured_limit_of_host() {
    let machine = Machine {
        cpu: Span::from_secs(2),
        load: HostLoad {
            busy: 0.99,
            busiest: 1.0,
            flows_cpu_s: 1.0,
            programs_cpu_s: Some(0.5),
            cpu_wait_s: Some(0.8),
            suspended_s: 0.0,
            other_labs: 5,
            memory_stall_s: Some(0.0),
        },
        ..Machine::default()
    };
    let limit_of = |machine: &Machine| limit::limit(10.0, &machine.stats(""));
    assert_eq!(
        limit_of(&machine),
        "the machine's 2 CPUs were 99 % busy, 5 other labs ran, this lab used 0.35 CPUs, its \
         data path waited 0.80 s for a CPU; run fewer labs at once"
    );
    let mut stolen = machine.clone();
    stolen.faults.steal_s = 4.0;
    let text = limit_of(&stolen);
    assert!(text.contains("the hypervisor gave the CPUs to other guests"), "{text}");
    let mut low_load = machine.clone();
    low_load.load = HostLoad { flows_cpu_s: 0.0, other_labs: 2, ..low_load.load };
    assert!(limit_of(&low_load).ends_with("stop other programs on the machine"));
    let mut single_lab = machine.clone();
    single_lab.load = HostLoad { busy: 0.4, other_labs: 0, cpu_wait_s: None, ..single_lab.load };
    let text = limit_of(&single_lab);
    assert!(text.contains("100 % busy in the busiest second, 40 % on average"), "{text}");
    let ends = "no other lab ran, this lab used 0.35 CPUs; stop other programs on the machine";
    assert!(text.ends_with(ends), "{text}");
    let mut overloaded = single_lab.clone();
    overloaded.load.programs_cpu_s = Some(16.0);
    assert!(limit_of(&overloaded).contains("more CPUs"));
    let fast = Machine { cpu: Span::from_secs(10), ..single_lab.clone() };
    assert!(limit_of(&fast).contains("more packets than one CPU can move"));
    let mut idle = single_lab;
    idle.load.busiest = 0.5;
    assert!(limit_of(&idle).contains("none of this explains it"));
    let mut interrupted = idle.clone();
    interrupted.faults.steal_s = 0.3;
    let text = limit_of(&interrupted);
    assert!(text.contains("the hypervisor gave the CPUs to other guests"), "{text}");
    idle.load.memory_stall_s = Some(3.0);
    assert!(limit_of(&idle).contains("waited 3.00 s for memory"));
}

fn members() -> Vec<Member> {
    let member = |name: &str, hosts: &[&str]| Member {
        name: name.to_owned(),
        status: Status::Finished,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        clock_bound_ns: Some(20_000),
        ..Member::default()
    };
    vec![member("m1", &["a"]), member("m2", &["b", "c"])]
}

fn trunk() -> Trunk {
    let mut delays = Histogram::new();
    delays.record_many(100_000, 10_000);
    Trunk {
        from: "m1".to_owned(),
        to: "m2".to_owned(),
        datagrams: 10_000,
        packets: 10_000,
        delay: delays.distribution(),
        path_delay_ns: Some(5_000_000),
        ..Trunk::default()
    }
}

fn judge_cluster(change: impl FnOnce(&mut Cluster)) -> Verdict {
    let mut cluster = Cluster { members: members(), trunks: vec![trunk()], ..Cluster::default() };
    change(&mut cluster);
    let machine = Machine::on_time();
    judge_hosts(&[("m1", &machine), ("m2", &machine)], Some(&cluster), &[])
}

/// A fault, and parts of the first reason; without parts, the run is trusted.
type Case = (fn(&mut Cluster), &'static [&'static str]);

#[test]
fn distrusts_run_for_each_network_fault() {
    let clean = judge_cluster(|_| {});
    assert!(clean.trusted && clean.reasons.len() == 1, "{clean:?}");
    let lateness = |nanos, count| {
        let mut late = Histogram::new();
        late.record_many(nanos, count);
        late.distribution()
    };
    let table: [Case; 7] = [
        (|c| c.trunks[0].lost = 3, &["lost 3 of 10003 datagrams from m1 to m2"]),
        (|c| c.trunks[0].path_delay_ns = Some(0), &[]),
        (
            |c| {
                let mut delays = Histogram::new();
                delays.record_many(7_000_000, 10);
                c.trunks[0].delay = delays.distribution();
            },
            &["from m1 to m2 is 7", "emulated path between their hosts, 5.00 ms"],
        ),
        (|c| c.members[1].clock_bound_ns = Some(2_000_000), &["m2's clock may differ by 2.00 ms"]),
        (
            |c| c.members[1].outages.push(Outage { at_s: 4.0, until_s: None }),
            &["lost m2 (2 hosts, b to c) at 4.0 s, and it did not return"],
        ),
        (|c| c.members[0].status = Status::Killed, &["the results of m1 (a) are missing"]),
        (|c| c.trunks[0].refused_packets = 2, &["m1 dropped 2 packets for m2"]),
    ];
    for (change, words) in table {
        let verdict = judge_cluster(change);
        assert_eq!(verdict.trusted, words.is_empty(), "{verdict:?}");
        assert!(words.iter().all(|word| verdict.reasons[0].contains(word)), "{verdict:?}");
    }
    let late = |too_late| {
        judge_cluster(|c| {
            c.trunks[0].late = 100;
            c.trunks[0].too_late = too_late;
            c.trunks[0].lateness = lateness(3_000_000, 100);
        })
    };
    assert!(late(100).trusted, "one late packet in a hundred is tolerated");
    let verdict = late(101);
    assert!(!verdict.trusted && verdict.reasons[0].contains("at most by 3.00 ms"), "{verdict:?}");
    let skewed = judge_cluster(|c| c.members[1].clock_bound_ns = Some(700_000));
    assert!(skewed.trusted && skewed.reasons[1].contains("m2's clock may differ"), "{skewed:?}");
    let forged = judge_cluster(|c| c.trunks[0].forged = 9);
    assert!(forged.trusted && forged.reasons[1].contains("rejected 9 forged"), "{forged:?}");
}

#[test]
fn reports_late_host_of_cluster() {
    let mut late = Machine::default();
    late.lateness.record_many(5_000_000, 20);
    late.distorted = 1;
    late.load = HostLoad { busy: 1.0, busiest: 1.0, ..HostLoad::default() };
    let mut good = Machine::on_time();
    good.lateness.record_many(30_000, 90_000);
    let verdict = judge_hosts(&[("m1", &good), ("m2", &late)], None, &[]);
    assert!(
        !verdict.trusted && verdict.reasons[0].starts_with("5.0 % of the packets"),
        "{verdict:?}"
    );
    assert!(verdict.reasons[1].starts_with("m2's 2 CPUs were 100 % busy"), "{verdict:?}");
}

#[test]
fn undecided_expectation_makes_run_untrusted() {
    let mut verdict = Some(Machine::on_time().verdict());
    distrust(&mut verdict, Vec::new());
    assert!(verdict.as_ref().unwrap().trusted);
    distrust(&mut verdict, vec!["undecided".to_owned()]);
    let verdict = verdict.unwrap();
    assert!(!verdict.trusted && verdict.machine_fit, "{verdict:?}");
    assert_eq!(verdict.reasons, ["undecided"]);
}
