//! A peering: its routes, and their state after the session ends.

use base::{Span, Time};
use bgp::capability::{Capability, code};
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
    /// Whether peer and router support enhanced route refresh (RFC 7313); `None`: unknown, because
    /// the OPEN was not captured.
    refresh: [Option<bool>; 2],
}

/// Why routes of the other generation are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    /// Their session has ended; they expire at this time.
    Restart(Time),
    /// A route refresh has begun, in which they were not announced yet.
    Refresh,
}

#[derive(Debug, Default)]
pub(super) struct PeerTable {
    pub(super) routes: Routes,
    pub(super) hint: u32,
    pub(super) block: Block,
    pub(super) generation: bool,
    /// State of the routes of the other generation; `None` if there are none.
    pub(super) stale: Option<Stale>,
}

impl PeerTable {
    /// Expiry time of the stale routes of an ended session.
    pub(super) const fn expires(&self) -> Option<Time> {
        match self.stale {
            Some(Stale::Restart(until)) => Some(until),
            Some(Stale::Refresh) | None => None,
        }
    }
}

#[derive(Debug, Default)]
struct Restart {
    able: bool,
    notification: bool,
    families: Vec<Restarting>,
}

#[derive(Debug)]
struct Restarting {
    family: Family,
    /// The forwarding state was preserved.
    kept: bool,
    /// Time for which routes are retained.
    seconds: u64,
    /// End-of-RIB was received in this session.
    ended: bool,
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
        match self.families.iter_mut().find(|known| known.family == family) {
            Some(known) => {
                known.kept |= kept;
                known.seconds += seconds;
            }
            None => self.families.push(Restarting { family, kept, seconds, ended: false }),
        }
    }

    fn of(&self, family: Family) -> Option<&Restarting> {
        self.families.iter().find(|known| known.family == family)
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
            refresh: [None; 2],
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
        let refresh = open.capabilities().any(|one| one.code() == code::ENHANCED_ROUTE_REFRESH);
        self.refresh[usize::from(from == Sender::Local)] = Some(refresh);
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
        let known = self.restart.of(family)?;
        graceful.then(|| time + Span::from_secs(known.seconds))
    }

    /// Expiry time of stale routes of `family` in the new session; `None` if they are removed at
    /// once (RFC 4724 §4.2).
    pub(super) fn stale_again(&self, family: Family, time: Time) -> Option<Time> {
        let known = self.restart.of(family)?;
        known.kept.then(|| time + STALE_PATHS)
    }

    pub(super) fn end_of_rib(&mut self, family: Family) {
        let known = self.restart.families.iter_mut().find(|known| known.family == family);
        if let Some(known) = known {
            known.ended = true;
        }
    }

    /// Whether markers of a route refresh are processed: both ends support them, and a peer with
    /// graceful restart has sent all of its routes before (RFC 7313 §4). An end whose OPEN was not
    /// captured is assumed to support what is in use.
    pub(super) fn demarcates(&self, family: Family) -> bool {
        !self.refresh.contains(&Some(false))
            && self.restart.of(family).is_none_or(|known| known.ended)
    }
}
