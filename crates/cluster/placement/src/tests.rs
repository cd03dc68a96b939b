use std::path::Path;

use base::{Bandwidth, Bytes, NodeId};
use lab::{Overrides, parse_with};

use super::*;
use cluster::{AgentId, Resources};

mod any;
mod oracle;

pub(super) fn read(text: &str) -> Plan {
    let overrides = Overrides { trust_programs: true, ..Overrides::default() };
    match parse_with("test.toml", text, Path::new("."), &overrides) {
        Ok(mut lab) => lab.plans.remove(0),
        Err(errors) => panic!("{text}\n{:#?}", errors.list()),
    }
}

pub(super) fn machine(name: &str) -> Machine {
    let resources = Resources {
        cores: 8.0,
        memory: Bytes::new(8 << 30),
        nic: Some(Bandwidth::from_mbits_per_sec(10_000)),
        traffic: None,
        hosts: 1_000,
    };
    Machine { name: name.to_owned(), resources }
}

fn machines(count: usize) -> Vec<Machine> {
    (1..=count).map(|number| machine(&format!("m{number}"))).collect()
}

fn placed(plan: &Plan, machines: &[Machine]) -> Placement {
    place(plan, machines, &Terms::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refused(plan: &Plan, machines: &[Machine]) -> String {
    match place(plan, machines, &Terms::default()) {
        Ok(placement) => panic!("{placement:?}"),
        Err(refusal) => refusal.to_string(),
    }
}

fn agent(plan: &Plan, placement: &Placement, name: &str) -> Option<AgentId> {
    placement.assignment.owner(plan.node(name).unwrap())
}

const fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

const DUMBBELL: &str = r#"
[lab]
model = "collapsed"
[[generate]]
kind = "dumbbell"
left = 3
right = 3
access = { rate = "100 Mbit/s", delay = "1 ms" }
core = { rate = "40 Mbit/s", delay = "10 ms" }
"#;

/// The bottleneck link bounds the traffic, not the six access links.
#[test]
fn worst_case_is_maximum_flow() {
    let lab = format!(
        "{DUMBBELL}[[program]]\nnode = [\"l*\", \"r*\"]\nrun = \"./talk\"\n[cluster]\n\
         together = [[\"l1\", \"l2\", \"l3\"], [\"r1\", \"r2\", \"r3\"]]\n"
    );
    let lab = lab.replace("[\"l*\", \"r*\"]", "[\"l1\",\"l2\",\"l3\",\"r1\",\"r2\",\"r3\"]");
    let plan = read(&lab);
    let placement = placed(&plan, &machines(2));
    assert_eq!(placement.machines.len(), 2);
    for share in &placement.machines {
        assert_eq!((share.out.rate, share.out.by), (Some(mbits(40)), BoundedBy::Links));
        assert_eq!(share.into.rate, Some(mbits(40)));
        assert_eq!(share.inside.rate, Some(mbits(300)));
        assert_eq!((share.hosts.len(), share.programs.len()), (3, 3));
    }
    assert!(placement.warnings.is_empty(), "{:?}", placement.warnings);
}

#[test]
fn keeps_flows_together_and_shares_fair() {
    let flows = |pairs: &[(&str, &str)]| {
        let flow =
            |(from, to): &(&str, &str)| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        pairs.iter().map(flow).collect::<String>()
    };
    let plan = read(&format!("{DUMBBELL}{}", flows(&[("l1", "r1"), ("l2", "r2"), ("l3", "r3")])));
    let placement = placed(&plan, &machines(3));
    assert!(placement.cut.is_empty());
    assert_eq!(placement.machines.len(), 3);
    assert!(placement.machines.iter().all(|share| share.hosts.len() == 2));
    // No program runs, and flows are all that can be sent.
    assert!(placement.machines.iter().all(|share| share.out.rate == Some(Bandwidth::ZERO)));

    let packed = Plan {
        cluster: lab::plan::Cluster { spread: lab::plan::Spread::Pack, ..plan.cluster.clone() },
        ..plan.clone()
    };
    assert_eq!(placed(&packed, &machines(3)).machines.len(), 1);
}

#[test]
fn cuts_lightest_edges() {
    let lab = "[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"star\"\nhosts = 4\n\
               link = { rate = \"1 Gbit/s\", delay = \"5 ms\" }\n";
    let flow = |from: u32, to: u32, rate: u32| {
        format!(
            "[[flow]]\nfrom = \"h{from}\"\nto = \"h{to}\"\ntransport = \"udp\"\n\
             rate = \"{rate} Mbit/s\"\n"
        )
    };
    let flows = flow(1, 3, 100) + &flow(2, 4, 100) + &flow(1, 2, 1) + &flow(3, 4, 1);
    let plan = read(&format!("{lab}{flows}"));
    let placement = placed(&plan, &machines(2));
    assert_eq!(agent(&plan, &placement, "h1"), agent(&plan, &placement, "h3"));
    assert_eq!(agent(&plan, &placement, "h2"), agent(&plan, &placement, "h4"));
    assert_eq!(placement.cut.len(), 2);
    // 1472 bytes of payload are 1538 on the wire.
    let wire = (1_000_000u64 * 1538).div_ceil(1472);
    assert_eq!(placement.cut[0].rate, Some(Bandwidth::from_bits_per_sec(wire)));
    let both = Some(Bandwidth::from_bits_per_sec(2 * wire));
    assert_eq!(placement.machines[0].out, Bound { rate: both, by: BoundedBy::Flows });
}

#[test]
fn separates_near_hosts_only_if_resources_require_it() {
    let lab = "[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"star\"\nhosts = 4\n\
               link = { rate = \"1 Gbit/s\", delay = \"5 us\" }\n\
               [[flow]]\nfrom = \"h1\"\nto = \"h2\"\n[[flow]]\nfrom = \"h2\"\nto = \"h3\"\n\
               [[flow]]\nfrom = \"h3\"\nto = \"h4\"\n";
    let plan = read(lab);
    let placement = placed(&plan, &machines(2));
    assert!(placement.cut.is_empty() && placement.warnings.is_empty());
    let mut small = machines(2);
    for machine in &mut small {
        machine.resources.hosts = 2;
    }
    let placement = placed(&plan, &small);
    assert_eq!(placement.cut.len(), 1);
    assert_eq!(
        placement.warnings,
        ["flow `h2-h3` has an emulated delay of 10 us between two machines, less than the \
          50 us of the physical network: its packets are late"]
    );
}

#[test]
fn keeps_programs_with_hosts_in_their_commands() {
    let lab = "[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"star\"\nhosts = 4\n\
               link = { rate = \"10 Mbit/s\", delay = \"5 ms\" }\n\
               [[program]]\nnode = \"h1\"\nrun = \"curl http://h4:80/x\"\n\
               [[program]]\nnode = \"h2\"\nrun = [\"iperf3\", \"-c\", \"h3\"]\n\
               [[program]]\nnode = \"h3\"\nrun = \"iperf3 -s\"\n\
               [[program]]\nnode = \"h4\"\nrun = \"httpd\"\n";
    let plan = read(lab);
    let placement = placed(&plan, &machines(2));
    assert_eq!(agent(&plan, &placement, "h1"), agent(&plan, &placement, "h4"));
    assert_eq!(agent(&plan, &placement, "h2"), agent(&plan, &placement, "h3"));
    assert_eq!(placement.machines.len(), 2);
}

#[test]
fn keeps_hop_network_on_one_machine() {
    let star = |prefix: &str| {
        format!(
            "[[generate]]\nkind = \"star\"\nhosts = 3\nprefix = \"{prefix}\"\n\
             link = {{ rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n"
        )
    };
    let plan = read(&(star("a-") + &star("b-")));
    let placement = placed(&plan, &machines(4));
    assert_eq!(placement.machines.len(), 2);
    for prefix in ["a", "b"] {
        let hosts = ["h1", "h2", "h3", "hub"];
        let owners: Vec<_> =
            hosts.iter().map(|h| agent(&plan, &placement, &format!("{prefix}-{h}"))).collect();
        assert!(owners.iter().all(|owner| *owner == owners[0] && owner.is_some()), "{owners:?}");
    }
    let parted = star("a-") + "[cluster]\napart = [[\"a-h1\", \"a-h2\"]]\n";
    let text = refused(&read(&parted), &machines(2));
    assert!(
        text.contains("`a-h1` and `a-h2` are in one `apart` group, but must stay together"),
        "{text}"
    );
    assert!(text.contains("collapsed"), "{text}");
}

#[test]
fn refuses_excess_with_numbers() {
    let star = |cluster: &str, nodes: &str| {
        read(&format!(
            "{nodes}[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"star\"\nhosts = 6\n\
             link = {{ rate = \"1 Gbit/s\", delay = \"5 ms\" }}\n[[program]]\nnode = \"h*\"\n\
             run = \"x\"\n[cluster]\n{cluster}"
        ))
    };
    let mut small = machines(2);
    small[0].resources.hosts = 2;
    small[1].resources.hosts = 3;
    let text = refused(&star("", ""), &small);
    assert!(text.contains("the lab has 6 hosts; all machines together have room for 5"), "{text}");

    let text = refused(&star("memory = \"4 GiB\"", ""), &machines(2));
    assert!(text.contains("the lab needs 24.0 GiB of memory"), "{text}");

    let text = refused(&star("cpus = 3", ""), &machines(2));
    assert!(text.contains("the lab needs 18.0 `cpus`; all machines together have 16.0"), "{text}");

    let text = refused(&star("apart = [[\"h*\"]]", ""), &machines(5));
    assert!(text.contains("which needs 6 machines; the cluster has 5"), "{text}");

    let text = refused(&star("machines = { m3 = \"h1\" }", ""), &machines(2));
    assert!(text.contains("`h1` requires machine `m3`, which is not in the cluster"), "{text}");
    assert!(text.contains("agents: `m1`, `m2`"), "{text}");

    // Six hosts of 1 Gbit/s each on two machines: 3 Gbit/s out of each in the worst case.
    let mut slow = machines(2);
    for machine in &mut slow {
        machine.resources.nic = Some(mbits(1_000));
        machine.resources.hosts = 3;
    }
    let text = refused(&star("", ""), &slow);
    assert!(text.contains("in the worst case 3.24 Gbit/s out over its interface"), "{text}");
    assert!(text.contains("which has 1.00 Gbit/s") && text.contains("--overcommit"), "{text}");
    let terms = Terms { overcommit: true, ..Terms::default() };
    let placement = place(&star("", ""), &slow, &terms).unwrap();
    assert_eq!(placement.warnings.len(), 2);
    assert!(placement.warnings[0].starts_with("overcommitted: m1:"), "{:?}", placement.warnings);

    // 6 Gbit/s within one machine are 4.6 cores, of which 70 % may be busy.
    let mut weak = machines(1);
    weak[0].resources.cores = 2.0;
    let text = refused(&star("", ""), &weak);
    assert!(text.contains("cores") && text.contains("2.00"), "{text}");

    let mut carries = machines(1);
    carries[0].resources.traffic = Some(Bandwidth::from_mbits_per_sec(5_000));
    let text = refused(&star("", ""), &carries);
    assert!(text.contains("6.00 Gbit/s of emulated traffic, and its limit is 5.00"), "{text}");
}

#[test]
fn refuses_labs_for_virtual_clock_or_one_machine() {
    let lab = "[lab]\nmodel = \"fluid\"\n[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n";
    assert!(refused(&read(lab), &machines(2)).contains("virtual clock only"));
    let lab = lab.replace("\"fluid\"", "\"collapsed\"\nrecord = true");
    assert!(refused(&read(&lab), &machines(2)).contains("`record = true`"));
    assert_eq!(placed(&read(&lab), &machines(1)).machines.len(), 1);
    assert!(refused(&read(&lab), &[]).contains("the cluster has no machines"));
}

#[test]
fn warns_of_unbounded_traffic() {
    let lab = "[lab]\nmodel = \"collapsed\"\n[node.a]\n[node.b]\n[node.r]\nkind = \"router\"\n\
               [[link]]\nends = [\"a\", \"r\"]\ndelay = \"1 ms\"\n[[link]]\nends = [\"b\", \"r\"]\n\
               [[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let plan = read(lab);
    let placement = placed(&plan, &machines(2));
    assert_eq!(placement.machines[0].out, Bound { rate: None, by: BoundedBy::Nothing });
    assert!(placement.warnings[0].contains("its limit is its interface, 10 Gbit/s"));
    assert_eq!(placement.machines[0].needs(&machine("m").resources).nic, Some(mbits(10_000)));
    // The same rate for the whole lab, but limited by the flow.
    let udp = format!("{lab}transport = \"udp\"\nrate = \"736 kbit/s\"\n");
    let placement = placed(&read(&udp), &machines(2));
    let rate = Bandwidth::from_bits_per_sec(736_000 * 1538 / 1472);
    assert_eq!(placement.machines[0].out, Bound { rate: Some(rate), by: BoundedBy::Flows });
    assert!(placement.warnings.is_empty());
}

#[test]
fn uses_highest_rate_of_all_events() {
    let lab = format!(
        "{DUMBBELL}[[program]]\nnode = \"l1\"\nrun = \"x\"\n[[at]]\ntime = \"1 s\"\n\
         link = \"core\"\nset = {{ rate = \"60 Mbit/s\" }}\n[cluster]\n\
         together = [[\"l1\", \"l2\", \"l3\"], [\"r1\", \"r2\", \"r3\"]]\n"
    );
    let core = read(DUMBBELL);
    let name = core.links.iter().find(|link| {
        link.ends.iter().all(|end| core.nodes[end.index()].kind == lab::plan::Role::Router)
    });
    let plan = read(&lab.replace("\"core\"", &format!("\"{}\"", name.unwrap().name)));
    let placement = placed(&plan, &machines(2));
    let left = agent(&plan, &placement, "l1").unwrap();
    assert_eq!(placement.machines[left.index()].out.rate, Some(mbits(60)));
    // No program runs on the right side, so no traffic is sent from there.
    assert_eq!(placement.machines[left.index()].into.rate, Some(mbits(0)));
}

#[test]
fn json_has_flows_and_offers() {
    let plan = read(&format!(
        "{DUMBBELL}[[flow]]\nfrom = \"l1\"\nto = \"r1\"\n[cluster]\napart = [[\"l1\", \"r1\"]]\n"
    ));
    let (machines, terms) = (machines(2), Terms::default());
    let placement = placed(&plan, &machines);
    let value = json(&plan, &machines, &terms, &placement);
    assert_eq!(value["cut"][0]["flow"], "l1-r1");
    assert_eq!(value["cut"][0]["delay"], 12_000_000);
    assert_eq!(value["machines"][0]["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(value["machines"][0]["offers"]["nic"], 10_000_000_000u64);
}

#[test]
fn places_1024_hosts_on_64_machines() {
    let plan = read(
        "[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"fat-tree\"\nk = 16\n\
         link = { rate = \"10 Mbit/s\", delay = \"1 ms\" }\n[[program]]\nnode = \"h*\"\nrun = \"x\"\n",
    );
    let machines = machines(64);
    let placement = placed(&plan, &machines);
    let hosts: Vec<usize> = placement.machines.iter().map(|share| share.hosts.len()).collect();
    assert_eq!(hosts, [16; 64]);
}
