//! Java's store checkpoint: five longs at the start of a file of 4096 bytes (`StoreCheckpoint`).
//!
//! ```text
//! physic message timestamp 8 | logics 8 | index 8 | master flushed offset 8 | confirm physical offset 8
//! ```
//!
//! We write the first three for a Java broker that opens the store after us; the others and the
//! rest of the file stay as they are. Our own recovery reads `derived.mark` instead.

use std::{
    io::{self, IoSlice},
    path::PathBuf,
    sync::Arc,
};

use segment::{Vfs, write_all_at};

const FILE_BYTES: u64 = 4096;

/// What we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Store timestamp of the newest message in the log, as far as it is derived.
    pub(crate) physic: u64,
    /// Store timestamp of the newest message in the consume queues.
    pub(crate) logics: u64,
    /// Store timestamp of the newest message in index files that are complete on disk.
    pub(crate) index: u64,
}

/// The file `checkpoint`.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

impl CheckpointFile {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        Self { vfs, path }
    }

    pub(crate) fn store(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        let file = match self.vfs.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.vfs.create(&self.path)?,
            file => file?,
        };
        if file.length()? < FILE_BYTES {
            file.set_length(FILE_BYTES)?;
        }
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&checkpoint.physic.to_be_bytes());
        bytes[8..16].copy_from_slice(&checkpoint.logics.to_be_bytes());
        bytes[16..].copy_from_slice(&checkpoint.index.to_be_bytes());
        write_all_at(&*file, &mut [IoSlice::new(&bytes)], 0).map_err(|(_, error)| error)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use segment::{RealVfs, read_exact_at};

    use super::*;

    /// The sample that a Java broker wrote: our values replace its first three, nothing else.
    #[test]
    fn the_longs_lie_where_java_has_them_and_the_rest_is_kept() {
        let sample = include_bytes!("../testdata/plain-store-checkpoint-40B.bin");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let file = RealVfs.create(&path).unwrap();
        write_all_at(&*file, &mut [IoSlice::new(sample)], 0).unwrap();
        let long = |at: usize| u64::from_be_bytes(sample[at..at + 8].try_into().unwrap());
        let java = Checkpoint { physic: long(0), logics: long(8), index: long(16) };
        assert!(java.physic > 1_700_000_000_000 && java.logics > 1_700_000_000_000, "{java:?}");
        CheckpointFile::new(Arc::new(RealVfs), path.clone()).store(&java).unwrap();
        let mut after = vec![0; FILE_BYTES as usize];
        read_exact_at(&*file, &mut after, 0).unwrap();
        assert_eq!(&after[..40], sample);
        assert!(after[40..].iter().all(|byte| *byte == 0));
    }
}
