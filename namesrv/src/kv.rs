//! Small values that administrators keep at the name server, by namespace and key.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The namespace of queue orders by topic (`NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG`).
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// The most bytes of names and values: every change writes all of them.
const MAX_BYTES: usize = 16 << 20;

/// Values of one namespace by key.
pub type Namespace = BTreeMap<String, String>;

/// The values, and the file that they are kept in.
///
/// The file has the form of Java's kvConfig.json: `{"configTable":{namespace:{key:value}}}`.
#[derive(Debug, Default)]
pub struct KvConfig {
    namespaces: BTreeMap<String, Namespace>,
    path: Option<PathBuf>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// Neither it nor its backup is what was written.
    #[error("{} is damaged ({cause}), and so is its backup; repair it or move it away", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// There is no room for one more value.
    #[error(
        "the values of the name server would take {0} bytes, at most {MAX_BYTES} are kept; delete some"
    )]
    Full(usize),
    /// It cannot be written; the change was not made.
    #[error("cannot write {}: {error}; the value was not changed", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl KvConfig {
    /// Reads the file, or its backup where the file is damaged. Without a path nothing is kept
    /// over a restart; without a file the table is empty.
    ///
    /// # Errors
    /// [`KvError::Read`] and [`KvError::Damaged`].
    pub fn load(path: Option<PathBuf>) -> Result<Self, KvError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let namespaces = match read(&path)? {
            None => BTreeMap::new(),
            Some(Ok(namespaces)) => namespaces,
            Some(Err(cause)) => {
                tracing::warn!(path = %path.display(), cause, "damaged; the backup is read instead");
                match read(&backup_of(&path))? {
                    Some(Ok(namespaces)) => namespaces,
                    _ => return Err(KvError::Damaged { path, cause }),
                }
            }
        };
        Ok(Self { namespaces, path: Some(path) })
    }

    /// Sets a value, on disk first.
    ///
    /// # Errors
    /// [`KvError::Write`], and [`KvError::Full`] where the values would grow beyond their bound.
    pub fn put(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), KvError> {
        let bytes = self.bytes() + namespace.len() + key.len() + value.len();
        if bytes > MAX_BYTES {
            return Err(KvError::Full(bytes));
        }
        self.change(|namespaces| {
            let values = namespaces.entry(namespace.to_owned()).or_default();
            values.insert(key.to_owned(), value.to_owned());
        })
    }

    /// Deletes a value, on disk first. Its namespace stays, as in Java.
    ///
    /// # Errors
    /// [`KvError::Write`].
    pub fn delete(&mut self, namespace: &str, key: &str) -> Result<(), KvError> {
        self.change(|namespaces| {
            if let Some(values) = namespaces.get_mut(namespace) {
                values.remove(key);
            }
        })
    }

    /// A value.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.namespaces.get(namespace)?.get(key).map(String::as_str)
    }

    /// All values of a namespace, or `None` when it never had one.
    pub fn namespace(&self, namespace: &str) -> Option<&Namespace> {
        self.namespaces.get(namespace)
    }

    fn bytes(&self) -> usize {
        let of_values = |values: &Namespace| -> usize {
            values.iter().map(|(key, value)| key.len() + value.len()).sum()
        };
        self.namespaces.iter().map(|(name, values)| name.len() + of_values(values)).sum()
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<String, Namespace>),
    ) -> Result<(), KvError> {
        let mut changed = self.namespaces.clone();
        change(&mut changed);
        if let Some(path) = &self.path {
            write(path, &encode(&changed))
                .map_err(|error| KvError::Write { path: path.clone(), error })?;
        }
        self.namespaces = changed;
        Ok(())
    }
}

/// `None` without a file, `Err` for one that is damaged.
type Contents = Option<Result<BTreeMap<String, Namespace>, String>>;

fn read(path: &Path) -> Result<Contents, KvError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(decode(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KvError::Read { path: path.to_owned(), error }),
    }
}

fn decode(bytes: &[u8]) -> Result<BTreeMap<String, Namespace>, String> {
    let document: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let table = document.get("configTable").and_then(Value::as_object);
    let table = table.ok_or("it has no object configTable")?;
    Ok(table.iter().map(|(name, values)| (name.clone(), values_of(values))).collect())
}

