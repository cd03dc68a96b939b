//! Routing daemons that need link-local addresses and multicast.

use super::bench::{Bench, Run, is_root, requires_labs};
use super::routing::{bird, lab, program};

const LAB: &str = "duration = \"100 s\"\nrouting = \"none\"";

#[test]
fn ospfv2_and_ospfv3_reach_state_full() {
    requires_labs!("bird", "ip", "ping");
    let bench = Bench::new();
    bench.write("r1.conf", include_str!("../field/c12-lla/r1.conf"));
    bench.write("r2.conf", include_str!("../field/c12-lla/r2.conf"));
    let link = r#"delay = "1 ms"
addresses = { r1 = ["10.1.0.1/30", "fd00:1::1/64"], r2 = ["10.1.0.2/30", "fd00:1::2/64"] }"#;
    let ping =
        "until ping -6 -c 1 -W 1 ff02::1%eth0 | grep -v ^PING | grep fe80; do sleep 0.2; done";
    let show = r"
until ip -6 route | grep -q fd00:aa:2::/48 && ip route | grep -q 203.0.2.0/24; do sleep 0.2; done
birdc -s $NETARIUM_RUN_DIR/r1.ctl show ospf neighbors
ip -6 route
ip -6 addr show dev eth0
";
    let lab = [
        lab(LAB, &[("r1", "r2", link)]),
        bird(&["r1", "r2"]),
        program("all-nodes", &["r1"], ping),
        program("show", &["r1"], show),
    ];
    let run = bench.run(&lab.concat()).passed();
    let shown = run.stdout("show");
    assert_eq!(shown.matches("Full/PtP").count(), 2, "OSPFv2 and OSPFv3: {shown}");
    let learnt = shown.lines().find(|line| line.starts_with("fd00:aa:2::/48")).unwrap();
    assert!(learnt.contains("via fe80::"), "{learnt}");
    assert_eq!(shown.matches("inet6 fe80::").count(), 1, "{shown}");
    assert!(run.stdout("all-nodes").contains("bytes from fe80::"), "{}", run.dump());
}

/// Each router announces a prefix to the others by `RIPng` (RFC 2080).
const RIPNG: &str = r#"
router id 192.0.2.NUMBER;
protocol device {}
protocol kernel { ipv6 { export all; }; }
protocol static { ipv6; route fd00:NUMBER::/48 blackhole; }
protocol rip ng { ipv6 { import all; export all; }; interface "eth0" { update time 2; }; }
"#;

#[test]
fn ripng_reaches_all_routers_on_a_switch() {
    requires_labs!("bird", "ip");
    let bench = Bench::new();
    bench.write("bird.conf", RIPNG);
    let nodes = ["r1", "r2", "r3"];
    let wait = r"
until [ $(ip -6 route | grep -c '^fd00:.*via fe80') = 2 ]; do sleep 0.2; done
ip -6 route
";
    let links = nodes.map(|node| (node, "lan", "delay = \"1 ms\""));
    let lab = [lab("duration = \"100 s\"", &links), bird(&nodes), program("wait", &nodes, wait)];
    let run = bench.run(&lab.concat()).passed();
    for node in nodes {
        let routes = run.stdout(&waiting_program(&run, node));
        assert_eq!(routes.matches("via fe80::").count(), 2, "{node}: {routes}");
    }
}

/// The name of the program that waits for routes on a node.
fn waiting_program(run: &Run, node: &str) -> String {
    let programs = run.record()["programs"].as_array().unwrap();
    let is_it = |program: &&serde_json::Value| {
        program["node"] == node && program["name"].as_str().unwrap().contains("wait")
    };
    programs.iter().find(is_it).unwrap()["name"].as_str().unwrap().to_owned()
}

const FRR: &str = r#"
number=${NETARIUM_NODE#r}
folder=$NETARIUM_RUN_DIR/$NETARIUM_NODE
mkdir -p "$folder"
chown frr:frr "$folder"
cat > "$folder/zebra.conf" <<END
interface eth0
 no ipv6 nd suppress-ra
 ipv6 nd ra-interval 2
END
cat > "$folder/bgpd.conf" <<END
router bgp 6500$number
 bgp router-id 192.0.2.$number
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor eth0 interface remote-as external
 address-family ipv6 unicast
  network fd00:$number::/48
  neighbor eth0 activate
 exit-address-family
END
common="-u frr -g frr --vty_socket $folder -z $folder/zserv.api -A 127.0.0.1"
/usr/lib/frr/zebra $common -i "$folder/zebra.pid" -f "$folder/zebra.conf" &
until [ -S "$folder/zserv.api" ]; do sleep 0.1; done
exec /usr/lib/frr/bgpd $common -i "$folder/bgpd.pid" -f "$folder/bgpd.conf"
"#;

#[test]
fn bgp_runs_between_link_local_addresses() {
    let test = "bgp_runs_between_link_local_addresses";
    requires_labs!("../lib/frr/bgpd", "../lib/frr/zebra", "ip");
    if !is_root() {
        eprintln!("SKIPPED {test}: FRR's daemons change to the user frr");
        return;
    }
    let bench = Bench::new();
    bench.write("frr.sh", FRR);
    let nodes = ["r1", "r2"];
    // The link has no configured addresses (RFC 5549, RFC 8950).
    let lab = [
        lab(LAB, &[("r1", "r2", "delay = \"1 ms\"")]),
        program("frr", &nodes, "exec sh frr.sh") + "service = true\n",
        program(
            "wait",
            &nodes,
            "until ip -6 route | grep 'fd00:.*via fe80.*proto bgp'; do sleep 0.2; done",
        ),
    ];
    let run = bench.run(&lab.concat()).passed();
    for node in nodes {
        let route = run.stdout(&waiting_program(&run, node));
        assert!(route.contains("dev eth0"), "{node}: {route}");
    }
}
