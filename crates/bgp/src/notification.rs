//! NOTIFICATION: why a session ends (RFC 4271 §4.5; shutdown: RFC 9003; hard reset: RFC 8538).

use crate::cursor::Cursor;
use crate::message::{MAX, encode};
use crate::{MessageType, Result};

/// Codes and subcodes of what is told most.
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod code {
    pub const MESSAGE_HEADER: u8 = 1;
    pub const OPEN: u8 = 2;
    pub const UPDATE: u8 = 3;
    pub const HOLD_TIMER: u8 = 4;
    pub const FINITE_STATE_MACHINE: u8 = 5;
    pub const CEASE: u8 = 6;
    pub const ROUTE_REFRESH: u8 = 7;
    pub const SEND_HOLD_TIMER: u8 = 8;
}

/// Subcodes of `CEASE` (RFC 4486, 8538, 9384).
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod cease {
    pub const MAXIMUM_PREFIXES: u8 = 1;
    pub const ADMINISTRATIVE_SHUTDOWN: u8 = 2;
    pub const PEER_DECONFIGURED: u8 = 3;
    pub const ADMINISTRATIVE_RESET: u8 = 4;
    pub const CONNECTION_REJECTED: u8 = 5;
    pub const OTHER_CONFIGURATION_CHANGE: u8 = 6;
    pub const COLLISION: u8 = 7;
    pub const OUT_OF_RESOURCES: u8 = 8;
    pub const HARD_RESET: u8 = 9;
    pub const BFD_DOWN: u8 = 10;
}

/// A NOTIFICATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// What is wrong, as in [`code`].
    pub code: u8,
    /// What exactly.
    pub subcode: u8,
    /// More about it.
    pub data: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Of the body of a message.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let code = cursor.u8("error code")?;
        let subcode = cursor.u8("error subcode")?;
        Ok(Self { code, subcode, data: cursor.rest() })
    }

    /// What the operator says about a shutdown or reset (RFC 9003 §2): UTF-8 as it was sent. `None`
    /// if this is neither, or the length is not that of the text.
    pub fn communication(&self) -> Option<&'a [u8]> {
        let told = matches!(
            (self.code, self.subcode),
            (code::CEASE, cease::ADMINISTRATIVE_SHUTDOWN | cease::ADMINISTRATIVE_RESET)
        );
        let (length, text) = self.data.split_first().filter(|_| told)?;
        (text.len() == usize::from(*length)).then_some(text)
    }

    /// What a hard reset is for (RFC 8538 §3.1).
    pub fn hard_reset(&self) -> Option<Self> {
        let hard = (self.code, self.subcode) == (code::CEASE, cease::HARD_RESET);
        Self::parse(self.data).ok().filter(|_| hard)
    }

    /// The registry's names of code and subcode.
    pub const fn names(&self) -> (Option<&'static str>, Option<&'static str>) {
        names(self.code, self.subcode)
    }

    /// The whole message.
    pub fn build(&self) -> Result<Vec<u8>> {
        let mut body = vec![self.code, self.subcode];
        body.extend_from_slice(self.data);
        encode(MessageType::NOTIFICATION, &body, MAX)
    }
}

/// The registry's names of a code and one of its subcodes.
pub const fn names(code: u8, subcode: u8) -> (Option<&'static str>, Option<&'static str>) {
    let (name, list): (_, &[&str]) = match code {
        code::MESSAGE_HEADER => ("message header error", HEADER),
        code::OPEN => ("OPEN message error", OPEN),
        code::UPDATE => ("UPDATE message error", UPDATE),
        code::HOLD_TIMER => ("hold timer expired", &[]),
        code::FINITE_STATE_MACHINE => ("finite state machine error", FINITE_STATE_MACHINE),
        code::CEASE => ("cease", CEASE),
        code::ROUTE_REFRESH => ("ROUTE-REFRESH message error", &["invalid message length"]),
        code::SEND_HOLD_TIMER => ("send hold timer expired", &[]),
        _ => return (None, None),
    };
    let at = subcode as usize;
    let known = at > 0 && at <= list.len() && !list[at - 1].is_empty();
    (Some(name), if known { Some(list[at - 1]) } else { None })
}

const HEADER: &[&str] = &["connection not synchronized", "bad message length", "bad message type"];
const OPEN: &[&str] = &[
    "unsupported version number",
    "bad peer AS",
    "bad BGP identifier",
    "unsupported optional parameter",
    "",
    "unacceptable hold time",
    "unsupported capability",
    "",
    "",
    "",
    "role mismatch",
];
const UPDATE: &[&str] = &[
    "malformed attribute list",
    "unrecognized well-known attribute",
    "missing well-known attribute",
    "attribute flags error",
    "attribute length error",
    "invalid ORIGIN attribute",
    "",
    "invalid NEXT_HOP attribute",
    "optional attribute error",
    "invalid network field",
    "malformed AS_PATH",
];
const FINITE_STATE_MACHINE: &[&str] = &[
    "unexpected message in OpenSent",
    "unexpected message in OpenConfirm",
    "unexpected message in Established",
];
const CEASE: &[&str] = &[
    "maximum number of prefixes reached",
    "administrative shutdown",
    "peer deconfigured",
    "administrative reset",
    "connection rejected",
    "other configuration change",
    "connection collision resolution",
    "out of resources",
    "hard reset",
    "BFD down",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    #[test]
    fn a_shutdown_tells_why() {
        let sent = Notification { code: 6, subcode: 2, data: b"\x05moved" };
        let bytes = sent.build().unwrap();
        let read = Notification::parse(Message::split(&bytes).unwrap().body()).unwrap();
        assert_eq!(read, sent);
        assert_eq!(read.communication(), Some(&b"moved"[..]));
        assert_eq!(read.names(), (Some("cease"), Some("administrative shutdown")));
        let cut = Notification { data: b"\x06moved", ..sent };
        assert_eq!(cut.communication(), None);
        assert_eq!(Notification { subcode: 3, ..sent }.communication(), None);
        assert!(Notification::parse(&[6]).is_err());
    }

    #[test]
    fn a_hard_reset_holds_another() {
        let hard = Notification { code: 6, subcode: 9, data: &[6, 4, 2, b'h', b'i'] };
        let inner = hard.hard_reset().unwrap();
        assert_eq!((inner.code, inner.subcode), (6, 4));
        assert_eq!(inner.communication(), Some(&b"hi"[..]));
        assert_eq!(inner.hard_reset(), None);
    }

    #[test]
    fn names_are_those_of_the_registry() {
        assert_eq!(names(3, 11), (Some("UPDATE message error"), Some("malformed AS_PATH")));
        assert_eq!(names(3, 7), (Some("UPDATE message error"), None));
        assert_eq!(names(4, 0), (Some("hold timer expired"), None));
        assert_eq!(names(99, 0), (None, None));
    }
}
