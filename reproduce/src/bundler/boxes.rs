//! What boxes and bottlenecks did over time.

use base::Direction;

use crate::{Result, Run};

/// A bundle at the end of a sampling interval. Not a number: there is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment {
    /// Seconds since the start.
    pub(super) at: f64,
    pub(super) state: String,
    /// The rate that it is paced to, in Mbit/s.
    pub(super) rate: f64,
    pub(super) send_rate: f64,
    pub(super) receive_rate: f64,
    pub(super) rtt_ms: f64,
    /// In the network, as the boxes measure it.
    pub(super) queueing_ms: f64,
    pub(super) out_of_order: f64,
    /// How long the packet that left last had waited at the sendbox.
    pub(super) waiting_ms: f64,
    pub(super) backlog_packets: f64,
}

/// What a bundle did.
pub(super) fn course(run: &Run, bundle: &str) -> Result<Vec<Moment>> {
    let table = run.table("bundles")?;
    let names = table.texts("bundle").unwrap_or_default();
    let states = table.texts("state").unwrap_or_default();
    let whole = |column: &str, unit: f64| -> Result<Vec<f64>> {
        let values = run.integers(&table, column)?.into_iter();
        Ok(values.map(|value| value.map_or(f64::NAN, |value| value as f64 / unit)).collect())
    };
    let at = whole("time_ns", 1e9)?;
    let (rate, send) = (whole("rate_bps", 1e6)?, whole("send_rate_bps", 1e6)?);
    let receive = whole("receive_rate_bps", 1e6)?;
    let (rtt, queueing) = (whole("rtt_ns", 1e6)?, whole("queueing_ns", 1e6)?);
    let (waiting, backlog) = (whole("waiting_ns", 1e6)?, whole("backlog_packets", 1.0)?);
    let out_of_order = run.reals(&table, "out_of_order")?;
    let rows = names.iter().zip(states).enumerate().filter(|(_, (name, _))| *name == bundle);
    let moment = |(row, (_, state)): (usize, (&String, String))| Moment {
        at: at[row],
        state,
        rate: rate[row],
        send_rate: send[row],
        receive_rate: receive[row],
        rtt_ms: rtt[row],
        queueing_ms: queueing[row],
        out_of_order: out_of_order[row].unwrap_or(f64::NAN),
        waiting_ms: waiting[row],
        backlog_packets: backlog[row],
    };
    Ok(rows.map(moment).collect())
}

/// When a bundle is first in a state, of those from `from` on, in seconds.
pub(super) fn first(moments: &[Moment], state: &str, from: f64) -> Option<f64> {
    moments.iter().find(|moment| moment.at >= from && moment.state == state).map(|m| m.at)
}

/// When a bundle is in a state for the last time before `until`.
pub(super) fn last(moments: &[Moment], state: &str, until: f64) -> Option<f64> {
    let mut back = moments.iter().rev();
    back.find(|moment| moment.at <= until && moment.state == state).map(|m| m.at)
}

/// The share of samples between two times in a state.
pub(super) fn share(moments: &[Moment], state: &str, from: f64, until: f64) -> f64 {
    let within: Vec<&Moment> = moments.iter().filter(|m| m.at > from && m.at <= until).collect();
    let of = within.iter().filter(|moment| moment.state == state).count();
    of as f64 / within.len().max(1) as f64
}

/// What waits for a link in the direction from its first end, over time: seconds, and the
/// milliseconds that it takes at `mbits` to send it.
pub(super) fn queue(run: &Run, link: &str, mbits: f64) -> Result<Vec<(f64, f64)>> {
    let bytes = queue_bytes(run, link)?;
    Ok(bytes.into_iter().map(|(at, bytes)| (at, bytes * 8e-3 / mbits)).collect())
}

/// The same in bytes.
pub(super) fn queue_bytes(run: &Run, link: &str) -> Result<Vec<(f64, f64)>> {
    run.link(link, Direction::Up)?;
    let table = run.table("links")?;
    let links = table.texts("link").unwrap_or_default();
    let directions = table.texts("direction").unwrap_or_default();
    let times = run.integers(&table, "time_ns")?;
    let bytes = run.integers(&table, "queue_bytes")?;
    let rows = links.iter().zip(directions).zip(times.into_iter().zip(bytes));
    let of = rows.filter(|((name, direction), _)| *name == link && direction == "up");
    Ok(of.filter_map(|(_, (at, bytes))| Some((at? as f64 / 1e9, bytes? as f64))).collect())
}

/// The values of points between two times.
pub(super) fn between(points: &[(f64, f64)], from: f64, until: f64) -> Vec<f64> {
    let within =
        points.iter().filter(|(at, value)| *at > from && *at <= until && value.is_finite());
    within.map(|(_, value)| *value).collect()
}

/// The mean of points between two times; not a number without any.
pub(super) fn mean(points: &[(f64, f64)], from: f64, until: f64) -> f64 {
    let values = between(points, from, until);
    values.iter().sum::<f64>() / values.len() as f64
}

/// Means in steps of so many seconds, for plots.
pub(super) fn coarse(points: &[(f64, f64)], step: f64) -> Vec<(f64, f64)> {
    let end = points.last().map_or(0.0, |(at, _)| *at);
    let steps = (end / step).floor() as usize;
    let mut sums = vec![(0.0, 0_u32); steps];
    for (at, value) in points.iter().filter(|(_, value)| value.is_finite()) {
        if let Some(sum) = sums.get_mut((at / step) as usize) {
            *sum = (sum.0 + value, sum.1 + 1);
        }
    }
    let middle = |index: usize| (index as f64 + 0.5) * step;
    let mean = |(index, (sum, count)): (usize, (f64, u32))| (middle(index), sum / f64::from(count));
    sums.into_iter().enumerate().map(mean).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A bundle in this state at this time.
    pub(in super::super) fn moment(at: f64, state: &str) -> Moment {
        let nan = f64::NAN;
        Moment {
            at,
            state: state.to_owned(),
            rate: nan,
            send_rate: nan,
            receive_rate: nan,
            rtt_ms: nan,
            queueing_ms: nan,
            out_of_order: nan,
            waiting_ms: nan,
            backlog_packets: 0.0,
        }
    }

    #[test]
    fn states_are_found_by_time() {
        let states = ["learning", "delay", "delay", "pass-through", "delay"];
        let moments: Vec<Moment> =
            states.iter().zip(1..).map(|(state, at)| moment(f64::from(at), state)).collect();
        assert_eq!(first(&moments, "delay", 0.0), Some(2.0));
        assert_eq!(first(&moments, "delay", 3.5), Some(5.0));
        assert_eq!(last(&moments, "delay", 4.0), Some(3.0));
        assert!((share(&moments, "delay", 1.0, 5.0) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn coarse_points_are_means() {
        let points = [(0.1, 1.0), (0.6, 3.0), (1.2, f64::NAN), (1.4, 5.0), (2.0, 7.0)];
        assert_eq!(coarse(&points, 1.0), [(0.5, 2.0), (1.5, 5.0)]);
        assert!((mean(&points, 0.0, 1.0) - 2.0).abs() < 1e-9);
    }
}
