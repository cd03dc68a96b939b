use std::net::{IpAddr, Ipv4Addr};

use bgp::{Asn, MARKER};

use super::*;
use crate::{GapCause, MirrorId, PeeringId, Reason};

fn peering(number: u32) -> Peering {
    Peering {
        peer_as: Asn(65_000),
        peer_id: 1,
        local_as: Asn(64_512),
        local_id: 1,
        certain: true,
        ..Peering::new(
            PeeringId(number),
            MirrorId(0),
            IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)),
            IpAddr::V4(Ipv4Addr::LOCALHOST),
        )
    }
}

const fn at(seconds: u64) -> Time {
    Time::from_nanos(450_000 * HOUR + seconds * 1_000_000_000)
}

fn say(to: &mut Integrity, seconds: u64, from: Sender, kind: MessageType, body: &[u8]) {
    let mut bytes = MARKER.to_vec();
    bytes.extend_from_slice(&(19 + body.len() as u16).to_be_bytes());
    bytes.push(kind.0);
    bytes.extend_from_slice(body);
    let message = Message::split(&bytes).unwrap();
    to.event(&peering(0), &Event::Message { time: at(seconds), from, message });
}

fn keepalive(to: &mut Integrity, seconds: u64) {
    say(to, seconds, Sender::Peer, MessageType::KEEPALIVE, &[]);
}

fn state(to: &mut Integrity, seconds: u64, old: State, new: State) {
    let event = Event::State { time: at(seconds), old, new, reason: Reason::Seen };
    to.event(&peering(0), &event);
}

fn up(to: &mut Integrity, seconds: u64) {
    state(to, seconds, State::OpenConfirm, State::Established);
}

fn gap(to: &mut Integrity, from: Sender, cause: GapCause, since: u64, until: u64) {
    let (since, until) = (at(since), at(until));
    let gap = Gap { since, until, from, cause, missing: 100, skipped: 20 };
    to.event(&peering(0), &Event::Gap(gap));
}

fn verdicts(of: &Integrity) -> Vec<(Verdict, u32)> {
    of.hours().map(|(_, _, hour)| (hour.verdict(), hour.blind_seconds())).collect()
}

#[test]
fn marks_idle_neighbour_quiet() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    (1..120).for_each(|number| keepalive(&mut account, number * 60));
    account.advance(at(7200));
    assert_eq!(verdicts(&account), [(Verdict::Quiet, 0), (Verdict::Quiet, 0)]);
    let hours: Vec<_> = account.hours().collect();
    assert_eq!(hours[0].2.up, Span::from_secs(3600));
    assert_eq!((hours[0].2.peer.keepalive, hours[1].2.peer.keepalive), (59, 60));
}

#[test]
fn marks_silence_beyond_hold_time_blind() {
    let mut account = Integrity::new(Settings::default());
    say(&mut account, 0, Sender::Peer, MessageType::OPEN, &[4, 0, 1, 0, 90, 1, 1, 1, 1, 0]);
    say(&mut account, 0, Sender::Local, MessageType::OPEN, &[4, 0, 1, 0, 180, 1, 1, 1, 1, 0]);
    up(&mut account, 0);
    keepalive(&mut account, 30);
    // Messages of the router do not show that the neighbour sent any.
    say(&mut account, 300, Sender::Local, MessageType::KEEPALIVE, &[]);
    account.advance(at(600));
    assert_eq!(verdicts(&account), [(Verdict::Holes, 480)]);
    keepalive(&mut account, 1000);
    account.advance(at(1050));
    assert_eq!(verdicts(&account), [(Verdict::Holes, 880)]);
    account.advance(at(7000));
    assert_eq!(verdicts(&account)[1], (Verdict::Blind, 3400));
}

#[test]
fn accepts_silence_without_hold_time() {
    let mut account = Integrity::new(Settings::default());
    say(&mut account, 0, Sender::Peer, MessageType::OPEN, &[4, 0, 1, 0, 0, 1, 1, 1, 1, 0]);
    up(&mut account, 0);
    account.advance(at(4000));
    assert_eq!(verdicts(&account), [(Verdict::Quiet, 0), (Verdict::Blind, 0)]);
}

#[test]
fn expects_nothing_while_session_is_down() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    keepalive(&mut account, 10);
    state(&mut account, 20, State::Established, State::Idle);
    account.advance(at(10_000));
    assert_eq!(verdicts(&account), [(Verdict::Quiet, 0)]);
    state(&mut account, 4000, State::Idle, State::Connect);
    assert_eq!(verdicts(&account)[1], (Verdict::Down, 0));
}

