//! Expected result of a run in which every path works at the end.

use base::{Span, Time};
use mctcp::Reason;
use mctcp::session::Event;

use super::script::Script;
use super::world::{CLIENT, World};

/// Time by which both sessions must have ended.
const MAX_DURATION: Span = Span::from_secs(140);
/// Additional time until the last connection is closed: TCP's backoff is long.
const CLOSE_TIMEOUT: Span = Span::from_secs(300);

/// Runs the script; returns the first error.
pub(crate) fn judge(script: &Script) -> Result<(), String> {
    let mut world = World::new(script);
    let over = world.finish(Time::ZERO + MAX_DURATION);
    if !world.has_event(CLIENT, Event::Established) && world.client.session.failed().is_some() {
        // The client got no answer, and the application got the error.
        let reason = world.client.session.failed();
        let right = matches!(reason, Some(Reason::Target | Reason::Timeout));
        return if right { Ok(()) } else { Err(world.describe()) };
    }
    let Some(server) = &world.server else {
        return Err(format!("no session {}", world.describe()));
    };
    if script.psk && server.session.failed() == Some(Reason::Authentication) {
        // The proof was lost for too long, and neither end reports delivered data.
        let reported = server.read == 0 && world.client.session.failed().is_some();
        return if reported { Ok(()) } else { Err(world.describe()) };
    }
    if !over || !world.is_complete() {
        return Err(world.describe());
    }
    let end = world.now + CLOSE_TIMEOUT;
    world.run(end);
    let left = world.open_connections();
    if !left.is_empty() {
        return Err(format!("left open: {left:?} {}", world.describe()));
    }
    Ok(())
}
