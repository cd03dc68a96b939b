use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::SubflowId;
use crate::frame::Priority;

const GRANTS: frame::Limits =
    frame::Limits { subflows: 4, frame: 16_384, idle: 60, resume: 30, proof: false };

const PSK: &[u8] = b"between us";

fn listener(limits: Limits) -> Acceptor {
    Acceptor::new(limits, GRANTS, 65_536, None, [7; 32])
}

fn listener_with_psk(limits: Limits) -> Acceptor {
    Acceptor::new(limits, GRANTS, 0, Some(PSK.into()), [7; 32])
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn hello(nonce: u8) -> Hello {
    let target = "example.org:80".to_owned();
    let limits = frame::Limits { proof: true, ..GRANTS };
    let token = secret::hello_token(PSK, &[nonce; 32], 0, &target);
    Hello { nonce: [nonce; 32], subflow: SubflowId(0), credit: 0, limits, target, token }
}

fn verdicts(acceptor: &mut Acceptor) -> Vec<Verdict> {
    std::iter::from_fn(|| acceptor.poll()).collect()
}

/// The answer to `frame` on a connection.
fn send(acceptor: &mut Acceptor, id: ConnectionId, frame: Frame<Bytes>) -> Vec<Verdict> {
    acceptor.on_frame(at(0), id, frame, None);
    verdicts(acceptor)
}

fn send_first(acceptor: &mut Acceptor, frame: Frame<Bytes>) -> (ConnectionId, Vec<Verdict>) {
    let id = acceptor.open(at(0), address(1)).unwrap();
    (id, send(acceptor, id, frame))
}

fn refused(id: ConnectionId, reason: Reason) -> Vec<Verdict> {
    vec![Verdict::Send(id, Frame::Refuse(reason)), Verdict::Close(id)]
}

fn assert_refused(acceptor: &mut Acceptor, frame: Frame<Bytes>, reason: Reason) {
    let (id, answer) = send_first(acceptor, frame);
    assert_eq!(answer, refused(id, reason));
}

fn established(acceptor: &mut Acceptor, nonce: u8) -> (u64, SessionKey) {
    let (_, answer) = send_first(acceptor, Frame::Hello(hello(nonce)));
    let [Verdict::Open(_, _, ack, key)] = &answer[..] else { panic!("{answer:?}") };
    (ack.session, key.clone())
}

fn listener_with_session(limits: Limits) -> (Acceptor, u64, SessionKey) {
    let mut acceptor = listener(limits);
    let (session, key) = established(&mut acceptor, 1);
    (acceptor, session, key)
}

fn join(session: u64, key: &SessionKey, index: u32) -> Join {
    Join {
        session,
        index,
        subflow: SubflowId(index + 1),
        priority: Priority::default(),
        nonce: [index as u8; 16],
        token: key.token(index),
    }
}

/// Sends JOIN on a new connection; returns the connection and the PROOF for its CHALLENGE.
fn challenged_join(
    acceptor: &mut Acceptor,
    session: u64,
    key: &SessionKey,
    index: u32,
) -> (ConnectionId, Frame<Bytes>) {
    let join = join(session, key, index);
    let (id, answer) = send_first(acceptor, Frame::Join(join));
    (id, Frame::Proof(key.client_proof(&join.nonce, &challenged(&answer).nonce)))
}

fn challenged(answer: &[Verdict]) -> Challenge {
    let [Verdict::Send(_, Frame::Challenge(challenge))] = answer else { panic!("{answer:?}") };
    *challenge
}

#[test]
fn hello_opens_a_session_with_a_shared_key() {
    let mut acceptor = listener(Limits::default());
    let (id, answer) = send_first(&mut acceptor, Frame::Hello(hello(1)));
    let [Verdict::Open(opened, opened_hello, ack, key)] = &answer[..] else { panic!("{answer:?}") };
    assert_eq!((*opened, opened_hello), (id, &hello(1)));
    assert_eq!((ack.credit, ack.limits), (65_536, GRANTS));
    assert_eq!(*key, SessionKey::derive(&[], &[1; 32], &ack.nonce));
    assert!(key.is_hello_ack_proof(&ack.proof));
    assert_eq!(acceptor.next_wake(), None);
    assert_ne!(established(&mut acceptor, 2), (ack.session, key.clone()));
}

#[test]
fn accepts_a_join_after_its_proof() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    for index in [0, 1, 5, 3] {
        let join = join(session, &key, index);
        let (id, answer) = send_first(&mut acceptor, Frame::Join(join));
        let challenge = challenged(&answer);
        assert!(key.is_server_proof(&join.nonce, &challenge.nonce, &challenge.proof));
        let proof = key.client_proof(&join.nonce, &challenge.nonce);
        let answer = send(&mut acceptor, id, Frame::Proof(proof));
        assert_eq!(answer, [Verdict::Joined(id, join)]);
        assert_eq!(send(&mut acceptor, id, Frame::Proof(proof)), []);
    }
    assert_eq!(acceptor.next_wake(), None);
}

