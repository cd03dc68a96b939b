//! Flow specifications (RFC 8955 for IPv4, RFC 8956 for IPv6, both with VPNs): which packets an
//! action is for.

use std::fmt;

use super::vpn::RouteDistinguisher;
use crate::cursor::Cursor;
use crate::fields::put_prefix;
use crate::{Afi, Error, Prefix, Result};

/// Lengths from here on take two octets (RFC 8955 §4.1).
const LONG: u8 = 0xf0;

/// A flow specification: components that must all match. They have been checked: iterating over
/// them meets no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flowspec<'a> {
    /// Which VPN it is of; only with SAFI 134.
    pub distinguisher: Option<RouteDistinguisher>,
    afi: Afi,
    components: &'a [u8],
}

/// One component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component<'a> {
    /// Types 1 (destination) and 2 (source): an address begins like this.
    Prefix {
        /// 1 or 2.
        kind: u8,
        /// The prefix; the bits before `offset` are 0.
        prefix: Prefix,
        /// First bit that is compared; 0 for IPv4.
        offset: u8,
    },
    /// The other types: a field has one of these values, or these bits.
    Field {
        /// 3 to 13.
        kind: u8,
        /// What it is compared with.
        tests: Tests<'a>,
    },
}

/// Comparisons of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tests<'a>(&'a [u8]);

/// One comparison (RFC 8955 §4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The operator as it was sent: end, and, length, and what depends on the type.
    pub operator: u8,
    /// The value or the bits.
    pub value: u64,
}

impl Test {
    const END: u8 = 0x80;
    const AND: u8 = 0x40;

    /// Whether it has to hold together with the one before it, rather than instead of it.
    pub const fn and(self) -> bool {
        self.operator & Self::AND != 0
    }

    fn octets(self) -> usize {
        1 << (self.operator >> 4 & 3)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let operator = cursor.u8("operator of a flow specification")?;
        let test = Self { operator, value: 0 };
        let octets = cursor.take(test.octets(), "value of a flow specification")?;
        let value = octets.iter().fold(0, |value, octet| value << 8 | u64::from(*octet));
        Ok(Self { operator, value })
    }
}

impl<'a> Tests<'a> {
    /// The comparisons, in order.
    pub fn iter(self) -> impl Iterator<Item = Test> + 'a {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || Test::read(&mut cursor).ok())
    }

    /// Appends comparisons as they are sent: the lengths and the end bit are set here, as short
    /// as each value allows.
    pub fn encode(tests: &[Test], out: &mut Vec<u8>) {
        for (at, test) in tests.iter().enumerate() {
            let needed = 8 - test.value.leading_zeros() as usize / 8;
            let power = needed.max(1).next_power_of_two().trailing_zeros();
            let end = if at + 1 == tests.len() { Test::END } else { 0 };
            out.push(test.operator & 0x4f | (power as u8) << 4 | end);
            out.extend(&test.value.to_be_bytes()[8 - (1 << power)..]);
        }
    }
}

impl<'a> Component<'a> {
    /// The number of its type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Prefix { kind, .. } | Self::Field { kind, .. } => *kind,
        }
    }

    /// What routers call the field; `None` for types that nobody defined.
    pub fn name(&self) -> Option<&'static str> {
        const NAMES: [&str; 13] = [
            "dst",
            "src",
            "proto",
            "port",
            "dport",
            "sport",
            "icmp type",
            "icmp code",
            "tcp flags",
            "length",
            "dscp",
            "fragment",
            "label",
        ];
        NAMES.get(usize::from(self.kind()).checked_sub(1)?).copied()
    }

    fn read(cursor: &mut Cursor<'a>, afi: Afi) -> Result<Self> {
        let kind = cursor.u8("type of a flow component")?;
        match kind {
            1 | 2 if afi == Afi::IPV6 => read_prefix6(cursor, kind),
            1 | 2 => {
                let bits = cursor.u8("length of a flow prefix")?;
                let prefix = cursor.prefix(Afi::IPV4, bits, "flow prefix")?;
                Ok(Self::Prefix { kind, prefix, offset: 0 })
            }
            3..=12 => Self::read_tests(cursor, kind),
            13 if afi == Afi::IPV6 => Self::read_tests(cursor, kind),
            _ => Err(cursor.wrong("type of a flow component", kind.into(), "not defined")),
        }
    }

    fn read_tests(cursor: &mut Cursor<'a>, kind: u8) -> Result<Self> {
        let all = cursor.rest();
        let before = cursor.left();
        while Test::read(cursor)?.operator & Test::END == 0 {}
        Ok(Self::Field { kind, tests: Tests(&all[..before - cursor.left()]) })
    }

    /// Appends type and value.
    pub fn encode(&self, afi: Afi, out: &mut Vec<u8>) {
        match *self {
            Self::Prefix { kind, prefix: Prefix::V6(address, length), offset }
                if afi == Afi::IPV6 =>
            {
                out.extend([kind, length, offset]);
                let bits = length.saturating_sub(offset);
                let pattern = address.checked_shl(offset.into()).unwrap_or(0);
                put_prefix(out, Prefix::V6(pattern, bits));
            }
            Self::Prefix { kind, prefix, .. } => {
                out.extend([kind, prefix.length()]);
                put_prefix(out, prefix);
            }
            Self::Field { kind, tests } => {
                out.push(kind);
                out.extend(tests.0);
            }
        }
    }
}

