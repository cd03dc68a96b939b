use std::net::Ipv4Addr;

use super::*;

fn source(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

/// A gate with 8 places, of which one source gets 4.
fn gate() -> Arc<Gate> {
    Arc::new(Gate::new(Descriptors::of(16)))
}

fn is_evicted(place: &Place) -> bool {
    use std::future::Future;
    use std::task::{Context, Waker};

    let evicted = std::pin::pin!(place.evicted());
    evicted.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn new_client_replaces_oldest_idle_client_of_its_source() {
    let (gate, start) = (gate(), Instant::now());
    let idle: Vec<_> = (0..4).map(|_| gate.try_enter(start, source(1)).unwrap()).collect();
    let early = start + MIN_REQUEST_TIMEOUT / 2;
    assert!(gate.try_enter(early, source(1)).is_none());
    let _other = gate.try_enter(early, source(2)).expect("another source has its own places");
    idle[0].mark_requested();
    let late = start + MIN_REQUEST_TIMEOUT;
    let new = gate.try_enter(late, source(1)).expect("an idle client gives way");
    // The client with a complete request is not evicted.
    assert_eq!([0, 1, 2, 3].map(|at| is_evicted(&idle[at])), [false, true, false, false]);
    assert!(!is_evicted(&new));
}

#[test]
fn new_client_replaces_an_idle_client_of_another_source() {
    let (gate, start) = (gate(), Instant::now());
    let idle: Vec<_> = (1..=8).map(|last| gate.try_enter(start, source(last)).unwrap()).collect();
    assert!(gate.try_enter(start, source(9)).is_none());
    let late = start + MIN_REQUEST_TIMEOUT;
    let _new = gate.try_enter(late, source(9)).unwrap();
    assert_eq!(idle.iter().filter(|place| is_evicted(place)).count(), 1);
}

#[test]
fn new_client_replaces_one_of_the_source_with_most_clients() {
    let (gate, start) = (gate(), Instant::now());
    let _one = gate.try_enter(start, source(3)).unwrap();
    let held: Vec<_> = [1, 1, 1, 1, 2, 2, 2]
        .map(|last| gate.try_enter(start, source(last)).unwrap())
        .into_iter()
        .collect();
    let _new = gate.try_enter(start + MIN_REQUEST_TIMEOUT, source(4)).unwrap();
    assert!(is_evicted(&held[0]));
}

#[test]
fn rejects_clients_while_all_places_wait_for_slots() {
    let (gate, start) = (gate(), Instant::now());
    let mut waiting: Vec<_> =
        (1..=8).map(|last| gate.try_enter(start, source(last)).unwrap()).collect();
    waiting.iter().for_each(Place::mark_requested);
    let late = start + 100 * MIN_REQUEST_TIMEOUT;
    assert!(gate.try_enter(late, source(9)).is_none());
    waiting.pop();
    assert!(gate.try_enter(late, source(9)).is_some());
    drop(waiting);
    let state = gate.lock();
    assert_eq!((state.quota.taken(), state.held.len()), (0, 0));
}
