//! The protocols by name.

use std::fmt;
use std::str::FromStr;

/// A rate control protocol that a lab can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// SLBN, in the form that converges.
    Slbn,
    /// SLBN to the letter of the paper.
    SlbnLetter,
    /// SLBN whose links count anew in epochs: survives lost packets and dead sources.
    SlbnEpochs,
    /// Bartal, Farach-Colton, Yooseph, Zhang.
    Bfyz,
    /// Explicit rate indication for congestion avoidance.
    Erica,
    /// Cobb and Gouda.
    CobbGouda,
    /// The rate control protocol.
    Rcp,
    /// The proportional-integral queue-independent RCP.
    PiqiRcp,
    /// B-Neck, quiescent.
    BNeck,
}

/// Something to do with a protocol, whichever it is.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<R>(self) -> Self::Output
    where
        R: crate::RateController;
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Slbn,
        Self::SlbnLetter,
        Self::SlbnEpochs,
        Self::Bfyz,
        Self::Erica,
        Self::CobbGouda,
        Self::Rcp,
        Self::PiqiRcp,
        Self::BNeck,
    ];

    /// As labs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slbn => "slbn",
            Self::SlbnLetter => "slbn-letter",
            Self::SlbnEpochs => "slbn-epochs",
            Self::Bfyz => "bfyz",
            Self::Erica => "erica",
            Self::CobbGouda => "cobb-gouda",
            Self::Rcp => "rcp",
            Self::PiqiRcp => "piqi-rcp",
            Self::BNeck => "b-neck",
        }
    }

    /// Does something with the protocol.
    pub fn run<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            Self::Slbn => visitor.visit::<crate::slbn::Slbn>(),
            Self::SlbnLetter => visitor.visit::<crate::slbn::Letter>(),
            Self::SlbnEpochs => visitor.visit::<crate::slbn::Epochs>(),
            Self::CobbGouda => visitor.visit::<crate::cobb_gouda::CobbGouda>(),
            Self::Erica => visitor.visit::<crate::erica::Erica>(),
            Self::Rcp => visitor.visit::<crate::rcp::Rcp>(),
            Self::PiqiRcp => visitor.visit::<crate::piqi_rcp::PiqiRcp>(),
            Self::Bfyz => visitor.visit::<crate::bfyz::Bfyz>(),
            Self::BNeck => visitor.visit::<crate::b_neck::BNeck>(),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == text).ok_or(())
    }
}
