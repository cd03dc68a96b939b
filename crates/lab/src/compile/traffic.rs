//! What a built-in flow does: the kind that its keys make, and what that kind draws.

use std::sync::Arc;

use base::{Bytes, Span};
use ratecontrol::Protocol;
use transport::workload::{Arrivals, DatagramTrace, Pattern, SizeTable, Sizes, Think};

use super::Compiler;
use super::queue::mean_rate;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::plan::{Pause, Tcp, Traffic};
use crate::tree::{At, Table, Value};
use crate::validate::list_words;

/// What a flow's keys make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bulk,
    Transfers,
    Rpc,
    Requests,
    Queries,
    Udp,
}

impl Kind {
    fn of(table: &Table) -> Self {
        let has = |keys: &[&str]| keys.iter().any(|key| table.get(key).is_some());
        let drawn = table.get("size").is_some_and(|size| size.table().is_some());
        if table.text("transport") == Some("udp") {
            if has(&["request", "response"]) { Self::Queries } else { Self::Udp }
        } else if has(&["request", "response"]) && has(&["arrivals"]) {
            Self::Requests
        } else if has(&["request", "response", "interval"]) {
            Self::Rpc
        } else if drawn || has(&["arrivals"]) || has(&["size"]) && has(&["count", "think"]) {
            Self::Transfers
        } else if has(&["count", "think"]) {
            Self::Rpc
        } else {
            Self::Bulk
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Bulk => "a TCP flow",
            Self::Transfers => "a flow of transfers",
            Self::Rpc => "a request-response flow",
            Self::Requests => "a flow of requests with `arrivals`",
            Self::Queries => "requests over UDP",
            Self::Udp => "a UDP flow",
        }
    }

    /// Keys that do nothing here.
    const fn without(self) -> &'static [&'static str] {
        match self {
            Self::Bulk => &["packet", "pattern", "timeout"],
            Self::Transfers => {
                &["rate", "pause", "packet", "pattern", "streams", "message", "timeout"]
            }
            Self::Rpc => &[
                "rate", "pause", "packet", "pattern", "streams", "message", "size", "arrivals",
                "timeout",
            ],
            Self::Requests => &[
                "rate", "pause", "packet", "pattern", "message", "size", "think", "interval",
                "timeout",
            ],
            Self::Queries => &[
                "rate", "pause", "packet", "pattern", "streams", "message", "size", "arrivals",
                "ecn", "window", "control",
            ],
            Self::Udp => &[
                "pause", "streams", "message", "request", "response", "count", "interval", "ecn",
                "window", "arrivals", "think", "timeout",
            ],
        }
    }
}

