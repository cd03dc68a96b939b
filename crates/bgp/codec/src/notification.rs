//! NOTIFICATION: the error or reason that ends a session (RFC 4271 §4.5; shutdown: RFC 9003).

use crate::cursor::Cursor;
use crate::message::{MAX, encode};
use crate::{MessageType, Result};

/// Common codes and subcodes.
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

/// Subcodes of `CEASE` that carry a shutdown communication (RFC 9003 §2).
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod cease {
    pub const ADMINISTRATIVE_SHUTDOWN: u8 = 2;
    pub const ADMINISTRATIVE_RESET: u8 = 4;
}

/// A NOTIFICATION message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// Error code, as in [`code`].
    pub code: u8,
    /// Subcode of the error.
    pub subcode: u8,
    /// Data of the error.
    pub data: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Parses the body of a message.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let code = cursor.u8("error code")?;
        let subcode = cursor.u8("error subcode")?;
        Ok(Self { code, subcode, data: cursor.rest() })
    }

    /// Shutdown communication of the operator (RFC 9003 §2), as UTF-8. `None` for other subcodes,
    /// or if the length field does not match the text.
    pub fn communication(&self) -> Option<&'a [u8]> {
        let has_text = matches!(
            (self.code, self.subcode),
            (code::CEASE, cease::ADMINISTRATIVE_SHUTDOWN | cease::ADMINISTRATIVE_RESET)
        );
        let (length, text) = self.data.split_first().filter(|_| has_text)?;
        (text.len() == usize::from(*length)).then_some(text)
    }

    /// Registry names of code and subcode.
    pub const fn names(&self) -> (Option<&'static str>, Option<&'static str>) {
        names(self.code, self.subcode)
    }

    /// Builds the whole message.
    pub fn build(&self) -> Result<Vec<u8>> {
        let mut body = vec![self.code, self.subcode];
        body.extend_from_slice(self.data);
        encode(MessageType::NOTIFICATION, &body, MAX)
    }
}

/// Registry names of a code and one of its subcodes.
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
    fn names_are_those_of_the_registry() {
        assert_eq!(names(3, 11), (Some("UPDATE message error"), Some("malformed AS_PATH")));
        assert_eq!(names(3, 7), (Some("UPDATE message error"), None));
        assert_eq!(names(4, 0), (Some("hold timer expired"), None));
        assert_eq!(names(99, 0), (None, None));
    }
}
