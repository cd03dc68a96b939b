//! A subflow: a TCP connection and the frames in it.

use std::collections::VecDeque;

use base::Bytes;
use mctcp::acceptor::ConnectionId;
use mctcp::frame::PREAMBLE;
use mctcp::{Counted, Frame, PathId, PathInfo, SubflowId};
use transport::tcp::{Endpoint, Statistics};

/// A TCP connection of a stream. Side 0 is the client.
#[derive(Debug)]
pub(super) struct Subflow {
    /// Its connection's number.
    pub(super) connection: u32,
    pub(super) stream: u32,
    pub(super) path: PathId,
    /// Counts the subflows of the flow.
    pub(super) number: u32,
    pub(super) sides: [Side; 2],
    /// The acceptor's name for it, until it has decided.
    pub(super) doubtful: Option<ConnectionId>,
    /// Frames of the acceptor on it so far.
    pub(super) answers: u32,
    /// What its HELLO called it.
    pub(super) greeted: Option<SubflowId>,
}

/// One end of a subflow.
#[derive(Debug)]
pub(super) struct Side {
    /// What its session calls it; `None` until the session has it.
    pub(super) id: Option<SubflowId>,
    /// TCP's handshake is done.
    pub(super) up: bool,
    /// Its session, or the acceptor, has heard of its end, or has closed it.
    pub(super) over: bool,
    /// The room that its session was last told.
    pub(super) room: u64,
    /// What it has written.
    pub(super) pipe: Pipe,
}

impl Subflow {
    pub(super) fn new(stream: u32, path: PathId, number: u32) -> Self {
        let side = || Side { id: None, up: false, over: false, room: 0, pipe: Pipe::default() };
        Self {
            connection: u32::MAX,
            stream,
            path,
            number,
            sides: [side(), side()],
            doubtful: None,
            answers: 0,
            greeted: None,
        }
    }
}

/// Frames on their way in one direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Each with its `path_seq` and the position in TCP's stream after its last byte.
    frames: VecDeque<(u64, u32, Frame<Counted>)>,
    written: u64,
    arrived: u64,
    /// Payload bytes of the session's stream, repetitions included.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Pipe {
    /// Adds a frame; gives its length on the wire, that of the preamble before the first included.
    pub(super) fn push(&mut self, path_seq: u32, frame: Frame<Counted>) -> u64 {
        let preamble = if self.written == 0 { PREAMBLE.len() } else { 0 };
        let length = (preamble + frame.wire_length()) as u64;
        if let Frame::Data { payload, .. } = &frame {
            self.sent += payload.0 as u64;
        }
        self.written += length;
        self.frames.push_back((self.written, path_seq, frame));
        length
    }

    /// TCP has delivered so many more bytes.
    pub(super) fn arrive(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// The next frame that has arrived whole.
    pub(super) fn pop(&mut self) -> Option<(u32, Frame<Counted>)> {
        if self.frames.front()?.0 > self.arrived {
            return None;
        }
        let (_, path_seq, frame) = self.frames.pop_front()?;
        if let Frame::Data { payload, .. } = &frame {
            self.received += payload.0 as u64;
        }
        Some((path_seq, frame))
    }
}

/// How much more an end takes: its unsent part stays below the low-water mark, and all of it
/// within the socket's buffer.
pub(super) fn room(tcp: &Endpoint, buffer: Option<Bytes>) -> u64 {
    let room = super::low_water(tcp.cwnd()).saturating_sub(tcp.not_sent());
    buffer.map_or(room, |buffer| room.min(buffer.count().saturating_sub(tcp.unacked())))
}

/// What a session is told of its TCP connection.
pub(super) fn path_info(tcp: &Statistics) -> PathInfo {
    PathInfo {
        srtt: tcp.srtt,
        rtt_var: tcp.rtt_deviation,
        min_rtt: tcp.min_rtt,
        cwnd: tcp.cwnd,
        in_flight: tcp.in_flight,
        notsent: tcp.not_sent,
        acked: tcp.acked,
        delivery_rate: tcp.delivery_rate,
        retransmits: tcp.retransmits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(length: usize) -> Frame<Counted> {
        Frame::Data { dsn: 0, payload: Counted(length), copy: mctcp::frame::Copy::First }
    }

    #[test]
    fn frames_come_out_once_their_last_byte_has_arrived() {
        let mut pipe = Pipe::default();
        assert_eq!(pipe.push(0, data(100)), 4 + 16 + 100);
        assert_eq!(pipe.push(1, Frame::Ping(7)), 16);
        pipe.arrive(119);
        assert_eq!(pipe.pop(), None);
        pipe.arrive(1);
        assert_eq!(pipe.pop(), Some((0, data(100))));
        assert_eq!(pipe.pop(), None);
        pipe.arrive(16);
        assert_eq!(pipe.pop(), Some((1, Frame::Ping(7))));
        assert_eq!((pipe.sent, pipe.received), (100, 100));
    }
}
