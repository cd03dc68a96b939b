//! Routes after sessions end and restart.

use bgp::capability::{Capability, code};
use bgp::open::OpenBuilder;

use super::*;

const V4: [u8; 4] = [0, 1, 1, 0x80];

fn nlri(number: u32) -> Nlri {
    Nlri { path_id: None, prefix: Prefix::V4(number << 8, 24) }
}

/// A session with an OPEN of `capabilities` and routes `numbers`.
fn session(rib: &mut Rib, time: Time, capabilities: &[Capability<'_>], numbers: &[u32]) {
    let mut open = OpenBuilder::new(Asn(65_000), 90, 1);
    for capability in capabilities {
        open.capability(capability).unwrap();
    }
    let open = open.build().unwrap();
    let body = Message::split(&open).map_or(&open[..], Message::body).to_vec();
    send(rib, &peering(0), time, MessageType::OPEN, &body);
    state(rib, &peering(0), time, State::Established, Reason::Seen);
    let routes: Vec<Nlri> = numbers.iter().map(|number| nlri(*number)).collect();
    send(rib, &peering(0), time, MessageType::UPDATE, &update(&[], &routes, 1));
}

fn graceful(notification: bool, families: &[[u8; 4]]) -> Capability<'_> {
    Capability::GracefulRestart { restarted: false, notification, time: 120, families }
}

fn lose(rib: &mut Rib, time: Time, why: Reason) -> usize {
    state(rib, &peering(0), time, State::Idle, why);
    rib.len()
}

fn stale(rib: &Rib) -> usize {
    rib.peerings().flat_map(|peer| peer.routes).map(|routes| routes.3).sum()
}

#[test]
fn removes_routes_without_graceful_restart() {
    let mut rib = Rib::new();
    session(&mut rib, at(0), &[], &[1, 2, 3]);
    assert_eq!(rib.len(), 3);
    assert_eq!(lose(&mut rib, at(10), Reason::Reset), 0);
}

#[test]
fn expires_stale_routes() {
    let mut rib = Rib::new();
    session(&mut rib, at(0), &[graceful(false, &[V4])], &[1, 2, 3]);
    assert_eq!(lose(&mut rib, at(1_000), Reason::Reset), 3);
    assert_eq!(stale(&rib), 3);
    rib.advance(at(120_999));
    assert_eq!(rib.len(), 3);
    rib.advance(at(121_000));
    assert_eq!(rib.len(), 0);
}

#[test]
fn expires_long_lived_routes_later() {
    let mut rib = Rib::new();
    let long = [[0, 1, 1, 0x80, 0, 2, 0]];
    let capabilities = [graceful(false, &[V4]), Capability::LongLivedGracefulRestart(&long)];
    session(&mut rib, at(0), &capabilities, &[1]);
    assert_eq!(lose(&mut rib, at(0), Reason::Finished), 1);
    rib.advance(at((120 + 512) * 1_000 - 1));
    assert_eq!(rib.len(), 1);
    rib.advance(at((120 + 512) * 1_000));
    assert_eq!(rib.len(), 0);
}

#[test]
fn removes_stale_routes_at_end_of_rib() {
    let mut rib = Rib::new();
    let able = [graceful(false, &[V4])];
    session(&mut rib, at(0), &able, &[1, 2, 3]);
    lose(&mut rib, at(1_000), Reason::Reset);
    session(&mut rib, at(2_000), &able, &[2, 4]);
    assert_eq!((rib.len(), stale(&rib)), (4, 2));
    send(&mut rib, &peering(0), at(3_000), MessageType::UPDATE, &[0, 0, 0, 0]);
    assert_eq!((rib.len(), stale(&rib)), (2, 0));
}

#[test]
fn removes_stale_routes_at_second_loss() {
    let mut rib = Rib::new();
    let able = [graceful(false, &[V4])];
    session(&mut rib, at(0), &able, &[1, 2, 3]);
    lose(&mut rib, at(1_000), Reason::Reset);
    session(&mut rib, at(2_000), &able, &[2, 4]);
    assert_eq!(lose(&mut rib, at(3_000), Reason::Reset), 2);
    assert_eq!(stale(&rib), 2);
}

#[test]
fn removes_stale_routes_without_forwarding_state() {
    let mut rib = Rib::new();
    session(&mut rib, at(0), &[graceful(false, &[V4])], &[1, 2, 3]);
    lose(&mut rib, at(1_000), Reason::Reset);
    session(&mut rib, at(2_000), &[graceful(false, &[[0, 1, 1, 0]])], &[2]);
    assert_eq!((rib.len(), stale(&rib)), (1, 0));
}

