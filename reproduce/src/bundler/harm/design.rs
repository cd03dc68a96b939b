//! The settings: those that once did harm, and a randomised design around them.

use base::RandomStream;

/// A lab with values for some of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Setting {
    pub(in super::super) name: String,
    pub(in super::super) lab: &'static str,
    pub(in super::super) set: Vec<(String, String)>,
}

const ALONE: &str = "bundler/harm.toml";
const BESIDE: &str = "bundler/harm-cross.toml";
const SIZES: &str = r#"{ table = [["0 B", "0 %"], ["10 kB", "97.6 %"], ["100 kB", "99.5 %"], ["1 MB", "99.9 %"], ["5 MB", "99.98 %"], ["20 MB", "100 %"]] }"#;

impl Setting {
    fn new(name: impl Into<String>, lab: &'static str) -> Self {
        Self { name: name.into(), lab, set: Vec::new() }
    }

    fn set(mut self, field: &str, value: impl Into<String>) -> Self {
        self.set.push((field.to_owned(), value.into()));
        self
    }

    /// What differs behind the bottleneck, on the way to the clients.
    fn path(self, properties: &str) -> Self {
        self.set("link.path.up", format!("{{ {properties} }}"))
    }

    fn cross(self, values: &[(&str, &str)]) -> Self {
        values
            .iter()
            .fold(self, |setting, (key, value)| setting.set(&format!("flow.cross.{key}"), *value))
    }

    /// The bottleneck's rate, round trip and buffer in bandwidth-delay products of the path.
    fn bottleneck(self, mbits: f64, round_trip_ms: f64, buffer: f64) -> Self {
        let quarter = format!("{} us", (round_trip_ms * 250.0).round());
        self.set("link.bottleneck.rate", format!("{mbits} Mbit/s"))
            .set("link.bottleneck.delay", quarter.clone())
            .set("link.path.delay", quarter)
            .set("link.bottleneck.queue", format!("{} bdp", 2.0 * buffer))
    }
}

/// Short transfers of others that make up this share of the bottleneck's rate.
fn requests(name: &str, load: &str) -> Setting {
    let arrivals = format!("{{ load = \"{load}\", of = \"bottleneck\" }}");
    Setting::new(name, BESIDE).cross(&[
        ("from", "outside2"),
        ("to", "outside1"),
        ("request", "40 B"),
        ("response", SIZES),
        ("arrivals", &arrivals),
        ("streams", "50"),
    ])
}

