//! What must not be while a member of the group is a Java broker.

use store::append_log::HEADROOM;

use crate::group::Group;

/// Bytes of the longest entry with its header: Java's DLedger writes entries by a buffer of 4 MiB
/// (`DLedgerMmapFileStore.localEntryBuffer`).
const LONGEST_ENTRY: usize = 4 << 20;

/// Something that a Java member may not be able to read, to dispatch or to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// Records of these lengths in the log.
    Records(&'a [u32]),
    /// A message in light queues. A Java member serves them only where it is configured to, and keeps
    /// their offsets in a table that its slaves alone copy.
    LightQueues,
    /// A topic with this attribute. A Java member makes the queues of a topic that it does not know yet
    /// as simple ones, and does not start again where it learns of another kind.
    Attribute(&'a str, &'a str),
}

/// Refuses what a Java member could not take, while one is known in the group. What is within bounds
/// is told without a look at the members.
///
/// # Errors
/// What the bound is, for people.
pub(crate) fn limits(group: Option<&Group>, wanted: Wanted<'_>) -> Result<(), String> {
    match wanted.beyond_java() {
        Some(text) if group.is_some_and(|group| !group.is_all_ours()) => Err(text),
        _ => Ok(()),
    }
}

impl Wanted<'_> {
    fn beyond_java(self) -> Option<String> {
        match self {
            Self::Records(lengths) => {
                let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
                (longest + HEADROOM > LONGEST_ENTRY).then(|| {
                    format!(
                        "a message of {longest} bytes with its properties is longer than the {} bytes that the Java members of this group take",
                        LONGEST_ENTRY - HEADROOM
                    )
                })
            }
            Self::LightQueues => Some(
                "light queues (INNER_MULTI_DISPATCH) are not written while a member of the group is a Java broker"
                    .to_owned(),
            ),
            Self::Attribute("queue.type", kind) if kind != "SimpleCQ" => Some(format!(
                "queue.type={kind} is not made while a member of the group is a Java broker: it may have made simple queues of the topic and would not start again"
            )),
            Self::Attribute(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_its_header_has_4_mib_at_most() {
        let most = u32::try_from((4 << 20) - HEADROOM).unwrap();
        assert_eq!(Wanted::Records(&[10, most]).beyond_java(), None);
        assert_eq!(Wanted::Records(&[]).beyond_java(), None);
        let told = Wanted::Records(&[most + 1, 10]).beyond_java().unwrap();
        assert!(told.contains("4194256 bytes that the Java members"), "{told}");
    }

    #[test]
    fn light_queues_and_batch_queues_wait_until_no_member_is_java() {
        assert!(Wanted::LightQueues.beyond_java().unwrap().contains("INNER_MULTI_DISPATCH"));
        let kind = |value| Wanted::Attribute("queue.type", value).beyond_java();
        assert_eq!(kind("SimpleCQ"), None);
        assert!(kind("BatchCQ").unwrap().contains("queue.type=BatchCQ"));
        assert_eq!(Wanted::Attribute("message.type", "FIFO").beyond_java(), None);
    }

    #[test]
    fn a_broker_of_its_own_is_not_bound_by_what_java_takes() {
        assert_eq!(limits(None, Wanted::LightQueues), Ok(()));
    }
}
