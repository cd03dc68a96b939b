//! The end that answers requests.
//!
//! Both ends generate the same sizes of requests and responses. A request begins with its number,
//! little-endian, in four bytes or the request's length if shorter: the server may be on another
//! agent, and requests may arrive out of order.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use sys::socket::{self, Interest, Readiness};

use base::RandomStream;
use workload::Sizes;

use super::super::traffic::{Progress, Scope, closed_error};
use super::end::End;

/// Maximum length of a request's number.
pub(super) const MAX_NUMBER_BYTES: usize = 4;

/// Maximum reordering distance of requests.
const MAX_REORDERED_REQUESTS: usize = 4096;

/// Sizes of requests and responses. Both ends generate the same sequence.
pub(super) struct Exchanges {
    sizes: [Sizes; 2],
    random: [RandomStream; 2],
}

impl Exchanges {
    pub(super) fn new(scope: &Scope<'_>, flow: &str, request: &Sizes, response: &Sizes) -> Self {
        let random = ["requests", "responses"].map(|what| scope.random(flow, what));
        Self { sizes: [request.clone(), response.clone()], random }
    }

    /// Sizes of the next request and its response.
    fn next(&mut self) -> (u64, u64) {
        let [request, response] = &mut self.random;
        (self.sizes[0].draw(request).max(1), self.sizes[1].draw(response).max(1))
    }
}

/// Answers the requests of all connections.
pub(super) struct Server {
    listener: OwnedFd,
    sizes: Exchanges,
    /// Generated sizes of requests that have not arrived yet, by number.
    pending_sizes: BTreeMap<u32, (u64, u64)>,
    /// Number of the next generated request.
    number: u32,
    /// Connections in the order of arrival.
    channels: Vec<Channel>,
    /// The client is on another agent.
    is_remote: bool,
}

struct Channel {
    /// `None`: a client on another agent has closed the connection.
    end: Option<End>,
    /// Remaining bytes of the current request, and the size of its response.
    request: Option<(u64, u64)>,
}

impl Server {
    pub(super) fn new(listener: OwnedFd, sizes: Exchanges, is_remote: bool) -> Self {
        let (pending_sizes, channels) = (BTreeMap::new(), Vec::new());
        Self { listener, sizes, pending_sizes, number: 0, channels, is_remote }
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
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let index = (slot as usize / 2).saturating_sub(1);
        match self.answer(scope, index, readiness) {
            // A client on another agent closes its connections at the end.
            Err(_) if self.is_remote => {
                self.channels[index].end = None;
                let is_over = self.ends().next().is_none();
                Ok(if is_over { Progress::Done(scope.now()) } else { Progress::Going })
            }
            other => other.map(|()| Progress::Going),
        }
    }

    fn answer(&mut self, scope: &Scope<'_>, index: usize, readiness: Readiness) -> sys::Result<()> {
        let Some(channel) = self.channels.get(index) else { return Ok(()) };
        let Some(end) = &channel.end else { return Ok(()) };
        if readiness.failed {
            socket::pending_error(end.socket.as_fd())?;
            return Err(closed_error());
        }
        let mut request = channel.request;
        if readiness.readable {
            if request.is_none() {
                let mut number = [0; MAX_NUMBER_BYTES];
                match socket::read(end.socket.as_fd(), &mut number)? {
                    None => {}
                    Some(0) => return Err(closed_error()),
                    Some(count) => {
                        let (request_bytes, size) =
                            self.find(&number[..count]).ok_or_else(closed_error)?;
                        request = Some((request_bytes.saturating_sub(count as u64), size));
                    }
                }
            }
            if let Some((missing @ 1.., _)) = &mut request {
                *missing = missing.saturating_sub(self.read(index)?);
            }
        }
        let channel = &mut self.channels[index];
        let Some(end) = &mut channel.end else { return Ok(()) };
        channel.request = request;
        if let Some((0, size)) = request {
            end.unwritten += size;
            channel.request = None;
        }
        end.write(scope)?;
        Ok(())
    }

    fn read(&self, index: usize) -> sys::Result<u64> {
        self.channels[index].end.as_ref().map_or(Ok(0), End::read)
    }

    /// Takes the sizes of the first outstanding request whose number begins with these bytes.
    fn find(&mut self, beginning: &[u8]) -> Option<(u64, u64)> {
        let begins = |number: u32, request_bytes: u64| {
            let length = usize::try_from(request_bytes)
                .unwrap_or(MAX_NUMBER_BYTES)
                .min(MAX_NUMBER_BYTES)
                .min(beginning.len());
            number.to_le_bytes()[..length] == beginning[..length]
        };
        let known = self.pending_sizes.iter().find(|(number, sizes)| begins(**number, sizes.0));
        if let Some(number) = known.map(|(number, _)| *number) {
            return self.pending_sizes.remove(&number);
        }
        while self.pending_sizes.len() < MAX_REORDERED_REQUESTS {
            let (number, sizes) = (self.number, self.sizes.next());
            self.number = self.number.wrapping_add(1);
            if begins(number, sizes.0) {
                return Some(sizes);
            }
            self.pending_sizes.insert(number, sizes);
        }
        None
    }
}