#[test]
fn counts_overlapping_gaps_once() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    say(&mut account, 1, Sender::Peer, MessageType::UPDATE, &[0; 4]);
    assert_eq!(verdicts(&account), [(Verdict::Whole, 0)]);
    gap(&mut account, Sender::Peer, GapCause::Mirror, 10, 20);
    gap(&mut account, Sender::Peer, GapCause::Unknown, 5, 12);
    gap(&mut account, Sender::Peer, GapCause::Unknown, 30, 30);
    gap(&mut account, Sender::Local, GapCause::Unknown, 40, 50);
    gap(&mut account, Sender::Peer, GapCause::Undecodable, 60, 61);
    assert_eq!(verdicts(&account), [(Verdict::Holes, 16)]);
    let (_, _, hour) = account.hours().next().unwrap();
    assert_eq!(hour.gaps[0], Gaps { count: 1, missing: 100, skipped: 20 });
    assert_eq!((hour.gaps[1].count, hour.local_gaps.count, hour.undecodable()), (2, 1, 1));
    assert_eq!(hour.resyncs, 4);
}

#[test]
fn splits_gap_over_hours() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    keepalive(&mut account, 1);
    gap(&mut account, Sender::Peer, GapCause::Capture, 3590, 7210);
    assert_eq!(
        verdicts(&account),
        [(Verdict::Holes, 10), (Verdict::Blind, 3600), (Verdict::Blind, 10)]
    );
}

#[test]
fn emits_old_hours_and_limits_memory() {
    let mut account = Integrity::new(Settings { hours: 2, waiting: 3, ..Settings::default() });
    up(&mut account, 0);
    for number in 0..100 {
        gap(&mut account, Sender::Peer, GapCause::Unknown, number * 1000, number * 1000 + 1);
    }
    assert_eq!((account.hours().count(), account.forgotten()), (2, 23));
    let taken: Vec<u64> = account.finished().map(|one| one.hour - 450_000).collect();
    assert_eq!(taken, [23, 24, 25]);
    // A time far in the future, as in damaged captures, creates no huge list.
    gap(&mut account, Sender::Peer, GapCause::Unknown, 0, 1_000_000_000);
    assert!(account.memory() < 20_000);
}

#[test]
fn emits_hours_of_removed_peerings() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    account.forget_peering(&peering(0));
    account.forget_peering(&peering(7));
    assert_eq!((account.hours().count(), account.finished().count()), (0, 1));
}

#[test]
fn continues_account_after_clock_step_backward() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 100_000);
    account.advance(at(100_010));
    account.advance(at(10));
    keepalive(&mut account, 50);
    account.advance(at(70));
    let up: f64 = account.hours().map(|(_, _, hour)| hour.up.as_secs_f64()).sum();
    assert_eq!((up, verdicts(&account).iter().map(|one| one.1).sum::<u32>()), (70.0, 0));
}

#[test]
fn counts_captures_by_hour() {
    let mut account = Integrity::new(Settings::default());
    account.capture(at(10), Capture { frames: 5, ..Capture::default() });
    account.capture(at(20), Capture { frames: 9, dropped: 2, ..Capture::default() });
    account.capture(at(4000), Capture { frames: 10, dropped: 3, ..Capture::default() });
    let hours: Vec<_> = account.capture_hours().map(|(_, of)| (of.frames, of.dropped)).collect();
    assert_eq!(hours, [(9, 2), (1, 1)]);
}

#[test]
fn renders_complete_report() {
    let mut account = Integrity::new(Settings::default());
    up(&mut account, 0);
    keepalive(&mut account, 1);
    gap(&mut account, Sender::Peer, GapCause::Mirror, 10, 12);
    account.capture(at(1), Capture { frames: 7, mirror_lost: 1, ..Capture::default() });
    let json = account.json();
    assert_eq!(json["schema"], "netarium.integrity/1");
    let hour = &json["hours"][0];
    assert_eq!(hour["hour"], "2021-05-03T00:00Z");
    assert_eq!((&hour["verdict"], &hour["blind_seconds"]), (&"holes".into(), &2.into()));
    assert_eq!((&hour["peer"], &hour["peer_as"]), (&"10.0.0.0".into(), &65_000.into()));
    assert_eq!(hour["gaps"]["mirror"]["missing"], 100);
    assert_eq!(json["capture"][0]["mirror_lost"], 1);
}
