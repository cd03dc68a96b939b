//! The state of a flow over the whole run: start, counters and end.

use base::{Bandwidth, FlowId, Span, Time};
use run::{FlowCounters, FlowLifetime, FlowResult, FlowSample, Outcome, SubflowSample, Transfer};

use crate::app::{App, ConnectionEvent, FlowParameters, Observed, Progress, Scope};
use crate::multipath::Streams;
use crate::net::Net;

#[derive(Debug)]
pub(crate) struct Flow {
    parameters: FlowParameters,
    phase: Phase,
    tally: FlowCounters,
    /// Result of the last run that ended.
    ended: Option<Box<FlowLifetime>>,
    /// Start of the current or last run.
    run_started: Time,
    /// End of its duration; [`Time::MAX`] without one.
    expires: Time,
    /// Deadline of its timer entry; [`Time::MAX`] without one.
    armed: Time,
    opened: u32,
    /// Counters of connections that the current run has closed.
    past: Option<Box<Observed>>,
    streams: Option<Box<Streams>>,
    /// It was active at some time since the last sample.
    touched: bool,
}

#[derive(Debug)]
enum Phase {
    /// It has not started yet.
    Waiting,
    Running(App),
    Ended,
}

impl Flow {
    pub(crate) fn new(parameters: FlowParameters) -> Self {
        let streams = parameters.multipath.as_ref().map(|shape| Streams::new(&parameters, shape));
        Self {
            streams: streams.map(Box::new),
            parameters,
            phase: Phase::Waiting,
            tally: FlowCounters::default(),
            ended: None,
            run_started: Time::ZERO,
            expires: Time::MAX,
            armed: Time::MAX,
            opened: 0,
            past: None,
            touched: false,
        }
    }

    /// Its identifier in the original plan.
    pub(crate) const fn id(&self) -> FlowId {
        self.parameters.id
    }

    fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting => Some(self.parameters.start),
            Phase::Running(app) => {
                let expires = (self.expires < Time::MAX).then_some(self.expires);
                let streams = self.streams.as_ref().and_then(|streams| streams.next_wake());
                [app.next_wake(), expires, streams].into_iter().flatten().min()
            }
            Phase::Ended => None,
        }
    }

    /// Sets its timer if its deadline is earlier than the timer entry.
    pub(crate) fn arm(&mut self, net: &mut Net) {
        if let Some(at) = self.deadline()
            && at < self.armed
        {
            self.armed = at.max(net.now);
            net.arm(self.parameters.flow, at);
        }
    }

    pub(crate) fn on_timer(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        if self.armed != net.now {
            return;
        }
        self.armed = Time::MAX;
        if self.deadline().is_some_and(|at| at <= net.now) {
            match self.phase {
                Phase::Waiting => self.open(net, transfers),
                Phase::Running(_) if self.expires <= net.now => {
                    self.expires = Time::MAX;
                    self.call(net, transfers, App::expire);
                }
                Phase::Running(_) => {
                    if let Some(streams) = &mut self.streams {
                        streams.on_wake(net);
                    }
                    self.call(net, transfers, App::on_wake);
                }
                Phase::Ended => {}
            }
        }
        self.arm(net);
    }

    /// Starts the flow unless it is active.
    pub(crate) fn start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        if !matches!(self.phase, Phase::Running(_)) {
            self.open(net, transfers);
            self.arm(net);
        }
    }

    fn open(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        if let Some(lifetime) = &mut self.ended {
            lifetime.completion = None;
        }
        self.run_started = net.now;
        self.past = None;
        self.expires =
            self.parameters.spec.duration.map_or(Time::MAX, |duration| net.now + duration);
        self.touched = true;
        if matches!(self.phase, Phase::Ended) && self.parameters.spec.is_finite() {
            net.pending += 1;
        }
        let mut scope = Scope {
            net,
            parameters: &self.parameters,
            tally: &mut self.tally,
            transfers,
            streams: self.streams.as_deref_mut(),
            opened: &mut self.opened,
            past: &mut self.past,
        };
        self.phase = Phase::Running(App::open(&mut scope));
        // Some applications have a deadline at the start time.
        if self.deadline().is_some_and(|at| at <= net.now) {
            self.call(net, transfers, App::on_wake);
        }
    }

    /// Handles received payload or a changed connection state.
    pub(crate) fn on_event(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        event: &ConnectionEvent,
    ) {
        match &mut self.streams {
            Some(streams) => {
                streams.on_tcp(net, event);
                self.deliver_events(net, transfers);
            }
            None => self.call(net, transfers, |app, scope| app.on_event(scope, event)),
        }
        self.arm(net);
    }

    /// Handles a datagram that was sent with this hash.
    pub(crate) fn on_datagram(
        &mut self,
        net: &mut Net,
        (hash, sequence, payload): (u32, u64, u32),
        delay: Option<Span>,
    ) {
        let Phase::Running(App::Paced(app)) = &mut self.phase else {
            if delay.is_some() {
                let turn =
                    |app: &mut App, scope: &mut Scope<'_>| app.on_datagram(scope, hash, sequence);
                self.call(net, &mut Vec::new(), turn);
                self.arm(net);
            }
            return;
        };
        if !app.owns(hash) {
            return;
        }
        match delay {
            None => app.on_damaged(),
            Some(delay) => {
                let progress = app.on_datagram(net.now, &mut self.tally, sequence, payload, delay);
                self.apply(net, &mut Vec::new(), progress);
                self.arm(net);
            }
        }
    }

    /// Applies a new rate from rate control; `None` pauses the flow.
    pub(crate) fn on_rate(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        rate: Option<Bandwidth>,
    ) {
        self.call(net, transfers, |app, scope| app.on_rate(scope.net.now, rate));
        self.arm(net);
    }

    /// Passes stream events to the application.
    fn deliver_events(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        while let Some(event) = self.streams.as_mut().and_then(|streams| streams.take_event()) {
            self.turn(net, transfers, |app, scope| app.on_event(scope, &event));
            if let Some(streams) = &mut self.streams {
                streams.flush(net, event.end.connection());
            }
        }
    }

    /// Calls the application of an active flow and applies the result.
    fn call(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        turn: impl FnOnce(&mut App, &mut Scope<'_>) -> Progress,
    ) {
        self.turn(net, transfers, turn);
        self.deliver_events(net, transfers);
    }

    fn turn(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        turn: impl FnOnce(&mut App, &mut Scope<'_>) -> Progress,
    ) {
        let Phase::Running(app) = &mut self.phase else { return };
        let mut scope = Scope {
            net: &mut *net,
            parameters: &self.parameters,
            tally: &mut self.tally,
            transfers: &mut *transfers,
            streams: self.streams.as_deref_mut(),
            opened: &mut self.opened,
            past: &mut self.past,
        };
        let progress = turn(app, &mut scope);
        self.apply(net, transfers, progress);
    }

    fn apply(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>, progress: Progress) {
        match progress {
            Progress::Going => {}
            Progress::Done(at) => {
                self.end(net, transfers, at, Outcome::Completed);
                if let Some(lifetime) = &mut self.ended {
                    lifetime.completion = Some(at.since(self.run_started));
                }
            }
            Progress::Cut(at) => self.end(net, transfers, at, Outcome::Expired),
            Progress::Failed(why) => {
                let now = net.now;
                self.end(net, transfers, now, Outcome::Failed(why.to_owned()));
            }
        }
    }

    /// Stops the flow. A flow that has not started yet then never starts.
    pub(crate) fn stop(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        let now = net.now;
        self.end(net, transfers, now, Outcome::Stopped);
    }

    fn end(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>, at: Time, outcome: Outcome) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        if !matches!(phase, Phase::Ended) && self.parameters.spec.is_finite() {
            net.pending -= 1;
        }
        if let Phase::Running(mut app) = phase {
            app.cease(net.now);
            let mut scope = Scope {
                net,
                parameters: &self.parameters,
                tally: &mut self.tally,
                transfers,
                streams: self.streams.as_deref_mut(),
                opened: &mut self.opened,
                past: &mut self.past,
            };
            app.observe(&mut scope);
            app.close(&mut scope);
            if let Some(streams) = &mut self.streams {
                streams.end_run(net, &mut self.tally);
            }
            self.tally.record_rtt();
            self.tally.close_run();
            let started = self.run_started;
            let lifetime = self.ended.get_or_insert_with(|| Box::new(not_started()));
            lifetime.started = lifetime.started.or(Some(started));
            lifetime.active += at.since(started);
            lifetime.ended = Some(at);
            lifetime.outcome = outcome;
        }
        self.expires = Time::MAX;
    }

    /// The sample of the interval that ends now, `None` if the flow was not active; adds the
    /// samples of its subflows to `subflows`.
    pub(crate) fn sample(
        &mut self,
        net: &mut Net,
        last: Time,
        subflows: &mut Vec<SubflowSample>,
    ) -> Option<FlowSample> {
        let running = matches!(self.phase, Phase::Running(_));
        if let Phase::Running(app) = &mut self.phase {
            app.observe(&mut Scope {
                net: &mut *net,
                parameters: &self.parameters,
                tally: &mut self.tally,
                transfers: &mut Vec::new(),
                streams: self.streams.as_deref_mut(),
                opened: &mut self.opened,
                past: &mut self.past,
            });
        }
        if !running && !self.touched {
            return None;
        }
        self.touched = running;
        let interval = net.now.since(last);
        if self.streams.is_some() {
            subflows.extend(self.tally.cut_subflows(net.now, interval, self.parameters.id));
        }
        let sample =
            self.tally.cut(net.now, interval, self.parameters.id, &self.parameters.spec.traffic);
        if running && self.run_started <= last {
            self.tally.record_goodput(&sample);
        }
        Some(sample)
    }

    pub(crate) fn into_result(self) -> FlowResult {
        let mut lifetime = self.ended.map_or_else(not_started, |lifetime| *lifetime);
        if matches!(self.phase, Phase::Running(_)) {
            lifetime.started = lifetime.started.or(Some(self.run_started));
        }
        let FlowParameters { id, name, spec, .. } = self.parameters;
        self.tally.into_result(id, name.into(), &spec.traffic, lifetime)
    }
}

fn not_started() -> FlowLifetime {
    FlowLifetime {
        outcome: Outcome::NotStarted,
        started: None,
        ended: None,
        active: Span::ZERO,
        completion: None,
    }
}
