//! Policy routing: rules, and route look-ups.

use std::io;
use std::net::IpAddr;

use super::message::{self, Message, attributes, header};
use super::{Batch, Socket, family};
use crate::{Error, Result};

/// Length of `struct rtmsg` and of `struct fib_rule_hdr`.
const FIXED: usize = 12;

/// Action of a rule for matching packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up this table; continue with the next rule if it has no route.
    Table(u32),
    /// Continue with the first rule of this priority, which must be a higher number.
    Goto(u32),
    /// No action: a target for jumps.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// Whether it is a rule of IPv6, otherwise of IPv4.
    pub ipv6: bool,
    /// Rules of lower priority come first.
    pub priority: u32,
    /// Input device of packets; `lo` for packets of this host, and for the kernel's look-ups of the
    /// return route. `None`: any.
    pub from: Option<&'a str>,
    pub action: Action,
    /// Creator of the rule (`RTPROT_*`).
    pub protocol: u8,
}

/// Result of a route look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub device: u32,
    /// Source address of packets without one.
    pub source: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    pub address: IpAddr,
    /// Index of the device that has it.
    pub device: u32,
    /// Valid beyond the device's link: neither loopback nor link-local.
    pub is_global: bool,
    /// Usable as source: duplicate address detection is complete and found none.
    pub is_usable: bool,
}

impl Batch {
    /// Adds a rule, even if an equal one exists.
    pub fn add_rule(&mut self, rule: &Rule<'_>) {
        const TO_TABLE: u8 = 1;
        const GOTO: u8 = 2;
        const NOTHING: u8 = 3;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut message = self.add("add a routing rule", libc::RTM_NEWRULE, flags);
        let action = match rule.action {
            Action::Table(_) => TO_TABLE,
            Action::Goto(_) => GOTO,
            Action::Nothing => NOTHING,
        };
        message.push(&header::rule_of(version(rule.ipv6), action));
        message.attribute(attributes::RULE_PRIORITY, &rule.priority.to_ne_bytes());
        message.attribute(attributes::RULE_PROTOCOL, &[rule.protocol]);
        if let Some(device) = rule.from {
            message.text(attributes::RULE_INPUT, device);
        }
        match rule.action {
            Action::Table(table) => {
                message.attribute(attributes::RULE_TABLE, &table.to_ne_bytes());
            }
            Action::Goto(priority) => {
                message.attribute(attributes::RULE_GOTO, &priority.to_ne_bytes());
            }
            Action::Nothing => {}
        }
        message.finish();
    }

    /// Removes the first rule of this priority.
    pub fn remove_rule_at(&mut self, ipv6: bool, priority: u32) {
        let mut message = self.add("remove a routing rule", libc::RTM_DELRULE, 0);
        message.push(&header::rule_of(version(ipv6), 0));
        message.attribute(attributes::RULE_PRIORITY, &priority.to_ne_bytes());
        message.finish();
    }
}

impl Socket {
    /// Priority and protocol of all rules of a family, in their order.
    pub fn rules(&mut self, ipv6: bool) -> Result<Vec<(u32, u8)>> {
        let mut rules = Vec::new();
        self.dump(libc::RTM_GETRULE, &header::rule_of(version(ipv6), 0), |answer| {
            let number = |kind| answer.attribute(FIXED, kind);
            let priority = number(attributes::RULE_PRIORITY).and_then(|v| message::word(v, 0));
            let protocol = number(attributes::RULE_PROTOCOL).and_then(|v| v.first().copied());
            rules.push((priority.unwrap_or(0), protocol.unwrap_or(0)));
        })?;
        Ok(rules)
    }

    /// Route of this host's packets to `address`. `None`: there is none.
    pub fn look_up_route(&mut self, address: IpAddr) -> Result<Option<Way>> {
        self.way(address, 0, |_| {})
    }

    /// Route of packets from `from` to `to`; through this device, if one is given. `None`:
    /// no route matches.
    pub fn way_from(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        device: Option<u32>,
    ) -> Result<Option<Way>> {
        // Without it, IPv4 treats any address without a route through the device as a neighbour.
        const FIB_MATCH: u32 = 0x2000;
        let flags = if device.is_some() { FIB_MATCH } else { 0 };
        self.way(to, flags, |message| {
            message.address(libc::RTA_SRC, from);
            if let Some(device) = device {
                message.attribute(libc::RTA_OIF, &device.to_ne_bytes());
            }
        })
    }

