//! `ledgermq store export` and `import`: what was copied to the form of a Java broker and back is
//! served as before.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod process;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use process::{Server, ledgermq, small_files};

/// Runs `ledgermq store COMMAND FROM --to TO`.
fn convert(command: &str, from: &Path, to: &Path) -> (bool, serde_json::Value, String) {
    let mut arguments = vec!["store".to_owned(), command.to_owned()];
    arguments.extend([from.to_str().unwrap().to_owned(), "--json".to_owned()]);
    arguments.extend(["--to".to_owned(), to.to_str().unwrap().to_owned()]);
    arguments.extend(small_files());
    let (fine, out, errors) = ledgermq(&arguments, "");
    (fine, serde_json::from_str(out.trim()).unwrap_or_default(), errors)
}

/// All that clients see of the messages of a topic: queues, offsets, times, properties and bodies.
fn seen(server: &mut Server, topic: &str, count: usize) -> BTreeSet<String> {
    let out = server.run_until(&["consume", topic, "--json"], |seen| seen.lines().count() == count);
    let lines = out.lines().map(|line| {
        let mut told: serde_json::Value = serde_json::from_str(line).unwrap();
        let told = told.as_object_mut().unwrap();
        // These name the physical offset, which is another in the copy.
        told.remove("offsetMsgId");
        told.remove("physicalOffset");
        serde_json::to_string(told).unwrap()
    });
    lines.collect()
}

fn names(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_copied_there_and_back_is_served_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::with_small_files(folder.path());
    let lines: String = (0..600).map(|n| format!("message {n}\n")).collect();
    server.run_with_input(&["send", "T", "--key", "k", "--tag", "t", "--json"], &lines);
    server.run_with_input(&["send", "Gone", "--json"], "one\ntwo\n");
    server.run(&["admin", "topic", "delete", "Gone"]);
    let before = seen(&mut server, "T", 600);
    server.stop();

    let data = folder.path().join("ledgermq-data");
    let there = folder.path().join("plain");
    let (fine, report, errors) = convert("export", &data, &there);
    assert!(fine, "{report} {errors}");
    assert_eq!(report["queued"], 600, "{report}");
    assert_eq!(report["deleted"], 2, "{report}");
    assert!(report["journal"].as_u64().unwrap() >= 1, "{report}");
    assert_eq!(report["mappedFileSizeCommitLog"], 65_536, "{report}");
    assert!(names(&there.join("commitlog")).len() > 1);
    for left_out in ["abort", "derived.mark", "dledger-n0", "identity"] {
        assert!(!there.join(left_out).exists(), "{left_out}");
    }
    for copied in ["checkpoint", "consumequeue/T", "config/topics.json", "index"] {
        assert!(there.join(copied).exists(), "{copied}");
    }

    let other = tempfile::tempdir().unwrap();
    let back = other.path().join("ledgermq-data");
    let (fine, report, errors) = convert("import", &there, &back);
    assert!(fine, "{report} {errors}");
    assert_eq!((&report["queued"], &report["deleted"]), (&600.into(), &0.into()), "{report}");
    let (fine, out, errors) = ledgermq(
        &[
            vec!["store".to_owned(), "verify".to_owned(), back.to_str().unwrap().to_owned()],
            small_files(),
        ]
        .concat(),
        "",
    );
    assert!(fine, "{out} {errors}");
    let mut server = Server::with_small_files(other.path());
    assert_eq!(seen(&mut server, "T", 600), before);
    server.run_with_input(&["send", "T", "--json"], "one more\n");
    seen(&mut server, "T", 601);
    server.stop();
}

#[test]
fn a_native_log_is_read_in_front() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::with_small_files(folder.path());
    let lines: String = (0..300).map(|n| format!("message {n}\n")).collect();
    server.run_with_input(&["send", "T", "--key", "k", "--json"], &lines);
    let before = seen(&mut server, "T", 300);
    server.stop();
    let other = tempfile::tempdir().unwrap();
    let data = other.path().join("ledgermq-data");
    let (fine, report, errors) = convert("export", &folder.path().join("ledgermq-data"), &data);
    assert!(fine, "{report} {errors}");

    // The folder is now that of a plain Java broker.
    let mut server = Server::with_small_files(other.path());
    assert_eq!(seen(&mut server, "T", 300), before);
    server.run_with_input(&["send", "T", "--json"], &lines);
    let both = seen(&mut server, "T", 600);
    assert!(both.is_superset(&before));
    server.kill();
    let mut server = Server::with_small_files(other.path());
    assert_eq!(seen(&mut server, "T", 600), both);
    server.stop();
    let places = |folder: &str| names(&data.join(folder)).len();
    assert!(places("commitlog") > 0 && places("dledger-n0/data") > 1);
    fs::remove_file(data.join("derived.mark")).unwrap();
    let mut server = Server::with_small_files(other.path());
    assert_eq!(seen(&mut server, "T", 600), both);
    server.stop();

    let verify = [
        vec!["store".to_owned(), "verify".to_owned(), data.to_str().unwrap().to_owned()],
        small_files(),
    ];
    let (fine, out, errors) = ledgermq(&verify.concat(), "");
    assert!(fine, "{out} {errors}");
    let there = other.path().join("plain");
    let (fine, report, errors) = convert("export", &data, &there);
    assert!(fine && report["queued"] == 600, "{report} {errors}");
    let repair = [
        vec!["store".to_owned(), "repair".to_owned(), data.to_str().unwrap().to_owned()],
        small_files(),
    ];
    let (fine, out, errors) = ledgermq(&repair.concat(), "");
    assert!(fine, "{out} {errors}");
    let mut server = Server::with_small_files(other.path());
    assert_eq!(seen(&mut server, "T", 600), both);
    server.stop();
}

#[test]
fn what_cannot_be_copied_is_refused_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("plain");
    let mut server = Server::with_small_files(folder.path());
    server.run_with_input(&["send", "T", "--json"], "one\n");
    let data = folder.path().join("ledgermq-data");
    let refused = |what: &str, from: &Path, to: &Path, word: &str| {
        let (fine, report, errors) = convert(what, from, to);
        assert!(!fine && errors.contains(word), "{what} {}: {report} {errors}", to.display());
    };
    refused("export", &data, &to, "in use by process");
    server.kill();
    refused("export", &data, &to, "was not stopped in order");
    Server::with_small_files(folder.path()).stop();
    let before = names(folder.path());
    refused("export", &data, &data.join("plain"), "lies within the data folder");
    refused("export", &data, folder.path(), "is there already");
    refused("import", &data, &to, "holds no commit log");
    fs::create_dir(folder.path().join("plain.part")).unwrap();
    refused("export", &data, &to, "left by a run that was interrupted");
    fs::remove_dir(folder.path().join("plain.part")).unwrap();
    // Nothing of what was refused is left.
    assert_eq!(names(folder.path()), before);
}
