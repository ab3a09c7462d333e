//! `ledgermq store verify` and `repair` on data folders with damage of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod process;

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use process::{SMALL, Server, ledgermq, small_files};

/// A data folder of a broker that was stopped, with 600 messages.
fn stopped(folder: &Path) -> PathBuf {
    let mut server = Server::with_small_files(folder);
    let lines: String = (0..600).map(|n| format!("message {n}\n")).collect();
    server.run_with_input(&["send", "T", "--key", "k", "--json"], &lines);
    server.run_until(&["consume", "T", "--body"], |seen| seen.lines().count() == 600);
    server.stop();
    folder.join("ledgermq-data")
}

fn store(command: &str, data: &Path, more: &[&str]) -> (bool, serde_json::Value, String) {
    let mut arguments = vec!["store".to_owned(), command.to_owned()];
    arguments.extend([data.to_str().unwrap().to_owned(), "--json".to_owned()]);
    arguments.extend(small_files());
    arguments.extend(more.iter().map(|flag| (*flag).to_owned()));
    let (fine, out, errors) = ledgermq(&arguments, "");
    let last = out.lines().last().unwrap_or("null");
    (fine, serde_json::from_str(last).unwrap_or_default(), errors)
}

fn findings(report: &serde_json::Value) -> Vec<String> {
    let all = report["findings"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|one| format!("{}: {}", one["place"].as_str().unwrap(), one["what"].as_str().unwrap()))
        .collect()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// After a repair: nothing is found, and a broker serves `count` messages.
fn is_whole(folder: &Path, count: usize) {
    let data = folder.join("ledgermq-data");
    let (fine, report, errors) = store("verify", &data, &[]);
    assert!(fine, "{report} {errors}");
    let mut server = Server::with_small_files(folder);
    server.run_until(&["consume", "T", "--body"], |seen| seen.lines().count() == count);
    server.stop();
}

#[test]
fn a_sound_folder_has_no_findings_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = stopped(folder.path());
    let before: Vec<_> = names(&data.join("dledger-n0"));
    let (fine, report, errors) = store("verify", &data, &[]);
    assert!(fine, "{report} {errors}");
    assert_eq!(findings(&report), [""; 0]);
    assert!(report["entries"].as_u64().unwrap() > 600, "{report}");
    assert!(report["units"].as_u64().unwrap() >= 600, "{report}");
    assert!(report["keys"].as_u64().unwrap() >= 1200, "{report}");
    assert!(report["indexFiles"].as_u64().unwrap() > 2, "{report}");
    assert_eq!(names(&data.join("dledger-n0")), before);
    let (fine, out, _) = ledgermq(
        &["store", "verify", data.to_str().unwrap(), "--set", SMALL[3], "--set", SMALL[4]],
        "",
    );
    assert!(fine && out.contains("DAMAGES") || out.contains("damages"), "{out}");
}

#[test]
fn derived_files_and_strays_are_mended() {
    let folder = tempfile::tempdir().unwrap();
    let data = stopped(folder.path());
    let queue = names(&data.join("consumequeue/T")).remove(0);
    let queue_files = names(&queue);
    flip(&queue_files[0], 3);
    let index = names(&data.join("index"));
    flip(&index[1], 40 + 4 * 64 + 20 * 7);
    File::create(data.join("dledger-n0/data/readme.txt")).unwrap();
    fs::create_dir(data.join("consumequeue/T/x")).unwrap();
    File::create(data.join("index/.nfs0001")).unwrap();
    let (fine, report, _) = store("verify", &data, &[]);
    assert!(!fine);
    let found = findings(&report);
    for part in ["consumequeue/T", "index/2", "readme.txt", "T/x", ".nfs0001"] {
        assert!(found.iter().any(|one| one.contains(part)), "{part} is not in {found:#?}");
    }
    let (fine, plan, _) = store("repair", &data, &["--dry-run"]);
    assert!(fine && plan["steps"].as_array().unwrap().len() == 6, "{plan}");
    assert!(!fine || data.join("dledger-n0/data/readme.txt").exists());
    let (fine, report, errors) = store("repair", &data, &[]);
    assert!(fine, "{report} {errors}");
    let aside = names(&data).into_iter().find(|path| path.to_str().unwrap().contains("repaired-"));
    assert!(aside.unwrap().join("dledger-n0/data/readme.txt").exists());
    is_whole(folder.path(), 600);
}

