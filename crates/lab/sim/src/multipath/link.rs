//! A simulated TCP connection and the frames that it carries.

use std::collections::VecDeque;

use base::{Bytes, Time};
use mctcp::driver::{Input, SubflowStatus, Transport};
use mctcp::frame::PREAMBLE;
use mctcp::session::End;
use mctcp::{Counted, Frame, PathId, PathInfo};
use transport::tcp::Endpoint;

use super::Shape;
use super::streams::subflow;
use crate::net::{EndId, Net, State, mix};

/// A TCP connection of a stream. Side 0 is the client.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) connection: u32,
    sides: [Side; 2],
}

/// One end of a connection.
#[derive(Debug, Default)]
struct Side {
    /// Unsent data have reached the low-water mark, and are not below half of it yet.
    blocked: bool,
    /// Frames that it has sent.
    pipe: Pipe,
    /// An end that the driver has not taken yet.
    ended: Option<End>,
}

impl Link {
    /// TCP has delivered `bytes` more bytes at one side, and has this state.
    pub(super) fn arrive(&mut self, side: usize, bytes: u64, state: State) {
        self.sides[1 - side].pipe.arrived += bytes;
        self.sides[side].ended = match state {
            State { closed: true, .. } => Some(End::Failed),
            State { finished: true, .. } => Some(End::Finished),
            State { .. } => None,
        };
    }
}

/// Frames in flight in one direction.
#[derive(Debug, Default)]
struct Pipe {
    /// Position in the TCP stream after the last byte, `path_seq`, and frame.
    frames: VecDeque<(u64, u32, Frame<Counted>)>,
    written: u64,
    arrived: u64,
}

impl Pipe {
    /// Adds a frame; returns its length on the wire, which for the first frame
    /// includes the preamble.
    fn push(&mut self, path_seq: u32, frame: Frame<Counted>) -> u64 {
        let preamble = if self.written == 0 { PREAMBLE.len() } else { 0 };
        let length = (preamble + frame.wire_length()) as u64;
        self.written += length;
        self.frames.push_back((self.written, path_seq, frame));
        length
    }

    /// The next completely received frame.
    fn pop(&mut self) -> Option<(u32, Frame<Counted>)> {
        if self.frames.front()?.0 > self.arrived {
            return None;
        }
        self.frames.pop_front().map(|(_, path_seq, frame)| (path_seq, frame))
    }
}

/// TCP's limit for data beyond its congestion window: the low-water mark of unsent data
/// (`TCP_NOTSENT_LOWAT`), as drivers on the wall clock set it.
fn low_water(cwnd: Bytes) -> u64 {
    (cwnd.count() / 4).clamp(16 << 10, 256 << 10)
}

/// The network of a flow during a call of its driver.
pub(super) struct Wire<'a> {
    pub(super) net: &'a mut Net,
    pub(super) shape: &'a Shape,
    pub(super) flow: u32,
    pub(super) hash: u32,
    /// Removed subflows.
    pub(super) gone: &'a mut Vec<run::Subflow>,
}

impl Wire<'_> {
    fn tcp(&mut self, link: &Link, side: usize) -> Option<&mut Endpoint> {
        let connection = self.net.connection(link.connection)?;
        Some(&mut connection.ends[side].tcp)
    }
}

impl Transport<Counted, Link> for Wire<'_> {
    fn now(&self) -> Time {
        self.net.now
    }

    fn open(&mut self, path: PathId, key: u32, number: u32) -> Option<Link> {
        let (way, hash) = (self.shape.way(path), mix(self.hash, number + 1));
        let connection = self.net.connect_over(self.flow, way.legs, &way.config, hash, key);
        Some(Link { connection, sides: Default::default() })
    }

    fn send(&mut self, link: &mut Link, side: usize, seq: u32, frame: Frame<Counted>) -> u64 {
        let length = link.sides[side].pipe.push(seq, frame);
        if let Some(tcp) = self.tcp(link, side) {
            tcp.write(length);
        }
        length
    }

    fn flush(&mut self, link: &mut Link, side: usize) {
        self.net.flush(EndId::new(link.connection, side));
    }

    fn receive(&mut self, link: &mut Link, side: usize) -> Option<Input<Counted>> {
        match link.sides[1 - side].pipe.pop() {
            Some((path_seq, frame)) => Some(Input::Frame(path_seq, frame)),
            None => link.sides[side].ended.take().map(Input::Ended),
        }
    }

    /// Free send buffer: up to the size of the socket buffer, and as with `TCP_NOTSENT_LOWAT`. A
    /// socket at the low-water mark of unsent data accepts more once it is below half of the mark.
    fn room(&mut self, link: &mut Link, side: usize) -> u64 {
        let buffer = self.shape.buffer;
        let Some(tcp) = self.tcp(link, side) else { return 0 };
        let (mark, unsent, unacked) = (low_water(tcp.cwnd()), tcp.not_sent(), tcp.unacked());
        let blocked = &mut link.sides[side].blocked;
        *blocked = unsent >= if *blocked { mark / 2 } else { mark };
        let room = if *blocked { 0 } else { mark / 2 };
        buffer.map_or(room, |buffer| room.min(buffer.count().saturating_sub(unacked)))
    }

    fn info(&mut self, link: &mut Link, side: usize) -> Option<PathInfo> {
        let tcp = self.tcp(link, side)?.statistics();
        Some(PathInfo {
            srtt: tcp.srtt,
            rtt_var: tcp.rtt_deviation,
            min_rtt: tcp.min_rtt,
            cwnd: tcp.cwnd,
            in_flight: tcp.in_flight,
            notsent: tcp.not_sent,
            acked: tcp.acked,
            delivery_rate: tcp.delivery_rate,
            retransmits: tcp.retransmits,
        })
    }

    fn close(&mut self, link: &mut Link, side: usize, abort: bool) {
        match self.tcp(link, side) {
            Some(tcp) if abort => tcp.abort(),
            Some(tcp) => tcp.finish(),
            None => {}
        }
    }

    fn is_closed(&mut self, link: &mut Link, side: usize) -> bool {
        self.tcp(link, side).is_none_or(|tcp| tcp.is_closed())
    }

    fn release(&mut self, link: Link, status: SubflowStatus) -> [u64; 2] {
        let ends = self.net.statistics(link.connection).unwrap_or_default();
        self.gone.push(subflow(self.shape, &ends, status));
        self.net.close(link.connection);
        let sum = |total: [u64; 2], end: &transport::tcp::Statistics| {
            [total[0] + end.retransmits, total[1] + end.timeouts]
        };
        ends.iter().fold([0; 2], sum)
    }

    fn produce(&mut self, _side: usize, _at: u64, bytes: u64) -> Counted {
        Counted(bytes as usize)
    }

    fn consume(&mut self, _side: usize, _payload: Counted) {}
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
        pipe.arrived += 119;
        assert_eq!(pipe.pop(), None);
        pipe.arrived += 1;
        assert_eq!(pipe.pop(), Some((0, data(100))));
        assert_eq!(pipe.pop(), None);
        pipe.arrived += 16;
        assert_eq!(pipe.pop(), Some((1, Frame::Ping(7))));
    }
}
