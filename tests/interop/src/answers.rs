//! A way between two members that can lose what goes back: requests arrive, answers do not.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Context, Result};

/// Bound on a frame, in bytes.
const LIMIT: usize = 32 << 20;

/// A port on 127.0.0.1 that leads to another one.
#[derive(Debug)]
pub struct LossyAnswers {
    /// The port.
    pub port: u16,
    losing: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
}

impl LossyAnswers {
    /// Listens, and leads to `to` on 127.0.0.1. Its threads end with the connections.
    ///
    /// # Errors
    /// Where no port can be had.
    pub fn to(to: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("a port")?;
        let port = listener.local_addr().context("its number")?.port();
        let (losing, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (flag, count) = (Arc::clone(&losing), Arc::clone(&lost));
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(member) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to))) else {
                    continue;
                };
                let (flag, count) = (Arc::clone(&flag), Arc::clone(&count));
                if let (Ok(asks), Ok(asked)) = (caller.try_clone(), member.try_clone()) {
                    thread::spawn(move || pass(asks, asked, |_| true));
                    thread::spawn(move || {
                        pass(member, caller, |_| {
                            let losing = flag.load(Ordering::Relaxed);
                            count.fetch_add(u64::from(losing), Ordering::Relaxed);
                            !losing
                        });
                    });
                }
            }
        });
        Ok(Self { port, losing, lost })
    }

    /// From now on answers are lost, or are no more.
    pub fn lose(&self, losing: bool) {
        self.losing.store(losing, Ordering::Relaxed);
    }

    /// How many answers were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Passes whole frames on, those that `wanted` picks, until one side is closed.
fn pass(mut from: TcpStream, mut to: TcpStream, wanted: impl Fn(&[u8]) -> bool) {
    while let Ok(frame) = frame(&mut from) {
        if wanted(&frame) && to.write_all(&frame).is_err() {
            break;
        }
    }
    // Whoever is gone already needs no telling.
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

/// A frame with its length in front.
fn frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let size = u32::from_be_bytes(length) as usize;
    if size > LIMIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; 4 + size];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}
