//! Requests that come whether or not those before have been answered, over connections that stay
//! open.

use std::collections::VecDeque;

use base::{Bytes, RandomStream, Time};
use lab::plan::Traffic;
use record::Transfer;
use transport::workload::{Arrivals, Sizes};

use super::{News, Observed, Progress, Scope};
use crate::net::EndId;

/// Requests under way, and when the next comes.
#[derive(Debug)]
pub(crate) struct Requests {
    request: Sizes,
    response: Sizes,
    arrivals: Arrivals,
    /// Requests still to come; `None`: without end.
    left: Option<u64>,
    next: Option<Time>,
    request_stream: RandomStream,
    response_stream: RandomStream,
    time_stream: RandomStream,
    /// A connection's tag is its place here.
    channels: Vec<Channel>,
    /// Places of connections without a request, the longest idle first.
    idle: VecDeque<u32>,
    /// Places whose connections broke.
    broken: Vec<u32>,
    /// Requests without their whole response.
    open: u64,
    /// What broken connections had counted.
    past: Observed,
}

/// A connection and its request.
#[derive(Clone, Copy, Debug)]
struct Channel {
    connection: u32,
    request: Option<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start: Time,
    /// Size of the response.
    size: u64,
    /// What the server has yet to get of the request.
    asking: u64,
    /// What the client has yet to get of the response.
    missing: u64,
}

impl Requests {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        let Traffic::Requests { request, response, arrivals, count, streams, .. } =
            &scope.given.spec.traffic
        else {
            unreachable!("only flows of such requests are opened as such")
        };
        let (request, response) = (request.clone(), response.clone());
        let (arrivals, left, streams) = (arrivals.clone(), *count, *streams);
        let mut app = Self {
            request,
            response,
            arrivals,
            left,
            next: None,
            request_stream: scope.given.stream("requests"),
            response_stream: scope.given.stream("responses"),
            time_stream: scope.given.stream("arrivals"),
            channels: Vec::new(),
            idle: VecDeque::new(),
            broken: Vec::new(),
            open: 0,
            past: Observed::default(),
        };
        for _ in 0..streams {
            let place = app.connect(scope);
            app.idle.push_back(place);
        }
        app.next = Some(scope.now() + app.arrivals.first(&mut app.time_stream));
        app
    }

    /// Opens a connection and gives its place.
    fn connect(&mut self, scope: &mut Scope<'_>) -> u32 {
        let place = self.broken.pop().unwrap_or(self.channels.len() as u32);
        let connection = scope.connect(place);
        let channel = Channel { connection, request: None };
        match self.channels.get_mut(place as usize) {
            Some(old) => *old = channel,
            None => self.channels.push(channel),
        }
        scope.flush(EndId::new(connection, 0));
        place
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.next
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        while let Some(next) = self.next.filter(|next| *next <= scope.now()) {
            self.ask(scope);
            self.left = self.left.map(|left| left - 1);
            let more = self.left != Some(0);
            self.next = more.then(|| next + self.arrivals.gap(&mut self.time_stream));
        }
        self.progress(scope)
    }

    fn ask(&mut self, scope: &mut Scope<'_>) {
        let place = match self.idle.pop_front() {
            Some(place) => place,
            None => self.connect(scope),
        };
        let asking = self.request.draw(&mut self.request_stream).max(1);
        let size = self.response.draw(&mut self.response_stream).max(1);
        let channel = &mut self.channels[place as usize];
        channel.request = Some(Request { start: scope.now(), size, asking, missing: size });
        self.open += 1;
        scope.tally.transfers_started += 1;
        scope.tally.sent += asking;
        scope.write(channel.connection, 0, asking);
        scope.flush(EndId::new(channel.connection, 0));
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        let id = news.end.connection();
        let Some(tag) = scope.tag(id).map(|tag| *tag) else { return Progress::Going };
        let Some(channel) = self.channels.get_mut(tag as usize) else { return Progress::Going };
        match (news.end.side(), &mut channel.request) {
            (1, Some(request)) if request.asking > 0 => {
                request.asking = request.asking.saturating_sub(news.bytes);
                if request.asking == 0 {
                    let size = request.size;
                    scope.write(id, 1, size);
                }
            }
            (0, request) => {
                scope.tally.received += news.bytes;
                if let Some(request) = request {
                    request.missing = request.missing.saturating_sub(news.bytes);
                    if request.missing == 0 {
                        self.answered(scope, tag);
                    }
                }
            }
            _ => {}
        }
        if news.is_closed() {
            self.give_up(scope, tag);
        }
        self.progress(scope)
    }

    fn answered(&mut self, scope: &mut Scope<'_>, place: u32) {
        let channel = &mut self.channels[place as usize];
        let Some(request) = channel.request.take() else { return };
        let transfer = transfer(scope, &request, true);
        scope.tally.responses += 1;
        scope.tally.transfer(&transfer);
        scope.transfers.push(transfer);
        self.open -= 1;
        self.idle.push_back(place);
    }

    /// A connection broke, and its request with it.
    fn give_up(&mut self, scope: &mut Scope<'_>, place: u32) {
        let Channel { connection, request } = self.channels[place as usize];
        if self.broken.contains(&place) {
            return;
        }
        self.past.add(scope, connection);
        scope.forget(connection);
        self.channels[place as usize].request = None;
        self.idle.retain(|other| *other != place);
        self.broken.push(place);
        if let Some(request) = request {
            self.open -= 1;
            let transfer = transfer(scope, &request, false);
            scope.transfers.push(transfer);
        }
    }

    fn progress(&self, scope: &Scope<'_>) -> Progress {
        if self.next.is_none() && self.left == Some(0) && self.open == 0 {
            return Progress::Done(scope.now());
        }
        Progress::Going
    }

    /// The connections that have not broken.
    fn whole(&self) -> impl Iterator<Item = &Channel> {
        let place = |(at, channel)| (!self.broken.contains(&(at as u32))).then_some(channel);
        self.channels.iter().enumerate().filter_map(place)
    }

    pub(super) fn observe(&mut self, scope: &mut Scope<'_>) {
        let mut observed = self.past;
        observed.count = 0;
        observed.srtt_nanos = 0;
        observed.window = Bytes::ZERO;
        for channel in self.whole() {
            observed.add(scope, channel.connection);
        }
        observed.report(scope.tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        let whole: Vec<Channel> = self.whole().copied().collect();
        for channel in whole {
            if let Some(request) = channel.request {
                let transfer = transfer(scope, &request, false);
                scope.transfers.push(transfer);
            }
            scope.reset(channel.connection);
        }
        self.channels.clear();
        self.broken.clear();
        self.idle.clear();
    }
}

/// What is recorded of a request.
fn transfer(scope: &Scope<'_>, request: &Request, whole: bool) -> Transfer {
    let size = Bytes::new(request.size);
    Transfer {
        flow: scope.given.id,
        start: request.start,
        size,
        completion: whole.then(|| scope.now().since(request.start)),
        ideal: Some(scope.given.ideal.answer(size)),
        retransmits: None,
    }
}
