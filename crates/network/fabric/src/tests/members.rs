//! Several fabrics that emulate one network together.

use super::*;
use crate::{Collapsed, Part, Sharing, Window};

const LAW: Collapsed = Collapsed { sharing: Sharing::RttMaxMin, window: Window::Off, acks: false };

/// Two fabrics of the same lab, each with separate flows over the same link.
fn pair() -> [Fabric<u32>; 2] {
    let links = [link("10 Mbit/s", "5 ms"), link("unlimited", "5 ms")];
    [0, 1].map(|sender| {
        let mut fabric = line_by(&links, Some(LAW));
        fabric.join(sender);
        fabric
    })
}

/// Forwards the notices of each fabric to the other.
fn tell(fabrics: &mut [Fabric<u32>; 2], now: Time) {
    for from in 0..2 {
        let notices: Vec<_> = fabrics[from].announced().into_iter().map(|a| a.notice).collect();
        fabrics[1 - from].apply_notices(now, &notices);
    }
}

fn send(fabric: &mut Fabric<u32>, at: Time, flow: u32, part: Part) {
    let bytes = if part == Part::Data { 1500 } else { 52 };
    fabric.inject(at, IfaceId(0), Packet { part, ..packet(flow, bytes, 2) });
}

fn share(fabric: &Fabric<u32>, flow: u32) -> u64 {
    let share = fabric.shares().find(|share| share.flow == flow).expect("it takes part");
    share.share.expect("its path has a limit").bits_per_sec()
}

#[test]
fn flows_of_different_members_share_a_link() {
    let mut fabrics = pair();
    send(&mut fabrics[0], ms(1), 1, Part::Data);
    tell(&mut fabrics, ms(2));
    assert_eq!(share(&fabrics[0], 1), 10_000_000);
    for flow in [2, 3] {
        send(&mut fabrics[1], ms(3), flow, Part::Data);
    }
    // A received notice affects the fabric's own flows at once.
    assert_eq!(share(&fabrics[1], 2), 3_333_333);
    assert_eq!(share(&fabrics[0], 1), 10_000_000);
    tell(&mut fabrics, ms(4));
    assert_eq!(share(&fabrics[0], 1), 3_333_333);
    let slower = link("1 Mbit/s", "5 ms");
    for fabric in &mut fabrics {
        fabric.configure(ms(5), LinkId(0), Direction::Up, slower.clone()).unwrap();
        assert_eq!(fabric.topology_changes(), 1);
    }
    assert_eq!((share(&fabrics[0], 1), share(&fabrics[1], 3)), (333_333, 333_333));
    let name = |number| sharing::FlowName { sender: 1, number };
    let ended = [0, 1].map(|number| sharing::Notice::Ended { flow: name(number) });
    fabrics[0].apply_notices(ms(6), &ended);
    assert_eq!(share(&fabrics[0], 1), 1_000_000);
}

#[test]
fn ignores_invalid_notices_of_other_senders() {
    let [mut fabric, _] = pair();
    let flow = |sender| sharing::FlowName { sender, number: 7 };
    let start = |sender, from| sharing::Notice::Started {
        flow: flow(sender),
        from: IfaceId(from),
        to: last_iface(2),
        hash: 0,
        windowed: true,
        most: None,
    };
    let rate = sharing::Notice::Rate { flow: flow(3), most: None };
    // Own flows, interfaces that do not exist, flows that never started.
    fabric.apply_notices(ms(1), &[start(0, 0), start(1, 4_000), rate, rate]);
    fabric.apply_notices(ms(1), &[sharing::Notice::Ended { flow: flow(9) }]);
    send(&mut fabric, ms(2), 1, Part::Data);
    assert_eq!(share(&fabric, 1), 10_000_000);
}

#[test]
fn a_lead_hands_packets_out_early_and_says_when_they_are_due() {
    let [mut fabric, mut plain] = pair();
    fabric.set_lead(ms(0), |iface| iface == last_iface(2), Span::from_millis(4));
    for fabric in [&mut fabric, &mut plain] {
        send(fabric, ms(1), 1, Part::Data);
    }
    let due = deliveries(&finish(&mut plain));
    fabric.advance(Time::from_nanos(due[0].1.as_nanos() - 4_000_000));
    assert_eq!(deliveries(&drain(&mut fabric)), due);
    // A path whose delay is shorter than the lead has no delay left.
    fabric.set_lead(ms(100), |iface| iface == last_iface(2), Span::from_secs(1));
    let (sent, bits) = (ms(200), 1538 * 8);
    send(&mut fabric, sent, 1, Part::Data);
    fabric.advance(sent + Span::from_nanos(bits * 100));
    let delivered = deliveries(&drain(&mut fabric));
    assert_eq!(delivered[0].1, sent + Span::from_nanos(bits * 100) + Span::from_millis(10));
}

#[test]
fn leads_may_change_while_packets_fly() {
    let [mut fabric, mut plain] = pair();
    let mut jittery = link("10 Mbit/s", "5 ms");
    let shape = crate::JitterShape::Uniform { spread: Span::from_millis(4) };
    jittery.jitter =
        Some(crate::Jitter { shape, correlation: base::Ratio::ZERO, keep_order: true });
    for (fabric, leads) in [(&mut fabric, true), (&mut plain, false)] {
        fabric.configure(ms(0), LinkId(1), Direction::Up, jittery.clone()).unwrap();
        for round in 0..60 {
            let lead = Span::from_millis([1, 7, 30, 0, 4, 12][round as usize % 6]);
            if leads && round % 5 == 0 {
                fabric.set_lead(ms(2 * round), |iface| iface == last_iface(2), lead);
            }
            send(fabric, ms(2 * round), 1, Part::Data);
            send(fabric, ms(2 * round), 2, Part::Data);
        }
    }
    let [early, due] = [&mut fabric, &mut plain].map(|fabric| {
        let mut all = deliveries(&finish(fabric));
        // Flows are returned in another order.
        all.sort_by_key(|(flow, at)| (*flow, *at));
        all
    });
    assert_eq!(due.len(), 120);
    assert_eq!(early, due);
}
