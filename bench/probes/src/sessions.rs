//! Many sessions on a large network: the fabric's lean network compared with a plain loop over a
//! binary heap with one event for each packet and link.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use base::{Bandwidth, Bytes, RandomStream, Span, Time};
use fabric::fifo::{Data, Event, FifoLink, FifoNetwork, Towards};
use topology::generate::{Generator as _, TransitStub};

use crate::Outcome;

/// Bytes of a data packet, and of a control packet, on the wire.
const SIZES: [u64; 2] = [2_000, 64];

/// Data rate of each session.
const RATE: u64 = 8_000_000;

/// Sessions over a transit-stub network, each with separate hosts.
struct Load {
    links: Vec<FifoLink>,
    paths: Vec<Vec<u32>>,
    /// Start time of each session in ns.
    starts: Vec<u64>,
}

impl Load {
    /// Paths as in the SLBN paper: shortest paths by hops between random stub routers, with starts
    /// within 100 ms.
    fn draw(routers: u32, sessions: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let shape = if routers > 1_100 { TransitStub::large() } else { TransitStub::medium() };
        let graph = shape.generate(1)?;
        let mut links = Vec::new();
        let mut near = vec![Vec::new(); graph.nodes.len()];
        for link in &graph.links {
            let rate = link.spec.rate.unwrap_or(Bandwidth::from_mbits_per_sec(1_000));
            let delay = link.spec.delay.unwrap_or(Span::from_millis(1));
            let [a, b] = link.ends.map(|end| end as usize);
            near[a].push((b, links.len() as u32));
            near[b].push((a, links.len() as u32 + 1));
            links.extend([FifoLink { rate, delay }; 2]);
        }
        let stubs: Vec<usize> = (0..graph.nodes.len())
            .filter(|node| graph.nodes[*node].name.starts_with('s'))
            .collect();
        let mut rng = RandomStream::new(1, "bench/sessions");
        let mut ends: Vec<[usize; 2]> = (0..sessions)
            .map(|_| [(); 2].map(|()| stubs[rng.below(stubs.len() as u64) as usize]))
            .collect();
        ends.sort_unstable();
        let access =
            FifoLink { rate: Bandwidth::from_mbits_per_sec(100), delay: Span::from_micros(1) };
        let mut paths = Vec::new();
        let mut tree = (usize::MAX, Vec::new());
        for [from, to] in ends {
            if tree.0 != from {
                tree = (from, spread(&near, from));
            }
            let mut path = vec![links.len() as u32 + 2];
            let mut node = to;
            while node != from {
                let (before, link) = tree.1[node];
                path.push(link);
                node = before;
            }
            path[0] = links.len() as u32 + 2;
            path.push(links.len() as u32);
            path.reverse();
            links.extend([access; 4]);
            paths.push(path);
        }
        let starts = paths.iter().map(|_| rng.below(100_000_000)).collect();
        Ok(Self { links, paths, starts })
    }
}

/// For each node, its predecessor in a breadth-first search.
fn spread(near: &[Vec<(usize, u32)>], from: usize) -> Vec<(usize, u32)> {
    let mut tree = vec![(usize::MAX, 0); near.len()];
    tree[from] = (from, 0);
    let mut open = VecDeque::from([from]);
    while let Some(node) = open.pop_front() {
        for (next, link) in &near[node] {
            if tree[*next].0 == usize::MAX {
                tree[*next] = (node, *link);
                open.push_back(*next);
            }
        }
    }
    tree
}

/// Runs `engine` and prints its costs.
pub(crate) fn run(engine: &str, routers: &str, sessions: &str, millis: &str) -> Outcome {
    let load = Load::draw(routers.parse()?, sessions.parse()?)?;
    let until = millis.parse::<u64>()? * 1_000_000;
    let started = Instant::now();
    let (events, hops) = match engine {
        "fifo" => lean(&load, until)?,
        "heap" => heap(&load, until),
        _ => return Err("the engine must be fifo or heap".into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    crate::print(&format!(
        "{{\"engine\": \"{engine}\", \"sessions\": {}, \"directions\": {}, \"events\": {events}, \
         \"packet_hops\": {hops}, \"seconds\": {seconds:.3}, \"events_per_s\": {:.0}}}",
        load.paths.len(),
        load.links.len(),
        events as f64 / seconds,
    ));
    Ok(())
}

/// Data at a constant rate, and one control packet in a loop for each session.
fn lean(load: &Load, until: u64) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let size = Bytes::new(SIZES[0]);
    let mut net: FifoNetwork<()> = FifoNetwork::try_new(&load.links, Data::Packets { size })?;
    let control = SIZES[1] as u32;
    for (path, start) in load.paths.iter().zip(&load.starts) {
        let session = net.add_session(path)?;
        net.wake(Time::from_nanos(*start), session.into());
    }
    while let Some(event) = net.next(Time::from_nanos(until)) {
        match event {
            Event::Wake(session) => {
                let session = session as u32;
                net.set_rate(session, Bandwidth::from_bits_per_sec(RATE));
                net.send(session, 0, Towards::Destination, control, ());
            }
            Event::Arrived { session, hop, towards: Towards::Destination, .. } => {
                let hops = load.paths[session as usize].len() as u8;
                let (hop, towards) = if hop < hops {
                    (hop, Towards::Destination)
                } else {
                    (hop - 1, Towards::Source)
                };
                net.send(session, hop, towards, control, ());
            }
            Event::Arrived { session, hop, .. } => {
                let (hop, towards) = match hop.checked_sub(1) {
                    Some(hop) => (hop, Towards::Source),
                    None => (0, Towards::Destination),
                };
                net.send(session, hop, towards, control, ());
            }
            Event::Sent { .. } | Event::Delivered { .. } => {}
        }
    }
    Ok((net.events(), net.packet_hops()))
}

/// An event: time, sequence, session, hop (there and back), whether the packet is control.
type Entry = Reverse<(u64, u64, u32, u8, bool)>;

/// The same with an event in a heap for each packet and link.
fn heap(load: &Load, until: u64) -> (u64, u64) {
    let mut free = vec![0u64; load.links.len()];
    let mut heap: BinaryHeap<Entry> = BinaryHeap::new();
    let (mut events, mut hops, mut sequence) = (0, 0, 0);
    let spacing = SIZES[0] * 8_000_000_000 / RATE;
    for (session, start) in load.starts.iter().enumerate() {
        for control in [false, true] {
            sequence += 1;
            heap.push(Reverse((*start, sequence, session as u32, 0, control)));
        }
    }
    while let Some(Reverse((at, _, session, hop, control))) = heap.pop() {
        if at > until {
            break;
        }
        events += 1;
        let path = &load.paths[session as usize];
        let mut push = |at, hop| {
            sequence += 1;
            heap.push(Reverse((at, sequence, session, hop, control)));
        };
        if hop == 0 && !control {
            push(at + spacing, 0);
        }
        let place = usize::from(hop);
        let link = match path.get(place) {
            Some(link) => *link,
            None if control => path[2 * path.len() - 1 - place] ^ 1,
            None => continue,
        };
        let properties = &load.links[link as usize];
        let work = SIZES[usize::from(control)] * 8_000_000_000;
        let busy = &mut free[link as usize];
        *busy = at.max(*busy) + work / properties.rate.bits_per_sec();
        hops += 1;
        let around = if control { 2 * path.len() } else { path.len() };
        let next = (place + 1) % around;
        if control || next > 0 {
            push(*busy + properties.delay.as_nanos(), next as u8);
        }
    }
    (events, hops)
}
