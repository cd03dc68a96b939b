//! All types of faults, compared with the oracle.

use std::sync::LazyLock;

use crate::collect::{GAP, Outcome, collect_damaged};
use crate::damage::{Damaged, Plan, damage};
use crate::encapsulate::{Carrier, Format};
use crate::judge::judge;
use crate::oracle::expect;
use crate::packet::{Original, read};
use crate::{data, readers, seeds};

/// ADD-PATH, messages of 16 kB, IPv6: short enough for many runs.
fn small() -> &'static Original {
    static SMALL: LazyLock<Original> =
        LazyLock::new(|| read(&data("pcap/addpath-extmsg-as4-v6-md5.pcap"), usize::MAX));
    &SMALL
}

fn tables() -> &'static Original {
    static TABLES: LazyLock<Original> =
        LazyLock::new(|| read(&data("pcap/full5x577737.pcap.zst"), 400));
    &TABLES
}

/// Runs a plan, and prints it after an error.
fn run(original: &Original, plan: &Plan) {
    run_as(original, plan, Carrier::Ethernet, Format::Pcap, 1);
}

fn run_as(original: &Original, plan: &Plan, carrier: Carrier, format: Format, parts: usize) {
    let damaged = damage(original, plan);
    let outcome = check(original, &damaged, carrier, format, parts)
        .unwrap_or_else(|why| panic!("{why}\n{plan:?} {carrier:?} {format:?} {parts}"));
    // Programs are slow, and their input is similar for all seeds.
    if plan.seed % 100 < 2 {
        readers::accept(&outcome.archive);
    }
}

fn check(
    original: &Original,
    damaged: &Damaged,
    carrier: Carrier,
    format: Format,
    parts: usize,
) -> Result<Outcome, String> {
    let outcome = collect_damaged(damaged, carrier, format, parts);
    let flipped = damaged.packets.iter().filter(|packet| packet.flipped.is_some()).count() as u64;
    let found = outcome.counters.bad_checksums + outcome.counters.malformed;
    if found != flipped {
        return Err(format!("{found} of {flipped} damaged segments were noticed"));
    }
    let numbered = matches!(carrier, Carrier::GreKey | Carrier::Erspan2 | Carrier::Erspan3);
    let packets = damaged.packets.len() as u64;
    let gaps = packets.saturating_sub(2) / u64::from(GAP - 1);
    let left_out = if numbered { gaps } else { 0 };
    if outcome.lost_in_tunnels != left_out {
        return Err(format!("{} lost in tunnels, not {left_out}", outcome.lost_in_tunnels));
    }
    judge(&expect(original, damaged), &outcome)?;
    Ok(outcome)
}

fn with_seeds(few: u64, plan: impl Fn(u64) -> Plan) {
    let (small, tables) = (small(), tables());
    for seed in seeds(few) {
        let side = [None, Some(0), Some(1)][seed as usize % 3];
        let plan = Plan { seed, side, ..plan(seed) };
        run(if seed % 2 == 0 { small } else { tables }, &plan);
    }
}

fn rate(seed: u64, rates: &[u64]) -> u64 {
    rates[(seed / 2) as usize % rates.len()]
}

const LOSS: [u64; 5] = [500, 2_000, 10_000, 25_000, 50_000];
const REORDER: [u64; 4] = [10_000, 30_000, 60_000, 100_000];

#[test]
fn without_damage() {
    with_seeds(3, |_| Plan::default());
}

#[test]
fn loss() {
    with_seeds(6, |seed| Plan { loss: rate(seed, &LOSS), ..Plan::default() });
}

#[test]
fn reordering() {
    with_seeds(6, |seed| Plan {
        reorder: rate(seed, &REORDER),
        distance: 1 + seed as usize % 24,
        ..Plan::default()
    });
}

/// Without a configured router and with handshakes in any order, the archive has the messages
/// of the neighbours.
#[test]
fn archives_table_of_neighbour_for_any_order() {
    for seed in seeds(8) {
        let plan = Plan { seed, reorder: 500_000, distance: 24, ..Plan::default() };
        let damaged = damage(tables(), &plan);
        let outcome = collect_damaged(&damaged, Carrier::Ethernet, Format::Pcap, 1);
        let updates = |messages: &Vec<(u64, Vec<u8>)>| {
            messages.iter().filter(|(_, bytes)| bytes[18] == 2).count()
        };
        let archived = &outcome.collected.from_peers;
        assert!(archived.len() >= 4, "{seed}: {:?}", archived.keys());
        for (peer, router) in archived.keys() {
            assert!(peer.to_string().ends_with(".2"), "{seed}: {peer} of {router}");
        }
        let all: usize = archived.values().map(updates).sum();
        assert!(all > 500, "{seed}: {all}");
    }
}

#[test]
fn loss_and_reordering() {
    with_seeds(6, |seed| Plan {
        loss: rate(seed, &LOSS),
        reorder: rate(seed, &REORDER),
        distance: 1 + seed as usize % 24,
        ..Plan::default()
    });
}