#[test]
fn refuses_a_wrong_token_without_using_its_index() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let invalid = Join { index: 1, ..join(session, &key, 0) };
    assert_refused(&mut acceptor, Frame::Join(invalid), Reason::Authentication);
    challenged(&send_first(&mut acceptor, Frame::Join(join(session, &key, 1))).1);
}

#[test]
fn refuses_a_replayed_join() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let replayed = Frame::Join(join(session, &key, 9));
    let (genuine, proof) = challenged_join(&mut acceptor, session, &key, 9);
    assert_refused(&mut acceptor, replayed.clone(), Reason::Replayed);
    let answer = send(&mut acceptor, genuine, proof.clone());
    assert!(matches!(answer[..], [Verdict::Joined(..)]));
    assert_refused(&mut acceptor, replayed, Reason::Replayed);
    // A replayed proof is invalid too: the challenge differs.
    let (id, _) = send_first(&mut acceptor, Frame::Join(join(session, &key, 10)));
    assert_eq!(send(&mut acceptor, id, proof), refused(id, Reason::Authentication));
    // An index below the window is invalid too.
    send_first(&mut acceptor, Frame::Join(join(session, &key, 100)));
    assert_refused(&mut acceptor, Frame::Join(join(session, &key, 36)), Reason::Replayed);
}

#[test]
fn refuses_proofs_with_the_key_of_another_session() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let (_, other) = established(&mut acceptor, 2);
    assert_refused(&mut acceptor, Frame::Join(join(session, &other, 0)), Reason::Authentication);
    let (id, answer) = send_first(&mut acceptor, Frame::Join(join(session, &key, 0)));
    let proof = other.client_proof(&[0; 16], &challenged(&answer).nonce);
    assert_eq!(send(&mut acceptor, id, Frame::Proof(proof)), refused(id, Reason::Authentication));
}

#[test]
fn refuses_joins_of_unknown_and_removed_sessions() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let unknown = Join { session: session ^ 1, ..join(session, &key, 0) };
    assert_refused(&mut acceptor, Frame::Join(unknown), Reason::UnknownSession);
    let (proving, proof) = challenged_join(&mut acceptor, session, &key, 0);
    acceptor.remove(session);
    assert_eq!(send(&mut acceptor, proving, proof), refused(proving, Reason::UnknownSession));
    assert_refused(&mut acceptor, Frame::Join(join(session, &key, 1)), Reason::UnknownSession);
}

#[test]
fn answers_a_join_of_a_closed_session_with_finished() {
    let (mut acceptor, session, key) =
        listener_with_session(Limits { sessions: 2, ..Limits::default() });
    let (proving, proof) = challenged_join(&mut acceptor, session, &key, 0);
    acceptor.finish(session);
    let finished = refused(proving, Reason::Finished);
    assert_eq!(send(&mut acceptor, proving, proof.clone()), finished);
    // Connections of other clients do not get this answer.
    assert_refused(&mut acceptor, Frame::Join(join(session, &key, 0)), Reason::Replayed);
    let invalid = Join { index: 1, ..join(session, &key, 2) };
    assert_refused(&mut acceptor, Frame::Join(invalid), Reason::Authentication);
    let (id, _) = challenged_join(&mut acceptor, session, &key, 1);
    assert_eq!(send(&mut acceptor, id, proof), refused(id, Reason::Authentication));
    assert_refused(&mut acceptor, Frame::Hello(hello(1)), Reason::Replayed);
    // The ended session does not count against the limit of sessions.
    let others = [2, 3].map(|nonce| established(&mut acceptor, nonce).0);
    // Only the last two ended sessions are stored.
    for other in others {
        acceptor.finish(other);
    }
    assert_refused(&mut acceptor, Frame::Join(join(session, &key, 3)), Reason::UnknownSession);
    assert_eq!((acceptor.finished.len(), acceptor.finished_in_order.len()), (2, 2));
    acceptor.remove(others[0]);
    assert_eq!((acceptor.finished.len(), acceptor.finished_in_order.len()), (1, 1));
}

