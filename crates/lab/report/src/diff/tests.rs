use base::RandomStream;

use super::*;
use crate::summary::tests::summary;

fn side(metrics: &[(&str, &[f64])]) -> Side {
    Side { summary: summary(metrics), lab: None, is_stored: false }
}

fn choice(metrics: &[&str], tolerances: &[&str]) -> Choice {
    let tolerance = |text: &&str| text.parse().unwrap();
    Choice {
        metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
        tolerances: tolerances.iter().map(tolerance).collect(),
    }
}

fn changed(first: &Side, second: &Side, choice: &Choice) -> Vec<String> {
    let diff = compare(first, second, choice).unwrap();
    diff.changed().map(|change| change.metric.clone()).collect()
}

const GOODPUT: &str = "flow.a.goodput.mean";
const RETRANSMITS: &str = "flow.a.retransmits.sum";

#[test]
fn single_values_are_compared_exactly() {
    let first = side(&[(GOODPUT, &[100.0]), (RETRANSMITS, &[0.0])]);
    let second = side(&[(GOODPUT, &[101.0]), (RETRANSMITS, &[0.0])]);
    assert!(changed(&first, &first, &Choice::default()).is_empty());
    assert_eq!(changed(&first, &second, &Choice::default()), [GOODPUT]);
    assert_eq!(changed(&first, &second, &choice(&[], &["0.9 %"])), [GOODPUT]);
    assert!(changed(&first, &second, &choice(&[], &["1 %"])).is_empty());
    assert!(changed(&first, &second, &choice(&["*.retransmits"], &[])).is_empty());
    let rounded = side(&[(GOODPUT, &[100.0 * (1.0 + f64::EPSILON)]), (RETRANSMITS, &[0.0])]);
    assert!(changed(&first, &rounded, &Choice::default()).is_empty());
}

#[test]
fn named_tolerance_precedes_that_of_all_metrics() {
    let first = side(&[(GOODPUT, &[100.0]), (RETRANSMITS, &[10.0])]);
    let second = side(&[(GOODPUT, &[90.0]), (RETRANSMITS, &[12.0])]);
    let tolerances = |texts: &[&str]| changed(&first, &second, &choice(&[], texts));
    assert_eq!(tolerances(&["flow.*.goodput=10 %", "1 %"]), [RETRANSMITS]);
    assert_eq!(tolerances(&["*.goodput.mean=10 bit/s", "*.retransmits=1"]), [RETRANSMITS]);
    // Only increases, only decreases.
    assert_eq!(tolerances(&["+1 %"]), [RETRANSMITS]);
    assert_eq!(tolerances(&["-1 %"]), [GOODPUT]);
    assert_eq!(tolerances(&["flow.a.goodput=+1 %"]), [RETRANSMITS]);
    let error = compare(&first, &second, &choice(&[], &["2 ms"])).unwrap_err();
    let text = "tolerance `2 ms` does not fit flow.a.goodput.mean, whose unit is bit/s";
    assert_eq!(error.to_string(), text);
    for text in ["", "=5 %", "a=", "-", "five", "5 apples", "-5", "nan", "inf"] {
        let parsed = text.parse::<Tolerance>();
        assert_eq!(parsed.is_err(), text != "-5", "{text}: {parsed:?}");
    }
}

#[test]
fn pattern_without_a_match_suggests_names() {
    let one = side(&[(GOODPUT, &[1.0])]);
    let error = compare(&one, &one, &choice(&["flow.a.godput.mean"], &[])).unwrap_err();
    let help = "did you mean `flow.a.goodput.mean`?".to_owned();
    let pattern = "flow.a.godput.mean".to_owned();
    assert_eq!(error, ChoiceError::Unmatched { pattern, help });
}

