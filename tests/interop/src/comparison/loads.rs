//! The loads of the comparison, by part.

/// Whose client makes the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generator {
    /// `ledgermq bench` with these words.
    Native(&'static str),
    /// `java/Load.java`, on the official Java client, with these words.
    Java(&'static str),
    /// `ledgermq bench` with the first words sends, and with the second ones reads meanwhile what
    /// comes: the figures are the reader's.
    Live(&'static str, &'static str),
}

/// A load. Those of one part run on one broker, one after the other, so that they build on each
/// other.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// For people.
    pub name: &'static str,
    /// Its program; time and address are added.
    pub generator: Generator,
    /// Whether a quick run has it.
    pub quick: bool,
}

/// A part of the comparison that is made of loads.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// Heading of its tables.
    pub heading: &'static str,
    /// Rounds at most.
    pub rounds: u32,
    /// Topics that exist before the broker starts, with one queue each, named `many-N`.
    pub topics: u32,
    /// Its loads.
    pub loads: &'static [Load],
}

const fn native(name: &'static str, words: &'static str, quick: bool) -> Load {
    Load { name, generator: Generator::Native(words), quick }
}

const fn java(name: &'static str, words: &'static str, quick: bool) -> Load {
    Load { name, generator: Generator::Java(words), quick }
}

const fn live(name: &'static str, writer: &'static str, reader: &'static str, quick: bool) -> Load {
    Load { name, generator: Generator::Live(writer, reader), quick }
}

/// Those that both brokers know by the same name.
pub const DURABILITIES: [&str; 2] = ["ASYNC_FLUSH", "SYNC_FLUSH"];

/// The load that the goal of throughput is about.
pub const WINDOW_1000: &str = "send 1 KiB, window 1,000";
/// The load that the goal of bandwidth is about.
pub const LARGE: &str = "send 16 KiB, window 1,000";
/// The load that the goal of latency is about.
pub const STEADY: &str = "end to end, 1 KiB, 1,000 a second";
/// The load that has a reader beside the writer.
pub const LIVE: &str = "read live while they are sent, 1 KiB, window 1,000";
/// The load that the goal of pop consumption is about.
pub const POP: &str = "pop and acknowledge, 32 workers";
/// The loads that the goal of many topics is about.
pub const TOPICS: [&str; 3] = ["1 topic", "100 topics", "10,000 topics"];

/// Every part that is made of loads.
pub const PARTS: &[Part] = &[
    Part {
        name: "core",
        heading: "One topic",
        rounds: u32::MAX,
        topics: 0,
        loads: &[
            native(
                "send 1 KiB, 1 sender",
                "produce --topic s1 --style sync --senders 1 --body 1024",
                false,
            ),
            native(
                "send 1 KiB, 32 senders",
                "produce --topic s1 --style sync --senders 32 --body 1024",
                true,
            ),
            native(
                "send 1 KiB, 128 senders",
                "produce --topic s1 --style sync --senders 128 --body 1024",
                false,
            ),
            native(
                "send 128 B, window 1,000",
                "produce --topic a0 --style async --window 1000 --body 128",
                false,
            ),
            native(WINDOW_1000, "produce --topic a1 --style async --window 1000 --body 1024", true),
            native("read those of 1 KiB from the first", "consume --topic a1 --duration 20s", true),
            native(
                "send 1 KiB, window 10,000",
                "produce --topic a2 --style async --window 10000 --body 1024",
                false,
            ),
            native(LARGE, "produce --topic a16 --style async --window 1000 --body 16384", true),
            native(
                "send 1 KiB, batches of 32, 4 senders",
                "produce --topic b1 --style batch --batch 32 --senders 4 --body 1024",
                false,
            ),
            live(
                LIVE,
                "produce --topic l1 --queues 8 --style async --window 1000 --body 1024",
                "consume --topic l1 --live",
                true,
            ),
            native(STEADY, "e2e --topic e1 --rate 1000 --body 1024", true),
        ],
    },
    Part {
        name: "pop",
        heading: "Pop consumption (1 KiB, 8 queues; pops of 32, a request for the acknowledgement of each message)",
        rounds: u32::MAX,
        topics: 0,
        loads: &[
            native(
                "send what is popped",
                "produce --topic p1 --style async --window 1000 --body 1024",
                true,
            ),
            native(POP, "pop --topic p1 --workers 32 --connections 4", true),
        ],
    },
    Part {
        name: "topics",
        heading: "Many topics (1 KiB, window 1,000; a queue for each of many topics)",
        rounds: 2,
        topics: 10_000,
        loads: &[
            native(TOPICS[0], "produce --topic one --style async --window 1000 --body 1024", true),
            native(
                TOPICS[1],
                "produce --topic many --topics 100 --style async --window 1000 --body 1024",
                false,
            ),
            native(
                TOPICS[2],
                "produce --topic many --topics 10000 --style async --window 1000 --body 1024",
                true,
            ),
        ],
    },
    Part {
        name: "java",
        heading: "As a Java application sees it (official client 5.5.0)",
        rounds: 1,
        topics: 0,
        loads: &[
            java(
                "send 1 KiB, 32 threads",
                "produce --topic js --style sync --threads 32 --body 1024",
                true,
            ),
            java(
                "send 1 KiB, window 1,000",
                "produce --topic ja --style async --window 1000 --body 1024",
                true,
            ),
            java("push consumer, those of 1 KiB", "consume --topic ja", false),
        ],
    },
];

/// The part of this name.
#[must_use]
pub fn part(name: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_goals_find_their_loads() {
        for part in PARTS {
            let mut names: Vec<_> = part.loads.iter().map(|load| load.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), part.loads.len(), "{}", part.name);
            assert!(part.loads.iter().any(|load| load.quick), "{}", part.name);
        }
        assert!(part("pop").unwrap().loads.iter().any(|load| load.name == POP));
        let core = part("core").unwrap();
        for goal in [WINDOW_1000, LARGE, LIVE, STEADY] {
            assert!(core.loads.iter().any(|load| load.name == goal && load.quick), "{goal}");
        }
    }
}
