//! Routes a site's traffic through a device, by policy routing.
//!
//! ```text
//! TABLE     from bundle0  goto TABLE + 3   packets from the gateway take the previous routes;
//! TABLE+1   from lo       goto TABLE + 3   so do the host's own packets, and look-ups of
//!                                          the return route (rp_filter)
//! TABLE+2   all           lookup TABLE     the site's prefixes → bundle0
//! TABLE+3   all           nop
//! ```
//!
//! Routes through the device are removed with it, however the process ends. Then the table is
//! empty and the rules have no effect; the next gateway of this table removes them before it
//! sets its own.

use std::net::{IpAddr, Ipv4Addr};

use sys::netlink::{Action, Batch, LinkSettings, Route, Rule, Socket, index_of};
use sys::sysctl;

use crate::{Error, Prefix, Result};

/// Identifies our rules (`RTPROT_*`; numbers above 4 are free).
const PROTOCOL: u8 = 78;
/// Queue length of the device, for packets that arrive while the gateway is busy.
const QUEUE: u32 = 10_000;

/// The address of a host without one (RFC 7600 §4.8).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Rules that are installed until this is dropped.
#[derive(Debug)]
pub(crate) struct Diversion {
    socket: Socket,
    device: String,
    table: u32,
    prefixes: Vec<Prefix>,
    /// Address families with rules: whether each is IPv6.
    families: Vec<bool>,
}

/// Fails on a host that does not forward packets.
pub(crate) fn check_forwarding(prefixes: &[Prefix]) -> Result<()> {
    for (ipv6, name) in [(false, "net/ipv4/ip_forward"), (true, "net/ipv6/conf/all/forwarding")] {
        let wanted = prefixes.iter().any(|prefix| prefix.is_ipv6() == ipv6);
        if wanted && sysctl::read(name)? == "0" {
            return Err(Error::NoForwarding(name));
        }
    }
    Ok(())
}

/// Fails on a host that translates source addresses (NAT): the kernel selects the translation when
/// a packet enters the gateway's device, so rules for the real output device would not apply.
pub(crate) fn check_translation() -> Result<()> {
    match Socket::source_translation()?.into_iter().next() {
        Some((table, chain)) => Err(Error::Translation { table, chain }),
        None => Ok(()),
    }
}

/// Device on the route to `address`, and its MTU.
pub(crate) fn way(socket: &mut Socket, address: IpAddr) -> Result<Option<(u32, u32)>> {
    let Some(way) = socket.look_up_route(address)? else { return Ok(None) };
    Ok(Some((way.device, socket.mtu(way.device)?)))
}

/// Brings the device up, so that packets from it are forwarded.
pub(crate) fn bring_up(device: &str, mtu: u32, ipv6: bool) -> Result<()> {
    // Packets from the gateway have addresses of hosts behind other devices. Value 2 requires only
    // that there is a return route, and that the device has an address.
    sysctl::write(&format!("net/ipv4/conf/{device}/rp_filter"), "2")?;
    sysctl::write(&format!("net/ipv4/conf/{device}/forwarding"), "1")?;
    // The gateway must not redirect hosts to the next router.
    sysctl::write(&format!("net/ipv4/conf/{device}/send_redirects"), "0")?;
    if ipv6 {
        sysctl::write(&format!("net/ipv6/conf/{device}/forwarding"), "1")?;
    }
    let index = index_of(device)?;
    let mut batch = Batch::new();
    let settings = LinkSettings {
        up: Some(true),
        mtu: Some(mtu),
        queue: Some(QUEUE),
        no_own_addresses: ipv6 || sysctl::read(&format!("net/ipv6/conf/{device}/mtu")).is_ok(),
        no_arp: true,
    };
    batch.set_link(index, &settings);
    batch.add_address(index, DUMMY.into(), 32);
    batch.drop_queue_discipline(index);
    Ok(Socket::open()?.submit(batch)?)
}

impl Diversion {
    /// Routes packets to `prefixes` through the device, except those from the device.
    pub(crate) fn begin(device: &str, table: u32, prefixes: &[Prefix]) -> Result<Self> {
        let (socket, device) = (Socket::open()?, device.to_owned());
        let mut this = Self { socket, device, table, prefixes: Vec::new(), families: Vec::new() };
        remove_rules(&mut this.socket, table)?;
        this.change(prefixes)?;
        Ok(this)
    }

    /// Routes packets to these prefixes, and no longer to others, through the device.
    pub(crate) fn change(&mut self, prefixes: &[Prefix]) -> Result<()> {
        let (table, index) = (self.table, index_of(&self.device)?);
        let mut batch = Batch::new();
        for prefix in prefixes.iter().filter(|it| !self.prefixes.contains(it)) {
            let to = (prefix.address(), prefix.length());
            batch.add_route(&Route { to, table, devices: &[index], source: None });
        }
        for prefix in self.prefixes.iter().filter(|it| !prefixes.contains(it)) {
            batch.remove_route((prefix.address(), prefix.length()), table);
        }
        // Rules of a family without routes have no effect, and stay.
        let is_new = |six: &bool| {
            !self.families.contains(six) && prefixes.iter().any(|it| it.is_ipv6() == *six)
        };
        let families: Vec<bool> = [false, true].into_iter().filter(is_new).collect();
        for &ipv6 in &families {
            let rule = |place: u32, from, action| Rule {
                ipv6,
                priority: table + place,
                from,
                action,
                protocol: PROTOCOL,
            };
            // The target of the other rules comes first, and the rule that diverts traffic last.
            batch.add_rule(&rule(3, None, Action::Nothing));
            batch.add_rule(&rule(0, Some(&self.device), Action::Goto(table + 3)));
            batch.add_rule(&rule(1, Some("lo"), Action::Goto(table + 3)));
            batch.add_rule(&rule(2, None, Action::Table(table)));
        }
        if !batch.is_empty() {
            self.socket.submit(batch)?;
        }
        self.prefixes = prefixes.to_vec();
        self.families.extend(families);
        Ok(())
    }

    /// Restores the previous routes.
    pub(crate) fn end(&mut self) -> Result<()> {
        remove_rules(&mut self.socket, self.table)
    }
}

impl Drop for Diversion {
    fn drop(&mut self) {
        // The process ends; the next gateway retries.
        let _ = self.end();
    }
}

/// Removes the rules of all gateways of this table; the one that diverts traffic first.
fn remove_rules(socket: &mut Socket, table: u32) -> Result<()> {
    for ipv6 in [false, true] {
        // A kernel without IPv6 has no such rules.
        let Ok(rules) = socket.rules(ipv6) else { continue };
        for place in [2, 0, 1, 3] {
            let mut batch = Batch::new();
            for rule in &rules {
                if *rule == (table + place, PROTOCOL) {
                    batch.remove_rule_at(ipv6, rule.0);
                }
            }
            if !batch.is_empty() {
                socket.submit(batch)?;
            }
        }
    }
    Ok(())
}
