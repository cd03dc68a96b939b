//! A flow of the plan: its application, and what it counts.

use base::{Bytes, RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::{Course, Datagrams, FlowResult, Outcome, Tally};
use record::{FlowSample, Transfer};

use super::net::{Event, Net, News};
use super::paced::Paced;
use super::rpc::Rpc;
use super::trace::What;
use super::transfers::Transfers;
use crate::app::Given;
use crate::net::mix;

/// A flow and all that is known of it.
pub(super) struct Flow {
    pub(super) given: Given,
    phase: Phase,
    tally: Tally,
    course: Course,
    run_started: Time,
    /// Number of runs begun: tells their events apart.
    run: u32,
    opened: u32,
    touched: bool,
    /// Its datagrams in the network, from the first run on.
    datagrams: Option<u32>,
}

enum Phase {
    Waiting,
    Running(App),
    Ended,
}

enum App {
    Bulk(Bulk),
    Transfers(Box<Transfers>),
    Rpc(Box<Rpc>),
    Paced(Box<Paced>),
}

/// How far a flow has come.
pub(super) enum Progress {
    Going,
    Done(Time),
    Cut(Time),
}

/// What an application may use while it is called.
pub(super) struct Scope<'a> {
    pub(super) net: &'a mut Net,
    pub(super) given: &'a Given,
    pub(super) tally: &'a mut Tally,
    pub(super) transfers: &'a mut Vec<Transfer>,
    opened: &'a mut u32,
    run: u32,
}

impl Scope<'_> {
    pub(super) fn now(&self) -> Time {
        self.net.now
    }

    /// Opens a connection; its streams there and, if `both`, back.
    pub(super) fn connect(&mut self, tag: u32, both: bool) -> [u32; 2] {
        let hash = self.new_hash();
        self.net.connect(self.given.flow, hash, tag, both)
    }

    /// Tells one of the flow's connections from the others.
    pub(super) fn new_hash(&mut self) -> u32 {
        *self.opened += 1;
        mix(self.given.hash, *self.opened)
    }

    /// Has the application woken.
    pub(super) fn wake(&mut self, at: Time) {
        let event = Event::Wake { flow: self.given.flow, run: self.run };
        self.net.schedule(at, event);
    }

    /// One of the flow's random streams, the same as packets have.
    pub(super) fn random(&self, what: &str) -> RandomStream {
        self.given.stream(what)
    }
}

/// TCP as fast as it goes.
struct Bulk {
    streams: Vec<u32>,
    size: Option<Bytes>,
    unfinished: usize,
    sent: u64,
}

impl Bulk {
    fn open(scope: &mut Scope<'_>, size: Option<Bytes>, streams: u32) -> Self {
        let streams: Vec<u32> = (0..streams).map(|tag| scope.connect(tag, false)[0]).collect();
        Self { unfinished: streams.len(), streams, size, sent: 0 }
    }

    /// What a stream is given: its part, and of the rest a byte each for the first.
    fn part(&self, tag: u32) -> f64 {
        let Some(size) = self.size else { return f64::INFINITY };
        let count = self.streams.len() as u64;
        let rest = u64::from(u64::from(tag) < size.count() % count);
        (size.count() / count + rest) as f64
    }

    fn on_news(&mut self, scope: &mut Scope<'_>, news: News) -> Progress {
        match news {
            News::Ready { stream } => {
                let (_, tag) = scope.net.stream(stream);
                scope.net.send(stream, self.part(tag));
            }
            News::Arrived { stream } => {
                scope.tally.received += scope.net.arrived(stream, true);
                self.unfinished -= 1;
                if self.unfinished == 0 {
                    return Progress::Done(scope.now());
                }
            }
            _ => {}
        }
        Progress::Going
    }

    fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        let (mut sent, mut rtt, mut window) = (0, Span::ZERO, 0);
        tally.retransmits = self.streams.iter().map(|stream| net.lost(*stream)).sum();
        for stream in &self.streams {
            tally.received += net.arrived(*stream, false);
            sent += net.sent(*stream);
            let (delay, bytes) = net.observe(*stream);
            rtt += delay;
            window += bytes;
        }
        tally.sent += sent.saturating_sub(self.sent);
        self.sent = sent.max(self.sent);
        tally.srtt = Some(Span::from_nanos(rtt.as_nanos() / self.streams.len().max(1) as u64));
        tally.window_bytes = Some(window);
    }
}

impl App {
    fn open(scope: &mut Scope<'_>, datagrams: &mut Option<u32>) -> Self {
        match &scope.given.spec.traffic {
            Traffic::Bulk { size, streams, .. } => Self::Bulk(Bulk::open(scope, *size, *streams)),
            Traffic::Transfers { .. } => Self::Transfers(Box::new(Transfers::open(scope))),
            Traffic::Rpc { .. } => Self::Rpc(Box::new(Rpc::open(scope))),
            Traffic::Paced { .. } => Self::Paced(Box::new(Paced::open(scope, datagrams))),
            Traffic::Controlled { .. } | Traffic::Requests { .. } | Traffic::Queries { .. } => {
                unreachable!("refused before the run")
            }
        }
    }

    fn on_news(&mut self, scope: &mut Scope<'_>, news: News) -> Progress {
        match self {
            Self::Bulk(app) => app.on_news(scope, news),
            Self::Transfers(app) => app.on_news(scope, news),
            Self::Rpc(app) => app.on_news(scope, news),
            Self::Paced(app) => app.on_news(scope, news),
        }
    }

