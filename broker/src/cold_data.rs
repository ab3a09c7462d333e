//! What operators have set for reads of cold data (`ColdDataCgCtrService.java`).
//!
//! It is kept and told, and slows nobody down: a Java broker heeds it only with
//! `coldDataFlowControlEnable`, and a DLedger log of Java's not at all. As there it lives in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use protocol::name;
use serde_json::json;

/// The most groups that can have a threshold.
const MAX_GROUPS: usize = 10_000;

/// Bytes of cold data in a span of time, for a group without a threshold of its own and for all
/// groups together (`cgColdReadThreshold`, `globalColdReadThreshold`).
const DEFAULTS: (i64, i64) = (3 << 20, 100 << 20);

/// What every answer says of the effect.
pub(crate) const EFFECT: &str = "none: cold reads are not slowed down here";

/// How the files of the log are to be read ahead (`LibC.java`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadAhead {
    /// As the kernel does it (`MADV_NORMAL`).
    #[default]
    Normal,
    /// Not at all (`MADV_RANDOM`).
    Random,
}

/// Why a threshold is not kept.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ThresholdError {
    /// No group has such a name.
    #[error("consumer group `{0}`: a name has 1 to {max} characters", max = name::MAX_GROUP)]
    Name(String),
    /// No number of bytes.
    #[error("threshold of group {group} is `{value}`: it must be a number of bytes, 0 or more")]
    Value {
        /// The group.
        group: String,
        /// What was given.
        value: String,
    },
    /// The table is full.
    #[error("{MAX_GROUPS} groups have a threshold, the most that are kept: remove one first")]
    Full,
}

/// Thresholds by group, and the mode of reading ahead.
#[derive(Debug, Default)]
pub(crate) struct ColdData {
    set: Mutex<Set>,
}

#[derive(Debug, Clone, Default)]
struct Set {
    thresholds: BTreeMap<String, i64>,
    read_ahead: ReadAhead,
}

impl ColdData {
    /// Keeps all thresholds or none.
    pub(crate) fn put(&self, pairs: &[(String, String)]) -> Result<(), ThresholdError> {
        if pairs.len() > MAX_GROUPS {
            return Err(ThresholdError::Full);
        }
        let mut set = self.lock();
        let mut thresholds = set.thresholds.clone();
        for (group, value) in pairs {
            if group.trim().is_empty() || group.len() > name::MAX_GROUP {
                return Err(ThresholdError::Name(group.chars().take(name::MAX_GROUP).collect()));
            }
            let number = value.trim().parse().ok().filter(|bytes: &i64| *bytes >= 0);
            let number = number.ok_or_else(|| ThresholdError::Value {
                group: group.clone(),
                value: value.chars().take(32).collect(),
            })?;
            thresholds.insert(group.clone(), number);
        }
        if thresholds.len() > MAX_GROUPS {
            return Err(ThresholdError::Full);
        }
        set.thresholds = thresholds;
        Ok(())
    }

    /// Forgets the threshold of a group, where it has one.
    pub(crate) fn remove(&self, group: &str) {
        self.lock().thresholds.remove(group);
    }

    /// Keeps how the log is to be read ahead.
    pub(crate) fn read_ahead(&self, mode: ReadAhead) {
        self.lock().read_ahead = mode;
    }

    /// What is set, in Java's form. `runtimeTable` has the groups that read cold data: nobody counts
    /// them here. The last two fields are ours; mqadmin prints what it finds.
    pub(crate) fn info(&self) -> String {
        let set = self.lock().clone();
        let (of_group, of_all) = DEFAULTS;
        json!({
            "runtimeTable": {},
            "configTable": set.thresholds,
            "cgColdReadThreshold": of_group,
            "globalColdReadThreshold": of_all,
            "globalAcc": 0,
            "dataReadAheadEnable": matches!(set.read_ahead, ReadAhead::Normal),
            "effect": EFFECT,
        })
        .to_string()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(group: &str, value: &str) -> (String, String) {
        (group.to_owned(), value.to_owned())
    }

    #[test]
    fn all_thresholds_are_kept_or_none() {
        let cold = ColdData::default();
        cold.put(&[pair("g", "7"), pair("h", " 8 ")]).expect("sound");
        let error = cold.put(&[pair("i", "9"), pair("g", "many")]).expect_err("no number");
        assert_eq!(error, ThresholdError::Value { group: "g".into(), value: "many".into() });
        let info = cold.info();
        assert!(info.contains(r#""configTable":{"g":7,"h":8}"#), "{info}");
        cold.put(&[pair("g", "-1")]).expect_err("negative");
        cold.put(&[pair(" ", "1")]).expect_err("no name");
        cold.remove("g");
        cold.remove("unknown");
        assert!(cold.info().contains(r#""configTable":{"h":8}"#));
    }

    #[test]
    fn the_table_has_a_bound() {
        let cold = ColdData::default();
        let many: Vec<_> = (0..MAX_GROUPS).map(|n| pair(&format!("g{n}"), "1")).collect();
        cold.put(&many).expect("as many as fit");
        assert_eq!(cold.put(&[pair("one more", "1")]), Err(ThresholdError::Full));
        cold.put(&[pair("g1", "2")]).expect("a group that has one already");
    }
}
