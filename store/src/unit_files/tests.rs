use std::path::PathBuf;

use segment::{SimVfs, Vfs};

use super::*;

fn files(disk: &SimVfs, per_file: u64) -> UnitFiles {
    let handles = Arc::new(Handles::new(Arc::new(disk.clone()), 4));
    let files = UnitFiles::fresh(PathBuf::from("cq/T/0"), 0, per_file, handles);
    files.take_up().unwrap();
    files
}

fn units(from: u64, to: u64) -> Vec<Unit> {
    let unit = |offset| Unit { offset, physical: 48 + offset * 100, size: 52, tags_code: -1 };
    (from..to).map(unit).collect()
}

#[test]
fn units_are_read_back_over_files_and_cuts() {
    let disk = SimVfs::new();
    let queue = files(&disk, 10);
    queue.write(&units(0, 7)).unwrap();
    queue.write(&units(7, 45)).unwrap();
    assert_eq!(queue.read(3, 100).unwrap(), units(3, 45));
    assert_eq!(queue.read(8, 4).unwrap(), units(8, 12));
    assert_eq!(queue.found_next().unwrap(), 45);
    queue.cut_behind(23).unwrap();
    assert_eq!(queue.read(0, 100).unwrap(), units(0, 23));
    queue.cut_before(19).unwrap();
    assert_eq!(files(&disk, 10).read(10, 100).unwrap(), units(10, 23));
    assert_eq!(queue.read(0, 100).unwrap(), []);
    queue.cut_before(23).unwrap();
    assert_eq!(disk.list(&PathBuf::from("cq/T/0")).unwrap(), ["00000000000000000400"]);
    assert_eq!(files(&disk, 10).found_next().unwrap(), 23);
}

/// Java fills the space before the first message of a queue with units of physical offset 0 and
/// size 0x7fffffff.
#[test]
fn a_queue_that_begins_inside_a_file_has_blank_units_before_it() {
    let disk = SimVfs::new();
    let queue = files(&disk, 10);
    queue.write(&units(23, 25)).unwrap();
    let read = queue.read(20, 10).unwrap();
    assert_eq!(read[..3], [Unit::blank(20), Unit::blank(21), Unit::blank(22)]);
    assert_eq!(read[3..], units(23, 25));
    assert_eq!(&Unit::blank(20).encode()[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]);
}

#[test]
fn verify_finds_the_first_unit_that_is_not_what_it_was() {
    let disk = SimVfs::new();
    let queue = files(&disk, 10);
    queue.write(&units(0, 95)).unwrap();
    let last = 48 + 94 * 100;
    assert_eq!(queue.verify(0, 95, last).unwrap(), 95);
    assert_eq!(queue.verify(13, 95, last).unwrap(), 95);
    assert_eq!(queue.verify(0, 95, last + 1).unwrap(), 0, "somebody else wrote the last unit");
    assert_eq!(queue.verify(0, 97, last).unwrap(), 95, "two units are missing");
    let mut stale = units(80, 81);
    stale[0].physical = 7;
    queue.write(&stale).unwrap();
    assert_eq!(queue.verify(0, 95, last).unwrap(), 80, "a message before its predecessor");
    disk.remove(&PathBuf::from("cq/T/0/00000000000000000600")).unwrap();
    let queue = files(&disk, 10);
    assert_eq!(queue.verify(0, 95, last).unwrap(), 30, "the middle file is missing");
}

/// The units that Java wrote for the first entries of its DLedger sample.
#[test]
fn units_of_java_are_read() {
    let java = include_bytes!("../../testdata/dledger-cq-DlNormal-0-n0.bin");
    let disk = SimVfs::new();
    disk.create_directory(&PathBuf::from("cq/T/0")).unwrap();
    let file = disk.create(&PathBuf::from("cq/T/0/00000000000000000000")).unwrap();
    write_all_at(&*file, &mut [IoSlice::new(java)], 0).unwrap();
    let queue = files(&disk, 300_000);
    assert_eq!(file.length().unwrap(), 6_000_000);
    let read = queue.read(0, 100).unwrap();
    assert_eq!(read[0], Unit { offset: 0, physical: 48, size: 279, tags_code: 2_598_919 });
    assert_eq!(queue.found_next().unwrap(), read.len() as u64);
    let bytes: Vec<u8> = read.iter().flat_map(Unit::encode).collect();
    assert_eq!(bytes, java[..bytes.len()]);
}
