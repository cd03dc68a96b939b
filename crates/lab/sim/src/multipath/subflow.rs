//! A subflow: a TCP connection and the frames that it carries.

use std::collections::VecDeque;

use base::Bytes;
use mctcp::acceptor::ConnectionId;
use mctcp::frame::PREAMBLE;
use mctcp::{Counted, Frame, PathId, PathInfo, SubflowId};
use transport::tcp::{Endpoint, Statistics};

/// A TCP connection of a stream. Side 0 is the client.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) connection: u32,
    pub(super) stream: u32,
    pub(super) path: PathId,
    /// Its number among the subflows of the flow.
    pub(super) number: u32,
    pub(super) sides: [Side; 2],
    /// The acceptor's identifier for it, until the acceptor has decided.
    pub(super) doubtful: Option<ConnectionId>,
    /// Number of the acceptor's frames that it has carried.
    pub(super) answers: u32,
    /// The subflow identifier in its HELLO.
    pub(super) greeted: Option<SubflowId>,
}

/// One end of a subflow.
#[derive(Debug)]
pub(super) struct Side {
    /// The session's identifier for it; `None` before it is assigned to the session.
    pub(super) id: Option<SubflowId>,
    /// The TCP handshake is complete.
    pub(super) up: bool,
    /// It has ended: the session or the acceptor was notified, or has closed it.
    pub(super) over: bool,
    /// The free send buffer that was last reported to the session.
    pub(super) room: u64,
    /// Unsent data have reached the low-water mark, and are not below half of it yet.
    blocked: bool,
    /// Frames that it has sent.
    pub(super) pipe: Pipe,
}

impl Subflow {
    pub(super) fn new(stream: u32, path: PathId, number: u32) -> Self {
        let side = || Side {
            id: None,
            up: false,
            over: false,
            room: 0,
            blocked: false,
            pipe: Pipe::default(),
        };
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

/// Frames in flight in one direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Position in the TCP stream after the last byte, `path_seq`, and frame.
    frames: VecDeque<(u64, u32, Frame<Counted>)>,
    written: u64,
    arrived: u64,
    /// Payload bytes of the session's stream, retransmissions included.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Pipe {
    /// Adds a frame; returns its length on the wire, which for the first frame
    /// includes the preamble.
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

    /// TCP has delivered `bytes` more bytes.
    pub(super) fn arrive(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// The next completely received frame.
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

impl Side {
    /// Free send buffer: up to the size of the socket buffer, and as with `TCP_NOTSENT_LOWAT`. A
    /// socket at the low-water mark of unsent data accepts more once it is below half of the mark.
    pub(super) fn measure_room(&mut self, tcp: &Endpoint, buffer: Option<Bytes>) -> u64 {
        let (mark, unsent) = (super::low_water(tcp.cwnd()), tcp.not_sent());
        self.blocked = unsent >= if self.blocked { mark / 2 } else { mark };
        let room = if self.blocked { 0 } else { mark / 2 };
        buffer.map_or(room, |buffer| room.min(buffer.count().saturating_sub(tcp.unacked())))
    }
}

/// The TCP statistics that a session uses.
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
