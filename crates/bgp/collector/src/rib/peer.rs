//! A peering: its routes, and their state after the session ends.

use base::{Span, Time};
use bgp::capability::Capability;
use bgp::open::Open;
use bgp::{Family, Message};

use super::keys::Block;
use super::routes::Routes;
use crate::{Peering, Reason, Sender};

/// Time for which routes stay stale after a restart without End-of-RIB (the upper bound that RFC
/// 4724 §4.2 suggests; routers use the same value).
const STALE_PATHS: Span = Span::from_secs(360);

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) peering: Peering,
    pub(super) established: bool,
    pub(super) since: Time,
    pub(super) complete: bool,
    pub(super) tables: Vec<PeerTable>,
    pub(super) last: u32,
    pub(super) next_set: u32,
    restart: Restart,
    /// Whether the router supports graceful restart, also after a NOTIFICATION; `None` if its OPEN
    /// was not captured.
    local: Option<(bool, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct PeerTable {
    pub(super) routes: Routes,
    pub(super) hint: u32,
    pub(super) block: Block,
    pub(super) generation: bool,
    /// Expiry time of the routes of the other generation.
    pub(super) stale_until: Option<Time>,
}

#[derive(Debug, Default)]
struct Restart {
    able: bool,
    notification: bool,
    /// Families, whether the forwarding state was preserved, and the time for which routes are
    /// retained, in seconds.
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
                // Long-lived graceful restart requires graceful restart (RFC 9494 §3.1).
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

    #[inline]
    pub(super) fn table(&mut self, at: usize) -> &mut PeerTable {
        if at >= self.tables.len() {
            self.tables.resize_with(at + 1, PeerTable::default);
        }
        &mut self.tables[at]
    }

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

    /// Expiry time of the routes of `family` after this end of the session; `None` if they are
    /// removed at once.
    pub(super) fn stale_until(&self, family: Family, time: Time, why: Reason) -> Option<Time> {
        let (able, notification) = self.local.unwrap_or((true, true));
        let notification = notification && self.restart.notification;
        let graceful = match why {
            // A Hard Reset ends the session without graceful restart (RFC 8538 §3).
            Reason::Notification(_, 6, 9) | Reason::Forgotten => false,
            Reason::Notification(..) | Reason::HoldTimeExpired => notification,
            _ => able && self.restart.able,
        };
        let known = self.restart.families.iter().find(|known| known.0 == family)?;
        graceful.then(|| time + Span::from_secs(known.2))
    }

    /// Expiry time of stale routes of `family` in the new session; `None` if they are removed at
    /// once (RFC 4724 §4.2).
    pub(super) fn stale_again(&self, family: Family, time: Time) -> Option<Time> {
        let known = self.restart.families.iter().find(|known| known.0 == family)?;
        known.1.then(|| time + STALE_PATHS)
    }
}
