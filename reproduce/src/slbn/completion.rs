//! When sessions with an amount to send were done.

use crate::{Result, Run};

/// Ends of the bins of session sizes, in packets: Pareto's smallest is 225, three in four have
/// fewer than 320, one in a thousand more than 1,265.
const EDGES: [f64; 9] = [225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 500.0, 700.0, 1000.0];

/// A session: its size in packets, and how long it took from joining to the last arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Session {
    pub(super) packets: f64,
    /// `None` if it was not done.
    pub(super) seconds: Option<f64>,
}

/// Sessions of like size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    /// Mean size of all of them, in packets.
    pub(super) packets: f64,
    /// Mean time of those that were done, in seconds.
    pub(super) seconds: f64,
    pub(super) done: usize,
    pub(super) all: usize,
}

/// The sessions of a run that had an amount to send.
pub(super) fn sessions(run: &Run, packet: f64) -> Result<Vec<Session>> {
    let table = run.table("sessions")?;
    let sizes = run.integers(&table, "size_bytes")?;
    let starts = run.integers(&table, "start_ns")?;
    let ends = run.integers(&table, "completed_ns")?;
    let rows = sizes.into_iter().zip(starts).zip(ends);
    let session = |((size, start), end): ((Option<u64>, Option<u64>), Option<u64>)| {
        let start = start?;
        let seconds = end.map(|end| end.saturating_sub(start) as f64 / 1e9);
        Some(Session { packets: size? as f64 / packet, seconds })
    };
    Ok(rows.filter_map(session).collect())
}

/// Sessions by size; bins without any that was done are left out.
pub(super) fn bins(sessions: &[Session]) -> Vec<Bin> {
    let ends = EDGES[1..].iter().copied().chain([f64::INFINITY]);
    let bin = |(from, to): (f64, f64)| {
        let own = sessions.iter().filter(|session| session.packets >= from && session.packets < to);
        let (mut packets, mut times) = (Vec::new(), Vec::new());
        for session in own {
            packets.push(session.packets);
            times.extend(session.seconds);
        }
        let (size, time) = (crate::moments(&packets), crate::moments(&times));
        let bin = Bin { packets: size.mean, seconds: time.mean, done: time.count, all: size.count };
        (bin.done > 0).then_some(bin)
    };
    // Sizes are whole packets: whoever rounds may come out below the smallest.
    let from = std::iter::once(0.0).chain(EDGES[1..].iter().copied());
    from.zip(ends).filter_map(bin).collect()
}

/// Mean time of the sessions that were done, and how many were not.
pub(super) fn mean(sessions: &[Session]) -> (f64, usize) {
    let done: Vec<f64> = sessions.iter().filter_map(|session| session.seconds).collect();
    (crate::moments(&done).mean, sessions.len() - done.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_sessions_of_like_size() {
        let session = |packets, seconds| Session { packets, seconds };
        let sessions = [
            session(224.0, Some(1.0)),
            session(240.0, Some(2.0)),
            session(249.0, None),
            session(320.0, None),
            session(5000.0, Some(9.0)),
        ];
        let bins = bins(&sessions);
        assert_eq!(bins.len(), 2);
        let first = bins[0];
        assert!((first.packets - 713.0 / 3.0).abs() < 1e-9 && (first.seconds - 1.5).abs() < 1e-9);
        assert_eq!((first.done, first.all, bins[1].all), (2, 3, 1));
        assert_eq!(mean(&sessions), (4.0, 2));
    }
}