#[test]
fn repeated_hello_opens_no_second_session() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let again = Frame::Hello(Hello { subflow: SubflowId(1), ..hello(1) });
    let (id, answer) = send_first(&mut acceptor, again.clone());
    assert_eq!(answer, [Verdict::RepeatedHello(id, session)]);
    // After confirmation a HELLO is late: data after it were received before.
    let (id, proof) = challenged_join(&mut acceptor, session, &key, 0);
    send(&mut acceptor, id, proof);
    assert_refused(&mut acceptor, again.clone(), Reason::Replayed);
    acceptor.remove(session);
    assert_refused(&mut acceptor, again, Reason::Replayed);
}

#[test]
fn bounds_the_stored_nonces() {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let mut acceptor = listener(limits);
    for number in 1..100 {
        let (session, _) = established(&mut acceptor, number);
        acceptor.remove(session);
    }
    assert!(
        acceptor.used_nonces.len() <= 8
            && acceptor.used_in_order.len() == acceptor.used_nonces.len()
    );
    assert_refused(&mut acceptor, Frame::Hello(hello(99)), Reason::Replayed);
}

#[test]
fn derives_the_key_from_psk_and_tls_secret() {
    let mut acceptor = listener_with_psk(Limits::default());
    let without_proof = Hello { limits: GRANTS, ..hello(1) };
    assert_refused(&mut acceptor, Frame::Hello(without_proof), Reason::Authentication);
    let exported = Some(&[5; 32][..]);
    let shared = secret::shared(Some(PSK), exported);
    let send_hello = |acceptor: &mut Acceptor, token, exported| {
        let id = acceptor.open(at(0), address(1)).unwrap();
        acceptor.on_frame(at(0), id, Frame::Hello(Hello { token, ..hello(1) }), exported);
        id
    };
    // A token of another connection, or without TLS, is invalid.
    let id = send_hello(&mut acceptor, hello(1).token, exported);
    assert_eq!(verdicts(&mut acceptor), refused(id, Reason::Authentication));
    let token = secret::hello_token(&shared, &[1; 32], 0, &hello(1).target);
    send_hello(&mut acceptor, token, exported);
    let answer = verdicts(&mut acceptor);
    let [Verdict::Open(_, _, ack, key)] = &answer[..] else { panic!("{answer:?}") };
    assert!(ack.limits.proof);
    assert_eq!(*key, SessionKey::derive(&shared, &[1; 32], &ack.nonce));
    // With TLS each connection has its own secret; the session uses that of its first one.
    let other: &[u8] = &[6; 32];
    let shared = secret::shared(Some(PSK), Some(other));
    let token = secret::hello_token(&shared, &[1; 32], 0, &hello(1).target);
    let id = send_hello(&mut acceptor, token, Some(other));
    assert_eq!(verdicts(&mut acceptor), refused(id, Reason::UnknownSession));
}

/// HELLO of a client with the pre-shared key.
fn hello_of(client: u64) -> Hello {
    let mut nonce = [0; 32];
    nonce[..8].copy_from_slice(&client.to_be_bytes());
    let target = "example.org:80".to_owned();
    let token = secret::hello_token(PSK, &nonce, 0, &target);
    Hello { nonce, target, token, ..hello(0) }
}

