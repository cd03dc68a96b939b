use proptest::prelude::*;

use base::{Bandwidth, Time};

use super::*;
use crate::{Lengths, PacedSender, Source};

fn stream(path: &str) -> RandomStream {
    RandomStream::new(7, path)
}

fn mean_of(sizes: &Sizes, draws: u32) -> f64 {
    let mut random = stream("sizes");
    let sum: f64 = (0..draws).map(|_| sizes.draw(&mut random) as f64).sum();
    sum / f64::from(draws)
}

fn table(points: &[(u64, u32)]) -> Result<SizeTable, Error> {
    SizeTable::try_new(points.iter().map(|&(size, share)| (Bytes::new(size), share)).collect())
}

#[test]
fn drawn_means_are_the_means() {
    let pareto = |shape_milli, limit: Option<u64>| Sizes::Pareto {
        mean: Bytes::new(100_000),
        shape_milli,
        limit: limit.map(Bytes::new),
    };
    let points = [(100, 250_000_000), (1_000, 250_000_000), (2_000, 500_000_000), (9_000, WHOLE)];
    let cdf = Sizes::Table(Arc::new(table(&points).unwrap()));
    // 100 with 1/4; nothing between 100 and 1000; uniform up to 2000 with 1/4, to 9000 with 1/2.
    assert!((cdf.mean() - (25.0 + 1_500.0 / 4.0 + 5_500.0 / 2.0)).abs() < 1e-9);
    // Each tolerance is four standard errors or more.
    for (sizes, tolerance) in [
        (Sizes::Fixed(Bytes::new(5_000)), 1e-12),
        (Sizes::Exponential(Bytes::new(50_000)), 0.01),
        (pareto(3_000, None), 0.01),
        (pareto(1_200, Some(10_000_000)), 0.04),
        (pareto(1_200, Some(10_000)), 1e-9),
        (cdf, 0.01),
    ] {
        let (drawn, mean) = (mean_of(&sizes, 200_000), sizes.mean());
        assert!((drawn / mean - 1.0).abs() <= tolerance, "{sizes:?}: {drawn} {mean}");
    }
}

#[test]
fn paretos_tail_follows_its_index() {
    let sizes = Sizes::Pareto { mean: Bytes::new(60_000), shape_milli: 1_200, limit: None };
    let mut random = stream("tail");
    let draws: Vec<u64> = (0..200_000).map(|_| sizes.draw(&mut random)).collect();
    // The smallest is 60 kB * 0.2 / 1.2; Pr(X > 10 * smallest) = 10^-1.2.
    assert!(draws.iter().all(|&size| size >= 10_000));
    let share = |above: u64| draws.iter().filter(|&&size| size > above).count() as f64 / 2e5;
    assert!((share(100_000) / 10f64.powf(-1.2) - 1.0).abs() < 0.04, "{}", share(100_000));
    assert!((share(1_000_000) / 100f64.powf(-1.2) - 1.0).abs() < 0.15, "{}", share(1_000_000));
}

#[test]
fn a_table_interpolates() {
    let table = table(&[(1_000, 0), (2_000, 500_000_000), (10_000, WHOLE)]).unwrap();
    let mut random = stream("table");
    let draws: Vec<u64> = (0..100_000).map(|_| table.draw(&mut random)).collect();
    for (size, share) in [(1_000, 0.0), (1_500, 0.25), (2_000, 0.5), (6_000, 0.75), (10_000, 1.0)] {
        let below = draws.iter().filter(|&&draw| draw <= size).count() as f64 / 1e5;
        assert!((below - share).abs() < 0.007, "{size}: {below}");
    }
}

#[test]
fn rejects_invalid_size_tables() {
    assert_eq!(table(&[]), Err(Error::Empty));
    assert_eq!(table(&[(5, 1), (5, WHOLE)]), Err(Error::SizeNotRising { entry: 2 }));
    assert_eq!(table(&[(5, 9), (6, 8), (7, WHOLE)]), Err(Error::ShareFalls { entry: 2 }));
    let short = table(&[(5, 990_000_000)]).unwrap_err();
    assert_eq!(short.to_string(), "the last cumulative share is 99 %, not 100 %");
    assert_eq!(table(&[(0, WHOLE)]), Err(Error::NoSize));
    assert!(table(&[(1, WHOLE)]).is_ok());
}

