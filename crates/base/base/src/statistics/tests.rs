use proptest::prelude::*;

use super::*;
use crate::RandomStream;

/// 97.5 % and 99.5 % points of Student's t distribution, as printed in tables.
const TABLE: &[(f64, f64, f64)] = &[
    (1.0, 12.7062, 63.6567),
    (2.0, 4.3027, 9.9248),
    (3.0, 3.1824, 5.8409),
    (4.0, 2.7764, 4.6041),
    (5.0, 2.5706, 4.0321),
    (9.0, 2.2622, 3.2498),
    (10.0, 2.2281, 3.1693),
    (20.0, 2.0860, 2.8453),
    (30.0, 2.0423, 2.7500),
    (60.0, 2.0003, 2.6603),
    (120.0, 1.9799, 2.6174),
    (1e9, 1.9600, 2.5758),
];

#[test]
fn t_quantiles_equal_table() {
    for (freedom, p95, p99) in TABLE {
        assert!((t_quantile(0.95, *freedom) - p95).abs() < 6e-5, "{freedom}");
        assert!((t_quantile(0.99, *freedom) - p99).abs() < 6e-5, "{freedom}");
    }
}

#[test]
fn probabilities_equal_closed_forms() {
    for t in [1e-6_f64, 0.1, 0.5, 1.0, 1.9, 3.0, 12.0, 1e3] {
        let cauchy = 2.0 * (1.0 / t).atan() / PI;
        assert!((two_sided(t, 1.0) / cauchy - 1.0).abs() < 1e-11, "{t}");
        // 1 - t / sqrt(2 + t^2), without cancellation.
        let root = (2.0 + t * t).sqrt();
        let two = 2.0 / (root * (root + t));
        assert!((two_sided(t, 2.0) / two - 1.0).abs() < 1e-11, "{t}");
    }
}

#[test]
fn sample_of_equal_values_has_no_deviation() {
    let sample = Sample::of(&[0.1; 7]).unwrap();
    assert_eq!(sample, Sample { count: 7, mean: 0.1, deviation: 0.0 });
    assert_eq!(sample.interval(0.95), Some((0.1, 0.1)));
    assert_eq!(MeanTest::new(&sample, &sample), None);
    assert_eq!(Sample::of(&[]), None);
    let one = Sample::of(&[3.0]).unwrap();
    assert_eq!((one.count, one.deviation, one.interval(0.95)), (1, 0.0, None));
    let [low, high] = Sample::of(&[1.0, 2.0, 3.0]).unwrap().interval(0.95).unwrap().into();
    assert!((low + 0.484_138).abs() < 1e-6 && (high - 4.484_138).abs() < 1e-6, "{low} {high}");
}

#[test]
fn welch_test_equals_worked_example() {
    // Means 20.82 and 23.63, standard deviations 2.80 and 2.81 with 10 and 15 values.
    let first = Sample { count: 10, mean: 20.82, deviation: 2.8 };
    let second = Sample { count: 15, mean: 23.63, deviation: 2.81 };
    let test = MeanTest::new(&first, &second).unwrap();
    let error = (2.8_f64.powi(2) / 10.0 + 2.81_f64.powi(2) / 15.0).sqrt();
    assert!((test.error - error).abs() < 1e-12);
    assert!((test.freedom - 19.49).abs() < 0.01, "{}", test.freedom);
    let p = test.p_value(second.mean - first.mean, 0.0);
    assert!((p - 0.0236).abs() < 5e-4, "{p}");
    assert!((test.p_value(2.81, 3.0) - 1.0).abs() < 1e-15);
}

#[test]
fn holm_equals_worked_example() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    let expected = [0.03, 0.06, 0.06, 0.02];
    assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
    assert!(holm(&[]).is_empty());
}

/// Normal values with a mean and a standard deviation.
fn normal(random: &mut RandomStream, count: usize, mean: f64, deviation: f64) -> Sample {
    let values: Vec<f64> = (0..count).map(|_| mean + deviation * random.normal()).collect();
    Sample::of(&values).unwrap()
}

/// The share of trials with a p-value of at most 5 %.
fn alarms(trials: u32, mut p_value: impl FnMut() -> f64) -> f64 {
    let alarms = (0..trials).filter(|_| p_value() <= 0.05).count();
    alarms as f64 / f64::from(trials)
}

#[test]
fn false_alarm_rate_is_the_level() {
    let mut random = RandomStream::new(1, "false alarms");
    for (one, two, spread) in [(5, 5, 1.0), (3, 10, 1.0), (5, 8, 4.0), (20, 20, 2.0), (1, 6, 1.0)] {
        let rate = alarms(4000, || {
            let first = normal(&mut random, one, 10.0, 1.0);
            let second = normal(&mut random, two, 10.0, spread);
            let test = MeanTest::new(&first, &second).unwrap();
            test.p_value(second.mean - first.mean, 0.0)
        });
        // Four standard errors of the estimate are 1.4 %; Welch's test is approximate.
        assert!((0.03..0.07).contains(&rate), "{one} {two} {spread}: {rate}");
    }
}

#[test]
fn false_alarm_rate_of_a_family_is_at_most_the_level() {
    let mut random = RandomStream::new(2, "family");
    let rate = alarms(1000, || {
        let p_values: Vec<f64> = (0..30)
            .map(|_| {
                let [first, second] = [(), ()].map(|()| normal(&mut random, 6, 0.0, 1.0));
                let test = MeanTest::new(&first, &second).unwrap();
                test.p_value(second.mean - first.mean, 0.0)
            })
            .collect();
        holm(&p_values).into_iter().fold(1.0, f64::min)
    });
    assert!(rate < 0.05 + 4.0 * 0.007, "{rate}");
}

#[test]
fn difference_is_found_and_difference_within_margin_is_not() {
    let mut random = RandomStream::new(3, "power");
    let mut rate = |shift: f64, margin: f64| {
        alarms(1000, || {
            let first = normal(&mut random, 10, 100.0, 1.0);
            let second = normal(&mut random, 10, 100.0 + shift, 1.0);
            let test = MeanTest::new(&first, &second).unwrap();
            test.p_value(second.mean - first.mean, margin)
        })
    };
    // Three standard deviations, and a standard error of 0.45.
    assert!(rate(3.0, 0.0) > 0.99);
    assert!(rate(8.0, 5.0) > 0.99);
    // If the true difference equals the margin, only one tail of the distribution rejects.
    assert!(rate(5.0, 5.0) < 0.05);
    assert!(rate(3.0, 5.0) < 0.001);
}

proptest! {
    #[test]
    fn quantile_inverts_probability(confidence in 0.01..0.999_f64, freedom in 0.5..500.0_f64) {
        let p = two_sided(t_quantile(confidence, freedom), freedom);
        prop_assert!((p - (1.0 - confidence)).abs() < 1e-10, "{}", p);
    }

    #[test]
    fn probability_falls_with_distance(
        t in 0.0..1e6_f64,
        more in 0.0..10.0_f64,
        freedom in 0.5..1e6_f64,
    ) {
        let (near, far) = (two_sided(t, freedom), two_sided(t + more, freedom));
        prop_assert!((0.0..=1.0).contains(&near) && far <= near + 1e-12);
    }

    #[test]
    fn holm_is_between_the_value_and_bonferroni(
        p_values in prop::collection::vec(0.0..=1.0_f64, 0..20),
    ) {
        for (p, adjusted) in p_values.iter().zip(holm(&p_values)) {
            let bonferroni = (p * p_values.len() as f64).min(1.0);
            prop_assert!(*p <= adjusted && adjusted <= bonferroni);
        }
    }
}