/// One of the impairments and kinds of cross traffic.
fn kind(kind: usize, mbits: f64) -> Setting {
    let rate = |share: f64| format!("{} kbit/s", (share * mbits * 1e3).round());
    let elastic = |name: &str, control: &str, streams: &str, start: &str| {
        Setting::new(name, BESIDE).cross(&[
            ("control", control),
            ("streams", streams),
            ("start", start),
        ])
    };
    let udp = |name: &str, share: f64, pattern: &str| {
        let values = [("transport", "udp"), ("rate", &rate(share)), ("pattern", pattern)];
        Setting::new(name, BESIDE).cross(&values)
    };
    let video = format!("{} kB", (mbits * 90.0).round());
    match kind {
        0 => Setting::new("alone", ALONE),
        1 => Setting::new("loss-0.1", ALONE).path("loss = \"0.1 %\""),
        2 => Setting::new("loss-1", ALONE).path("loss = \"1 %\""),
        3 => Setting::new("loss-2", ALONE).path("loss = \"2 %\""),
        4 => Setting::new("loss-3", ALONE).path("loss = \"3 %\""),
        5 => Setting::new("loss-5", ALONE).path("loss = \"5 %\""),
        6 => Setting::new("loss-bursts", ALONE)
            .path(r#"loss = { model = "gilbert-elliott", p = "0.1 %", r = "10 %" }"#),
        7 => Setting::new("jitter-1", ALONE).path("jitter = \"1 ms\""),
        8 => Setting::new("jitter-5", ALONE).path("jitter = \"5 ms\""),
        9 => Setting::new("jitter-8", ALONE).path("jitter = \"8 ms\""),
        10 => Setting::new("jitter-15", ALONE).path("jitter = \"15 ms\""),
        11 => Setting::new("jitter-uniform", ALONE)
            .path(r#"jitter = { distribution = "uniform", spread = "5 ms" }"#),
        12 => Setting::new("jitter-pareto", ALONE)
            .path(r#"jitter = { distribution = "pareto", mean = "3 ms" }"#),
        13 => Setting::new("jitter-correlated", ALONE).path(
            r#"jitter = { distribution = "normal", deviation = "5 ms", correlation = "80 %" }"#,
        ),
        14 => elastic("cubic", "cubic", "1", "0 s"),
        15 => elastic("cubic-later", "cubic", "1", "8 s"),
        16 => elastic("reno", "reno", "1", "0 s"),
        17 => elastic("bbr", "bbr", "1", "0 s"),
        18 => elastic("site", "cubic", "5", "0 s"),
        19 => elastic("site-later", "cubic", "5", "8 s"),
        20 => udp("constant", 0.6, "constant"),
        21 => udp("on-off", 0.6, r#"{ on = "1 s", off = "1 s" }"#),
        22 => udp("on-off-random", 0.6, r#"{ on = "4 s", off = "4 s", exponential = true }"#),
        23 => Setting::new("video", BESIDE)
            .cross(&[("size", &video), ("arrivals", r#"{ every = "2 s" }"#)]),
        24 => requests("requests-20", "20 %"),
        25 => requests("requests-50", "50 %"),
        26 => Setting::new("codel", ALONE).set("link.bottleneck.queue", "codel"),
        27 => Setting::new("fq-codel", ALONE)
            .set("link.bottleneck.queue", r#"{ kind = "fq-codel", ecn = false }"#),
        28 => Setting::new("policer", ALONE)
            .set("link.bottleneck.rate", format!("{} Mbit/s", 2.0 * mbits))
            .set("flow.requests.arrivals.load", "12.5 %")
            .set(
                "link.bottleneck.queue",
                format!(
                    "{{ kind = \"policer\", rate = \"{mbits} Mbit/s\", burst = \"{} kB\" }}",
                    (mbits * 3.0).round()
                ),
            ),
        _ => Setting::new("ack-loss", ALONE).set("bundle.site.feedback", r#"{ loss = "30 %" }"#),
    }
}

const KINDS: usize = 30;

/// At 33 Mbit/s, 60 ms and 2 bandwidth-delay products.
pub(super) fn fixed() -> Vec<Setting> {
    let mut settings: Vec<Setting> = (0..KINDS).map(|index| kind(index, 33.0)).collect();
    let others =
        [("slow", 7.0, 5.0, 2.0), ("fast", 100.0, 20.0, 1.0), ("shallow", 33.0, 60.0, 0.25)];
    settings.extend(others.map(|(name, mbits, round_trip_ms, buffer)| {
        kind(0, mbits).bottleneck(mbits, round_trip_ms, buffer).called(name)
    }));
    settings
}

/// The settings of [`fixed`] with these names.
pub(in super::super) fn named(names: &[&str]) -> Vec<Setting> {
    fixed().into_iter().filter(|setting| names.contains(&setting.name.as_str())).collect()
}

/// The settings for the wall clock: the worst of the first report, and those that still do harm.
pub(super) fn checked() -> Vec<Setting> {
    named(&[
        "alone",
        "loss-2",
        "loss-5",
        "loss-bursts",
        "jitter-8",
        "video",
        "requests-50",
        "on-off",
        "site",
        "bbr",
    ])
}

impl Setting {
    fn called(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

/// One of the kinds at a rate, a round trip and a buffer drawn at random.
pub(super) fn random(index: usize, stream: &mut RandomStream) -> Setting {
    // Rates are bounded so that a run takes seconds: a path of 300 Mbit/s is 800 packets in 30 ms.
    let mut between = |low: f64, high: f64| low * (high / low).powf(stream.unit());
    let (mbits, round_trip_ms) = (between(5.0, 300.0).round(), between(2.0, 300.0).round());
    let buffer = (between(0.25, 8.0) * 100.0).round() / 100.0;
    let setting = kind(index % KINDS, mbits);
    let name = format!("{}-{mbits}-{round_trip_ms}-{buffer}", setting.name);
    let own: Vec<(String, String)> = setting.set.clone();
    let mut placed = Setting::new(name, setting.lab).bottleneck(mbits, round_trip_ms, buffer);
    // What the kind sets goes before.
    placed.set.retain(|(field, _)| own.iter().all(|(other, _)| other != field));
    placed.set.extend(own);
    placed
}
