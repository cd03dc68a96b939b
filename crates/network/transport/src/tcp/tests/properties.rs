use proptest::prelude::*;

use super::*;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Deliver),
        3 => Just(Fate::Drop),
        2 => (0u64..60).prop_map(|ms| Fate::Late(millis(ms))),
        1 => (0u64..60).prop_map(|ms| Fate::Twice(millis(ms))),
        1 => Just(Fate::Mark),
    ]
}

/// Invariants at every time.
fn check(pipe: &Pipe) {
    for (end, peer) in [(&pipe.client, &pipe.server), (&pipe.server, &pipe.client)] {
        assert!(end.acked() <= peer.received());
        end.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_arrives_once_and_in_order(
        fates in prop::collection::vec(fate(), 1..80),
        bytes in 1u64..400_000,
        back in 0u64..50_000,
        control in prop::sample::select(&Control::ALL),
        window in 3_000u64..200_000,
        ecn: bool,
        seed: u64,
        rate in prop::sample::select(&[0u64, 100, 2_000]),
    ) {
        let config = Config {
            control, ecn, receive_window: Bytes::new(window), ..reno()
        };
        // At first some data is delivered, and after a while all, so that no connection times out.
        let easy = vec![Fate::Deliver; 3 + fates.len() / 2];
        let fates = [fates, easy].concat();
        let (mut position, length) = (0_u64, fates.len() as u64);
        let mut rng = base::RandomStream::new(seed, "fates");
        let mut pipe = Pipe::new(&config, millis(15)).script(move |entry| {
            position += 1;
            let syn = entry.segment.flags.contains(Flags::SYN);
            if position > if syn { 4 } else { 4 * length } {
                return Fate::Deliver;
            }
            fates[rng.below(length) as usize]
        });
        pipe.set_nanos_per_byte(rate);
        pipe.inspect = check;
        pipe.client.write(bytes);
        pipe.server.write(back);
        pipe.client.finish();
        pipe.server.finish();
        pipe.run(Span::from_secs(4_000));
        prop_assert_eq!(pipe.server.received(), bytes);
        prop_assert_eq!(pipe.client.received(), back);
        prop_assert_eq!(pipe.client.ended(), Some(End::Finished));
        prop_assert_eq!(pipe.server.ended(), Some(End::Finished));
        prop_assert_eq!((pipe.client.acked(), pipe.server.acked()), (bytes, back));
        for end in [&pipe.client, &pipe.server] {
            prop_assert_eq!(end.statistics().in_flight, Bytes::ZERO);
            prop_assert_eq!(end.next_wake(), None);
        }
    }
}
