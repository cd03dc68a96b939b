use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use base::{Bandwidth, Bytes};

use super::*;
use crate::namespace::testing::in_new_net;
use crate::namespace::{Kinds, unshare};
use crate::tun::Tun;

/// Reads all queued packets; returns the number of IPv4 packets. (The kernel reports its IPv6
/// multicast groups at arbitrary times.)
fn read_all(tun: Tun) -> usize {
    let mut file = fs::File::from(tun.into_fd());
    let mut packet = [0; 2048];
    let mut count = 0;
    while std::io::Read::read(&mut file, &mut packet).is_ok_and(|length| length > 0) {
        count += usize::from(packet[crate::tun::HEADER] >> 4 == 4);
    }
    count
}

#[test]
fn a_device_is_configured_and_counted() {
    in_new_net("a_device_is_configured_and_counted", || {
        let tun = match Tun::open("eth0") {
            Ok(tun) => tun,
            Err(error) => {
                eprintln!("SKIPPED a_device_is_configured_and_counted: {error}");
                return;
            }
        };
        // A machine that forwards, as with Docker, passes this on to new namespaces.
        crate::sysctl::write("net/ipv4/ip_forward", "0").unwrap();
        let index = index_of("eth0").unwrap();
        let mut batch = Batch::new();
        let up = LinkSettings { up: Some(true), ..LinkSettings::default() };
        batch.set_link(LOOPBACK, &up);
        batch.set_link(
            index,
            &LinkSettings {
                mtu: Some(1400),
                queue: Some(5000),
                no_own_addresses: true,
                ..LinkSettings { up: Some(true), ..LinkSettings::default() }
            },
        );
        batch.add_address(index, Ipv4Addr::new(10, 1, 0, 1).into(), 24);
        let v6: Ipv6Addr = "fd6e:6574::1".parse().unwrap();
        batch.add_address(index, v6.into(), 64);
        for to in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let devices = &[index];
            batch.add_route(&Route { to: (to, 0), table: MAIN_TABLE, devices, source: None });
        }
        batch.add_source_rule(v6.into(), 1001, 1001);
        let mut socket = Socket::open().unwrap();
        socket.submit(batch).unwrap();

        assert_eq!(crate::sysctl::read("net/ipv4/conf/eth0/forwarding").unwrap(), "0");
        let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap();
        assert!(routes.contains("eth0\t00000000"), "{routes}");
        let mtu = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
        assert!(!mtu.contains("fe80"), "no link-local address was asked for: {mtu}");
        assert!(mtu.contains("fd6e6574"), "{mtu}");

        let sender = std::net::UdpSocket::bind("10.1.0.1:0").unwrap();
        sender.send_to(b"x", "192.0.2.7:9").unwrap();
        assert_eq!(read_all(tun), 1, "the packet is read, then counted");
        let counters = socket.counters(index).unwrap();
        assert!(counters.sent_packets >= 1 && counters.sent_bytes >= 29, "{counters:?}");
        assert_eq!(counters.sent_dropped, 0);
    });
}

#[test]
fn a_refusal_names_its_request_and_the_rest_is_done() {
    in_new_net("a_refusal_names_its_request_and_the_rest_is_done", || {
        let mut batch = Batch::new();
        batch.add_address(77, Ipv4Addr::LOCALHOST.into(), 8);
        batch.set_link(LOOPBACK, &LinkSettings { up: Some(true), ..LinkSettings::default() });
        let mut socket = Socket::open().unwrap();
        let error = socket.submit(batch).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENODEV));
        assert!(error.to_string().contains("add an address"), "{error}");
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_ok());
        assert!(socket.counters(LOOPBACK).is_ok());
        assert_eq!(socket.counters(99).unwrap_err().errno(), Some(libc::ENODEV));
    });
}