#[test]
fn refuses_hellos_without_the_psk_statelessly() {
    let limits = Limits { sessions: 4, ..Limits::default() };
    let mut acceptor = listener_with_psk(limits);
    let mut clients = 0;
    for number in 0..20_000_u64 {
        // 500 source addresses in turn.
        let source = Ipv4Addr::from_bits(0x0a00_0000 + (number % 500) as u32).into();
        let id = acceptor.open(at(number / 50), source).expect("the limits allow the connection");
        let forged = Hello { token: [number as u8; 16], ..hello_of(number) };
        acceptor.on_frame(at(number / 50), id, Frame::Hello(forged), None);
        assert_eq!(verdicts(&mut acceptor), refused(id, Reason::Authentication));
        if number % 5_000 == 0 {
            clients += 1;
            let (_, answer) = send_first(&mut acceptor, Frame::Hello(hello_of(1 << 32 | number)));
            let [Verdict::Open(_, _, ack, _)] = &answer[..] else { panic!("{answer:?}") };
            acceptor.mark_proven(ack.session);
        }
    }
    assert_eq!((clients, acceptor.sessions.len()), (4, 4));
    assert!(acceptor.connections.is_empty() && acceptor.unconfirmed.len() == 4);
    let (_, answer) = send_first(&mut acceptor, Frame::Hello(hello_of(7)));
    assert_eq!(answer, [], "above the session limit");
}

#[test]
fn replayed_hellos_do_not_count_against_the_session_limit() {
    let limits = Limits { sessions: 2, unproven_sessions: 10, ..Limits::default() };
    let mut acceptor = listener_with_psk(Limits { unproven_sessions_per_source: 6, ..limits });
    let mut open = |source: u8, client: u64| {
        let id = acceptor.open(at(0), address(source)).unwrap();
        acceptor.on_frame(at(0), id, Frame::Hello(hello_of(client)), None);
        match &verdicts(&mut acceptor)[..] {
            [Verdict::Open(_, _, ack, _)] => Some(ack.session),
            answer => {
                assert_eq!(answer, [], "queued");
                None
            }
        }
    };
    let replayed: Vec<_> = (0..100).filter_map(|client| open(1, client)).collect();
    assert_eq!(replayed.len(), 6);
    let clients =
        [200, 201].map(|client| open(2, client).expect("another source is within its limits"));
    for session in clients {
        acceptor.mark_proven(session);
    }
    assert_eq!(acceptor.unproven_sessions.taken(), 6);
    // Replayed sessions do not count as proven. The queued HELLOs are refused after the timeout.
    for session in replayed {
        acceptor.remove(session);
    }
    assert_eq!((acceptor.unproven_sessions.taken(), acceptor.sessions.len()), (0, 2));
    acceptor.on_wake(at(2_000));
    let answer = verdicts(&mut acceptor);
    let is_refused = |it: &&Verdict| matches!(it, Verdict::Send(_, Frame::Refuse(Reason::Limit)));
    assert_eq!(answer.iter().filter(is_refused).count(), 94);
}

#[test]
fn new_client_replaces_the_oldest_silent_connection() {
    let limits = Limits { silent: 512, silent_per_source: 128, ..Limits::default() };
    let mut acceptor = listener_with_psk(limits.clone());
    let source = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
    let silent = (0..2_000).filter(|number| acceptor.open(at(0), source(*number)).is_some());
    assert_eq!(silent.count(), 512);
    // No silent connection is older than a fourth of the timeout.
    assert_eq!(acceptor.open(at(499), source(3_000)), None);
    let id = acceptor.open(at(500), source(3_000)).expect("the oldest is replaced");
    assert_eq!(verdicts(&mut acceptor), [Verdict::Close(ConnectionId(0))]);
    acceptor.on_frame(at(500), id, Frame::Hello(hello_of(1)), None);
    assert!(matches!(verdicts(&mut acceptor)[..], [Verdict::Open(..)]));
    // The same for connections of one source.
    let mut acceptor = listener_with_psk(limits);
    assert_eq!((0..200).filter(|_| acceptor.open(at(0), source(1)).is_some()).count(), 128);
    assert_eq!(acceptor.open(at(499), source(1)), None);
    assert!(acceptor.open(at(500), source(1)).is_some());
}

