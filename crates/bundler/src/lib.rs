//! Bundler: site-to-site traffic control.
//!
//! **Problem.** A site's traffic queues where its bottleneck is, in the middle of the Internet,
//! where the site has no say in what waits and what goes first. **Idea.** Two boxes, one at each
//! site's edge, find the rate at which the network's queue stays short; the sending box paces the
//! whole bundle to it, so that the queue forms there, where the site's own scheduler orders it.
//! Hosts, routers and connections stay as they are.
//!
//! | actor | does |
//! |---|---|
//! | `SendBox` | queues a bundle's packets under a scheduler, paces them, notes those that end an epoch, and controls the rate |
//! | `ReceiveBox` | counts what arrives and acknowledges the packets that end an epoch; passive |
//!
//! | message | from | carries |
//! |---|---|---|
//! | heartbeat | sendbox | the epoch's size, the counters; asks for a report |
//! | report | receivebox | the answer: counters, whose heartbeat it answers |
//! | congestion ACK | receivebox | the digest of a packet that ended an epoch, the counters, the time |
//!
//! After Cangialosi et al., *Site-to-Site Internet Traffic Control*, `EuroSys` 2021:
//!
//! | section | here |
//! |---|---|
//! | §4.1 two control loops | `SendBox` |
//! | §4.2, §4.5 measurement, epochs | `digest`, `measure` |
//! | §4.3 rate control | [`control`] |
//! | §5.1, §5.2 cross traffic, pass-through | `elasticity`, `pass_through` |
//! | §5.3 imbalanced paths | `multipath` |
//!
//! Where it differs, the places are marked `//= deviation`.
#![forbid(unsafe_code)]

pub mod association;
pub mod control;
pub mod digest;
pub mod elasticity;
pub mod encapsulation;
pub mod measure;
pub mod message;
pub mod multipath;
pub mod pass_through;
pub mod receivebox;
pub mod rejection;
pub mod sendbox;
pub mod settings;
