//! The task of one connection: reads bursts, serves them, writes what is queued, keeps deadlines.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use protocol::{Command, code};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep as Timer, sleep_until};
use tracing::error;

use crate::budget::Budget;
use crate::connection::Connection;
use crate::error::CloseReason;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::outbox::{Phase, Sleep};
use crate::reader::Reader;
use crate::responder::{Responder, held_bytes};
use crate::writer::Writer;

/// Frames that are served before their answers are written.
const FRAMES_PER_BURST: usize = 512;
/// Bursts that are served before other tasks get their turn.
const BURSTS_PER_TURN: usize = 8;

/// Drives a connection to its end, with the handler told of its begin and end; gives why it ended.
pub(crate) async fn drive<S>(
    stream: S,
    connection: &Arc<Connection>,
    limits: Limits,
    handler: &Arc<dyn Handler>,
) -> CloseReason
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    guarded(connection, "opened", || handler.opened(connection));
    let reason = Driver::new(stream, connection, limits, handler).await;
    connection.ended();
    guarded(connection, "closed", || handler.closed(connection));
    reason
}

struct Driver<'a, S> {
    stream: S,
    connection: &'a Arc<Connection>,
    handler: &'a Arc<dyn Handler>,
    limits: Limits,
    reader: Reader,
    writer: Writer,
    timer: Pin<Box<Timer>>,
    /// When the timer will fire; `None` when it is not set.
    armed: Option<Instant>,
    last_byte: Instant,
    /// What the budget counts for this connection.
    settled: usize,
    /// What the outbox held when it was last looked at.
    outbox_bytes: usize,
}