#[test]
fn a_batch_of_many_chunks_takes_effect() {
    in_new_net("a_batch_of_many_chunks_takes_effect", || {
        let mut batch = Batch::new();
        batch.set_link(LOOPBACK, &LinkSettings { up: Some(true), ..LinkSettings::default() });
        for i in 0..3000_u32 {
            let to = Ipv4Addr::from(0x0a00_0000 + i);
            let devices = &[LOOPBACK];
            batch.add_route(&Route {
                to: (to.into(), 32),
                table: MAIN_TABLE,
                devices,
                source: None,
            });
        }
        batch.remove_route((Ipv4Addr::from(0x0a00_0000).into(), 32), MAIN_TABLE);
        Socket::open().unwrap().submit(batch).unwrap();
        let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap();
        assert_eq!(routes.lines().filter(|line| line.starts_with("lo")).count(), 2999);
    });
}

#[test]
fn several_devices_share_a_route() {
    in_new_net("several_devices_share_a_route", || {
        let Ok(tuns) = ["eth0", "eth1"].map(Tun::open).into_iter().collect::<Result<Vec<_>>>()
        else {
            eprintln!("SKIPPED several_devices_share_a_route: {} is closed", crate::tun::DEVICE);
            return;
        };
        let mut batch = Batch::new();
        let devices = ["eth0", "eth1"].map(|name| index_of(name).unwrap());
        for (i, device) in devices.into_iter().enumerate() {
            let up = LinkSettings { up: Some(true), ..LinkSettings::default() };
            batch.set_link(device, &up);
            batch.add_address(device, Ipv4Addr::new(10, i as u8, 0, 1).into(), 24);
            batch.add_address(device, Ipv6Addr::new(0xfd00, i as u16, 0, 0, 0, 0, 0, 1).into(), 64);
        }
        for to in [IpAddr::from([192, 0, 2, 0]), "2001:db8::".parse().unwrap()] {
            let prefix = if to.is_ipv6() { 32 } else { 24 };
            let table = MAIN_TABLE;
            batch.add_route(&Route { to: (to, prefix), table, devices: &devices, source: None });
        }
        let mut socket = Socket::open().unwrap();
        socket.submit(batch).unwrap();
        // Flows to many destinations use both devices.
        let sender = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        crate::sysctl::write("net/ipv4/fib_multipath_hash_policy", "1").unwrap();
        for port in 1..=64 {
            sender.send_to(b"x", ("192.0.2.1", port)).unwrap();
        }
        let sent: Vec<usize> = tuns.into_iter().map(read_all).collect();
        assert!(sent.iter().sum::<usize>() == 64 && !sent.contains(&0), "{sent:?}");
    });
}

#[test]
fn a_veth_pair_carries_packets_to_a_socket() {
    use std::os::fd::AsFd;

    in_new_net("a_veth_pair_carries_packets_to_a_socket", || {
        let host = std::thread::spawn(|| {
            unshare(Kinds::NET).unwrap();
            crate::namespace::current_net().unwrap()
        });
        let host = host.join().unwrap();
        let mut batch = Batch::new();
        let (address, peer_address) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let (name, peer_name, mtu, peer_net) = ("p0", "eth0", 1500, host.as_fd());
        batch.add_veth(&Veth { name, address, peer_name, peer_address, peer_net, mtu });
        let mut socket = Socket::open().unwrap();
        if let Err(error) = socket.submit(batch) {
            eprintln!("SKIPPED a_veth_pair_carries_packets_to_a_socket: {error}");
            return;
        }
        let index = index_of("p0").unwrap();
        let mut batch = Batch::new();
        let up = LinkSettings { up: Some(true), no_own_addresses: true, ..Default::default() };
        batch.set_link(index, &up);
        socket.submit(batch).unwrap();
        let port = crate::packet::open(index).unwrap();
        crate::namespace::in_net(host.as_fd(), || {
            let index = index_of("eth0").unwrap();
            let mut batch = Batch::new();
            batch.set_link(index, &LinkSettings { no_arp: true, ..up });
            batch.add_address(index, Ipv4Addr::new(10, 0, 0, 1).into(), 24);
            Socket::open().unwrap().submit(batch).unwrap();
            let sender = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
            sender.send_to(b"hello", "10.0.0.2:9").unwrap();
        })
        .unwrap();
        let mut file = fs::File::from(port);
        let mut packet = [0; 2048];
        let length = std::io::Read::read(&mut file, &mut packet).unwrap();
        assert_eq!(length, crate::tun::HEADER + crate::packet::LINK_HEADER + 20 + 8 + 5);
        assert_eq!(&packet[length - 5..length], b"hello");
        assert_eq!(crate::packet::drops(file.as_fd()).unwrap(), 0);
    });
}

