//! One consume queue beside the log.

use std::{io, path::PathBuf, sync::Arc};

use segment::{Finding, Mend};

use crate::{
    handles::Handles,
    mark::QueueMark,
    options::StoreOptions,
    unit::{UNIT_BYTES, Unit},
    unit_files::UnitFiles,
};

/// Units read at once.
const AT_ONCE: u64 = 4096;

/// A queue that is walked as the log is read.
#[derive(Debug)]
pub(super) struct QueueWalk {
    directory: PathBuf,
    files: UnitFiles,
    /// The unit that is compared next.
    next: u64,
    end: u64,
    cleared_below: u64,
    ahead: Vec<Unit>,
    begun: bool,
    flaw: Option<Flaw>,
}

/// The first unit that is wrong, and how many are.
#[derive(Debug)]
struct Flaw {
    offset: u64,
    what: String,
    count: u64,
}

impl QueueWalk {
    pub(super) fn open(
        options: &StoreOptions,
        handles: &Arc<Handles>,
        serial: usize,
        known: &QueueMark,
        findings: &mut Vec<Finding>,
    ) -> io::Result<Self> {
        let per_file = options.consume_queue_file_size.div_ceil(UNIT_BYTES).max(1);
        let root = options.root.join("consumequeue");
        let directory = root.join(known.topic.as_ref()).join(known.id.to_string());
        let files = UnitFiles::fresh(directory.clone(), serial, per_file, Arc::clone(handles));
        for (place, what) in files.look()? {
            findings.push(Finding { place, position: None, what, mend: Mend::Start });
        }
        let state = known.state;
        Ok(Self {
            directory,
            files,
            next: state.min,
            end: state.end.next,
            cleared_below: state.cleared_below,
            ahead: Vec::new(),
            begun: false,
            flaw: None,
        })
    }

    /// Compares the unit of a record, whose code is to fit; gives how many were compared.
    pub(super) fn record(
        &mut self,
        physical: u64,
        size: u32,
        fits: &dyn Fn(i64) -> bool,
    ) -> io::Result<u64> {
        if physical < self.cleared_below {
            return Ok(0);
        }
        loop {
            let Some(unit) = self.peek()? else {
                if self.next >= self.end {
                    self.wrong(self.end, format!("the message at {physical} has no unit"));
                    return Ok(1);
                }
                // Each record has one unit: the next one may be sound again.
                self.wrong(self.next, "missing or unsound".to_owned());
                self.next += 1;
                self.begun = true;
                return Ok(1);
            };
            if unit.is_blank() || (unit.physical < physical && !self.begun) {
                // Units of messages that the log no longer has are still there at the front.
                self.skip();
                continue;
            }
            self.begun = true;
            if unit.physical > physical {
                self.wrong(self.next, format!("the message at {physical} has no unit"));
                return Ok(1);
            }
            if unit.physical < physical {
                self.wrong(self.next, format!("no message of this queue is at {}", unit.physical));
                self.skip();
                continue;
            }
            if unit.size != size || !fits(unit.tags_code) {
                self.wrong(self.next, "size or tag differs from the message".to_owned());
            }
            self.skip();
            return Ok(1);
        }
    }

    pub(super) fn finish(mut self) -> io::Result<Option<Finding>> {
        while self.next < self.end {
            match self.peek()? {
                Some(unit) => {
                    if self.begun && !unit.is_blank() {
                        self.wrong(self.next, "a unit beyond the last message".to_owned());
                    }
                    self.skip();
                }
                None => {
                    self.wrong(self.next, "missing or unsound".to_owned());
                    self.next += 1;
                }
            }
        }
        let Self { directory, flaw, .. } = self;
        Ok(flaw.map(|Flaw { offset, what, count }| Finding {
            place: directory,
            position: Some(offset),
            what: format!("unit of offset {offset}: {what}; {count} such units"),
            mend: Mend::Derive,
        }))
    }

    fn peek(&mut self) -> io::Result<Option<Unit>> {
        if self.ahead.is_empty() && self.next < self.end {
            self.ahead = self.files.read(self.next, (self.end - self.next).min(AT_ONCE))?;
            self.ahead.reverse();
        }
        Ok(self.ahead.last().copied())
    }

    fn skip(&mut self) {
        self.ahead.pop();
        self.next += 1;
    }

    fn wrong(&mut self, offset: u64, what: String) {
        let flaw = self.flaw.get_or_insert(Flaw { offset, what, count: 0 });
        flaw.count += 1;
    }
}