/// Where reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadStop {
    /// The socket has no more.
    Blocked,
    /// This side takes no more for now.
    Paused,
    /// A burst is full; there may be more.
    Burst,
    /// The peer has closed.
    End,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Driver<'a, S> {
    fn new(
        stream: S,
        connection: &'a Arc<Connection>,
        limits: Limits,
        handler: &'a Arc<dyn Handler>,
    ) -> Self {
        let now = Instant::now();
        Self {
            stream,
            connection,
            handler,
            reader: Reader::new(limits.max_frame_bytes),
            writer: Writer::default(),
            timer: Box::pin(sleep_until(now + limits.idle)),
            armed: None,
            last_byte: now,
            settled: 0,
            outbox_bytes: 0,
            limits,
        }
    }

    /// One burst; `true` when the task may sleep.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<bool, CloseReason> {
        let now = Instant::now();
        let (phase, may_read, outbox_bytes) = self.connection.outbox().begin();
        self.outbox_bytes = outbox_bytes;
        self.settle();
        let stop = match phase {
            Phase::Open if may_read => self.read_burst(context, now)?,
            Phase::Open => {
                self.reader.pause();
                ReadStop::Paused
            }
            Phase::Draining => ReadStop::Blocked,
            Phase::Closing | Phase::Closed => return Err(CloseReason::Requested),
            Phase::Greedy => return Err(CloseReason::Greedy(self.settled)),
            Phase::Overflowed => {
                return Err(CloseReason::OutboxFull(self.limits.outbox_limit_bytes));
            }
        };
        let outbox = self.connection.outbox();
        if self.writer.write(&mut self.stream, outbox, context)? > 0 {
            self.last_byte = now;
        }
        let write_blocked = self.writer.blocked_since().is_some();
        if stop == ReadStop::End {
            return Err(CloseReason::PeerClosed);
        }
        if phase == Phase::Draining && !write_blocked {
            return Err(CloseReason::Requested);
        }
        self.keep_deadlines(context)?;
        if stop == ReadStop::Burst {
            return Ok(false);
        }
        let sleep = Sleep { phase, write_blocked, read_paused: stop == ReadStop::Paused };
        let (may_sleep, held) = outbox.sleep(context.waker(), sleep);
        self.outbox_bytes = held;
        // Where this makes the connection the greediest, its close wakes it at once.
        self.settle();
        Ok(may_sleep)
    }

    fn read_burst(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<ReadStop, CloseReason> {
        let mut served = 0;
        loop {
            while let Some(command) = self.reader.next(now)? {
                if !self.serve(command) {
                    self.reader.pause();
                    return Ok(ReadStop::Paused);
                }
                served += 1;
                if served >= FRAMES_PER_BURST {
                    return Ok(ReadStop::Burst);
                }
            }
            match self.reader.fill(&mut self.stream, context) {
                Poll::Pending => return Ok(ReadStop::Blocked),
                Poll::Ready(Ok(0)) => return Ok(ReadStop::End),
                Poll::Ready(Ok(_count)) => {
                    self.last_byte = now;
                    self.settle();
                }
                Poll::Ready(Err(reason)) => return Err(reason),
            }
        }
    }

    /// Serves one command; `true` when more may be read.
    fn serve(&self, command: Command) -> bool {
        if command.is_response() {
            self.connection.complete(command);
            return true;
        }
        let may_read = self.connection.outbox().admit(held_bytes(&command));
        let code = command.code;
        let responder = Responder::new(self.connection, &command);
        if let Some(budget) = &self.limits.budget
            && budget.is_exceeded()
            && !command.body.is_empty()
        {
            budget.relieve();
            responder.send(busy(&command, budget.limit()));
            return may_read;
        }
        let served = catch_unwind(AssertUnwindSafe(|| {
            self.handler.handle(self.connection, command, responder);
        }));
        if served.is_err() {
            error!(peer = %self.connection.remote_addr(), code, "the handler of a request panicked");
        }
        may_read
    }

    /// Tells the budget what this connection holds, where that has changed by much.
    fn settle(&mut self) {
        let Some(budget) = &self.limits.budget else { return };
        let held = self.outbox_bytes + self.reader.capacity();
        if held.abs_diff(self.settled) >= Budget::GRAIN {
            budget.settle(self.connection, self.settled, held);
            self.settled = held;
        }
    }

    /// Fails when a deadline has passed, and sets the timer to the next one.
    fn keep_deadlines(&mut self, context: &mut Context<'_>) -> Result<(), CloseReason> {
        loop {
            let (due, reason) = self.next_deadline();
            if Instant::now() >= due {
                return Err(reason);
            }
            // The timer is moved only to an earlier time: most turns then leave it alone.
            if self.armed.is_none_or(|armed| due < armed) {
                self.timer.as_mut().reset(due);
                self.armed = Some(due);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Ok(());
            }
            self.armed = None;
            self.reader.release();
            self.writer.release();
        }
    }

    fn next_deadline(&self) -> (Instant, CloseReason) {
        let limits = &self.limits;
        let mut next = (self.last_byte + limits.idle, CloseReason::Idle(limits.idle));
        if let Some(since) = self.reader.partial_since() {
            let due = since + limits.frame_deadline;
            if due < next.0 {
                next = (due, CloseReason::SlowFrame(limits.frame_deadline));
            }
        }
        if let Some(since) = self.writer.blocked_since() {
            let due = since + limits.write_stall;
            if due < next.0 {
                next = (due, CloseReason::WriteStall(limits.write_stall));
            }
        }
        next
    }
}

impl<S> Drop for Driver<'_, S> {
    fn drop(&mut self) {
        if let Some(budget) = &self.limits.budget {
            budget.settle(self.connection, self.settled, 0);
        }
    }
}

/// The answer to a request for which there is no memory.
fn busy(request: &Command, limit: usize) -> Command {
    request.response(code::response::SYSTEM_BUSY).with_remark(format!(
        "[OVERLOAD]system busy: connections hold more than {limit} bytes; send again later"
    ))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Driver<'_, S> {
    type Output = CloseReason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CloseReason> {
        let driver = self.get_mut();
        for _ in 0..BURSTS_PER_TURN {
            match driver.turn(context) {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(reason) => return Poll::Ready(reason),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn guarded(connection: &Arc<Connection>, moment: &str, call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        error!(peer = %connection.remote_addr(), moment, "the handler panicked");
    }
}
