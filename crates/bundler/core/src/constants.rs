//! The tuned constants of the detectors and of the default congestion controller.
//!
//! There is one struct per detector. Each constant has a value, a unit, a valid range, and the
//! paper or the experiment of `netarium reproduce bundler` from which it was chosen. The experiment
//! `sensitivity` halves and doubles each of them; its table is in the book.

use std::fmt;
use std::str::FromStr;

use base::Span;

/// A tuned constant, for tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// `DETECTOR.NAME`.
    pub name: &'static str,
    /// Meaning of the constant, for the table in the book.
    pub doc: &'static str,
    /// The default value.
    pub value: f64,
    /// `s`, `bit/s`, `packets`, or empty for ratios and counts.
    pub unit: &'static str,
    /// The minimum and maximum valid value.
    pub range: [f64; 2],
    /// The paper or the experiment from which the value was chosen.
    pub source: &'static str,
}

/// An error in `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidConstant {
    /// It does not have this form.
    #[error("invalid constant `{0}`; expected for example `guard.gain=1.2`")]
    Form(String),
    /// The constant is unknown.
    #[error("unknown constant `{0}`; `netarium reproduce bundler sensitivity` lists all")]
    Name(String),
    /// The value is outside its range.
    #[error("constant `{name}` is {value}; expected {min} to {max}")]
    Range {
        /// Name of the constant.
        name: &'static str,
        /// The rejected value.
        value: f64,
        /// Minimum valid value.
        min: f64,
        /// Maximum valid value.
        max: f64,
    },
}

pub(crate) fn span(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9) as u64)
}

macro_rules! constants {
    ($(
        $(#[doc = $about:literal])+
        $group:ident: $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident = $value:literal $unit:literal,
                    $min:literal to $max:literal, $source:literal;
            )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name {
                $($(#[doc = $doc])+ pub $field: f64,)+
            }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: $value,)+ }
                }
            }
        )+

        /// All tuned constants, by detector.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Constants {
            $($(#[doc = $about])+ pub $group: $name,)+
        }

        impl Constants {
            /// All constants of all detectors.
            pub const LIST: &'static [Constant] = &[
                $($(Constant {
                    name: concat!(stringify!($group), ".", stringify!($field)),
                    doc: concat!($($doc),+),
                    value: $value,
                    unit: $unit,
                    range: [$min, $max],
                    source: $source,
                },)+)+
            ];

            fn value_mut(&mut self, name: &str) -> Option<&mut f64> {
                match name.split_once('.')? {
                    $($(
                        (stringify!($group), stringify!($field)) => {
                            Some(&mut self.$group.$field)
                        }
                    )+)+
                    _ => None,
                }
            }
        }
    };
}

