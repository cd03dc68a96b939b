//! What has to have come of a run in which every path works in the end.

use base::{Span, Time};
use mctcp::Reason;
use mctcp::session::Event;

use crate::script::Script;
use crate::world::{CLIENT, SERVER, World};

/// Everything has to be over by then …
const OVER: Span = Span::from_secs(140);
/// … and the last connection closed this much later: TCP's back-off is long.
const LINGER: Span = Span::from_secs(300);

/// Runs it and tells what is wrong.
pub(crate) fn judge(script: &Script) -> Result<(), String> {
    let mut world = World::new(script);
    let over = world.finish(Time::ZERO + OVER);
    let established = |side| world.events.iter().any(|e| e.1 == side && e.2 == Event::Established);
    if !established(CLIENT) && world.client.session.failed().is_some() {
        // Nobody answered, and the application was told so.
        let reason = world.client.session.failed();
        let right = matches!(reason, Some(Reason::Target | Reason::Timeout));
        return if right { Ok(()) } else { Err(world.tell()) };
    }
    let Some(server) = &world.server else { return Err(format!("no session {}", world.tell())) };
    if script.psk && server.session.failed() == Some(Reason::Authentication) {
        // The proof was lost for too long. Nobody believes that anything was delivered.
        let told = server.read == 0 && world.client.session.failed().is_some();
        return if told { Ok(()) } else { Err(world.tell()) };
    }
    let all = [(&world.client, SERVER), (server, CLIENT)].into_iter().all(|(end, peer)| {
        end.session.is_closed() && end.done && end.read == script.applications[peer].writes
    });
    if !over || !all {
        return Err(world.tell());
    }
    let end = world.now + LINGER;
    world.run(end);
    let left = world.open_connections();
    if !left.is_empty() {
        return Err(format!("left open: {left:?} {}", world.tell()));
    }
    Ok(())
}
