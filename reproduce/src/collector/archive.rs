//! What was archived, against the router's own dump: the paper's check of correctness.

use super::loss;
use super::router::{Collected, Daemon, FILES, PEERS, Testbed, announced, installed};
use super::truth::{self, Comparison};
use crate::{Clock, Error, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "archive",
    title: "full tables of five peers, archived and dumped by the router itself",
    takes: "5 min",
    clocks: &[Clock::Wall],
    files: FILES,
    make,
};

/// Announced, withdrawn, announced again over a new session, in seconds of the speakers.
const SCRIPT: &str = "2 announce 35 withdraw 45 reset 50 announce 85 drop 90 announce 125 end";
const SHORT: &str = "2 announce 4 withdraw 5 reset 6 announce 8 drop 9 announce 12 end";
/// Sessions of each peer in both.
const SESSIONS: usize = 3;

/// One run.
struct Case {
    daemon: Daemon,
    run: Run,
    collected: Collected,
    compared: Comparison,
    /// UPDATEs that were sent, and their bytes.
    sent: (u64, u64),
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut cases = Vec::new();
    for daemon in installed()? {
        cases.push(case(stage, daemon)?);
    }
    let mut evidence = Evidence::default();
    let heads = [
        "router",
        "UPDATEs sent",
        "archived",
        "dumped",
        "peers with the same bytes in both",
        "segments",
        "retransmitted B",
        "missing B",
        "dropped",
        "gaps",
        "sessions: router, collector",
        "up apart",
        "regular traffic lost",
    ];
    let mut table = Table::new("Archive and dump", &heads);
    for case in &cases {
        row(case, &mut table)?;
        judge(case.daemon, &case.compared, &case.collected, case.sent, &mut evidence);
    }
    evidence.tables.push(table);
    evidence.note(
        "Only what the router receives is cloned, from behind the queue that drops: the collector \
         gets the segments that the router gets, retransmitted ones too, and never what the router \
         sends. Regular traffic of 40 % of the lines' rate in each direction leaves the rest of \
         the 62 % to five sessions that send as fast as they can; what does not fit is lost and \
         sent again.",
    );
    evidence.note(
        "BIRD reads whatever its neighbour sent before the end of a session. FRR drops what it has \
         not processed by then, so with full tables on a busy machine its dump lacks UPDATEs that \
         reached it: the collector has them.",
    );
    evidence.note(
        "Speakers replay the UPDATEs of a real table of 2015 (577,737 prefixes) bit for bit over \
         TCP of the kernel. They stand for the paper's Quagga processes between it and an ISP.",
    );
    Ok(evidence)
}

fn case(stage: &mut Stage<'_>, daemon: Daemon) -> Result<Case> {
    let script = stage.size(SCRIPT, SHORT);
    let mut testbed = Testbed::new(stage, daemon.name, daemon, script)?
        .regular(40.0, 2.0, stage.size(120.0, 10.0))
        .set("lab.tolerance", "10 s")
        .set("lab.duration", stage.size("220 s", "90 s"));
    for peer in 1..=PEERS {
        testbed = testbed.set(format!("link.p{peer}.rate"), "20 Mbit/s");
    }
    if stage.short() {
        testbed = testbed.prefixes(20_000);
    }
    let runs = stage.run(std::slice::from_ref(&testbed.job))?;
    let run = runs.into_iter().next().ok_or(Error::Interrupted)?;
    let dump = testbed.out.join("router.mrt");
    let compared =
        truth::compare(&truth::read(&dump)?, &truth::read(&testbed.out.join("archive"))?);
    let sent = announced(&run)?;
    Ok(Case { daemon, run, collected: testbed.collected()?, compared, sent })
}

