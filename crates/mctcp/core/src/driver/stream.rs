//! A stream: the sessions of both ends, and the applications' pending operations.

use std::collections::VecDeque;

use base::Time;

use super::{Setup, StreamState, Transport};
use crate::session::Opening;
use crate::{PathId, Payload, Session};

/// Pending bytes of an application that writes without end.
const ENDLESS: u64 = u64::MAX;

/// Both ends of a stream. Side 0 is the client.
#[derive(Debug)]
pub(super) struct Stream<P> {
    pub(super) tag: u32,
    /// The server's session starts with the client's HELLO.
    pub(super) sessions: [Option<Session<P>>; 2],
    pub(super) ends: [End; 2],
    /// A session has changed since it was last polled.
    pub(super) touched: [bool; 2],
    pub(super) subflows: Vec<u32>,
    /// Deadline of its timer entry; [`Time::MAX`] without one.
    pub(super) armed: Time,
    /// The acceptor has been notified that the client has received data from the server.
    pub(super) confirmed: bool,
    /// The application has closed it.
    pub(super) forgotten: bool,
    /// The server's application does not read.
    held: bool,
    /// Retransmissions and timeouts of removed subflows.
    pub(super) past: [u64; 2],
}

/// Pending operations of an application at its end, and the last reported state.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Bytes that the session has not accepted yet; or [`ENDLESS`].
    pending: u64,
    /// Bytes that it has accepted.
    written: u64,
    finish: bool,
    finished: bool,
    /// It is writable.
    pub(super) up: bool,
    pub(super) known: StreamState,
}

impl<P: Payload> Stream<P> {
    pub(super) fn connect(now: Time, setup: &Setup, seed: [u8; 32], tag: u32) -> Self {
        let opening = Opening { seed, target: String::new(), secret: None, proof: false };
        let mut session = Session::connect(setup.settings.clone(), opening);
        for (path, priority) in (0..).map(PathId).zip(&setup.paths) {
            session.add_path(now, path, *priority);
        }
        Self {
            tag,
            sessions: [Some(session), None],
            ends: Default::default(),
            touched: [true; 2],
            subflows: Vec::new(),
            armed: Time::MAX,
            confirmed: false,
            forgotten: false,
            held: false,
            past: [0; 2],
        }
    }

    pub(super) fn write(&mut self, side: usize, bytes: u64) {
        let pending = &mut self.ends[side].pending;
        *pending = pending.saturating_add(bytes);
        self.touched[side] = true;
    }

    pub(super) fn finish(&mut self, side: usize) {
        self.ends[side].finish = true;
        self.touched[side] = true;
    }

    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        self.touched[1] = true;
    }

    /// Writes pending bytes to a session, as far as its buffer has space.
    pub(super) fn feed<L>(&mut self, transport: &mut impl Transport<P, L>, side: usize) {
        let end = &mut self.ends[side];
        let Some(session) = &mut self.sessions[side] else { return };
        let now = transport.now();
        while end.pending > 0 {
            let bytes = end.pending.min(session.writable().count());
            if bytes == 0 {
                return;
            }
            let payload = transport.produce(side, end.written, bytes);
            let bytes = payload.len() as u64;
            let left = session.write(now, payload).map_or(0, |left| left.len() as u64);
            end.written += bytes - left;
            if end.pending != ENDLESS {
                end.pending -= bytes - left;
            }
            if left > 0 {
                return;
            }
        }
        if end.finish && !end.finished {
            end.finished = true;
            session.finish(now);
        }
    }

    /// Reads received bytes of a session unless the application holds them; returns the
    /// number of bytes.
    pub(super) fn read<L>(&mut self, transport: &mut impl Transport<P, L>, side: usize) -> u64 {
        if self.held && side == 1 {
            return 0;
        }
        let Some(session) = &mut self.sessions[side] else { return 0 };
        let mut bytes = 0;
        while let Some(piece) = session.read(transport.now()) {
            bytes += piece.len() as u64;
            transport.consume(side, piece);
        }
        bytes
    }

    /// The state of an end, if it has changed since the last call.
    pub(super) fn learn(&mut self, side: usize) -> Option<StreamState> {
        let end = &mut self.ends[side];
        let session = self.sessions[side].as_ref()?;
        let state = StreamState {
            established: end.up,
            finished: session.read_finished(),
            closed: session.is_closed() || session.failed().is_some(),
        };
        let new = state != end.known;
        end.known = state;
        new.then_some(state)
    }

    /// Time of the next deadline of a session.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.sessions.iter().flatten().filter_map(Session::next_wake).min()
    }
}

/// A table with reused indices.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Option<Box<T>>>,
    free: VecDeque<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: VecDeque::new() }
    }
}

impl<T> Slab<T> {
    /// The key of the next [`insert`](Self::insert).
    pub(super) fn next_key(&self) -> u32 {
        self.free.front().copied().unwrap_or(self.places.len() as u32)
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        let at = self.free.pop_front().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[at as usize] = Some(Box::new(value));
        at
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Box<T>> {
        let value = self.places.get_mut(at as usize)?.take()?;
        self.free.push_back(at);
        Some(value)
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_deref_mut()
    }

    pub(super) fn keys(&self) -> Vec<u32> {
        let taken = |(at, place): (u32, &Option<Box<T>>)| place.is_some().then_some(at);
        (0..).zip(&self.places).filter_map(taken).collect()
    }
}
