//! Decodes bytes to frames.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, Bytes};

use super::{
    Challenge, Copy, Dack, Frame, HEADER, Hello, HelloAck, Join, Limits, MAX_RANGES,
    MAX_TARGET_BYTES, MAX_TEXT_BYTES, MIN_FRAME_LIMIT, PREAMBLE, Priority, kind,
};
use crate::pool::{Buffer, Pool};
use crate::{Error, Reason, Result, SubflowId};

/// Size of the buffer for headers and small frames. A larger one saves reads of small frames, and
/// copies more bytes of large ones.
const READ_BUFFER_BYTES: usize = 2048;

/// Decodes the frames of one connection.
///
/// A driver reads into [`spaces`](Self::spaces), reports the number of bytes with
/// [`advance`](Self::advance), and calls [`next_frame`](Self::next_frame) until it returns `None`.
/// The payload of DATA is read directly into memory of exactly its length, which the frame then
/// owns. At most one payload and 2 KiB are buffered; a length is checked before memory is
/// allocated for it.
pub struct Decoder {
    buffer: Box<[u8]>,
    /// The unprocessed part of `buffer`.
    start: usize,
    end: usize,
    /// Bytes of the connection before `buffer[start]`.
    at: u64,
    preamble: bool,
    max_frame: u16,
    pool: Pool,
    data: Option<Data>,
    /// Remaining bytes of an ignored frame, and its number.
    skip: Option<(usize, u32)>,
    failed: Option<Error>,
}

/// A DATA frame with an incomplete payload.
struct Data {
    path_seq: u32,
    dsn: u64,
    copy: Copy,
    payload: Buffer,
    filled: usize,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    kind: u8,
    flags: u8,
    length: usize,
    path_seq: u32,
    number: u64,
    at: u64,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder for a new connection, which starts with the preamble. `max_frame` is the maximum
    /// payload of a DATA frame in bytes.
    pub fn new(max_frame: u16) -> Self {
        Self {
            buffer: vec![0; READ_BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            at: 0,
            preamble: true,
            max_frame,
            pool: Pool::new(0, 0),
            data: None,
            skip: None,
            failed: None,
        }
    }

    /// Sets the maximum payload of DATA frames in bytes, from the next frame on.
    pub fn set_max_frame(&mut self, max_frame: u16) {
        self.max_frame = max_frame;
    }

    /// Allocates payloads from `pool` from the next frame on.
    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// Buffers for the next bytes: the rest of a payload, which may be empty, and the bytes after
    /// it. Not both are empty once [`next_frame`](Self::next_frame) has returned `None`.
    pub fn spaces(&mut self) -> [IoSliceMut<'_>; 2] {
        self.compact();
        let rest = self
            .data
            .as_mut()
            .map_or(&mut [][..], |data| &mut data.payload.bytes_mut()[data.filled..]);
        [IoSliceMut::new(rest), IoSliceMut::new(&mut self.buffer[self.end..])]
    }

    /// The first of [`spaces`](Self::spaces) that is not empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.compact();
        match &mut self.data {
            Some(data) if data.filled < data.payload.length() => {
                &mut data.payload.bytes_mut()[data.filled..]
            }
            _ => &mut self.buffer[self.end..],
        }
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Reports that the next `count` bytes are in [`spaces`](Self::spaces).
    ///
    /// # Panics
    /// If `count` exceeds the space.
    pub fn advance(&mut self, mut count: usize) {
        if let Some(data) = &mut self.data {
            let taken = count.min(data.payload.length() - data.filled);
            data.filled += taken;
            self.at += taken as u64;
            count -= taken;
        }
        self.end += count;
        assert!(self.end <= self.buffer.len(), "advanced beyond the space");
    }

    /// Bytes that belong to no frame yet. After [`Error::Preamble`] and [`Error::Version`] these
    /// are all received bytes, for a service of another protocol.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether the connection would be truncated if it ended taken.
    pub fn in_frame(&self) -> bool {
        self.data.is_some() || self.skip.is_some() || self.start < self.end
    }

    /// The next frame and its `path_seq`; `None` if more bytes are required.
    ///
    /// # Errors
    /// A protocol violation of the peer; every further call returns it again.
    pub fn next_frame(&mut self) -> Result<Option<(u32, Frame<Bytes>)>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.take_frame().inspect_err(|&error| self.failed = Some(error))
    }

    fn take_frame(&mut self) -> Result<Option<(u32, Frame<Bytes>)>> {
        if self.preamble && !self.take_preamble()? {
            return Ok(None);
        }
        if let Some(data) = self.data.take() {
            return Ok(self.take_data(data));
        }
        if let Some(skip) = self.skip.take() {
            return Ok(self.take_ignored(skip));
        }
        let Some(bytes) = self.unread().first_chunk() else { return Ok(None) };
        let header = Header::new(bytes, self.at);
        header.check_length(self.max_frame)?;
        if header.kind == kind::DATA {
            return self.begin_data(header);
        }
        if header.is_ignored() {
            self.consume(HEADER);
            return Ok(self.take_ignored((header.length, header.path_seq)));
        }
        let Some(body) = self.unread().get(HEADER..HEADER + header.length) else {
            return Ok(None);
        };
        let frame = header.decode(body)?;
        self.consume(HEADER + header.length);
        Ok(Some((header.path_seq, frame)))
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.at += count as u64;
    }

