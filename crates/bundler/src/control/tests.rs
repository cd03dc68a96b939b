use self::path::{Bundle, Cross, Offer, Path, Trace};
use super::Control;

mod path;

const RATES: [f64; 4] = [12.0, 48.0, 96.0, 1_000.0];
const TRIPS: [f64; 4] = [10.0, 50.0, 100.0, 300.0];

/// One backlogged bundle for a minute.
fn alone(control: Control, path: &Path) -> Trace {
    let capacity = path.capacity[0].1;
    path.run(vec![Bundle::new(control.build(), 0.9 * capacity)], 60.0)
}

/// Two bundles at 96 Mbit/s, 50 ms: one that has it all, and one that comes 10 s later.
fn two(control: Control) -> Trace {
    let first = Bundle::new(control.build(), 90e6);
    let second = Bundle { from: 10.0, ..Bundle::new(control.build(), 10e6) };
    Path::new(96.0, 50.0).run(vec![first, second], 80.0)
}

fn in_steps() -> Path {
    let capacity = vec![(0.0, 96e6), (20.0, 24e6), (40.0, 96e6)];
    Path { capacity, ..Path::new(96.0, 50.0) }
}

/// For how many seconds after the capacity fell to a quarter the queue stays above 10 ms, and after
/// it rose again not 90 % of it are used.
fn recovery(control: Control) -> (f64, f64) {
    let trace = alone(control, &in_steps());
    let short = trace.first(20.0, |trace, from, to| trace.longest(from, to) < 12.0);
    let full = trace.first(40.0, |trace, from, to| trace.utilisation(from, to) > 0.9);
    (short, full)
}

fn table_of(control: Control) -> String {
    let mut rows = vec![control.to_string()];
    rows.extend(RATES.map(|mbits| steady_row(control, mbits)));
    let (short, full) = recovery(control);
    rows.push(format!("96 -> 24: queue < 12 ms after {short:.2} s; -> 96: 90 % after {full:.2} s"));
    for rebased in [true, false] {
        let rtt = vec![(0.0, 0.05), (20.0, 0.09), (40.0, 0.05)];
        let trace = alone(control, &Path { rtt, rebased, ..Path::new(96.0, 50.0) });
        let used = [(20.5, 25.0), (25.0, 40.0), (40.5, 45.0)]
            .map(|(from, to)| 100.0 * trace.utilisation(from, to));
        let longest = trace.longest(40.5, 60.0);
        rows.push(format!("50 -> 90 -> 50 ms ({rebased}): {used:.1?} %, queue < {longest:.2} ms"));
    }
    for cross in [Cross::Constant(32e6), Cross::Elastic] {
        let path = Path { cross: vec![(20.0, 60.0, cross)], ..Path::new(96.0, 50.0) };
        let trace = alone(control, &path);
        let (rate, queue) = (trace.rate(0, 30.0, 60.0) / 1e6, trace.queue(30.0, 60.0));
        rows.push(format!("beside {cross:?}: {rate:.1} Mbit/s, queue {queue:.2} ms"));
    }
    let trace = two(control);
    let shares = |from: f64| [0, 1].map(|source| trace.rate(source, from, from + 5.0) / 1e6);
    let (early, late, queue) = (shares(37.5), shares(67.5), trace.queue(60.0, 80.0));
    rows.push(format!("two: {early:.1?} after 30 s, {late:.1?} after 60 s, queue {queue:.2} ms"));
    let trace = bursts(control);
    let (got, queue) = (trace.rate(0, 10.0, 60.0) / 1e6, trace.queue(10.0, 60.0));
    let (least, most) = trace.rates(10.0, 60.0);
    rows.push(format!(
        "bursts: {got:.1} of 24 Mbit/s, queue {queue:.2} ms, rate {:.1} to {:.1} Mbit/s",
        least / 1e6,
        most / 1e6
    ));
    rows.join("\n  ")
}

/// Utilisation, and mean (longest) queue in ms, at one rate for each round trip.
fn steady_row(control: Control, mbits: f64) -> String {
    let cells = TRIPS.map(|millis| {
        let trace = alone(control, &Path::new(mbits, millis));
        let (used, queue) = (trace.utilisation(30.0, 60.0), trace.queue(30.0, 60.0));
        let longest = trace.longest(30.0, 60.0);
        format!("{:5.1} % {queue:5.2} ({longest:5.1}) ms", 100.0 * used)
    });
    format!("{mbits:>5} Mbit/s: {}", cells.join("  "))
}

/// 60 Mbit/s for two seconds out of five, at 96 Mbit/s and 50 ms.
fn bursts(control: Control) -> Trace {
    let offer = Offer::Bursts { rate: 60e6, on: 2.0, off: 3.0 };
    let bundle = Bundle { offer, ..Bundle::new(control.build(), 90e6) };
    Path::new(96.0, 50.0).run(vec![bundle], 60.0)
}

#[test]
#[ignore = "prints what each law does on each path"]
fn table() {
    for control in [Control::DelayPi, Control::BasicDelay] {
        eprintln!("{}", table_of(control));
    }
}

#[test]
fn basic_delay_fills_the_path_with_a_short_queue() {
    for mbits in RATES {
        for millis in TRIPS {
            let trace = alone(Control::BasicDelay, &Path::new(mbits, millis));
            let (used, queue) = (trace.utilisation(30.0, 60.0), trace.queue(30.0, 60.0));
            assert!(used > 0.97, "{mbits} Mbit/s, {millis} ms: {used}");
            assert!(queue < 8.0, "{mbits} Mbit/s, {millis} ms: {queue} ms");
        }
    }
}

#[test]
fn laws_are_named() {
    for name in ["delay-pi", "basic-delay", "constant:90 Mbit/s"] {
        assert_eq!(name.parse::<Control>().unwrap().to_string(), name);
    }
    for name in ["", "cubic", "constant", "constant:", "constant:fast"] {
        assert!(name.parse::<Control>().is_err(), "{name}");
    }
}
