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

fn keyed(limits: Limits) -> Acceptor {
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
fn say(acceptor: &mut Acceptor, id: ConnectionId, frame: Frame<Bytes>) -> Vec<Verdict> {
    acceptor.on_frame(at(0), id, frame, None);
    verdicts(acceptor)
}

fn first_words(acceptor: &mut Acceptor, frame: Frame<Bytes>) -> (ConnectionId, Vec<Verdict>) {
    let id = acceptor.open(at(0), address(1)).unwrap();
    (id, say(acceptor, id, frame))
}

fn refused(id: ConnectionId, reason: Reason) -> Vec<Verdict> {
    vec![Verdict::Send(id, Frame::Refuse(reason)), Verdict::Close(id)]
}

fn established(acceptor: &mut Acceptor, nonce: u8) -> (u64, SessionKey) {
    let (_, said) = first_words(acceptor, Frame::Hello(hello(nonce)));
    let [Verdict::Open(_, _, ack, key)] = &said[..] else { panic!("{said:?}") };
    (ack.session, key.clone())
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

fn challenged(said: &[Verdict]) -> Challenge {
    let [Verdict::Send(_, Frame::Challenge(challenge))] = said else { panic!("{said:?}") };
    *challenge
}

#[test]
fn a_hello_opens_a_session_that_both_ends_have_the_key_of() {
    let mut acceptor = listener(Limits::default());
    let (id, said) = first_words(&mut acceptor, Frame::Hello(hello(1)));
    let [Verdict::Open(opened, said_hello, ack, key)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((*opened, said_hello), (id, &hello(1)));
    assert_eq!((ack.credit, ack.limits), (65_536, GRANTS));
    assert_eq!(*key, SessionKey::derive(&[], &[1; 32], &ack.nonce));
    assert!(key.is_hello_ack_proof(&ack.proof));
    assert_eq!(acceptor.next_wake(), None);
    assert_ne!(established(&mut acceptor, 2), (ack.session, key.clone()));
}

#[test]
fn a_join_is_challenged_and_proves_itself() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    for index in [0, 1, 5, 3] {
        let join = join(session, &key, index);
        let (id, said) = first_words(&mut acceptor, Frame::Join(join));
        let challenge = challenged(&said);
        assert!(key.is_server_proof(&join.nonce, &challenge.nonce, &challenge.proof));
        let proof = key.client_proof(&join.nonce, &challenge.nonce);
        let said = say(&mut acceptor, id, Frame::Proof(proof));
        assert_eq!(said, [Verdict::Joined(id, join)]);
        assert_eq!(say(&mut acceptor, id, Frame::Proof(proof)), []);
    }
    assert_eq!(acceptor.next_wake(), None);
}

#[test]
fn a_wrong_token_is_refused_and_uses_nothing_up() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let wrong = Join { index: 1, ..join(session, &key, 0) };
    let (id, said) = first_words(&mut acceptor, Frame::Join(wrong));
    assert_eq!(said, refused(id, Reason::Authentication));
    challenged(&first_words(&mut acceptor, Frame::Join(join(session, &key, 1))).1);
}

#[test]
fn a_join_that_was_overheard_is_good_for_nothing() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let overheard = Frame::Join(join(session, &key, 9));
    let (genuine, said) = first_words(&mut acceptor, overheard.clone());
    let challenge = challenged(&said);
    let (id, said) = first_words(&mut acceptor, overheard.clone());
    assert_eq!(said, refused(id, Reason::Replayed));
    let proof = Frame::Proof(key.client_proof(&[9; 16], &challenge.nonce));
    let said = say(&mut acceptor, genuine, proof.clone());
    assert!(matches!(said[..], [Verdict::Joined(..)]));
    let (id, said) = first_words(&mut acceptor, overheard);
    assert_eq!(said, refused(id, Reason::Replayed));
    // A replayed proof is invalid too: the challenge differs.
    let (id, _) = first_words(&mut acceptor, Frame::Join(join(session, &key, 10)));
    assert_eq!(say(&mut acceptor, id, proof), refused(id, Reason::Authentication));
    // An index below the window is invalid too.
    first_words(&mut acceptor, Frame::Join(join(session, &key, 100)));
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 36)));
    assert_eq!(said, refused(id, Reason::Replayed));
}

