//! Decodes archives in memory.
#![expect(clippy::inline_always, reason = "as in the walk that calls it")]

use bgp::attribute::{Attribute, RawAttribute};
use bgp::mrt::{Body, Records};
use bgp::nlri::Nlri;
use bgp::update::{Visitor, walk};
use bgp::verdict::{Action, Problem};
use bgp::{Family, MessageType, Prefix};
use bgpkit_parser::BgpkitParser;
use bgpkit_parser::models::{Bgp4MpEnum, BgpMessage, MrtMessage};
use collector::text::bgpdump::Renderer;

use super::{print_times, times};
use crate::Outcome;

/// Reads every number, so that the compiler cannot omit any.
#[derive(Default)]
struct Reader {
    announced: u64,
    withdrawn: u64,
    attributes: u64,
    unknown: u64,
    problems: u64,
    sum: u64,
}

impl Reader {
    #[inline(always)]
    fn prefix(&mut self, nlri: Nlri) {
        self.sum += match nlri.prefix {
            Prefix::V4(bits, length) => u64::from(bits) + u64::from(length),
            Prefix::V6(bits, length) => bits as u64 + u64::from(length),
        };
    }
}

impl Visitor for Reader {
    #[inline(always)]
    fn withdrawn(&mut self, _: Family, nlri: Nlri) {
        self.withdrawn += 1;
        self.prefix(nlri);
    }

    #[inline(always)]
    fn announced(&mut self, _: Family, nlri: Nlri) {
        self.announced += 1;
        self.prefix(nlri);
    }

    #[inline(always)]
    fn attribute(&mut self, _: &RawAttribute<'_>, attribute: &Attribute<'_>) {
        self.attributes += 1;
        self.sum += match attribute {
            Attribute::Origin(origin) => *origin as u64,
            Attribute::AsPath(path) | Attribute::As4Path(path) => {
                path.segments().flat_map(|segment| segment.asns).map(|asn| u64::from(asn.0)).sum()
            }
            Attribute::NextHop(address) | Attribute::OriginatorId(address) => {
                u64::from(address.to_bits())
            }
            Attribute::MultiExitDisc(value) | Attribute::LocalPref(value) => u64::from(*value),
            Attribute::Aggregator(who) | Attribute::As4Aggregator(who) => u64::from(who.asn.0),
            Attribute::Communities(list) => list.iter().map(|one| u64::from(one.0)).sum(),
            Attribute::ClusterList(list) => list.iter().map(|one| u64::from(one.to_bits())).sum(),
            Attribute::Opaque(_) => {
                self.unknown += 1;
                0
            }
            _ => 0,
        };
    }

    fn problem(&mut self, _: Problem) {
        self.problems += 1;
    }
}

/// Each UPDATE of an archive, every attribute typed and validated, every prefix visited.
pub(super) fn ours(archive: &[u8], rounds: usize) -> Outcome {
    let (mut reader, mut worst) = (Reader::default(), Action::Accept);
    let times = times(rounds, || {
        reader = Reader::default();
        for record in Records::new(archive) {
            let record = record.map_err(|damage| format!("{damage:?}"))?;
            let Body::Message(found) = record.parse()? else { continue };
            let message = found.message().ok_or("truncated message")?;
            if message.kind() == MessageType::UPDATE {
                worst = worst.max(walk(message.body(), &found.form.negotiated(), &mut reader));
            }
        }
        std::hint::black_box(reader.sum);
        Ok(())
    })?;
    let Reader { announced, withdrawn, attributes, unknown, problems, .. } = reader;
    print_times(
        &times,
        &format!(
            "\"announced\":{announced},\"withdrawn\":{withdrawn},\"attributes\":{attributes},\
             \"unknown\":{unknown},\"problems\":{problems},\"worst\":\"{worst:?}\""
        ),
    );
    Ok(())
}

/// The same with bgpkit-parser.
pub(super) fn bgpkit(archive: &[u8], rounds: usize) -> Outcome {
    let mut announced = 0;
    let times = times(rounds, || {
        announced = 0;
        for record in BgpkitParser::from_reader(archive).into_record_iter() {
            if let MrtMessage::Bgp4Mp(Bgp4MpEnum::Message(message)) = record.message
                && let BgpMessage::Update(update) = message.bgp_message
            {
                announced += update.announced_prefixes.len();
            }
        }
        Ok(())
    })?;
    print_times(&times, &format!("\"announced\":{announced}"));
    Ok(())
}

/// Each record as the lines of `bgpdump -m`.
pub(super) fn text(archive: &[u8], rounds: usize) -> Outcome {
    let (mut bytes, mut out) = (0, Vec::new());
    let times = times(rounds, || {
        bytes = 0;
        let mut renderer = Renderer::new();
        for record in collector::text::bgpdump::records(archive) {
            renderer.render(&record, &mut out);
            if out.len() >= 1 << 18 {
                bytes += out.len();
                out.clear();
            }
        }
        bytes += out.len();
        out.clear();
        Ok(())
    })?;
    print_times(&times, &format!("\"bytes\":{bytes}"));
    Ok(())
}
