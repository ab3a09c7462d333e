//! A data folder on DLedger, copied to one with Java's native commit log.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use dledger::verify::{self, Visitor};
use segment::{Mend, ReadOnlyVfs, RealVfs, Vfs};
use store::{
    append_log::{AppendLog, HEADROOM},
    kept::write_empty_queues,
    native::{NativeLog, NativeWriter},
};

use super::{
    Offline, Progress,
    convert::{Conversion, ConvertError, Sorting, Taken, derive},
    each_record,
    staging::{Staging, at, refuse_unclean},
};
use crate::start::open::store_options;

impl Offline {
    /// Copies this data folder to `to`, so that a Java broker without DLedger starts on it: messages
    /// in `commitlog/` at new physical offsets, each queue with the offsets that it has, and the
    /// tables. The caller holds the lock of this folder.
    ///
    /// # Errors
    /// See [`ConvertError`]; then there is no copy.
    pub fn export(
        &self,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Conversion, ConvertError> {
        refuse_unclean(self.root())?;
        let vfs: Arc<dyn Vfs> = Arc::new(ReadOnlyVfs);
        self.refuse_lost_tables(&*vfs)?;
        let front = self.front(&vfs).map_err(|error| ConvertError::Damaged(error.to_string()))?;
        let data = self.log.join("data");
        let begin = match &front {
            Some(front) => front.range().0,
            None => first_position(&*vfs, &data)? + HEADROOM as u64,
        };
        let staging = Staging::begin(self.root(), to, &self.log_folders(front.is_some()))?;
        let folder = staging.folder().join("commitlog");
        let options = store_options(&self.config, Arc::clone(&vfs));
        let sorting = Sorting::new(&options, begin)?;
        let writer =
            NativeWriter::create(Arc::new(RealVfs), folder.clone(), self.data_file_size())?;
        let mut copying = Copying { sorting, writer, error: None, record: Vec::new(), progress };
        if let Some(front) = &front {
            let read = each_record(front, &mut |physical, record| copying.take(physical, record));
            read.map_err(|error| ConvertError::Damaged(error.to_string()))?;
        }
        let survey = verify::survey(&vfs, &self.log, self.data_file_size(), &mut copying);
        let survey = survey.map_err(|error| ConvertError::Damaged(error.to_string()))?;
        let Copying { mut sorting, writer, error, progress, .. } = copying;
        error.map_or(Ok(()), Err)?;
        if let Some(rot) = survey.rot {
            let what = format!("{} is damaged at position {}", self.log.display(), rot.position);
            return Err(ConvertError::Damaged(what));
        }
        let written = writer.finish()?;
        let log = NativeLog::open(&(Arc::new(RealVfs) as Arc<dyn Vfs>), &folder)?;
        if log.range().1 != written {
            let what = format!("its log ends at {}, not at {written}", log.range().1);
            return Err(ConvertError::Differs(what));
        }
        sorting.conversion.range = log.range();
        sorting.conversion.tables = staging.copy_tables(self.root())?;
        self.derive_native(&staging, log, &mut sorting, progress)?;
        staging.finish()?;
        Ok(sorting.conversion)
    }

    /// Makes what a broker would derive, so that Java finds its queues and its index.
    fn derive_native(
        &self,
        staging: &Staging,
        log: NativeLog,
        sorting: &mut Sorting,
        progress: &mut Progress<'_>,
    ) -> Result<(), ConvertError> {
        let mut options = store_options(&self.config, Arc::new(RealVfs));
        options.root = staging.folder().to_owned();
        options.native_below = u64::MAX;
        let spans = sorting.spans();
        sorting.conversion.queues = spans.len();
        sorting.conversion.file_size = log.file_size();
        derive(options.clone(), Arc::new(log) as Arc<dyn AppendLog<()>>, &spans, progress)?;
        let failed = |source| at(&options.root, source);
        write_empty_queues(&options, &spans).map_err(failed)?;
        // Ours alone, and not true any more once a Java broker has written.
        RealVfs.remove(&options.root.join("derived.mark")).map_err(failed)
    }

    /// Folders of the files that will be copied.
    fn log_folders(&self, front: bool) -> Vec<PathBuf> {
        let native = front.then(|| self.root().join("commitlog"));
        std::iter::once(self.log.join("data")).chain(native).collect()
    }

    fn refuse_lost_tables(&self, vfs: &dyn Vfs) -> Result<(), ConvertError> {
        let tables = self.tables(vfs).map_err(|source| at(self.root(), source))?;
        match tables.into_iter().find(|finding| finding.mend == Mend::Lost) {
            Some(lost) => {
                let what = format!("{} {}", lost.place.display(), lost.what);
                Err(ConvertError::Damaged(what))
            }
            None => Ok(()),
        }
    }
}

/// Where the first file of the log begins.
fn first_position(vfs: &dyn Vfs, data: &Path) -> Result<u64, ConvertError> {
    let names = vfs.list(data).map_err(|source| at(data, source))?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).min().unwrap_or(0))
}

/// Writes each entry's record to the native log.
struct Copying<'a, 'b> {
    sorting: Sorting,
    writer: NativeWriter,
    error: Option<ConvertError>,
    record: Vec<u8>,
    progress: &'a mut Progress<'b>,
}

impl Copying<'_, '_> {
    fn take(&mut self, physical: u64, record: &[u8]) {
        if self.error.is_some() {
            return;
        }
        if let Taken::Copied(offset) = self.sorting.take(physical, record) {
            self.record.clear();
            self.record.extend_from_slice(record);
            if let Err(error) = self.writer.append(&mut self.record, offset) {
                self.error = Some(error.into());
            }
        }
    }
}

impl Visitor for Copying<'_, '_> {
    fn entry(&mut self, position: u64, body: &[u8], behind_damage: bool) {
        if !behind_damage {
            self.take(position + HEADROOM as u64, body);
        }
    }

    fn progress(&mut self, position: u64, end: u64) {
        (self.progress)(position, end);
    }
}