#[test]
fn the_key_of_another_session_proves_nothing() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let (_, other) = established(&mut acceptor, 2);
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &other, 0)));
    assert_eq!(said, refused(id, Reason::Authentication));
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 0)));
    let proof = other.client_proof(&[0; 16], &challenged(&said).nonce);
    assert_eq!(say(&mut acceptor, id, Frame::Proof(proof)), refused(id, Reason::Authentication));
}

#[test]
fn sessions_that_are_unknown_or_forgotten_cannot_be_joined() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let unknown = Join { session: session ^ 1, ..join(session, &key, 0) };
    let (id, said) = first_words(&mut acceptor, Frame::Join(unknown));
    assert_eq!(said, refused(id, Reason::UnknownSession));
    let (proving, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 0)));
    let proof = key.client_proof(&[0; 16], &challenged(&said).nonce);
    acceptor.forget(session);
    let said = say(&mut acceptor, proving, Frame::Proof(proof));
    assert_eq!(said, refused(proving, Reason::UnknownSession));
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 1)));
    assert_eq!(said, refused(id, Reason::UnknownSession));
}

#[test]
fn answers_a_join_of_a_closed_session_with_finished() {
    let mut acceptor = listener(Limits { sessions: 2, ..Limits::default() });
    let (session, key) = established(&mut acceptor, 1);
    let (proving, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 0)));
    let proof = key.client_proof(&[0; 16], &challenged(&said).nonce);
    acceptor.finish(session);
    let finished = refused(proving, Reason::Finished);
    assert_eq!(say(&mut acceptor, proving, Frame::Proof(proof)), finished);
    // Connections of other clients do not get this answer.
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 0)));
    assert_eq!(said, refused(id, Reason::Replayed));
    let wrong = Join { index: 1, ..join(session, &key, 2) };
    let (id, said) = first_words(&mut acceptor, Frame::Join(wrong));
    assert_eq!(said, refused(id, Reason::Authentication));
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 1)));
    challenged(&said);
    assert_eq!(say(&mut acceptor, id, Frame::Proof(proof)), refused(id, Reason::Authentication));
    let (id, said) = first_words(&mut acceptor, Frame::Hello(hello(1)));
    assert_eq!(said, refused(id, Reason::Replayed));
    // The ended session takes no session's place.
    let others = [2, 3].map(|nonce| established(&mut acceptor, nonce).0);
    // The last two ended sessions are remembered.
    for other in others {
        acceptor.finish(other);
    }
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 3)));
    assert_eq!(said, refused(id, Reason::UnknownSession));
    assert_eq!((acceptor.finished.len(), acceptor.finished_in_order.len()), (2, 2));
    acceptor.forget(others[0]);
    assert_eq!((acceptor.finished.len(), acceptor.finished_in_order.len()), (1, 1));
}

#[test]
fn a_hello_that_comes_again_is_no_second_session() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let again = Frame::Hello(Hello { subflow: SubflowId(1), ..hello(1) });
    let (id, said) = first_words(&mut acceptor, again.clone());
    assert_eq!(said, [Verdict::Again(id, session)]);
    // After confirmation a HELLO is late: data after it were received before.
    let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, 0)));
    let proof = key.client_proof(&[0; 16], &challenged(&said).nonce);
    say(&mut acceptor, id, Frame::Proof(proof));
    let (id, said) = first_words(&mut acceptor, again.clone());
    assert_eq!(said, refused(id, Reason::Replayed));
    acceptor.forget(session);
    let (id, said) = first_words(&mut acceptor, again);
    assert_eq!(said, refused(id, Reason::Replayed));
}

#[test]
fn nonces_of_the_past_are_bounded() {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let mut acceptor = listener(limits);
    for number in 1..100 {
        let (session, _) = established(&mut acceptor, number);
        acceptor.forget(session);
    }
    assert!(acceptor.used.len() <= 8 && acceptor.used_in_order.len() == acceptor.used.len());
    let (id, said) = first_words(&mut acceptor, Frame::Hello(hello(99)));
    assert_eq!(said, refused(id, Reason::Replayed));
}

