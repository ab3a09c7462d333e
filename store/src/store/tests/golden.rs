//! A log that a Java broker wrote, and the consume queues it derived from it.

use std::path::Path;

use bytes::Bytes;
use protocol::message::record::RecordView;
use segment::{Vfs, read_exact_at};

use super::rig::Rig;
use crate::append_log::HEADROOM;

/// The whole records of the first bytes of a DLedger data file, in order.
fn java_records() -> Vec<Bytes> {
    let data = include_bytes!("../../../testdata/dledger-data-file0-head.bin");
    let mut records = Vec::new();
    let mut at = HEADROOM;
    while let Some(Ok(view)) = data.get(at..).map(RecordView::parse) {
        assert_eq!(view.physical_offset(), at as i64);
        records.push(Bytes::copy_from_slice(view.bytes()));
        at += view.total_size() + HEADROOM;
    }
    records
}

#[test]
fn queues_derived_from_a_log_of_java_are_byte_for_byte_its_own() {
    let mut rig = Rig::new();
    let records = java_records();
    assert!(records.len() > 20, "{}", records.len());
    for record in &records {
        rig.log.append_foreign(|_| record.clone());
    }
    rig.settle();
    let java = include_bytes!("../../../testdata/dledger-cq-DlNormal-0-n0.bin");
    let count = rig.store().max_offset("DlNormal", 0);
    assert!(count > 2, "{count} units");
    rig.check_against_log();
    rig.stop();
    let path = Path::new("store/consumequeue/DlNormal/0/00000000000000000000");
    let mut ours = vec![0; count.min(super::rig::UNITS_PER_FILE) as usize * 20];
    read_exact_at(&*rig.disk.open(path).unwrap(), &mut ours, 0).unwrap();
    assert_eq!(ours, java[..ours.len()]);
}
