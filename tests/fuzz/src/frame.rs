//! F1: a stream of frames gives the same commands however it is cut into reads, and a declared
//! length takes no memory.

use bytes::BytesMut;
use protocol::{
    Command,
    frame::{self, FrameError},
};

use crate::input::Input;

/// Small, so that an input can go beyond it.
const LIMIT: usize = 8_192;
/// What a buffer may hold beyond the bytes that came.
const SLACK: usize = 65_536;

/// The first byte seeds the cuts; the others are the stream.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut seed = u32::from(input.byte()) + 1;
    let stream = input.0;
    let (whole, whole_end) = decode(&mut BytesMut::from(stream));
    let mut buffer = BytesMut::new();
    let (mut parts, mut parts_end) = (Vec::new(), None);
    let mut rest = stream;
    while parts_end.is_none() && !rest.is_empty() {
        // A linear congruence (Numerical Recipes) gives lengths from 1 to 64.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (seed >> 26) as usize + 1;
        let (piece, tail) = rest.split_at(length.min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = tail;
        let (more, end) = decode(&mut buffer);
        parts.extend(more);
        parts_end = end;
        assert!(
            buffer.capacity() <= stream.len() + SLACK,
            "a buffer of {} for {} bytes",
            buffer.capacity(),
            stream.len()
        );
    }
    assert_eq!(whole, parts, "cut into reads, other commands come out");
    assert_eq!(whole_end, parts_end, "cut into reads, it ends otherwise");
}

fn decode(buffer: &mut BytesMut) -> (Vec<Command>, Option<FrameError>) {
    let mut commands = Vec::new();
    loop {
        match frame::decode(buffer, LIMIT) {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => return (commands, None),
            Err(error) => return (commands, Some(error)),
        }
    }
}