impl Compiler<'_> {
    /// What `flows` flows of one entry do, each.
    pub(super) fn traffic(&mut self, table: &Table, flows: usize, at: &At) -> Option<Traffic> {
        let kind = Kind::of(table);
        self.check_multipath_keys(table, kind == Kind::Requests, at);
        for key in kind.without() {
            let Some(entry) = table.entry(key) else { continue };
            let message = format!("`{key}` has no effect on {}", kind.noun());
            self.sink.report(Code::Conflict, &entry.key_at, message).help(match *key {
                "rate" if kind != Kind::Queries => "bulk flows over TCP and UDP flows have a rate",
                "packet" | "pattern" | "rate" => "say `transport = \"udp\"`, or drop it",
                "size" => "a request-response flow has a `count`",
                "pause" => "receivers of bulk flows over TCP can pause",
                "arrivals" if kind == Kind::Rpc => "`interval` and `think` space its requests",
                _ => "drop it",
            });
        }
        match kind {
            Kind::Udp => match table.get("control") {
                Some(control) => self.controlled(table, control),
                None => self.paced(table, at),
            },
            Kind::Rpc => Some(Traffic::Rpc {
                request: self.drawn(table, "request", Bytes::new(64))?,
                response: self.drawn(table, "response", Bytes::new(1000))?,
                count: count(table),
                interval: table.span("interval").unwrap_or(Span::ZERO),
                think: think(table),
                tcp: self.tcp(table),
            }),
            Kind::Requests => self.requests(table, flows),
            Kind::Queries => self.queries(table),
            Kind::Transfers => self.transfers(table, flows, at),
            Kind::Bulk => Some(Traffic::Bulk {
                size: table.bytes("size"),
                rate: table.bandwidth("rate"),
                pause: self.pause(table),
                tcp: self.tcp(table),
                streams: streams(table),
                message: table.bytes("message"),
            }),
        }
    }

    fn pause(&mut self, table: &Table) -> Option<Pause> {
        let value = table.get("pause")?;
        let moment = |value: &Value| value.text()?.parse().ok();
        let [from, until] = value.list()? else { return None };
        let (from, until) = (moment(from)?, moment(until)?);
        if from >= until {
            self.sink
                .report(Code::OutOfRange, &value.at, "this pause ends before it begins")
                .help("first when it begins, then when it ends, both after the flow's start");
            return None;
        }
        Some(Pause { from, until })
    }

    fn transfers(&mut self, table: &Table, flows: usize, at: &At) -> Option<Traffic> {
        let Some(size) = table.get("size") else {
            self.sink
                .report(Code::MissingKey, at, "a flow with `arrivals` needs `size`")
                .help("the payload of each transfer, such as `size = \"100 kB\"`");
            return None;
        };
        let sizes = self.sizes(size)?;
        let arrivals = match (table.entry("arrivals"), table.entry("think")) {
            (Some(open), Some(closed)) => {
                self.sink
                    .report(
                        Code::Conflict,
                        &closed.key_at,
                        "`arrivals` and `think` exclude each other",
                    )
                    .also(&open.key_at, "transfers start whether or not others have ended")
                    .help("`think` is for a closed loop: each transfer waits for the one before");
                return None;
            }
            (Some(open), None) => self.arrivals(&open.value, &sizes, flows)?,
            (None, _) => Arrivals::Closed(think(table)),
        };
        Some(Traffic::Transfers { sizes, arrivals, count: count(table), tcp: self.tcp(table) })
    }

    fn requests(&mut self, table: &Table, flows: usize) -> Option<Traffic> {
        let response = self.drawn(table, "response", Bytes::new(1000))?;
        let arrivals = self.arrivals(&table.entry("arrivals")?.value, &response, flows)?;
        Some(Traffic::Requests {
            request: self.drawn(table, "request", Bytes::new(64))?,
            response,
            arrivals,
            count: count(table),
            streams: streams(table),
            tcp: self.tcp(table),
        })
    }

    fn queries(&mut self, table: &Table) -> Option<Traffic> {
        let most = self.largest_datagram(table);
        let mut size = |key: &str, default: u64| {
            let Some(value) = table.get(key) else { return Some(Bytes::new(default)) };
            let range = Bytes::new(16)..=most;
            let fixed = value.text().and_then(|text| text.parse().ok());
            let fit = fixed.filter(|size| range.contains(size));
            if fit.is_none() {
                let message = format!("`{key}` over UDP is one datagram of one size");
                self.sink
                    .report(Code::OutOfRange, &value.at, message)
                    .help(format!("from 16 B to {most}"));
            }
            fit
        };
        let (request, response) = (size("request", 64), size("response", 1000));
        Some(Traffic::Queries {
            request: request?,
            response: response?,
            count: count(table),
            interval: table.span("interval").unwrap_or(Span::ZERO),
            think: think(table),
            timeout: table.span("timeout").unwrap_or(Span::from_secs(1)),
        })
    }

    fn tcp(&mut self, table: &Table) -> Tcp {
        Tcp {
            control: self.control(table),
            ecn: table.flag("ecn").unwrap_or(false),
            window: table.bytes("window"),
            multipath: None,
        }
    }

    /// One that simulations, some Linux kernel, or this machine's kernel has.
    fn control(&mut self, table: &Table) -> Option<String> {
        let value = table.get("control")?;
        let name = value.text()?;
        self.refuse_protocol_for_tcp(name, &value.at);
        let known = self.files.congestion_controls();
        let is_protocol = name.parse::<Protocol>().is_ok();
        if !is_protocol && !known.iter().any(|known| known == name) {
            let help = suggest(name, known.iter().map(String::as_str), "congestion controls");
            let message = format!("`{name}` is not a known TCP congestion control");
            self.sink.report(Code::BadName, &value.at, message).help(help);
        }
        Some(name.to_owned())
    }

    fn drawn(&mut self, table: &Table, key: &str, default: Bytes) -> Option<Sizes> {
        match table.get(key) {
            Some(value) => self.sizes(value),
            None => Some(Sizes::Fixed(default)),
        }
    }

    /// The one key of `keys` that a table has.
    fn only<'t>(&mut self, value: &Value, table: &'t Table, keys: &[&'t str]) -> Option<&'t str> {
        let found: Vec<&str> =
            keys.iter().copied().filter(|key| table.get(key).is_some()).collect();
        if let [key] = found.as_slice() {
            return Some(key);
        }
        let known = list_words(keys.iter().copied());
        let (code, message) = if found.is_empty() {
            (Code::MissingKey, format!("this says none of {known}"))
        } else {
            let found = list_words(found.into_iter());
            (Code::Conflict, format!("this says {found} at once"))
        };
        self.sink.report(code, &value.at, message).help(format!("exactly one of {known}"));
        None
    }

    pub(super) fn sizes(&mut self, value: &Value) -> Option<Sizes> {
        if let Some(text) = value.text() {
            return text.parse().ok().map(Sizes::Fixed);
        }
        let table = value.table()?;
        let kind = self.only(value, table, &["exponential", "pareto", "table", "cdf"])?;
        for key in ["shape", "limit"] {
            if let (true, Some(entry)) = (kind != "pareto", table.entry(key)) {
                self.sink
                    .report(Code::Conflict, &entry.key_at, format!("`{key}` needs `pareto`"))
                    .help("drop it");
            }
        }
        match kind {
            "exponential" => table.bytes(kind).map(Sizes::Exponential),
            "pareto" => Some(Sizes::Pareto {
                mean: table.bytes(kind)?,
                shape_milli: (table.number("shape").unwrap_or(1.2) * 1000.0).round() as u32,
                limit: table.bytes("limit"),
            }),
            "table" => self.size_table(table.get(kind)?),
            _ => {
                let path = table.get(kind)?;
                self.files.sizes(path.text()?, &path.at, self.sink).map(Sizes::Table)
            }
        }
    }

    fn size_table(&mut self, value: &Value) -> Option<Sizes> {
        let list = value.list()?;
        let point = |pair: &Value| {
            let [size, share] = pair.list()? else { return None };
            let share: base::Ratio = share.text()?.parse().ok()?;
            Some((size.text()?.parse().ok()?, u32::try_from(share.parts_per_billion()).ok()?))
        };
        let points: Option<Vec<(Bytes, u32)>> = list.iter().map(point).collect();
        match SizeTable::try_new(points?) {
            Ok(table) => Some(Sizes::Table(Arc::new(table))),
            Err(error) => {
                let at = match error {
                    transport::Error::SizeNotRising { entry }
                    | transport::Error::ShareFalls { entry } => list.get(entry - 1),
                    _ => list.last(),
                };
                self.sink
                    .report(Code::BadWorkload, at.map_or(&value.at, |v| &v.at), error.to_string())
                    .help("sizes rise, shares do not fall, and the last is 100 %");
                None
            }
        }
    }

    fn arrivals(&mut self, value: &Value, sizes: &Sizes, flows: usize) -> Option<Arrivals> {
        let table = value.table()?;
        let kind = self.only(value, table, &["poisson", "every", "load"])?;
        if let (true, Some(entry)) = (kind != "load", table.entry("of")) {
            self.sink.report(Code::Conflict, &entry.key_at, "`of` needs `load`").help("drop it");
        }
        match kind {
            "poisson" => table.span(kind).map(Arrivals::Poisson),
            "every" => table.span(kind).map(Arrivals::Every),
            _ => self.load(value, table, sizes, flows),
        }
    }

    /// λ = load × rate / (8 × mean size), shared by the entry's flows.
    fn load(
        &mut self,
        value: &Value,
        table: &Table,
        sizes: &Sizes,
        flows: usize,
    ) -> Option<Arrivals> {
        let share = table.ratio("load")?.as_f64();
        let Some(of) = table.get("of") else {
            self.sink
                .report(Code::MissingKey, &value.at, "`load` needs `of`")
                .help("the link whose rate counts: `{ load = \"60 %\", of = \"core\" }`");
            return None;
        };
        let link = self.link(of)?;
        let directions = &self.plan.links[link.index()].directions;
        let rate = directions.iter().filter_map(|config| mean_rate(&config.rate)).min();
        let Some(rate) = rate else {
            self.sink
                .report(Code::Conflict, &of.at, "a link without a rate has no load")
                .help("give it a `rate`, or say `poisson` or `every`");
            return None;
        };
        let gap = sizes.mean() * 8e9 * flows as f64 / (share * rate.bits_per_sec() as f64);
        if !(1.0..=1e18).contains(&gap) {
            let message = if share > 0.0 {
                format!("this load is a transfer in {gap:.1e} ns")
            } else {
                "a load of 0 % is no traffic".to_owned()
            };
            self.sink
                .report(Code::OutOfRange, &value.at, message)
                .help("a load above 0 %, and sizes that suit the link's rate");
            return None;
        }
        Some(Arrivals::Poisson(Span::from_nanos(gap.round() as u64)))
    }

    fn paced(&mut self, table: &Table, at: &At) -> Option<Traffic> {
        if let Some(size) = table.get("size").filter(|size| size.table().is_some()) {
            self.sink
                .report(Code::Conflict, &size.at, "the size of a UDP flow is not drawn")
                .help("`packet` is the size of its datagrams, `pattern` says when they leave");
        }
        let (pattern, trace) = match table.get("pattern") {
            None => (Pattern::Constant, None),
            Some(value) => self.pattern(value)?,
        };
        if let Some(trace) = trace {
            for key in ["rate", "packet"] {
                if let Some(entry) = table.entry(key) {
                    self.sink
                        .report(Code::Conflict, &entry.key_at, format!("the trace says the {key}"))
                        .help("drop it, or the trace");
                }
            }
            let packet = trace.datagrams.iter().map(|d| d.1).max().unwrap_or(Bytes::ZERO);
            let sum: u128 = trace.datagrams.iter().map(|d| u128::from(d.1.count())).sum();
            let bits = sum * 8 * 1_000_000_000 / u128::from(trace.period.as_nanos().max(1));
            let rate = base::Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX));
            return Some(Traffic::Paced { rate, packet, size: table.bytes("size"), pattern });
        }
        let Some(rate) = table.get("rate") else {
            self.sink
                .report(Code::MissingKey, at, "a UDP flow needs `rate`")
                .help("the rate of its payload, such as `rate = \"1 Mbit/s\"`");
            return None;
        };
        let packet = table.bytes("packet").unwrap_or_else(|| self.largest_datagram(table));
        let rate = rate.text()?.parse().ok()?;
        Some(Traffic::Paced { rate, packet, size: table.bytes("size"), pattern })
    }

    /// The pattern, and its trace if it is one.
    fn pattern(&mut self, value: &Value) -> Option<(Pattern, Option<Arc<DatagramTrace>>)> {
        if let Some(word) = value.text() {
            let poisson = word == "poisson";
            return Some((if poisson { Pattern::Poisson } else { Pattern::Constant }, None));
        }
        let table = value.table()?;
        if let Some(trace) = table.get("trace") {
            if table.entries.len() > 1 {
                self.sink
                    .report(Code::Conflict, &value.at, "a trace says when datagrams leave, alone")
                    .help("drop the other keys");
            }
            let trace = self.datagrams(trace)?;
            return Some((Pattern::Trace(trace.clone()), Some(trace)));
        }
        let (Some(on), Some(off)) = (table.span("on"), table.span("off")) else {
            self.sink
                .report(Code::MissingKey, &value.at, "a pattern says `on` and `off`, or `trace`")
                .help("`{ on = \"1 s\", off = \"500 ms\" }`");
            return None;
        };
        let exponential = table.flag("exponential").unwrap_or(false);
        Some((Pattern::OnOff { on, off, exponential }, None))
    }

    fn datagrams(&mut self, value: &Value) -> Option<Arc<DatagramTrace>> {
        if let Some(path) = value.text() {
            return self.files.datagrams(path, &value.at, self.sink);
        }
        let table = value.table()?;
        let list = table.get("datagrams")?;
        let datagram = |pair: &Value| {
            let [moment, payload] = pair.list()? else { return None };
            Some((moment.text()?.parse().ok()?, payload.text()?.parse().ok()?))
        };
        let datagrams: Option<Vec<(Span, Bytes)>> = list.list()?.iter().map(datagram).collect();
        match DatagramTrace::try_new(datagrams?, table.span("period")?) {
            Ok(trace) => Some(Arc::new(trace)),
            Err(error) => {
                self.sink
                    .report(Code::BadWorkload, &list.at, error.to_string())
                    .help("moments do not decrease, and the last is not after `period`");
                None
            }
        }
    }
}

fn count(table: &Table) -> Option<u64> {
    table.whole("count").and_then(|count| u64::try_from(count).ok())
}

fn streams(table: &Table) -> u32 {
    table.whole("streams").and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
}

fn think(table: &Table) -> Think {
    match table.table("think").and_then(|table| table.span("exponential")) {
        Some(mean) => Think::Exponential(mean),
        None => Think::Fixed(table.span("think").unwrap_or(Span::ZERO)),
    }
}
