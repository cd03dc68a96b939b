//! The simple network compared with the full one.

use proptest::prelude::*;

use super::*;
use crate::fifo::{Data, Event, FifoLink, FifoNetwork, Towards};

/// Arrival times of packets at the end of a line, in the full fabric.
fn by_fabric(links: &[LinkConfig], sends: &[(u64, u32)]) -> Vec<(u32, Time)> {
    let mut fabric = line(links);
    let mut outputs = Vec::new();
    for (body, (at, bytes)) in sends.iter().enumerate() {
        let at = Time::from_nanos(*at);
        while let Some(wake) = fabric.next_wake().filter(|wake| *wake <= at) {
            fabric.advance(wake);
        }
        let packet = packet(body as u32, *bytes, links.len());
        fabric.inject(at, IfaceId(0), packet);
        outputs.extend(drain(&mut fabric));
    }
    outputs.extend(finish(&mut fabric));
    deliveries(&outputs)
}

/// Arrival times in the simple network.
fn by_fifo(links: &[LinkConfig], sends: &[(u64, u32)]) -> Vec<(u32, Time)> {
    let lean = links.iter().flat_map(|config| {
        let Rate::Constant(rate) = config.rate else { panic!("all have a rate") };
        [FifoLink { rate, delay: config.delay }; 2]
    });
    let lean: Vec<FifoLink> = lean.collect();
    let mut net: FifoNetwork<u32> = FifoNetwork::try_new(&lean, Data::Fluid).unwrap();
    let data = Data::Packets { size: Bytes::new(1500) };
    let mut packets: FifoNetwork<u32> = FifoNetwork::try_new(&lean, data).unwrap();
    let path: Vec<u32> = (0..links.len() as u32).map(|link| 2 * link).collect();
    let mut logs = [&mut net, &mut packets].map(|net| {
        let session = net.add_session(&path).unwrap();
        for (token, (at, _)) in sends.iter().enumerate() {
            net.wake(Time::from_nanos(*at), token as u64);
        }
        let mut log = Vec::new();
        while let Some(event) = net.next(Time::from_nanos(u64::MAX / 2)) {
            let (hop, body) = match event {
                Event::Wake(token) => (0, token as u32),
                Event::Arrived { hop, message, .. } => (hop, message),
                _ => panic!("{event:?}"),
            };
            if usize::from(hop) == links.len() {
                log.push((body, net.now()));
            } else {
                let bytes = sends[body as usize].1 + OVERHEAD as u32;
                net.send(session, hop, Towards::Destination, bytes, body);
            }
        }
        log
    });
    let [fluid, packets] = &mut logs;
    // A fluid's links round each delay down, without carrying a remainder.
    let near = |(a, b): (&(u32, Time), &(u32, Time))| {
        a.0 == b.0 && a.1.as_nanos().abs_diff(b.1.as_nanos()) <= 2 * links.len() as u64
    };
    assert!(fluid.iter().zip(&*packets).all(near), "{fluid:?}\n{packets:?}");
    std::mem::take(packets)
}

proptest! {
    #[test]
    fn lean_and_full_network_give_the_same_arrivals(
        links in prop::collection::vec((1_000_003u64..1_000_000_007, 0u64..20_000_000), 1..6),
        gaps in prop::collection::vec((0u64..2_000_000, 1u32..1_462), 1..100),
    ) {
        let links: Vec<LinkConfig> = links
            .into_iter()
            .map(|(rate, delay)| LinkConfig {
                rate: Rate::Constant(Bandwidth::from_bits_per_sec(rate)),
                delay: Span::from_nanos(delay),
                mtu: Bytes::new(1500),
                queue: queue(crate::Discipline::DropTail, 100_000),
                ..Default::default()
            })
            .collect();
        let mut at = 0;
        let sends: Vec<(u64, u32)> = gaps
            .into_iter()
            .map(|(gap, bytes)| {
                at += gap;
                (at, bytes)
            })
            .collect();
        prop_assert_eq!(by_fifo(&links, &sends), by_fabric(&links, &sends));
    }
}
