use protocol::message::record::records;
use segment::{SimVfs, write_all_at};

use super::*;
use crate::memory_log::test_record;

const FILE_SIZE: u64 = 4096;

fn disk() -> Arc<dyn Vfs> {
    Arc::new(SimVfs::new())
}

/// A log of `count` messages of different lengths, and what was appended.
fn written(vfs: &Arc<dyn Vfs>, count: u64) -> Vec<(u64, Vec<u8>)> {
    let mut writer = NativeWriter::create(Arc::clone(vfs), "commitlog".into(), FILE_SIZE).unwrap();
    let mut appended = Vec::new();
    for n in 0..count {
        let body = vec![b'x'; usize::try_from(n * 37 % 500).unwrap()];
        let mut record = test_record("T", 0, &body, "").to_vec();
        let physical = writer.append(&mut record, Some(n)).unwrap();
        appended.push((physical, record));
    }
    writer.finish().unwrap();
    appended
}

fn read_all(log: &NativeLog, max_bytes: usize) -> Vec<(u64, Vec<u8>)> {
    let (mut at, end) = log.range();
    let mut all = Vec::new();
    while at < end {
        let run = AppendLog::<()>::read_forward(log, at, max_bytes).unwrap();
        assert!(!run.records.is_empty() || run.next == end, "nothing at {at}");
        all.extend(run.records.into_iter().map(|(at, record)| (at, record.to_vec())));
        at = run.next;
    }
    all
}

#[test]
fn what_is_written_is_read_back_over_many_files() {
    let vfs = disk();
    let appended = written(&vfs, 200);
    let log = NativeLog::open(&vfs, Path::new("commitlog")).unwrap();
    assert_eq!((log.file_size(), log.range().0), (FILE_SIZE, FILE_SIZE));
    assert!(log.range().1 > 10 * FILE_SIZE, "{:?}", log.range());
    for max_bytes in [1, 700, 1 << 20] {
        assert!(read_all(&log, max_bytes) == appended, "read by {max_bytes}");
    }
    for (physical, record) in &appended {
        let view = RecordView::parse(record).unwrap();
        assert_eq!(view.physical_offset().cast_unsigned(), *physical);
        let size = u32::try_from(record.len()).unwrap();
        assert_eq!(AppendLog::<()>::read(&log, *physical, size).unwrap(), record);
        assert!(AppendLog::<()>::read(&log, *physical + 4, size).is_err());
    }
    let beyond = AppendLog::<()>::read_unsized(&log, log.range().1);
    assert!(matches!(beyond, Err(ReadError::OutOfRange { .. })), "{beyond:?}");
}

#[test]
fn a_file_ends_as_java_ends_it() {
    let vfs = disk();
    let appended = written(&vfs, 20);
    let (last, record) = appended.iter().rev().find(|(at, _)| *at < 2 * FILE_SIZE).unwrap();
    let behind = last + record.len() as u64 - FILE_SIZE;
    let file = vfs.open(Path::new("commitlog/00000000000000004096")).unwrap();
    let mut head = [0; 8];
    segment::read_exact_at(&*file, &mut head, behind).unwrap();
    // Length of the rest, then the magic: the other way round than in DLedger.
    let rest = u32::try_from(FILE_SIZE - behind).unwrap();
    assert_eq!(head[..4], rest.to_be_bytes());
    assert_eq!(head[4..], [0xcb, 0xd4, 0x31, 0x94]);
}

#[test]
fn what_java_wrote_is_read() {
    let sample = include_bytes!("../../testdata/plain-commitlog-head.bin");
    let whole: Vec<_> =
        records(sample).map_while(Result::ok).map(|view| view.total_size()).collect();
    let end = whole.iter().sum::<usize>();
    assert!(whole.len() > 5 && end < sample.len(), "{whole:?}");
    let vfs = disk();
    vfs.create_directory(Path::new("commitlog")).unwrap();
    // The second file is the one that Java makes ahead.
    for name in ["00000000000000000000", "00000000000001048576"] {
        let file = vfs.create(&Path::new("commitlog").join(name)).unwrap();
        file.set_length(1 << 20).unwrap();
        if name.ends_with("0000000") {
            write_all_at(&*file, &mut [IoSlice::new(&sample[..end])], 0).unwrap();
        }
    }
    let log = NativeLog::open(&vfs, Path::new("commitlog")).unwrap();
    assert_eq!(log.range(), (0, end as u64));
    assert_eq!(read_all(&log, 1000).len(), whole.len());
}

