//! F6: the log on a disk that something has scribbled on. A start either refuses with a reason, or
//! gives entries that were acknowledged, byte by byte and without a gap between them; and a second
//! start gives the same.

use std::{
    io::IoSlice,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use crash::world::{FILE_SIZE, FOLDER, Setup, World};
use segment::{SimVfs, Vfs};

use crate::input::Input;

/// The bytes are changes of the files of a sound log.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input(data);
    let (sound, before) = sound();
    let disk = sound.after_kill();
    let files = files(&disk);
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        change(&disk, &files, &mut input);
    }
    let Some(first) = entries(&disk, before) else { return };
    let second = entries(&disk.after_kill(), before);
    assert_eq!(Some(first), second, "a second start gives something else");
}

/// A log of a few files, stopped in order, and its entries.
fn sound() -> &'static (SimVfs, Vec<(u64, Bytes)>) {
    static SOUND: OnceLock<(SimVfs, Vec<(u64, Bytes)>)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let disk = SimVfs::new();
        let mut world = World::lead(&disk).unwrap();
        for length in [100, 700, 30, 1500, 900, 1, 2000] {
            world.append(&[length, length / 2 + 1]);
            world.settle();
        }
        world.checkpoint().unwrap();
        let entries = world.entries().unwrap();
        world.engine.close().unwrap();
        (disk, entries)
    })
}

/// All files below the folder of the log.
fn files(disk: &SimVfs) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(FOLDER)];
    while let Some(folder) = open.pop() {
        let names = disk.list(&folder).unwrap_or_default();
        // The lock file is not data.
        found.extend(
            names.iter().filter(|name| !name.contains("lock")).map(|name| folder.join(name)),
        );
        let folders = disk.list_directories(&folder).unwrap_or_default();
        open.extend(folders.iter().map(|name| folder.join(name)));
    }
    found.sort();
    found
}

fn change(disk: &SimVfs, files: &[PathBuf], input: &mut Input<'_>) {
    let kind = input.byte() % 8;
    let path = &files[input.pair() % files.len()];
    let Ok(file) = disk.open(path) else { return };
    let length = file.length().unwrap();
    let at = (input.pair() as u64) % length.max(1);
    let write = |bytes: &[u8]| {
        file.write_at(&[IoSlice::new(bytes)], at).unwrap();
        file.sync_data().unwrap();
    };
    match kind {
        0..=2 => write(input.take(1)),
        3 => write(input.take(8)),
        4 => write(&vec![0; usize::from(input.byte()) * 8]),
        5 => {
            file.set_length(at).unwrap();
            file.sync_data().unwrap();
        }
        6 => {
            disk.remove(path).unwrap();
            disk.sync_directory(path.parent().unwrap_or(Path::new("."))).unwrap();
        }
        _ => write(input.take(usize::from(u8::MAX))),
    }
}

/// What a start gives of the entries that were there: some of them, one behind another.
fn entries(disk: &SimVfs, before: &[(u64, Bytes)]) -> Option<Vec<(u64, Bytes)>> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let world = World::open(&vfs, Setup::default()).ok()?;
    // A damaged entry below what a start looks at is an error when it is read.
    let found = world.entries().ok()?;
    let Some((first, _)) = found.first() else { return Some(found) };
    // A log whose first files are gone is one that retention has shortened.
    let skipped = before.iter().position(|(position, _)| position == first);
    let kept = skipped.and_then(|skipped| before.get(skipped..)).unwrap_or_default();
    for (at, (position, body)) in found.iter().enumerate() {
        let Some((known, bytes)) = kept.get(at) else {
            panic!("an entry at {position} that was never there: {body:?}");
        };
        assert!(position == known, "the entry at {position} is another one");
        assert!(
            body == bytes || has_lost_its_checksums(disk, *position),
            "the entry at {position} has another body"
        );
    }
    Some(found)
}

/// Whether both checksums of an entry were erased, and nothing else of its header. Java writes entries
/// so, also behind ours in one term (see `unchecked_term` in `dledger/src/scan.rs`): nothing in the log
/// tells then what its body was. A record in it has a checksum of its own.
fn has_lost_its_checksums(disk: &SimVfs, position: u64) -> bool {
    let base = position - position % FILE_SIZE;
    let path = Path::new(FOLDER).join("data").join(format!("{base:020}"));
    let mut checksums = [1; 8];
    let read = disk.open(&path).and_then(|file| file.read_at(&mut checksums, position - base + 36));
    matches!(read, Ok(8)) && checksums == [0; 8]
}

const CHANGES_MAX: usize = 4;
