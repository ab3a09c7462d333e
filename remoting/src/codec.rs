//! The codec seam: frames of `protocol` as a tokio-util decoder and encoder.

use std::io;

use bytes::BytesMut;
use protocol::Command;
use protocol::frame::{self, FrameError};
use tokio_util::codec::{Decoder, Encoder};

/// Frames to commands and back.
#[derive(Debug, Clone, Copy)]
pub struct FrameCodec {
    max_frame_bytes: usize,
}

impl FrameCodec {
    /// A codec that refuses frames above `max_frame_bytes`, length field included.
    pub fn new(max_frame_bytes: usize) -> Self {
        Self { max_frame_bytes }
    }
}

/// What ends a stream of frames.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Decoder for FrameCodec {
    type Item = Command;
    type Error = CodecError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Command>, CodecError> {
        Ok(frame::decode(source, self.max_frame_bytes)?)
    }
}

impl Encoder<&Command> for FrameCodec {
    type Error = CodecError;

    fn encode(&mut self, command: &Command, target: &mut BytesMut) -> Result<(), CodecError> {
        frame::encode_head(command, target);
        target.extend_from_slice(&command.body);
        Ok(())
    }
}
