//! Executes the outputs of both sessions and reports the room in their sockets.

use bytes::Bytes;
use mctcp::SubflowId;
use mctcp::session::{Event, Output};

use super::{CLIENT, SERVER, World};
use crate::session::connection::Owner;

impl World {
    /// Runs both ends until they have nothing more to do now.
    pub(super) fn pump(&mut self) {
        let mut rounds = 0;
        loop {
            let mut did = self.pump_end(CLIENT);
            did |= self.pump_end(SERVER);
            if !did {
                break;
            }
            rounds += 1;
            assert!(rounds < 10_000, "both ends spin at {}", self.now);
        }
        if let Some(server) = &mut self.server {
            server.check();
        }
        self.client.check();
    }

    fn pump_end(&mut self, side: usize) -> bool {
        let now = self.now;
        self.report_room(side);
        let Some(end) = self.end(side) else { return false };
        let mut did = end.act(now);
        let mut outputs = 0;
        while let Some(output) = self.end(side).and_then(|end| end.session.poll()) {
            did = true;
            outputs += 1;
            assert!(outputs < 100_000, "polls without end at {now}");
            self.execute(side, output);
        }
        did
    }

    fn execute(&mut self, side: usize, output: Output<Bytes>) {
        match output {
            Output::Connect(path) => self.open(usize::from(path.0)),
            Output::Abandon(path) => self.abandon(usize::from(path.0)),
            Output::Send { subflow, path_seq, frame } => {
                if let Some(end) = self.end(side) {
                    end.on_sent(subflow, &frame);
                }
                if let Some(at) = self.connection(side, subflow) {
                    self.write(at, side, path_seq, frame);
                }
            }
            Output::Close { subflow, abort } => {
                if let Some(at) = self.connection(side, subflow) {
                    self.close(at, side, abort);
                }
            }
            Output::Inspect(subflow) => {
                if let Some(at) = self.connection(side, subflow) {
                    let info = self.connections[at].info(side);
                    let now = self.now;
                    if let Some(end) = self.end(side) {
                        end.session.on_path_info(now, subflow, info);
                    }
                }
            }
            Output::Event(event) => {
                if let (Event::Failed { reason, by_peer: true }, Some(end)) =
                    (event, self.end(side))
                {
                    end.by_peer = Some(reason);
                }
                self.events.push((self.now, side, event));
            }
        }
    }

    fn connection(&self, side: usize, subflow: SubflowId) -> Option<usize> {
        let owned = |at: &&usize| self.connections[**at].owners[side] == Owner::Subflow(subflow);
        self.live.iter().find(owned).copied()
    }

    fn report_room(&mut self, side: usize) {
        let now = self.now;
        let (low, socket) = (self.script.low_water, self.script.socket);
        for at in self.live.iter().copied().collect::<Vec<_>>() {
            let connection = &mut self.connections[at];
            let Owner::Subflow(subflow) = connection.owners[side] else { continue };
            let room = connection.room(side, low, socket);
            if connection.reported_room[side] != room.count() {
                connection.reported_room[side] = room.count();
                if let Some(end) = self.end(side) {
                    end.session.set_room(now, subflow, room);
                }
            }
        }
    }
}
