//! The end of a session behind its held bytes, and before the next session of the same addresses.

use base::Time;
use bgp::{Message, MessageType};

use super::Reassembler;
use super::half::Half;
use crate::{End, Receiver, Segment};

/// Maximum number of connections with a pending end.
pub(super) const MAX_ENDING: usize = 64;
/// Maximum number of connections of one pair of addresses that are followed.
const MAX_EARLIER: usize = 4;

impl Reassembler {
    /// Records that the end of a flow follows held bytes, or segments that may be captured late. If
    /// there are too many of them, the oldest ends.
    pub(super) fn note_ending<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        if self.ending.contains(&number) {
            return;
        }
        if self.ending.len() == MAX_ENDING {
            self.finish_ending(self.ending[0], now, receiver);
        }
        self.ending.push(number);
    }

    /// Before the first messages of a connection: delivers what the sessions before, of the same
    /// addresses, still hold, and reports their gaps. Their end may be missing in the capture.
    #[cold]
    pub(super) fn follow<R: Receiver>(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        receiver: &mut R,
    ) {
        let flow = self.table.get(number);
        flow.first_segments += 1;
        let key = flow.key;
        let sessions = self.table.sessions_of(&key);
        sessions.retain(|earlier| *earlier != number);
        let earlier = sessions.clone();
        let mut is_over = true;
        for earlier in earlier {
            let last = self.table.get(earlier).last;
            self.finish_ending(earlier, last, receiver);
            let has_ended = |half: &Half| half.is_closed() || half.pending_close().is_some();
            is_over &= self.table.get(earlier).halves.iter().any(has_ended);
            for from in [End::Low, End::High] {
                self.with_half(earlier, from, receiver, |half, _, _, to| half.interrupt(last, to));
            }
        }
        let sessions = self.table.sessions_of(&key);
        if is_over || is_accepted(segment.payload) {
            sessions.clear();
        } else if sessions.len() == MAX_EARLIER {
            sessions.remove(0);
        }
        sessions.push(number);
    }

    /// Delivers the held bytes of a flow without those that are missing, and then its end.
    pub(super) fn finish_ending<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        self.ending.retain(|ending| *ending != number);
        self.give_up_all(number, now, receiver);
        let close = |half: &Half| {
            half.pending_close().filter(|_| !half.is_closed()).map(|(close, _)| close)
        };
        let halves = &self.table.get(number).halves;
        let closes = [close(&halves[0]), close(&halves[1])];
        self.close(number, now, closes, receiver);
        self.look_after(number, now, receiver);
    }
}

/// Whether whole messages in a segment show an accepted connection: two sessions do not coexist.
fn is_accepted(mut payload: &[u8]) -> bool {
    while let Some(message) = Message::split(payload) {
        match message.kind() {
            MessageType::KEEPALIVE | MessageType::UPDATE | MessageType::ROUTE_REFRESH => {
                return true;
            }
            _ => payload = &payload[message.bytes().len()..],
        }
    }
    false
}
