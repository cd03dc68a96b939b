//! A connection between both ends that transports byte streams.

use std::collections::VecDeque;

use bytes::Bytes;
use mctcp::acceptor::ConnectionId;
use mctcp::session::End;
use mctcp::{Frame, SubflowId};

/// Number of bytes that an unrestricted connection accepts.
pub(crate) const ROOM_BYTES: u64 = 64 << 10;
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Owner of the server's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Acceptor(ConnectionId),
    Session,
    None,
}

/// Data that one end has sent and the other has not received.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) frames: VecDeque<(u32, Frame<Bytes>)>,
    pub(crate) bytes: u64,
    pub(crate) delivered: u64,
    /// How the sender has ended it.
    pub(crate) end: Option<End>,
    /// Its receiver accepts no more data.
    pub(crate) is_closed: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) subflow: SubflowId,
    pub(crate) owner: Owner,
    /// The client's and the server's.
    pub(crate) pipes: [Pipe; 2],
    pub(crate) room: u64,
    /// Number of frames that the listener has sent.
    pub(crate) answers: u32,
}

impl Connection {
    pub(crate) fn send(&mut self, side: usize, path_seq: u32, frame: Frame<Bytes>) {
        let pipe = &mut self.pipes[side];
        if !pipe.is_closed && pipe.end.is_none() {
            pipe.bytes += frame.wire_length() as u64;
            pipe.frames.push_back((path_seq, frame));
        }
    }

    /// The listener sends a frame.
    pub(crate) fn answer(&mut self, frame: Frame<Bytes>) {
        self.answers += 1;
        self.send(SERVER, self.answers - 1, frame);
    }

    /// One side closes; the other receives earlier data unless it is `abort`ed.
    pub(crate) fn close(&mut self, side: usize, abort: bool) {
        if side == SERVER {
            self.owner = Owner::None;
        }
        self.pipes[1 - side].is_closed = true;
        let pipe = &mut self.pipes[side];
        if abort {
            pipe.frames.clear();
            pipe.bytes = 0;
            pipe.end = Some(End::Failed);
        } else {
            pipe.end.get_or_insert(End::Finished);
        }
    }
}
