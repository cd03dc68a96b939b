//! Drives sessions by events of their subflows and by timers.

use std::net::{IpAddr, Ipv4Addr};

use base::{Bytes, Time};

use super::{Driver, Input, Side, StreamEvent, Subflow, SubflowStatus, Transport};
use crate::acceptor::Verdict;
use crate::session::{End, Event, Output};
use crate::{Frame, PathId, Payload, Session, SubflowId};

impl<P: Payload, L> Driver<P, L> {
    /// The next deadline, at which [`on_wake`](Self::on_wake) must be called.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.keys().next().map(|(at, _)| *at)
    }

    /// Handles due deadlines.
    pub fn on_wake(&mut self, transport: &mut impl Transport<P, L>) {
        let now = transport.now();
        while let Some(entry) = self.wakes.first_entry().filter(|entry| entry.key().0 <= now) {
            let at = entry.key().0;
            let Some(id) = entry.remove() else {
                if self.acceptor_armed == at {
                    self.on_acceptor_wake(transport);
                }
                continue;
            };
            let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.armed == at) else {
                continue;
            };
            stream.armed = Time::MAX;
            stream.touched = [true; 2];
            for session in stream.sessions.iter_mut().flatten() {
                if session.next_wake().is_some_and(|at| at <= now) {
                    session.on_wake(now);
                }
            }
            self.settle(transport, id);
        }
    }

    fn on_acceptor_wake(&mut self, transport: &mut impl Transport<P, L>) {
        self.acceptor_armed = Time::MAX;
        self.acceptor.on_wake(transport.now());
        self.apply_verdicts(transport);
        let of = |(at, _): &(u32, usize)| self.subflows.get(*at).map(|s| s.stream);
        let ids: Vec<u32> = self.moved.iter().filter_map(of).collect();
        for id in ids {
            self.settle(transport, id);
        }
    }

    /// Handles an event of one side of a subflow's connection: its TCP handshake is complete, it
    /// has input, or it accepts more data.
    pub fn on_event(
        &mut self,
        transport: &mut impl Transport<P, L>,
        key: u32,
        side: usize,
        is_established: bool,
    ) {
        let Some(subflow) = self.subflows.get_mut(key) else { return };
        let id = subflow.stream;
        let here = &mut subflow.sides[side];
        // An abandoned attempt may still succeed: another one uses its path.
        if is_established && !here.up && !here.over {
            here.up = true;
            self.begin(transport, key, side);
        }
        self.receive(transport, key, side);
        self.moved.push((key, side));
        self.settle(transport, id);
    }

    /// Handles a completed TCP handshake at one side.
    fn begin(&mut self, transport: &mut impl Transport<P, L>, at: u32, side: usize) {
        let now = transport.now();
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        if side == 1 {
            match self.acceptor.open(now, IpAddr::V4(Ipv4Addr::LOCALHOST)) {
                Some(connection) => {
                    subflow.doubtful = Some(connection);
                    self.doubtful.insert(connection, at);
                }
                None => self.close(transport, at, 1, true),
            }
            self.arm_acceptor(now);
            return;
        }
        let Some(stream) = self.streams.get_mut(subflow.stream) else { return };
        let session = stream.sessions[0].as_mut();
        stream.touched[0] = true;
        match session.and_then(|session| session.connected(now, subflow.path)) {
            Some(id) => {
                subflow.sides[0].id = Some(id);
                stream.ends[0].up = true;
            }
            None => self.close(transport, at, 0, true),
        }
    }

    /// Passes on the input of one side.
    fn receive(&mut self, transport: &mut impl Transport<P, L>, at: u32, side: usize) {
        let now = transport.now();
        while let Some(subflow) = self.subflows.get_mut(at)
            && let Some(input) = transport.receive(&mut subflow.link, side)
        {
            let (path_seq, frame) = match input {
                Input::Frame(path_seq, frame) => (path_seq, frame),
                Input::Ended(end) => {
                    self.end(transport, at, side, end);
                    continue;
                }
                Input::Violation(error) => {
                    let stream = self.streams.get_mut(subflow.stream);
                    let id = subflow.sides[side].id;
                    if let Some((id, stream)) = id.zip(stream)
                        && let Some(session) = &mut stream.sessions[side]
                    {
                        stream.touched[side] = true;
                        session.on_error(now, id, &error);
                    } else {
                        self.end(transport, at, side, End::Failed);
                    }
                    continue;
                }
            };
            if let Frame::Data { payload, .. } = &frame {
                subflow.sides[1 - side].received += payload.len() as u64;
            }
            let Some(id) = subflow.sides[side].id else {
                if let Frame::Hello(hello) = &frame {
                    subflow.greeted = Some(hello.subflow);
                }
                if let Some(connection) = subflow.doubtful {
                    self.acceptor.on_frame(now, connection, handshake(frame), None);
                    self.apply_verdicts(transport);
                }
                continue;
            };
            let Some(stream) = self.streams.get_mut(subflow.stream) else { continue };
            let Some(session) = &mut stream.sessions[side] else { continue };
            stream.touched[side] = true;
            session.on_frame(now, id, path_seq, frame);
            if side == 1 && session.is_confirmed() && !stream.confirmed {
                stream.confirmed = true;
                self.acceptor.mark_confirmed(session.number());
            }
        }
    }

    /// Handles the end of a connection at one side.
    fn end(&mut self, transport: &mut impl Transport<P, L>, at: u32, side: usize, end: End) {
        let now = transport.now();
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        self.ending.push(at);
        if std::mem::replace(&mut subflow.sides[side].over, true) {
            return;
        }
        let Some(stream) = self.streams.get_mut(subflow.stream) else { return };
        stream.touched[side] = true;
        match (subflow.sides[side].id, &mut stream.sessions[side]) {
            (Some(id), Some(session)) => session.on_end(now, id, end),
            (None, Some(session)) if side == 0 => session.connect_failed(now, subflow.path),
            _ => {
                if let Some(connection) = subflow.doubtful.take() {
                    self.doubtful.remove(&connection);
                    self.acceptor.on_lost(now, connection);
                }
                self.close(transport, at, side, false);
            }
        }
    }

    /// Closes one side of a connection for a session or the acceptor.
    fn close(&mut self, transport: &mut impl Transport<P, L>, at: u32, side: usize, abort: bool) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        subflow.sides[side].over = true;
        transport.close(&mut subflow.link, side, abort);
        self.moved.push((at, side));
        self.ending.push(at);
    }

    fn apply_verdicts(&mut self, transport: &mut impl Transport<P, L>) {
        while let Some(verdict) = self.acceptor.poll() {
            let id = verdict.connection();
            let Some(at) = self.doubtful.get(&id).copied() else { continue };
            if !matches!(verdict, Verdict::Send(..)) {
                self.doubtful.remove(&id);
                if let Some(subflow) = self.subflows.get_mut(at) {
                    subflow.doubtful = None;
                }
            }
            self.decided(transport, at, verdict);
        }
        self.arm_acceptor(transport.now());
    }

    fn decided(&mut self, transport: &mut impl Transport<P, L>, at: u32, verdict: Verdict) {
        let now = transport.now();
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let Some(stream) = self.streams.get_mut(subflow.stream) else { return };
        stream.touched[1] = true;
        let session = &mut stream.sessions[1];
        let known = match verdict {
            Verdict::Send(_, frame) => {
                let path_seq = subflow.answers;
                subflow.answers += 1;
                return self.send(transport, at, 1, path_seq, handshake(frame));
            }
            Verdict::Open(_, hello, ack, key) => {
                let settings = self.setup.settings.clone();
                *session = Some(Session::accept(now, settings, &hello, &ack, key, false));
                stream.ends[1].up = true;
                Some(hello.subflow)
            }
            Verdict::RepeatedHello(..) => {
                let again = |id: &SubflowId| {
                    session.as_mut().is_some_and(|session| session.attach_repeated_hello(now, *id))
                };
                subflow.greeted.filter(again)
            }
            Verdict::Joined(_, join) => {
                let joined = session.as_mut().is_some_and(|session| session.attach(now, &join));
                joined.then_some(join.subflow)
            }
            Verdict::Close(_) => None,
        };
        subflow.sides[1].id = known;
        if known.is_none() {
            self.close(transport, at, 1, false);
        }
    }

    /// Polls the changed sessions of a stream until neither has output, and
    /// notifies the applications.
    pub(super) fn settle(&mut self, transport: &mut impl Transport<P, L>, id: u32) {
        let mut arrived = [0; 2];
        let mut busy = false;
        loop {
            for side in [0, 1] {
                while let Some(stream) = self.streams.get_mut(id)
                    && std::mem::take(&mut stream.touched[side])
                {
                    busy = true;
                    stream.feed(transport, side);
                    arrived[side] += stream.read(transport, side);
                    while let Some(output) = self.poll(id, side) {
                        self.carry_out(transport, id, side, output);
                    }
                }
            }
            let mut moved = std::mem::take(&mut self.moved);
            let mut again = false;
            for (at, side) in moved.drain(..) {
                again |= self.refresh(transport, at, side);
            }
            // `refresh` adds nothing to `moved`.
            self.moved = moved;
            if !again {
                break;
            }
        }
        self.reap(transport);
        if busy {
            self.notify(id, arrived);
            self.arm(transport.now(), id);
        }
    }

    fn poll(&mut self, id: u32, side: usize) -> Option<Output<P>> {
        self.streams.get_mut(id)?.sessions[side].as_mut()?.poll()
    }

    /// Sends the queued data of a subflow's end, and reports its free send buffer to the session if
    /// the change matters. Returns whether it reported free space.
    fn refresh(&mut self, transport: &mut impl Transport<P, L>, at: u32, side: usize) -> bool {
        let now = transport.now();
        let Some(subflow) = self.subflows.get_mut(at) else { return false };
        transport.flush(&mut subflow.link, side);
        let here = &mut subflow.sides[side];
        let Some(id) = here.id.filter(|_| !here.over) else { return false };
        let room = transport.room(&mut subflow.link, side);
        let little = here.room > 0 && here.room <= room && here.room >= room / 2;
        if little || here.room == room {
            return false;
        }
        here.room = room;
        let Some(stream) = self.streams.get_mut(subflow.stream) else { return false };
        let Some(session) = &mut stream.sessions[side] else { return false };
        session.set_room(now, id, Bytes::new(room));
        stream.touched[side] |= room > 0;
        room > 0
    }

    fn carry_out(
        &mut self,
        transport: &mut impl Transport<P, L>,
        id: u32,
        side: usize,
        output: Output<P>,
    ) {
        match output {
            Output::Connect(path) => self.open(transport, id, path),
            Output::Abandon(path) => self.abandon(transport, id, path),
            Output::Send { subflow, path_seq, frame } => {
                if let Some(at) = self.find(id, side, subflow) {
                    self.send(transport, at, side, path_seq, frame);
                }
            }
            Output::Close { subflow, abort } => {
                if let Some(at) = self.find(id, side, subflow) {
                    self.close(transport, at, side, abort);
                }
            }
            Output::Inspect(name) => {
                let subflow = self.find(id, side, name).and_then(|at| self.subflows.get_mut(at));
                let info = subflow.and_then(|known| transport.info(&mut known.link, side));
                if let Some((info, stream)) = info.zip(self.streams.get_mut(id))
                    && let Some(session) = &mut stream.sessions[side]
                {
                    session.on_path_info(transport.now(), name, info);
                }
            }
            Output::Event(Event::Closed) if side == 1 => {
                let stream = self.streams.get(id);
                if let Some(server) = stream.and_then(|stream| stream.sessions[1].as_ref()) {
                    self.acceptor.finish(server.number());
                }
            }
            Output::Event(_) => {}
        }
    }

    /// The key of a stream's subflow that the session of one side calls `name`.
    fn find(&self, id: u32, side: usize, name: SubflowId) -> Option<u32> {
        let named = |at: &u32| {
            self.subflows.get(*at).is_some_and(|subflow| subflow.sides[side].id == Some(name))
        };
        self.streams.get(id)?.subflows.iter().copied().find(named)
    }

    fn send(
        &mut self,
        transport: &mut impl Transport<P, L>,
        at: u32,
        side: usize,
        path_seq: u32,
        frame: Frame<P>,
    ) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let here = &mut subflow.sides[side];
        if let Frame::Data { payload, .. } = &frame {
            here.sent += payload.len() as u64;
        }
        let length = transport.send(&mut subflow.link, side, path_seq, frame);
        here.room = here.room.saturating_sub(length);
        self.moved.push((at, side));
    }

    fn open(&mut self, transport: &mut impl Transport<P, L>, id: u32, path: PathId) {
        let number = self.opened;
        self.opened += 1;
        let link = transport.open(path, self.subflows.next_key(), number);
        let Some(stream) = self.streams.get_mut(id) else { return };
        let Some(link) = link else {
            if let Some(session) = &mut stream.sessions[0] {
                session.connect_failed(transport.now(), path);
            }
            return;
        };
        let at = self.subflows.insert(Subflow {
            link,
            stream: id,
            path,
            number,
            sides: [Side::default(), Side::default()],
            doubtful: None,
            answers: 0,
            greeted: None,
        });
        stream.subflows.push(at);
        self.moved.push((at, 0));
    }

    /// Aborts the opening of a connection.
    fn abandon(&mut self, transport: &mut impl Transport<P, L>, id: u32, path: PathId) {
        let Some(stream) = self.streams.get(id) else { return };
        let opening = |at: &u32| {
            let subflow = self.subflows.get(*at).filter(|subflow| subflow.path == path);
            subflow.is_some_and(|Subflow { sides: [client, _], .. }| !client.up && !client.over)
        };
        if let Some(at) = stream.subflows.iter().copied().find(opening) {
            self.close(transport, at, 0, true);
        }
    }

    /// Removes the subflows that have ended on both sides.
    fn reap(&mut self, transport: &mut impl Transport<P, L>) {
        while let Some(at) = self.ending.pop() {
            let Some(subflow) = self.subflows.get_mut(at) else { continue };
            let is_server_up = subflow.sides[1].up;
            let mut closed = |side| transport.is_closed(&mut subflow.link, side);
            if closed(0) && (closed(1) || !is_server_up) {
                let id = subflow.stream;
                self.remove(transport, at);
                let stream = self.streams.get(id);
                if stream.is_some_and(|stream| stream.forgotten && stream.subflows.is_empty()) {
                    self.drop_stream(id);
                }
            }
        }
    }

    /// Removes a subflow and its connection.
    pub(super) fn remove(&mut self, transport: &mut impl Transport<P, L>, at: u32) {
        let Some(subflow) = self.subflows.remove(at) else { return };
        let status = SubflowStatus { state: "closed", ..self.status(&subflow) };
        if let Some(connection) = subflow.doubtful {
            self.doubtful.remove(&connection);
            self.acceptor.on_lost(transport.now(), connection);
        }
        let past = transport.release(subflow.link, status);
        if let Some(stream) = self.streams.get_mut(subflow.stream) {
            stream.subflows.retain(|other| *other != at);
            stream.past = [stream.past[0] + past[0], stream.past[1] + past[1]];
        }
    }

    /// Removes a stream without subflows.
    pub(super) fn drop_stream(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(id) else { return };
        for session in stream.sessions.iter().flatten() {
            let statistics = session.statistics();
            self.past.0 += statistics.reinjected;
            self.past.1 = self.past.1.max(statistics.reorder_peak);
        }
        if let Some(server) = &stream.sessions[1] {
            self.acceptor.remove(server.number());
        }
    }

    /// Notifies the applications of received data and state changes.
    fn notify(&mut self, id: u32, arrived: [u64; 2]) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        for (side, bytes) in arrived.into_iter().enumerate() {
            let state = stream.learn(side);
            if !stream.forgotten && (bytes > 0 || state.is_some()) {
                self.events.push_back(StreamEvent { stream: id, side, bytes, state });
            }
        }
    }

    fn arm(&mut self, now: Time, id: u32) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(at) = stream.next_wake()
            && at < stream.armed
        {
            stream.armed = at.max(now);
            let armed = stream.armed;
            self.wake_at(armed, Some(id));
        }
    }

    fn arm_acceptor(&mut self, now: Time) {
        if let Some(at) = self.acceptor.next_wake()
            && at < self.acceptor_armed
        {
            self.acceptor_armed = at.max(now);
            self.wake_at(self.acceptor_armed, None);
        }
    }

    fn wake_at(&mut self, at: Time, id: Option<u32>) {
        self.wakes.insert((at, self.inserted), id);
        self.inserted += 1;
    }
}

/// Converts a handshake frame to another payload type; the acceptor does not use other frames.
fn handshake<P, Q>(frame: Frame<P>) -> Frame<Q> {
    match frame {
        Frame::Hello(hello) => Frame::Hello(hello),
        Frame::HelloAck(ack) => Frame::HelloAck(ack),
        Frame::Join(join) => Frame::Join(join),
        Frame::Challenge(challenge) => Frame::Challenge(challenge),
        Frame::Proof(proof) => Frame::Proof(proof),
        Frame::Refuse(reason) => Frame::Refuse(reason),
        _ => Frame::Ignored,
    }
}
