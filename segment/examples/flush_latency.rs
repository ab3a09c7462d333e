//! Measures how long a flush of one small append takes in files that were prepared in three ways.
//!
//! `cargo run -p segment --example flush_latency -- /path/to/folder [appends]`

use std::{
    error::Error,
    io::IoSlice,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use segment::{RealVfs, Vfs, VfsFile, write_all_at};

/// Length that all files are given.
const FILE_SIZE: u64 = 1024 * 1024 * 1024;
/// Bytes that are reserved or filled with zeros before the appends begin.
const PREPARED: u64 = 64 * 1024 * 1024;

/// Appends to one file before it is the next one's turn.
const TURN: u64 = 50;

#[derive(Debug, Clone, Copy)]
enum Preparation {
    /// Only the length is set, as Java's files are.
    Sparse,
    /// Blocks are reserved, not written.
    Allocated,
    /// Zeros are written and flushed.
    Zeroed,
}

const PREPARATIONS: [Preparation; 3] =
    [Preparation::Sparse, Preparation::Allocated, Preparation::Zeroed];

#[expect(clippy::print_stdout, reason = "a measuring program prints what it measured")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let appends = arguments.next().map_or(Ok(500), |text| text.parse())?;
    println!("| append bytes | file | median us | p99 us | mean us |");
    println!("|---:|---|---:|---:|---:|");
    for length in [512, 4096, 65_536] {
        let measured = measure(&folder, length, appends)?;
        for (preparation, mut times) in PREPARATIONS.into_iter().zip(measured) {
            times.sort_unstable();
            let at =
                |part: usize| times.get(times.len() * part / 100).map_or(0, Duration::as_micros);
            let mean = times.iter().sum::<Duration>().as_micros() / times.len().max(1) as u128;
            println!("| {length} | {preparation:?} | {} | {} | {mean} |", at(50), at(99));
        }
    }
    Ok(())
}

/// The files take turns of [`TURN`] appends, so that whatever else the machine does meets all alike.
fn measure(
    folder: &Path,
    length: usize,
    appends: u32,
) -> Result<Vec<Vec<Duration>>, Box<dyn Error>> {
    let mut files = Vec::new();
    for preparation in PREPARATIONS {
        let path = folder.join(format!("flush_latency.{preparation:?}"));
        files.push((prepare(&path, preparation)?, path, Vec::new()));
    }
    let bytes = vec![b'x'; length];
    for turn in 0..u64::from(appends) / TURN {
        for (file, _, times) in &mut files {
            for nth in turn * TURN..(turn + 1) * TURN {
                put(&**file, &bytes, nth * length as u64)?;
                let began = Instant::now();
                file.sync_data()?;
                times.push(began.elapsed());
            }
        }
    }
    let mut all = Vec::new();
    for (_, path, times) in files {
        RealVfs.remove(&path)?;
        all.push(times);
    }
    Ok(all)
}

fn prepare(path: &Path, preparation: Preparation) -> Result<Arc<dyn VfsFile>, Box<dyn Error>> {
    let file = RealVfs.create(path)?;
    file.set_length(FILE_SIZE)?;
    match preparation {
        Preparation::Sparse => {}
        Preparation::Allocated => file.allocate(PREPARED)?,
        Preparation::Zeroed => put(&*file, &vec![0; usize::try_from(PREPARED)?], 0)?,
    }
    file.sync_data()?;
    Ok(file)
}

fn put(file: &dyn VfsFile, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    write_all_at(file, &mut [IoSlice::new(bytes)], offset).map_err(|(_, error)| error)
}
