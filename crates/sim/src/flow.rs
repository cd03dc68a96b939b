//! A flow over the whole run: when it runs, what it counts, how it ends.

use base::{Bandwidth, Span, Time};
use outcome::{Course, FlowResult, Outcome, Tally};
use record::{FlowSample, SubflowSample, Transfer};

use crate::app::{App, Given, News, Progress, Scope};
use crate::multipath::Streams;
use crate::net::Net;

/// A flow and all that is known of it.
#[derive(Debug)]
pub(crate) struct Flow {
    given: Given,
    phase: Phase,
    tally: Tally,
    /// What came of it when it last ended.
    ended: Option<Box<Course>>,
    /// Start of the present or last run.
    run_started: Time,
    /// When its duration is over; [`Time::MAX`] without one.
    expires: Time,
    /// When its entry among the timers is due; [`Time::MAX`] without one.
    armed: Time,
    opened: u32,
    /// What goes over several paths.
    streams: Option<Box<Streams>>,
    /// It ran at some time since the last sample.
    touched: bool,
}

#[derive(Debug)]
enum Phase {
    /// Its start is ahead.
    Waiting,
    Running(App),
    Ended,
}

impl Flow {
    pub(crate) fn new(given: Given) -> Self {
        let streams = given.multipath.as_ref().map(|shape| Streams::new(&given, shape));
        Self {
            streams: streams.map(Box::new),
            given,
            phase: Phase::Waiting,
            tally: Tally::default(),
            ended: None,
            run_started: Time::ZERO,
            expires: Time::MAX,
            armed: Time::MAX,
            opened: 0,
            touched: false,
        }
    }

    fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting => Some(self.given.start),
            Phase::Running(app) => {
                let expires = (self.expires < Time::MAX).then_some(self.expires);
                let streams = self.streams.as_ref().and_then(|streams| streams.next_wake());
                [app.deadline(&self.given), expires, streams].into_iter().flatten().min()
            }
            Phase::Ended => None,
        }
    }

    /// Sets its timer, if it has to go off earlier than it would.
    pub(crate) fn arm(&mut self, net: &mut Net) {
        if let Some(at) = self.deadline()
            && at < self.armed
        {
            self.armed = at.max(net.now);
            net.arm(self.given.flow, at);
        }
    }

    /// Its timer went off.
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

    /// Starts it, unless it runs.
    pub(crate) fn start(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        if !matches!(self.phase, Phase::Running(_)) {
            self.open(net, transfers);
            self.arm(net);
        }
    }

    fn open(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        if let Some(course) = &mut self.ended {
            course.completion = None;
        }
        self.run_started = net.now;
        self.expires = self.given.spec.duration.map_or(Time::MAX, |duration| net.now + duration);
        self.touched = true;
        if matches!(self.phase, Phase::Ended) && self.given.spec.is_finite() {
            net.pending += 1;
        }
        let mut scope = Scope {
            net,
            given: &self.given,
            tally: &mut self.tally,
            transfers,
            streams: self.streams.as_deref_mut(),
            opened: &mut self.opened,
        };
        self.phase = Phase::Running(App::open(&mut scope));
        // Some have something to do at once.
        if self.deadline().is_some_and(|at| at <= net.now) {
            self.call(net, transfers, App::on_wake);
        }
    }

    /// Payload has arrived, or a connection's state has changed.
    pub(crate) fn on_news(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>, news: &News) {
        match &mut self.streams {
            Some(streams) => {
                streams.on_tcp(net, news);
                self.hear(net, transfers);
            }
            None => self.call(net, transfers, |app, scope| app.on_news(scope, news)),
        }
        self.arm(net);
    }

    /// A datagram has arrived, sent with this hash.
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
                self.heed(net, &mut Vec::new(), progress);
                self.arm(net);
            }
        }
    }

    /// Rate control says what a flow's data may use; `None`: nothing, for now.
    pub(crate) fn on_rate(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        rate: Option<Bandwidth>,
    ) {
        self.call(net, transfers, |app, scope| app.on_rate(scope.net.now, rate));
        self.arm(net);
    }

    /// Tells the application what has happened on its streams.
    fn hear(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        while let Some(news) = self.streams.as_mut().and_then(|streams| streams.take_news()) {
            self.turn(net, transfers, |app, scope| app.on_news(scope, &news));
            if let Some(streams) = &mut self.streams {
                streams.flush(net, news.end.connection());
            }
        }
    }

    /// Gives a running flow its turn and deals with what comes of it.
    fn call(
        &mut self,
        net: &mut Net,
        transfers: &mut Vec<Transfer>,
        turn: impl FnOnce(&mut App, &mut Scope<'_>) -> Progress,
    ) {
        self.turn(net, transfers, turn);
        self.hear(net, transfers);
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
            given: &self.given,
            tally: &mut self.tally,
            transfers: &mut *transfers,
            streams: self.streams.as_deref_mut(),
            opened: &mut self.opened,
        };
        let progress = turn(app, &mut scope);
        self.heed(net, transfers, progress);
    }

    fn heed(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>, progress: Progress) {
        match progress {
            Progress::Going => {}
            Progress::Done(at) => {
                self.end(net, transfers, at, Outcome::Completed);
                if let Some(course) = &mut self.ended {
                    course.completion = Some(at.since(self.run_started));
                }
            }
            Progress::Cut(at) => self.end(net, transfers, at, Outcome::Expired),
            Progress::Failed(why) => {
                let now = net.now;
                self.end(net, transfers, now, Outcome::Failed(why.to_owned()));
            }
        }
    }

    /// Stops it. A flow that has not started yet will not.
    pub(crate) fn stop(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>) {
        let now = net.now;
        self.end(net, transfers, now, Outcome::Stopped);
    }

    fn end(&mut self, net: &mut Net, transfers: &mut Vec<Transfer>, at: Time, outcome: Outcome) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        if !matches!(phase, Phase::Ended) && self.given.spec.is_finite() {
            net.pending -= 1;
        }
        if let Phase::Running(mut app) = phase {
            app.cease(net.now);
            let mut scope = Scope {
                net,
                given: &self.given,
                tally: &mut self.tally,
                transfers,
                streams: self.streams.as_deref_mut(),
                opened: &mut self.opened,
            };
            app.observe(&mut scope);
            app.close(&mut scope);
            if let Some(streams) = &mut self.streams {
                streams.end_run(net, &mut self.tally);
            }
            self.tally.record_rtt();
            self.tally.close_run();
            let started = self.run_started;
            let course = self.ended.get_or_insert_with(|| Box::new(not_started()));
            course.started = course.started.or(Some(started));
            course.active += at.since(started);
            course.ended = Some(at);
            course.outcome = outcome;
        }
        self.expires = Time::MAX;
    }

    /// The sample of the interval that ends now, `None` if it did not run; those of its subflows
    /// are added to `subflows`.
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
                given: &self.given,
                tally: &mut self.tally,
                transfers: &mut Vec::new(),
                streams: self.streams.as_deref_mut(),
                opened: &mut self.opened,
            });
        }
        if !running && !self.touched {
            return None;
        }
        self.touched = running;
        let interval = net.now.since(last);
        if self.streams.is_some() {
            subflows.extend(self.tally.cut_subflows(net.now, interval, self.given.id));
        }
        let sample = self.tally.cut(net.now, interval, self.given.id, &self.given.spec.traffic);
        if running && self.run_started <= last {
            self.tally.record_goodput(&sample);
        }
        Some(sample)
    }

    /// What it achieved.
    pub(crate) fn into_result(self) -> FlowResult {
        let mut course = self.ended.map_or_else(not_started, |course| *course);
        if matches!(self.phase, Phase::Running(_)) {
            course.started = course.started.or(Some(self.run_started));
        }
        let Given { id, name, spec, .. } = self.given;
        self.tally.into_result(id, name.into(), &spec.traffic, course)
    }
}

fn not_started() -> Course {
    Course {
        outcome: Outcome::NotStarted,
        started: None,
        ended: None,
        active: Span::ZERO,
        completion: None,
    }
}