#[test]
fn duplicates_and_overlaps() {
    with_seeds(6, |seed| Plan {
        duplicate: 30_000,
        overlap: 100_000,
        loss: rate(seed, &[0, 10_000]),
        reorder: rate(seed, &[0, 50_000]),
        distance: 12,
        ..Plan::default()
    });
}

#[test]
fn retransmissions_that_differ() {
    with_seeds(6, |_| Plan { contradict: 100_000, duplicate: 20_000, ..Plan::default() });
}

#[test]
fn wrong_checksums() {
    with_seeds(6, |seed| Plan {
        wrong: rate(seed, &[5_000, 50_000]),
        reorder: rate(seed, &[0, 50_000]),
        distance: 8,
        ..Plan::default()
    });
}

#[test]
fn merged_segments() {
    let mut merged = 0;
    with_seeds(6, |seed| Plan {
        merge: rate(seed, &[100_000, 500_000, 1_000_000]),
        start: [0, 40][seed as usize % 2],
        ..Plan::default()
    });
    for plan in [100_000, 1_000_000].map(|merge| Plan { merge, ..Plan::default() }) {
        merged += damage(tables(), &plan).packets.iter().filter(|packet| packet.merged).count();
    }
    assert!(merged > 10, "{merged}");
}

#[test]
fn cut_packets() {
    with_seeds(6, |seed| Plan {
        snap: rate(seed, &[5_000, 50_000]),
        loss: rate(seed, &[0, 10_000]),
        ..Plan::default()
    });
}

#[test]
fn sequence_numbers_that_wrap() {
    with_seeds(6, |seed| Plan {
        wrap: true,
        loss: rate(seed, &[0, 20_000]),
        reorder: rate(seed, &[0, 50_000]),
        distance: 12,
        ..Plan::default()
    });
}

#[test]
fn lost_acknowledgments() {
    with_seeds(6, |seed| Plan {
        acknowledgment_loss: rate(seed, &[100_000, 900_000]),
        loss: rate(seed, &[0, 10_000]),
        ..Plan::default()
    });
}

#[test]
fn addresses_that_are_used_again() {
    with_seeds(6, |seed| Plan {
        again: Some([1, 10, 100][seed as usize / 2 % 3] * 1_000_000_000),
        loss: rate(seed, &[0, 10_000]),
        reorder: rate(seed, &[0, 50_000]),
        distance: 8,
        ..Plan::default()
    });
}

#[test]
fn the_middle_of_streams() {
    let (small, tables) = (small(), tables());
    let many = seeds(0).end > 0;
    for (original, step) in [(small, 37), (tables, 61)] {
        for start in (1..original.packets.len()).step_by(if many { 1 } else { step }) {
            let seed = start as u64;
            let side = [None, Some(0), Some(1)][start % 3];
            run(original, &Plan { seed, start, side, ..Plan::default() });
            let (reorder, distance) = (50_000, 8);
            run(original, &Plan { seed, start, reorder, distance, side, ..Plan::default() });
        }
    }
}

#[test]
fn everything_at_once() {
    with_seeds(12, |seed| Plan {
        loss: rate(seed, &LOSS),
        reorder: rate(seed, &REORDER),
        distance: 1 + seed as usize % 16,
        duplicate: 10_000,
        overlap: 20_000,
        wrong: 5_000,
        snap: 5_000,
        acknowledgment_loss: rate(seed, &[0, 300_000]),
        wrap: seed % 5 == 0,
        again: (seed % 7 == 0).then_some(2_000_000_000),
        start: if seed % 4 == 0 { seed as usize * 31 % 200 } else { 0 },
        ..Plan::default()
    });
}

#[test]
fn each_carrier_and_format() {
    let small = small();
    for (number, carrier) in Carrier::ALL.into_iter().enumerate() {
        for seed in seeds(1) {
            let format = Format::ALL[(number + seed as usize) % 4];
            let damage = Plan { seed, reorder: 20_000, distance: 8, ..Plan::default() };
            run_as(small, &damage, carrier, format, 1);
            let loss = 10_000;
            run_as(small, &Plan { loss, wrong: 10_000, ..damage }, carrier, format, 3);
        }
    }
}

/// Two routers' clones of the same addresses: each mirror has its own streams.
#[test]
fn two_mirrors() {
    let small = small();
    for seed in seeds(4) {
        let plan =
            |seed| Plan { seed, loss: 5_000, reorder: 20_000, distance: 8, ..Plan::default() };
        let mut both = damage(small, &plan(seed));
        let other = damage(small, &plan(seed + 1_000_000));
        let half = both.connections;
        both.initial.extend(other.initial.iter().map(|((c, side), i)| ((c + half, *side), *i)));
        both.packets.iter_mut().for_each(|packet| packet.mirror = 10);
        both.packets.extend(other.packets.into_iter().map(|mut packet| {
            packet.connection += half;
            packet.mirror = 20;
            packet.time += 300_000;
            packet
        }));
        both.packets.sort_by_key(|packet| packet.time);
        let carrier = if seed % 2 == 0 { Carrier::Vlan } else { Carrier::QinQ };
        let outcome = check(small, &both, carrier, Format::Pcap, 1);
        outcome.unwrap_or_else(|why| panic!("{why}\nseed {seed} {carrier:?}"));
    }
}
