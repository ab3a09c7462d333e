//! Room on the file systems that hold the data, and whether sends are refused for want of it.
//!
//! One meaning for all `disk*` keys: the used share of the fullest file system that holds data,
//! measured where the data lies: the folder of the log and `storePathRootDir`. One that cannot be
//! measured counts for nothing (Java takes it as full).

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use segment::{Space, Throttle, Vfs};
use tokio::sync::Notify;

use crate::reserve::Reserve;

/// So many percent below the warning level a disk that was above it has room again: the lead shall not
/// go to and fro.
const FREED: f64 = 1.0;
/// What all refusals for want of room begin with; Java's begins alike.
const NOT_AVAILABLE: &str = "service not available now";

/// The disk as the broker sees it.
#[derive(Debug)]
pub(crate) struct Disk {
    vfs: Arc<dyn Vfs>,
    /// Folder of the log, then that of all else.
    folders: [PathBuf; 2],
    reserve: Reserve,
    /// Whether `refusal` holds a text: looked at by every send.
    refusing: AtomicBool,
    /// What was set aside is given up and nothing is deleted yet: sends must not eat it.
    cornered: AtomicBool,
    /// Whether an append found no room and none was stored since.
    no_room: AtomicBool,
    state: Mutex<State>,
    /// Wakes the deletion of old files.
    pub(crate) filled: Notify,
    warned: Throttle,
    unknown: Throttle,
    stuck: Throttle,
}

#[derive(Debug, Default)]
struct State {
    /// The fullest file system that was measured last.
    fullest: Option<Fullest>,
    /// Remark for a send.
    refusal: Option<String>,
    /// It was too full for sends, and is not far below that yet.
    short: bool,
}

/// The fullest file system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fullest {
    /// A folder on it.
    pub(crate) folder: PathBuf,
    /// Its room.
    pub(crate) space: Space,
}

impl Fullest {
    /// Used share from 0 to 1.
    pub(crate) fn used(&self) -> f64 {
        self.space.used_ratio().clamp(0.0, 1.0)
    }
}

