//! The reading half of a driver: bytes to commands.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use protocol::Command;
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::codec::Decoder;
use tokio_util::io::poll_read_buf;

use crate::codec::{CodecError, FrameCodec};
use crate::error::CloseReason;
use crate::tls;

/// Smallest and largest room that is offered to one read. The room follows what reads bring, so
/// that an idle connection costs little and a busy one few system calls.
const SMALLEST_READ: usize = 4 << 10;
const LARGEST_READ: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Reader {
    codec: FrameCodec,
    buffer: BytesMut,
    room: usize,
    begun: bool,
    partial_since: Option<Instant>,
}

impl Reader {
    pub(crate) fn new(max_frame_bytes: usize) -> Self {
        Self {
            codec: FrameCodec::new(max_frame_bytes),
            buffer: BytesMut::new(),
            room: SMALLEST_READ,
            begun: false,
            partial_since: None,
        }
    }

    /// The next whole frame of the buffer.
    pub(crate) fn next(&mut self, now: Instant) -> Result<Option<Command>, CloseReason> {
        match self.codec.decode(&mut self.buffer) {
            Ok(Some(command)) => {
                self.partial_since = None;
                Ok(Some(command))
            }
            Ok(None) => {
                if self.buffer.is_empty() {
                    self.partial_since = None;
                } else {
                    self.partial_since.get_or_insert(now);
                }
                Ok(None)
            }
            Err(CodecError::Frame(error)) => Err(CloseReason::BadFrame(error)),
            Err(CodecError::Io(error)) => Err(CloseReason::Io(error)),
        }
    }

    /// Reads once; 0 is the end of the stream.
    pub(crate) fn fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, CloseReason>> {
        self.buffer.reserve(self.room);
        let offered = self.buffer.capacity() - self.buffer.len();
        let count = match poll_read_buf(Pin::new(stream), context, &mut self.buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(count)) => count,
        };
        if count >= offered {
            self.room = (self.room * 2).min(LARGEST_READ);
        } else if count < self.room / 4 {
            self.room = (self.room / 2).max(SMALLEST_READ);
        }
        if !self.begun && count > 0 {
            self.begun = true;
            // Within TLS this byte is one of a frame, which never begins so either.
            if self.buffer.first() == Some(&tls::HELLO) {
                return Poll::Ready(Err(CloseReason::TlsHello));
            }
        }
        Poll::Ready(Ok(count))
    }

    /// Reading is held back by this side: the time that passes is not the peer's fault.
    pub(crate) fn pause(&mut self) {
        self.partial_since = None;
    }

    /// When the unfinished frame began, if there is one.
    pub(crate) fn partial_since(&self) -> Option<Instant> {
        self.partial_since
    }

    /// Bytes that the buffer takes.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Gives the memory of an empty buffer back.
    pub(crate) fn release(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.room = SMALLEST_READ;
        }
    }
}
