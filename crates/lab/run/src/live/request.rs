//! Requests of watchers.

use std::num::NonZeroU16;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum length of a request.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Request {
    /// Changes links, stops and starts programs, as `netarium set`.
    Set { id: u64, fields: Vec<(String, String)> },
    /// Adds a text to the events, as `netarium mark`.
    Mark { id: u64, text: String },
    /// Controls the clock of a run on the virtual clock.
    Clock {
        id: u64,
        #[serde(flatten)]
        change: ClockChange,
    },
    /// A request of another version; it is ignored.
    #[serde(other)]
    Unknown,
}

/// A change of the pace of a run on the virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum ClockChange {
    Pause,
    Resume,
    /// Runs for a virtual time, as fast as possible, then pauses.
    Step {
        ns: u64,
    },
    Speed {
        permille: Option<u32>,
    },
}

impl Request {
    /// The number of the request, which the answer repeats.
    pub const fn id(&self) -> Option<u64> {
        match self {
            Self::Set { id, .. } | Self::Mark { id, .. } | Self::Clock { id, .. } => Some(*id),
            Self::Unknown => None,
        }
    }
}

/// Messages of a page on the connection of a terminal, whose input and output are binary messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TerminalRequest {
    /// Starts a shell on a host; the first message.
    Open { host: String, columns: NonZeroU16, rows: NonZeroU16 },
    /// The terminal has a new size.
    Resize { columns: NonZeroU16, rows: NonZeroU16 },
    /// The page has processed this much output.
    Ack { bytes: u32 },
    /// A request of another version; it is ignored.
    #[serde(other)]
    Unknown,
}

/// Parses a request.
///
/// # Errors
/// A description of the error, which is sent as the reason for closing the connection.
pub fn parse_request(text: &str) -> Result<Request, String> {
    parse(text)
}

/// Parses a message of a terminal.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_terminal_request(text: &str) -> Result<TerminalRequest, String> {
    parse(text)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.len() > MAX_REQUEST_BYTES {
        return Err(format!("the message has {} B; the limit is {MAX_REQUEST_BYTES}", text.len()));
    }
    serde_json::from_str(text)
        .map_err(|error| format!("not a message of {}: {error}", super::SCHEMA))
}
