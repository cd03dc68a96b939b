//! A flow of the plan: its application and its counters.
//!
//! `connections` and `paced` use the [`Scope`] of this module, and this module uses their types.

use base::{Bytes, Span, Time};
use lab::plan::Traffic;
use run::{Datagrams, FlowCounters, FlowLifetime, FlowResult, FlowSample, Outcome, Transfer};
use workload::bulk::even_part;
use workload::{Progress, RpcFlow, TransfersFlow, Workload};

use super::connections;
use super::net::{Event, Net, Notification};
use super::paced::Paced;
use crate::app::FlowParameters;
use crate::net::mix;
use crate::trace::FlowEvent;

pub(super) struct Flow {
    pub(super) parameters: FlowParameters,
    phase: Phase,
    tally: FlowCounters,
    lifetime: FlowLifetime,
    run_started: Time,
    /// Number of runs begun; distinguishes the events of different runs.
    run: u32,
    opened: u32,
    /// Segments that the current run's closed connections have retransmitted.
    past: u64,
    touched: bool,
    /// Datagram flow in the network, from the first run on.
    datagrams: Option<u32>,
}

enum Phase {
    Waiting,
    Running(App),
    Ended,
}

enum App {
    Bulk(Bulk),
    Transfers(Box<TransfersFlow>),
    Rpc(Box<RpcFlow>),
    Paced(Box<Paced>),
}

/// The context of a call to an application.
pub(super) struct Scope<'a> {
    pub(super) net: &'a mut Net,
    pub(super) parameters: &'a FlowParameters,
    pub(super) tally: &'a mut FlowCounters,
    pub(super) transfers: &'a mut Vec<Transfer>,
    opened: &'a mut u32,
    pub(super) past: &'a mut u64,
    run: u32,
}

impl Scope<'_> {
    /// A new hash, different for each connection of the flow.
    pub(super) fn new_hash(&mut self) -> u32 {
        *self.opened += 1;
        mix(self.parameters.hash, *self.opened)
    }

    /// Schedules a wake-up of the application.
    pub(super) fn wake(&mut self, at: Time) {
        let event = Event::Wake { flow: self.parameters.flow, run: self.run };
        self.net.schedule(at, event);
    }
}

/// TCP that sends as fast as possible.
struct Bulk {
    streams: Vec<u32>,
    size: Option<Bytes>,
    unfinished: usize,
    sent: u64,
}

impl Bulk {
    fn open(scope: &mut Scope<'_>, size: Option<Bytes>, streams: u32) -> Self {
        let connect = |tag| {
            let hash = scope.new_hash();
            scope.net.connect(scope.parameters.flow, hash, tag, false)[0]
        };
        let streams: Vec<u32> = (0..streams).map(connect).collect();
        Self { unfinished: streams.len(), streams, size, sent: 0 }
    }

    fn part(&self, tag: u32) -> f64 {
        let Some(size) = self.size else { return f64::INFINITY };
        even_part(size.count(), self.streams.len() as u64, u64::from(tag)) as f64
    }

    fn on_notification(&mut self, scope: &mut Scope<'_>, notification: Notification) -> Progress {
        match notification {
            Notification::Ready { stream } => {
                let (_, tag) = scope.net.stream(stream);
                scope.net.send(stream, self.part(tag));
            }
            Notification::Arrived { stream } => {
                scope.tally.received += scope.net.arrived(stream, true);
                self.unfinished -= 1;
                if self.unfinished == 0 {
                    return Progress::Done(scope.net.now);
                }
            }
            _ => {}
        }
        Progress::Going
    }

    fn observe(&mut self, net: &mut Net, tally: &mut FlowCounters) {
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
    /// # Errors
    /// For traffic that only the packet engine simulates.
    fn open(
        scope: &mut Scope<'_>,
        datagrams: &mut Option<u32>,
    ) -> std::result::Result<Self, &'static str> {
        Ok(match &scope.parameters.spec.traffic {
            Traffic::Bulk { size, streams, .. } => Self::Bulk(Bulk::open(scope, *size, *streams)),
            Traffic::Transfers { spec, .. } => {
                let flow = TransfersFlow::open(spec, scope);
                flow.next_wake().into_iter().for_each(|at| scope.wake(at));
                Self::Transfers(Box::new(flow))
            }
            Traffic::Rpc { spec, .. } => Self::Rpc(Box::new(RpcFlow::open(spec, scope))),
            Traffic::Paced { rate, packet, size, pattern } => {
                let source = (*rate, *packet, *size, pattern);
                Self::Paced(Box::new(Paced::open(scope, datagrams, source)))
            }
            Traffic::Controlled { .. } | Traffic::Requests { .. } | Traffic::Queries { .. } => {
                return Err("its traffic needs packets: use `model = \"hop\"`");
            }
        })
    }

    fn on_notification(&mut self, scope: &mut Scope<'_>, notification: Notification) -> Progress {
        match self {
            Self::Bulk(app) => app.on_notification(scope, notification),
            Self::Transfers(app) => connections::on_notification(&mut **app, scope, notification),
            Self::Rpc(app) => connections::on_notification(&mut **app, scope, notification),
            Self::Paced(app) => app.on_notification(scope, notification),
        }
    }