#[test]
fn rules_send_packets_through_a_device_and_past_it() {
    /// An unused protocol number.
    const OURS: u8 = 78;
    in_new_net("rules_send_packets_through_a_device_and_past_it", || {
        let Ok(old) = Tun::open("old") else {
            return eprintln!("SKIPPED rules_send_packets: {} is closed", crate::tun::DEVICE);
        };
        let tun = Tun::open_passing("new").unwrap();
        assert_eq!(Tun::open_passing("new").unwrap_err().errno(), Some(libc::EBUSY));
        let devices = ["old", "new"].map(|name| index_of(name).unwrap());
        let to = (IpAddr::from([192, 0, 2, 0]), 24);
        let mut batch = Batch::new();
        for (device, table) in devices.iter().zip([MAIN_TABLE, 900]) {
            let up = LinkSettings { up: Some(true), mtu: Some(1400), ..LinkSettings::default() };
            batch.set_link(*device, &up);
            let devices = std::slice::from_ref(device);
            batch.add_route(&Route { to, table, devices, source: None });
        }
        let rule = Rule {
            ipv6: false,
            priority: 900,
            from: None,
            action: Action::Goto(902),
            protocol: OURS,
        };
        batch.add_rule(&Rule { from: Some("new"), ..rule });
        batch.add_rule(&Rule { priority: 901, action: Action::Table(900), ..rule });
        batch.add_rule(&Rule { priority: 902, action: Action::Nothing, ..rule });
        let mut socket = Socket::open().unwrap();
        socket.submit(batch).unwrap();
        let ours = |socket: &mut Socket| {
            let rules = socket.rules(false).unwrap();
            rules.into_iter().filter(|rule| rule.1 == OURS).map(|rule| rule.0).collect::<Vec<_>>()
        };
        assert_eq!(ours(&mut socket), [900, 901, 902]);
        let there = IpAddr::from([192, 0, 2, 9]);
        assert_eq!(socket.look_up_route(there).unwrap().unwrap().device, devices[1]);
        assert_eq!(socket.mtu(devices[1]).unwrap(), 1400);
        // The device is removed with its routes: the previous route is used again.
        drop(tun);
        assert_eq!(socket.look_up_route(there).unwrap().unwrap().device, devices[0]);
        assert_eq!(socket.look_up_route([198, 51, 100, 1].into()).unwrap(), None);
        let mut batch = Batch::new();
        for priority in [900, 901, 902] {
            batch.remove_rule_at(false, priority);
        }
        socket.submit(batch).unwrap();
        assert_eq!(ours(&mut socket), []);
        drop(old);
    });
}