#[test]
fn secrets_are_part_of_the_key_and_a_shared_one_has_to_be_proven() {
    let mut acceptor = keyed(Limits::default());
    let unwilling = Hello { limits: GRANTS, ..hello(1) };
    let (id, said) = first_words(&mut acceptor, Frame::Hello(unwilling));
    assert_eq!(said, refused(id, Reason::Authentication));
    let exported = Some(&[5; 32][..]);
    let shared = secret::shared(Some(PSK), exported);
    let greet = |acceptor: &mut Acceptor, token, exported| {
        let id = acceptor.open(at(0), address(1)).unwrap();
        acceptor.on_frame(at(0), id, Frame::Hello(Hello { token, ..hello(1) }), exported);
        id
    };
    // A token of another connection, or without TLS, is invalid.
    let id = greet(&mut acceptor, hello(1).token, exported);
    assert_eq!(verdicts(&mut acceptor), refused(id, Reason::Authentication));
    let token = secret::hello_token(&shared, &[1; 32], 0, &hello(1).target);
    greet(&mut acceptor, token, exported);
    let said = verdicts(&mut acceptor);
    let [Verdict::Open(_, _, ack, key)] = &said[..] else { panic!("{said:?}") };
    assert!(ack.limits.proof);
    assert_eq!(*key, SessionKey::derive(&shared, &[1; 32], &ack.nonce));
    // With TLS each connection has its own secret; the session uses that of its first one.
    let other: &[u8] = &[6; 32];
    let shared = secret::shared(Some(PSK), Some(other));
    let token = secret::hello_token(&shared, &[1; 32], 0, &hello(1).target);
    let id = greet(&mut acceptor, token, Some(other));
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
fn hellos_without_the_key_leave_no_state_and_keep_no_client_out() {
    let limits = Limits { sessions: 4, ..Limits::default() };
    let mut acceptor = keyed(limits);
    let mut clients = 0;
    for number in 0..20_000_u64 {
        // 500 sources.
        let source = Ipv4Addr::from_bits(0x0a00_0000 + (number % 500) as u32).into();
        let id = acceptor.open(at(number / 50), source).expect("a place for the connection");
        let forged = Hello { token: [number as u8; 16], ..hello_of(number) };
        acceptor.on_frame(at(number / 50), id, Frame::Hello(forged), None);
        assert_eq!(verdicts(&mut acceptor), refused(id, Reason::Authentication));
        if number % 5_000 == 0 {
            clients += 1;
            let (_, said) = first_words(&mut acceptor, Frame::Hello(hello_of(1 << 32 | number)));
            let [Verdict::Open(_, _, ack, _)] = &said[..] else { panic!("{said:?}") };
            acceptor.prove(ack.session);
        }
    }
    assert_eq!((clients, acceptor.sessions.len()), (4, 4));
    assert!(acceptor.connections.is_empty() && acceptor.unconfirmed.len() == 4);
    let (_, said) = first_words(&mut acceptor, Frame::Hello(hello_of(7)));
    assert_eq!(said, [], "the limit of sessions holds for clients");
}

#[test]
fn sessions_of_recorded_hellos_do_not_count_against_the_limit_of_sessions() {
    let limits = Limits { sessions: 2, unproven_sessions: 10, ..Limits::default() };
    let mut acceptor = keyed(Limits { unproven_sessions_per_source: 6, ..limits });
    let mut open = |source: u8, client: u64| {
        let id = acceptor.open(at(0), address(source)).unwrap();
        acceptor.on_frame(at(0), id, Frame::Hello(hello_of(client)), None);
        match &verdicts(&mut acceptor)[..] {
            [Verdict::Open(_, _, ack, _)] => Some(ack.session),
            said => {
                assert_eq!(said, [], "it waits");
                None
            }
        }
    };
    let replayed: Vec<_> = (0..100).filter_map(|client| open(1, client)).collect();
    assert_eq!(replayed.len(), 6);
    let clients = [200, 201].map(|client| open(2, client).expect("another source has a place"));
    for session in clients {
        acceptor.prove(session);
    }
    assert_eq!(acceptor.unproven_sessions.taken(), 6);
    // Replayed sessions have no place among the proven ones, and are refused in the end.
    for session in replayed {
        acceptor.forget(session);
    }
    assert_eq!((acceptor.unproven_sessions.taken(), acceptor.sessions.len()), (0, 2));
    acceptor.on_wake(at(2_000));
    let said = verdicts(&mut acceptor);
    let is_refused = |it: &&Verdict| matches!(it, Verdict::Send(_, Frame::Refuse(Reason::Limit)));
    assert_eq!(said.iter().filter(is_refused).count(), 94);
}

#[test]
fn silent_connections_of_more_sources_than_places_give_way_to_clients() {
    let limits = Limits { silent: 512, silent_per_source: 128, ..Limits::default() };
    let mut acceptor = keyed(limits.clone());
    let source = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
    let silent = (0..2_000).filter(|number| acceptor.open(at(0), source(*number)).is_some());
    assert_eq!(silent.count(), 512);
    // All silent connections are as new as this client.
    assert_eq!(acceptor.open(at(499), source(3_000)), None);
    let id = acceptor.open(at(500), source(3_000)).expect("the oldest gives way");
    assert_eq!(verdicts(&mut acceptor), [Verdict::Close(ConnectionId(0))]);
    acceptor.on_frame(at(500), id, Frame::Hello(hello_of(1)), None);
    assert!(matches!(verdicts(&mut acceptor)[..], [Verdict::Open(..)]));
    // The same within one source.
    let mut acceptor = keyed(limits);
    assert_eq!((0..200).filter(|_| acceptor.open(at(0), source(1)).is_some()).count(), 128);
    assert_eq!(acceptor.open(at(499), source(1)), None);
    assert!(acceptor.open(at(500), source(1)).is_some());
}

#[test]
fn closes_a_connection_after_an_unexpected_frame() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let data = || {
        let payload = Bytes::from_static(b"early");
        Frame::Data { dsn: 0, payload, copy: frame::Copy::First }
    };
    for frame in [data(), Frame::Proof([0; 32]), Frame::Close, Frame::Ignored, Frame::Ping(0)] {
        let (id, said) = first_words(&mut acceptor, frame);
        assert_eq!(said, refused(id, Reason::Protocol));
        assert_eq!(say(&mut acceptor, id, Frame::Hello(hello(9))), []);
    }
    let words =
        [data(), Frame::Hello(hello(9)), Frame::Join(join(session, &key, 50)), Frame::Ignored];
    for (index, frame) in (0..).zip(words) {
        let (id, said) = first_words(&mut acceptor, Frame::Join(join(session, &key, index)));
        challenged(&said);
        assert_eq!(say(&mut acceptor, id, frame), refused(id, Reason::Protocol));
    }
    assert_eq!(acceptor.next_wake(), None);
}

