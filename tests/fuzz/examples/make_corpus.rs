//! Writes the corpus anew, but for the inputs that broke something once: their names begin with
//! `broke-`. Its sources are recorded bytes of Java processes (`tests/golden/data`) and small
//! values made here.
//!
//!     cargo run -p fuzz-targets --example make_corpus

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("../golden/data");
    let corpus = Corpus(root.join("corpus"));
    for target in fuzz_targets::TARGETS {
        corpus.clear(target.name)?;
    }
    frames(&corpus, &golden)?;
    records(&corpus, &golden)?;
    members(&corpus, &golden)?;
    texts(&corpus, &golden)?;
    small(&corpus)
}

struct Corpus(PathBuf);

impl Corpus {
    fn clear(&self, target: &str) -> Result<(), Failed> {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with("broke-") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn write(&self, target: &str, name: &str, bytes: &[u8]) -> Result<(), Failed> {
        let mut file = fs::File::create(self.0.join(target).join(name))?;
        Ok(file.write_all(bytes)?)
    }
}

/// One recorded frame for each code and side, where it is short; its header alone, too.
fn frames(corpus: &Corpus, golden: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(golden.join("remoting-frames.jsonl"))?;
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let pair: Value = serde_json::from_str(line)?;
        for side in ["request", "response"] {
            let Some(hex) = pair[format!("{side}_hex")].as_str() else { continue };
            let bytes = unhex(hex)?;
            let code = &pair["code"];
            if bytes.len() > 700 || seen.len() > 120 || !seen.insert(format!("{side}-{code}")) {
                continue;
            }
            let name = format!("{side}-{code}");
            corpus.write("frame", &name, &[&[7], &bytes[..]].concat())?;
            let word = bytes.get(4..8).ok_or("a short frame")?;
            let length = usize::from(word[2]) << 8 | usize::from(word[3]);
            let header = bytes.get(8..8 + length).ok_or("a short header")?;
            corpus.write("header", &name, &[&[word[0]], header].concat())?;
        }
    }
    Ok(())
}

/// The first bytes of recorded logs, and each of their first records.
fn records(corpus: &Corpus, golden: &Path) -> Result<(), Failed> {
    for file in ["plain-commitlog-head.bin", "vec-commitlog-v1-v2-ipv6-crc32.bin"] {
        let bytes = fs::read(golden.join(file))?;
        let mut at = 0;
        for n in 0..4 {
            let Some(word) = bytes.get(at..at + 4) else { break };
            let length = u32::from_be_bytes(word.try_into()?) as usize;
            let Some(record) = bytes.get(at..at + length) else { break };
            let stem = file.trim_end_matches(".bin");
            corpus.write("record", &format!("{stem}-{n}"), record)?;
            at += length;
        }
    }
    corpus.write(
        "record",
        "batch",
        &[0, 0, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, b'a', b'b', b'c', 0, 0],
    )
}

/// Bodies of members that are at least to be there, of both sides.
const BODIES: usize = 15;

/// Recorded bodies of members, some of them as one conversation, and entries of a data file.
fn members(corpus: &Corpus, golden: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(golden.join("dledger-rpc-frames.jsonl"))?;
    let mut bodies: Vec<String> = Vec::new();
    for line in text.lines() {
        let frame: Value = serde_json::from_str(line)?;
        let body = frame["body_text"].as_str().ok_or("a frame without a body")?;
        if body.len() <= 1_300 {
            bodies.push(body.to_owned());
        }
    }
    if bodies.len() < BODIES {
        return Err(format!("{} bodies of members, {BODIES} expected", bodies.len()).into());
    }
    for (nth, body) in bodies.iter().enumerate() {
        corpus.write("member", &format!("json-{}", nth + 1), body.as_bytes())?;
    }
    bodies.retain(|body| body.len() < 400);
    corpus.write("member", "conversation", bodies.join("\n").as_bytes())?;
    let data = fs::read(golden.join("dledger-data-file0-head.bin"))?;
    let length = u32::from_be_bytes(data.get(4..8).ok_or("a short file")?.try_into()?) as usize;
    let entry = data.get(..length).ok_or("a short entry")?;
    corpus.write("member", "entry", entry)
}

fn texts(corpus: &Corpus, golden: &Path) -> Result<(), Failed> {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    for file in ["standalone.conf", "dledger/broker-n0.conf"] {
        let text = fs::read_to_string(conf.join(file))?;
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        let name = file.replace('/', "-");
        corpus.write("config", &name, lines.join("\n").as_bytes())?;
    }
    let small = ["delayOffset.json", "consumerOffset.json", "topicQueueMapping.json"];
    for file in small {
        let bytes = fs::read(golden.join(file))?;
        corpus.write("config", file, bytes.get(..bytes.len().min(900)).unwrap_or_default())?;
    }
    for (name, text) in [
        ("change", "traceOn=false\nmaxMessageSize=1000"),
        ("fixed", "listenPort=1"),
        ("names", "listenPort=9877\norderMessageEnable=true\nkvConfigPath=x"),
        (
            "heartbeat",
            "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":\"CONSUME_PASSIVELY\"}]}",
        ),
        (
            "topics",
            "{\"dataVersion\":{\"counter\":1},\"topicConfigTable\":{\"T\":{\"attributes\":{},\"perm\":6,\"topicName\":\"T\"}}}",
        ),
        ("queues", "{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"T\"}:5}}"),
    ] {
        corpus.write("config", name, text.as_bytes())?;
    }
    for (name, text) in [
        (
            "message",
            "UNIQ_KEY\u{1}7F0000010000\u{2}TAGS\u{1}a\u{2}KEYS\u{1}k l\u{2}__CRC32#\u{1}123\u{2}",
        ),
        ("twice", "a\u{1}b\u{2}a\u{1}c\u{2}\u{1}\u{2}"),
        ("file", "a=b\\\n  c\n\\u00fc : x\n#no\nkey value \r\nlast"),
        ("id", "7F00000100002A9F0000000000000010"),
        ("topic", "%RETRY%group-1"),
    ] {
        corpus.write("properties", name, text.as_bytes())?;
    }
    Ok(())
}

/// Changes of a log, and requests: bytes of which targets make choices.
fn small(corpus: &Corpus) -> Result<(), Failed> {
    for (name, bytes) in [
        ("nothing", &[][..]),
        ("a-byte", &[0, 0, 1, 0, 200, 255]),
        ("a-word", &[3, 0, 2, 1, 44, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("zeros", &[4, 0, 1, 2, 0, 20]),
        ("cut", &[5, 0, 1, 3, 0]),
        ("removed", &[6, 0, 3, 0, 0]),
        ("two", &[0, 0, 0, 0, 1, 7, 5, 0, 4, 0, 30]),
    ] {
        corpus.write("log", name, bytes)?;
    }
    let mut state = 1_u32;
    for n in 0..12 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            // A linear congruence (Numerical Recipes).
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(160)
        .collect();
        corpus.write("requests", &format!("choices-{n}"), &bytes)?;
    }
    Ok(())
}

fn unhex(text: &str) -> Result<Vec<u8>, Failed> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
