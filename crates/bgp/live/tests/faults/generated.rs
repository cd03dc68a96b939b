//! Mutations of generated captures: the result equals that of the unmutated one, or the account
//! states each difference.

mod message;
mod mutation;
mod script;
mod truth;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base::Span;
use collector::GapCause;
use collector_live::archive::{Compression, GAPS, Loss, Options, read_ledger};
use collector_live::input::Captures;
use collector_live::job::{self, Summary};
use collector_live::live::Source;
use collector_live::pipeline::Settings;
use proptest::prelude::*;

use crate::collect::{Outcome, Output, collect_with};
use crate::field::settings;
use crate::judge::judge;
use crate::mrt::{self, Timed};
use crate::oracle::expect;
use crate::seeds;
use message::{Codec, FAMILIES, Update};
use mutation::{Clones, Effect, Harm, Mutation, Shift, Split};
use script::{Capture, End, Peer, ROUTER, Refresh, Session, Step};
use truth::{Dated, Model};

/// A day in nanoseconds.
const DAY: i64 = 86_400 * 1_000_000_000;

/// Mostly the first one, so that steps concern the same routes.
fn family() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0), 1 => 0..FAMILIES.len()]
}

fn update() -> impl Strategy<Value = Update> {
    let numbers = |max| prop::collection::vec(0..8_u8, 0..max);
    let hops = prop_oneof![4 => 1..5_u8, 1 => 20..60_u8];
    (family(), numbers(3), numbers(5), 0..2_u8, hops).prop_map(
        |(family, withdrawn, announced, path, hops)| Update {
            family,
            withdrawn,
            announced,
            path,
            hops,
        },
    )
}

