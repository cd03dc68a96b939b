//! Traffic of built-in flows: the kind that the keys select, and its random parameters.

use std::sync::Arc;

use base::{Bandwidth, Bytes, Ratio, Span};
use ratecontrol::Protocol;
use workload::{
    Arrivals, DatagramTrace, Lengths, OnOff, Pattern, Queries, Requests, Rpc, SizeTable, Sizes,
    Think, Transfers,
};

use super::Compiler;
use super::queue::mean_rate;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{
    ARRIVALS, DATAGRAMS, FLOW, Field, Key, Kind as _, Name, PATTERN, Raw, SIZES, THINK,
};
use crate::plan::{Pause, Tcp, Traffic};
use crate::tree::{At, Table, Value};
use crate::validate::list_words;

/// The kind of traffic that a flow's keys select.
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
        let has = |keys: &[&Field]| keys.iter().any(|key| table.get(key).is_some());
        let drawn = table.get(FLOW.size).is_some_and(|size| size.table().is_some());
        if table.read(FLOW.transport) == "udp" {
            if has(&keys!(FLOW: request, response)) { Self::Queries } else { Self::Udp }
        } else if has(&keys!(FLOW: request, response)) && has(&keys!(FLOW: arrivals)) {
            Self::Requests
        } else if has(&keys!(FLOW: request, response, interval)) {
            Self::Rpc
        } else if drawn
            || has(&keys!(FLOW: arrivals))
            || has(&keys!(FLOW: size)) && has(&keys!(FLOW: count, think))
        {
            Self::Transfers
        } else if has(&keys!(FLOW: count, think)) {
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

    /// Keys without effect for this kind.
    const fn without(self) -> &'static [&'static Field] {
        match self {
            Self::Bulk => &keys!(FLOW: packet, pattern, timeout),
            Self::Transfers => {
                &keys!(FLOW: rate, pause, packet, pattern, streams, message, timeout)
            }
            Self::Rpc => {
                &keys!(FLOW: rate, pause, packet, pattern, streams, message, size, arrivals,
                       timeout)
            }
            Self::Requests => {
                &keys!(FLOW: rate, pause, packet, pattern, message, size, think, interval, timeout)
            }
            Self::Queries => {
                &keys!(FLOW: rate, pause, packet, pattern, streams, message, size, arrivals, ecn,
                       window, control)
            }
            Self::Udp => {
                &keys!(FLOW: pause, streams, message, request, response, count, interval, ecn,
                       window, arrivals, think, timeout)
            }
        }
    }
}