#[test]
fn closes_a_connection_after_the_handshake_timeout() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
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
fn sessions_are_limited() {
    let mut acceptor = listener(Limits { sessions: 2, ..Limits::default() });
    let (session, _) = established(&mut acceptor, 1);
    established(&mut acceptor, 2);
    let (id, said) = first_words(&mut acceptor, Frame::Hello(hello(3)));
    assert_eq!(said, [], "it waits");
    assert_eq!(say(&mut acceptor, id, Frame::Hello(hello(4))), refused(id, Reason::Protocol));
    let (id, said) = first_words(&mut acceptor, Frame::Hello(hello(1)));
    assert_eq!(said, [Verdict::Again(id, session)]);
    acceptor.forget(session);
    established(&mut acceptor, 3);
    let (late, _) = first_words(&mut acceptor, Frame::Hello(hello(5)));
    acceptor.on_wake(at(2_000));
    assert_eq!(verdicts(&mut acceptor), refused(late, Reason::Limit));
}

/// Clients of one source with the key connect in a burst: HELLO arrives with the connection, PROOF
/// one round trip after the verdict. Returns when the sessions were open, in milliseconds.
fn burst(limits: Limits, clients: u64, rtt: u64) -> Vec<u64> {
    let mut acceptor = keyed(limits);
    let mut proofs = VecDeque::new();
    let mut opened = Vec::new();
    let mut queue: VecDeque<u64> = (0..clients).collect();
    for now in 0..2_000 {
        while proofs.front().is_some_and(|(due, _)| *due <= now) {
            let (_, session) = proofs.pop_front().unwrap();
            acceptor.prove(session);
        }
        // A connection without a place stays in the backlog.
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
fn a_burst_of_clients_gets_all_its_sessions_within_a_round_trip() {
    for clients in [100, 1_000] {
        let opened = burst(Limits::default(), clients, 20);
        assert_eq!(opened.len() as u64, clients);
        // A session opens in the millisecond in which its HELLO arrives.
        assert!(opened.iter().enumerate().all(|(n, at)| *at == n as u64 * 20 / clients));
    }
    assert_eq!(burst(Limits::default(), 10_000, 20).len(), 10_000);
}

#[test]
fn a_burst_above_the_limits_of_a_source_waits_and_is_not_refused() {
    let tight = Limits { unproven_sessions_per_source: 64, ..Limits::default() };
    let opened = burst(tight.clone(), 1_000, 20);
    assert_eq!(opened.len(), 1_000);
    // 64 places, each occupied for one round trip.
    assert!((1_000 / 64 * 20..=1_000 / 64 * 20 + 20).contains(opened.last().unwrap()));
    let tight = Limits { silent_per_source: 16, unproven_sessions_per_source: 64, ..tight };
    assert_eq!(burst(tight, 1_000, 20).len(), 1_000);
}

#[test]
fn half_open_joins_by_the_thousand_hold_little_and_harm_nobody_who_came_before() {
    let mut acceptor = listener(Limits::default());
    let (session, key) = established(&mut acceptor, 1);
    let client = acceptor.open(at(0), address(1)).unwrap();
    let said = say(&mut acceptor, client, Frame::Join(join(session, &key, 0)));
    let challenge = challenged(&said);
    // A client with a session that joins repeatedly.
    let (theirs, their_key) = established(&mut acceptor, 2);
    let mut held = 0;
    for index in 0..5000 {
        let Some(id) = acceptor.open(at(1), address(66)) else { continue };
        let said = say(&mut acceptor, id, Frame::Join(join(theirs, &their_key, index)));
        if said == refused(id, Reason::Limit) {
            continue;
        }
        challenged(&said);
        held += 1;
    }
    assert_eq!(held, 256);
    // A client that stays silent.
    let silent = (0..5000).filter(|_| acceptor.open(at(1), address(67)).is_some()).count();
    assert_eq!(silent, 2048);
    assert_eq!(acceptor.connections.len(), 1 + 256 + 2048);
    let proof = key.client_proof(&[0; 16], &challenge.nonce);
    let said = say(&mut acceptor, client, Frame::Proof(proof));
    assert!(matches!(said[..], [Verdict::Joined(..)]));
    acceptor.on_wake(at(2001));
    assert_eq!(verdicts(&mut acceptor).len(), 256 + 2048);
    assert!(acceptor.connections.is_empty());
}

#[test]
fn many_sources_that_fill_all_places_keep_out_themselves_alone() {
    let limits = Limits { silent: 40, silent_per_source: 10, ..Limits::default() };
    let mut acceptor = listener(limits);
    let early = acceptor.open(at(0), address(1)).unwrap();
    for source in 2..100 {
        for _ in 0..100 {
            acceptor.open(at(1), address(source));
        }
    }
    assert!(acceptor.connections.len() <= 40);
    let said = verdicts(&mut acceptor);
    assert!(said.iter().all(|verdict| matches!(verdict, Verdict::Close(id) if *id != early)));
    assert!(acceptor.connections.contains_key(&early));
    // An IPv6 host has 2^64 addresses, and counts as one source.
    let mut acceptor = listener(Limits { silent_per_source: 128, ..Limits::default() });
    let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0).to_bits();
    let sources = (0..1000).map(|host| Ipv6Addr::from_bits(network + host));
    assert_eq!(sources.filter_map(|ip| acceptor.open(at(0), ip.into())).count(), 128);
}

#[test]
fn places_are_given_back_to_newcomers_from_elsewhere() {
    let limits = Limits { unproven: 8, unproven_per_source: 6, ..Limits::default() };
    let mut acceptor = listener(limits);
    let (session, key) = established(&mut acceptor, 1);
    let mut joined = |source: u8, index| {
        let id = acceptor.open(at(0), address(source)).unwrap();
        (id, say(&mut acceptor, id, Frame::Join(join(session, &key, index))))
    };
    let first: Vec<_> = (0..6).map(|index| joined(1, index).0).collect();
    joined(2, 6);
    joined(2, 7);
    let (id, said) = joined(1, 8);
    assert_eq!(said, refused(id, Reason::Limit));
    let (id, said) = joined(3, 9);
    assert_eq!(said[..2], refused(first[5], Reason::Limit));
    assert!(matches!(&said[2..], [Verdict::Send(to, Frame::Challenge(_))] if *to == id));
}
