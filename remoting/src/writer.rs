//! The writing half of a driver: queued commands to vectored writes.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use protocol::{Command, frame};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::outbox::{Cost, Outbox};

/// Bodies up to this size are copied behind their header; larger ones are written from where they
/// are.
const COPIED_BODY: usize = 4 << 10;
/// Encoded bytes that are gathered before a write.
const GATHERED: usize = 1 << 20;
/// Pieces in one vectored write.
const PIECES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Writer {
    commands: VecDeque<Command>,
    pieces: VecDeque<Bytes>,
    heads: BytesMut,
    /// What the outbox counts for the frames in `pieces`.
    cost: Cost,
    blocked_since: Option<Instant>,
}

impl Writer {
    /// Writes what the outbox holds until it is empty or the socket takes no more; tells how many
    /// bytes left.
    pub(crate) fn write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        outbox: &Outbox,
        context: &mut Context<'_>,
    ) -> io::Result<usize> {
        let mut total = 0;
        loop {
            if self.pieces.is_empty() && !self.gather(outbox) {
                // A stream that buffers (TLS) may still hold bytes that the socket does not take.
                match Pin::new(stream).poll_flush(context) {
                    Poll::Ready(flushed) => {
                        self.blocked_since = None;
                        return flushed.map(|()| total);
                    }
                    Poll::Pending => {
                        self.blocked_since.get_or_insert_with(Instant::now);
                        return Ok(total);
                    }
                }
            }
            match self.write_pieces(stream, context) {
                Poll::Ready(Ok(count)) => {
                    total += count;
                    self.blocked_since = None;
                    if self.pieces.is_empty() {
                        outbox.written(std::mem::take(&mut self.cost));
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    return Ok(total);
                }
            }
        }
    }

    /// Since when the socket has taken no byte of what waits.
    pub(crate) fn blocked_since(&self) -> Option<Instant> {
        self.blocked_since
    }

    /// Gives the memory of empty buffers back.
    pub(crate) fn release(&mut self) {
        if self.pieces.is_empty() && self.commands.is_empty() {
            *self = Self::default();
        }
    }

    /// Encodes queued commands; `false` when there are none.
    fn gather(&mut self, outbox: &Outbox) -> bool {
        if self.commands.is_empty() {
            outbox.take(&mut self.commands);
        }
        let mut bytes = 0;
        while bytes < GATHERED
            && let Some(command) = self.commands.pop_front()
        {
            self.cost.add(&command);
            let before = self.heads.len();
            frame::encode_head(&command, &mut self.heads);
            bytes += self.heads.len() - before + command.body.len();
            if command.body.len() <= COPIED_BODY {
                self.heads.extend_from_slice(&command.body);
            } else {
                self.pieces.push_back(self.heads.split().freeze());
                self.pieces.push_back(command.body);
            }
        }
        if !self.heads.is_empty() {
            self.pieces.push_back(self.heads.split().freeze());
        }
        !self.pieces.is_empty()
    }

    fn write_pieces<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut used = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            used += 1;
        }
        let count = ready!(Pin::new(stream).poll_write_vectored(context, &slices[..used]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.discard(count);
        Poll::Ready(Ok(count))
    }

    fn discard(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }
}