#[test]
fn the_entry_index_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = stopped(folder.path());
    flip(&names(&data.join("dledger-n0/index"))[0], 32 * 20 + 7);
    let (fine, report, _) = store("verify", &data, &[]);
    assert!(!fine);
    assert!(
        findings(&report)[0].contains("1 units differ from their entries, 20 to 20"),
        "{report}"
    );
    let (fine, report, errors) = store("repair", &data, &[]);
    assert!(fine, "{report} {errors}");
    is_whole(folder.path(), 600);
}

#[test]
fn a_rotten_entry_is_given_up_only_when_told_and_then_it_is_said_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let data = stopped(folder.path());
    let files = names(&data.join("dledger-n0/data"));
    assert!(files.len() > 2, "{files:?}");
    flip(&files[1], 1000);
    let (fine, report, _) = store("verify", &data, &[]);
    assert!(!fine);
    let behind = &report["behindDamage"][0];
    assert_eq!(behind["topic"], "T", "{report}");
    let lost = behind["messages"].as_u64().unwrap();
    assert!((100..600).contains(&lost), "{report}");
    // A repair leaves it, and says so.
    let (fine, report, errors) = store("repair", &data, &[]);
    assert!(!fine && errors.contains("1 damages are left"), "{report} {errors}");
    let length = fs::metadata(&files[1]).unwrap().len();
    assert_eq!(length, 65_536);
    let (_, plan, _) = store("repair", &data, &["--accept-loss", "--dry-run"]);
    assert_eq!(plan["lost"][0]["messages"].as_u64(), Some(lost), "{plan}");
    let (fine, report, errors) = store("repair", &data, &["--accept-loss"]);
    assert!(fine, "{report} {errors}");
    let aside = names(&data).into_iter().find(|path| path.to_str().unwrap().contains("repaired-"));
    assert_eq!(names(&aside.unwrap().join("dledger-n0/data")).len(), files.len() - 1);
    // The damaged entry itself is lost as well.
    let kept = 600 - usize::try_from(lost).unwrap() - 1;
    is_whole(folder.path(), kept);
}

#[test]
fn a_folder_in_use_or_without_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::with_small_files(folder.path());
    server.run(&["send", "T", "x"]);
    let data = folder.path().join("ledgermq-data");
    let (fine, _, errors) = store("repair", &data, &[]);
    assert!(!fine && errors.contains("is in use by process"), "{errors}");
    server.stop();
    let (fine, _, errors) = store("verify", folder.path(), &[]);
    assert!(!fine && errors.contains("holds 0 logs"), "{errors}");
}

#[test]
fn damaged_tables_are_told_and_given_up_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = stopped(folder.path());
    let table = data.join("config/consumerOffset.json");
    for path in [table.clone(), data.join("config/consumerOffset.json.bak")] {
        std::io::Write::write_all(&mut File::create(path).unwrap(), b"\0\0\0").unwrap();
    }
    let (fine, report, _) = store("verify", &data, &[]);
    assert!(!fine && findings(&report)[0].contains("config/consumerOffset.json"), "{report}");
    let (fine, _, _) = store("repair", &data, &[]);
    assert!(!fine);
    let (fine, report, errors) = store("repair", &data, &["--accept-loss"]);
    assert!(fine, "{report} {errors}");
    assert!(!table.exists());
    is_whole(folder.path(), 600);
}