#[test]
fn restarts_gracefully_after_notification_only_if_negotiated() {
    let cease = Reason::Notification(Sender::Peer, 6, 4);
    let hard = Reason::Notification(Sender::Peer, 6, 9);
    for (able, why, left) in [(false, cease, 0), (true, cease, 1), (true, hard, 0)] {
        let mut rib = Rib::new();
        session(&mut rib, at(0), &[graceful(able, &[V4])], &[1]);
        assert_eq!(lose(&mut rib, at(1_000), why), left, "{able} {why:?}");
    }
}

const REFRESH: Capability<'_> = Capability::Opaque(code::ENHANCED_ROUTE_REFRESH, &[]);
const BEGIN: [u8; 4] = [0, 1, 1, 1];
const END: [u8; 4] = [0, 1, 2, 1];

fn announce(rib: &mut Rib, time: Time, numbers: &[u32]) {
    let routes: Vec<Nlri> = numbers.iter().map(|number| nlri(*number)).collect();
    send(rib, &peering(0), time, MessageType::UPDATE, &update(&[], &routes, 1));
}

fn refresh(rib: &mut Rib, time: Time, marker: [u8; 4]) {
    send(rib, &peering(0), time, MessageType::ROUTE_REFRESH, &marker);
}

#[test]
fn removes_routes_that_refresh_omits() {
    let mut rib = Rib::with_removals();
    session(&mut rib, at(0), &[REFRESH], &[1, 2, 3]);
    refresh(&mut rib, at(1), BEGIN);
    assert_eq!((rib.len(), stale(&rib)), (3, 3));
    announce(&mut rib, at(2), &[1]);
    // Everything is announced again: the earlier announcement does not count.
    refresh(&mut rib, at(3), BEGIN);
    assert_eq!((rib.len(), stale(&rib)), (3, 3));
    announce(&mut rib, at(4), &[2, 4]);
    refresh(&mut rib, at(5), [0, 2, 2, 1]);
    assert_eq!(rib.take_removals(), Vec::<Vec<u8>>::new(), "another family ends");
    refresh(&mut rib, at(6), END);
    assert_eq!((rib.len(), stale(&rib)), (2, 0));
    let withdrawals = message(MessageType::UPDATE, &[0, 8, 24, 0, 0, 1, 24, 0, 0, 3, 0, 0]);
    assert_eq!(rib.take_removals(), [withdrawals]);
    refresh(&mut rib, at(7), END);
    assert_eq!(rib.len(), 2);
    lose(&mut rib, at(8), Reason::Reset);
    assert_eq!((rib.len(), rib.attribute_sets(), rib.prefixes()), (0, 0, 0));
}

#[test]
fn ignores_refresh_markers_before_end_of_rib() {
    let mut rib = Rib::new();
    let able = [REFRESH, graceful(false, &[V4])];
    session(&mut rib, at(0), &able, &[1, 2]);
    refresh(&mut rib, at(1), BEGIN);
    refresh(&mut rib, at(2), END);
    assert_eq!(rib.len(), 2);
    send(&mut rib, &peering(0), at(3), MessageType::UPDATE, &[0, 0, 0, 0]);
    refresh(&mut rib, at(4), BEGIN);
    announce(&mut rib, at(5), &[2]);
    // End-of-RIB ends no refresh.
    send(&mut rib, &peering(0), at(6), MessageType::UPDATE, &[0, 0, 0, 0]);
    assert_eq!((rib.len(), stale(&rib)), (2, 1));
    refresh(&mut rib, at(7), END);
    assert_eq!(rib.len(), 1);
}

#[test]
fn ignores_refresh_markers_without_capability() {
    let mut rib = Rib::new();
    session(&mut rib, at(0), &[], &[1, 2]);
    refresh(&mut rib, at(1), BEGIN);
    refresh(&mut rib, at(2), END);
    assert_eq!((rib.len(), stale(&rib)), (2, 0));
}

#[test]
fn reports_omitted_routes_of_each_family() {
    let mut rib = Rib::with_removals();
    session(&mut rib, at(0), &[REFRESH], &[]);
    let route = Nlri { path_id: None, prefix: Prefix::V6(0x2a00 << 112, 32) };
    send(&mut rib, &peering(0), at(1), MessageType::UPDATE, &update(&[], &[route], 1));
    refresh(&mut rib, at(2), [0, 2, 1, 1]);
    refresh(&mut rib, at(3), [0, 2, 2, 1]);
    let body = [0, 0, 0, 12, 0x90, 15, 0, 8, 0, 2, 1, 32, 0x2a, 0, 0, 0];
    assert_eq!(rib.take_removals(), [message(MessageType::UPDATE, &body)]);
}
