//! What goes wrong besides lost packets and links that are down.

use super::{Exchange, Stage};
use crate::{Error, RateController, Result, SessionId};

impl<R: RateController> Exchange<R> {
    /// The session's source dies now, without a Leave: nothing that comes back is answered.
    ///
    /// # Errors
    /// [`Error::Session`] if it is unknown or not there.
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

    /// The link's machine starts anew and has forgotten everything.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`].
    pub fn restart(&mut self, link: u32) -> Result<()> {
        let place = self.links.get_mut(link as usize).ok_or(Error::NoSuchLink { link })?;
        place.machine = self.protocol.link(place.wire.capacity)?;
        Ok(())
    }

    /// A session's source, to look at what it holds.
    pub fn source(&self, session: SessionId) -> Option<&R::Source> {
        self.sessions.get(session.0 as usize).map(|session| &session.source)
    }

    /// The links of a session's path.
    pub fn path_of(&self, session: SessionId) -> Option<&[u32]> {
        self.sessions.get(session.0 as usize).map(|session| self.path(session))
    }
}
