use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use base::{Bytes, Span};
use sys::tun::HEADER;

use super::*;
use crate::sample::{self, FirstIface};
use lab::plan::{Role, Routing};

/// Builds an enclosure in a new network namespace; prints a note and returns `None` if the system
/// does not permit it.
fn enclosed(test: &str, plan: &Plan, forwarding: &(dyn Forwarding + Sync), engine: Engine) -> bool {
    let built = std::thread::scope(|scope| {
        let build = || {
            namespace::unshare(namespace::Kinds::NET)?;
            build(plan, forwarding, engine).map(|enclosure| check_packets(plan, &enclosure))
        };
        scope.spawn(build).join().unwrap()
    });
    match built {
        Ok(()) => true,
        Err(Error::Kernel(cause) | Error::Node { cause, .. }) if cause.is_denied() => {
            eprintln!("SKIPPED {test}: {cause}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Checks that each host's datagram arrives at its port, and that one written to the port
/// arrives at the host.
fn check_packets(plan: &Plan, enclosure: &Enclosure) {
    assert!(enclosure.notices.is_empty(), "{:?}", enclosure.notices);
    let is_host = |host: &&HostNet| plan.nodes[host.node.index()].kind == Role::Host;
    for host in enclosure.hosts.iter().filter(is_host) {
        let mut repeated = 0;
        let iface = &plan.ifaces[host.ports[0].iface.index()];
        for address in [IpAddr::V4(iface.v4.unwrap().0), IpAddr::V6(iface.v6.unwrap().0)] {
            let bind = move || UdpSocket::bind(SocketAddr::new(address, 0));
            let socket = namespace::in_net(host.netns.as_fd(), bind).unwrap().unwrap();
            let far: IpAddr = if address.is_ipv4() {
                [192, 0, 2, 1].into()
            } else {
                "2001:db8::1".parse().unwrap()
            };
            // Parallel tests may overflow the kernel's receive backlog of this CPU.
            let attempt = (0..50).find(|_| exchange(host, &socket, (far, 4000).into()));
            repeated += attempt.unwrap_or_else(|| panic!("{address}: nothing came through"));
        }
        let drops = device_drops(host, plan, |_, _| 0).unwrap();
        // Each repetition costs a packet; dropped packets may also be neighbour requests.
        assert!(drops <= repeated + 3, "{drops} drops, {repeated} repeated");
    }
}

/// Whether a datagram to `far` leaves through the host's port, and a reply reaches the host.
fn exchange(host: &HostNet, socket: &UdpSocket, far: SocketAddr) -> bool {
    let timeout = Duration::from_millis(100);
    socket.set_read_timeout(Some(timeout)).unwrap();
    socket.send_to(b"ping", far).unwrap();
    let port = &host.ports[0];
    let mut file = fs::File::from(port.fd.try_clone().unwrap());
    let mut packet = [0; 4096];
    let start = HEADER + port.framing.len();
    let began = Instant::now();
    let length = loop {
        match file.read(&mut packet) {
            Ok(length) if packet[start..length].ends_with(b"ping") => break length,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if began.elapsed() > timeout {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    };
    let answer = swapped(&packet[..length], port.framing);
    file.write_all(&answer).unwrap();
    let mut text = [0; 16];
    match socket.recv_from(&mut text) {
        Ok((length, from)) => {
            assert_eq!((&text[..length], from), (&b"ping"[..], far));
            true
        }
        Err(e) if e.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// The packet with source and destination swapped, which does not change the Internet checksum.
fn swapped(packet: &[u8], framing: Framing) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Framing::Ethernet(header) = framing {
        packet[HEADER..HEADER + 12].copy_from_slice(&header);
    }
    let ip = &mut packet[HEADER + framing.len()..];
    let (addresses, width, udp) = if ip[0] >> 4 == 4 { (12, 4, 20) } else { (8, 16, 40) };
    let (from, to) = ip[addresses..addresses + 2 * width].split_at_mut(width);
    from.swap_with_slice(to);
    let (from, to) = ip[udp..udp + 4].split_at_mut(2);
    from.swap_with_slice(to);
    packet
}

#[test]
fn tun_engine_carries_packets_in_both_directions() {
    let plan = sample::star(3);
    let test = "tun_engine_carries_packets_in_both_directions";
    enclosed(test, &plan, &FirstIface::of(&plan), Engine::Tun);
}

#[test]
fn packet_engine_carries_packets_in_both_directions() {
    let plan = sample::star(3);
    let forwarding = FirstIface::of(&plan);
    let test = "packet_engine_carries_packets_in_both_directions";
    enclosed(test, &plan, &forwarding, Engine::Packet);
}

/// Runs `ip` in the namespace of a node.
fn ip(enclosure: &Enclosure, node: usize, arguments: &str) -> String {
    let host = enclosure.host(NodeId::at(node)).unwrap();
    let run = || {
        let output = std::process::Command::new("ip").args(arguments.split(' ')).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    namespace::in_net(host.netns.as_fd(), run).unwrap()
}

/// A host with two interfaces between two hosts: the second host is behind the second interface.
#[test]
fn multi_homed_host_replies_from_queried_address() {
    struct Direct;
    impl Forwarding for Direct {
        fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
            // Interfaces 0 and 2 belong to the middle host; 1 and 3 to the outer ones.
            match (node.index(), dest.index()) {
                (0, 1) => &[IfaceId(0)],
                (0, 3) => &[IfaceId(2)],
                _ => &[],
            }
        }
    }
    let nodes = [("m", Role::Host, true), ("a", Role::Host, true), ("b", Role::Host, true)];
    let plan = sample::plan(&nodes, &[(0, 1), (0, 2)]);
    let test = "multi_homed_host_replies_from_queried_address";
    if !enclosed(test, &plan, &Direct, Engine::Tun) {
        return;
    }
    let enclosure = build(&plan, &Direct, Engine::Tun).unwrap();
    if std::process::Command::new("ip").arg("-V").output().is_err() {
        eprintln!("SKIPPED {test}: iproute2 is not installed");
        return;
    }
    let get = |to: &str| ip(&enclosure, 0, &format!("route get {to}"));
    assert!(get("10.0.0.2").contains("dev eth0 src 10.0.0.1"), "{}", get("10.0.0.2"));
    assert!(get("10.0.0.6").contains("dev eth1 src 10.0.0.5"), "{}", get("10.0.0.6"));
    let from_second = get("10.0.0.2 from 10.0.0.5");
    assert!(from_second.contains("dev eth0"), "eth1 does not lead there: {from_second}");
    assert!(get("192.0.2.1 from 10.0.0.5").contains("dev eth1"), "by the address asked");
    assert!(get("192.0.2.1").contains("dev eth0"), "by default the first");
    let v6 = get("fd6e:6574:0:1::2");
    assert!(v6.contains("dev eth1"), "{v6}");
    assert_eq!(ip(&enclosure, 0, "-6 rule list").matches("from fd6e").count(), 2);
}

#[test]
fn router_without_routing_has_connected_routes_only() {
    let nodes = [("r", Role::Router, true), ("a", Role::Host, true), ("b", Role::Host, true)];
    let mut plan = sample::plan(&nodes, &[(0, 1), (0, 2)]);
    plan.routing = Routing::None;
    plan.links[1].directions[0].mtu = Bytes::new(9000);
    plan.links[1].directions[0].delay = Span::from_millis(1);
    let forwarding = FirstIface::of(&plan);
    let test = "router_without_routing_has_connected_routes_only";
    if !enclosed(test, &plan, &forwarding, Engine::Tun) {
        return;
    }
    let enclosure = build(&plan, &forwarding, Engine::Tun).unwrap();
    let host = enclosure.host(NodeId(0)).unwrap();
    let read = |name: &str| {
        namespace::in_net(host.netns.as_fd(), || sys::sysctl::read(name)).unwrap().unwrap()
    };
    assert_eq!(read("net/ipv4/ip_forward"), "1");
    assert_eq!(read("net/ipv6/conf/eth1/forwarding"), "1");
    assert_eq!(read("net/ipv4/conf/eth1/rp_filter"), "0");
    assert_eq!(read("net/ipv6/conf/eth1/mtu"), "9000");
    if std::process::Command::new("ip").arg("-V").output().is_ok() {
        let routes = ip(&enclosure, 0, "route list");
        assert!(routes.lines().count() == 2 && !routes.contains("default"), "{routes}");
    }
}

#[test]
fn hosts_file_lists_all_addresses() {
    let text = hosts_text(&sample::star(2));
    assert!(text.contains("\n10.0.0.2 h0\nfd6e:6574::2 h0\n"), "{text}");
    assert!(text.contains("10.0.0.1 hub\n") && text.starts_with("127.0.0.1 localhost\n"));
}

#[test]
fn counts_checksum_failures_of_both_families() {
    let v4 = "Tcp: RtoAlgorithm InCsumErrors\nTcp: 1 9\n\
              Udp: InDatagrams NoPorts InCsumErrors IgnoredMulti\nUdp: 400 1 74 0\n\
              UdpLite: InDatagrams InCsumErrors\nUdpLite: 0 0\n";
    assert_eq!(checksum_failures(v4), 74);
    let v6 = "Udp6InDatagrams   \t5\nUdp6InCsumErrors              \t3\nUdp6IgnoredMulti \t0\n";
    assert_eq!(checksum_failures(v6), 3);
    assert_eq!(checksum_failures("Udp: InDatagrams\n") + checksum_failures(""), 0);
}
