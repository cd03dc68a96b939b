//! Watching a session from beside.

use std::sync::Arc;

use mctcp::session::{Statistics, SubflowStatus};

use crate::shared::Shared;
use crate::stream::{MctcpStream, SubflowInfo};

/// Tells how a session does, while its stream is being read and written elsewhere, and after.
#[derive(Clone, Debug)]
pub struct Observer(Arc<Shared>);

impl Observer {
    /// The subflows there are.
    pub fn subflows(&self) -> Vec<SubflowInfo> {
        let state = self.0.lock();
        let of = |status: SubflowStatus| {
            let (local, remote) = state.addresses.get(&status.id).copied().unwrap_or_default();
            SubflowInfo { status, local, remote }
        };
        state.session.subflows().map(of).collect()
    }

    /// What the session has counted so far.
    pub fn stats(&self) -> Statistics {
        self.0.lock().session.statistics()
    }
}

impl MctcpStream {
    /// Somebody who may be asked about the session from now on.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(self.shared()))
    }
}
