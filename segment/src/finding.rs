//! What a look through data on disk found.

use std::{fmt, path::PathBuf};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or folder.
    pub place: PathBuf,
    /// Where in it, or in the log; `None` where it is the whole.
    pub position: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What becomes of it.
    pub mend: Mend,
}

/// What mends a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// The next start, as after any crash: this is no damage.
    Start,
    /// A repair makes it again from the log.
    Derive,
    /// A repair moves it aside.
    MoveAside,
    /// Nothing makes it again here: a copy or another member of the group has it, or it is given up.
    Lost,
}

impl Mend {
    /// Whether the data is sound all the same.
    #[must_use]
    pub fn is_harmless(self) -> bool {
        self == Self::Start
    }
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "nothing to do: the next start mends it",
            Self::Derive => "`ledgermq store repair` makes it again from the log",
            Self::MoveAside => "`ledgermq store repair` moves it aside",
            Self::Lost => {
                "bring it back from a copy, or let another member of the group give it; see `ledgermq store repair --accept-loss`"
            }
        })
    }
}
