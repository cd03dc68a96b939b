//! A passive collector of BGP messages: what cloning costs the router, what arrives, what the
//! collector costs.
//!
//! `router` is the testbed with real daemons, `truth` sets what was archived beside what the
//! router itself dumped; the other modules are figures.

mod archive;
mod cost;
mod fig_7_8;
mod fig_7_9;
mod router;
mod truth;

use crate::{Figure, File, Paper, Run};

/// The figures, in the paper's order. Each is in a file of its own.
const FIGURES: &[Figure] = &[fig_7_8::FIGURE, fig_7_9::FIGURE, archive::FIGURE, cost::FIGURE];

pub(crate) const PAPER: Paper = Paper {
    name: "collector",
    title: "Beyond the Best: Real-Time Non-Invasive Collection of BGP Messages",
    citation: "S. Vissicchio, L. Cittadini, M. Pizzonia, L. Vergantini, V. Mezzapesa and \
               M. L. Papagni, INM/WREN 2010, and the chapter on it in S. Vissicchio's thesis",
    figures: FIGURES,
};

/// Five sessions with the same complete table of 2015, where `labs/collector/` looks for it.
const CAPTURE: File = File {
    path: "../data/bgp/pcap/full5x577737.pcap.zst",
    bytes: include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../data/bgp/pcap/full5x577737.pcap.zst"
    )),
};

/// What the paper's router could carry, as a share of the lines' packet rate in %.
const LIMIT: f64 = 62.0;
/// The same in packets a second.
const PAPER_LIMIT: f64 = 1_845_000.0;
/// Segments of the paper's five full tables.
const PAPER_SEGMENTS: f64 = 37_157.0;
/// How long the paper's sessions took for them, in s.
const PAPER_TRANSFER_S: f64 = 120.0;

/// Datagrams of the regular traffic in both directions: sent, and lost.
fn regular(run: &Run) -> crate::Result<(u64, u64)> {
    let (mut sent, mut lost) = (0, 0);
    for name in ["east", "west"] {
        let flow = run.flow(name)?;
        sent += flow.sent_datagrams.unwrap_or_default();
        lost += flow.lost_datagrams.unwrap_or_default();
    }
    if sent == 0 {
        return Err(run.missing("regular traffic".to_owned()));
    }
    Ok((sent, lost))
}

/// Loss of the regular traffic in %.
fn loss(run: &Run) -> crate::Result<f64> {
    let (sent, lost) = regular(run)?;
    Ok(lost as f64 / sent as f64 * 100.0)
}