#[test]
fn closes_a_connection_after_an_unexpected_frame() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let data = || {
        let payload = Bytes::from_static(b"early");
        Frame::Data { dsn: 0, payload, copy: frame::Copy::First }
    };
    for frame in [data(), Frame::Proof([0; 32]), Frame::Close, Frame::Ignored, Frame::Ping(0)] {
        let (id, answer) = send_first(&mut acceptor, frame);
        assert_eq!(answer, refused(id, Reason::Protocol));
        assert_eq!(send(&mut acceptor, id, Frame::Hello(hello(9))), []);
    }
    let frames =
        [data(), Frame::Hello(hello(9)), Frame::Join(join(session, &key, 50)), Frame::Ignored];
    for (index, frame) in (0..).zip(frames) {
        let (id, _) = challenged_join(&mut acceptor, session, &key, index);
        assert_eq!(send(&mut acceptor, id, frame), refused(id, Reason::Protocol));
    }
    assert_eq!(acceptor.next_wake(), None);
}

#[test]
fn closes_a_connection_after_the_handshake_timeout() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let silent = acceptor.open(at(100), address(1)).unwrap();
    let joining = acceptor.open(at(200), address(1)).unwrap();
    let gone = acceptor.open(at(300), address(1)).unwrap();
    acceptor.on_frame(at(300), joining, Frame::Join(join(session, &key, 0)), None);
    let challenge = challenged(&verdicts(&mut acceptor));
    assert_eq!(acceptor.next_wake(), Some(at(2100)));
    acceptor.on_wake(at(2100));
    assert_eq!(verdicts(&mut acceptor), [Verdict::Close(silent)]);
    acceptor.on_lost(at(2150), gone);
    let proof = key.client_proof(&[0; 16], &challenge.nonce);
    acceptor.on_frame(at(2200), joining, Frame::Proof(proof), None);
    assert_eq!(verdicts(&mut acceptor), [Verdict::Close(joining)]);
    assert_eq!(acceptor.next_wake(), None);
}

#[test]
fn queues_hellos_above_the_session_limit() {
    let mut acceptor = listener(Limits { sessions: 2, ..Limits::default() });
    let (session, _) = established(&mut acceptor, 1);
    established(&mut acceptor, 2);
    let (id, answer) = send_first(&mut acceptor, Frame::Hello(hello(3)));
    assert_eq!(answer, [], "queued");
    assert_eq!(send(&mut acceptor, id, Frame::Hello(hello(4))), refused(id, Reason::Protocol));
    let (id, answer) = send_first(&mut acceptor, Frame::Hello(hello(1)));
    assert_eq!(answer, [Verdict::RepeatedHello(id, session)]);
    acceptor.remove(session);
    established(&mut acceptor, 3);
    let (late, _) = send_first(&mut acceptor, Frame::Hello(hello(5)));
    acceptor.on_wake(at(2_000));
    assert_eq!(verdicts(&mut acceptor), refused(late, Reason::Limit));
}

/// Clients of one source with the key connect in a burst: HELLO arrives with the connection, PROOF
/// one round trip after the verdict. Returns when the sessions were open, in milliseconds.
fn burst(limits: Limits, clients: u64, rtt: u64) -> Vec<u64> {
    let mut acceptor = listener_with_psk(limits);
    let mut proofs = VecDeque::new();
    let mut opened = Vec::new();
    let mut queue: VecDeque<u64> = (0..clients).collect();
    for now in 0..2_000 {
        while proofs.front().is_some_and(|(due, _)| *due <= now) {
            let (_, session) = proofs.pop_front().unwrap();
            acceptor.mark_proven(session);
        }
        // A connection above the limits stays in the backlog.
        let arrived = clients * (now + 1) / 20;
        while let Some(client) = queue.front().filter(|client| **client < arrived) {
            let Some(id) = acceptor.open(at(now), address(1)) else { break };
            acceptor.on_frame(at(now), id, Frame::Hello(hello_of(*client)), None);
            queue.pop_front();
        }
        for verdict in verdicts(&mut acceptor) {
            let Verdict::Open(_, _, ack, _) = verdict else { panic!("{now} ms: {verdict:?}") };
            proofs.push_back((now + rtt, ack.session));
            opened.push(now);
        }
    }
    assert_eq!(acceptor.sessions.len() as u64, clients);
    opened
}

