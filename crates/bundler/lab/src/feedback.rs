//! Loss and delay of the gateways' messages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{RandomStream, Span, Time};
use lab::plan::Feedback;

/// Random loss and delay of one bundle's messages, seeded by its name.
#[derive(Clone, Debug)]
pub(crate) struct FeedbackRng {
    feedback: Feedback,
    loss: RandomStream,
    jitter: RandomStream,
}

impl FeedbackRng {
    pub(crate) fn new(seed: u64, bundle: &str, feedback: Feedback) -> Self {
        let stream = |what: &str| RandomStream::new(seed, &format!("bundle/{bundle}/{what}"));
        Self { feedback, loss: stream("loss"), jitter: stream("jitter") }
    }

    /// Delay of the next message; `None` if it is lost.
    pub(crate) fn sample(&mut self) -> Option<Span> {
        if self.loss.chance(self.feedback.loss) {
            return None;
        }
        let most = self.feedback.jitter.as_nanos();
        Some(Span::from_nanos(if most > 0 { self.jitter.below(most + 1) } else { 0 }))
    }
}

/// Delayed messages, in the order of sending.
#[derive(Debug)]
pub(crate) struct Late<T> {
    heap: BinaryHeap<Entry<T>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Reverse<(Time, u64)>,
    what: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T> Late<T> {
    pub(crate) fn push(&mut self, at: Time, what: T) {
        self.heap.push(Entry { due: Reverse((at, self.sequence)), what });
        self.sequence += 1;
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.due.0.0)
    }

    /// The next message that is due.
    pub(crate) fn pop_until(&mut self, now: Time) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|entry| entry.what)
    }
}