#[test]
fn addresses_lead_out_of_their_own_devices() {
    in_new_net("addresses_lead_out_of_their_own_devices", || {
        let made = Tun::open("left").and_then(|left| Ok((left, Tun::open("right")?)));
        let Ok(_devices) = made else {
            return eprintln!("SKIPPED addresses_lead_out: {} is closed", crate::tun::DEVICE);
        };
        let devices = ["left", "right"].map(|name| index_of(name).unwrap());
        let addresses = [1, 2].map(|net| IpAddr::from([10, 0, net, 1]));
        let mut batch = Batch::new();
        for (device, address) in devices.into_iter().zip(addresses) {
            let up = LinkSettings { up: Some(true), no_own_addresses: true, ..Default::default() };
            batch.set_link(device, &up);
            batch.add_address(device, address, 24);
        }
        let (to, table) = ((IpAddr::from([192, 0, 2, 0]), 24), MAIN_TABLE);
        batch.add_route(&Route { to, table, devices: &devices[..1], source: None });
        let mut socket = Socket::open().unwrap();
        socket.submit(batch).unwrap();
        let mut found = socket.addresses().unwrap();
        found.retain(|it| it.address.is_ipv4() && it.is_global && it.is_usable);
        let expected = devices.into_iter().zip(addresses);
        assert!(found.into_iter().map(|it| (it.device, it.address)).eq(expected));
        let there = IpAddr::from([192, 0, 2, 9]);
        let mut way = |at: usize, device: Option<u32>| {
            let way = socket.way_from(addresses[at], there, device).unwrap();
            way.map(|way| way.device)
        };
        // Only one of the devices has a route there.
        assert_eq!(way(0, None), Some(devices[0]));
        assert_eq!(way(0, Some(devices[0])), Some(devices[0]));
        assert_eq!(way(1, None), Some(devices[0]));
        assert_eq!(way(1, Some(devices[1])), None);
        let mut batch = Batch::new();
        batch.set_link(devices[0], &LinkSettings { up: Some(false), ..Default::default() });
        socket.submit(batch).unwrap();
        let still = socket.addresses().unwrap();
        assert!(still.iter().all(|it| it.device != devices[0]));
    });
}

#[test]
fn a_bridge_carries_no_more_than_its_ports_let_out() {
    in_new_net("a_bridge_carries_no_more_than_its_ports_let_out", || {
        let far = std::thread::spawn(|| {
            unshare(Kinds::NET).unwrap();
            crate::namespace::current_net().unwrap()
        });
        let far = far.join().unwrap();
        let mut socket = Socket::open().unwrap();
        let mut batch = Batch::new();
        batch.add_bridge("hub");
        batch.add_veth(&Veth {
            name: "port",
            address: [2, 0, 0, 0, 0, 1],
            peer_name: "eth0",
            peer_address: [2, 0, 0, 0, 0, 2],
            peer_net: far.as_fd(),
            mtu: 1500,
        });
        socket.submit(batch).unwrap();
        let (hub, port) = (index_of("hub").unwrap(), index_of("port").unwrap());
        let up = LinkSettings { up: Some(true), ..LinkSettings::default() };
        let mut batch = Batch::new();
        batch.add_port(port, hub);
        batch.add_address(hub, Ipv4Addr::new(10, 1, 0, 1).into(), 24);
        // A packet of 1,028 bytes with its header of 14 bytes per second: the second one is queued.
        let rate = Bandwidth::from_bits_per_sec(8 * 1042);
        batch.limit_rate(port, rate, Bytes::new(1600), Bytes::new(1500));
        batch.set_link(port, &up);
        batch.set_link(hub, &up);
        socket.submit(batch).unwrap();
        let receiver = crate::namespace::in_net(far.as_fd(), || {
            let eth0 = index_of("eth0").unwrap();
            let mut batch = Batch::new();
            batch.add_address(eth0, Ipv4Addr::new(10, 1, 0, 2).into(), 24);
            batch.set_link(eth0, &up);
            Socket::open().unwrap().submit(batch).unwrap();
            std::net::UdpSocket::bind("10.1.0.2:9").unwrap()
        });
        let receiver = receiver.unwrap();
        let sender = std::net::UdpSocket::bind("10.1.0.1:0").unwrap();
        for _ in 0..20 {
            sender.send_to(&[0; 1000], "10.1.0.2:9").unwrap();
        }
        assert_eq!(receiver.recv(&mut [0; 1500]).unwrap(), 1000);
        let counters = socket.counters(port).unwrap();
        assert!(counters.sent_bytes < 10_000, "as fast as without a limit: {counters:?}");
    });
}
