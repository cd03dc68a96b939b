//! The end that answers.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use sys::socket::{self, Interest, Readiness};

use super::super::rpc::{End, Exchanges};
use super::super::traffic::{Progress, Scope, gone};
use super::NUMBER;

/// Requests may overtake each other by so many.
const AHEAD: usize = 4096;

/// Answers the requests of all connections.
pub(super) struct Server {
    listener: OwnedFd,
    sizes: Exchanges,
    /// Sizes of requests and responses that have been drawn and not been asked for, by number.
    drawn: BTreeMap<u32, (u64, u64)>,
    /// The number of the next to be drawn.
    number: u32,
    /// In the order in which they came.
    channels: Vec<Channel>,
    /// The client is on another machine.
    is_far: bool,
}

struct Channel {
    /// `None`: a client on another machine has let go of it.
    end: Option<End>,
    /// Bytes to come of the request that has begun to come, and of its response.
    request: Option<(u64, u64)>,
}

impl Server {
    pub(super) fn new(listener: OwnedFd, sizes: Exchanges, is_far: bool) -> Self {
        let (drawn, channels) = (BTreeMap::new(), Vec::new());
        Self { listener, sizes, drawn, number: 0, channels, is_far }
    }

    pub(super) fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(socket) = socket::accept(self.listener.as_fd())? {
            let slot = self.channels.len() as u32 * 2 + 2;
            scope.add(&socket, slot, Interest::Read)?;
            let end = End { socket, slot, unwritten: 0, wants_room: false };
            self.channels.push(Channel { end: Some(end), request: None });
        }
        Ok(())
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        self.channels.iter().filter_map(|channel| channel.end.as_ref())
    }

    pub(super) fn on_ready(
        &mut self,
        scope: &Scope<'_>,
        place: usize,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        match self.answer(scope, place, readiness) {
            // A client on another machine tells of its end by going.
            Err(_) if self.is_far => {
                self.channels[place].end = None;
                let is_over = self.ends().next().is_none();
                Ok(if is_over { Progress::Done(scope.now()) } else { Progress::Going })
            }
            other => other.map(|()| Progress::Going),
        }
    }

    fn answer(&mut self, scope: &Scope<'_>, place: usize, readiness: Readiness) -> sys::Result<()> {
        let Some(channel) = self.channels.get(place) else { return Ok(()) };
        let Some(end) = &channel.end else { return Ok(()) };
        if readiness.failed {
            socket::pending_error(end.socket.as_fd())?;
            return Err(gone());
        }
        let mut request = channel.request;
        if readiness.readable {
            if request.is_none() {
                let mut number = [0; NUMBER];
                match socket::read(end.socket.as_fd(), &mut number)? {
                    None => {}
                    Some(0) => return Err(gone()),
                    Some(count) => {
                        let (asking, size) = self.find(&number[..count]).ok_or_else(gone)?;
                        request = Some((asking.saturating_sub(count as u64), size));
                    }
                }
            }
            if let Some((missing @ 1.., _)) = &mut request {
                *missing = missing.saturating_sub(self.read(place)?);
            }
        }
        let channel = &mut self.channels[place];
        let Some(end) = &mut channel.end else { return Ok(()) };
        channel.request = request;
        if let Some((0, size)) = request {
            end.unwritten += size;
            channel.request = None;
        }
        end.write(scope)?;
        Ok(())
    }

    fn read(&self, place: usize) -> sys::Result<u64> {
        self.channels[place].end.as_ref().map_or(Ok(0), End::read)
    }

    /// The sizes of the first request not asked for that begins like this.
    fn find(&mut self, beginning: &[u8]) -> Option<(u64, u64)> {
        let begins = |number: u32, asking: u64| {
            let told = usize::try_from(asking).unwrap_or(NUMBER).min(NUMBER).min(beginning.len());
            number.to_le_bytes()[..told] == beginning[..told]
        };
        let known = self.drawn.iter().find(|(number, sizes)| begins(**number, sizes.0));
        if let Some(number) = known.map(|(number, _)| *number) {
            return self.drawn.remove(&number);
        }
        while self.drawn.len() < AHEAD {
            let (number, sizes) = (self.number, self.sizes.next());
            self.number = self.number.wrapping_add(1);
            if begins(number, sizes.0) {
                return Some(sizes);
            }
            self.drawn.insert(number, sizes);
        }
        None
    }
}