#[test]
fn opens_all_sessions_of_a_burst_within_a_round_trip() {
    for clients in [100, 1_000] {
        let opened = burst(Limits::default(), clients, 20);
        assert_eq!(opened.len() as u64, clients);
        // A session opens in the millisecond in which its HELLO arrives.
        assert!(opened.iter().enumerate().all(|(n, at)| *at == n as u64 * 20 / clients));
    }
    assert_eq!(burst(Limits::default(), 10_000, 20).len(), 10_000);
}

#[test]
fn queues_a_burst_above_the_limits_of_a_source() {
    let tight = Limits { unproven_sessions_per_source: 64, ..Limits::default() };
    let opened = burst(tight.clone(), 1_000, 20);
    assert_eq!(opened.len(), 1_000);
    // 64 unproven sessions at a time, each for one round trip.
    assert!((1_000 / 64 * 20..=1_000 / 64 * 20 + 20).contains(opened.last().unwrap()));
    let tight = Limits { silent_per_source: 16, unproven_sessions_per_source: 64, ..tight };
    assert_eq!(burst(tight, 1_000, 20).len(), 1_000);
}

#[test]
fn limits_unproven_joins_and_silent_connections_of_a_source() {
    let (mut acceptor, session, key) = listener_with_session(Limits::default());
    let (client, proof) = challenged_join(&mut acceptor, session, &key, 0);
    // A client that joins its own session repeatedly without a proof.
    let (session_2, key_2) = established(&mut acceptor, 2);
    let mut held = 0;
    for index in 0..5000 {
        let Some(id) = acceptor.open(at(1), address(66)) else { continue };
        let answer = send(&mut acceptor, id, Frame::Join(join(session_2, &key_2, index)));
        if answer == refused(id, Reason::Limit) {
            continue;
        }
        challenged(&answer);
        held += 1;
    }
    assert_eq!(held, 256);
    // A source whose connections send nothing.
    let silent = (0..5000).filter(|_| acceptor.open(at(1), address(67)).is_some()).count();
    assert_eq!(silent, 2048);
    assert_eq!(acceptor.connections.len(), 1 + 256 + 2048);
    let answer = send(&mut acceptor, client, proof);
    assert!(matches!(answer[..], [Verdict::Joined(..)]));
    acceptor.on_wake(at(2001));
    assert_eq!(verdicts(&mut acceptor).len(), 256 + 2048);
    assert!(acceptor.connections.is_empty());
}

#[test]
fn connections_above_the_limit_do_not_replace_earlier_ones() {
    let limits = Limits { silent: 40, silent_per_source: 10, ..Limits::default() };
    let mut acceptor = listener(limits);
    let early = acceptor.open(at(0), address(1)).unwrap();
    for source in 2..100 {
        for _ in 0..100 {
            acceptor.open(at(1), address(source));
        }
    }
    assert!(acceptor.connections.len() <= 40);
    let answer = verdicts(&mut acceptor);
    assert!(answer.iter().all(|verdict| matches!(verdict, Verdict::Close(id) if *id != early)));
    assert!(acceptor.connections.contains_key(&early));
    // An IPv6 host has 2^64 addresses, and counts as one source.
    let mut acceptor = listener(Limits { silent_per_source: 128, ..Limits::default() });
    let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0).to_bits();
    let sources = (0..1000).map(|host| Ipv6Addr::from_bits(network + host));
    assert_eq!(sources.filter_map(|ip| acceptor.open(at(0), ip.into())).count(), 128);
}

#[test]
fn join_of_another_source_replaces_the_newest_of_the_largest_source() {
    let limits = Limits { unproven: 8, unproven_per_source: 6, ..Limits::default() };
    let (mut acceptor, session, key) = listener_with_session(limits);
    let mut joined = |source: u8, index| {
        let id = acceptor.open(at(0), address(source)).unwrap();
        (id, send(&mut acceptor, id, Frame::Join(join(session, &key, index))))
    };
    let first: Vec<_> = (0..6).map(|index| joined(1, index).0).collect();
    joined(2, 6);
    joined(2, 7);
    let (id, answer) = joined(1, 8);
    assert_eq!(answer, refused(id, Reason::Limit));
    let (id, answer) = joined(3, 9);
    assert_eq!(answer[..2], refused(first[5], Reason::Limit));
    assert!(matches!(&answer[2..], [Verdict::Send(to, Frame::Challenge(_))] if *to == id));
}
