//! The memory of routes.

use bgp::attribute::code;
use bgp::update::Update;
use bgp::{HEADER, Message, MessageType};
use collector::rib::{Memory, Rib};
use collector::{Event, Peering, Sender, Sink};
use collector_live::pipeline::{Pipeline, Settings};

use super::frames;
use crate::{Outcome, print};

/// The table of routes, or `None` to measure the rest alone.
struct Routes {
    rib: Option<Rib>,
    /// Each session has its own next hop and neighbour, so that no two share attributes.
    different: bool,
    altered: Vec<u8>,
}

impl Sink for Routes {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let mut event = *event;
        if let Event::Message { message, from: Sender::Peer, .. } = &mut event
            && self.different
            && message.kind() == MessageType::UPDATE
            && let Some(altered) = alter(*message, peering, &mut self.altered)
        {
            *message = altered;
        }
        if let Some(rib) = &mut self.rib {
            rib.event(peering, &event);
        }
    }
}

/// An UPDATE with this session's next hop and first AS.
fn alter<'a>(message: Message<'_>, peering: &Peering, out: &'a mut Vec<u8>) -> Option<Message<'a>> {
    out.clear();
    out.extend_from_slice(message.bytes());
    let own = peering.id.0 as u8 + 1;
    for raw in Update::parse(message.body()).ok()?.attributes().flatten() {
        let value = HEADER + raw.value_at();
        match raw.code {
            code::NEXT_HOP => out[value + 1] ^= own,
            // After type and count of the first segment: the first AS, in two or four octets.
            code::AS_PATH if raw.value.len() >= 6 => out[value + 3] ^= own,
            _ => {}
        }
    }
    Message::split(out)
}

/// Reads `count` packets of a capture. Returns the CPU time.
fn read(
    capture: &[u8],
    sink: Routes,
    packets: u64,
    mut each: impl FnMut(&Routes, u64),
) -> Result<(u64, Routes), super::Failure> {
    let mut pipeline = Pipeline::new(Settings::default(), sink);
    let mut count = 0;
    let begin = sys::clock::thread_cpu();
    frames(capture, |frame| {
        if count < packets {
            pipeline.frame(frame);
            count += 1;
            each(pipeline.sessions().sink(), count);
        }
    })?;
    Ok((sys::clock::thread_cpu() - begin, pipeline.into_sink()))
}

/// Prints the max number of routes of a capture, their memory, and the CPU time to learn them,
/// without that to parse the messages.
pub(super) fn of(capture: &[u8], different: bool) -> Outcome {
    let routes = |rib| Routes { rib, different, altered: Vec::new() };
    let (mut most, mut packets) = (0, 0);
    read(capture, routes(Some(Rib::new())), u64::MAX, |sink, count| {
        let now = sink.rib.as_ref().map_or(0, Rib::len);
        if now > most {
            (most, packets) = (now, count);
        }
    })?;
    let (with, sink) = read(capture, routes(Some(Rib::new())), packets, |_, _| ())?;
    let (without, _) = read(capture, routes(None), packets, |_, _| ())?;
    let rib = sink.rib.ok_or("the run has no table of routes")?;
    let Memory { prefixes, routes, announcements, attributes, .. } = rib.memory();
    print(&format!(
        "{{\"routes\":{},\"announced\":{},\"sets\":{},\"bytes\":{},\
         \"prefix_bytes\":{prefixes},\"route_bytes\":{routes},\
         \"announcement_bytes\":{announcements},\"attribute_bytes\":{attributes},\
         \"cpu_ns\":{}}}",
        rib.len(),
        rib.counts().announced,
        rib.attribute_sets(),
        rib.memory().total(),
        with.saturating_sub(without),
    ));
    Ok(())
}
