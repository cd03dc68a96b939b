//! A bridge between veth pairs, and a rate limit for a device: a physical network in a namespace.

use base::{Bandwidth, Bytes};

use super::Batch;
use super::message::{attributes, header};

/// Nanoseconds in a tick of the packet scheduler (`PSCHED_SHIFT` of the kernel).
const TICK_NS: u128 = 64;

impl Batch {
    pub fn add_bridge(&mut self, name: &str) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut message = self.add("make a bridge", libc::RTM_NEWLINK, flags);
        message.push(&header::link(0, 0, 0));
        message.text(libc::IFLA_IFNAME, name);
        message.nest(libc::IFLA_LINKINFO, |info| info.text(libc::IFLA_INFO_KIND, "bridge"));
        message.finish();
    }

    /// Makes the device `index` a port of the bridge whose index is `bridge`.
    pub fn add_port(&mut self, index: u32, bridge: u32) {
        let mut message = self.add("add a port to a bridge", libc::RTM_NEWLINK, 0);
        message.push(&header::link(index, 0, 0));
        message.attribute(libc::IFLA_MASTER, &bridge.to_ne_bytes());
        message.finish();
    }

    /// Limits the device `index` to `rate` with bursts of at most `burst` (at least one packet) and
    /// a queue of `limit`. A token bucket (`tc-tbf(8)`).
    pub fn limit_rate(&mut self, index: u32, rate: Bandwidth, burst: Bytes, limit: Bytes) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = self.add("limit a device's rate", libc::RTM_NEWQDISC, flags);
        message.push(&header::root_discipline(index));
        message.text(libc::TCA_KIND, "tbf");
        let bytes_per_second = rate.bits_per_sec() / 8;
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let burst_ns = u128::from(burst.count()) * 1_000_000_000;
        let ticks = burst_ns / u128::from(bytes_per_second.max(1)) / TICK_NS;
        message.nest(libc::TCA_OPTIONS, |options| {
            // `struct tc_tbf_qopt`: two rates of 12 bytes, limit, burst in ticks, a size unused.
            let mut parameters = [0; 36];
            parameters[1] = attributes::LINKLAYER_ETHERNET;
            parameters[8..12].copy_from_slice(&small(bytes_per_second).to_ne_bytes());
            parameters[24..28].copy_from_slice(&small(limit.count()).to_ne_bytes());
            let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
            parameters[28..32].copy_from_slice(&ticks.to_ne_bytes());
            options.attribute(attributes::TBF_PARAMETERS, &parameters);
            options.attribute(attributes::TBF_RATE64, &bytes_per_second.to_ne_bytes());
            options.attribute(attributes::TBF_BURST, &small(burst.count()).to_ne_bytes());
        });
        message.finish();
    }
}
