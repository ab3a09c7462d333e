//! Numbered append files over a disk seam.
//!
//! Every byte that LedgerMQ keeps goes through [`Vfs`], so that a simulated disk ([`SimVfs`]) can
//! lose, tear and refuse it. [`SegmentFiles`] is a log cut into files of one size; [`SmallFile`]
//! replaces a whole file so that a crash leaves the old or the new content.
//!
//! Positions are byte offsets in the concatenation of all files, lengths are bytes.

#![deny(missing_docs)]
#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

mod files;
mod finding;
mod read_only;
mod real;
mod sim;
mod small_file;
mod throttle;
mod vfs;

pub use files::{OpenFilesError, SegmentFiles, WriteError};
pub use finding::{Finding, Mend};
pub use read_only::ReadOnlyVfs;
pub use real::RealVfs;
pub use sim::{Call, Fate, SimVfs, Unsynced};
pub use small_file::{Backup, SmallFile};
pub use throttle::Throttle;
pub use vfs::{LockError, LockGuard, Space, Vfs, VfsFile, read_exact_at, write_all_at};