impl Compiler<'_> {
    /// The traffic of each of the `flows` flows of an entry.
    pub(super) fn traffic(&mut self, table: &Table, flows: usize, at: &At) -> Option<Traffic> {
        let kind = Kind::of(table);
        self.check_multipath_keys(table, kind == Kind::Requests, at);
        for Field { key, .. } in kind.without() {
            let Some(entry) = table.entry(*key) else { continue };
            let message = format!("`{key}` has no effect on {}", kind.noun());
            self.sink.report(Code::Conflict, &entry.key_at, message).help(match *key {
                "rate" if kind != Kind::Queries => "bulk flows over TCP and UDP flows have a rate",
                "packet" | "pattern" | "rate" => "set `transport = \"udp\"`, or remove it",
                "size" => "a request-response flow has a `count`",
                "pause" => "receivers of bulk flows over TCP can pause",
                "arrivals" if kind == Kind::Rpc => "`interval` and `think` space its requests",
                _ => "remove it",
            });
        }
        match kind {
            Kind::Udp => match table.get(FLOW.control) {
                Some(control) => self.controlled(table, control),
                None => self.paced(table, at),
            },
            Kind::Rpc => {
                let spec = Arc::new(Rpc {
                    request: self.sizes(&table.read(FLOW.request))?,
                    response: self.sizes(&table.read(FLOW.response))?,
                    count: table.read(FLOW.count),
                    interval: table.read(FLOW.interval),
                    think: think(table),
                });
                Some(Traffic::Rpc { spec, tcp: self.tcp(table) })
            }
            Kind::Requests => self.requests(table, flows),
            Kind::Queries => self.queries(table),
            Kind::Transfers => self.transfers(table, flows, at),
            Kind::Bulk => Some(Traffic::Bulk {
                size: size(table),
                rate: table.read(FLOW.rate),
                pause: self.pause(table),
                tcp: self.tcp(table),
                streams: table.read(FLOW.streams),
                message: table.read(FLOW.message),
            }),
        }
    }

    fn pause(&mut self, table: &Table) -> Option<Pause> {
        let (from, until) = table.read(FLOW.pause)?;
        if from >= until {
            self.sink
                .report(
                    Code::OutOfRange,
                    &table.get(FLOW.pause)?.at,
                    "this pause ends before it begins",
                )
                .help("first when it begins, then when it ends, both after the flow's start");
            return None;
        }
        Some(Pause { from, until })
    }

    fn transfers(&mut self, table: &Table, flows: usize, at: &At) -> Option<Traffic> {
        let Some(size) = table.get(FLOW.size) else {
            self.sink
                .report(Code::MissingKey, at, "a flow with `arrivals` needs `size`")
                .help("the payload of each transfer, such as `size = \"100 kB\"`");
            return None;
        };
        let sizes = self.sizes(size)?;
        let arrivals = match (table.entry(FLOW.arrivals), table.entry(FLOW.think)) {
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
        let spec = Arc::new(Transfers { sizes, arrivals, count: table.read(FLOW.count) });
        Some(Traffic::Transfers { spec, tcp: self.tcp(table) })
    }

    fn requests(&mut self, table: &Table, flows: usize) -> Option<Traffic> {
        let response = self.sizes(&table.read(FLOW.response))?;
        let arrivals = self.arrivals(table.get(FLOW.arrivals)?, &response, flows)?;
        let spec = Arc::new(Requests {
            request: self.sizes(&table.read(FLOW.request))?,
            response,
            arrivals,
            count: table.read(FLOW.count),
            streams: table.read(FLOW.streams),
        });
        Some(Traffic::Requests { spec, tcp: self.tcp(table) })
    }

    fn queries(&mut self, table: &Table) -> Option<Traffic> {
        let max = self.largest_datagram(table);
        let mut size = |key: Key<Raw>| {
            let Some(value) = table.get(key) else { return Bytes::read(&key.default()) };
            let range = Bytes::new(16)..=max;
            let fit = Bytes::read(value).filter(|size| range.contains(size));
            if fit.is_none() {
                let message = format!("`{}` over UDP is one datagram of one size", key.name());
                self.sink
                    .report(Code::OutOfRange, &value.at, message)
                    .help(format!("from 16 B to {max}"));
            }
            fit
        };
        let (request, response) = (size(FLOW.request), size(FLOW.response));
        Some(Traffic::Queries(Arc::new(Queries {
            request: request?,
            response: response?,
            count: table.read(FLOW.count),
            interval: table.read(FLOW.interval),
            think: think(table),
            timeout: table.read(FLOW.timeout),
        })))
    }

    fn tcp(&mut self, table: &Table) -> Tcp {
        Tcp {
            control: self.control(table),
            ecn: table.read(FLOW.ecn),
            window: table.read(FLOW.window),
            multipath: None,
        }
    }

    /// A congestion controller of simulations, of a Linux kernel, or of this system's kernel.
    fn control(&mut self, table: &Table) -> Option<String> {
        let value = table.get(FLOW.control)?;
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

    /// The one key of `keys` that a table has.
    fn only(&mut self, value: &Value, keys: &[&'static Field]) -> Option<&'static str> {
        let table = value.table()?;
        let keys = keys.iter().map(|field| field.key);
        let found: Vec<&str> = keys.clone().filter(|key| table.get(*key).is_some()).collect();
        if let [key] = found.as_slice() {
            return Some(key);
        }
        let known = list_words(keys);
        let (code, message) = if found.is_empty() {
            (Code::MissingKey, format!("this has none of {known}"))
        } else {
            let found = list_words(found.into_iter());
            (Code::Conflict, format!("this has {found} at once"))
        };
        self.sink.report(code, &value.at, message).help(format!("exactly one of {known}"));
        None
    }

    pub(super) fn sizes(&mut self, value: &Value) -> Option<Sizes> {
        if let Some(size) = Bytes::read(value) {
            return Some(Sizes::Fixed(size));
        }
        let table = value.table()?;
        let kind = self.only(value, &keys!(SIZES: exponential, pareto, table, cdf))?;
        for Field { key, .. } in keys!(SIZES: shape, limit) {
            if let (true, Some(entry)) = (kind != "pareto", table.entry(*key)) {
                self.sink
                    .report(Code::Conflict, &entry.key_at, format!("`{key}` needs `pareto`"))
                    .help("remove it");
            }
        }
        match kind {
            "exponential" => table.read(SIZES.exponential).map(Sizes::Exponential),
            "pareto" => Some(Sizes::Pareto {
                mean: table.read(SIZES.pareto)?,
                shape_milli: (table.read(SIZES.shape) * 1000.0).round() as u32,
                limit: table.read(SIZES.limit),
            }),
            "table" => self.size_table(table.get(SIZES.table)?),
            _ => {
                let path = table.get(SIZES.cdf)?;
                self.files.sizes(path.text()?, &path.at, self.sink).map(Sizes::Table)
            }
        }
    }

    fn size_table(&mut self, value: &Value) -> Option<Sizes> {
        let list = value.list()?;
        let point = |pair: &Value| {
            let (size, share) = <(Bytes, Ratio)>::read(pair)?;
            Some((size, u32::try_from(share.parts_per_billion()).ok()?))
        };
        let points: Option<Vec<(Bytes, u32)>> = list.iter().map(point).collect();
        match SizeTable::try_new(points?) {
            Ok(table) => Some(Sizes::Table(Arc::new(table))),
            Err(error) => {
                let at = match error {
                    workload::Error::SizeNotRising { entry }
                    | workload::Error::ShareFalls { entry } => list.get(entry - 1),
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
        let kind = self.only(value, &keys!(ARRIVALS: poisson, every, load))?;
        if let (true, Some(entry)) = (kind != "load", table.entry(ARRIVALS.of)) {
            self.sink.report(Code::Conflict, &entry.key_at, "`of` needs `load`").help("remove it");
        }
        match kind {
            "poisson" => table.read(ARRIVALS.poisson).map(Arrivals::Poisson),
            "every" => table.read(ARRIVALS.every).map(Arrivals::Every),
            _ => self.load(value, table, sizes, flows),
        }
    }

    /// λ = load × rate / (8 × mean size), divided among the entry's flows.
    fn load(
        &mut self,
        value: &Value,
        table: &Table,
        sizes: &Sizes,
        flows: usize,
    ) -> Option<Arrivals> {
        let share = table.read(ARRIVALS.load)?.as_f64();
        let Some(of) = table.get(ARRIVALS.of) else {
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
                .help("give it a `rate`, or use `poisson` or `every`");
            return None;
        };
        let gap = sizes.mean() * 8e9 * flows as f64 / (share * rate.bits_per_sec() as f64);
        if !(1.0..=1e18).contains(&gap) {
            let message = if share > 0.0 {
                format!("this load starts a transfer every {gap:.1e} ns")
            } else {
                "a load of 0 % means no traffic".to_owned()
            };
            self.sink
                .report(Code::OutOfRange, &value.at, message)
                .help("a load above 0 %, and sizes that suit the link's rate");
            return None;
        }
        Some(Arrivals::Poisson(Span::from_nanos(gap.round() as u64)))
    }

    fn paced(&mut self, table: &Table, at: &At) -> Option<Traffic> {
        if let Some(size) = table.get(FLOW.size).filter(|size| size.table().is_some()) {
            self.sink
                .report(Code::Conflict, &size.at, "the size of a UDP flow cannot be random")
                .help("`packet` sets the size of its datagrams, `pattern` their times");
        }
        let (pattern, trace) = self.pattern(&table.read(FLOW.pattern))?;
        if let Some(trace) = trace {
            for Field { key, .. } in keys!(FLOW: rate, packet) {
                if let Some(entry) = table.entry(*key) {
                    self.sink
                        .report(Code::Conflict, &entry.key_at, format!("the trace sets the {key}"))
                        .help("remove it, or the trace");
                }
            }
            let packet = trace.datagrams.iter().map(|d| d.1).max().unwrap_or(Bytes::ZERO);
            let sum: u128 = trace.datagrams.iter().map(|d| u128::from(d.1.count())).sum();
            let bits = sum * 8 * 1_000_000_000 / u128::from(trace.period.as_nanos().max(1));
            let rate = Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX));
            return Some(Traffic::Paced { rate, packet, size: size(table), pattern });
        }
        let Some(rate) = table.get(FLOW.rate) else {
            self.sink
                .report(Code::MissingKey, at, "a UDP flow needs `rate`")
                .help("the rate of its payload, such as `rate = \"1 Mbit/s\"`");
            return None;
        };
        let packet = table.read(FLOW.packet).unwrap_or_else(|| self.largest_datagram(table));
        let rate = Bandwidth::read(rate)?;
        Some(Traffic::Paced { rate, packet, size: size(table), pattern })
    }

    /// The pattern, and its trace if the pattern is one.
    fn pattern(&mut self, value: &Value) -> Option<(Pattern, Option<Arc<DatagramTrace>>)> {
        if let Some(word) = value.text() {
            let poisson = word == "poisson";
            return Some((if poisson { Pattern::Poisson } else { Pattern::Constant }, None));
        }
        let table = value.table()?;
        if let Some(trace) = table.get(PATTERN.trace) {
            if table.entries.len() > 1 {
                self.sink
                    .report(Code::Conflict, &value.at, "`trace` excludes the other keys")
                    .help("remove the other keys");
            }
            let trace = self.datagrams(trace)?;
            return Some((Pattern::Trace(trace.clone()), Some(trace)));
        }
        let (Some(on), Some(off)) = (table.read(PATTERN.on), table.read(PATTERN.off)) else {
            self.sink
                .report(Code::MissingKey, &value.at, "a pattern needs `on` and `off`, or `trace`")
                .help("`{ on = \"1 s\", off = \"500 ms\" }`");
            return None;
        };
        let lengths = match (table.read(PATTERN.exponential), table.read(PATTERN.pareto)) {
            (true, Some(_)) => {
                self.sink
                    .report(Code::Conflict, &value.at, "`pareto` excludes `exponential`")
                    .help("remove one of them");
                return None;
            }
            (_, Some(shape)) => Lengths::Pareto { shape_milli: (shape * 1000.0).round() as u32 },
            (true, None) => Lengths::Exponential,
            (false, None) => Lengths::Constant,
        };
        Some((Pattern::OnOff(OnOff { on, off, lengths }), None))
    }

    fn datagrams(&mut self, value: &Value) -> Option<Arc<DatagramTrace>> {
        if let Some(path) = value.text() {
            return self.files.datagrams(path, &value.at, self.sink);
        }
        let table = value.table()?;
        let datagrams = table.read(DATAGRAMS.datagrams)?;
        match DatagramTrace::try_new(datagrams, table.read(DATAGRAMS.period)?) {
            Ok(trace) => Some(Arc::new(trace)),
            Err(error) => {
                self.sink
                    .report(
                        Code::BadWorkload,
                        &table.get(DATAGRAMS.datagrams)?.at,
                        error.to_string(),
                    )
                    .help("moments do not decrease, and the last is not after `period`");
                None
            }
        }
    }
}

/// A size that is not random.
fn size(table: &Table) -> Option<Bytes> {
    table.get(FLOW.size).and_then(Bytes::read)
}

fn think(table: &Table) -> Think {
    let think = table.read(FLOW.think);
    match think.table().and_then(|table| table.read(THINK.exponential)) {
        Some(mean) => Think::Exponential(mean),
        None => Think::Fixed(Span::read(&think).unwrap_or(Span::ZERO)),
    }
}
