//! Random operations against a model of queues.

use std::{collections::BTreeMap, path::Path};

use proptest::prelude::*;
use segment::{Fate, Vfs};

use super::rig::{Rig, body};
use crate::append_log::AppendLog;

#[derive(Debug, Clone)]
enum Operation {
    Send { topic: u8, queue: u32, count: u64 },
    Stop,
    Kill,
    PowerCut(u64),
    LoseMark,
    LoseFile(usize),
    DeleteTopic(u8),
    Trim(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..3_u8, 0..2_u32, 1..25_u64)
            .prop_map(|(topic, queue, count)| Operation::Send { topic, queue, count }),
        1 => Just(Operation::Stop),
        2 => Just(Operation::Kill),
        2 => any::<u64>().prop_map(Operation::PowerCut),
        1 => Just(Operation::LoseMark),
        1 => any::<usize>().prop_map(Operation::LoseFile),
        1 => (0..3_u8).prop_map(Operation::DeleteTopic),
        1 => (0..1000_u64).prop_map(Operation::Trim),
    ]
}

/// First and next offset of each queue that was written to.
#[derive(Debug, Default)]
struct Model {
    queues: BTreeMap<(String, u32), (u64, u64)>,
    /// Where each message of each queue lies.
    places: BTreeMap<(String, u32), Vec<u64>>,
    /// Where a queue goes on whose messages have all gone may be known from the mark alone.
    needs_mark: bool,
}

fn apply(rig: &mut Rig, model: &mut Model, operation: &Operation) {
    match operation {
        Operation::Send { topic, queue, count } => {
            let topic = format!("T{topic}");
            let start = rig.log.bounds().committed;
            rig.send(&topic, *queue, *count, "a");
            let run = rig.log.read_forward(start, usize::MAX).unwrap();
            let key = (topic, *queue);
            model.queues.entry(key.clone()).or_default().1 += count;
            let places = run.records.iter().map(|(physical, _)| *physical);
            model.places.entry(key).or_default().extend(places);
        }
        Operation::Stop => {
            rig.stop();
            rig.open();
        }
        Operation::Kill => {
            rig.kill();
            rig.open();
        }
        Operation::PowerCut(seed) => power_cut(rig, *seed),
        Operation::LoseMark if model.needs_mark => {}
        Operation::LoseMark => {
            rig.kill();
            rig.disk.remove(Path::new("store/derived.mark")).unwrap();
            rig.open();
        }
        Operation::LoseFile(which) => {
            rig.kill();
            let files = rig.files("consumequeue");
            if !files.is_empty() {
                rig.disk.remove(&files[which % files.len()]).unwrap();
            }
            rig.open();
        }
        Operation::DeleteTopic(topic) => {
            let topic = format!("T{topic}");
            rig.delete_topic(&topic);
            for ((name, _), (min, next)) in &mut model.queues {
                if *name == topic {
                    *min = *next;
                }
            }
        }
        Operation::Trim(thousandth) => trim(rig, model, *thousandth),
    }
}

fn power_cut(rig: &mut Rig, seed: u64) {
    rig.store = None;
    let mut random = seed | 1;
    rig.disk = rig.disk.crash(&mut |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        [Fate::Keep, Fate::Drop, Fate::Torn][(random >> 60) as usize % 3]
    });
    rig.open();
}

fn trim(rig: &Rig, model: &mut Model, thousandth: u64) {
    let bounds = rig.log.bounds();
    rig.log.trim(bounds.min + (bounds.committed - bounds.min) * thousandth / 1000);
    let min = rig.log.bounds().min;
    model.needs_mark = true;
    rig.store().clean(crate::Moment { now_ms: 0, local_hour: 0, used_ratio: 0.0 });
    for (key, (first, _)) in &mut model.queues {
        let gone = model.places[key].partition_point(|place| *place < min);
        *first = (*first).max(gone as u64);
    }
}

fn compare(rig: &Rig, model: &Model) {
    for ((topic, queue), (min, next)) in &model.queues {
        let read = rig.read_all(topic, *queue);
        let expected: Vec<_> = (*min..*next).map(|at| (at, body(topic, *queue, at))).collect();
        assert_eq!(read, expected, "{topic}/{queue}");
        assert_eq!(rig.store().min_offset(topic, *queue), *min, "{topic}/{queue}");
        assert_eq!(rig.store().max_offset(topic, *queue), *next, "{topic}/{queue}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn queues_follow_their_model(operations in prop::collection::vec(operation(), 1..25)) {
        let mut rig = Rig::new();
        let mut model = Model::default();
        for operation in &operations {
            apply(&mut rig, &mut model, operation);
            compare(&rig, &model);
        }
    }
}
