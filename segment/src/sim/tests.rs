use super::*;
use crate::{read_exact_at, write_all_at};

fn content(disk: &SimVfs, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    read_exact_at(&*file, &mut bytes, 0).unwrap();
    bytes
}

fn put(file: &Arc<dyn VfsFile>, bytes: &[u8], offset: u64) {
    write_all_at(&**file, &mut [IoSlice::new(bytes)], offset).unwrap();
}

/// A durable file `d/f` of `bytes`.
fn durable(bytes: &[u8]) -> (SimVfs, Arc<dyn VfsFile>) {
    let disk = SimVfs::new();
    let file = disk.create(Path::new("d/f")).unwrap();
    put(&file, bytes, 0);
    file.sync_data().unwrap();
    disk.sync_directory(Path::new("d")).unwrap();
    (disk, file)
}

#[test]
fn a_name_is_lost_until_its_directory_is_synced() {
    let disk = SimVfs::new();
    let file = disk.create(Path::new("d/f")).unwrap();
    put(&file, b"x", 0);
    file.sync_data().unwrap();
    let after = disk.crash(&mut |_| Fate::Drop);
    assert_eq!(after.open(Path::new("d/f")).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.sync_directory(Path::new("d")).unwrap();
    let after = disk.crash(&mut |_| Fate::Drop);
    assert_eq!(content(&after, "d/f"), b"x");
}

#[test]
fn each_unsynced_sector_has_its_own_fate() {
    let (disk, file) = durable(&[0; 3 * SECTOR]);
    put(&file, &[1; 3 * SECTOR], 0);
    assert_eq!(disk.unsynced().len(), 3);
    let mut fates = [Fate::Drop, Fate::Torn, Fate::Keep].into_iter();
    let after = disk.crash(&mut |_| fates.next().unwrap());
    let mut expected = vec![0; SECTOR];
    expected.extend(vec![1; SECTOR / 2]);
    expected.extend(vec![0; SECTOR / 2]);
    expected.extend(vec![1; SECTOR]);
    assert_eq!(content(&after, "d/f"), expected);
    file.sync_data().unwrap();
    assert_eq!(disk.unsynced(), []);
}

#[test]
fn a_failed_sync_loses_what_was_dirty_though_the_next_one_succeeds() {
    let (disk, file) = durable(b"old");
    put(&file, b"new", 0);
    disk.fail(Call::Sync, 0, 1, 5);
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "d/f"), b"new");
    assert_eq!(content(&disk.crash(&mut |_| Fate::Keep), "d/f"), b"old");
}

#[test]
fn a_full_disk_takes_part_of_a_write_then_none() {
    let (disk, file) = durable(&[0; SECTOR]);
    disk.set_room(Some(SECTOR as u64));
    assert_eq!(file.write_at(&[IoSlice::new(&[1; 2 * SECTOR])], 256).unwrap(), SECTOR + 256);
    let refused = file.write_at(&[IoSlice::new(b"x")], 4096).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    file.write_at(&[IoSlice::new(b"overwriting needs no room")], 0).unwrap();
}

#[test]
fn after_the_power_cut_nothing_answers() {
    let (disk, file) = durable(b"old");
    disk.cut_power_after(1);
    put(&file, b"new", 0);
    file.sync_data().unwrap_err();
    file.read_at(&mut [0], 0).unwrap_err();
    let after = disk.crash(&mut |_| Fate::Keep);
    assert_eq!(content(&after, "d/f"), b"new");
}

#[test]
fn a_killed_process_loses_nothing_but_its_locks() {
    let (disk, file) = durable(b"old");
    put(&file, b"new", 0);
    let held = disk.lock(Path::new("d/lock")).unwrap();
    disk.lock(Path::new("d/lock")).unwrap_err();
    let after = disk.after_kill();
    assert_eq!(content(&after, "d/f"), b"new");
    assert_eq!(after.boot_id(), disk.boot_id());
    assert_ne!(disk.crash(&mut |_| Fate::Keep).boot_id(), disk.boot_id());
    drop(after.lock(Path::new("d/lock")).unwrap());
    drop(held);
}

#[test]
fn an_observer_sees_cache_and_platter_without_a_call() {
    let (disk, file) = durable(b"old");
    put(&file, b"new", 0);
    let calls = disk.calls();
    let path = Path::new("d/f");
    assert_eq!(disk.peek(path, (0, 3), <[u8]>::to_vec).unwrap(), b"new");
    assert_eq!(disk.peek_durable(path, (0, 3), <[u8]>::to_vec).unwrap(), b"old");
    assert_eq!(disk.peek(path, (1, 3), <[u8]>::to_vec), None);
    assert_eq!(disk.peek(Path::new("d/g"), (0, 1), <[u8]>::to_vec), None);
    assert_eq!(disk.durable_content(path).unwrap(), b"old");
    assert_eq!(disk.calls(), calls);
}

#[test]
fn a_healed_disk_works_and_one_without_power_stays_dark() {
    let (disk, file) = durable(&[0; SECTOR]);
    disk.set_room(Some(0));
    disk.fail(Call::Sync, 0, 9, 5);
    disk.cut_power_after(100);
    disk.heal();
    put(&file, &[1; 2 * SECTOR], 0);
    file.sync_data().unwrap();
    disk.cut_power_after(0);
    file.sync_data().unwrap_err();
    disk.heal();
    assert!(disk.is_dark());
}

#[test]
fn a_disk_that_was_wiped_or_rolled_back_runs_in_a_new_boot() {
    let (disk, _file) = durable(b"old");
    let copy = disk.after_kill();
    let now = disk.crash(&mut |_| Fate::Keep).crash(&mut |_| Fate::Keep);
    assert_eq!(now.wiped().paths(), Vec::<PathBuf>::new());
    assert_eq!(now.wiped().boots(), 3);
    copy.boot_after(now.boots());
    assert_eq!((copy.boots(), content(&copy, "d/f")), (3, b"old".to_vec()));
}

#[test]
fn a_file_without_a_name_takes_no_room_in_the_disk_after_a_crash() {
    let (disk, file) = durable(b"old");
    disk.remove(Path::new("d/f")).unwrap();
    assert_eq!(content(&disk.crash(&mut |_| Fate::Drop), "d/f"), b"old");
    disk.sync_directory(Path::new("d")).unwrap();
    let after = disk.crash(&mut |_| Fate::Keep);
    assert_eq!(after.disk().used_bytes(), 0);
    drop(file);
}
