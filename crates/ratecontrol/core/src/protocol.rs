//! The protocols by name.

use std::fmt;
use std::str::FromStr;

macro_rules! protocols {
    ($($(#[$meta:meta])* $protocol:ident $name:literal $controller:ty,)+) => {
        /// A rate control protocol that a lab can select.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Protocol {
            $($(#[$meta])* $protocol,)+
        }

        impl Protocol {
            /// The names of all protocols.
            pub const NAMES: &[&str] = &[$($name,)+];

            /// All protocols, in the order of [`Self::NAMES`].
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$protocol,)+];

            /// The name in the lab file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$protocol => $name,)+ }
            }

            /// Runs the visitor on the protocol's controller type.
            pub fn run<V: Visitor>(self, visitor: V) -> V::Output {
                match self { $(Self::$protocol => visitor.visit::<$controller>(),)+ }
            }
        }
    };
}

protocols! {
    /// SLBN, in the corrected form, which converges.
    Slbn "slbn" crate::slbn::Slbn,
    /// SLBN exactly as in the paper.
    SlbnLetter "slbn-letter" crate::slbn::PaperForm,
    /// SLBN whose links count in epochs: survives lost packets and failed sources.
    SlbnEpochs "slbn-epochs" crate::slbn::Epochs,
    /// Bartal, Farach-Colton, Yooseph, Zhang.
    Bfyz "bfyz" crate::bfyz::Bfyz,
    /// Explicit rate indication for congestion avoidance.
    Erica "erica" crate::erica::Erica,
    /// Cobb and Gouda.
    CobbGouda "cobb-gouda" crate::cobb_gouda::CobbGouda,
    /// The rate control protocol.
    Rcp "rcp" crate::rcp::Rcp,
    /// The proportional-integral queue-independent RCP.
    PiqiRcp "piqi-rcp" crate::piqi_rcp::PiqiRcp,
    /// B-Neck, quiescent.
    BNeck "b-neck" crate::b_neck::BNeck,
}

/// An operation on the type of a protocol.
pub trait Visitor {
    /// The result of the operation.
    type Output;

    /// Runs the visitor on the protocol's type.
    fn visit<R>(self) -> Self::Output
    where
        R: crate::RateController;
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