    fn way(
        &mut self,
        to: IpAddr,
        flags: u32,
        more: impl FnOnce(&mut Message<'_>),
    ) -> Result<Option<Way>> {
        let mut request = header::route(family(to), 0, 0);
        request[1] = if to.is_ipv6() { 128 } else { 32 };
        request[8..].copy_from_slice(&flags.to_ne_bytes());
        let answer = self.ask(libc::RTM_GETROUTE, &request, |message| {
            message.address(libc::RTA_DST, to);
            more(message);
        });
        let (bytes, what) = match answer {
            Ok(bytes) => (bytes, Error::Malformed("RTM_GETROUTE")),
            Err(error) if matches!(error.errno(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(answer) = message::answers(&bytes).next().flatten() else { return Err(what) };
        let device = answer.attribute(FIXED, libc::RTA_OIF).and_then(|v| message::word(v, 0));
        let source = answer.attribute(FIXED, libc::RTA_PREFSRC).and_then(read_address);
        Ok(device.map(|device| Way { device, source }))
    }

    /// The addresses of all devices that are up.
    pub fn addresses(&mut self) -> Result<Vec<LocalAddress>> {
        /// Length of `struct ifaddrmsg`.
        const FIXED: usize = 8;
        const UNUSABLE: u32 =
            libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED | libc::IFA_F_DEPRECATED;
        let mut up = Vec::new();
        self.dump(libc::RTM_GETLINK, &header::link(0, 0, 0), |answer| {
            let (index, flags) =
                (message::word(answer.payload(), 4), message::word(answer.payload(), 8));
            if flags.is_some_and(|flags| flags & libc::IFF_UP as u32 != 0) {
                up.extend(index);
            }
        })?;
        let mut found = Vec::new();
        self.dump(libc::RTM_GETADDR, &header::address(0, 0, 0, 0), |answer| {
            let payload = answer.payload();
            let Some(device) = message::word(payload, 4) else { return };
            let (Some(&short), Some(&scope)) = (payload.get(2), payload.get(3)) else { return };
            let long = answer.attribute(FIXED, libc::IFA_FLAGS).and_then(|v| message::word(v, 0));
            let flags = long.unwrap_or_else(|| short.into());
            // On a point-to-point link, IFA_ADDRESS is the remote address.
            let value = answer.attribute(FIXED, libc::IFA_LOCAL);
            let value = value.or_else(|| answer.attribute(FIXED, libc::IFA_ADDRESS));
            let Some(address) = value.and_then(read_address) else { return };
            if up.contains(&device) {
                found.push(LocalAddress {
                    address,
                    device,
                    is_global: scope < libc::RT_SCOPE_LINK,
                    is_usable: flags & UNUSABLE == 0,
                });
            }
        })?;
        Ok(found)
    }

    pub fn mtu(&mut self, index: u32) -> Result<u32> {
        let bytes = self.ask(libc::RTM_GETLINK, &header::link(index, 0, 0), |_| {})?;
        let answer = message::answers(&bytes).next().flatten();
        let mtu = answer.and_then(|answer| {
            let value = answer.attribute(header::LINK, libc::IFLA_MTU)?;
            message::word(value, 0)
        });
        mtu.ok_or(Error::Malformed("RTM_GETLINK"))
    }

    /// Sends a request; returns the bytes of the answer.
    fn ask(
        &mut self,
        kind: u16,
        fixed: &[u8],
        more: impl FnOnce(&mut Message<'_>),
    ) -> Result<Vec<u8>> {
        self.question(kind, fixed, 0, more)?;
        let mut buffer = vec![0; 16 * 1024];
        let length = self.receive(&mut buffer)?.len();
        buffer.truncate(length);
        let refusal = message::answers(&buffer).next().flatten().and_then(|a| a.error());
        match refusal {
            Some(errno) if errno != 0 => Err(refused(errno)),
            _ => Ok(buffer),
        }
    }

    /// Passes all objects of a kind to `each`.
    pub(super) fn dump(
        &mut self,
        kind: u16,
        fixed: &[u8],
        mut each: impl FnMut(&message::Answer<'_>),
    ) -> Result<()> {
        self.question(kind, fixed, libc::NLM_F_DUMP, |_| {})?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            for answer in message::answers(self.receive(&mut buffer)?) {
                let answer = answer.ok_or(Error::Malformed("a netlink dump"))?;
                match answer.error() {
                    Some(errno) if errno != 0 => return Err(refused(errno)),
                    _ if i32::from(answer.kind) == libc::NLMSG_DONE => return Ok(()),
                    _ => each(&answer),
                }
            }
        }
    }

    fn question(
        &mut self,
        kind: u16,
        fixed: &[u8],
        flags: i32,
        more: impl FnOnce(&mut Message<'_>),
    ) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        let mut request = Message::new(&mut bytes, kind, flags);
        request.push(fixed);
        more(&mut request);
        request.finish();
        message::address_request(&mut bytes, self.sequence, false);
        self.send(&bytes)
    }
}

fn version(ipv6: bool) -> u8 {
    (if ipv6 { libc::AF_INET6 } else { libc::AF_INET }) as u8
}

fn refused(errno: i32) -> Error {
    let cause = io::Error::from_raw_os_error(errno);
    Error::Netlink { request: "answer a question", cause }
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        16 => bytes.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    }
}
