use super::*;

fn with_ecn() -> Config {
    Config { ecn: true, ..reno() }
}

#[test]
fn ecn_is_negotiated() {
    let pipe = Pipe::new(&with_ecn(), millis(10)).established();
    let flags: Vec<_> = pipe.log.iter().map(|entry| entry.segment.flags).collect();
    assert_eq!(flags[0], Flags::SYN | Flags::ECE | Flags::CWR);
    assert_eq!(flags[1], Flags::SYN | Flags::ACK | Flags::ECE);
    assert!(pipe.log.iter().all(|entry| entry.ect == Ect::Not));
}

#[test]
fn without_consent_nothing_is_capable() {
    let mut pipe = Pipe::new(&with_ecn(), millis(10));
    pipe.server = Endpoint::listen(&reno(), 5);
    let mut pipe = pipe.established();
    pipe.transfer(20_000);
    assert!(pipe.log.iter().all(|entry| entry.ect == Ect::Not));
}

#[test]
fn a_mark_is_echoed_until_the_window_is_reduced_once() {
    let mut pipe = Pipe::new(&with_ecn(), millis(20)).established().script(|entry| {
        let marked = entry.segment.length > 0 && (60..64).contains(&entry.index);
        if marked { Fate::Mark } else { Fate::Deliver }
    });
    pipe.transfer(150_000);
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.retransmits, statistics.recoveries), (0, 0));
    assert!(statistics.echoes > 1);
    assert!(statistics.ssthresh < Bytes::MAX);
    assert_eq!(pipe.server.statistics().marks, 4);
    let reduced: Vec<_> = pipe
        .sent_by(Side::Client)
        .filter(|entry| entry.segment.flags.contains(Flags::CWR) && entry.segment.length > 0)
        .collect();
    assert_eq!(reduced.len(), 1);
    let reported = reduced[0].at + millis(20);
    let late = pipe.sent_by(Side::Server).filter(|entry| entry.at > reported);
    assert!(late.into_iter().all(|entry| !entry.segment.flags.contains(Flags::ECE)));
    let data = pipe.sent_by(Side::Client).filter(|entry| entry.segment.length > 0);
    assert!(data.into_iter().all(|entry| entry.ect == Ect::Zero));
    let acks = pipe.log.iter().filter(|entry| entry.segment.length == 0);
    assert!(acks.into_iter().all(|entry| entry.ect == Ect::Not));
}

#[test]
fn a_retransmission_is_not_capable() {
    let mut pipe = Pipe::new(&with_ecn(), millis(20)).established().dropping(&[60]);
    pipe.transfer(150_000);
    let lost = pipe.log.iter().find(|entry| entry.fate == Fate::Drop).expect("one");
    let again: Vec<_> =
        pipe.log.iter().filter(|entry| entry.segment.seq == lost.segment.seq).collect();
    assert_eq!((again.len(), again[1].ect), (2, Ect::Not));
}

fn scalable(control: Control) -> Config {
    Config { control, ..reno() }
}

#[test]
fn accurate_ecn_is_negotiated_or_falls_back() {
    let pipe = Pipe::new(&scalable(Control::Dctcp), millis(10)).established();
    let flags: Vec<_> = pipe.log.iter().map(|entry| entry.segment.flags).collect();
    assert_eq!(flags[0], Flags::SYN | Flags::AE | Flags::CWR | Flags::ECE);
    assert_eq!(flags[1], Flags::SYN | Flags::ACK | Flags::AE);
    for (server, ect) in [(with_ecn(), Ect::Zero), (reno(), Ect::Not)] {
        let mut pipe = Pipe::new(&scalable(Control::Dctcp), millis(10));
        pipe.server = Endpoint::listen(&server, 5);
        let mut pipe = pipe.established();
        pipe.transfer(20_000);
        let mut data = pipe.sent_by(Side::Client).filter(|entry| entry.segment.length > 0);
        assert!(data.all(|entry| entry.ect == ect));
    }
}

/// Whether the controller is DCTCP or Prague, each mark is counted once, and nothing is sent with
/// CWR as its only ECN bit after the handshake: the bits are a counter.
#[test]
fn counter_reports_each_mark() {
    for (control, ect) in [(Control::Dctcp, Ect::Zero), (Control::Prague, Ect::One)] {
        let mut pipe = Pipe::new(&scalable(control), millis(20)).established().script(|entry| {
            let marked = entry.segment.length > 0 && entry.index % 3 == 0;
            if marked { Fate::Mark } else { Fate::Deliver }
        });
        pipe.transfer(300_000);
        let marks = pipe.log.iter().filter(|entry| entry.fate == Fate::Mark).count() as u64;
        assert!(marks > 50, "{marks}");
        assert_eq!(pipe.server.statistics().marks, marks, "{control}");
        let last = pipe.sent_by(Side::Server).last().expect("acknowledgements");
        assert_eq!(last.segment.flags.marks(), (5 + marks) % 8, "{control}");
        let mut data = pipe.sent_by(Side::Client).filter(|entry| entry.segment.length > 0);
        assert!(data.all(|entry| entry.ect == ect), "{control}");
        assert_eq!(pipe.client.statistics().retransmits, 0);
    }
}
