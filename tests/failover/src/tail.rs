//! A file that another process appends lines to, read while it grows.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context, Result};

/// How far a file was read.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    /// Bytes that were read.
    read: u64,
}

impl Tail {
    /// From the beginning of a file that may not be there yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The whole lines that came since the last time.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(crate) fn lines(&mut self) -> Result<String> {
        if !self.path.exists() {
            return Ok(String::new());
        }
        let named = || self.path.display().to_string();
        let mut file = File::open(&self.path).with_context(named)?;
        file.seek(SeekFrom::Start(self.read)).with_context(named)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(named)?;
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        self.read += u64::try_from(text.len())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_whole_lines_are_given_and_each_once() {
        let path = std::env::temp_dir().join(format!("ledgermq-tail-{}", std::process::id()));
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.lines().unwrap(), "", "there is no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines().unwrap(), "one\n");
        assert_eq!(tail.lines().unwrap(), "");
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(tail.lines().unwrap(), "two\nthree\n");
        std::fs::remove_file(&path).unwrap();
    }
}
