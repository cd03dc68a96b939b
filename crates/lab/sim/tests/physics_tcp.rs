//! Golden tests of TCP: each runs a lab and prints a table, and asserts the properties that must
//! hold.

use std::fmt::Write;
use std::path::Path;

use base::{Span, Time};
use sim::{Engine as _, Simulation};

/// Bulk flows over one bottleneck.
struct Bottleneck {
    kbits: u64,
    rtt_ms: u64,
    /// A queue limit, an AQM discipline, or a table of a discipline.
    buffer: &'static str,
    ecn: bool,
    loss: &'static str,
    /// The congestion controller of each flow.
    controls: Vec<&'static str>,
    /// Time between the starts of two flows.
    spacing_ms: usize,
    /// Start and end of the measurement.
    seconds: (u64, u64),
    seed: u64,
}

const CONTROLS: [&str; 4] = ["reno", "cubic", "bbr", "bbr3"];
/// Message for writes to a `String`, which cannot fail.
const FITS: &str = "a String takes all";
/// Payload of a segment, and wire bytes of a packet on Ethernet.
const MSS: f64 = 1448.0;
const PACKET: f64 = 1538.0;

/// Results of the flows, all in the same interval.
struct Measured {
    /// Length of the interval in seconds.
    span: f64,
    /// Goodput of each flow, bit/s.
    goodput: Vec<f64>,
    /// Retransmissions of all flows.
    retransmits: u64,
    /// Mean queueing delay at the bottleneck since the start, in ms.
    wait: f64,
}

impl Default for Bottleneck {
    fn default() -> Self {
        Self {
            kbits: 10_000,
            rtt_ms: 40,
            buffer: "1 bdp",
            ecn: false,
            loss: "0 %",
            controls: vec!["cubic"],
            spacing_ms: 100,
            seconds: (5, 20),
            seed: 1,
        }
    }
}

impl Bottleneck {
    fn lab(&self) -> String {
        let Self { kbits, rtt_ms, buffer, loss, seconds, seed, ecn, .. } = self;
        let queue = match buffer.split_once(' ') {
            Some(("{", _)) => (*buffer).to_owned(),
            Some(_) => format!("\"{buffer}\""),
            None => format!("{{ kind = \"{buffer}\", ecn = {ecn} }}"),
        };
        let mut lab = format!(
            r#"
            [lab]
            name = "physics"
            seed = {seed}
            duration = "{} s"
            [node.a]
            [node.b]
            [[link]]
            ends = ["a", "b"]
            delay = "{} us"
            up = {{ rate = "{kbits} kbit/s", loss = "{loss}", queue = {queue} }}
            down = {{ rate = "1 Gbit/s", queue = "1000 packets" }}
            "#,
            seconds.1,
            rtt_ms * 500
        );
        for (n, control) in self.controls.iter().enumerate() {
            write!(
                lab,
                r#"
                [[flow]]
                name = "f{n:02}"
                from = "a"
                to = "b"
                transport = "tcp"
                start = "{} ms"
                control = "{control}"
                ecn = {ecn}
                "#,
                n * self.spacing_ms
            )
            .expect(FITS);
        }
        lab
    }

    fn run(&self) -> Measured {
        let lab = lab::parse("physics.toml", &self.lab(), Path::new("")).expect("a right lab");
        let mut simulation = Simulation::try_new(&lab.plans[0]).expect("a possible plan");
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        simulation.advance(at(self.seconds.0));
        simulation.sample(&mut |_| ());
        simulation.advance(at(self.seconds.1));
        let span = (self.seconds.1 - self.seconds.0) as f64;
        let mut measured = Measured {
            span,
            goodput: Vec::new(),
            retransmits: 0,
            wait: simulation.take_queue_delays()[0].mean() / 1e6,
        };
        simulation.sample(&mut |sample| {
            measured.goodput.push(sample.received_bytes as f64 * 8.0 / span);
            measured.retransmits += sample.retransmits.unwrap_or(0);
        });
        measured
    }
}

impl Measured {
    fn total(&self) -> f64 {
        self.goodput.iter().sum()
    }

    fn mbits(&self) -> f64 {
        self.total() / 1e6
    }

    /// Retransmissions per hundred delivered segments.
    fn repeated(&self) -> f64 {
        let segments = self.total() * self.span / 8.0 / MSS;
        self.retransmits as f64 / segments * 100.0
    }

