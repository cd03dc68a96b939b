use proptest::prelude::*;

use super::*;

fn metric(name: &str, values: &[f64]) -> MetricSummary {
    let unit = if name.contains(".retransmits") { Unit::Count } else { Unit::Rate };
    MetricSummary { unit, sample: Sample::of(values).unwrap() }
}

pub(crate) fn summary(metrics: &[(&str, &[f64])]) -> Summary {
    let runs = metrics.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
    Summary {
        schema: SCHEMA.to_owned(),
        version: "1".to_owned(),
        name: "pair".to_owned(),
        clock: Clock::Virtual,
        lab: "00c0ffee00c0ffee".to_owned(),
        seeds: (1..=runs as u64).collect(),
        outcome: Some(RunOutcome::Passed),
        runs: Vec::new(),
        metrics: metrics
            .iter()
            .map(|(name, values)| ((*name).to_owned(), metric(name, values)))
            .collect(),
    }
}

fn read(text: &str) -> Result<Summary, SummaryError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    std::fs::write(&path, text).unwrap();
    Summary::read(&path)
}

#[test]
fn file_has_one_line_per_metric() {
    let mut summary =
        summary(&[("flow.a.goodput.mean", &[1.0, 2.0, 3.0]), ("run.duration", &[5.0])]);
    let text = summary.to_json().unwrap();
    let line = "    \"flow.a.goodput.mean\": {\"unit\":\"bit/s\",\"n\":3,\"mean\":2.0,\"sd\":1.0,";
    assert!(text.lines().any(|found| found.starts_with(line)), "{text}");
    assert!(
        text.contains("\"run.duration\": {\"unit\":\"bit/s\",\"n\":1,\"mean\":5.0,\"sd\":0.0}")
    );
    assert_eq!(read(&text).unwrap(), summary);
    let seed_and_outcome = (Some(RunOutcome::Passed), Some(Exit::Ok));
    let (outcome, exit_code) = seed_and_outcome;
    summary.runs.push(SetRun { folder: "pair-1".to_owned(), seed: 1, outcome, exit_code });
    assert_eq!(read(&summary.to_json().unwrap()).unwrap(), summary);
    let chosen = BTreeSet::from(["run.duration".to_owned()]);
    let baseline = summary.baseline(&chosen);
    assert_eq!((baseline.metrics.len(), baseline.runs.len()), (1, 0));
}

#[test]
fn errors_have_file_and_position() {
    let good = summary(&[("a", &[1.0, 2.0])]).to_json().unwrap();
    let cases = [
        (good.replace("\"n\":2", "\"n\":0"), "invalid n = 0: expected at least 1"),
        (good.replace("\"n\":2,", ""), "missing field `n`"),
        (good.replace("\"mean\":1.5", "\"mean\":1e999"), "number out of range"),
        (good.replace("\"sd\":0", "\"sd\":-0"), "invalid sd = -0.7"),
        (good.replace("bit/s", "furlong"), "unknown variant `furlong`"),
        (good.replace("\"virtual\"", "\"lunar\""), "unknown variant `lunar`"),
        (good[..good.len() / 2].to_owned(), "EOF while parsing"),
        ("[".repeat(100_000), "invalid type: sequence"),
        (String::new(), "EOF while parsing"),
    ];
    for (text, expected) in cases {
        let error = read(&text).unwrap_err().to_string();
        let position = error.split_once("baseline.json:").map(|(_, rest)| rest);
        let line = position.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
        assert!(line.is_some() && error.contains(expected), "{error}");
        assert!(!error.contains("column"), "{error}");
    }
    let error = read(&good.replace(SCHEMA, "netarium.run/1")).unwrap_err().to_string();
    assert!(error.ends_with("expected the schema netarium.summary/1, found `netarium.run/1`"));
    assert!(Summary::read(Path::new("/nonexistent/file")).is_err());
}

#[test]
fn file_above_the_maximum_size_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
    let error = Summary::read(&path).unwrap_err();
    assert!(matches!(error, SummaryError::TooLarge { .. }), "{error}");
}

#[test]
fn lab_hash_ignores_comments_and_seed() {
    let lab = "# Resolved\n# sweep: a = 1\n[lab]\nname = \"a\"\nseed = 1\n\n[x]\nseed = 3\n";
    let other = lab.replace("seed = 1", "seed = 2").replace("a = 1", "a = 2");
    assert_eq!(without_seed(lab), without_seed(&other));
    assert_ne!(without_seed(lab), without_seed(&lab.replace("seed = 3", "seed = 4")));
}

#[test]
fn default_metrics_are_one_or_few_per_measure() {
    let shown = ["flow.a.goodput.mean", "flow.a.completion", "link.a.up.queue.max", "run.duration"];
    assert!(shown.into_iter().all(is_default));
    let omitted = ["run.lateness.p99", "flow.a.rtt.min", "flow.a.rtt.p999", "link.a.up.delay.max"];
    assert!(!omitted.into_iter().any(is_default));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(Summary::read(&path).is_err());
    }

    #[test]
    fn damaged_file_is_read_or_rejected(at in 0..600_usize, byte in any::<u8>()) {
        let mut text = summary(&[("a", &[1.0, 2.0]), ("b", &[3.0])]).to_json().unwrap().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        if let Ok(summary) = Summary::read(&path) {
            prop_assert!(summary.metrics.values().all(|metric| metric.sample.count > 0));
        }
    }

    #[test]
    fn file_round_trips(values in prop::collection::vec(-1e12..1e12_f64, 1..9)) {
        let written = summary(&[("a", &values)]);
        let found = read(&written.to_json().unwrap()).unwrap();
        let (a, b) = (written.metrics["a"].sample, found.metrics["a"].sample);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-14 * a.abs().max(b.abs());
        prop_assert!(near(a.mean, b.mean) && near(a.deviation, b.deviation) && a.count == b.count);
    }
}