/// Java keeps texts only; whatever else stands there is passed over.
fn values_of(values: &Value) -> Namespace {
    let pairs = values.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn encode(namespaces: &BTreeMap<String, Namespace>) -> Vec<u8> {
    let table: Map<String, Value> = namespaces
        .iter()
        .map(|(name, values)| {
            let values = values.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
            (name.clone(), Value::Object(values.collect()))
        })
        .collect();
    let document =
        Value::Object([("configTable".to_owned(), Value::Object(table))].into_iter().collect());
    document.to_string().into_bytes()
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    name.into()
}

/// Replaces a file so that a crash leaves the old contents or the new ones; the old ones stay
/// beside it as a backup.
#[expect(
    clippy::disallowed_methods,
    reason = "one small file of the name server, which does not depend on the store's disk seam"
)]
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    match fs::copy(path, backup_of(path)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("namesrv").join("kvConfig.json");
        (directory, path)
    }

    #[test]
    fn values_outlive_a_restart_in_the_form_of_java() {
        let (_directory, path) = scratch();
        let mut kv = KvConfig::load(Some(path.clone())).expect("no file is no fault");
        kv.put("ns", "b", "2").expect("written");
        kv.put("ns", "a", "1").expect("written");
        kv.put("ns", "gone", "x").expect("written");
        kv.delete("ns", "gone").expect("written");
        let text = fs::read_to_string(&path).expect("the file");
        assert_eq!(text, r#"{"configTable":{"ns":{"a":"1","b":"2"}}}"#);
        let kv = KvConfig::load(Some(path)).expect("the file is good");
        assert_eq!((kv.get("ns", "a"), kv.get("ns", "gone")), (Some("1"), None));
    }

    #[test]
    fn an_emptied_namespace_stays_and_an_unknown_one_is_none() {
        let mut kv = KvConfig::load(None).expect("no file");
        kv.put("ns", "a", "1").expect("in memory");
        kv.delete("ns", "a").expect("in memory");
        kv.delete("other", "a").expect("nothing to do");
        assert_eq!(kv.namespace("ns"), Some(&Namespace::new()));
        assert_eq!(kv.namespace("other"), None);
    }

    #[test]
    fn a_damaged_file_gives_way_to_its_backup_and_both_damaged_are_named() {
        let (_directory, path) = scratch();
        let mut kv = KvConfig::load(Some(path.clone())).expect("no file");
        kv.put("ns", "a", "1").expect("written");
        kv.put("ns", "a", "2").expect("written");
        File::create(&path).expect("emptied");
        let kv = KvConfig::load(Some(path.clone())).expect("the backup");
        assert_eq!(kv.get("ns", "a"), Some("1"));
        File::create(backup_of(&path)).expect("emptied");
        let error = KvConfig::load(Some(path)).expect_err("damaged").to_string();
        assert!(error.contains("kvConfig.json") && error.contains("move it away"), "{error}");
    }

    #[test]
    fn values_beyond_the_bound_are_refused_until_some_are_deleted() {
        let mut kv = KvConfig::load(None).expect("no file");
        let value = "v".repeat(MAX_BYTES / 2);
        kv.put("ns", "a", &value).expect("room");
        let error = kv.put("ns", "b", &value).expect_err("no room");
        assert!(matches!(error, KvError::Full(_)), "{error}");
        assert!(error.to_string().contains("delete some"), "{error}");
        kv.delete("ns", "a").expect("in memory");
        kv.put("ns", "b", &value).expect("room again");
    }

    #[test]
    fn a_change_that_cannot_be_written_is_not_made() {
        let (directory, path) = scratch();
        let mut kv = KvConfig::load(Some(path)).expect("no file");
        // A file where the directory should be.
        File::create(directory.path().join("namesrv")).expect("a file");
        let error = kv.put("ns", "a", "1").expect_err("unwritable");
        assert!(matches!(error, KvError::Write { .. }), "{error}");
        assert_eq!(kv.get("ns", "a"), None);
    }
}
