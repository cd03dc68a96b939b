//! The guard's constants.

/// Rates are shares of one another, queues multiples of the target, times in seconds. The values
/// were chosen by `netarium reproduce bundler harm`, `phases`, `steps`, `faults` and `two-bundles`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Limits {
    /// Time constants of the averages of the receive rate (at least a round trip) and of the queue.
    pub(super) rate_average: f64,
    pub(super) queue_average: f64,

    /// A bundle that gets less than this share of the reference makes a trial.
    pub(super) deficit: f64,
    /// Packets sent and packets received differ by less than this share before a trial: otherwise
    /// the path has become slower, or the bundle's own queue drains.
    pub(super) steady: f64,
    /// A path that delivers less than this share of what is sent has become slower.
    pub(super) cut: f64,
    /// A trial sends this multiple of what arrived before ...
    pub(super) open: f64,
    /// ... for so many round trips, and at least so long; at most `overdue` without an answer.
    pub(super) round_trips: f64,
    pub(super) trial: f64,
    pub(super) overdue: f64,
    /// From one trial to the next, first and at most; doubled while trials gain nothing.
    pub(super) spacing: [f64; 2],
    /// A trial that delivers this multiple of the rate before is a gain. Rates over a trial scatter
    /// by about 5 %, so that chance alone reaches it in fewer than one of 300 trials.
    pub(super) gain: f64,
    /// A trial that delivers this share of what it sends, with a queue that is no longer than
    /// before, shows that nobody else takes what is left; two within `again` that the delay is the
    /// path's.
    pub(super) carried: f64,
    pub(super) again: f64,
    /// More gains than this within `within` are harm: while packets queue, and otherwise.
    pub(super) gains: [usize; 2],
    pub(super) within: f64,
    /// Packets queue if the queue is this long.
    pub(super) queue: f64,
    /// None do if it is shorter than this on average: gains show a law that is too slow, not harm.
    pub(super) empty: f64,
    /// In between, another bundle may take its share: no trial while one is heard, nor so soon that
    /// it could not be heard yet, unless the bundle gets less than `deep` of the reference.
    pub(super) grace: f64,
    pub(super) deep: f64,
    /// Unless packets queue, the reference follows the rate with this time constant.
    pub(super) forget: f64,
    /// After a test, control that delivers less than this share of what the bundle got before,
    /// while packets queue, ends at once; it is confirmed after `confirmed`.
    pub(super) worth: f64,
    pub(super) worse: f64,
    pub(super) confirmed: f64,

    /// What waits at the sendbox at a release leaves at this multiple of the capacity.
    pub(in super::super) flush: f64,
    /// From a release to a test, first and at most; doubled by each failure.
    pub(super) wait: [f64; 2],
    /// A test comes after the first of them if what the bundle gets has changed by this factor, ...
    pub(super) changed: f64,
    /// ... or the queue falls to this share of the longest within about `memory`: another bundle
    /// may be at a test, which succeeds if this one joins.
    pub(super) falls: f64,
    pub(super) memory: f64,
    /// Time constant of what the bundle gets.
    pub(super) open_average: f64,
    /// A test sends this share of it until the queue has drained to `drained` ...
    pub(super) drain: f64,
    pub(super) drained: f64,
    /// ... and fails after `longest`, or when the queue has not lost a `progress` of its length for
    /// `stall` and two round trips.
    pub(super) longest: f64,
    pub(super) progress: f64,
    pub(super) stall: f64,
    /// Then it sends this share for so long, and fails if the queue comes back.
    pub(super) hold: f64,
    pub(super) held: f64,
}

impl Limits {
    pub(in super::super) const USUAL: Self = Self {
        rate_average: 0.1,
        queue_average: 1.0,
        deficit: 0.8,
        steady: 0.85,
        cut: 0.5,
        open: 1.3,
        round_trips: 2.0,
        trial: 0.15,
        overdue: 3.0,
        spacing: [0.25, 16.0],
        gain: 1.12,
        carried: 0.98,
        again: 3.0,
        gains: [1, 2],
        within: 10.0,
        queue: 2.0,
        empty: 0.7,
        grace: 8.0,
        deep: 0.45,
        forget: 30.0,
        worth: 0.92,
        worse: 0.3,
        confirmed: 10.0,
        flush: 1.1,
        wait: [8.0, 12.0],
        changed: 1.15,
        falls: 0.7,
        memory: 2.0,
        open_average: 3.0,
        drain: 0.7,
        drained: 1.5,
        longest: 3.0,
        progress: 0.1,
        stall: 0.05,
        hold: 0.95,
        held: 0.7,
    };
}
