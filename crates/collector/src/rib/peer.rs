//! A peering: its routes, and what becomes of them when its session ends.

use base::{Span, Time};
use bgp::capability::Capability;
use bgp::open::Open;
use bgp::{Family, Message};

use super::keys::Block;
use super::routes::Routes;
use crate::{Peering, Reason, Sender};

/// For how long routes stay stale behind a restart, if no End-of-RIB comes (an upper bound as
/// RFC 4724 §4.2 suggests it, of the length that routers have).
const STALE_PATHS: Span = Span::from_secs(360);

/// What is known of a peering.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) peering: Peering,
    pub(super) established: bool,
    /// When the state last changed.
    pub(super) since: Time,
    /// Nothing of the session is missing.
    pub(super) complete: bool,
    /// Its routes, by table.
    pub(super) tables: Vec<PeerTable>,
    /// The announcement that came last.
    pub(super) last: u32,
    /// The attribute set that probably comes next.
    pub(super) next_set: u32,
    restart: Restart,
    /// The router can do graceful restart, by notification too; `None` if its OPEN was not seen.
    local: Option<(bool, bool)>,
}

/// The routes of a peering in one table.
#[derive(Debug, Default)]
pub(super) struct PeerTable {
    pub(super) routes: Routes,
    /// The prefix that probably comes next.
    pub(super) hint: u32,
    /// Numbers for its new prefixes.
    pub(super) block: Block,
    /// Announcements of the present session have it.
    pub(super) generation: bool,
    /// Routes of the other generation are there, and until when.
    pub(super) stale_until: Option<Time>,
}

/// What a neighbour said of its restarts.
#[derive(Debug, Default)]
struct Restart {
    able: bool,
    notification: bool,
    /// Families, whether forwarding was kept, and for how long to keep routes, in seconds.
    families: Vec<(Family, bool, u64)>,
}

impl Restart {
    fn new(open: &Open<'_>) -> Self {
        let mut restart = Self::default();
        for capability in open.capabilities() {
            if let Capability::GracefulRestart { notification, time, .. } = capability {
                restart.able = true;
                restart.notification |= notification;
                for (family, kept) in capability.restarting() {
                    restart.extend(family, kept, time.into());
                }
            }
        }
        for capability in open.capabilities() {
            for (family, kept, time) in capability.long_lived() {
                // Long-lived means nothing without the other (RFC 9494 §3.1).
                if restart.able {
                    restart.extend(family, kept, time.into());
                }
            }
        }
        restart
    }

    fn extend(&mut self, family: Family, kept: bool, seconds: u64) {
        match self.families.iter_mut().find(|known| known.0 == family) {
            Some(known) => {
                known.1 |= kept;
                known.2 += seconds;
            }
            None => self.families.push((family, kept, seconds)),
        }
    }
}

impl Peer {
    /// One that was just met.
    pub(super) fn new(peering: Peering, time: Time) -> Self {
        Self {
            peering,
            established: false,
            since: time,
            complete: false,
            tables: Vec::new(),
            last: u32::MAX,
            next_set: 0,
            restart: Restart::default(),
            local: None,
        }
    }

    /// Its routes in table `at`.
    #[inline]
    pub(super) fn table(&mut self, at: usize) -> &mut PeerTable {
        if at >= self.tables.len() {
            self.tables.resize_with(at + 1, PeerTable::default);
        }
        &mut self.tables[at]
    }

    /// An OPEN of either side.
    pub(super) fn open(&mut self, from: Sender, message: Message<'_>) {
        let Ok(open) = Open::parse(message.body()) else { return };
        match from {
            Sender::Peer => self.restart = Restart::new(&open),
            Sender::Local => {
                let restart = Restart::new(&open);
                self.local = Some((restart.able, restart.notification));
            }
        }
    }

    /// Until when routes of `family` stay, now that the session ended so; `None` if they go.
    pub(super) fn stale_until(&self, family: Family, time: Time, why: Reason) -> Option<Time> {
        let (able, notification) = self.local.unwrap_or((true, true));
        let notification = notification && self.restart.notification;
        let graceful = match why {
            // Cease with Hard Reset is what it says (RFC 8538 §3).
            Reason::Notification(_, 6, 9) | Reason::Forgotten => false,
            Reason::Notification(..) | Reason::HoldTimeExpired => notification,
            _ => able && self.restart.able,
        };
        let known = self.restart.families.iter().find(|known| known.0 == family)?;
        graceful.then(|| time + Span::from_secs(known.2))
    }

    /// Until when stale routes of `family` stay, now that there is a session again; `None` if
    /// they go (RFC 4724 §4.2).
    pub(super) fn stale_again(&self, family: Family, time: Time) -> Option<Time> {
        let known = self.restart.families.iter().find(|known| known.0 == family)?;
        known.1.then(|| time + STALE_PATHS)
    }
}
