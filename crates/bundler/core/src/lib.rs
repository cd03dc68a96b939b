//! Bundler: site-to-site traffic control.
//!
//! **Problem.** A site's traffic is queued at its bottleneck in the Internet, where the site cannot
//! control the order of packets. **Idea.** Two gateways, one at each site's edge, determine the
//! rate at which the queue in the network stays short; the sendbox paces the whole bundle to it, so
//! that the queue forms there, where the site's own scheduler orders it. Hosts, routers and
//! connections stay unchanged.
//!
//! | part | task |
//! |---|---|
//! | `SendBox` | queues a bundle's packets in a scheduler, paces them, records those that end an
//! epoch, and controls the rate |
//! | `ReceiveBox` | counts received packets and acknowledges those that end an epoch; passive |
//!
//! | message | from | content |
//! |---|---|---|
//! | heartbeat | sendbox | the epoch's size, the counters; requests a report |
//! | report | receivebox | counters, and the heartbeat that it answers |
//! | congestion ACK | receivebox | the digest of a packet that ended an epoch, the counters, the
//! time |
//!
//! Based on Cangialosi et al., *Site-to-Site Internet Traffic Control*, `EuroSys` 2021:
//!
//! | section | here |
//! |---|---|
//! | §4.1 two control loops | `SendBox` |
//! | §4.2, §4.5 measurement, epochs | `digest`, `measure` |
//! | §4.3 rate control | [`control`] |
//! | §5.1, §5.2 cross traffic, pass-through | `sendbox` |
//! | §5.3 imbalanced paths | `multipath` |
//!
//! Deviations are marked `//= deviation`.
#![forbid(unsafe_code)]

pub mod association;
pub mod constants;
pub mod control;
pub mod digest;
pub mod encapsulation;
pub mod measure;
pub mod message;
pub mod multipath;
pub mod receivebox;
pub mod rejection;
pub mod sendbox;
pub mod settings;
