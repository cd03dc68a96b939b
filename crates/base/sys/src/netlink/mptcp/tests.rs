use std::net::Ipv4Addr;

use super::*;
use crate::namespace::testing::in_new_net;
use crate::netlink::{Batch, LOOPBACK, LinkSettings, Socket};
use crate::socket::{self, Interest, MptcpInfo, Ready, ReadyQueue, TcpOptions};

/// Waits until `fd` is ready for `interest`.
fn wait(fd: BorrowedFd<'_>, interest: Interest) {
    let mut queue = ReadyQueue::try_new().unwrap();
    queue.add(fd, 0, interest).unwrap();
    let mut ready: Vec<Ready> = Vec::new();
    queue.wait(Some(5_000_000_000), &mut ready).unwrap();
    assert!(!ready.is_empty(), "nothing happened for 5 s");
}

/// A connection over loopback whose second subflow has separate addresses.
fn two_subflows() {
    let [first, second] = [1, 2].map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n)));
    let mut batch = Batch::new();
    batch.set_link(LOOPBACK, &LinkSettings { up: Some(true), ..LinkSettings::default() });
    Socket::open().unwrap().submit(batch).unwrap();
    let mut paths = PathManager::open().unwrap();
    let options = TcpOptions { multipath: true, ..TcpOptions::default() };
    let (listener, at) = socket::listen(first, options).unwrap();
    let client = socket::connect(first, at, options).unwrap();
    wait(listener.as_fd(), Interest::Read);
    let server = socket::accept(listener.as_fd()).unwrap().unwrap();
    wait(client.as_fd(), Interest::Write);
    socket::write(client.as_fd(), b"hello").unwrap();
    let port = socket::local_port(client.as_fd()).unwrap();
    let token = loop {
        wait(paths.events(), Interest::Read);
        let found = paths.established().unwrap();
        if let Some(ours) = found.iter().find(|ours| !ours.accepted && ours.local_port == port) {
            assert_eq!(ours.remote_port, at.port());
            break ours.token;
        }
    };
    let to = SocketAddr::new(first, at.port());
    paths.join(&Join { token, from: second, id: 1, to, backup: false }).unwrap();
    let lost = paths.join(&Join { token: !token, from: second, id: 1, to, backup: false });
    assert!(lost.is_err(), "the connection does not exist");
    let info = loop {
        let info = MptcpInfo::read(client.as_fd()).unwrap();
        if info.subflows.len() == 2 && info.subflows.iter().all(|s| s.tcp.is_established) {
            break info;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    let froms: Vec<IpAddr> = info.subflows.iter().map(|s| s.local.unwrap().ip()).collect();
    assert_eq!(froms, [first, second]);
    assert!(info.subflows.iter().all(|s| s.remote == Some(at)), "{info:?}");
    let mut buffer = [0; 16];
    wait(server.as_fd(), Interest::Read);
    assert_eq!(socket::read(server.as_fd(), &mut buffer).unwrap(), Some(5));
    assert_eq!(&buffer[..5], b"hello");
    let received: u64 = MptcpInfo::read(server.as_fd())
        .unwrap()
        .subflows
        .iter()
        .map(|s| s.tcp.received_bytes)
        .sum();
    assert_eq!(received, 5);
}

#[test]
fn connections_get_the_paths_that_they_are_given() {
    let name = "connections_get_the_paths_that_they_are_given";
    in_new_net(name, || {
        if is_supported() {
            two_subflows();
        } else {
            eprintln!("SKIPPED {name}: no Multipath TCP");
        }
    });
}