fn refresh(omits: bool) -> impl Strategy<Value = Refresh> {
    // Number of first markers, and whether the last one follows.
    let markers = prop_oneof![
        3 => Just((2, true)),
        2 => Just((1, true)),
        1 => Just((0, true)),
        1 => Just((1, false)),
        1 => Just((2, false)),
    ];
    let omitted = prop_oneof![1 => Just(None), 3 => (0..8_usize).prop_map(Some)];
    (family(), markers, omitted).prop_map(move |(family, (begins, ends), omitted)| Refresh {
        family,
        begins,
        ends,
        omitted: omitted.filter(|_| omits),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(update(), 1..8).prop_map(Step::Updates),
        1 => Just(Step::Keepalives),
        1 => update().prop_map(Step::FromRouter),
        1 => (0..FAMILIES.len()).prop_map(Step::EndOfRib),
        3 => refresh(true).prop_map(Step::Refresh),
    ]
}

fn end() -> impl Strategy<Value = End> {
    (0..3, any::<bool>()).prop_map(|(kind, from_peer)| match kind {
        0 => End::Notification { from_peer },
        1 => End::Fin { from_peer },
        _ => End::Reset { from_peer },
    })
}

fn session() -> impl Strategy<Value = Session> {
    let steps = prop::collection::vec((prop_oneof![1..20_u16, 1..4_000_u16], step()), 0..6);
    let pause = prop_oneof![Just(100), 100..20_000_u16];
    (any::<bool>(), pause, steps, prop::option::of(end()))
        .prop_map(|(router_opens, pause, steps, end)| Session { router_opens, pause, steps, end })
}

fn peer() -> impl Strategy<Value = Peer> {
    let mss = prop_oneof![Just(1_460), Just(536), Just(256)];
    let codec = any::<(bool, bool)>()
        .prop_map(|(four_octet_as, add_path)| Codec { four_octet_as, add_path });
    let refresh = prop_oneof![3 => Just([true; 2]), 1 => any::<[bool; 2]>()];
    (codec, mss, refresh, any::<bool>(), prop::collection::vec(session(), 1..3)).prop_map(
        |(codec, mss, refresh, same_ports, sessions)| Peer {
            codec,
            mss,
            refresh,
            same_ports,
            sessions,
        },
    )
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || 0..1_000_usize;
    let split = prop_oneof![Just(Split::Interfaces), Just(Split::Vlans), Just(Split::Files)];
    let second = 1_000_000_000;
    let shift = prop_oneof![
        Just(Shift::Zero),
        prop::sample::select(vec![5_000_000, 10 * second, 3_600 * second, DAY, 79 * 365 * DAY])
            .prop_flat_map(|by| prop_oneof![Just(Shift::By(by)), Just(Shift::By(-by))]),
    ];
    prop_oneof![
        2 => (at(), 2..8_usize).prop_map(|(at, count)| Mutation::Merge { at, count }),
        2 => (at(), 2..5_usize).prop_map(|(at, count)| Mutation::MergeShort { at, count }),
        2 => split.prop_map(Mutation::Split),
        1 => (at(), any::<bool>())
            .prop_map(|(at, is_section)| Mutation::Repeat { at, is_section }),
        2 => (at(), at(), at(), refresh(false)).prop_map(|(peer, session, step, refresh)| {
            Mutation::Refresh { peer, session, step, refresh }
        }),
        2 => (at(), at()).prop_map(|(at, kept)| Mutation::Cut { at, kept }),
        1 => (1..1_500_usize).prop_map(|length| Mutation::Snap { length }),
        2 => at().prop_map(|at| Mutation::Lose { at }),
        2 => at().prop_map(|at| Mutation::LoseEnd { at }),
        2 => (prop_oneof![at(), 0..4_usize], shift)
            .prop_map(|(at, by)| Mutation::Shift { at, by }),
        1 => any::<bool>()
            .prop_map(|is_from_router| Mutation::OneDirection { is_from_router }),
        2 => prop_oneof![at(), 0..12_usize].prop_map(|at| Mutation::Pseudo { at }),
    ]
}

/// Collects as the command does, with an archive and a table of routes each minute.
fn collect_job(folder: &Path, files: &[PathBuf], set: impl FnOnce(&mut Settings)) -> Summary {
    let options = Options {
        interval: Span::from_secs(86_400),
        compression: Compression::None,
        ..Options::default()
    };
    let mut pipeline = settings();
    set(&mut pipeline);
    let settings = job::Settings {
        pipeline,
        archive: Some((folder.to_owned(), options)),
        routes: true,
        snapshots: Span::from_secs(60),
        ..job::Settings::default()
    };
    let source = Source::Captures(Captures::open(files, false, false).unwrap());
    job::packets(settings, vec![source], &AtomicBool::new(false)).unwrap()
}

/// The files of an archive whose name starts with `kind`, with their names.
fn files_of(folder: &Path, kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files.extend(files_of(&path, kind));
        } else if name.starts_with(kind) {
            files.push((name, std::fs::read(path).unwrap()));
        }
    }
    files.sort();
    files
}

