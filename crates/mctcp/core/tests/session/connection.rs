//! A TCP connection: two simulated endpoints, and the frames in their byte streams.

use std::collections::VecDeque;

use base::{Bytes, Time};
use bytes::Bytes as Payload;
use mctcp::acceptor::ConnectionId;
use mctcp::{Frame, PathInfo, SubflowId};
use transport::tcp::{Config, Endpoint, Flags, Segment};

use super::world::{CLIENT, SERVER};

/// Owner of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// TCP's handshake is incomplete.
    Handshake,
    /// The server's acceptor, which has not assigned it to a session yet.
    Pending(ConnectionId),
    Subflow(SubflowId),
    /// Closed: received bytes are dropped.
    Closed,
    /// Reset: received segments are answered with a reset.
    Reset,
}

/// Frames of one direction that the receiver does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Each with the TCP stream position of its end.
    queue: VecDeque<(u64, u32, Frame<Payload>)>,
    written: u64,
    arrived: u64,
    /// The receiver has processed the end of the stream.
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) path: usize,
    pub(crate) tcp: [Endpoint; 2],
    pub(crate) owners: [Owner; 2],
    /// Frames that each end has sent.
    pub(crate) frames: [Frames; 2],
    /// `path_seq` of the next frame that each end sends.
    pub(crate) sends: [u32; 2],
    pub(crate) reported_room: [u64; 2],
}

/// Data that TCP has delivered to an end.
#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(u32, Frame<Payload>),
    End,
}

impl Connection {
    pub(crate) fn open(now: Time, path: usize) -> Self {
        let config = Config { nodelay: true, paced: true, ..Config::default() };
        let mut client = Endpoint::connect(&config, 1);
        client.open(now);
        Self {
            path,
            tcp: [client, Endpoint::listen(&config, 2)],
            owners: [Owner::Handshake; 2],
            frames: <[Frames; 2]>::default(),
            sends: [0, 0],
            reported_room: [u64::MAX; 2],
        }
    }

    pub(crate) fn write(&mut self, from: usize, path_seq: u32, frame: Frame<Payload>) {
        assert_eq!(self.sends[from], path_seq, "path_seq of {frame:?}");
        self.sends[from] += 1;
        let length = frame.wire_length() as u64;
        self.reported_room[from] = self.reported_room[from].saturating_sub(length);
        let frames = &mut self.frames[from];
        frames.written += length;
        frames.queue.push_back((frames.written, path_seq, frame));
        self.tcp[from].write(length);
    }

    /// Delivers a segment to `to`; returns the answer of an end that was reset.
    pub(crate) fn receive(&mut self, now: Time, to: usize, segment: &Segment) -> Option<Segment> {
        if self.owners[to] != Owner::Reset {
            self.tcp[to].on_segment(now, segment, false);
            return None;
        }
        let mut reset = Segment::default();
        reset.seq = segment.ack;
        reset.ack = segment.seq.wrapping_add(segment.length.into());
        reset.flags = Flags::RST | Flags::ACK;
        (!segment.flags.contains(Flags::RST)).then_some(reset)
    }

    /// The next completely received frame, or the end of the stream.
    pub(crate) fn next_delivery(&mut self, to: usize) -> Option<Delivery> {
        let readable = self.tcp[to].readable();
        self.tcp[to].read(readable);
        let frames = &mut self.frames[1 - to];
        frames.arrived += readable;
        if frames.queue.front().is_some_and(|(end, ..)| *end <= frames.arrived) {
            let (_, path_seq, frame) = frames.queue.pop_front()?;
            return Some(Delivery::Frame(path_seq, frame));
        }
        let ends = self.tcp[to].peer_finished() && !frames.ended;
        frames.ended |= ends;
        ends.then_some(Delivery::End)
    }

    /// Resets an end without an event for its application.
    pub(crate) fn reset(&mut self, side: usize) -> Owner {
        self.tcp[side].abort();
        std::mem::replace(&mut self.owners[side], Owner::Reset)
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let [client, server] = [CLIENT, SERVER].map(|side| self.tcp[side].next_wake());
        client.into_iter().chain(server).min()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.tcp.iter().all(Endpoint::is_closed)
    }

    /// TCP's state at one end, for the session.
    pub(crate) fn info(&self, side: usize) -> PathInfo {
        let tcp = self.tcp[side].statistics();
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

    /// Number of bytes that the end's socket accepts, with `low_water` unsent bytes and
    /// `buffer` in total.
    pub(crate) fn room(&self, side: usize, low_water: u64, buffer: u64) -> Bytes {
        let tcp = &self.tcp[side];
        let room = low_water.saturating_sub(tcp.not_sent());
        Bytes::new(room.min(buffer.saturating_sub(tcp.unacked())))
    }
}