/// Length, offset, and the bits between them (RFC 8956 §3.1).
fn read_prefix6<'a>(cursor: &mut Cursor<'a>, kind: u8) -> Result<Component<'a>> {
    let field = "offset of a flow prefix";
    let length = cursor.u8("length of a flow prefix")?;
    let offset = cursor.u8(field)?;
    if length > 128 || offset > length || (offset == length && length != 0) {
        return Err(cursor.wrong(field, offset.into(), "not within the prefix"));
    }
    let pattern = match cursor.prefix(Afi::IPV6, length - offset, "flow prefix")?.masked() {
        Prefix::V6(pattern, _) => pattern >> u32::from(offset),
        Prefix::V4(..) => 0,
    };
    Ok(Component::Prefix { kind, prefix: Prefix::V6(pattern, length), offset })
}

impl<'a> Flowspec<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, afi: Afi, vpn: bool) -> Result<Self> {
        let first = cursor.u8("length of a flow specification")?;
        let length = if first < LONG {
            usize::from(first)
        } else {
            let second = cursor.u8("length of a flow specification")?;
            usize::from(first & 0xf) << 8 | usize::from(second)
        };
        let mut body = cursor.part(length, "flow specification")?;
        let distinguisher = if vpn { Some(RouteDistinguisher::read(&mut body)?) } else { None };
        let components = body.rest();
        let mut last = 0;
        while !body.is_empty() {
            let kind = Component::read(&mut body, afi)?.kind();
            if kind <= last {
                let wrong = "not above the type before it";
                return Err(body.wrong("type of a flow component", kind.into(), wrong));
            }
            last = kind;
        }
        Ok(Self { distinguisher, afi, components })
    }

    /// A specification of components that are encoded already.
    pub fn parse(
        afi: Afi,
        distinguisher: Option<RouteDistinguisher>,
        components: &'a [u8],
    ) -> Result<Self> {
        let mut whole = Vec::with_capacity(components.len() + 10);
        let flow = Self { distinguisher, afi, components };
        flow.encode(&mut whole)?;
        Flowspec::read(&mut Cursor::new(&whole, 0), afi, distinguisher.is_some())?;
        Ok(flow)
    }

    /// The components, by rising type.
    pub fn components(&self) -> impl Iterator<Item = Component<'a>> {
        let mut cursor = Cursor::new(self.components, 0);
        let afi = self.afi;
        std::iter::from_fn(move || Component::read(&mut cursor, afi).ok())
    }

    /// Appends length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let size = self.components.len() + if self.distinguisher.is_some() { 8 } else { 0 };
        match size {
            0..240 => out.push(size as u8),
            240..4096 => out.extend(((size as u16) | 0xf000).to_be_bytes()),
            _ => return Err(Error::Long { field: "flow specification", size, limit: 4095 }),
        }
        if let Some(distinguisher) = self.distinguisher {
            out.extend(distinguisher.0);
        }
        out.extend(self.components);
        Ok(())
    }
}

/// Names of the bits of a fragment component (RFC 8955 §4.2.2.12), lowest first.
const FRAGMENT: [&str; 4] = ["dont_fragment", "is_fragment", "first_fragment", "last_fragment"];

impl Component<'_> {
    fn write_test(&self, f: &mut fmt::Formatter<'_>, test: Test) -> fmt::Result {
        let negated = if test.operator & 2 != 0 { "!" } else { "" };
        match self.kind() {
            9 => {
                let relation = if test.operator & 1 != 0 { "=" } else { "&" };
                write!(f, "{negated}{relation} {:#x}", test.value)
            }
            12 => {
                f.write_str(negated)?;
                let known = FRAGMENT.iter().enumerate();
                let set: Vec<_> = known.filter(|(bit, _)| test.value >> bit & 1 != 0).collect();
                for (at, (_, name)) in set.iter().enumerate() {
                    f.write_str(if at > 0 { "," } else { "" })?;
                    f.write_str(name)?;
                }
                if set.is_empty() { write!(f, "{:#x}", test.value) } else { Ok(()) }
            }
            _ => {
                let relation = ["false", "=", ">", ">=", "<", "<=", "!=", "true"];
                write!(f, "{} {}", relation[usize::from(test.operator & 7)], test.value)
            }
        }
    }
}

/// `dport >= 80 && <= 90 || = 443`.
impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "type {}", self.kind())?,
        }
        match self {
            Self::Prefix { prefix, offset: 0, .. } => write!(f, " {prefix}"),
            Self::Prefix { prefix, offset, .. } => write!(f, " {prefix} offset {offset}"),
            Self::Field { tests, .. } => {
                for (at, test) in tests.iter().enumerate() {
                    let joined = if test.and() { " &&" } else { " ||" };
                    f.write_str(if at > 0 { joined } else { "" })?;
                    f.write_str(" ")?;
                    self.write_test(f, test)?;
                }
                Ok(())
            }
        }
    }
}

/// `flow4 { dst 10.0.0.0/8; proto = 6; dport = 80; }`, the distinguisher before it.
impl fmt::Display for Flowspec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(distinguisher) = self.distinguisher {
            write!(f, "{distinguisher} ")?;
        }
        f.write_str(if self.afi == Afi::IPV4 { "flow4 { " } else { "flow6 { " })?;
        for component in self.components() {
            write!(f, "{component}; ")?;
        }
        f.write_str("}")
    }
}
