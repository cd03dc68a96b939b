use std::path::Path;
use std::time::Duration;

use collector::{Event, LinkType, Peering};

use super::*;
use crate::input::{Captures, Item, Progress};

#[derive(Default)]
struct Count {
    messages: usize,
    ends: usize,
}

impl Sink for Count {
    fn event(&mut self, _: &Peering, event: &Event<'_>) {
        self.messages += usize::from(matches!(event, Event::Message { .. }));
        self.ends += usize::from(matches!(event, Event::State { new: collector::State::Idle, .. }));
    }
}

/// The frames of a capture within `span` of the first, with their times.
fn first_frames(span: Span) -> Vec<(Time, LinkType, u32, Vec<u8>)> {
    let name = "../../../data/bgp/pcap/addpath-extmsg-as4-v6-md5.pcap";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let mut captures = Captures::open(&[path], false, false).unwrap();
    let mut frames: Vec<(Time, LinkType, u32, Vec<u8>)> = Vec::new();
    let mut each = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        frames.push((frame.time, frame.link, frame.length, frame.data.to_vec()));
    };
    while captures.step(Duration::ZERO, &mut each).unwrap() != Progress::End {}
    let end = frames[0].0 + span;
    frames.retain(|frame| frame.0 < end);
    frames
}

fn read(frames: &[(Time, LinkType, u32, Vec<u8>)], learn: usize) -> Pipeline<Count> {
    let mut pipeline = Pipeline::new(Settings { learn, ..Settings::default() }, Count::default());
    for (time, link, length, data) in frames {
        pipeline.frame(&Frame { length: *length, ..Frame::whole(*time, *link, data) });
    }
    pipeline
}

#[test]
fn delivers_held_messages_of_idle_capture_at_deadline() {
    // Some sessions are established within the first second: their messages are held.
    let frames = first_frames(Span::from_millis(900));
    let mut pipeline = read(&frames, 0);
    assert_eq!(pipeline.sink_mut().messages, 0);
    let due = pipeline.sessions().held_until().unwrap().since(pipeline.now());
    assert!(due <= Span::from_secs(1), "{due}");
    pipeline.idle(Span::ZERO);
    pipeline.idle(Span::from_nanos(due.as_nanos() - 1));
    assert_eq!(pipeline.sink_mut().messages, 0);
    pipeline.idle(due);
    assert!(pipeline.sink_mut().messages > 0);
    // The driver calls it repeatedly.
    for seconds in 1..3_600 {
        pipeline.idle(Span::from_secs(seconds));
    }
    assert_eq!(pipeline.sessions().held_until(), None);
    let mut whole = read(&frames, 0);
    whole.finish();
    assert_eq!(pipeline.sink_mut().messages, whole.sink_mut().messages);
    assert_eq!(pipeline.sink_mut().ends, 0, "silence of the capture ends no session");
}

#[test]
fn reads_first_packets_of_idle_capture_after_1_s() {
    let frames = first_frames(Span::from_millis(900));
    let mut pipeline = read(&frames, frames.len() + 1);
    pipeline.idle(Span::from_millis(999));
    assert_eq!(pipeline.sessions().held_until(), None);
    for milliseconds in (1_000..60_000).step_by(50) {
        pipeline.idle(Span::from_millis(milliseconds));
    }
    assert!(pipeline.sink_mut().messages > 0);
}