fn row(case: &Case, table: &mut Table) -> Result<()> {
    let (compared, collected) = (&case.compared, &case.collected);
    table.row([
        case.daemon.title.to_owned(),
        case.sent.0.to_string(),
        compared.own_updates.to_string(),
        compared.updates.to_string(),
        format!("{} of {}", compared.same, compared.peers),
        collected.segments.to_string(),
        collected.duplicate_bytes.to_string(),
        collected.missing_bytes.to_string(),
        collected.kernel_drops.to_string(),
        collected.gaps.to_string(),
        format!("{}, {}", compared.up.0, compared.up.1),
        compared.apart_s.map_or("–".to_owned(), |apart| format!("{apart:.3} s")),
        format!("{:.3} %", loss(&case.run)?),
    ]);
    Ok(())
}

fn judge(
    daemon: Daemon,
    compared: &Comparison,
    collected: &Collected,
    sent: (u64, u64),
    evidence: &mut Evidence,
) {
    let router = daemon.title;
    evidence.claim(
        format!("UPDATEs in the archive beside the router's own dump ({router})"),
        "correctly reconstructed and stored",
        format!(
            "{} of {PEERS} peers the same bytes in the same order, {} with all that was dumped: \
             {} UPDATEs, {} B",
            compared.same, compared.held, compared.updates, compared.bytes
        ),
        compared.peers == PEERS && compared.held == PEERS && compared.updates > 0,
    );
    evidence.claim(
        format!("UPDATEs in the archive beside what the peers sent ({router})"),
        "all BGP messages that routers receive",
        format!("{} of {}, {} of {} B", compared.own_updates, sent.0, compared.own_bytes, sent.1),
        (compared.own_updates, compared.own_bytes) == sent && sent.0 > 0,
    );
    evidence.claim(
        format!("cloned segments that did not arrive ({router})"),
        "none",
        format!(
            "{} dropped, {} B missing, {} gaps, {} with wrong checksums",
            collected.kernel_drops,
            collected.missing_bytes,
            collected.gaps,
            collected.bad_checksums
        ),
        collected.kernel_drops == 0
            && collected.missing_bytes == 0
            && collected.gaps == 0
            && collected.bad_checksums == 0
            && collected.stream_bytes > compared.own_bytes,
    );
    evidence.claim(
        format!("sessions seen to come up, from one side of them ({router})"),
        format!("state changes are stored (here: {SESSIONS} of each peer)"),
        format!(
            "{} of the router's {}, of {} peers",
            compared.up.1, compared.up.0, collected.peerings
        ),
        compared.up.1 == SESSIONS * PEERS && compared.up.0 == compared.up.1,
    );
}

#[cfg(test)]
mod tests {
    use super::super::router::BIRD;
    use super::*;

    fn judged(change: impl FnOnce(&mut Comparison, &mut Collected)) -> Vec<bool> {
        let mut compared = Comparison {
            peers: 5,
            same: 5,
            held: 5,
            updates: 10,
            bytes: 1000,
            own_updates: 10,
            own_bytes: 1000,
            up: (15, 15),
            apart_s: Some(0.1),
        };
        let mut collected = Collected { peerings: 5, stream_bytes: 2000, ..Collected::default() };
        change(&mut compared, &mut collected);
        let mut evidence = Evidence::default();
        judge(BIRD, &compared, &collected, (10, 1000), &mut evidence);
        evidence.claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(judged(|_, _| {}), [true; 4]);
        assert_eq!(judged(|compared, _| compared.same = 4), [true; 4]);
        assert_eq!(judged(|compared, _| compared.held = 4), [false, true, true, true]);
        assert_eq!(judged(|compared, _| compared.peers = 6), [false, true, true, true]);
        assert_eq!(judged(|compared, _| compared.own_bytes = 999), [true, false, true, true]);
        assert_eq!(judged(|_, collected| collected.kernel_drops = 1), [true, true, false, true]);
        assert_eq!(judged(|_, collected| collected.gaps = 1), [true, true, false, true]);
        assert_eq!(judged(|compared, _| compared.up = (15, 14)), [true, true, true, false]);
    }
}