    /// Handles the end of the flow's duration.
    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self {
            Self::Paced(app) => app.expire(scope),
            _ => Progress::Cut(scope.net.now),
        }
    }

    fn observe(&mut self, past: u64, net: &mut Net, tally: &mut FlowCounters) {
        match self {
            Self::Bulk(app) => app.observe(net, tally),
            Self::Transfers(app) => connections::observe(&**app, past, net, tally),
            Self::Rpc(app) => connections::observe(&**app, past, net, tally),
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
    pub(super) fn new(parameters: FlowParameters) -> Self {
        let lifetime = FlowLifetime {
            outcome: Outcome::NotStarted,
            started: None,
            ended: None,
            active: Span::ZERO,
            completion: None,
        };
        Self {
            parameters,
            phase: Phase::Waiting,
            tally: FlowCounters::default(),
            lifetime,
            run_started: Time::ZERO,
            run: 0,
            opened: 0,
            past: 0,
            touched: false,
            datagrams: None,
        }
    }

    /// Whether the flow ends without a stop event: it has a duration or its traffic is finite.
    pub(super) fn is_finite(&self) -> bool {
        self.parameters.spec.is_finite()
    }

    pub(super) fn arm(&self, net: &mut Net) {
        net.schedule(self.parameters.start, Event::Start(self.parameters.flow));
    }

    pub(super) fn on_start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        match self.phase {
            Phase::Waiting => self.open(net, transfers),
            _ => 0,
        }
    }

    /// Starts the flow unless it is active. Returns the change in the number of
    /// unfinished finite flows.
    pub(super) fn start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        match self.phase {
            Phase::Running(_) => 0,
            _ => self.open(net, transfers),
        }
    }

    fn open(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) -> i64 {
        net.trace.note(
            net.now,
            FlowEvent::Start as u8,
            self.parameters.flow,
            f64::from(self.run).to_bits(),
        );
        self.lifetime.started = self.lifetime.started.or(Some(net.now));
        self.lifetime.completion = None;
        self.run_started = net.now;
        self.past = 0;
        self.run += 1;
        self.touched = true;
        let again = matches!(self.phase, Phase::Ended) && self.is_finite();
        if let Some(duration) = self.parameters.spec.duration {
            let event = Event::Expire { flow: self.parameters.flow, run: self.run };
            net.schedule(net.now + duration, event);
        }
        let mut scope = Scope {
            net,
            parameters: &self.parameters,
            tally: &mut self.tally,
            transfers,
            opened: &mut self.opened,
            past: &mut self.past,
            run: self.run,
        };
        match App::open(&mut scope, &mut self.datagrams) {
            Ok(app) => {
                self.phase = Phase::Running(app);
                i64::from(again)
            }
            Err(why) => {
                self.phase = Phase::Ended;
                self.lifetime.ended = self.lifetime.started;
                self.lifetime.outcome = Outcome::Failed(why.to_owned());
                i64::from(again) - i64::from(self.is_finite())
            }
        }
    }

    /// Handles a notification. Returns the change in the number of unfinished finite flows.
    pub(super) fn on_notification(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        notification: Notification,
    ) -> i64 {
        let Phase::Running(app) = &mut self.phase else { return 0 };
        let mut scope = Scope {
            net: &mut *net,
            parameters: &self.parameters,
            tally: &mut self.tally,
            transfers: &mut *transfers,
            opened: &mut self.opened,
            past: &mut self.past,
            run: self.run,
        };
        let progress = match notification {
            Notification::Expire { run, .. } | Notification::Wake { run, .. }
                if run != self.run =>
            {
                return 0;
            }
            Notification::Expire { .. } => app.expire(&mut scope),
            notification => app.on_notification(&mut scope, notification),
        };
        match progress {
            Progress::Going => 0,
            Progress::Done(at) => {
                self.lifetime.completion = Some(at.since(self.run_started));
                self.end(net, transfers, at, Outcome::Completed)
            }
            Progress::Cut(at) => self.end(net, transfers, at, Outcome::Expired),
            Progress::Failed(why) => {
                let now = net.now;
                self.end(net, transfers, now, Outcome::Failed(why.to_owned()))
            }
        }
    }

    /// Stops the flow. A flow that has not started yet never will.
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
            net.trace.note(
                at,
                FlowEvent::End as u8,
                self.parameters.flow,
                f64::from(self.run).to_bits(),
            );
            app.observe(self.past, net, &mut self.tally);
            self.tally.record_rtt();
            self.tally.close_run();
            let mut scope = Scope {
                net,
                parameters: &self.parameters,
                tally: &mut self.tally,
                transfers,
                opened: &mut self.opened,
                past: &mut self.past,
                run: self.run,
            };
            app.close(&mut scope);
            self.lifetime.active += at.since(self.run_started);
            self.lifetime.ended = Some(at);
            self.lifetime.outcome = outcome;
        }
        -i64::from(ends)
    }

    /// The sample of the interval that ends now; `None` if the flow was not active.
    pub(super) fn sample(&mut self, net: &mut Net, last: Time) -> Option<FlowSample> {
        let running = matches!(self.phase, Phase::Running(_));
        if let Phase::Running(app) = &mut self.phase {
            app.observe(self.past, net, &mut self.tally);
        }
        if !running && !self.touched {
            return None;
        }
        self.touched = running;
        let interval = net.now.since(last);
        let sample =
            self.tally.cut(net.now, interval, self.parameters.id, &self.parameters.spec.traffic);
        if running && self.run_started <= last {
            self.tally.record_goodput(&sample);
        }
        Some(sample)
    }

    pub(super) fn into_result(self) -> FlowResult {
        let FlowParameters { id, name, spec, .. } = self.parameters;
        self.tally.into_result(id, name.into(), &spec.traffic, self.lifetime)
    }
}

/// Converts bits of datagrams to counters.
pub(super) fn datagrams(sent: f64, received: f64, packet: f64) -> Datagrams {
    let count = |bits: f64| (bits / packet + 1e-6).floor().max(0.0) as u64;
    let (sent, received) = (count(sent), count(received));
    Datagrams { sent, received, lost: sent.saturating_sub(received), ..Datagrams::default() }
}
