//! What a running collector tells of itself, and questions to it.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Time;
use collector::decapsulate::Counters;
use collector::reassembly::Statistics;
use collector::rib::{Counts, Memory, PeerRoutes, Rib};
use collector::{Peering, State};

/// The state of a collector at an instant.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Time of the capture.
    pub time: Time,
    /// What became of frames.
    pub frames: Counters,
    /// Packets that the kernel had no room for.
    pub kernel_drops: u64,
    /// What became of segments.
    pub streams: Statistics,
    /// Bytes of memory that wait for their turn in a stream.
    pub waiting: usize,
    /// Names of mirrors: the one with number n is at n - 1.
    pub mirrors: Vec<String>,
    /// All peerings, their states, and their routes where these are kept.
    pub peerings: Vec<(Peering, State, Option<PeerRoutes>)>,
    /// Messages of all peerings.
    pub messages: u64,
    /// What became of routes.
    pub routes: Counts,
    /// What routes take.
    pub memory: Memory,
    /// Records that were archived.
    pub records: u64,
    /// Bytes that were archived, before compression.
    pub archived: u64,
}

impl Status {
    /// The name of the mirror that shows a peering.
    pub fn mirror_name(&self, peering: &Peering) -> Option<&str> {
        self.mirrors.get(peering.mirror.index()?).map(String::as_str)
    }
}

/// A question to the routes of a running collector: it is called until it returns `true`, and each
/// call is short, since packets wait meanwhile.
pub type Question = Box<dyn FnMut(&Rib) -> bool + Send>;

/// Questions that wait at most.
const QUESTIONS: usize = 64;
/// Pieces of a table that wait for their reader.
const PIECES: usize = 4;

#[derive(Default)]
struct Inner {
    status: Mutex<Arc<Status>>,
    questions: Mutex<VecDeque<Question>>,
    tables: Mutex<Vec<SyncSender<Vec<u8>>>>,
}

/// Where a collector puts its status up and finds questions, shared with whoever serves them.
#[derive(Clone, Default)]
pub struct Board(Arc<Inner>);

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Board").field(&self.status()).finish()
    }
}

/// What others left half done under a lock is whole: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// The last status that was put up.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&lock(&self.0.status))
    }

    /// Puts a status up.
    pub fn publish(&self, status: Status) {
        *lock(&self.0.status) = Arc::new(status);
    }

    /// Leaves a question; false if too many wait.
    pub fn ask(&self, question: Question) -> bool {
        let mut questions = lock(&self.0.questions);
        let room = questions.len() < QUESTIONS;
        if room {
            questions.push_back(question);
        }
        room
    }

    /// Asks for all routes as they are at one instant: pieces of a `TABLE_DUMP_V2` file (RFC 6396
    /// §4.3), whole records each; an empty piece is the last. A channel that ends without it has
    /// not all of them: whoever takes nothing for long is left.
    pub fn table(&self) -> Receiver<Vec<u8>> {
        let (send, receive) = sync_channel(PIECES);
        lock(&self.0.tables).push(send);
        receive
    }

    /// Who asked for all routes since the last time.
    pub(crate) fn take_tables(&self) -> Vec<SyncSender<Vec<u8>>> {
        std::mem::take(&mut *lock(&self.0.tables))
    }

    /// Answers questions in turn, a step each, until there are no more or `budget` is over.
    pub fn answer(&self, rib: &Rib, budget: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < budget {
            let Some(mut question) = lock(&self.0.questions).pop_front() else { return };
            if !question(rib) {
                lock(&self.0.questions).push_back(question);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn questions_are_answered_once_and_only_so_many_wait() {
        let board = Board::default();
        let (send, receive) = channel();
        let asked = (0..100).filter(|_| {
            let send = send.clone();
            board.ask(Box::new(move |rib| send.send(rib.len()).is_ok()))
        });
        assert_eq!(asked.count(), QUESTIONS);
        board.answer(&Rib::new(), Duration::ZERO);
        assert_eq!(receive.try_iter().count(), 0);
        board.answer(&Rib::new(), Duration::MAX);
        board.answer(&Rib::new(), Duration::MAX);
        assert_eq!(receive.try_iter().count(), QUESTIONS);
    }

    #[test]
    fn a_long_question_is_answered_in_steps_and_delays_no_other() {
        let board = Board::default();
        let (send, receive) = channel();
        for (name, steps) in [("long", 1_000), ("short", 1)] {
            let (send, mut left) = (send.clone(), steps);
            let is_asked = board.ask(Box::new(move |_| {
                left -= 1;
                left == 0 && send.send(name).is_ok()
            }));
            assert!(is_asked);
        }
        board.answer(&Rib::new(), Duration::MAX);
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), ["short", "long"]);
    }
}
