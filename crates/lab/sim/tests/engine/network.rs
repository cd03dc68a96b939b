//! Routes, failures and packet sizes: their effects on flows, and rejected flows.

use base::{Span, Time};

use super::labs::{plan, run};
use sim::{Error, Simulation};

/// A square: two paths from a to b, the northern one shorter.
const SQUARE: &str = "[lab]\nduration = \"3 s\"\n[node.a]\n[node.b]\n\
    [node.west]\nkind = \"router\"\n[node.east]\nkind = \"router\"\n\
    [node.north]\nkind = \"router\"\n[node.south]\nkind = \"router\"\n\
    [[link]]\nends = [\"a\", \"west\"]\n[[link]]\nends = [\"east\", \"b\"]\n\
    [[link]]\nends = [\"west\", \"north\"]\ndelay = \"1 ms\"\n\
    [[link]]\nends = [\"north\", \"east\"]\ndelay = \"1 ms\"\n\
    [[link]]\nends = [\"west\", \"south\"]\ndelay = \"5 ms\"\n\
    [[link]]\nends = [\"south\", \"east\"]\ndelay = \"5 ms\"\n";

const CBR: &str = "[[flow]]\nname = \"cbr\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\n\
                   rate = \"1 Mbit/s\"\npacket = \"500 B\"\n";

fn why(text: &str) -> String {
    match Simulation::try_new(&plan(text)) {
        Ok(_) => panic!("it can run: {text}"),
        Err(error) => {
            assert_eq!(error.exit_code(), run::Exit::Usage, "{error}");
            error.to_string()
        }
    }
}

#[test]
fn a_failed_link_is_gone_round() {
    let down = "[[at]]\ntime = \"1 s\"\nlink = [\"north\", \"east\"]\ndown = true\n\
                [[at]]\ntime = \"2 s\"\nlink = [\"north\", \"east\"]\nup = true\n";
    let ran = run(&plan(&format!("{SQUARE}{CBR}{down}")));
    let delay = ran.results[0].delay.distribution().unwrap();
    assert_eq!((delay.min_ns, delay.max_ns), (2_000_000, 10_000_000));
    let counts = ran.results[0].datagrams.unwrap();
    // Data between north and east when the link failed: 1 ms, with one datagram per 4 ms.
    assert!(counts.lost <= 1, "{counts:?}");
    let slow = ran.samples.iter().filter_map(|s| s.delay).filter(|d| d.p50_ns > 9_000_000);
    assert_eq!(slow.count(), 10, "one second of ten samples");
}

#[test]
fn a_failed_node_takes_its_links_along() {
    let down = "[[at]]\ntime = \"1 s\"\nnode = \"b\"\ndown = true\n\
                [[at]]\ntime = \"2 s\"\nnode = \"b\"\nup = true\n";
    let ran = run(&plan(&format!("{SQUARE}{CBR}{down}")));
    let counts = ran.results[0].datagrams.unwrap();
    assert!((248..=252).contains(&counts.lost), "{counts:?}");
}

#[test]
fn flows_may_end_at_routers_and_pass_through_others_that_have_them() {
    let flows = "[[flow]]\nname = \"r\"\nfrom = \"west\"\nto = \"north\"\nsize = \"100 kB\"\n\
                 [[flow]]\nname = \"h\"\nfrom = \"a\"\nto = \"b\"\nsize = \"100 kB\"\n\
                 [[flow]]\nname = \"u\"\nfrom = \"b\"\nto = \"north\"\ntransport = \"udp\"\n\
                 rate = \"1 Mbit/s\"\nsize = \"10 kB\"\n";
    let ran = run(&plan(&format!("{SQUARE}{flows}")));
    for (result, bytes) in ran.results.iter().zip([100_000, 100_000, 10_000]) {
        assert_eq!(result.received_bytes, bytes, "{}", result.name);
    }
}

