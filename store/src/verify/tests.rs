//! Damage of each kind is found, and nothing in a store that is sound.

use std::path::{Path, PathBuf};

use segment::{Mend, Vfs};

use super::*;
use crate::{
    append_log::AppendLog,
    store::tests::rig::{Rig, options},
};

/// A stopped store with several files of queues and index.
fn stopped() -> Rig {
    let mut rig = Rig::new();
    for round in 0..4 {
        rig.send("T", 0, 20, "a");
        rig.send("T", 1, 7, "b");
        let keys = format!("UNIQ_KEY\u{1}U{round}\u{2}KEYS\u{1}K one\u{2}");
        rig.send_with("Keys", 0, &vec!["x".to_owned(); 9], &keys);
    }
    rig.stop();
    rig
}

fn compare(rig: &Rig) -> DerivedSurvey {
    let mut comparison = Comparison::open(options(&rig.disk)).unwrap();
    let run = rig.log.read_forward(rig.log.bounds().min, usize::MAX).unwrap();
    for (physical, record) in &run.records {
        comparison.record(*physical, record).unwrap();
    }
    comparison.finish().unwrap()
}

#[test]
fn a_sound_store_has_no_findings() {
    let mut rig = stopped();
    let survey = compare(&rig);
    assert_eq!(survey.findings, []);
    assert_eq!((survey.queues, survey.units, survey.keys), (3, 4 * 36, 4 * 27));
    assert!(survey.index_files > 1);
    // A killed one has none but what the next start mends.
    rig.open();
    rig.send("T", 0, 30, "a");
    rig.kill();
    let survey = compare(&rig);
    assert!(survey.findings.iter().all(|found| found.mend.is_harmless()), "{survey:?}");
}

/// The units of delayed messages have times of the table under which they were derived.
#[test]
fn delayed_messages_are_sound_after_a_change_of_the_levels() {
    let mut rig = Rig::new();
    rig.send_with("SCHEDULE_TOPIC_XXXX", 0, &["late".to_owned()], "DELAY\u{1}1");
    rig.stop();
    for levels in ["1s", "1h"] {
        let delay_levels = levels.parse().expect("levels");
        let options = StoreOptions { delay_levels, ..options(&rig.disk) };
        let mut comparison = Comparison::open(options).unwrap();
        let run = rig.log.read_forward(rig.log.bounds().min, usize::MAX).unwrap();
        for (physical, record) in &run.records {
            comparison.record(*physical, record).unwrap();
        }
        let survey = comparison.finish().unwrap();
        assert_eq!((survey.findings, survey.units), (vec![], 1), "{levels}");
    }
}

#[test]
fn every_flipped_bit_of_a_unit_or_an_index_entry_is_found() {
    for folder in ["consumequeue", "index"] {
        let rig = stopped();
        for path in rig.files(folder) {
            let length = rig.disk.open(&path).unwrap().length().unwrap();
            let (mut flips, mut found) = (0, 0);
            for at in (0..length).step_by(7) {
                let mut byte = [0];
                rig.disk.open(&path).unwrap().read_at(&mut byte, at).unwrap();
                if byte == [0] {
                    continue;
                }
                flips += 1;
                rig.disk.flip_bit(&path, at).unwrap();
                found += usize::from(!compare(&rig).findings.is_empty());
                rig.disk.flip_bit(&path, at).unwrap();
            }
            // Times in the index are compared by nobody, nor is the header of a file that is written.
            let most = if folder == "index" { flips * 3 / 5 } else { flips };
            assert!(found >= most, "{}: {found} of {flips}", path.display());
        }
    }
}

#[test]
fn files_that_are_missing_cut_or_foreign_are_named() {
    let rig = stopped();
    let queue = PathBuf::from("store/consumequeue/T/0");
    let mut files = rig.files("consumequeue/T/0");
    files.sort();
    rig.disk.remove(&files[1]).unwrap();
    rig.disk.create(&queue.join("notes.txt")).unwrap();
    rig.disk.create(Path::new("store/index/core")).unwrap();
    let survey = compare(&rig);
    let found = |place: &Path, mend: Mend| {
        survey.findings.iter().any(|found| found.place == place && found.mend == mend)
    };
    assert!(found(&queue, Mend::Derive), "{survey:?}");
    assert!(found(&queue.join("notes.txt"), Mend::MoveAside), "{survey:?}");
    assert!(found(Path::new("store/index/core"), Mend::MoveAside), "{survey:?}");
    assert_eq!(survey.findings.len(), 3, "{survey:?}");
    rig.disk.open(&files[0]).unwrap().set_length(11).unwrap();
    let survey = compare(&rig);
    assert!(survey.findings.iter().any(|found| found.place == files[0]), "{survey:?}");
}

/// A recovery adds the keys of the last message that it kept once more.
#[test]
fn keys_that_a_recovery_added_twice_are_no_damage() {
    let mut rig = stopped();
    let mut files = rig.files("index");
    files.sort();
    rig.disk.flip_bit(&files[1], 40 + 4 * 8 + 20 * 9).unwrap();
    assert_eq!(compare(&rig).findings.len(), 1);
    rig.disk.remove(&files[1]).unwrap();
    rig.open();
    rig.stop();
    assert_eq!(compare(&rig).findings, []);
}
