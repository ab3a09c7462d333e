//! What each member is, as far as is known, and the file that remembers it.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use dledger_core::PeerKind;
use segment::{Backup, SmallFile, Vfs};

use crate::wire::capability::{Introduction, Mismatch, Own};

/// Knowledge of members, and what was told of it to the engine.
#[derive(Debug)]
pub(super) struct Kinds {
    told: HashMap<String, PeerKind>,
    /// What to remember: `ledgermq` or `java`.
    words: BTreeMap<String, &'static str>,
    /// Where members serve their own clients, as they said last.
    clients: HashMap<String, String>,
    /// Mismatches that were logged already.
    complained: HashMap<String, Mismatch>,
    file: Option<SmallFile>,
    /// `words` is not in the file yet.
    unsaved: bool,
}

/// What is known of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub id: String,
    /// What it is, with its capability while there is a connection to it.
    pub kind: PeerKind,
    /// It was a Java member when it was last spoken to.
    pub is_java: bool,
    /// Where it serves its own clients, `host:port`, if it has said so.
    pub client: Option<String>,
}

/// A longer address of a member is not kept: names of hosts have 253 characters at most.
const MOST_ADDRESS_BYTES: usize = 300;
const OURS: &str = "ledgermq";
const JAVA: &str = "java";

impl Kinds {
    /// Reads what the last run knew. A file that cannot be read says nothing.
    pub(super) fn load(file: Option<(Arc<dyn Vfs>, PathBuf)>) -> Self {
        let file = file.map(|(vfs, path)| SmallFile::new(vfs, path, Backup::None));
        let mut words = BTreeMap::new();
        match file.as_ref().map(SmallFile::load).transpose() {
            Ok(content) => {
                let content = content.flatten().unwrap_or_default();
                for line in String::from_utf8_lossy(&content).lines() {
                    match line.split_once('=') {
                        Some((id, OURS)) => words.insert(id.to_owned(), OURS),
                        Some((id, JAVA)) => words.insert(id.to_owned(), JAVA),
                        _ => continue,
                    };
                }
            }
            Err(error) => tracing::warn!(%error, "what members were is not known"),
        }
        Self {
            told: HashMap::new(),
            words,
            clients: HashMap::new(),
            complained: HashMap::new(),
            file,
            unsaved: false,
        }
    }

    /// What the last run knew of a member.
    pub(super) fn remembered(&self, id: &str) -> PeerKind {
        match self.words.get(id) {
            Some(&JAVA) => PeerKind::Java,
            // Without its capability it counts as a node like this one.
            _ => PeerKind::Unknown,
        }
    }

    /// Notes what a vote, a heartbeat or the answer to one said; gives what is new.
    ///
    /// # Errors
    /// The member does not fit into the group; it was logged.
    pub(super) fn learn(
        &mut self,
        id: &str,
        own: Option<&Own>,
        introduction: &Introduction,
    ) -> Result<Option<PeerKind>, Mismatch> {
        let Some(own) = own else { return Ok(self.note(id, PeerKind::Java)) };
        match introduction.accept(own) {
            Ok(capability) => {
                self.complained.remove(id);
                self.note_client(id, own.client.as_deref());
                Ok(self.note(id, PeerKind::Own(capability)))
            }
            Err(mismatch) => {
                if self.complained.get(id) != Some(&mismatch) {
                    tracing::error!(
                        peer = id,
                        "this member does not fit into the group: {mismatch}"
                    );
                    self.complained.insert(id.to_owned(), mismatch.clone());
                }
                Err(mismatch)
            }
        }
    }

    /// Notes that a member is Java: it does not know a request code of ours.
    pub(super) fn learn_java(&mut self, id: &str) -> Option<PeerKind> {
        self.note(id, PeerKind::Java)
    }

    /// Notes that the connection to a member was closed.
    pub(super) fn gone(&mut self, id: &str) -> Option<PeerKind> {
        let told = self.told.get_mut(id)?;
        if *told == PeerKind::Gone {
            return None;
        }
        *told = PeerKind::Gone;
        Some(PeerKind::Gone)
    }

    /// What is known of a member now.
    pub(super) fn known(&self, id: &str) -> Known {
        let told = self.told.get(id).copied();
        Known {
            id: id.to_owned(),
            kind: told.unwrap_or_else(|| self.remembered(id)),
            is_java: self.is_java(id),
            client: self.clients.get(id).cloned(),
        }
    }

