//! What is done to a group of brokers.

use std::{fmt, thread, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    brokers::Brokers,
    network::{Cut, Network},
    traffic::Traffic,
};

/// Load between two faults.
pub(crate) const CALM: Duration = Duration::from_millis(1500);

/// How long a broker is paused or cut off: longer than an election takes.
const AWAY: Duration = Duration::from_secs(4);

/// After what time a broker that is started again "later" is.
const LATER: Duration = Duration::from_secs(10);

/// How long a link that flaps is down, and then up.
const FLAP: Duration = Duration::from_millis(100);

/// What is done to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of the master; it comes back when another has taken over.
    KillMaster,
    /// SIGKILL of the master, which is started again at once.
    KillMasterAndRestart,
    /// SIGKILL of the master, which is started again after ten seconds.
    KillMasterRestartLater,
    /// SIGSTOP of the master, and SIGCONT when another has taken over.
    PauseMaster,
    /// Writes to the master's disk hang, and go on when another has taken over.
    HangDisk,
    /// SIGTERM of the master; it comes back when another has taken over.
    StopMaster,
    /// SIGKILL of a follower, and its restart.
    KillFollower,
    /// SIGKILL of all brokers, and their restart.
    KillAll,
    /// SIGKILL of a follower, of the others while it lags behind, and its start before theirs.
    LaggardFirst,
    /// SIGKILL of a follower, and its restart without any file.
    WipeFollower,
    /// The master reaches neither the others nor is reached by them; clients reach all.
    CutOffMaster,
    /// The master reaches nobody, clients and name server neither, and is reached by nobody.
    IsolateMaster,
    /// What the master sends to the others is lost; what they send arrives.
    MuteMaster,
    /// What the others send to the master is lost; what it sends arrives.
    DeafMaster,
    /// The master is cut off from the members and joined again, five times a second.
    FlappingMaster,
    /// A follower reaches nobody and is reached by nobody. The master must stay.
    CutOffFollower,
    /// Master and one follower do not reach each other; the other follower and clients reach all:
    /// every member sees a majority, no two the same. The master must stay.
    Ring,
    /// One half has the master, a follower and the clients, the other the second follower and the
    /// name server. The master must stay, and clients go on by the routes that they have.
    Halves,
}

impl Fault {
    /// Those that need a network of their own.
    pub const CUTS: [Self; 8] = [
        Self::CutOffMaster,
        Self::IsolateMaster,
        Self::MuteMaster,
        Self::DeafMaster,
        Self::FlappingMaster,
        Self::CutOffFollower,
        Self::Ring,
        Self::Halves,
    ];
    /// Those that need none, beside the kill of the master.
    pub const OTHERS: [Self; 8] = [
        Self::KillMasterAndRestart,
        Self::KillMasterRestartLater,
        Self::PauseMaster,
        Self::StopMaster,
        Self::KillFollower,
        Self::KillAll,
        Self::LaggardFirst,
        Self::WipeFollower,
    ];

    /// Whether it needs a network of its own.
    #[must_use]
    pub fn cuts(self) -> bool {
        Self::CUTS.contains(&self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillMaster => "kill -9 master",
            Self::KillMasterAndRestart => "kill -9 master, restart at once",
            Self::KillMasterRestartLater => "kill -9 master, restart after 10 s",
            Self::PauseMaster => "SIGSTOP master",
            Self::HangDisk => "the master's disk hangs",
            Self::StopMaster => "SIGTERM master",
            Self::KillFollower => "kill -9 follower",
            Self::KillAll => "kill -9 all",
            Self::LaggardFirst => "kill -9 all, one that lags behind starts first",
            Self::WipeFollower => "follower loses its disk",
            Self::CutOffMaster => "master cut off from the members",
            Self::IsolateMaster => "master cut off from everybody",
            Self::MuteMaster => "master not heard by the members",
            Self::DeafMaster => "master does not hear the members",
            Self::FlappingMaster => "master cut off and joined again five times a second",
            Self::CutOffFollower => "follower cut off from everybody",
            Self::Ring => "ring: master and one follower cut off from each other",
            Self::Halves => "halves: one has master, follower, clients; one follower, name server",
        })
    }
}

/// Who does it.
pub(crate) struct Nemesis<'a> {
    pub(crate) brokers: &'a mut Brokers,
    pub(crate) traffic: &'a mut Traffic,
    pub(crate) network: Option<&'a Network>,
}

