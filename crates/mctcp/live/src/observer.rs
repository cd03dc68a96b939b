//! Reads the state of a session from outside.

use std::sync::Arc;

use mctcp::session::{Statistics, SubflowStatus};

use crate::shared::Shared;
use crate::stream::{MctcpStream, SubflowInfo};

/// Reads the state of a session while other code reads and writes its stream, and after its end.
#[derive(Clone, Debug)]
pub struct Observer(Arc<Shared>);

impl Observer {
    /// The current subflows.
    pub fn subflows(&self) -> Vec<SubflowInfo> {
        let state = self.0.lock();
        let of = |status: SubflowStatus| {
            let (local, remote) = state.addresses.get(&status.id).copied().unwrap_or_default();
            SubflowInfo { status, local, remote }
        };
        state.session.subflows().map(of).collect()
    }

    /// Counters since the start.
    pub fn stats(&self) -> Statistics {
        self.0.lock().session.statistics()
    }
}

impl MctcpStream {
    /// A handle that reads the state of the session.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(self.shared()))
    }
}
