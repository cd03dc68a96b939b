//! Contents of packets in flight that the fabric does not carry: it carries a ticket instead.

use base::{Span, Time};

/// Contents older than this belong to lost packets (RFC 9293 §3.4.1, the maximum segment lifetime);
/// the fabric does not report its drops.
const LIFETIME: Span = Span::from_secs(120);

/// Number of contents at which expired contents are removed for the first time; later at twice the
/// number that remained.
const SWEPT: usize = 1024;

/// Index, and the generation of the entry at this index.
pub(crate) type Ticket = [u32; 2];

#[derive(Debug)]
struct Place<T> {
    term: u32,
    held: Option<(Time, T)>,
}

#[derive(Debug)]
pub(crate) struct Tickets<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    /// Number of contents at the next removal of expired ones.
    sweep_at: usize,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), sweep_at: SWEPT }
    }
}

impl<T> Tickets<T> {
    /// Stores contents and returns their ticket.
    pub(crate) fn put(&mut self, now: Time, contents: T) -> Ticket {
        if self.len() >= self.sweep_at {
            self.sweep(now);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { term: 0, held: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.held = Some((now, contents));
        [at, place.term]
    }

    /// Takes the contents of a ticket; `None` for a duplicate of a packet and for expired contents.
    pub(crate) fn take(&mut self, [at, term]: Ticket) -> Option<T> {
        let place = self.places.get_mut(at as usize).filter(|place| place.term == term)?;
        let (_, contents) = place.held.take()?;
        place.term = place.term.wrapping_add(1);
        self.free.push(at);
        Some(contents)
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn clear(&mut self) {
        self.drop_if(|_| true);
    }

    fn sweep(&mut self, now: Time) {
        self.drop_if(|since| now.since(since) > LIFETIME);
        self.sweep_at = SWEPT.max(2 * self.len());
    }

    fn drop_if(&mut self, lost: impl Fn(Time) -> bool) {
        for (at, place) in self.places.iter_mut().enumerate() {
            if place.held.as_ref().is_some_and(|(since, _)| lost(*since)) {
                place.held = None;
                place.term = place.term.wrapping_add(1);
                self.free.push(at as u32);
            }
        }
    }

    pub(crate) fn memory(&self) -> u64 {
        (self.places.capacity() * size_of::<Place<T>>() + self.free.capacity() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let mut tickets = Tickets::default();
        let first = tickets.put(Time::ZERO, 'a');
        assert_eq!((tickets.take(first), tickets.take(first)), (Some('a'), None));
        let second = tickets.put(Time::ZERO, 'b');
        assert_eq!((tickets.take(first), tickets.take(second)), (None, Some('b')));
        let third = tickets.put(Time::ZERO, 'c');
        tickets.clear();
        assert_eq!(tickets.take(third), None);
    }

    #[test]
    fn lost_packets_are_given_up() {
        let mut tickets = Tickets::default();
        for second in 0..100_000_u64 {
            tickets.put(Time::ZERO + Span::from_millis(second * 100), second);
        }
        assert!(tickets.places.len() < 5_000, "{}", tickets.places.len());
    }
}
