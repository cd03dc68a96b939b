use super::encapsulate::{erspan_2, packet, plain};
use super::*;

fn give(decapsulator: &mut Decapsulator, numbers: impl IntoIterator<Item = u32>) {
    let (from, to) = ends()[0];
    let inner = plain(&packet(from, to, 1, b"x"));
    for number in numbers {
        let data = plain(&erspan_2(4, number, &inner));
        decapsulator.segments(&frame(LinkType::ETHERNET, &data), &mut |_| {});
    }
}

fn lost(decapsulator: &mut Decapsulator) -> u64 {
    let mut packets = 0;
    decapsulator.losses(&mut |loss| packets += loss.packets);
    packets
}

#[test]
fn reports_loss_after_window() {
    let mut decapsulator = new();
    give(&mut decapsulator, (0..10).chain(13..20));
    assert_eq!(lost(&mut decapsulator), 0, "it may still come");
    give(&mut decapsulator, [11]);
    give(&mut decapsulator, 20..100);
    assert_eq!(lost(&mut decapsulator), 2);
    assert_eq!(lost(&mut decapsulator), 0);
    give(&mut decapsulator, [100, 102]);
    decapsulator.end(Time::ZERO, &mut |_| {});
    assert_eq!(lost(&mut decapsulator), 1);
    let tunnel = &decapsulator.tunnels()[0];
    assert_eq!((tunnel.lost, tunnel.late, tunnel.doubled, tunnel.restarts), (3, 1, 0, 0));
    assert_eq!(tunnel.ends.session, Some(4));
    assert_eq!(decapsulator.mirrors()[0].tunnel, Some(TunnelId(0)));
}

#[test]
fn handles_wrap_and_restart_of_numbers() {
    let mut decapsulator = new();
    let start = u32::MAX - 99;
    give(&mut decapsulator, (0..200).map(|i| start.wrapping_add(i)));
    give(&mut decapsulator, 50_000_000..50_000_010);
    decapsulator.end(Time::ZERO, &mut |_| {});
    assert_eq!(lost(&mut decapsulator), 0);
    assert_eq!(decapsulator.tunnels()[0].restarts, 1);
}

#[test]
fn counts_long_loss_exactly() {
    let mut decapsulator = new();
    give(&mut decapsulator, (0..5).chain(1_005..1_100));
    decapsulator.end(Time::ZERO, &mut |_| {});
    assert_eq!(lost(&mut decapsulator), 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Packets are lost, duplicated, and delayed by less than the window.
    #[test]
    fn counts_every_loss(fates in prop::collection::vec(0_u8..20, 200..400)) {
        let mut order: Vec<(u32, u32)> = Vec::new();
        let last = fates.len() as u32 - 1;
        let mut gone = 0;
        for (number, fate) in (0..).zip(&fates) {
            match fate {
                0 if number > 0 && number < last => gone += 1,
                1 if number > 0 && number < last => order.push((number + 30, number)),
                2 => order.extend([(number, number), (number + 9, number)]),
                _ => order.push((number, number)),
            }
        }
        order.sort_by_key(|(place, _)| *place);
        let mut decapsulator = new();
        give(&mut decapsulator, order.into_iter().map(|(_, number)| number + 7));
        decapsulator.end(Time::ZERO, &mut |_| {});
        prop_assert_eq!(lost(&mut decapsulator), gone);
    }
}
