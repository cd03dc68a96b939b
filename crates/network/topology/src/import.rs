//! Importers: `GraphML`, GML (both as the Internet Topology Zoo writes them), GT-ITM's alternative
//! format and edge lists in CSV.
//!
//! Errors include line and column. Memory is bounded by a multiple of the text length, and texts
//! longer than [`MAX_TEXT`] are rejected.
//!
//! Attributes of nodes and edges in `GraphML` and GML (names are case-insensitive):
//!
//! | of a node | |
//! |---|---|
//! | `label`, `name` | its name, changed to a valid host name (or its id); also an attribute |
//! | `role`, `kind` | `host`, `router` or `switch`; a router without |
//! | `Latitude`, `Longitude` | degrees; give the delays of links and the position |
//! | `x`, `y`, `graphics.x`, `graphics.y` | the position |
//! | `host_bandwidth_up`, `host_bandwidth_down` | rates from and to each host at the node |
//!
//! | of an edge | |
//! |---|---|
//! | `delay` or `latency`, `rate` | text with a unit, such as `10 ms` |
//! | `loss` or `packet_loss` | probability that a packet is lost, in each direction |
//! | `LinkSpeedRaw` | rate in bit/s |
//! | `LinkSpeed` with `LinkSpeedUnits` | rate in kbit/s, Mbit/s or Gbit/s (`K`, `M`, `G`) |
//! | `metric` | routing cost |
//! | `name` | the link's name |
//!
//! Without `delay`, an edge between nodes with coordinates has the delay of light in fibre, at two
//! thirds of its speed in a vacuum, along the great circle.
//!
//! Edges from a node to itself are skipped. [`Graph::unused`] has what the graph does not contain.
//!
//! The elements in which yEd stores labels and positions of nodes are read. A node that contains
//! nodes is a group, and is not added to the graph.

use crate::{Error, Graph};

mod alt;
mod assemble;
mod csv;
mod gml;
mod graphml;
mod place;

pub use alt::alt;
pub use csv::csv;
pub use gml::gml;
pub use graphml::graphml;
pub use place::MAX_TEXT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `GraphML` (XML).
    GraphMl,
    /// Graph Modelling Language.
    Gml,
    /// GT-ITM's alternative format, as its `sgb2alt` writes it.
    Alt,
    /// An edge list.
    Csv,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::GraphMl, Self::Gml, Self::Alt, Self::Csv];

    /// The format's name in lab files, which is also the file extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GraphMl => "graphml",
            Self::Gml => "gml",
            Self::Alt => "alt",
            Self::Csv => "csv",
        }
    }

    /// The format of this name, case-insensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str().eq_ignore_ascii_case(name))
    }

    /// The format of a path's extension.
    pub fn from_path(path: &std::path::Path) -> Option<Self> {
        Self::from_name(path.extension()?.to_str()?)
    }

    /// Parses a text of this format, which may begin with a byte order mark.
    pub fn read(self, text: &str) -> Result<Graph, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::GraphMl => graphml(text),
            Self::Gml => gml(text),
            Self::Alt => alt(text),
            Self::Csv => csv(text),
        }
    }
}

#[cfg(test)]
mod tests;
