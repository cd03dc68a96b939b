//! Distributes the events of the feed to all clients, each encoded once.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use collector::MirrorId;
use collector::text::ris_live::{Client, Encoder, Notice, host_of};
use collector_live::Board;
use collector_live::feed::Batch;
use tokio::sync::{broadcast, watch};

/// Maximum number of batches that a client may be behind. A batch has about 64 KiB of messages and
/// ten times as much text.
const MAX_LAG_BATCHES: usize = 64;

#[derive(Debug)]
pub(crate) struct Page {
    batch: Batch,
    text: Vec<u8>,
    raw: Vec<u8>,
    /// Offsets of the messages of each event in both formats, in the order of the batch.
    offsets: Vec<[Range<usize>; 2]>,
}

impl Page {
    /// The messages to which `client` has subscribed.
    pub(crate) fn messages_for<'a>(
        &'a self,
        host: &'a str,
        client: &'a Client,
    ) -> impl Iterator<Item = &'a str> {
        let (bytes, which) = if client.wants_raw() { (&self.raw, 1) } else { (&self.text, 0) };
        self.batch.events().zip(&self.offsets).filter_map(move |((peering, event), offsets)| {
            let notice = Notice::new(peering, &event)?;
            let text = bytes.get(offsets[which].clone())?;
            if client.matches(host, &notice) { std::str::from_utf8(text).ok() } else { None }
        })
    }
}

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) host: String,
    pages: Mutex<Option<broadcast::Sender<Arc<Page>>>>,
    pub(crate) clients: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) lagged: AtomicU64,
    pub(crate) lost: Arc<AtomicU64>,
}

impl Hub {
    pub(crate) fn new(host: &str, lost: Arc<AtomicU64>) -> Self {
        Self {
            host: host.to_owned(),
            pages: Mutex::new(Some(broadcast::channel(MAX_LAG_BATCHES).0)),
            clients: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lagged: AtomicU64::new(0),
            lost,
        }
    }

    fn sender(&self) -> Option<broadcast::Sender<Arc<Page>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Subscribes to all later pages; `None` after the last page.
    pub(crate) fn subscribe(&self) -> Option<broadcast::Receiver<Arc<Page>>> {
        self.sender().map(|sender| sender.subscribe())
    }

    pub(crate) fn run(&self, batches: &Receiver<Batch>) {
        let mut encoder = Encoder::new(&self.host);
        for batch in batches {
            let Some(sender) = self.sender().filter(|sender| sender.receiver_count() > 0) else {
                continue;
            };
            let (mut text, mut raw, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
            for (peering, event) in batch.events() {
                let starts = [text.len(), raw.len()];
                if let Some(notice) = Notice::new(peering, &event) {
                    encoder.encode(&notice, &mut text, &mut raw);
                }
                offsets.push([starts[0]..text.len(), starts[1]..raw.len()]);
            }
            // An error means that the last client has disconnected.
            let _ = sender.send(Arc::new(Page { batch, text, raw, offsets }));
        }
        // Dropping the only sender ends all clients.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) fn count_lagged(&self, lagged: u64) {
        self.lagged.fetch_add(lagged, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct ClientGuard(Arc<Hub>);

impl ClientGuard {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        hub.clients.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(hub))
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of all HTTP handlers.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) board: Board,
    /// Set when the server ends, for connections that would otherwise stay open.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Shared {
    /// Possible hosts of messages: the collector, and each mirror with a session after the first.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let status = self.board.status();
        let mirrors = status.peerings.iter().map(|(peering, ..)| peering.mirror);
        let others: BTreeSet<MirrorId> = mirrors.filter(|mirror| mirror.0 > 1).collect();
        let all = std::iter::once(MirrorId::NONE).chain(others);
        all.map(|mirror| host_of(&self.hub.host, mirror)).collect()
    }
}
