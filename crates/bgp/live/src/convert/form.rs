//! Output forms of records and events.

use std::collections::BTreeMap;
use std::path::Path;

use base::Time;
use bgp::mrt::{Record, Records};
use collector::archive::{Recorder, Settings};
use collector::capture::{Interface, write};
use collector::export::bmp::{self, Cursor, Exporter};
use collector::text::bgpdump::Renderer;
use collector::text::json_lines;
use collector::{Event, Frame, GapCause, LinkType, MirrorId, Peering, Reason, Sender, Sink, State};

use super::output::Output;
use crate::{Error, Result};

/// Bytes per write, which stay in the second-level cache.
const CHUNK: usize = 192 << 10;

/// Maximum captured bytes of a packet, as stated in a pcapng file.
const SNAP: u32 = 262_144;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Archive records (RFC 6396).
    Mrt,
    /// JSON Lines: all fields of a record or an event, and its bytes.
    Json,
    /// The lines of `bgpdump -m`.
    Bgpdump,
    /// BMP (RFC 7854), as sent to stations.
    Bmp,
    /// A pcap file with the messages in ordered TCP segments.
    Pcap,
    Pcapng,
}

impl Target {
    /// Format of a file with this name, without its compression.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let packed = [".gz", ".bz2", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let name = packed.unwrap_or(&name);
        Some(match name.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
            "mrt" => Self::Mrt,
            "json" | "jsonl" | "ndjson" => Self::Json,
            "bgpdump" | "txt" => Self::Bgpdump,
            "bmp" => Self::Bmp,
            "pcap" | "cap" => Self::Pcap,
            "pcapng" => Self::Pcapng,
            _ if ["updates.", "bview.", "rib."].iter().any(|kind| name.starts_with(kind)) => {
                Self::Mrt
            }
            _ => return None,
        })
    }
}

enum Maker {
    Mrt(Recorder),
    Json,
    Bgpdump(Recorder, Renderer),
    Bmp(Box<Exporter>, Cursor),
    Capture { wrappers: BTreeMap<MirrorId, write::Wrapper>, is_ng: bool },
}

pub(super) struct Form {
    maker: Maker,
    out: Vec<u8>,
    output: Output,
    pub(super) gaps: u64,
    pub(super) guessed: u64,
    failed: Option<Error>,
    over: bool,
}

impl Form {
    pub(super) fn new(target: Target, output: Output) -> Self {
        let mut out = Vec::with_capacity(CHUNK + (CHUNK >> 1));
        let recorder = || Recorder::new(Settings::default());
        let maker = match target {
            Target::Mrt => Maker::Mrt(recorder()),
            Target::Json => Maker::Json,
            Target::Bgpdump => Maker::Bgpdump(recorder(), Renderer::new()),
            Target::Bmp => {
                let exporter = Exporter::new(bmp::Settings::default());
                let cursor = exporter.greeting(&mut out).expect("its own name is short");
                Maker::Bmp(Box::new(exporter), cursor)
            }
            Target::Pcap => {
                write::pcap_header(LinkType::ETHERNET, &mut out);
                Maker::Capture { wrappers: BTreeMap::new(), is_ng: false }
            }
            Target::Pcapng => {
                let link = LinkType::ETHERNET;
                let interface = Interface { link, name: None, snap: SNAP, dropped: 0 };
                write::pcapng_header(&[interface], &mut out);
                Maker::Capture { wrappers: BTreeMap::new(), is_ng: true }
            }
        };
        Self { maker, out, output, gaps: 0, guessed: 0, failed: None, over: false }
    }

    pub(super) const fn takes_records(&self) -> bool {
        matches!(self.maker, Maker::Mrt(_) | Maker::Json | Maker::Bgpdump(..))
    }