#[test]
fn what_is_torn_or_missing_is_told() {
    let vfs = disk();
    let missing = NativeLog::open(&vfs, Path::new("commitlog"));
    assert!(matches!(missing, Err(NativeError::Missing { .. })), "{missing:?}");
    let appended = written(&vfs, 100);
    let open = || NativeLog::open(&vfs, Path::new("commitlog"));
    let (last, record) = appended.last().unwrap();
    let name = format!("commitlog/{:020}", last - last % FILE_SIZE);
    let file = vfs.open(Path::new(&name)).unwrap();
    let behind = last % FILE_SIZE + record.len() as u64;
    write_all_at(&*file, &mut [IoSlice::new(b"half of a message")], behind).unwrap();
    let torn = open();
    let expected = last + record.len() as u64;
    assert!(
        matches!(torn, Err(NativeError::Torn { position, .. }) if position == expected),
        "{torn:?}"
    );
    write_all_at(&*file, &mut [IoSlice::new(&[0; 17])], behind).unwrap();
    // Damage in the middle is met when it is read.
    let first = vfs.open(Path::new("commitlog/00000000000000004096")).unwrap();
    write_all_at(&*first, &mut [IoSlice::new(&[9; 8])], 0).unwrap();
    let log = open().unwrap();
    let damaged = AppendLog::<()>::read_forward(&log, FILE_SIZE, 100);
    assert!(matches!(damaged, Err(ReadError::Damaged { position: FILE_SIZE, .. })), "{damaged:?}");
}

#[test]
fn a_record_that_no_file_can_hold_is_refused() {
    let mut writer = NativeWriter::create(disk(), "commitlog".into(), FILE_SIZE).unwrap();
    let mut record = test_record("T", 0, &vec![0; 4000], "").to_vec();
    assert!(matches!(writer.append(&mut record, None), Err(WriteNativeError::TooLong { .. })));
}

#[test]
fn a_sealed_log_ends_with_a_file_and_is_trimmed_to_nothing() {
    let vfs = disk();
    let appended = written(&vfs, 50);
    let (last, record) = appended.last().unwrap();
    let end = last + record.len() as u64;
    let name = format!("commitlog/{:020}", last - last % FILE_SIZE);
    let file = vfs.open(Path::new(&name)).unwrap();
    // A message that a crash has torn, and the file that Java has made ahead.
    write_all_at(&*file, &mut [IoSlice::new(&record[..40])], end % FILE_SIZE).unwrap();
    let ahead = format!("commitlog/{:020}", last - last % FILE_SIZE + FILE_SIZE);
    vfs.create(Path::new(&ahead)).unwrap().set_length(FILE_SIZE).unwrap();
    let mut log = NativeLog::open_torn(&vfs, Path::new("commitlog")).unwrap();
    assert_eq!(log.range().1, end);
    let sealed = log.seal().unwrap();
    assert_eq!(sealed, last - last % FILE_SIZE + FILE_SIZE);
    assert!(read_all(&log, 1000) == appended);
    let mut again = NativeLog::open(&vfs, Path::new("commitlog")).unwrap();
    assert_eq!((again.range(), again.seal().unwrap()), (log.range(), sealed));
    assert!(read_all(&again, 1000) == appended);
    assert_eq!(again.trim(3 * FILE_SIZE - 1).unwrap(), 2 * FILE_SIZE);
    assert_eq!(again.trim(sealed).unwrap(), sealed);
    assert_eq!(vfs.list(Path::new("commitlog")).unwrap(), [""; 0]);
}
