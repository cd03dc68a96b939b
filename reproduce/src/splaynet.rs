//! `SplayNet`: distributed user-space topology emulation.

mod fig_3_4;
mod fig_3_4_3;
mod fig_3_4_4;
mod fig_3_5;
mod fig_3_6b;
mod fig_3_6c;
mod fig_3_7;
mod fig_3_8;
mod macro_benchmarks;

use crate::{Figure, Paper};

/// Payload of a full segment with timestamps, over its bytes on the wire.
const PAYLOAD: f64 = 1448.0 / 1538.0;

/// The figures, in the paper's order. Each is in a file of its own.
const FIGURES: &[Figure] = &[
    fig_3_4::FIGURE,
    fig_3_5::FIGURE,
    fig_3_6b::FIGURE,
    fig_3_6c::FIGURE,
    fig_3_7::FIGURE,
    fig_3_8::FIGURE,
    macro_benchmarks::chord::FIGURE,
    macro_benchmarks::multicast::FIGURE,
    macro_benchmarks::coding::FIGURE,
    fig_3_4_3::FIGURE,
    fig_3_4_4::FIGURE,
];

pub(crate) const PAPER: Paper = Paper {
    name: "splaynet",
    title: "SplayNet: Distributed User-Space Topology Emulation",
    citation: "V. Schiavoni, E. Rivière and P. Felber, Middleware 2013, LNCS 8275, and the chapter \
               on it in V. Schiavoni's thesis",
    figures: FIGURES,
};
