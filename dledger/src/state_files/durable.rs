//! The durable mark: up to where the log is known to have been fsynced.
//!
//! Recovery needs it to tell a torn tail, which a power cut leaves behind the mark, from rot before
//! it. It is written after each fsync of the log but synced only with the checkpoint: any older
//! value is true as well. Two sectors take turns, so that a torn write leaves the other one.

use std::{
    io::{self, IoSlice},
    path::Path,
    sync::Arc,
};

use segment::{Vfs, VfsFile, read_exact_at, write_all_at};

use super::{number, value};

const SLOT: usize = 512;

/// What the file `durable` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DurableMark {
    /// Log position behind the last entry that is known to be durable.
    pub(crate) position: u64,
    /// The boot in which it was written: a log that was written in the running boot has lost
    /// nothing that reached the page cache.
    pub(crate) boot_id: String,
    /// The log was stopped in order, all of it durable.
    pub(crate) clean: bool,
    /// What lies behind `position` is being erased: it is never taken for rot.
    pub(crate) cutting: bool,
}

/// The file `durable`.
#[derive(Debug)]
pub(crate) struct DurableFile {
    file: Arc<dyn VfsFile>,
    mark: DurableMark,
    sequence: u64,
    synced: bool,
}

impl DurableFile {
    /// Opens the file, creating it where it is missing; gives the mark of the run before.
    pub(crate) fn open(vfs: &dyn Vfs, directory: &Path) -> io::Result<Self> {
        let path = directory.join("durable");
        let file = match vfs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => vfs.create(&path)?,
            other => other?,
        };
        if file.length()? < 2 * SLOT as u64 {
            // Both sectors are written now, so that a full disk never refuses a mark later on.
            write_all_at(&*file, &mut [IoSlice::new(&[b'\n'; 2 * SLOT])], 0)
                .map_err(|(_, error)| error)?;
            file.sync_data()?;
            vfs.sync_directory(directory)?;
        }
        let mut bytes = [0; 2 * SLOT];
        read_exact_at(&*file, &mut bytes, 0)?;
        let newest = bytes.chunks(SLOT).filter_map(decode).max_by_key(|(sequence, _)| *sequence);
        let (sequence, mark) = newest.unwrap_or_default();
        Ok(Self { file, mark, sequence, synced: true })
    }

    /// The mark in the file; `None` where there is no file or no sound mark in it.
    pub(crate) fn read(vfs: &dyn Vfs, directory: &Path) -> io::Result<Option<DurableMark>> {
        let file = match vfs.open(&directory.join("durable")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = [0; 2 * SLOT];
        let length = usize::try_from(file.length()?).unwrap_or(usize::MAX).min(bytes.len());
        let Some(held) = bytes.get_mut(..length) else { return Ok(None) };
        read_exact_at(&*file, held, 0)?;
        let newest = bytes.chunks(SLOT).filter_map(decode).max_by_key(|(sequence, _)| *sequence);
        Ok(newest.map(|(_, mark)| mark))
    }

    pub(crate) fn mark(&self) -> &DurableMark {
        &self.mark
    }

    /// Writes a mark; it may be lost in a power cut, together with nothing else.
    pub(crate) fn note(&mut self, mark: DurableMark) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let place = (sequence % 2) * SLOT as u64;
        let slot = encode(sequence, &mark);
        write_all_at(&*self.file, &mut [IoSlice::new(&slot)], place).map_err(|(_, error)| error)?;
        (self.sequence, self.mark, self.synced) = (sequence, mark, false);
        Ok(())
    }

    /// Writes a mark, durably.
    pub(crate) fn store(&mut self, mark: DurableMark) -> io::Result<()> {
        self.note(mark)?;
        self.sync()
    }

    /// Makes the last mark durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.synced {
            self.file.sync_data()?;
            self.synced = true;
        }
        Ok(())
    }
}

fn encode(sequence: u64, mark: &DurableMark) -> [u8; SLOT] {
    let DurableMark { position, boot_id, clean, cutting } = mark;
    let text = format!(
        "sequence={sequence}\ndurablePosition={position}\nbootId={boot_id}\nclean={clean}\n\
         cutting={cutting}\n"
    );
    let text = format!("{text}crc={:08x}\n", crc32fast::hash(text.as_bytes()));
    let mut slot = [b'\n'; SLOT];
    for (to, from) in slot.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    slot
}

fn decode(slot: &[u8]) -> Option<(u64, DurableMark)> {
    let text = std::str::from_utf8(slot).ok()?;
    let covered = text.get(..text.find("crc=")?)?;
    let crc = u32::from_str_radix(value(text, "crc")?, 16).ok()?;
    if crc != crc32fast::hash(covered.as_bytes()) {
        return None;
    }
    let mark = DurableMark {
        position: number(text, "durablePosition")?,
        boot_id: value(text, "bootId")?.to_owned(),
        clean: value(text, "clean")? == "true",
        cutting: value(text, "cutting")? == "true",
    };
    Some((number(text, "sequence")?, mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segment::{Fate, SimVfs};

    fn mark(position: u64) -> DurableMark {
        DurableMark { position, boot_id: "boot-0".into(), ..DurableMark::default() }
    }

    #[test]
    fn a_torn_or_lost_mark_leaves_the_one_before() {
        let disk = SimVfs::new();
        let mut file = DurableFile::open(&disk, Path::new("d")).unwrap();
        assert_eq!(*file.mark(), DurableMark::default());
        file.store(mark(100)).unwrap();
        file.note(mark(200)).unwrap();
        for (fate, position) in [(Fate::Keep, 200), (Fate::Drop, 100), (Fate::Torn, 100)] {
            let after = disk.crash(&mut |_| fate);
            let file = DurableFile::open(&after, Path::new("d")).unwrap();
            // The text is shorter than half a sector, so a torn one may be whole.
            assert!([position, 200].contains(&file.mark().position), "{fate:?}");
            assert!(fate != Fate::Drop || file.mark().position == 100);
        }
    }

    #[test]
    fn a_flipped_bit_voids_the_slot() {
        let disk = SimVfs::new();
        let mut file = DurableFile::open(&disk, Path::new("d")).unwrap();
        file.store(mark(100)).unwrap();
        file.store(mark(200)).unwrap();
        disk.flip_bit(Path::new("d/durable"), 30).unwrap();
        let file = DurableFile::open(&disk, Path::new("d")).unwrap();
        assert_eq!(*file.mark(), mark(100));
    }
}