    fn take_preamble(&mut self) -> Result<bool> {
        let Some(&found) = self.unread().first_chunk::<4>() else { return Ok(false) };
        if found[..3] != PREAMBLE[..3] {
            return Err(Error::Preamble { found });
        }
        if found[3] != PREAMBLE[3] {
            return Err(Error::Version { version: found[3] });
        }
        self.consume(found.len());
        self.preamble = false;
        Ok(true)
    }

    fn begin_data(&mut self, header: Header) -> Result<Option<(u32, Frame<Bytes>)>> {
        let copy = match header.flags & (kind::REINJECTED | kind::REDUNDANT) {
            0 => Copy::First,
            kind::REINJECTED => Copy::Reinjected,
            kind::REDUNDANT => Copy::Redundant,
            _ => return Err(header.field("flags")),
        };
        let (dsn, length) = (header.number, header.length);
        // FIN takes one number after the last byte.
        dsn.checked_add(length as u64 + 1).ok_or_else(|| header.field("dsn"))?;
        self.consume(HEADER);
        let filled = self.unread().len().min(length);
        let mut payload = self.pool.take(length);
        payload.bytes_mut()[..filled].copy_from_slice(&self.unread()[..filled]);
        self.consume(filled);
        let path_seq = header.path_seq;
        Ok(self.take_data(Data { path_seq, dsn, copy, payload, filled }))
    }

    fn take_data(&mut self, data: Data) -> Option<(u32, Frame<Bytes>)> {
        if data.filled < data.payload.length() {
            self.data = Some(data);
            return None;
        }
        let Data { path_seq, dsn, copy, payload, .. } = data;
        Some((path_seq, Frame::Data { dsn, payload: payload.freeze(), copy }))
    }

    fn take_ignored(&mut self, (left, path_seq): (usize, u32)) -> Option<(u32, Frame<Bytes>)> {
        let taken = left.min(self.unread().len());
        self.consume(taken);
        if taken < left {
            self.skip = Some((left - taken, path_seq));
            return None;
        }
        Some((path_seq, Frame::Ignored))
    }
}

/// Bytes of a HELLO without its target and token.
const HELLO_FIXED_BYTES: usize = 45;
const HELLO_TOKEN_BYTES: usize = 16;

impl Header {
    fn new(bytes: &[u8; HEADER], at: u64) -> Self {
        let mut bytes = &bytes[..];
        Self {
            kind: bytes.get_u8(),
            flags: bytes.get_u8(),
            length: bytes.get_u16().into(),
            path_seq: bytes.get_u32(),
            number: bytes.get_u64(),
            at,
        }
    }

    fn is_ignored(&self) -> bool {
        self.kind & kind::MAY_BE_IGNORED != 0
    }

    fn field(&self, field: &'static str) -> Error {
        Error::Field { kind: self.kind, field, at: self.at }
    }

    fn length_error(&self) -> Error {
        Error::Length { kind: self.kind, length: self.length, at: self.at }
    }

    fn check_length(&self, max_frame: u16) -> Result<()> {
        let length = self.length;
        let fits = match self.kind {
            kind::HELLO => (HELLO_FIXED_BYTES
                ..=HELLO_FIXED_BYTES + MAX_TARGET_BYTES + HELLO_TOKEN_BYTES)
                .contains(&length),
            kind::HELLO_ACK => length == 64,
            kind::JOIN => length == 42,
            kind::CHALLENGE | kind::PROOF => length == 32,
            kind::DATA => (1..=usize::from(max_frame)).contains(&length),
            kind::DACK => {
                length.is_multiple_of(16) && (16..=16 + 16 * MAX_RANGES).contains(&length)
            }
            kind::ADD_ADDR => length == 8 || length == 20,
            kind::PRIO => length == 2,
            kind::RESET => length <= MAX_TEXT_BYTES,
            kind::REFUSE
            | kind::PING
            | kind::PONG
            | kind::REMOVE_ADDR
            | kind::SF_CLOSE
            | kind::WISH
            | kind::FIN => length == 0,
            _ if self.is_ignored() => true,
            kind => return Err(Error::UnknownFrame { kind, at: self.at }),
        };
        if fits { Ok(()) } else { Err(self.length_error()) }
    }

