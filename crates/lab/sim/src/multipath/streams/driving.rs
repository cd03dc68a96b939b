//! Drives sessions by events of their subflows and by timers.

use base::Time;
use mctcp::acceptor::Verdict;
use mctcp::{Counted, Frame, Output, PathId, Session, SubflowId, session};

use super::{PENDING, Streams};
use crate::app::ConnectionEvent;
use crate::multipath::pending::handshake;
use crate::multipath::subflow::{Subflow, path_info};
use crate::net::{EndId, Net, mix};

impl Streams {
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.wakes.next_time()
    }

    pub(crate) fn on_wake(&mut self, net: &mut Net) {
        while let Some((at, id)) = self.wakes.pop_until(net.now) {
            if id == PENDING {
                if self.pending_armed == at {
                    self.pending_armed = Time::MAX;
                    self.pending.on_wake(net.now);
                    self.apply_verdicts(net);
                    let of = |(at, _): &(u32, usize)| self.subflows.get(*at).map(|s| s.stream);
                    let ids: Vec<u32> = self.moved.iter().filter_map(of).collect();
                    for id in ids {
                        self.settle(net, id);
                    }
                }
                continue;
            }
            let Some(stream) = self.all.get_mut(id).filter(|stream| stream.armed == at) else {
                continue;
            };
            stream.armed = Time::MAX;
            stream.touched = [true; 2];
            for session in stream.sessions.iter_mut().flatten() {
                if session.next_wake().is_some_and(|at| at <= net.now) {
                    session.on_wake(net.now);
                }
            }
            self.settle(net, id);
        }
    }

    /// Handles an event of a TCP connection's end.
    pub(crate) fn on_tcp(&mut self, net: &mut Net, event: &ConnectionEvent) {
        let (connection, side) = (event.end.connection(), event.end.side());
        let Some(at) = net.connection(connection).map(|connection| connection.tag) else { return };
        let known = self.subflows.get_mut(at).filter(|known| known.connection == connection);
        let Some(subflow) = known else { return };
        let id = subflow.stream;
        let state = event.state.unwrap_or_default();
        if state.established && !subflow.sides[side].up {
            subflow.sides[side].up = true;
            self.begin(net, at, side);
        }
        self.receive(net, at, side, event.bytes);
        if state.closed {
            self.end(net, at, side, session::End::Failed);
        } else if state.finished {
            self.end(net, at, side, session::End::Finished);
        }
        self.moved.push((at, side));
        self.settle(net, id);
    }

    /// Handles a completed TCP handshake at one side.
    fn begin(&mut self, net: &mut Net, at: u32, side: usize) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        if side == 1 {
            match self.pending.open(net.now) {
                Some(connection) => {
                    subflow.doubtful = Some(connection);
                    self.doubtful.insert(connection, at);
                }
                None => self.close(net, at, 1, true),
            }
            self.arm_pending(net);
            return;
        }
        let Some(stream) = self.all.get_mut(subflow.stream) else { return };
        let session = stream.sessions[0].as_mut();
        stream.touched[0] = true;
        match session.and_then(|session| session.connected(net.now, subflow.path)) {
            Some(id) => {
                subflow.sides[0].id = Some(id);
                stream.ends[0].up = true;
            }
            None => self.close(net, at, 0, true),
        }
    }

    /// Handles bytes that TCP has delivered to one side: passes on the frames that they complete.
    fn receive(&mut self, net: &mut Net, at: u32, side: usize, bytes: u64) {
        let now = net.now;
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        subflow.sides[1 - side].pipe.arrive(bytes);
        while let Some(subflow) = self.subflows.get_mut(at)
            && let Some((path_seq, frame)) = subflow.sides[1 - side].pipe.pop()
        {
            let Some(id) = subflow.sides[side].id else {
                if let Frame::Hello(hello) = &frame {
                    subflow.greeted = Some(hello.subflow);
                }
                if let Some(connection) = subflow.doubtful {
                    self.pending.on_frame(now, connection, frame);
                    self.apply_verdicts(net);
                }
                continue;
            };
            let Some(stream) = self.all.get_mut(subflow.stream) else { continue };
            let Some(session) = &mut stream.sessions[side] else { continue };
            stream.touched[side] = true;
            session.on_frame(now, id, path_seq, frame);
            if side == 1 && session.is_confirmed() && !stream.confirmed {
                stream.confirmed = true;
                self.pending.confirm(session.number());
            }
        }
    }

    /// Handles the end of a TCP connection at one side.
    fn end(&mut self, net: &mut Net, at: u32, side: usize, end: session::End) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        self.ending.push(at);
        if std::mem::replace(&mut subflow.sides[side].over, true) {
            return;
        }
        let Some(stream) = self.all.get_mut(subflow.stream) else { return };
        stream.touched[side] = true;
        match (subflow.sides[side].id, &mut stream.sessions[side]) {
            (Some(id), Some(session)) => session.on_end(net.now, id, end),
            (None, Some(session)) if side == 0 => session.connect_failed(net.now, subflow.path),
            _ => {
                if let Some(connection) = subflow.doubtful.take() {
                    self.doubtful.remove(&connection);
                    self.pending.on_lost(net.now, connection);
                }
                self.close(net, at, side, false);
            }
        }
    }

    /// Closes one side of a connection for a session or the acceptor.
    fn close(&mut self, net: &mut Net, at: u32, side: usize, abort: bool) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        subflow.sides[side].over = true;
        if let Some(connection) = net.connection(subflow.connection) {
            let tcp = &mut connection.ends[side].tcp;
            if abort {
                tcp.abort();
            } else {
                tcp.finish();
            }
        }
        self.moved.push((at, side));
        self.ending.push(at);
    }

    fn apply_verdicts(&mut self, net: &mut Net) {
        while let Some(verdict) = self.pending.poll() {
            let id = verdict.connection();
            let Some(at) = self.doubtful.get(&id).copied() else { continue };
            if !matches!(verdict, Verdict::Send(..)) {
                self.doubtful.remove(&id);
                if let Some(subflow) = self.subflows.get_mut(at) {
                    subflow.doubtful = None;
                }
            }
            self.decided(net, at, verdict);
        }
        self.arm_pending(net);
    }

    fn decided(&mut self, net: &mut Net, at: u32, verdict: Verdict) {
        let now = net.now;
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let Some(stream) = self.all.get_mut(subflow.stream) else { return };
        stream.touched[1] = true;
        let session = &mut stream.sessions[1];
        let known = match verdict {
            Verdict::Send(_, frame) => {
                let path_seq = subflow.answers;
                subflow.answers += 1;
                return self.send(net, at, 1, path_seq, handshake(frame));
            }
            Verdict::Open(_, hello, ack, key) => {
                let settings = self.shape.settings.clone();
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
            self.close(net, at, 1, false);
        }
    }

    /// Polls the changed sessions of a stream until neither has output, and
    /// notifies the applications.
    pub(super) fn settle(&mut self, net: &mut Net, id: u32) {
        let mut arrived = [0; 2];
        let mut busy = false;
        loop {
            for side in [0, 1] {
                while let Some(stream) = self.all.get_mut(id)
                    && std::mem::take(&mut stream.touched[side])
                {
                    busy = true;
                    stream.feed(net.now, side);
                    arrived[side] += stream.read(net.now, side);
                    while let Some(output) = self.poll(id, side) {
                        self.carry_out(net, id, side, output);
                    }
                }
            }
            let mut moved = std::mem::take(&mut self.moved);
            let mut again = false;
            for (at, side) in moved.drain(..) {
                again |= self.refresh(net, at, side);
            }
            // `refresh` adds nothing to `moved`.
            self.moved = moved;
            if !again {
                break;
            }
        }
        self.reap(net);
        if busy {
            self.tell(id, arrived);
            self.arm(net, id);
        }
    }

    fn poll(&mut self, id: u32, side: usize) -> Option<Output<Counted>> {
        self.all.get_mut(id)?.sessions[side].as_mut()?.poll()
    }

    /// Sends the queued data of a subflow's end, and reports its free send buffer to the session if
    /// the change matters. Returns whether it reported free space.
    fn refresh(&mut self, net: &mut Net, at: u32, side: usize) -> bool {
        let now = net.now;
        let Some(subflow) = self.subflows.get_mut(at) else { return false };
        net.flush(EndId::new(subflow.connection, side));
        let here = &mut subflow.sides[side];
        let Some(id) = here.id.filter(|_| !here.over) else { return false };
        let Some(connection) = net.connection(subflow.connection) else { return false };
        let room = here.measure_room(&connection.ends[side].tcp, self.shape.buffer);
        let little = here.room > 0 && here.room <= room && here.room >= room / 2;
        if little || here.room == room {
            return false;
        }
        here.room = room;
        let Some(stream) = self.all.get_mut(subflow.stream) else { return false };
        let Some(session) = &mut stream.sessions[side] else { return false };
        session.set_room(now, id, base::Bytes::new(room));
        stream.touched[side] |= room > 0;
        room > 0
    }

    fn carry_out(&mut self, net: &mut Net, id: u32, side: usize, output: Output<Counted>) {
        match output {
            Output::Connect(path) => self.open(net, id, path),
            Output::Abandon(path) => self.abandon(net, id, path),
            Output::Send { subflow, path_seq, frame } => {
                if let Some(at) = self.find(id, side, subflow) {
                    self.send(net, at, side, path_seq, frame);
                }
            }
            Output::Close { subflow, abort } => {
                if let Some(at) = self.find(id, side, subflow) {
                    self.close(net, at, side, abort);
                }
            }
            Output::Inspect(subflow) => {
                let Some(at) = self.find(id, side, subflow) else { return };
                let connection = self.subflows.get(at).map(|known| known.connection);
                let Some(connection) = connection.and_then(|id| net.connection(id)) else { return };
                let info = path_info(&connection.ends[side].tcp.statistics());
                let stream = self.all.get_mut(id);
                if let Some(session) = stream.and_then(|stream| stream.sessions[side].as_mut()) {
                    session.on_path_info(net.now, subflow, info);
                }
            }
            Output::Event(session::Event::Closed) if side == 1 => {
                let stream = self.all.get(id);
                if let Some(server) = stream.and_then(|stream| stream.sessions[1].as_ref()) {
                    self.pending.finish(server.number());
                }
            }
            Output::Event(_) => {}
        }
    }

    /// The index of a stream's subflow that the session of one side calls `name`.
    fn find(&self, id: u32, side: usize, name: SubflowId) -> Option<u32> {
        let named = |at: &u32| {
            self.subflows.get(*at).is_some_and(|subflow| subflow.sides[side].id == Some(name))
        };
        self.all.get(id)?.subflows.iter().copied().find(named)
    }

    fn send(&mut self, net: &mut Net, at: u32, side: usize, path_seq: u32, frame: Frame<Counted>) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let here = &mut subflow.sides[side];
        let length = here.pipe.push(path_seq, frame);
        here.room = here.room.saturating_sub(length);
        if let Some(connection) = net.connection(subflow.connection) {
            connection.ends[side].tcp.write(length);
        }
        self.moved.push((at, side));
    }

    fn open(&mut self, net: &mut Net, id: u32, path: PathId) {
        let way = self.shape.way(path);
        let at = self.subflows.insert(Subflow::new(id, path, self.opened));
        self.opened += 1;
        let hash = mix(self.hash, self.opened);
        let connection = net.connect_over(self.flow, way.legs, &way.config, hash, at);
        if let (Some(subflow), Some(stream)) = (self.subflows.get_mut(at), self.all.get_mut(id)) {
            subflow.connection = connection;
            stream.subflows.push(at);
        }
        self.moved.push((at, 0));
    }

    /// Aborts the opening of a connection.
    fn abandon(&mut self, net: &mut Net, id: u32, path: PathId) {
        let Some(stream) = self.all.get(id) else { return };
        let opening = |at: &u32| {
            let subflow = self.subflows.get(*at);
            subflow.is_some_and(|subflow| subflow.path == path && !subflow.sides[0].up)
        };
        if let Some(at) = stream.subflows.iter().copied().find(opening) {
            self.close(net, at, 0, true);
        }
    }

    /// Removes the subflows that have ended on both sides.
    fn reap(&mut self, net: &mut Net) {
        while let Some(at) = self.ending.pop() {
            let Some(subflow) = self.subflows.get(at) else { continue };
            let Some(connection) = net.connection(subflow.connection) else { continue };
            let closed = |side: usize| connection.ends[side].tcp.is_closed();
            if closed(0) && (closed(1) || !subflow.sides[1].up) {
                let id = subflow.stream;
                self.remove(net, at);
                let stream = self.all.get(id);
                if stream.is_some_and(|stream| stream.forgotten && stream.subflows.is_empty()) {
                    self.drop_stream(id);
                }
            }
        }
    }

    /// Removes a subflow and its connection.
    pub(super) fn remove(&mut self, net: &mut Net, at: u32) {
        if self.subflows.get(at).is_none() {
            return;
        }
        let subflow_status = self.subflow_status(net, at);
        self.gone.subflows.push(run::Subflow { state: "closed", ..subflow_status });
        let Some(subflow) = self.subflows.remove(at) else { return };
        if let Some(connection) = subflow.doubtful {
            self.doubtful.remove(&connection);
            self.pending.on_lost(net.now, connection);
        }
        let ends = net.statistics(subflow.connection).unwrap_or_default();
        net.close(subflow.connection);
        if let Some(stream) = self.all.get_mut(subflow.stream) {
            stream.subflows.retain(|other| *other != at);
            for end in ends {
                stream.past[0] += end.retransmits;
                stream.past[1] += end.timeouts;
            }
        }
    }

    /// Removes a stream without subflows.
    pub(super) fn drop_stream(&mut self, id: u32) {
        let Some(stream) = self.all.remove(id) else { return };
        for session in stream.sessions.iter().flatten() {
            let statistics = session.statistics();
            self.gone.reinjected += statistics.reinjected;
            self.gone.reorder = self.gone.reorder.max(statistics.reorder_peak);
        }
        if let Some(server) = &stream.sessions[1] {
            self.pending.forget(server.number());
        }
    }

    /// Notifies the applications of received data and state changes.
    fn tell(&mut self, id: u32, arrived: [u64; 2]) {
        let Some(stream) = self.all.get_mut(id) else { return };
        for (side, bytes) in arrived.into_iter().enumerate() {
            let state = stream.learn(side);
            if !stream.forgotten && (bytes > 0 || state.is_some()) {
                self.events.push_back(ConnectionEvent { end: EndId::new(id, side), bytes, state });
            }
        }
    }

    fn arm(&mut self, net: &Net, id: u32) {
        if let Some(stream) = self.all.get_mut(id)
            && let Some(at) = stream.next_wake()
            && at < stream.armed
        {
            stream.armed = at.max(net.now);
            self.wakes.push(stream.armed, id);
        }
    }

    fn arm_pending(&mut self, net: &Net) {
        if let Some(at) = self.pending.next_wake()
            && at < self.pending_armed
        {
            self.pending_armed = at.max(net.now);
            self.wakes.push(self.pending_armed, PENDING);
        }
    }
}