/// The records of all files of an archive.
fn archived(folder: &Path) -> Vec<u8> {
    files_of(folder, "updates.").into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn by_peer(messages: &BTreeMap<mrt::Ends, Vec<Timed>>) -> BTreeMap<IpAddr, Vec<Timed>> {
    messages.iter().map(|((peer, _), messages)| (*peer, messages.clone())).collect()
}

macro_rules! equal {
    ($one:expr, $other:expr, $what:expr) => {
        let (one, other) = (&$one, &$other);
        if one != other {
            return Err(format!("{}: {one:?} is not {other:?}", $what));
        }
    };
}

/// Compares the result of mutations with the truth of the sessions without them.
fn check(peers: &[Peer], mutations: &[Mutation]) -> Result<(), String> {
    let truth = script::capture(peers).truth;
    let mut rewritten = peers.to_vec();
    for mutation in mutations {
        mutation.rewrite(&mut rewritten);
    }
    let good = script::capture(&rewritten);
    equal!(good.truth.routes, truth.routes, "a route refresh changes no route");
    let mut clones = Clones::new(&good.original);
    let mut ordered: Vec<_> = mutations.iter().collect();
    ordered.sort_by_key(|mutation| mutation.order());
    for mutation in ordered {
        if !clones.damaged.packets.is_empty() {
            mutation.apply(&mut clones);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let files = clones.write(folder.path());
    let (outcome, mut model) = collect_with(&files, settings(), Model::new(&good.meaning));
    equal!(outcome.troubles, Vec::<String>::new(), "problems of inputs");
    equal!(model.invented, Vec::<Vec<u8>>::new(), "UPDATEs that no peer sent");
    judge(&expect(&good.original, &clones.damaged), &outcome)?;
    // Without the OPENs the encoding is inferred, which the account states.
    let opens = 2 * peers.iter().map(|peer| peer.sessions.len()).sum::<usize>();
    if model.opens == opens {
        equal!(model.difference(), None, "routes after the archived messages");
    }
    equal!(model.is_disordered, false, "an OPEN follows the end of the session before");
    gap_times(&clones, &model)?;
    for (peer, (ups, downs)) in &model.states {
        let most = truth.states[peer];
        if *ups > most.0 || *downs > most.1 {
            return Err(format!("{peer}: {ups} starts and {downs} ends of sessions, not {most:?}"));
        }
    }
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).unwrap();
    let summary = collect_job(&archive, &files, |_| {});
    if clones.effect < Effect::Stated {
        unharmed(&good, &clones, &outcome, &model)?;
        equal!(summary.missing(), Vec::<String>::new(), "missing");
    }
    equal!(summary.implausible_times, clones.times().1, "implausible times");
    tables(&archive, &clones)?;
    one_direction(&clones, &files)?;
    accounted(&archive, &outcome, &summary)
}

/// There is one table for each minute of the capture, or of the messages that were captured.
fn tables(archive: &Path, clones: &Clones) -> Result<(), String> {
    let (times, _) = clones.times();
    // A step of the clock that other packets confirm has one table.
    let is_step = times.windows(2).any(|pair| pair[1] - pair[0].min(pair[1]) > 3_600_000_000_000);
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(()) };
    if is_step || !times.is_sorted() {
        return Ok(());
    }
    let name = |minute: u64| {
        let clock = minute % 1_440;
        format!("bview.20231114.{:02}{:02}", clock / 60, clock % 60)
    };
    let minute = 60_000_000_000;
    let expected: Vec<_> = (first / minute + 1..=last / minute).map(name).collect();
    let found: Vec<_> = files_of(archive, "bview.").into_iter().map(|(name, _)| name).collect();
    if clones.effect < Effect::Stated {
        equal!(found, expected, "tables");
    }
    if !expected.ends_with(&found) {
        return Err(format!("tables {found:?} of {expected:?}"));
    }
    Ok(())
}

/// Without a configured router, an archive of the router's direction is not complete.
fn one_direction(clones: &Clones, files: &[PathBuf]) -> Result<(), String> {
    let Some(only) = clones.only else { return Ok(()) };
    let folder = tempfile::tempdir().unwrap();
    let summary = collect_job(folder.path(), files, |settings| settings.sessions.routers.clear());
    let (peerings, missing) = (&summary.status.peerings, summary.missing().join(", "));
    if peerings.is_empty() {
        return Ok(());
    }
    if only == 1 && missing.is_empty() {
        return Err(format!("complete without messages of a peer: {peerings:?}"));
    }
    let archived = mrt::messages(&archived(folder.path()));
    let has_routes = archived.values().flatten().any(|(_, bytes)| bytes[18] == 2);
    let is_router = |(peer, _): &mrt::Ends| peer.to_string() == ROUTER;
    let names_option = missing.contains("--router ADDRESS");
    let is_unstated = has_routes && peerings.len() == 1 && !names_option;
    if is_unstated || archived.keys().any(is_router) && missing.is_empty() {
        return Err(format!("one direction of {peerings:?}: {missing}"));
    }
    if peerings.len() > 1 && peerings.iter().any(|(of, ..)| of.local.to_string() != ROUTER) {
        return Err(format!("the common end is not the router: {peerings:?}"));
    }
    Ok(())
}

/// Nothing is missing, and each message has the time of the packet with its last byte.
fn unharmed(
    good: &Capture,
    clones: &Clones,
    outcome: &Outcome,
    model: &Model<'_>,
) -> Result<(), String> {
    let found = by_peer(&outcome.collected.from_peers);
    equal!(found, clones.messages(&good.original), "messages and their times");
    if clones.effect == Effect::Equal {
        equal!(found, good.truth.messages, "messages of the script");
    }
    // The last session of a peer has no end if that was not captured.
    let open = clones.without_end();
    let (mut states, mut routes) = (good.truth.states.clone(), model.routes.clone());
    for peer in &open {
        states.get_mut(peer).unwrap().1 -= 1;
    }
    routes.retain(|(peer, _), _| !open.contains(peer));
    equal!(model.states, states, "starts and ends of sessions");
    equal!(routes, good.truth.routes, "routes at the end");
    Ok(())
}

/// Each gap has the time of a lost or cut packet, and lies between the messages beside it.
fn gap_times(clones: &Clones, model: &Model<'_>) -> Result<(), String> {
    if clones.is_shifted {
        return Ok(());
    }
    let end = clones.damaged.packets.last().map_or(0, |packet| packet.time / 1_000);
    for (way, events) in &model.events {
        let harmed = clones.harmed.get(way).map(Vec::as_slice).unwrap_or_default();
        for (at, (gap, since, until)) in events.iter().enumerate() {
            let Some(cause) = gap else { continue };
            let is_message = |event: &&Dated| event.0.is_none();
            let before = events[..at].iter().rfind(is_message).map_or(0, |event| event.1);
            let after = events[at..].iter().find(is_message).map_or(end, |event| event.1);
            let is_in = |one: &&(u64, Harm)| (*since..=*until).contains(&(one.0 / 1_000));
            let within: Vec<_> = harmed.iter().filter(is_in).collect();
            let is_right = match cause {
                GapCause::Cut => within.iter().all(|(_, harm)| *harm != Harm::Lost),
                _ => within.iter().any(|(_, harm)| *harm != Harm::Cut),
            };
            // The time of lost bytes before the first captured one is unknown.
            let is_dated = !within.is_empty() && is_right || clones.middles.contains(way);
            if !is_dated || *since < before || *until > after {
                let bounds = (before, after);
                return Err(format!(
                    "{way:?}: {cause:?} {since} to {until} within {bounds:?}, harmed {harmed:?}"
                ));
            }
        }
    }
    Ok(())
}

/// The archive has the messages, and its account the gaps, of the events.
fn accounted(archive: &Path, outcome: &Outcome, summary: &Summary) -> Result<(), String> {
    equal!(summary.status.streams, outcome.statistics, "statistics of streams");
    let sorted = |bytes: &[u8]| {
        let mut messages = by_peer(&mrt::messages(bytes));
        for of in messages.values_mut() {
            of.sort();
        }
        messages
    };
    equal!(sorted(&archived(archive)), sorted(&outcome.archive), "the archive");
    let hours = summary.integrity["hours"].as_array().unwrap();
    let updates: u64 = hours.iter().map(|hour| hour["from_peer"]["update"].as_u64().unwrap()).sum();
    let from_peers = outcome.collected.from_peers.values().flatten();
    let is_update = |message: &&Timed| message.1[18] == 2;
    equal!(updates, from_peers.filter(is_update).count() as u64, "UPDATEs in the account");
    let gap = |output: &Output| if let Output::Gap(gap) = output { Some(*gap) } else { None };
    let gaps = outcome.collected.by.values().flatten().filter_map(gap);
    let mut gaps: Vec<_> = gaps.map(|gap| (gap.missing, gap.skipped)).collect();
    let ledger = archive.join(GAPS);
    let losses: Vec<Loss> =
        if ledger.exists() { read_ledger(&ledger).unwrap() } else { Vec::new() };
    let stated = losses.iter().filter_map(|loss| match loss {
        Loss::Stream { missing, skipped, cause, .. }
            if !["undecodable", "unconfirmed", "guessed"].contains(&&**cause) =>
        {
            Some((*missing, *skipped))
        }
        _ => None,
    });
    let mut stated: Vec<_> = stated.collect();
    stated.sort_unstable();
    gaps.sort_unstable();
    equal!(stated, gaps, "gaps in the account");
    let lost = summary.status.streams.missing_bytes + summary.status.streams.skipped_bytes;
    if (lost > 0 || !gaps.is_empty()) && summary.missing().is_empty() {
        return Err("the summary states no loss".to_owned());
    }
    Ok(())
}

/// An UPDATE without routes.
fn empty() -> Update {
    Update { family: 0, withdrawn: Vec::new(), announced: Vec::new(), path: 0, hops: 1 }
}

/// A peer whose sessions have these steps; the router ends each with a FIN.
fn peer_of(sessions: &[&[Step]]) -> Peer {
    let session = |steps: &&[Step]| Session {
        router_opens: false,
        pause: 100,
        steps: steps.iter().map(|step| (1, step.clone())).collect(),
        end: Some(End::Fin { from_peer: false }),
    };
    Peer {
        codec: Codec { four_octet_as: false, add_path: false },
        mss: 1_460,
        refresh: [true; 2],
        same_ports: true,
        sessions: sessions.iter().map(session).collect(),
    }
}

/// The router's KEEPALIVE is truncated, and the end of its connection is lost. The account then
/// attributes all missing bytes to the truncation.
#[test]
fn cut_gap_covers_lost_end() {
    let refresh = Refresh { family: 0, begins: 2, ends: true, omitted: None };
    let update = Step::Updates(vec![empty()]);
    let mut peer = peer_of(&[&[Step::Refresh(refresh)], &[update]]);
    peer.sessions[0].end = None;
    peer.sessions[1].end = None;
    check(&[peer], &[Mutation::Cut { at: 2, kept: 0 }, Mutation::LoseEnd { at: 0 }]).unwrap();
}

/// The peer's first OPEN is cut off, and the SYN of its next connection is lost.
#[test]
fn states_skipped_bytes_of_connection_without_syn() {
    let refresh = Refresh { family: 0, begins: 2, ends: true, omitted: None };
    let update = Step::Updates(vec![empty()]);
    let first = [update.clone(), Step::FromRouter(empty()), Step::Refresh(refresh)];
    let peer = peer_of(&[&first, &[update.clone(), update]]);
    check(&[peer], &[Mutation::Lose { at: 22 }, Mutation::Cut { at: 0, kept: 0 }]).unwrap();
}

/// Each packet of a capture is merged with the next ones of its direction, with both directions or
/// one captured, and with a router that is not configured.
#[test]
fn merges_short_segments_with_sum_of_first() {
    let update = |number| Update { announced: vec![number], path: 1, ..empty() };
    let steps: Vec<_> = (0..4)
        .flat_map(|number| {
            let of_router = Step::FromRouter(update(number + 4));
            [Step::Updates(vec![update(number)]), of_router.clone(), of_router, Step::Keepalives]
        })
        .collect();
    let peers = [peer_of(&[&steps])];
    let packets = script::capture(&peers).original.packets;
    let mut merged = 0;
    for at in 0..packets.len() {
        let merge = Mutation::MergeShort { at, count: 2 + at % 3 };
        let mut clones = Clones::new(&script::capture(&peers).original);
        merge.apply(&mut clones);
        if clones.damaged.packets.len() == packets.len() {
            continue;
        }
        merged += 1;
        let one = |is_from_router| vec![merge.clone(), Mutation::OneDirection { is_from_router }];
        for mutations in [vec![merge.clone()], one(false), one(true)] {
            check(&peers, &mutations).unwrap_or_else(|why| panic!("{mutations:?}: {why}"));
        }
    }
    assert!(merged > 10, "{merged}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(seeds(128).end as u32))]

    #[test]
    fn mutations_change_nothing_that_is_not_stated(
        peers in prop::collection::vec(peer(), 1..4),
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        check(&peers, &mutations).map_err(TestCaseError::fail)?;
    }
}
