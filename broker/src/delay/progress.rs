//! How far each level has been delivered, kept as delayOffset.json in Java's form.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use protocol::body::{DataVersion, DelayOffsetSerializeWrapper};
use serde_json::{Map, Value, json};
use store::config_file::{ConfigFile, JavaText, LoadConfigError, java_text};

use crate::clock;

/// Next offset of each level, from level 1 on.
#[derive(Debug)]
pub(crate) struct Progress {
    table: Mutex<Table>,
    /// Held while the file is written, so that it never goes back.
    file: Mutex<ConfigFile>,
}

#[derive(Debug, Default)]
struct Table {
    offsets: BTreeMap<u32, u64>,
    version: DataVersion,
    changed: bool,
}

impl Progress {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or is no such table.
    pub(crate) fn open(file: ConfigFile) -> Result<Self, LoadConfigError> {
        let read = file.load(DelayOffsetSerializeWrapper::decode)?;
        let table = read.map_or_else(Table::default, |wrapper| Table {
            offsets: wrapper
                .offset_table
                .into_iter()
                .filter_map(|(level, offset)| {
                    Some((u32::try_from(level).ok()?, u64::try_from(offset).ok()?))
                })
                .collect(),
            version: wrapper.data_version,
            changed: false,
        });
        Ok(Self { table: Mutex::new(table), file: Mutex::new(file) })
    }

    /// Where to go on in a level whose queue holds `[min, max)`. An offset outside of it, which
    /// another broker's file may have, is corrected.
    pub(super) fn within(&self, level: u32, (min, max): (u64, u64)) -> u64 {
        let mut table = self.table();
        let known = table.offsets.get(&level).copied().unwrap_or(0);
        let within = known.clamp(min, max.max(min));
        if within != known {
            tracing::warn!(level, known, within, "progress of a delay level was corrected");
            table.offsets.insert(level, within);
            table.changed = true;
        }
        within
    }

    /// Everything before `offset` is delivered.
    pub(super) fn reach(&self, level: u32, offset: u64) {
        let mut table = self.table();
        table.offsets.insert(level, offset);
        table.changed = true;
    }

    /// The next offset of each level.
    pub(crate) fn offsets(&self) -> BTreeMap<u32, u64> {
        self.table().offsets.clone()
    }

    /// Writes the file, where something has changed.
    ///
    /// # Errors
    /// The disk refuses; the next call tries again.
    pub(super) fn write(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let wrapper = {
            let mut table = self.table();
            if !std::mem::take(&mut table.changed) {
                return Ok(());
            }
            table.version.counter += 1;
            table.version.timestamp = clock::now_millis();
            table.wrapper()
        };
        file.store(text(&wrapper).as_bytes()).inspect_err(|_| self.table().changed = true)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn wrapper(&self) -> DelayOffsetSerializeWrapper {
        DelayOffsetSerializeWrapper {
            offset_table: self
                .offsets
                .iter()
                .filter_map(|(level, offset)| {
                    Some((i32::try_from(*level).ok()?, i64::try_from(*offset).ok()?))
                })
                .collect(),
            data_version: self.version.clone(),
        }
    }
}

/// The table as Java writes it.
fn text(wrapper: &DelayOffsetSerializeWrapper) -> String {
    let offsets: Map<String, Value> = wrapper
        .offset_table
        .iter()
        .map(|(level, offset)| (level.to_string(), Value::from(*offset)))
        .collect();
    let version = &wrapper.data_version;
    let value = json!({
        "dataVersion": {
            "counter": version.counter,
            "stateVersion": version.state_version,
            "timestamp": version.timestamp,
        },
        "offsetTable": offsets,
    });
    java_text(&value, JavaText { integer_keys: &|path| path == ["offsetTable"] })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use segment::SimVfs;

    use super::*;

    #[test]
    fn progress_is_kept_in_javas_form_and_corrected() {
        let disk = Arc::new(SimVfs::new());
        let file = || ConfigFile::new(disk.clone(), "config/delayOffset.json");
        let progress = Progress::open(file()).expect("no file yet");
        assert_eq!(progress.within(3, (0, 74)), 0);
        progress.reach(3, 77);
        progress.reach(18, 2);
        progress.write().expect("a disk");
        let text = file().load(|bytes| String::from_utf8(bytes.to_vec()));
        let text = text.expect("a disk").expect("a file");
        assert!(text.contains("3:77") && text.contains("18:2"), "{text}");
        let again = Progress::open(file()).expect("what was written");
        assert_eq!(again.within(18, (0, 9)), 2);
        assert_eq!(again.within(3, (10, 74)), 74, "beyond the queue");
        assert_eq!(again.within(1, (5, 9)), 5, "before the queue");
        assert_eq!(again.offsets().get(&3), Some(&74));
    }
}