    /// The last address stays known when the connection closes: it seldom changes, and a wrong one
    /// is answered with the truth.
    fn note_client(&mut self, id: &str, client: Option<&str>) {
        let client = client.filter(|client| client.len() <= MOST_ADDRESS_BYTES);
        match client {
            Some(client) if self.clients.get(id).is_some_and(|known| known == client) => {}
            Some(client) => drop(self.clients.insert(id.to_owned(), client.to_owned())),
            None => drop(self.clients.remove(id)),
        }
    }

    /// Whether a member is spoken to in Java's form.
    pub(super) fn is_java(&self, id: &str) -> bool {
        self.words.get(id) == Some(&JAVA)
    }

    fn note(&mut self, id: &str, kind: PeerKind) -> Option<PeerKind> {
        if self.told.get(id) == Some(&kind) {
            return None;
        }
        self.told.insert(id.to_owned(), kind);
        let word = if matches!(kind, PeerKind::Java) { JAVA } else { OURS };
        if self.words.insert(id.to_owned(), word) != Some(word) {
            tracing::info!(peer = id, kind = word, "what this member runs");
            self.unsaved = true;
        }
        Some(kind)
    }

    /// What is to be stored, once for each change. Storing waits for the disk.
    pub(super) fn unsaved(&mut self) -> Option<(SmallFile, String)> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let text = self.words.iter().map(|(id, word)| format!("{id}={word}\n")).collect();
        Some((self.file.clone()?, text))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dledger_core::{Capability, Policy, Timings};
    use segment::SimVfs;

    use super::*;

    fn introduction() -> Introduction {
        let capability = Capability { policy: Policy::Flushed, timings: Timings::default() };
        Introduction { client: None, cluster: None, file_size: 4096, capability }
    }

    fn kinds(vfs: &Arc<dyn Vfs>) -> Kinds {
        Kinds::load(Some((Arc::clone(vfs), Path::new("d/peers").to_path_buf())))
    }

    #[test]
    fn what_a_member_is_outlives_a_restart() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let ours = introduction();
        let mut first = kinds(&vfs);
        assert_eq!(first.remembered("n1"), PeerKind::Unknown);
        assert_eq!(first.learn("n1", None, &ours), Ok(Some(PeerKind::Java)));
        assert_eq!(first.learn("n1", None, &ours), Ok(None), "told once");
        let own = PeerKind::Own(ours.capability);
        assert_eq!(first.learn("n2", Some(&ours.to_own()), &ours), Ok(Some(own)));
        assert_eq!(first.known("n2").client, None);
        let theirs = Own { client: Some("h:10911".to_owned()), ..ours.to_own() };
        assert_eq!(first.learn("n2", Some(&theirs), &ours), Ok(None), "nothing for the engine");
        assert_eq!(first.known("n2").client.as_deref(), Some("h:10911"));
        assert!(first.is_java("n1") && !first.is_java("n2"));
        let (file, text) = first.unsaved().unwrap();
        assert_eq!(text, "n1=java\nn2=ledgermq\n");
        file.store(text.as_bytes()).unwrap();
        assert!(first.unsaved().is_none(), "stored once");
        let second = kinds(&vfs);
        assert_eq!(second.remembered("n1"), PeerKind::Java);
        assert_eq!(second.remembered("n2"), PeerKind::Unknown);
        assert!(second.is_java("n1"));
    }

    #[test]
    fn what_was_learnt_is_void_when_the_connection_closes() {
        let mut kinds = Kinds::load(None);
        let ours = introduction();
        assert_eq!(kinds.gone("n1"), None, "nothing was known");
        assert!(kinds.learn("n1", Some(&ours.to_own()), &ours).is_ok());
        assert_eq!(kinds.gone("n1"), Some(PeerKind::Gone));
        assert_eq!(kinds.gone("n1"), None);
        let again = kinds.learn("n1", Some(&ours.to_own()), &ours);
        assert_eq!(again, Ok(Some(PeerKind::Own(ours.capability))), "told again");
        assert_eq!(kinds.learn_java("n1"), Some(PeerKind::Java));
    }

    #[test]
    fn a_member_with_other_files_is_refused() {
        let mut kinds = Kinds::load(None);
        let ours = introduction();
        let own = Own { file_size: 8192, ..ours.to_own() };
        let expected = Mismatch::FileSize { ours: 4096, theirs: 8192 };
        assert_eq!(kinds.learn("n1", Some(&own), &ours), Err(expected));
        assert_eq!(kinds.gone("n1"), None, "it was never known");
    }
}