constants! {
    /// The queueing delay that rate control aims at: the target.
    target: Target {
        /// Target queueing delay as a share of the minimum RTT.
        rtt_share = 0.25 "", 0.05 to 1.0, "rates";
        /// Maximum of the target queueing delay.
        max_delay = 0.005 "s", 0.001 to 0.02, "backlogged, requests";
        /// Minimum of the target queueing delay, as the transmission time of this many full-size
        /// packets: a shorter queue is not visible.
        min_packets = 2.0 "packets", 1.0 to 8.0, "rates";
    }

    /// Copa, the default congestion controller.
    copa: Copa {
        /// Equilibrium queueing delay at a rate of 100 Mbit/s per unit of weight.
        delay = 0.0019 "s", 0.0005 to 0.01, "two-bundles, backlogged";
        /// Exponent with which this delay falls as the rate grows.
        exponent = 0.4 "", 0.1 to 1.0, "two-bundles";
        /// Window change per RTT, as a share of the packets that are queued in equilibrium.
        step = 0.5 "", 0.1 to 2.0, "steps";
        /// RTTs with the same direction of change before the velocity doubles.
        velocity_rounds = 3.0 "", 1.0 to 10.0, "Copa, section 2.2";
        /// Maximum of the velocity.
        max_velocity = 64.0 "", 4.0 to 1024.0, "steps";
        /// The velocity is reset when the queue reaches this share of the equilibrium delay.
        near_aim = 0.5 "", 0.1 to 1.0, "backlogged";
        /// Minimum time until a change of the rate is visible in measurements.
        min_reaction = 0.03 "s", 0.01 to 0.2, "rates";
        /// A queue above this multiple of the equilibrium delay is certain, so the window is
        /// reduced to the receive rate at once.
        long_queue = 4.0 "", 1.5 to 20.0, "steps";
        /// Maximum change of the window per RTT, as a share of the window.
        max_change = 0.5 "", 0.1 to 1.0, "steps";
        /// Share of the queue by which the window may fall below the receive rate.
        drain = 0.33 "", 0.1 to 1.0, "steps";
        /// Multiple of the jitter's standard deviation that is added to the equilibrium delay.
        jitter_margin = 1.5 "", 0.0 to 4.0, "harm (jitter)";
        /// Share of lost bytes above which the window grows only at rates below `proven`
        /// times the proven capacity.
        max_loss = 0.02 "", 0.001 to 0.2, "harm (loss)";
        /// Multiple of the proven capacity up to which the window grows despite losses.
        proven = 1.02 "", 0.8 to 1.5, "harm (loss)";
        /// Maximum share of losses that count as random.
        max_random_loss = 0.06 "", 0.0 to 0.5, "harm (loss)";
        /// Half of the time window whose minimum loss share counts as random.
        loss_memory = 5.0 "s", 1.0 to 30.0, "harm (loss)";
        /// A site that sends at least this share of the rate is limited by the rate.
        limited_share = 0.8 "", 0.3 to 1.0, "requests";
    }

    /// Measurement of rates, capacity and delays from acknowledgements.
    measure: Measurement {
        /// Minimum time over which rates are measured; a longer RTT is used instead.
        min_window = 0.04 "s", 0.01 to 0.2, "accuracy";
        /// Time for which a receive rate counts for the capacity.
        capacity_memory = 10.0 "s", 2.0 to 60.0, "steps";
        /// Time for which a receive rate counts in full; after that at most as twice
        /// the maximum received since.
        capacity_recent = 1.0 "s", 0.2 to 10.0, "steps";
        /// Time for which minimum delays are remembered under control.
        base_memory = 10.0 "s", 2.0 to 60.0, "Copa, section 2";
        /// Time for which minimum delays are remembered without control, while
        /// nothing drains the queue.
        base_memory_open = 60.0 "s", 10.0 to 600.0, "phases";
        /// Standard deviation of the jitter above which the persistent queue moves from the minimum
        /// delay towards the mean.
        min_jitter = 0.0003 "s", 0.0 to 0.005, "harm (jitter)";
        /// Standard deviation of the jitter from which on the persistent queue is the mean delay.
        max_jitter = 0.001 "s", 0.0 to 0.02, "harm (jitter)";
        /// Weight of a sample in the estimate of the jitter.
        jitter_weight = 0.008 "", 0.001 to 0.1, "harm (jitter)";
    }

    /// Flows whose path is longer than that of others.
    paths: FlowPaths {
        /// Minimum delays of a flow are remembered for one to two times this.
        memory = 10.0 "s", 2.0 to 60.0, "multipath";
        /// Number of packets after which the minimum delay of a flow counts.
        min_packets = 10.0 "packets", 2.0 to 100.0, "multipath";
        /// Age at which the minimum delay of a flow counts.
        min_age = 1.0 "s", 0.1 to 10.0, "multipath";
        /// A smaller difference counts as random.
        min_difference = 0.001 "s", 0.0 to 0.01, "internet";
        /// The part of a difference above this counts as a queue.
        max_difference = 0.01 "s", 0.002 to 0.1, "internet";
    }

    /// Detection of paths with different delays.
    multipath: Multipath {
        /// Maximum number of evaluated acknowledgements.
        window = 200.0 "", 50.0 to 1000.0, "paper, section 5.3";
        /// Share of acknowledgements out of order above which the paths are imbalanced.
        enter = 0.05 "", 0.005 to 0.5, "paper, section 5.3";
        /// Share of acknowledgements out of order below which the paths are balanced again.
        leave = 0.02 "", 0.001 to 0.5, "multipath";
        /// Time for which the share must stay below `leave`; also the maximum
        /// age of an acknowledgement.
        leave_after = 10.0 "s", 1.0 to 60.0, "multipath";
        /// Packets sent closer together than this count as in order.
        tolerance = 0.008 "s", 0.001 to 0.1, "internet";
        /// Minimum of the tolerance, as a share of the minimum RTT.
        tolerance_share = 0.125 "", 0.0 to 1.0, "multipath";
    }

    /// The start of control, and the time before it.
    start: Start {
        /// Minimum length of the bundle's own queue in targets.
        own_queue = 4.0 "", 0.5 to 10.0, "harm (slow, jitter)";
        /// Time for which the queue must persist: a slow start is over then.
        first_queue = 0.5 "s", 0.05 to 5.0, "harm (cubic)";
        /// Time constant of the average load.
        load_average = 1.0 "s", 0.1 to 10.0, "requests";
        /// A bundle whose load is below this share of the capacity is idle.
        idle_load = 0.01 "", 0.0 to 0.5, "harm (bbr, site)";
        /// Minimum time from the last idle time to the start of control.
        settling = 5.0 "s", 0.0 to 20.0, "harm (bbr, site)";
        /// The same in RTTs: a test during slow starts would reduce the bundle's share.
        settling_rounds = 50.0 "", 0.0 to 200.0, "harm (bbr, site)";
        /// Time constant of the average receive rate while the queue persists.
        rate_average = 0.5 "s", 0.05 to 5.0, "harm (cubic)";
        /// Control starts at this share of the measured rate, so that the queue drains.
        drain = 0.9 "", 0.5 to 1.0, "steps";
        /// Minimum rate under control, as a share of the maximum capacity.
        min_rate = 0.05 "", 0.0 to 0.5, "paper's prototype";
        /// Rate at which the backlog is sent when control ends, as a multiple of the capacity.
        flush = 2.0 "", 1.0 to 10.0, "faults";
    }

    /// The guard against harm by control. Queues are in targets.
    guard: Guard {
        /// Time constant of the average receive rate; at least one RTT.
        rate_average = 0.1 "s", 0.02 to 2.0, "harm";
        /// A bundle whose rate is below this share of the reference makes a trial.
        deficit = 0.8 "", 0.3 to 1.0, "harm";
        /// Minimum ratio of the smaller to the larger of send and receive rate for a trial.
        steady = 0.85 "", 0.3 to 1.0, "steps";
        /// A path that delivers less than this share of the send rate has become slower.
        slower_path = 0.5 "", 0.1 to 0.9, "steps";
        /// Rate of a trial, as a multiple of the receive rate.
        trial_rate = 1.3 "", 1.05 to 3.0, "harm";
        /// Maximum rate of a trial after one that found a free path, as a multiple
        /// of the receive rate.
        trial_rate_free = 2.0 "", 1.05 to 4.0, "harm (on-off)";
        /// Duration of a trial in RTTs.
        trial_rounds = 2.0 "", 1.0 to 10.0, "harm";
        /// Minimum duration of a trial.
        trial_min = 0.15 "s", 0.04 to 1.0, "harm";
        /// A trial without an acknowledgement ends after this.
        trial_timeout = 3.0 "s", 0.5 to 10.0, "harm (loss)";
        /// Time between trials at first.
        spacing = 0.25 "s", 0.05 to 5.0, "harm";
        /// Maximum time between trials whose gains may be another bundle's share.
        spacing_share = 0.5 "s", 0.05 to 10.0, "two-bundles";
        /// Maximum time between trials without gains.
        spacing_max = 16.0 "s", 1.0 to 60.0, "steps";
        /// A trial that delivers at least this multiple of the rate before is a gain.
        gain = 1.12 "", 1.01 to 2.0, "unit tests of false alarms";
        /// A trial that delivers at least this share of its rate, with the same delay,
        /// finds a free path.
        carried = 0.98 "", 0.8 to 1.0, "harm (on-off)";
        /// Two trials within this time that find a free path show that the delay is
        /// that of the path.
        carried_memory = 3.0 "s", 0.5 to 30.0, "steps";
        /// Number of gains for a release while packets queue.
        gains_queued = 2.0 "", 1.0 to 10.0, "unit tests of false alarms";
        /// Number of gains for a release while no packets queue.
        gains_short = 3.0 "", 1.0 to 10.0, "two-bundles";
        /// Time within which these gains must occur.
        gains_memory = 10.0 "s", 2.0 to 60.0, "harm";
        /// Queue in targets above which packets queue.
        queue = 2.0 "", 1.0 to 10.0, "two-bundles";
        /// Time for which they must queue; longer than another bundle's trial.
        queue_duration = 0.3 "s", 0.05 to 5.0, "two-bundles";
        /// Time after the start of control without trials for a short queue.
        grace = 8.0 "s", 0.0 to 60.0, "two-bundles";
        /// A bundle whose rate is below this share of the reference makes
        /// such a trial nevertheless.
        deep = 0.5 "", 0.1 to 0.9, "two-bundles";
        /// Time constant with which the reference follows the rate while no packets queue.
        forget = 30.0 "s", 5.0 to 300.0, "steps";
        /// Share of the rate before that control must deliver after a test.
        worth = 0.92 "", 0.5 to 1.0, "harm (cubic)";
        /// Control that delivers less for this long ends.
        worth_duration = 0.3 "s", 0.05 to 5.0, "harm (cubic)";
        /// Control is confirmed after this.
        confirmed = 10.0 "s", 2.0 to 60.0, "harm (cubic-later)";
        /// Time from a release to a test at first; doubled after each failed test.
        wait = 8.0 "s", 1.0 to 60.0, "phases, harm";
        /// Maximum time from a release to a test.
        wait_max = 16.0 "s", 1.0 to 300.0, "phases, elastic-cross";
        /// A test starts early if the rate has changed by this factor.
        changed = 1.15 "", 1.02 to 3.0, "phases";
        /// A test also starts early if the queue falls to this share of the recent maximum, since
        /// another bundle may test.
        falls = 0.7 "", 0.1 to 0.95, "two-bundles";
        /// Time constant of the recent maximum of the queue.
        longest_memory = 2.0 "s", 0.2 to 20.0, "two-bundles";
        /// Time constant of the rate without control.
        open_average = 1.5 "s", 0.3 to 30.0, "harm, phases";
        /// Rate of a test until the queue has drained, as a share of the
        /// average rate without control.
        test_rate = 0.7 "", 0.3 to 0.95, "harm (cubic)";
        /// Queue in targets up to which it counts as drained.
        drained = 1.5 "", 0.5 to 5.0, "harm (cubic)";
        /// Maximum time until the queue has drained.
        test_max = 3.0 "s", 0.5 to 20.0, "rates";
        /// Minimum decrease of the queue, as a share of its maximum.
        progress = 0.1 "", 0.01 to 0.5, "harm (cubic)";
        /// A test without this decrease ends after this time and two RTTs.
        stall = 0.05 "s", 0.01 to 1.0, "harm (cubic)";
        /// Rate of a test after the queue has drained, as a share of the average rate without
        /// control: the test fails if the queue returns.
        hold_rate = 0.95 "", 0.5 to 1.0, "harm (site)";
        /// Time without a queue after which a test at the first queue succeeds.
        hold_first = 0.7 "s", 0.1 to 10.0, "requests";
        /// Time without a queue after which a test after a release succeeds.
        hold = 3.0 "s", 0.5 to 20.0, "harm (site)";
    }
}