/// As kernels of labs on the wall clock do: packets leave through the interface of their address.
#[test]
fn host_with_two_links_uses_the_link_of_its_address_while_that_is_up() {
    let lab = "[lab]\nduration = \"2 s\"\nrouting = \"hops\"\n[node.a]\n[node.b]\n\
        [node.n]\nkind = \"router\"\n[node.s]\nkind = \"router\"\n[node.e]\nkind = \"router\"\n\
        [[link]]\nends = [\"a\", \"n\"]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n\
        [[link]]\nends = [\"a\", \"s\"]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n\
        [[link]]\nends = [\"n\", \"e\"]\n[[link]]\nends = [\"s\", \"e\"]\n\
        [[link]]\nends = [\"e\", \"b\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\nrate = \"8 Mbit/s\"\n";
    let sent = |events: &str| {
        let ran = run(&plan(&format!("{lab}{events}")));
        [0, 2].map(|link| ran.links[link].sent_bytes > 500_000)
    };
    assert_eq!(sent(""), [true, false]);
    let down = "[[at]]\ntime = \"1 s\"\nlink = \"a-n\"\ndown = true\n";
    assert_eq!(sent(down), [true, true]);
}

/// The order of interfaces is that of the file, not that of the links' names.
#[test]
fn flows_use_the_first_address_of_a_host() {
    let lab = "[lab]\nduration = \"1 s\"\n[node.a]\n[node.r]\nkind = \"router\"\n[node.b]\n\
        [[link]]\nname = \"wifi\"\nends = [\"a\", \"r\"]\ndelay = \"2 ms\"\n\
        [[link]]\nname = \"lte\"\nends = [\"a\", \"r\"]\ndelay = \"9 ms\"\n\
        [[link]]\nname = \"lan\"\nends = [\"r\", \"b\"]\n\
        [[flow]]\nfrom = \"b\"\nto = \"a\"\ntransport = \"udp\"\nrate = \"1 Mbit/s\"\n";
    let delay = run(&plan(lab)).results[0].delay.distribution().unwrap();
    assert_eq!((delay.min_ns, delay.max_ns), (2_000_000, 2_000_000));
}

#[test]
fn segments_fit_the_narrowest_link() {
    let lab = SQUARE.replacen("delay = \"1 ms\"", "delay = \"1 ms\"\nmtu = \"600 B\"", 1);
    let ran = run(&plan(&format!("{lab}[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n")));
    assert_eq!(ran.results[0].received_bytes, 1_000_000);
    assert!(ran.links.iter().all(|link| link.dropped() == 0));
    // 548 B of payload and 52 B of headers; less in the last packet.
    let packets = ran.links[0].sent_packets;
    assert!((1_825..1_840).contains(&packets), "{packets} packets");
}

#[test]
fn refuses_unsupported_labs_before_the_run() {
    let wire = "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";
    let program = why(&format!("{wire}[[program]]\nname = \"p\"\nnode = \"a\"\nrun = \"true\"\n"));
    assert!(program.contains("`p`") && program.contains("netarium run"), "{program}");
    let control = why(&format!("{wire}{flow}control = \"vegas\"\n"));
    for part in ["`f`", "vegas", "reno", "cubic", "bbr3"] {
        assert!(control.contains(part), "{part} in {control}");
    }
    let large = why(&format!(
        "{wire}{flow}transport = \"udp\"\nrate = \"1 Mbit/s\"\npacket = \"2000 B\"\n"
    ));
    assert!(large.contains("2000 B") && large.contains("1472 B"), "{large}");
    let routed = why(&format!("[lab]\nrouting = \"none\"\n{wire}{flow}"));
    assert!(routed.contains("netarium run"), "{routed}");
}

#[test]
fn a_flow_without_a_route_is_refused_unless_a_link_comes_up() {
    let lab = "[lab]\nduration = \"4 s\"\n[node.a]\n[node.b]\n\
               [[link]]\nends = [\"a\", \"b\"]\n[[flow]]\nname = \"f\"\nfrom = \"a\"\n\
               to = \"b\"\nsize = \"1 kB\"\n";
    let mut cut = plan(lab);
    cut.links[0].up = false;
    assert!(matches!(Simulation::try_new(&cut), Err(Error::NoRoute { .. })));
    let up = "[[at]]\ntime = \"500 ms\"\nlink = [\"a\", \"b\"]\nup = true\n";
    let mut later = plan(&format!("{lab}{up}"));
    later.links[0].up = false;
    let ran = run(&later);
    assert_eq!(ran.results[0].received_bytes, 1_000);
    let ended = ran.results[0].ended.unwrap();
    // The second SYN, after 1 s.
    assert!(ended > Time::ZERO + Span::from_millis(900), "{ended}");
}