impl Disk {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, log: PathBuf, root: PathBuf) -> Self {
        Self {
            vfs,
            reserve: Reserve::new(root.clone()),
            folders: [log, root],
            refusing: AtomicBool::new(false),
            cornered: AtomicBool::new(false),
            no_room: AtomicBool::new(false),
            state: Mutex::default(),
            filled: Notify::new(),
            warned: Throttle::new(),
            unknown: Throttle::new(),
            stuck: Throttle::new(),
        }
    }

    /// Gives up what is set aside where a start would otherwise find no room.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn make_room_for_start(&self) -> std::io::Result<bool> {
        self.reserve.give_up_if_needed(&*self.vfs)
    }

    /// Gives up what is set aside while nothing can be deleted: files of the log stay until a snapshot
    /// of the tables behind them is applied, and that takes room in the derived files.
    pub(crate) fn make_room_for_deletion(&self) {
        match self.reserve.give_up_if_needed(&*self.vfs) {
            Ok(true) => self.cornered.store(true, Ordering::Release),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "what is set aside could not be given up"),
        }
    }

    /// Sets room aside for a later start, where there is plenty.
    pub(crate) fn set_room_aside(&self) {
        self.reserve.keep(&*self.vfs);
    }

    /// Whether the fullest file system is used to `warning` percent or more, by a look of its own.
    pub(crate) fn is_above(&self, warning: u32) -> bool {
        self.measure().is_some_and(|fullest| fullest.used() * 100.0 >= f64::from(warning))
    }

    /// Measures now; `None` where nothing can be measured.
    pub(crate) fn measure(&self) -> Option<Fullest> {
        let mut fullest: Option<Fullest> = None;
        let mut failed = false;
        for folder in &self.folders {
            match self.vfs.space(folder) {
                Ok(space) => {
                    let found = Fullest { folder: folder.clone(), space };
                    if fullest.as_ref().is_none_or(|before| found.used() > before.used()) {
                        fullest = Some(found);
                    }
                }
                Err(error) => {
                    failed = true;
                    self.tell_unknown(folder, &error);
                }
            }
        }
        if !failed {
            self.unknown.over();
        }
        fullest
    }

    /// Measures, and decides whether sends are refused from `warning` percent on. An append that
    /// found no room is tried again after each look. Wakes the deletion from `forced` percent on.
    pub(crate) fn look(&self, warning: u32, forced: u32) {
        let fullest = self.measure();
        let percent = fullest.as_ref().map_or(0.0, |fullest| fullest.used() * 100.0);
        if percent < f64::from(forced.min(warning)) {
            self.cornered.store(false, Ordering::Release);
        }
        let refusal = fullest.as_ref().and_then(|fullest| self.too_full(fullest, warning));
        if percent >= f64::from(forced.min(warning)) {
            self.filled.notify_one();
        }
        match &refusal {
            Some(refusal) => self.warn(refusal),
            None if self.no_room.load(Ordering::Relaxed) => {}
            None => self.recovered(),
        }
        let mut state = self.lock();
        self.refusing.store(refusal.is_some(), Ordering::Release);
        let short = refusal.is_some() || (state.short && percent + FREED > f64::from(warning));
        *state = State { fullest, refusal, short };
    }

    /// Why a disk as full as this takes no sends; the cause that decided is the one that is told.
    fn too_full(&self, fullest: &Fullest, warning: u32) -> Option<String> {
        let percent = fullest.used() * 100.0;
        if percent >= f64::from(warning) {
            return Some(nearly_full(&fullest.folder, percent, warning));
        }
        let cornered = self.cornered.load(Ordering::Acquire);
        cornered.then(|| none_to_spare(&fullest.folder, percent))
    }

    /// An append found no room: sends are refused until the next look.
    pub(crate) fn found_no_room(&self, reason: &str) {
        let [log, _] = &self.folders;
        let refusal = format!(
            "{NOT_AVAILABLE}: no room for the message in {}: {reason}; free some room or send to another broker",
            log.display()
        );
        self.warn(&refusal);
        self.no_room.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        self.refusing.store(true, Ordering::Release);
        state.refusal = Some(refusal);
    }

    /// An append was stored.
    pub(crate) fn stored(&self) {
        if self.no_room.load(Ordering::Relaxed) && self.no_room.swap(false, Ordering::Relaxed) {
            self.recovered();
        }
    }

    /// Why a send is refused; `None` where there is room.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        self.lock().refusal.clone()
    }

    /// Whether this node may lead for its room: it is not too full for sends, nor was it a moment ago.
    pub(crate) fn has_room(&self) -> bool {
        !self.lock().short
    }

    /// The fullest file system at the last look.
    pub(crate) fn fullest(&self) -> Option<Fullest> {
        self.lock().fullest.clone()
    }

    /// Nothing could be deleted though the disk is above `percent`.
    pub(crate) fn tell_stuck(&self, percent: f64, why: &str) {
        if let Some(held_back) = self.stuck.tell(Instant::now()) {
            tracing::warn!(
                used_percent = percent.round(),
                held_back,
                "the disk fills and no file of the log can be deleted: {why}; free some room"
            );
        }
    }

    /// Something was deleted.
    pub(crate) fn unstuck(&self) {
        self.cornered.store(false, Ordering::Release);
        self.stuck.over();
    }

    fn warn(&self, refusal: &str) {
        if let Some(held_back) = self.warned.tell(Instant::now()) {
            tracing::warn!(held_back, "sends are refused: {refusal}");
        }
    }

    fn recovered(&self) {
        if self.warned.over() {
            tracing::info!("there is room on the disk again: sends are taken");
        }
    }

    fn tell_unknown(&self, folder: &Path, error: &std::io::Error) {
        if let Some(held_back) = self.unknown.tell(Instant::now()) {
            tracing::warn!(
                folder = %folder.display(), %error, held_back,
                "room of the disk is not known; it is taken as free"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nearly_full(folder: &Path, percent: f64, limit: u32) -> String {
    format!(
        "{NOT_AVAILABLE}: the broker's disk at {} is {percent:.1}% full, the limit is {limit}% (diskSpaceWarningLevelRatio); free some room or send to another broker",
        folder.display()
    )
}

/// Below the limit, but with nothing left but what the deletion of old files needs.
fn none_to_spare(folder: &Path, percent: f64) -> String {
    format!(
        "{NOT_AVAILABLE}: the broker's disk at {} is {percent:.1}% full, and what is left there is needed until an old file of the log is deleted; free some room or send to another broker",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use segment::SimVfs;

    use super::*;

    /// A disk of which `used` of 100 sectors are taken.
    fn disk(used: u64) -> (SimVfs, Disk) {
        let sim = SimVfs::new();
        sim.set_room(Some(100 * 512));
        let file = sim.create(Path::new("store/log/data")).unwrap();
        file.write_at(&[IoSlice::new(&vec![1; 512 * usize::try_from(used).unwrap()])], 0).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        (sim, Disk::new(vfs, "store/log".into(), "store".into()))
    }

    #[test]
    fn sends_are_refused_from_the_limit_on_and_taken_again_below_it() {
        let (sim, disk) = disk(89);
        disk.look(90, 85);
        assert_eq!(disk.refusal(), None);
        let file = sim.open(Path::new("store/log/data")).unwrap();
        file.write_at(&[IoSlice::new(&[1; 512])], 89 * 512).unwrap();
        disk.look(90, 85);
        let remark = disk.refusal().unwrap();
        assert!(remark.starts_with("service not available now: the broker's disk at store/log is 90.0% full, the limit is 90%"), "{remark}");
        sim.set_room(Some(1 << 30));
        disk.look(90, 85);
        assert_eq!(disk.refusal(), None);
    }

    #[test]
    fn the_last_room_is_for_the_deletion_and_the_refusal_names_no_limit_that_was_not_met() {
        let (sim, disk) = disk(80);
        sim.set_room(Some(64 << 20));
        let file = sim.create(Path::new("store/log/more")).unwrap();
        file.write_at(&[IoSlice::new(&vec![1; 16 << 20])], 0).unwrap();
        disk.set_room_aside();
        sim.set_room(Some(0));
        disk.make_room_for_deletion();
        sim.set_room(Some(4 << 20));
        disk.look(99, 75);
        let remark = disk.refusal().unwrap();
        assert!(remark.starts_with(NOT_AVAILABLE) && remark.contains("is deleted"), "{remark}");
        assert!(!remark.contains("limit"), "{remark}");
        disk.look(80, 75);
        assert!(
            disk.refusal().unwrap().contains("the limit is 80%"),
            "the limit is the first cause"
        );
        disk.unstuck();
        disk.look(99, 75);
        assert_eq!(disk.refusal(), None, "something was deleted");
    }

    #[test]
    fn a_disk_that_was_full_has_room_again_only_well_below_the_limit() {
        let (sim, disk) = disk(90);
        disk.look(90, 85);
        assert!(!disk.has_room());
        sim.set_room(Some(11 * 512));
        disk.look(90, 85);
        assert_eq!((disk.refusal(), disk.has_room()), (None, false), "89.1 percent");
        sim.set_room(Some(20 * 512));
        disk.look(90, 85);
        assert!(disk.has_room());
        let (_, never_full) = self::disk(89);
        never_full.look(90, 85);
        assert!(never_full.has_room());
    }

    #[test]
    fn a_disk_without_a_measure_is_not_full() {
        let (sim, disk) = disk(99);
        sim.cut_power_after(0);
        sim.remove(Path::new("store/other")).unwrap_err();
        disk.look(90, 85);
        assert_eq!((disk.refusal(), disk.fullest()), (None, None));
    }

    #[test]
    fn an_append_that_found_no_room_is_tried_again_after_the_next_look() {
        let (_, disk) = disk(10);
        disk.found_no_room("No space left on device");
        assert!(disk.refusal().unwrap().contains("No space left on device"));
        disk.look(90, 85);
        assert_eq!(disk.refusal(), None);
        assert!(disk.no_room.load(Ordering::Relaxed), "no append was stored yet");
        disk.stored();
        assert!(!disk.no_room.load(Ordering::Relaxed));
    }
}