impl Constants {
    /// Sets one constant by its name.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), InvalidConstant> {
        let known = Self::LIST.iter().find(|constant| constant.name == name);
        let (Some(constant), Some(slot)) = (known, self.value_mut(name)) else {
            return Err(InvalidConstant::Name(name.to_owned()));
        };
        let [min, max] = constant.range;
        if !(min..=max).contains(&value) {
            return Err(InvalidConstant::Range { name: constant.name, value, min, max });
        }
        *slot = value;
        Ok(())
    }
}

impl fmt::Display for Constants {
    /// The constants that differ from the defaults, in the format of [`Self::from_str`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut changed = *self;
        let mut separator = "";
        for Constant { name, value, .. } in Self::LIST {
            let own = changed.value_mut(name).map_or(*value, |own| *own);
            if (own - value).abs() > 0.0 {
                write!(f, "{separator}{name} = {own}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

impl FromStr for Constants {
    type Err = InvalidConstant;

    /// The defaults with changes, such as `guard.gain=1.2, copa.step=0.3`.
    fn from_str(text: &str) -> Result<Self, InvalidConstant> {
        let mut constants = Self::default();
        for change in text.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            let form = || InvalidConstant::Form(change.to_owned());
            let (name, value) = change.split_once('=').ok_or_else(form)?;
            constants.set(name.trim(), value.trim().parse().map_err(|_| form())?)?;
        }
        Ok(constants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_have_distinct_names() {
        let mut names = Vec::new();
        for constant in Constants::LIST {
            let mut constants = Constants::default();
            constants.set(constant.name, constant.value).unwrap();
            assert_eq!(constants, Constants::default(), "{}", constant.name);
            names.push(constant.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Constants::LIST.len());
    }

    #[test]
    fn the_book_lists_every_constant() {
        let book = include_str!("../../../../docs/src/concepts/bundler.md");
        for Constant { name, value, unit, range: [min, max], source, .. } in Constants::LIST {
            let value = format!("{value} {unit}");
            let row = format!("| `{name}` | {} | {min} to {max} | {source} |", value.trim());
            assert!(book.contains(&row), "{row}");
        }
    }

    #[test]
    fn reads_changes_and_rejects_unknown_names_and_values() {
        let changed: Constants = "guard.gain=1.2, copa.step=0.3".parse().unwrap();
        assert_eq!((changed.guard.gain, changed.copa.step), (1.2, 0.3));
        assert_eq!(changed.to_string(), "copa.step = 0.3, guard.gain = 1.2");
        assert_eq!(changed.to_string().parse(), Ok(changed));
        assert_eq!("".parse(), Ok(Constants::default()));
        for (text, message) in [
            ("gain", "invalid constant `gain`; expected for example `guard.gain=1.2`"),
            (
                "guard.gain=x",
                "invalid constant `guard.gain=x`; expected for example `guard.gain=1.2`",
            ),
            (
                "gain=1",
                "unknown constant `gain`; `netarium reproduce bundler sensitivity` lists all",
            ),
            ("guard.gain=9", "constant `guard.gain` is 9; expected 1.01 to 2"),
        ] {
            assert_eq!(text.parse::<Constants>().unwrap_err().to_string(), message);
        }
    }
}
