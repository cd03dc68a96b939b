//! Papers and their figures.

use crate::{Clock, Evidence, Result, Stage, bundler, cluster, collector, mctcp, slbn, splaynet};

/// A published evaluation.
#[derive(Debug)]
pub struct Paper {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Authors, place and year.
    pub citation: &'static str,
    /// The figures that can be made, in the paper's order.
    pub figures: &'static [Figure],
}

/// A figure of a paper, or another result that it prints.
pub struct Figure {
    /// The paper's number, such as `3.6b`, or a name.
    pub id: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// About how long it takes, `wall` and `virtual` together, such as `2 min`.
    pub takes: &'static str,
    /// The clocks that it makes sense on; empty if it runs no labs.
    pub clocks: &'static [Clock],
    /// Labs and programs that it runs.
    pub files: &'static [File],
    /// Makes it.
    pub make: fn(&mut Stage<'_>) -> Result<Evidence>,
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Figure({})", self.id)
    }
}

/// A file that the program carries and writes beside the results.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its path below the folder `labs`, such as `splaynet/star.toml`.
    pub path: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

/// A [`File`] from `labs/`, given its path there: `lab_file!("splaynet/worked-example.toml")`.
macro_rules! lab_file {
    ($path:literal) => {
        $crate::File {
            path: $path,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/", $path)),
        }
    };
}
pub(crate) use lab_file;

/// All papers.
pub fn papers() -> &'static [Paper] {
    const PAPERS: &[Paper] = &[
        splaynet::PAPER,
        cluster::PAPER,
        slbn::PAPER,
        collector::PAPER,
        bundler::PAPER,
        mctcp::PAPER,
    ];
    PAPERS
}

impl Figure {
    /// Whether it makes sense on one of these clocks.
    pub fn suits(&self, clocks: &[Clock]) -> bool {
        self.clocks.is_empty() || self.clocks.iter().any(|clock| clocks.contains(clock))
    }
}

impl Paper {
    /// The paper of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        papers().iter().find(|paper| paper.name == name)
    }

    /// The figure of this number.
    pub fn figure(&self, id: &str) -> Option<&'static Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}