#[test]
fn rejects_invalid_datagram_traces() {
    let trace = |datagrams: &[(u64, u64)], period| {
        let datagrams = datagrams.iter().map(|&(at, b)| (Span::from_nanos(at), Bytes::new(b)));
        DatagramTrace::try_new(datagrams.collect(), Span::from_nanos(period))
    };
    assert_eq!(trace(&[], 1), Err(Error::Empty));
    assert_eq!(trace(&[(0, 0)], 1), Err(Error::DatagramSize { entry: 1, size: 0 }));
    assert_eq!(trace(&[(0, 65_508)], 1), Err(Error::DatagramSize { entry: 1, size: 65_508 }));
    assert_eq!(trace(&[(5, 9), (4, 9)], 10), Err(Error::MomentFalls { entry: 2 }));
    let (period, last) = (Span::from_nanos(8), Span::from_nanos(9));
    assert_eq!(trace(&[(9, 9)], 8), Err(Error::PeriodTooShort { period, last }));
    assert!(trace(&[(0, 9)], 0).is_err() && trace(&[(0, 9)], 1).is_ok());
}

#[test]
fn gaps_are_exponential() {
    let mut random = stream("gaps");
    let mean = Span::from_millis(10);
    let poisson = Arrivals::Poisson(mean);
    let gaps: Vec<f64> =
        (0..100_000).map(|_| poisson.gap(&mut random).as_secs_f64() / 0.01).collect();
    let average = gaps.iter().sum::<f64>() / 1e5;
    let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / 1e5;
    assert!((average - 1.0).abs() < 0.013 && (square - 2.0).abs() < 0.06, "{average} {square}");
    for x in [0.1, 0.5, 1.0, 2.0, 4.0_f64] {
        let above = gaps.iter().filter(|gap| **gap > x).count() as f64 / 1e5;
        assert!((above - (-x).exp()).abs() < 0.007, "{x}: {above}");
    }
    let closed = Arrivals::Closed(Think::Fixed(mean));
    assert!(closed.is_closed_loop() && !poisson.is_closed_loop());
    assert_eq!((closed.first(&mut random), closed.gap(&mut random)), (Span::ZERO, mean));
    let think = Think::Exponential(mean);
    let sum: f64 = (0..100_000).map(|_| think.draw(&mut random).as_secs_f64()).sum();
    assert!((sum / 1e5 / 0.01 - 1.0).abs() < 0.013, "{sum}");
}

fn source(pattern: Pattern, rate: u64, packet: u64) -> Source {
    let rate = Bandwidth::from_bits_per_sec(rate);
    Source::new(pattern, rate, Bytes::new(packet), Time::from_nanos(1_000), stream("source"))
}

/// The datagrams of a source up to a total payload.
fn limited(source: Source, size: u64) -> impl Iterator<Item = (Time, u32)> {
    let mut sender = PacedSender::new(source, Some(Bytes::new(size)), None, Time::ZERO);
    std::iter::from_fn(move || {
        let at = sender.next_wake()?;
        let (count, payload) = sender.due(at, 1)?;
        sender.on_sent(at, count, Span::ZERO);
        Some((at, payload))
    })
}

/// Datagrams sent within `secs` seconds of the start.
fn sent_in(source: Source, secs: u64) -> u64 {
    let end = Time::from_nanos(1_000) + Span::from_secs(secs);
    source.take_while(|(at, _)| *at < end).count() as u64
}

#[test]
fn a_constant_rate_is_exact() {
    // 3 datagrams of 64 B last 5.12 ns each: no moment is ever off by a nanosecond.
    let fast = source(Pattern::Constant, 100_000_000_000, 64);
    let times: Vec<u64> = fast.take(26).map(|(at, _)| at.as_nanos() - 1_000).collect();
    assert_eq!(times[..5], [0, 6, 11, 16, 21]);
    assert_eq!(times[25], 128);
    // 7 Mbit/s with 1,000 B: 875 datagrams/s without end.
    assert_eq!(sent_in(source(Pattern::Constant, 7_000_000, 1_000), 1_000), 875_000);
}

#[test]
fn a_total_ends_a_source() {
    let all: Vec<_> = limited(source(Pattern::Constant, 8_000, 1_000), 2_500).collect();
    let second = |n: u64| Time::from_nanos(1_000) + Span::from_secs(n);
    assert_eq!(all, [(second(0), 1_000), (second(1), 1_000), (second(2), 500)]);
    assert_eq!(limited(source(Pattern::Constant, 8_000, 1_000), 0).next(), None);
    assert_eq!(source(Pattern::Constant, 0, 1_000).next(), None);
    assert_eq!(source(Pattern::Poisson, 8_000, 0).next(), None);
}

