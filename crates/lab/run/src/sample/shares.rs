//! The table of flow shares in the collapsed model: one row per flow and sampling interval.

use std::collections::HashMap;
use std::path::Path;

use base::{NodeId, Span, Time};
use parquet::data_type::ByteArray;

use crate::Error;
use crate::table::{Cell, Column, Kind, Table};

/// The table's file in the run folder.
pub const FILE: &str = "shares.parquet";

/// Transport of a flow, which determines how its end is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// TCP: the flow lasts from its first segment until FIN, RST or an idle timeout.
    Stream,
    /// Other protocols: the flow lasts until an idle timeout.
    Datagram,
}

impl FlowKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Datagram => "datagram",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Stream, Self::Datagram].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A live flow (one direction of a 5-tuple) of the collapsed model at the end
/// of a sampling interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    pub from: NodeId,
    pub to: NodeId,
    /// Hash of the 5-tuple; distinguishes flows between the same nodes.
    pub flow: u32,
    pub kind: FlowKind,
    /// The share in bit/s on the wire; `None` if unlimited.
    pub share: Option<u64>,
    /// The estimated demand in bit/s on the wire; `None` if unlimited.
    pub demand: Option<u64>,
    /// Wire bytes sent within the interval.
    pub sent_bytes: u64,
}

/// Reads the table at `path`. `nodes` are the names of the run's nodes in the order of [`NodeId`].
pub fn read(path: &Path, nodes: &[String]) -> Result<Vec<ShareSample>, Error> {
    let table = Table::read(path)?;
    rows(&table, nodes).ok_or_else(|| Error::Foreign { path: path.to_owned() })
}

fn rows(table: &Table, nodes: &[String]) -> Option<Vec<ShareSample>> {
    let ids: HashMap<&str, NodeId> =
        nodes.iter().enumerate().map(|(i, name)| (name.as_str(), NodeId(i as u32))).collect();
    let node = |names: Vec<String>| -> Option<Vec<NodeId>> {
        names.iter().map(|name| ids.get(name.as_str()).copied()).collect()
    };
    let number = |name| table.integers(name)?.into_iter().collect::<Option<Vec<u64>>>();
    let (at, interval, flow) = (number("time_ns")?, number("interval_ns")?, number("flow")?);
    let (from, to) = (node(table.texts("from")?)?, node(table.texts("to")?)?);
    let (kind, sent) = (table.texts("kind")?, number("sent_bytes")?);
    let (share, demand) = (table.integers("share_bps")?, table.integers("demand_bps")?);
    let row = |i: usize| {
        Some(ShareSample {
            at: Time::from_nanos(at[i]),
            interval: Span::from_nanos(interval[i]),
            from: from[i],
            to: to[i],
            flow: u32::try_from(flow[i]).ok()?,
            kind: FlowKind::named(&kind[i])?,
            share: share[i],
            demand: demand[i],
            sent_bytes: sent[i],
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("interval_ns", "ns", Kind::Integer),
        Column::new("from", "", Kind::Text),
        Column::new("to", "", Kind::Text),
        Column::new("flow", "hash", Kind::Integer),
        Column::new("kind", "", Kind::Text),
        Column::new("share_bps", "bit/s", Kind::Optional),
        Column::new("demand_bps", "bit/s", Kind::Optional),
        Column::new("sent_bytes", "B", Kind::Integer),
    ]
}

pub(crate) fn row(sample: &ShareSample, from: ByteArray, to: ByteArray) -> [Cell; 9] {
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Text(from),
        Cell::Text(to),
        Cell::Integer(u64::from(sample.flow)),
        Cell::Text(ByteArray::from(sample.kind.as_str())),
        Cell::Optional(sample.share),
        Cell::Optional(sample.demand),
        Cell::Integer(sample.sent_bytes),
    ]
}