    /// Jain's index of fairness.
    fn fairness(&self) -> f64 {
        let squares: f64 = self.goodput.iter().map(|rate| rate * rate).sum();
        self.total().powi(2) / (self.goodput.len() as f64 * squares)
    }
}

#[test]
fn throughput_by_buffer_loss_and_round_trip() {
    let mut table = String::from(
        "                   goodput in Mbit/s   sent again in %    mean wait in ms\n\
         buffer in bdp:      1/4    1     4     1/4    1     4     1/4     1     4\n",
    );
    for control in CONTROLS {
        for rtt_ms in [10, 80] {
            for loss in ["0 %", "0.1 %", "1 %"] {
                let cells = ["0.25 bdp", "1 bdp", "4 bdp"].map(|buffer| {
                    let controls = vec![control];
                    Bottleneck { rtt_ms, buffer, loss, controls, ..Bottleneck::default() }.run()
                });
                assert_cells(control, rtt_ms, loss, &cells);
                let triple = |f: fn(&Measured) -> f64, digits: usize| {
                    let [small, middle, large] = cells.each_ref().map(f);
                    format!("{small:7.digits$}{middle:6.digits$}{large:6.digits$}")
                };
                write!(table, "{control:5} {rtt_ms:2} ms {loss:>5} ").expect(FITS);
                table += &triple(Measured::mbits, 2);
                table += &triple(Measured::repeated, 2);
                table += &triple(|cell| cell.wait, 1);
                table += "\n";
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Properties of these controllers, cell by cell.
fn assert_cells(control: &str, rtt_ms: u64, loss: &str, cells: &[Measured; 3]) {
    let place = format!("{control}, {rtt_ms} ms, {loss}");
    let model_based = control.starts_with("bbr");
    let share = cells.each_ref().map(|cell| cell.mbits() / (10.0 * MSS / PACKET));
    // Data that waited behind an earlier loss may be added.
    assert!(share.iter().all(|share| *share < 1.03), "{place}: {share:?}");
    let wait = cells.each_ref().map(|cell| cell.wait / rtt_ms as f64);
    for (wait, buffer) in wait.iter().zip([0.25, 1.0, 4.0]) {
        assert!(*wait < buffer + 0.25, "{place}: {wait} round trips in a buffer of {buffer}");
    }
    match loss {
        "0 %" if model_based => {
            assert!(share.iter().all(|share| *share > 0.92), "{place}: {share:?}");
            assert!(wait[2] < 1.0, "{place}: no full buffer, but {}", wait[2]);
        }
        "0 %" => {
            assert!(share[1] > 0.95 && share[2] > 0.98, "{place}: {share:?}");
            assert!(wait[2] > 1.8, "{place}: a full buffer, not {}", wait[2]);
        }
        "1 %" if model_based => {
            assert!(share.iter().all(|share| *share > 0.7), "{place}: {share:?}");
        }
        "1 %" if rtt_ms == 80 => {
            assert!(share.iter().all(|share| *share < 0.25), "{place}: {share:?}");
        }
        _ => {}
    }
}

#[test]
fn flows_share_the_bottleneck() {
    let mut table = String::from("flows        Mbit/s  least  most  Jain's  sent again in %\n");
    for control in CONTROLS {
        for (flows, kbits, seconds) in
            [(2, 10_000, (10, 40)), (8, 16_000, (10, 40)), (32, 32_000, (5, 20))]
        {
            let controls = vec![control; flows];
            let cell = Bottleneck { kbits, controls, seconds, ..Bottleneck::default() }.run();
            let least = cell.goodput.iter().copied().fold(f64::MAX, f64::min) / 1e6;
            let most = cell.goodput.iter().copied().fold(0.0, f64::max) / 1e6;
            let (total, jain, repeated) = (cell.mbits(), cell.fairness(), cell.repeated());
            writeln!(
                table,
                "{flows:2} x {control:5} {total:8.2} {least:6.2} {most:5.2} {jain:7.3} \
                 {repeated:8.2}"
            )
            .expect(FITS);
            let share = cell.total() / (kbits as f64 * 1e3 * MSS / PACKET);
            assert!((0.93..1.02).contains(&share), "{flows} {control}: {share}");
            assert!(jain > 0.8, "{flows} {control}: {jain}");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn controls_meet() {
    let mut table = String::from("                     first  second, 10 s later (Mbit/s)\n");
    for (first, second, buffer) in [
        ("reno", "reno", "1 bdp"),
        ("cubic", "cubic", "1 bdp"),
        ("bbr", "bbr", "1 bdp"),
        ("bbr3", "bbr3", "1 bdp"),
        ("reno", "cubic", "1 bdp"),
        ("cubic", "bbr", "0.5 bdp"),
        ("cubic", "bbr", "4 bdp"),
        ("cubic", "bbr3", "0.5 bdp"),
        ("cubic", "bbr3", "4 bdp"),
    ] {
        let controls = vec![first, second];
        let seconds = (30, 60);
        let lab =
            Bottleneck { buffer, controls, spacing_ms: 10_000, seconds, ..Bottleneck::default() };
        let got: Vec<f64> = lab.run().goodput.iter().map(|rate| rate / 1e6).collect();
        let (a, b) = (got[0], got[1]);
        writeln!(table, "{first:5} {second:5} {buffer:>8} {a:5.2} {b:6.2}").expect(FITS);
        if first == second {
            assert!(b / (a + b) > 0.3, "the late {second} gets {b} of {}", a + b);
        }
    }
    insta::assert_snapshot!(table);
}

/// Mathis et al., CCR 27(3), 1997: the rate is C·MSS / (RTT·√p), where C = √(3/2) if every segment
/// counts towards growth, as with byte counting despite delayed acknowledgements.
#[test]
fn reno_follows_the_inverse_square_root_of_the_loss_rate() {
    let mut table = String::from("loss      Mbit/s  formula  ratio\n");
    for (loss, p) in [("0.1 %", 0.001), ("0.25 %", 0.0025), ("0.5 %", 0.005), ("1 %", 0.01_f64)] {
        let rates = (1..=4).map(|seed| {
            let controls = vec!["reno"];
            let (kbits, buffer, seconds) = (1_000_000, "1000 packets", (5, 65));
            Bottleneck { kbits, buffer, loss, controls, seconds, seed, ..Bottleneck::default() }
                .run()
                .mbits()
        });
        let measured = rates.sum::<f64>() / 4.0;
        let formula = MSS * 8.0 / 0.040 * (1.5 / p).sqrt() / 1e6;
        let ratio = measured / formula;
        writeln!(table, "{loss:>6} {measured:9.2} {formula:8.2} {ratio:6.2}").expect(FITS);
        assert!((0.85..1.15).contains(&ratio), "{loss}: {measured} against {formula}");
    }
    insta::assert_snapshot!(table);
}

#[test]
fn marks_replace_losses() {
    let mut table = String::from("              Mbit/s  sent again in %  mean wait in ms\n");
    for control in ["reno", "cubic"] {
        for ecn in [false, true] {
            let (buffer, controls) = ("codel", vec![control; 2]);
            let cell = Bottleneck { buffer, ecn, controls, ..Bottleneck::default() }.run();
            let (total, repeated, wait) = (cell.mbits(), cell.repeated(), cell.wait);
            let marks = if ecn { "marks" } else { "drops" };
            writeln!(table, "{control:5} {marks} {total:8.2} {repeated:16.2} {wait:16.1}")
                .expect(FITS);
            assert!(total > 8.0 && wait < 15.0, "{control}, {marks}: {total} {wait}");
            assert_eq!(cell.retransmits == 0, ecn, "{control}, {marks}");
        }
    }
    insta::assert_snapshot!(table);
}

/// RFC 8033 §4: the delay stays at the target of 15 ms for every load.
#[test]
fn pie_keeps_its_target_delay() {
    let mut table = String::from("               Mbit/s  mean wait in ms\n");
    for control in ["reno", "cubic"] {
        for flows in [1, 5, 20] {
            let (controls, seconds) = (vec![control; flows], (10, 30));
            let cell =
                Bottleneck { buffer: "pie", controls, seconds, ..Bottleneck::default() }.run();
            let (total, wait) = (cell.mbits(), cell.wait);
            writeln!(table, "{flows:2} x {control:5} {total:9.2} {wait:16.1}").expect(FITS);
            assert!(total > 8.2, "{flows} {control}: {total}");
            assert!((3.0..25.0).contains(&wait), "{flows} {control}: {wait} ms");
        }
    }
    insta::assert_snapshot!(table);
}

/// RFC 8257 and the DCTCP paper (SIGCOMM 2010, §3.3): with marks above K packets, K > C·RTT / 7
/// keeps the link busy, and the queue near K.
#[test]
fn dctcp_keeps_the_queue_at_the_threshold() {
    let mut table = String::from("K (packets)  flows  Mbit/s  mean wait in packets  sent again\n");
    // 100 Mbit/s and 10 ms: 81 packets, a seventh of which is 12.
    for (kb, flows) in [(31, 2), (31, 8), (92, 2), (92, 8)] {
        let queue = format!(
            "{{ kind = \"red\", ecn = true, min = \"{kb} kB\", max = \"{kb}.001 kB\", \
             probability = \"100 %\", harddrop = false, weight = \"100 %\", limit = \"1000 packets\" }}"
        );
        let (kbits, rtt_ms, controls) = (100_000, 10, vec!["dctcp"; flows]);
        let buffer: &str = queue.leak();
        let cell = Bottleneck { kbits, rtt_ms, buffer, controls, ..Bottleneck::default() }.run();
        let wait = cell.wait / 1e3 * kbits as f64 * 1e3 / 8.0 / PACKET;
        let threshold = f64::from(kb) * 1e3 / PACKET;
        let (total, repeated) = (cell.mbits(), cell.retransmits);
        writeln!(table, "{threshold:11.1} {flows:6} {total:7.2} {wait:21.1} {repeated:11}")
            .expect(FITS);
        assert!(total > 0.95 * 100.0 * MSS / PACKET, "{kb} kB, {flows}: {total}");
        assert!(wait < threshold + 10.0 + 2.0 * flows as f64, "{kb} kB, {flows}: {wait}");
        assert!(cell.fairness() > 0.9, "{kb} kB, {flows}: {}", cell.fairness());
        assert_eq!(repeated, 0, "{kb} kB, {flows}");
    }
    insta::assert_snapshot!(table);
}

/// RFC 9332 §2: an L4S flow and a classic flow get about equal rates; alone, an L4S flow has a
/// queue of less than a millisecond.
#[test]
fn prague_shares_a_dual_queue_with_classic_flows() {
    let mut table = String::from("                       Mbit/s each  mean wait in ms\n");
    for (kbits, rtt_ms) in [(10_000, 20), (40_000, 10), (40_000, 40), (100_000, 20)] {
        for controls in [vec!["prague"], vec!["prague", "cubic"], vec!["prague", "reno"]] {
            let names = controls.join(" + ");
            let seconds = (15, 45);
            let bottleneck =
                Bottleneck { kbits, rtt_ms, controls, seconds, ..Bottleneck::default() };
            let cell = Bottleneck { buffer: "dualpi2", ecn: true, ..bottleneck }.run();
            let rates: Vec<f64> = cell.goodput.iter().map(|rate| rate / 1e6).collect();
            let wait = cell.wait;
            let shown: Vec<_> = rates.iter().map(|rate| format!("{rate:6.2}")).collect();
            let rate = kbits / 1000;
            let place = format!("{rate:3} Mbit/s {rtt_ms:2} ms {names:14}");
            writeln!(table, "{place} {:13} {wait:6.2}", shown.join(" ")).expect(FITS);
            let used = cell.total() / (kbits as f64 * 1e3 * MSS / PACKET);
            assert!(used > 0.9, "{place}: {used}");
            match rates[..] {
                [l4s, classic] => {
                    let ratio = l4s / classic;
                    assert!((0.5..2.5).contains(&ratio), "{place}: {ratio}");
                }
                _ => assert!(wait < 2.0, "{place}: {wait}"),
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Each message costs the headers of a packet: 38 B of Ethernet, 20 of IPv4, 32 of TCP
/// with time stamps.
#[test]
fn small_messages_pay_for_their_headers() {
    for message in [1_u32, 16, 512, 1448, 2000] {
        // About one bandwidth-delay product.
        let buffer = if message < 100 { "500 packets" } else { "50 packets" };
        let bottleneck = Bottleneck { buffer, ..Bottleneck::default() };
        let lab = format!("{}message = \"{message} B\"", bottleneck.lab());
        let lab = lab::parse("messages.toml", &lab, Path::new("")).expect("a right lab");
        let mut simulation = Simulation::try_new(&lab.plans[0]).expect("a possible plan");
        simulation.advance(Time::ZERO + Span::from_secs(5));
        simulation.sample(&mut |_| ());
        simulation.advance(Time::ZERO + Span::from_secs(15));
        let mut goodput = 0.0;
        simulation.sample(&mut |sample| goodput += sample.received_bytes as f64 * 8.0 / 10.0);
        let headers = 90 * message.div_ceil(MSS as u32);
        let most = 10e6 * f64::from(message) / f64::from(message + headers);
        let share = goodput / most;
        assert!((share - 1.0).abs() < 0.01, "{message} B: {share} of {most} bit/s");
    }
}