    /// Decodes a frame from its whole body, whose length matches its type.
    fn decode(&self, mut body: &[u8]) -> Result<Frame<Bytes>> {
        Ok(match self.kind {
            kind::HELLO => Frame::Hello(self.hello(body)?),
            kind::HELLO_ACK => Frame::HelloAck(HelloAck {
                nonce: take(&mut body),
                limits: self.limits(&mut body)?,
                session: body.get_u64(),
                proof: take(&mut body),
                credit: self.number,
            }),
            kind::JOIN => Frame::Join(Join {
                session: self.number,
                index: body.get_u32(),
                subflow: SubflowId(body.get_u32()),
                priority: self.priority(&mut body)?,
                nonce: take(&mut body),
                token: take(&mut body),
            }),
            kind::CHALLENGE => {
                Frame::Challenge(Challenge { nonce: take(&mut body), proof: take(&mut body) })
            }
            kind::PROOF => Frame::Proof(take(&mut body)),
            kind::REFUSE => Frame::Refuse(self.reason()),
            kind::DACK => Frame::Dack(self.dack(body)?),
            kind::PING => Frame::Ping(self.number),
            kind::PONG => Frame::Pong(self.number),
            kind::ADD_ADDR => self.address(body)?,
            kind::REMOVE_ADDR => {
                Frame::RemoveAddress(u8::try_from(self.number).map_err(|_| self.field("id"))?)
            }
            kind::PRIO => Frame::Priority(self.priority(&mut body)?),
            kind::SF_CLOSE => Frame::Close,
            kind::WISH => Frame::Wish(self.number),
            kind::FIN if self.number == u64::MAX => return Err(self.field("length")),
            kind::FIN => Frame::Fin { length: self.number },
            kind::RESET => Frame::Reset { reason: self.reason(), text: self.text(body, "text")? },
            kind => return Err(Error::UnknownFrame { kind, at: self.at }),
        })
    }

    fn hello(&self, mut body: &[u8]) -> Result<Hello> {
        let nonce = take(&mut body);
        let limits = self.limits(&mut body)?;
        let subflow = SubflowId(body.get_u32());
        let target = usize::from(body.get_u8());
        let (target, mut rest) = body.split_at_checked(target).ok_or(self.length_error())?;
        if rest.len() != if limits.proof { HELLO_TOKEN_BYTES } else { 0 } {
            return Err(self.length_error());
        }
        let target = self.text(target, "target")?;
        let token = if limits.proof { take(&mut rest) } else { [0; HELLO_TOKEN_BYTES] };
        Ok(Hello { nonce, subflow, credit: self.number, limits, target, token })
    }

    fn limits(&self, body: &mut &[u8]) -> Result<Limits> {
        let limits = Limits {
            subflows: body.get_u8(),
            frame: body.get_u16(),
            idle: body.get_u16(),
            resume: body.get_u16(),
            proof: body.get_u8() & kind::PROOF_FOLLOWS != 0,
        };
        if limits.subflows == 0 {
            return Err(self.field("max subflows"));
        }
        if limits.frame < MIN_FRAME_LIMIT {
            return Err(self.field("max payload"));
        }
        Ok(limits)
    }

    fn priority(&self, body: &mut &[u8]) -> Result<Priority> {
        let priority =
            Priority { backup: body.get_u8() & kind::BACKUP != 0, weight: body.get_u8() };
        if priority.weight == 0 { Err(self.field("weight")) } else { Ok(priority) }
    }

    fn dack(&self, mut body: &[u8]) -> Result<Dack> {
        let mut dack = Dack {
            next: self.number,
            credit: body.get_u64(),
            path_seq: body.get_u32(),
            delay_us: body.get_u32(),
            ranges: Vec::with_capacity(body.len() / 16),
        };
        // The byte at `next` is missing, so no range starts there.
        let mut min_start = dack.next.saturating_add(1);
        while !body.is_empty() {
            let range = body.get_u64()..body.get_u64();
            if range.start < min_start || range.end <= range.start {
                return Err(self.field("ranges"));
            }
            min_start = range.end;
            dack.ranges.push(range);
        }
        Ok(dack)
    }

    fn address(&self, mut body: &[u8]) -> Result<Frame<Bytes>> {
        let (id, family, port) = (body.get_u8(), body.get_u8(), body.get_u16());
        let ip: IpAddr = match (family, body.len()) {
            (kind::IPV4, 4) => take::<4>(&mut body).into(),
            (kind::IPV6, 16) => take::<16>(&mut body).into(),
            _ => return Err(self.field("family")),
        };
        if port == 0 {
            return Err(self.field("port"));
        }
        Ok(Frame::AddAddress { id, address: SocketAddr::new(ip, port) })
    }

    fn reason(&self) -> Reason {
        u32::try_from(self.number).map_or(Reason::Protocol, Reason::from_number)
    }

    fn text(&self, body: &[u8], field: &'static str) -> Result<String> {
        std::str::from_utf8(body).map(str::to_owned).map_err(|_| self.field(field))
    }
}

/// The next `N` bytes, which are present because the frame's length was checked.
fn take<const N: usize>(body: &mut &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    body.copy_to_slice(&mut bytes);
    bytes
}