impl Nemesis<'_> {
    /// Does a fault and mends it; when it was, and when the first message after it was acknowledged.
    pub(crate) fn strike(&mut self, fault: Fault) -> Result<(u64, u64)> {
        let master = self.brokers.wait_master(None)?;
        let follower = (master + 1) % self.brokers.size();
        let mut at = self.traffic.now();
        let first = match fault {
            Fault::KillMaster => self.kill(master)?,
            Fault::KillFollower => self.kill(follower)?,
            Fault::KillMasterAndRestart => {
                self.brokers.kill(master)?;
                self.brokers.restart(master)?;
                self.traffic.acknowledged_after(at)?
            }
            Fault::KillMasterRestartLater => {
                self.brokers.kill(master)?;
                thread::sleep(LATER);
                self.brokers.restart(master)?;
                self.traffic.acknowledged_after(at)?
            }
            Fault::StopMaster => {
                self.brokers.stop(master)?;
                let first = self.traffic.acknowledged_after(at)?;
                self.brokers.restart(master)?;
                first
            }
            Fault::PauseMaster => {
                self.brokers.process(master)?.halt()?;
                let first = self.traffic.acknowledged_after(at);
                thread::sleep(AWAY);
                self.brokers.process(master)?.go_on()?;
                first?
            }
            Fault::HangDisk => {
                // What was written before is synced first.
                self.brokers.freeze(master, true)?;
                at = self.traffic.now();
                let first = self.traffic.acknowledged_after(at);
                thread::sleep(AWAY);
                self.brokers.freeze(master, false)?;
                first?
            }
            Fault::KillAll => self.kill_all(&mut at)?,
            Fault::LaggardFirst => self.laggard_first(master, follower, &mut at)?,
            Fault::WipeFollower => {
                self.brokers.kill(follower)?;
                self.brokers.wipe(follower)?;
                self.brokers.restart(follower)?;
                self.traffic.acknowledged_after(at)?
            }
            Fault::FlappingMaster => self.flap(master)?,
            Fault::CutOffMaster => self.cut(master, Cut::Members, &mut at)?,
            Fault::IsolateMaster => self.cut(master, Cut::Everybody, &mut at)?,
            Fault::MuteMaster => self.cut(master, Cut::Sending, &mut at)?,
            Fault::DeafMaster => self.cut(master, Cut::Receiving, &mut at)?,
            Fault::CutOffFollower => {
                self.stays((master, follower), (follower, Cut::Everybody), &mut at)?
            }
            Fault::Ring => {
                self.stays((master, follower), (master, Cut::Link(follower)), &mut at)?
            }
            Fault::Halves => self.stays((master, follower), (follower, Cut::WithNames), &mut at)?,
        };
        self.traffic.acknowledged_after(self.traffic.now())?;
        Ok((at, first))
    }

    /// One comes back when the others have gone on.
    fn kill(&mut self, number: usize) -> Result<u64> {
        let at = self.traffic.now();
        self.brokers.kill(number)?;
        let first = self.traffic.acknowledged_after(at)?;
        self.brokers.restart(number)?;
        Ok(first)
    }

    /// `at` becomes the time from which on nothing is there.
    fn kill_all(&mut self, at: &mut u64) -> Result<u64> {
        for number in 0..self.brokers.size() {
            self.brokers.kill(number)?;
        }
        *at = self.traffic.now();
        for number in 0..self.brokers.size() {
            self.brokers.restart(number)?;
        }
        self.traffic.acknowledged_after(*at)
    }

    /// `at` becomes the time from which on the one that lags behind is alone.
    fn laggard_first(&mut self, master: usize, laggard: usize, at: &mut u64) -> Result<u64> {
        self.brokers.kill(laggard)?;
        self.traffic.acknowledged_after(self.traffic.now())?;
        thread::sleep(CALM);
        let third = (0..self.brokers.size()).find(|one| *one != master && *one != laggard);
        let third = third.context("a group of three has a third member")?;
        self.brokers.kill(master)?;
        self.brokers.kill(third)?;
        *at = self.traffic.now();
        self.brokers.restart(laggard)?;
        thread::sleep(CALM);
        self.brokers.restart(third)?;
        let first = self.traffic.acknowledged_after(*at)?;
        self.brokers.restart(master)?;
        Ok(first)
    }

    /// `at` becomes the time from which on all that is sent meets the whole cut.
    fn cut(&mut self, number: usize, cut: Cut, at: &mut u64) -> Result<u64> {
        let network = self.network.context("a cut needs a network of its own")?;
        network.cut(number, cut)?;
        *at = self.traffic.now();
        let first = self.traffic.acknowledged_after(*at);
        thread::sleep(AWAY);
        network.heal()?;
        first
    }

    /// A cut that must not move the lead.
    fn stays(
        &mut self,
        (master, follower): (usize, usize),
        (number, cut): (usize, Cut),
        at: &mut u64,
    ) -> Result<u64> {
        let first = self.cut(number, cut, at)?;
        thread::sleep(AWAY);
        let now = self.brokers.wait_master(None)?;
        ensure!(now == master, "n{now} leads since n{follower} is back, before n{master} did");
        Ok(first)
    }

    fn flap(&mut self, master: usize) -> Result<u64> {
        let network = self.network.context("a cut needs a network of its own")?;
        let at = self.traffic.now();
        for _ in 0..AWAY.as_millis() / FLAP.as_millis() / 2 {
            network.cut(master, Cut::Members)?;
            thread::sleep(FLAP);
            network.heal()?;
            thread::sleep(FLAP);
        }
        self.traffic.acknowledged_after(at)
    }
}
