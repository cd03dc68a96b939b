//! Any bytes as a connection of MCTCP: no panic, the result does not depend on the read sizes, and
//! frames survive encoding and decoding.

use std::io::Read as _;

use mctcp::frame::{HEADER, PREAMBLE};
use mctcp::{Decoder, Error, Frame};

const MAX_FRAME: u16 = 2048;

type Frames = Vec<(u32, Frame<bytes::Bytes>)>;

/// Reads at most `most` bytes at once.
fn decoded(mut input: &[u8], most: usize, vectored: bool) -> (Frames, Result<bool, Error>) {
    let (mut decoder, mut frames) = (Decoder::new(MAX_FRAME), Frames::new());
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) if input.is_empty() => return (frames, Ok(decoder.in_frame())),
            Ok(None) => {
                let mut now = &input[..most.min(input.len())];
                let read = if vectored {
                    now.read_vectored(&mut decoder.spaces())
                } else {
                    now.read(decoder.space())
                };
                let count = read.expect("a slice can be read");
                assert!(count > 0, "the buffer has no room");
                decoder.advance(count);
                input = &input[count..];
            }
            Err(error) => {
                assert_eq!(decoder.next_frame(), Err(error));
                return (frames, Err(error));
            }
        }
    }
}

pub(crate) fn target(data: &[u8]) {
    let Some((&most, bytes)) = data.split_first() else { return };
    let mut input = PREAMBLE.to_vec();
    input.extend(bytes);
    for input in [&input[..], bytes] {
        let whole = decoded(input, usize::MAX, true);
        assert_eq!(decoded(input, usize::from(most) + 1, true), whole);
        assert_eq!(decoded(input, usize::from(most) + 1, false), whole);

        let mut encoded = PREAMBLE.to_vec();
        for (path_seq, frame) in &whole.0 {
            let begin = encoded.len();
            frame.encode_header(*path_seq, &mut encoded);
            if let Frame::Data { payload, .. } = frame {
                encoded.extend_from_slice(payload);
            }
            assert_eq!(encoded.len() - begin, frame.wire_length());
            assert!(encoded.len() - begin >= HEADER);
        }
        assert_eq!(decoded(&encoded, usize::MAX, true), (whole.0, Ok(false)));
    }
}