#[test]
fn metric_of_one_side_is_named() {
    let first = side(&[(GOODPUT, &[1.0]), ("flow.a.completion", &[1.0])]);
    let second = side(&[(GOODPUT, &[1.0]), ("flow.b.completion", &[1.0])]);
    let diff = compare(&first, &second, &Choice::default()).unwrap();
    assert_eq!(
        (&*diff.only_first, &*diff.only_second),
        (&["flow.a.completion".to_owned()][..], &["flow.b.completion".to_owned()][..],)
    );
    assert!(!diff.is_unchanged());
    // A stored baseline chooses its own metrics.
    let stored = Side { is_stored: true, ..side(&[(GOODPUT, &[1.0])]) };
    let diff = compare(&stored, &second, &Choice::default()).unwrap();
    assert!(diff.is_unchanged() && diff.changes.len() == 1, "{diff:?}");
}

/// A set of `count` runs with values around `mean`, for each of `metrics` metrics.
fn set(random: &mut RandomStream, metrics: usize, count: usize, mean: f64) -> Side {
    let names: Vec<String> = (0..metrics).map(|number| format!("flow.{number}.rtt.p50")).collect();
    let values: Vec<Vec<f64>> =
        (0..metrics).map(|_| (0..count).map(|_| mean + random.normal()).collect()).collect();
    let all: Vec<(&str, &[f64])> = names
        .iter()
        .zip(&values)
        .map(|(name, values)| (name.as_str(), values.as_slice()))
        .collect();
    side(&all)
}

#[test]
fn sets_without_difference_rarely_raise_an_alarm() {
    let mut random = RandomStream::new(1, "sets");
    for (one, two) in [(8, 8), (1, 8), (8, 1)] {
        let alarms = (0..400)
            .filter(|_| {
                let first = set(&mut random, 20, one, 50.0);
                let second = set(&mut random, 20, two, 50.0);
                !changed(&first, &second, &Choice::default()).is_empty()
            })
            .count();
        // 5 % of 400 and four standard deviations.
        assert!(alarms <= 20 + 18, "{one} {two}: {alarms}");
    }
}

#[test]
fn difference_of_sets_is_found_beyond_the_tolerance_only() {
    let mut random = RandomStream::new(2, "sets");
    let first = set(&mut random, 20, 8, 50.0);
    let second = set(&mut random, 20, 8, 60.0);
    let single = set(&mut random, 20, 1, 65.0);
    assert_eq!(changed(&first, &second, &Choice::default()).len(), 20);
    assert_eq!(changed(&first, &single, &choice(&["flow.0.*"], &[])).len(), 1);
    assert!(changed(&first, &second, &choice(&[], &["30 %"])).is_empty());
    let diff = compare(&first, &second, &Choice::default()).unwrap();
    let (low, high) = diff.changes[0].interval().unwrap();
    assert!(low < 10.0 && 10.0 < high && low > 5.0, "{low} {high}");
}

#[test]
fn constant_metrics_have_no_test() {
    let first = side(&[("flow.a.timeouts", &[0.0; 5]), (GOODPUT, &[5.0; 5])]);
    let second = side(&[("flow.a.timeouts", &[0.0; 5]), (GOODPUT, &[6.0; 5])]);
    let diff = compare(&first, &second, &Choice::default()).unwrap();
    assert!(diff.changes.iter().all(|change| change.p_value.is_none()));
    assert_eq!(diff.changed().map(|c| c.metric.as_str()).collect::<Vec<_>>(), [GOODPUT]);
}

#[test]
fn table_shows_changes_in_80_columns() {
    let long = "link.a-very-long-name-of-a-link-between-routers.down.utilisation.mean";
    let first = side(&[(long, &[0.5, 0.51, 0.52]), (GOODPUT, &[9.41e6, 9.41e6, 9.41e6])]);
    let second = side(&[(long, &[0.7, 0.71, 0.72]), (GOODPUT, &[9.41e6, 9.41e6, 9.41e6])]);
    let diff = compare(&first, &second, &Choice::default()).unwrap();
    let text = diff.text(false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("+39.2 ±4.4 %") && text.contains("<0.001"), "{text}");
    assert!(text.contains("2 metrics compared, 1 changed") && !text.contains(GOODPUT), "{text}");
    assert!(diff.text(true).contains(GOODPUT));
    let same = compare(&first, &first, &Choice::default()).unwrap();
    assert_eq!(same.text(false), "2 metrics compared, none changed\n");
}
