//! Faults other than lost packets and outages of links.

use super::{Exchange, Stage};
use crate::{Error, RateController, Result, SessionId};

impl<R: RateController> Exchange<R> {
    /// The session's source fails now, without a Leave: it does not answer any more.
    ///
    /// # Errors
    /// [`Error::Session`] if it is unknown or not present.
    pub fn kill(&mut self, session: SessionId) -> Result<()> {
        self.check_present(self.now, session)?;
        let known = &mut self.sessions[session.0 as usize];
        if known.stage != Stage::Present {
            return Err(Error::Session { session: session.0, what: "is not there" });
        }
        known.stage = Stage::Gone;
        known.wake = None;
        known.leaves = Some(self.now);
        self.assign(session.0, None);
        Ok(())
    }

    /// Restarts the link's state machine, which loses its state.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`].
    pub fn restart(&mut self, link: u32) -> Result<()> {
        let place = self.links.get_mut(link as usize).ok_or(Error::NoSuchLink { link })?;
        place.machine = self.protocol.link(place.wire.capacity)?;
        Ok(())
    }

    /// A session's source, for inspection.
    pub fn source(&self, session: SessionId) -> Option<&R::Source> {
        self.sessions.get(session.0 as usize).map(|session| &session.source)
    }

    /// The links of a session's path.
    pub fn path_of(&self, session: SessionId) -> Option<&[u32]> {
        self.sessions.get(session.0 as usize).map(|session| self.path(session))
    }
}
