//! Any bytes as a capture file: reading ends, and chunks give the same frames as the whole file.

use collector::capture::{Reader, Step};

pub(crate) fn target(data: &[u8]) {
    let Some((piece, file)) = data.split_first() else { return };
    let (whole, pieces) = (read(file, file.len()), read(file, usize::from(*piece) + 1));
    if let (Some((frames, false)), Some((same, false))) = (whole, pieces) {
        assert_eq!(frames, same);
    }
}

/// Number of frames of a file, and whether it is damaged; `None` if it is not a capture.
fn read(file: &[u8], piece: usize) -> Option<(u64, bool)> {
    let mut reader = Reader::new();
    let (mut at, mut shown, mut idle, mut frames) = (0, piece.min(file.len()), 0, 0);
    loop {
        let before = at;
        match reader.next(&file[at..shown], shown == file.len()).ok()? {
            Step::Frame { frame, used } => {
                assert!(frame.data.len() < used && frame.data.len() <= frame.length as usize);
                assert!((frame.interface as usize) < reader.interfaces().len());
                frames += 1;
                at += used;
            }
            Step::Skip { used } | Step::Dropped { used, .. } | Step::Damaged { used, .. } => {
                at += used;
            }
            Step::Need { bytes } => {
                assert!(bytes > shown - at && shown < file.len());
                shown = (at + bytes).max(shown + piece).min(file.len());
            }
            Step::Torn { .. } | Step::End => return Some((frames, reader.damage().0 > 0)),
        }
        assert_eq!(reader.offset(), at as u64);
        idle = if at == before { idle + 1 } else { 0 };
        assert!(idle < 6, "no progress");
    }
}