#[test]
fn a_poisson_source_counts_like_one() {
    let mut source = source(Pattern::Poisson, 8_000_000, 1_000);
    let mut counts = vec![0u32; 2_000];
    let window = 10_000_000;
    for (at, _) in source.by_ref() {
        let Some(count) = counts.get_mut(((at.as_nanos() - 1_000) / window) as usize) else {
            break;
        };
        *count += 1;
    }
    // 10 in a window on average, and as much variance.
    let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / 2e3;
    let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / 2e3;
    assert!((mean - 10.0).abs() < 0.3 && (variance / mean - 1.0).abs() < 0.15, "{mean} {variance}");
}

#[test]
fn on_off_has_the_rate_of_its_share() {
    let (on, off) = (Span::from_millis(100), Span::from_millis(300));
    let pattern = |lengths| Pattern::OnOff(OnOff { on, off, lengths });
    let constant = pattern(Lengths::Constant);
    // 1,000 datagrams/s in on periods, a quarter of the time, for 100 s.
    assert_eq!(sent_in(source(constant.clone(), 8_000_000, 1_000), 100), 25_000);
    let times: Vec<u64> = source(constant, 80_000, 1_000)
        .take(3)
        .map(|(at, _)| (at.as_nanos() - 1_000) / 1_000_000)
        .collect();
    assert_eq!(times, [0, 400, 800], "one datagram in each on period");
    let random = pattern(Lengths::Exponential);
    let sent = sent_in(source(random, 8_000_000, 1_000), 2_000) as f64;
    assert!((sent / 500_000.0 - 1.0).abs() < 0.06, "{sent}");
    let pareto = pattern(Lengths::Pareto { shape_milli: 1_900 });
    let sent = sent_in(source(pareto, 8_000_000, 1_000), 2_000) as f64;
    assert!((sent / 500_000.0 - 1.0).abs() < 0.1, "{sent}");
    let never = Pattern::OnOff(OnOff { on: Span::ZERO, off, lengths: Lengths::Exponential });
    assert_eq!(source(never, 8_000_000, 1_000).next(), None);
}

#[test]
fn a_trace_repeats() {
    let ms = Span::from_millis;
    let datagrams = vec![(ms(0), Bytes::new(100)), (ms(3), Bytes::new(200))];
    let trace = Arc::new(DatagramTrace::try_new(datagrams, ms(10)).unwrap());
    let all: Vec<_> = limited(source(Pattern::Trace(trace), 0, 0), 550)
        .map(|(at, payload)| ((at.as_nanos() - 1_000) / 1_000_000, payload))
        .collect();
    assert_eq!(all, [(0, 100), (3, 200), (10, 100), (13, 150)]);
}

proptest! {
    #[test]
    fn sources_go_forward_and_send_what_they_should(
        rate in 1u64..200_000_000_000,
        packet in 1u64..=65_507,
        size in 1u64..3_000_000,
        kind in 0..5,
        on in 1u64..1_000_000_000,
        off in 0u64..1_000_000_000,
    ) {
        let (on, off) = (Span::from_nanos(on), Span::from_nanos(off));
        let pattern = match kind {
            0 => Pattern::Constant,
            1 => Pattern::Poisson,
            2 => Pattern::OnOff(OnOff { on, off, lengths: Lengths::Constant }),
            3 => Pattern::OnOff(OnOff { on, off, lengths: Lengths::Exponential }),
            _ => {
                Pattern::OnOff(OnOff { on, off, lengths: Lengths::Pareto { shape_milli: 1_500 } })
            }
        };
        let mut last = Time::ZERO;
        let mut sent = 0;
        for (at, payload) in limited(source(pattern, rate, packet), size).take(20) {
            prop_assert!(at >= last && payload > 0 && u64::from(payload) <= packet);
            last = at;
            sent += u64::from(payload);
        }
        let far = last > Time::from_nanos(u64::MAX / 2);
        prop_assert!(sent == size || sent == 20 * packet || far);
    }

    #[test]
    fn the_nth_datagram_is_never_off(
        rate in 1u64..1 << 40,
        packet in 1u64..=65_507,
        n in 0usize..2_000,
    ) {
        let at = source(Pattern::Constant, rate, packet).nth(n);
        let nanos = n as u128 * u128::from(packet) * 8_000_000_000;
        let exact = nanos.div_ceil(u128::from(rate)) + 1_000;
        match at {
            Some((at, _)) => prop_assert_eq!(u128::from(at.as_nanos()), exact),
            None => prop_assert!(exact >= u128::from(u64::MAX)),
        }
    }
}