    /// Whether conversion has ended: it failed, or the reader has closed.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    #[inline]
    pub(super) fn record(&mut self, record: &Record<'_>) {
        match &mut self.maker {
            Maker::Mrt(_) => self.out.extend_from_slice(record.bytes),
            Maker::Json => json_lines::record(record, &mut self.out),
            Maker::Bgpdump(_, renderer) => renderer.render(record, &mut self.out),
            Maker::Bmp(..) | Maker::Capture { .. } => {}
        }
        if self.out.len() >= CHUNK {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        self.collect();
        if self.over || self.out.is_empty() {
            return;
        }
        match self.output.write(&self.out) {
            Ok(wanted) => self.over = !wanted,
            Err(error) => (self.failed, self.over) = (Some(error), true),
        }
        self.out.clear();
    }

    fn collect(&mut self) {
        match &mut self.maker {
            Maker::Mrt(recorder) => {
                self.out.extend_from_slice(recorder.bytes());
                recorder.clear();
            }
            Maker::Bgpdump(recorder, renderer) => {
                for record in Records::new(recorder.bytes()).flatten() {
                    renderer.render(&record, &mut self.out);
                }
                recorder.clear();
            }
            Maker::Bmp(exporter, cursor) => {
                // These bytes are read after each event, before the exporter removes any.
                let unread = exporter.unread(*cursor).unwrap_or_default();
                self.out.extend_from_slice(unread);
                cursor.advance(unread.len());
            }
            Maker::Json | Maker::Capture { .. } => {}
        }
    }

    fn waiting(&self) -> usize {
        self.out.len()
            + match &self.maker {
                Maker::Mrt(recorder) | Maker::Bgpdump(recorder, _) => recorder.bytes().len(),
                Maker::Bmp(exporter, cursor) => exporter.unread(*cursor).map_or(0, <[u8]>::len),
                Maker::Json | Maker::Capture { .. } => 0,
            }
    }

    /// Completes the output; returns its length before compression.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.collect();
        if let Maker::Bmp(..) = self.maker {
            Exporter::termination(&mut self.out).expect("its reason is short");
        }
        self.flush();
        match self.failed {
            Some(error) => Err(error),
            None => self.output.finish(),
        }
    }
}

impl Sink for Form {
    #[inline]
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match event {
            Event::Gap(gap) if gap.cause == GapCause::Guessed => self.guessed += 1,
            Event::Gap(_) => self.gaps += 1,
            _ => {}
        }
        match &mut self.maker {
            Maker::Mrt(recorder) | Maker::Bgpdump(recorder, _) => recorder.event(peering, event),
            Maker::Json => json_lines::event(peering, event, &mut self.out),
            Maker::Bmp(exporter, _) => exporter.event(peering, event),
            Maker::Capture { wrappers, is_ng } => {
                let mirror = peering.mirror;
                let new = || write::Wrapper::of_mirror(mirror);
                let wrapper = wrappers.entry(mirror).or_insert_with(new);
                let out = &mut self.out;
                let write = if *is_ng { write::pcapng_frame } else { write::pcap_frame };
                segments(wrapper, peering, event, &mut |frame| write(frame, out));
            }
        }
        if self.waiting() >= CHUNK {
            self.flush();
        }
    }
}

fn segments(
    wrapper: &mut write::Wrapper,
    peering: &Peering,
    event: &Event<'_>,
    out: &mut impl FnMut(&Frame<'_>),
) {
    let ends = |from: Sender| match from {
        Sender::Peer => (peering.peer, peering.local),
        Sender::Local => (peering.local, peering.peer),
    };
    let mut close = |time: Time, from: Sender, reset: bool| {
        let (from, to) = ends(from);
        wrapper.close(time, from, to, reset, out);
    };
    match *event {
        Event::Message { time, from, message } => {
            let (from, to) = ends(from);
            wrapper.message(time, from, to, message.bytes(), out);
        }
        Event::State { time, new: State::Idle, reason, .. } => match reason {
            Reason::Notification(from, ..) => close(time, from, false),
            Reason::Reset => close(time, Sender::Peer, true),
            _ => close(time, Sender::Peer, false),
        },
        _ => {}
    }
}
