//! Status of a running collector, and queries to it.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::Time;
use collector::decapsulate::Counters;
use collector::reassembly::Statistics;
use collector::rib::{Counts, Memory, PeerRoutes, Rib};
use collector::{Peering, State};

use crate::archive::lock;

#[derive(Clone, Debug, Default)]
pub struct Status {
    pub time: Time,
    pub frames: Counters,
    pub kernel_drops: u64,
    pub streams: Statistics,
    /// Memory of bytes out of order.
    pub waiting: usize,
    /// Names of mirrors: number n has index n - 1.
    pub mirrors: Vec<String>,
    /// All peerings, their states, and their routes if routes are collected.
    pub peerings: Vec<(Peering, State, Option<PeerRoutes>)>,
    pub messages: u64,
    /// Messages after a NOTIFICATION, which no end processes.
    pub late_messages: u64,
    pub routes: Counts,
    pub memory: Memory,
    pub records: u64,
    pub archived: u64,
}

impl Status {
    pub fn mirror_name(&self, peering: &Peering) -> Option<&str> {
        self.mirrors.get(peering.mirror.index()?).map(String::as_str)
    }
}

/// A query of the routes of a running collector: it is called until it returns `true`, and each
/// call is short, because packets wait.
pub type Question = Box<dyn FnMut(&Rib) -> bool + Send>;

const QUESTIONS: usize = 64;
/// Maximum number of table chunks waiting for their reader.
const PIECES: usize = 4;

#[derive(Default)]
struct Inner {
    status: Mutex<Arc<Status>>,
    questions: Mutex<VecDeque<Question>>,
    tables: Mutex<Vec<SyncSender<Vec<u8>>>>,
}

/// Shares the status of a collector, and queries to it, with its servers.
#[derive(Clone, Default)]
pub struct Board(Arc<Inner>);

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Board").field(&self.status()).finish()
    }
}

impl Board {
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&lock(&self.0.status))
    }

    pub fn publish(&self, status: Status) {
        *lock(&self.0.status) = Arc::new(status);
    }

    /// Submits a query; false if too many are pending.
    pub fn ask(&self, question: Question) -> bool {
        let mut questions = lock(&self.0.questions);
        let room = questions.len() < QUESTIONS;
        if room {
            questions.push_back(question);
        }
        room
    }

    /// Requests all routes of one instant: whole records of a `TABLE_DUMP_V2` file (RFC 6396 §4.3)
    /// in chunks; an empty chunk is the last. The table is incomplete if the channel ends without
    /// it: a slow receiver is disconnected.
    pub fn table(&self) -> Receiver<Vec<u8>> {
        let (send, receive) = sync_channel(PIECES);
        lock(&self.0.tables).push(send);
        receive
    }

    /// Sends all routes of `rib` to those who requested them, for tests without a collector.
    pub fn send_table(&self, rib: &mut Rib) {
        let mut records = Vec::new();
        rib.begin_snapshot(Time::from_nanos(1), 0, b"");
        while !rib.write_snapshot(usize::MAX, &mut records) {}
        for to in self.take_tables() {
            // A receiver that is gone needs nothing.
            let _ = to.send(records.clone()).and_then(|()| to.send(Vec::new()));
        }
    }

    pub(crate) fn take_tables(&self) -> Vec<SyncSender<Vec<u8>>> {
        std::mem::take(&mut *lock(&self.0.tables))
    }

    /// Answers queries in turn, one step each, until none is left or `budget` is used up.
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
    fn limits_pending_queries() {
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
    fn answers_long_query_in_steps() {
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