    /// The flow's duration is over.
    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self {
            Self::Paced(app) => app.expire(scope),
            _ => Progress::Cut(scope.now()),
        }
    }

    fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        match self {
            Self::Bulk(app) => app.observe(net, tally),
            Self::Transfers(app) => app.observe(net, tally),
            Self::Rpc(app) => app.observe(net, tally),
            Self::Paced(app) => app.observe(net, tally),
        }
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        match self {
            Self::Bulk(app) => app.streams.iter().for_each(|stream| scope.net.close(*stream)),
            Self::Transfers(app) => app.close(scope),
            Self::Rpc(app) => app.close(scope),
            Self::Paced(app) => app.close(scope),
        }
    }
}

impl Flow {
    pub(super) fn new(given: Given) -> Self {
        let course = Course {
            outcome: Outcome::NotStarted,
            started: None,
            ended: None,
            active: Span::ZERO,
            completion: None,
        };
        Self {
            given,
            phase: Phase::Waiting,
            tally: Tally::default(),
            course,
            run_started: Time::ZERO,
            run: 0,
            opened: 0,
            touched: false,
            datagrams: None,
        }
    }

    /// Whether it ends by itself.
    pub(super) fn is_finite(&self) -> bool {
        self.given.spec.is_finite()
    }

    /// Has its start happen.
    pub(super) fn arm(&self, net: &mut Net) {
        net.schedule(self.given.start, Event::Start(self.given.flow));
    }

    /// Its start has come.
    pub(super) fn on_start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        match self.phase {
            Phase::Waiting => self.open(net, transfers),
            _ => 0,
        }
    }

    /// Starts it, unless it runs. The change in the number of flows that have yet to end.
    pub(super) fn start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        match self.phase {
            Phase::Running(_) => 0,
            _ => self.open(net, transfers),
        }
    }

    fn open(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        net.trace.note(net.now, What::Start, self.given.flow, f64::from(self.run));
        self.course.started = self.course.started.or(Some(net.now));
        self.course.completion = None;
        self.run_started = net.now;
        self.run += 1;
        self.touched = true;
        let again = matches!(self.phase, Phase::Ended) && self.is_finite();
        if let Some(duration) = self.given.spec.duration {
            let event = Event::Expire { flow: self.given.flow, run: self.run };
            net.schedule(net.now + duration, event);
        }
        let mut scope = Scope {
            net,
            given: &self.given,
            tally: &mut self.tally,
            transfers,
            opened: &mut self.opened,
            run: self.run,
        };
        self.phase = Phase::Running(App::open(&mut scope, &mut self.datagrams));
        i64::from(again)
    }

    /// Something happened to it. The change in the number of flows that have yet to end.
    pub(super) fn on_news(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        news: News,
    ) -> i64 {
        let Phase::Running(app) = &mut self.phase else { return 0 };
        let mut scope = Scope {
            net: &mut *net,
            given: &self.given,
            tally: &mut self.tally,
            transfers: &mut *transfers,
            opened: &mut self.opened,
            run: self.run,
        };
        let progress = match news {
            News::Expire { run, .. } | News::Wake { run, .. } if run != self.run => return 0,
            News::Expire { .. } => app.expire(&mut scope),
            news => app.on_news(&mut scope, news),
        };
        match progress {
            Progress::Going => 0,
            Progress::Done(at) => {
                self.course.completion = Some(at.since(self.run_started));
                self.end(net, transfers, at, Outcome::Completed)
            }
            Progress::Cut(at) => self.end(net, transfers, at, Outcome::Expired),
        }
    }

    /// Stops it. A flow that has not started yet will not.
    pub(super) fn stop(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        let now = net.now;
        self.end(net, transfers, now, Outcome::Stopped)
    }

    fn end(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        at: Time,
        outcome: Outcome,
    ) -> i64 {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let ends = !matches!(phase, Phase::Ended) && self.is_finite();
        if let Phase::Running(mut app) = phase {
            net.trace.note(at, What::End, self.given.flow, f64::from(self.run));
            app.observe(net, &mut self.tally);
            self.tally.record_rtt();
            self.tally.close_run();
            let mut scope = Scope {
                net,
                given: &self.given,
                tally: &mut self.tally,
                transfers,
                opened: &mut self.opened,
                run: self.run,
            };
            app.close(&mut scope);
            self.course.active += at.since(self.run_started);
            self.course.ended = Some(at);
            self.course.outcome = outcome;
        }
        -i64::from(ends)
    }

    /// The sample of the interval that ends now; `None` if it did not run.
    pub(super) fn sample(&mut self, net: &mut Net, last: Time) -> Option<FlowSample> {
        let running = matches!(self.phase, Phase::Running(_));
        if let Phase::Running(app) = &mut self.phase {
            app.observe(net, &mut self.tally);
        }
        if !running && !self.touched {
            return None;
        }
        self.touched = running;
        let interval = net.now.since(last);
        let sample = self.tally.cut(net.now, interval, self.given.id, &self.given.spec.traffic);
        if running && self.run_started <= last {
            self.tally.record_goodput(&sample);
        }
        Some(sample)
    }

    /// What it achieved.
    pub(super) fn into_result(self) -> FlowResult {
        let Given { id, name, spec, .. } = self.given;
        self.tally.into_result(id, name.into(), &spec.traffic, self.course)
    }
}

/// Counts of datagrams from their bits.
pub(super) fn datagrams(sent: f64, received: f64, packet: f64) -> Datagrams {
    let count = |bits: f64| (bits / packet + 1e-6).floor().max(0.0) as u64;
    let (sent, received) = (count(sent), count(received));
    Datagrams { sent, received, lost: sent.saturating_sub(received), ..Datagrams::default() }
}
