//! Lines of JSON and the text of damaged records: no panic, and a parsed line is parsed again from
//! its own output with the same result.

use bgp::mrt::Records;
use collector::text::bgpdump::{Renderer, records};
use collector::text::json_lines::{self, Line};
use collector::{Event, Peering, Sink};

/// A sink that writes events as lines.
struct Lines(Vec<u8>);

impl Sink for Lines {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        json_lines::event(peering, event, &mut self.0);
    }
}

pub(crate) fn target(data: &[u8]) {
    for record in Records::new(data).flatten() {
        let mut line = Vec::new();
        json_lines::record(&record, &mut line);
        let line = String::from_utf8(line).expect("JSON is UTF-8");
        assert_eq!(json_lines::parse(&line), Ok(Line::Record(record.bytes.to_vec())));
    }
    let mut renderer = Renderer::new();
    let mut text = Vec::new();
    for record in records(data) {
        text.clear();
        renderer.render(&record, &mut text);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = Lines(Vec::new());
    if let Ok(Line::Event(event)) = json_lines::parse(text) {
        event.tell(&mut lines);
        if let Ok(line) = std::str::from_utf8(&lines.0) {
            assert_eq!(json_lines::parse(line), Ok(Line::Event(event)));
        }
    }
}
