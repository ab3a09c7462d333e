//! Goal: a live group of three Java brokers on DLedger becomes one of ours, node by node, and Java's
//! again, and nobody misses anything.
//! Method: real processes on loopback, each product on the same folders with the same broker.conf,
//! under the load of the official Java client. Every acknowledged message is read back at its offset, the
//! logs of all members are compared entry by entry, a group goes on where it was, topics stay, timers
//! come, but for few once, and sends fail only while the master changes. Each step is the one that
//! `ledgermq admin group takeover` tells.
#![expect(clippy::print_stdout, reason = "tests report on standard output")]

use std::{
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use interop::{
    APACHE, APACHE_STORE, folder,
    ledger::{Ledger, LookUp},
    log_files,
    mixed::{MixedGroup, PATIENCE},
    node::{NameServer, Product},
    process::{Process, wait_until},
    toolchain,
};
use serde_json::{Value, json};

/// Bytes of a data file.
const FILE_SIZE: u32 = 16 << 20;
/// Pause of each of eight threads between two sends.
const PAUSE: Duration = Duration::from_millis(20);
/// The same for timers.
const PAUSE_OF_TIMERS: Duration = Duration::from_millis(800);
/// How long a timer waits: longer than a switch, and shorter than each product leads.
const TIMER: Duration = Duration::from_secs(20);
/// One timer in so many may come again: a Java master that is stopped delivers timers for seconds after
/// it has told anybody how far it is.
const AGAIN: usize = 10;
/// More steps than a group of three takes.
const STEPS: usize = 8;
/// Pause between two questions for the next step.
const PAUSE_OF_GUIDE: Duration = Duration::from_secs(1);
/// The group whose progress is watched.
const GROUP: &str = "G_progress";
/// A topic with an attribute, which Java 5.3.3 loses on its own slaves.
const TYPED: &str = "Typed";

/// Request code UPDATE_AND_CREATE_TOPIC.
const CREATE_TOPIC: i32 = 17;
/// Request code GET_TOPIC_CONFIG.
const TOPIC_CONFIG: i32 = 351;

/// How the lead leaves the last member of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandOver {
    /// It is stopped.
    Stop,
    /// By `ledgermq admin group transfer`.
    Transfer,
}

/// A group under load.
struct Scene {
    group: MixedGroup,
    /// What the load writes.
    load: Ledger,
    /// What a group consumes piece by piece.
    held: Ledger,
    producer: Process,
    /// What comes by timers.
    timers: Ledger,
    timer_producer: Process,
    /// From when to when the master changed, in milliseconds since 1970.
    switches: Vec<(u128, u128)>,
}

fn now() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("after 1970")?.as_millis())
}

impl Scene {
    /// Three Java brokers, a group that has consumed 200 messages, and a load.
    fn new(folder: &Path, java: &'static str) -> Result<Self> {
        let name_server = NameServer::start(Product::Ours, &folder.join("namesrv"))?;
        let mut group = MixedGroup::new(folder, name_server, FILE_SIZE)?;
        for id in ["n0", "n1", "n2"] {
            group.start(id, Product::Apache(java))?;
        }
        let master = group.wait_master()?;
        println!("{master} is the Java master");
        let held = Ledger::new(&folder.join("held"), "held")?;
        held.produce(&group.name_server(), 200)?;
        held.consume(&group.name_server(), GROUP, held.len()?)?;
        // Before there is a load: a Java broker tells all name servers while a send makes a topic.
        for topic in ["load", "timers"] {
            make_topic(&group, topic, "")?;
        }
        let load = Ledger::new(&folder.join("load"), "load")?;
        let producer = load.start_pacing(&group.name_server(), 10_000_000, PAUSE)?;
        let timers = Ledger::new(&folder.join("timers"), "timers")?;
        let timer_producer = timers.start_timers(&group.name_server(), PAUSE_OF_TIMERS, TIMER)?;
        let switches = Vec::new();
        let scene = Self { group, load, held, producer, timers, timer_producer, switches };
        scene.go_on()?;
        Ok(scene)
    }

    /// Waits for more acknowledged messages.
    fn go_on(&self) -> Result<()> {
        let before = self.load.len()?;
        wait_until("300 more acknowledged messages", PATIENCE, || {
            self.load.len().is_ok_and(|acknowledged| acknowledged >= before + 300)
        })
    }

    /// Another product takes the place of each member, by the steps that the guiding command tells.
    fn replace_all(&mut self, product: Product, by: HandOver) -> Result<()> {
        for _ in 0..STEPS {
            let step = self.next_step(product != Product::Ours)?;
            let named = |field: &str| {
                let id = step[field].as_str().map(str::to_owned);
                id.with_context(|| format!("no {field} in {step}"))
            };
            match (step["do"].as_str(), by) {
                (Some("nothing"), _) => return Ok(()),
                (Some("replace"), _) => self.replace(&named("member")?, product)?,
                (Some("transfer"), HandOver::Transfer) => {
                    let to = named("to")?;
                    self.switch(|group| group.transfer(&to))?;
                }
                (Some("transfer"), HandOver::Stop) => {
                    let master = named("member")?;
                    self.switch(|group| group.stop(&master))?;
                    self.group.start(&master, product)?;
                    self.joined(&master, product)?;
                }
                _ => bail!("no such step: {step}"),
            }
        }
        bail!("not done after {STEPS} steps")
    }

    /// What `ledgermq admin group takeover` tells, once it lets anything be done.
    fn next_step(&self, back: bool) -> Result<Value> {
        let mut told = String::new();
        wait_until("the next step", PATIENCE, || {
            let output = self.group.guide(back).and_then(|mut guide| Ok(guide.output()?));
            let Ok(output) = output else { return false };
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            told = text(&output.stdout);
            if output.status.success() {
                return true;
            }
            println!("{}", text(&output.stderr).lines().last().unwrap_or_default());
            thread::sleep(PAUSE_OF_GUIDE);
            false
        })?;
        let told: Value = serde_json::from_str(&told).with_context(|| told.clone())?;
        println!("next: {}", told["next"]);
        Ok(told["step"].clone())
    }

    /// Another product takes the place of a member that does not lead.
    fn replace(&mut self, id: &str, product: Product) -> Result<()> {
        self.group.stop(id).with_context(|| format!("stopping {id}"))?;
        self.group.start(id, product)?;
        self.joined(id, product)
    }

    /// A member that has started follows, and the load goes on.
    fn joined(&mut self, id: &str, product: Product) -> Result<()> {
        self.group.wait_follower(id)?;
        self.go_on().with_context(|| format!("{id} runs {product:?}"))?;
        println!("{id} runs {product:?} and follows");
        Ok(())
    }

    /// The lead goes to another member.
    fn switch(&mut self, act: impl FnOnce(&mut MixedGroup) -> Result<()>) -> Result<()> {
        let master = self.group.wait_master()?;
        let begun = now()?;
        act(&mut self.group).with_context(|| format!("{master} gives the lead away"))?;
        let next = self.group.wait_master()?;
        ensure!(next != master, "{master} was to give the lead away");
        self.go_on().with_context(|| format!("{next} leads"))?;
        let over = now()?;
        println!("{next} leads; the switch took {} ms", over - begun);
        self.switches.push((begun, over));
        Ok(())
    }

    /// The group that consumed before goes on where it was: it gets what is new and nothing else.
    fn progress_is_kept(&self) -> Result<()> {
        let before = self.held.len()?;
        self.held.produce(&self.group.name_server(), 50)?;
        let new = self.held.len()? - before;
        self.held.consume(&self.group.name_server(), GROUP, new).context("progress of a group")
    }

    fn typed_is_kept(&self) -> Result<()> {
        let master = self.group.wait_master()?;
        let answer = self.group.ask(&master, TOPIC_CONFIG, &json!({ "topic": TYPED }))?;
        ensure!(answer.code == 0, "{TYPED} at {master}: {answer:?}");
        ensure!(answer.body.contains("\"message.type\":\"FIFO\""), "{}", answer.body);
        Ok(())
    }

    /// Sends fail while the master changes, and at no other time.
    fn failures(&self, output: &str) -> Result<()> {
        let failures: Vec<u128> =
            output.lines().filter_map(|line| line.strip_prefix("failed ")?.parse().ok()).collect();
        let outside = |at: &&u128| !self.switches.iter().any(|(from, to)| (from..=to).contains(at));
        let strangers: Vec<u128> = failures.iter().filter(outside).copied().collect();
        let (all, apart) = (failures.len(), strangers.len());
        println!("{all} sends failed, {apart} of them apart from switches");
        let reasons: Vec<&str> = output.lines().filter(|line| line.contains(" by ")).collect();
        ensure!(apart == 0, "sends failed at {strangers:?} while the master stayed: {reasons:#?}");
        Ok(())
    }

    /// Every timer comes, and again only where it came in the last moments before a switch.
    fn timers_come(&self) -> Result<()> {
        let (came, again) = self.timers.verify_timers(&self.group.name_server(), TIMER)?;
        println!("{came} timers came, {} of them more than once", again.len());
        for (begun, over) in &self.switches {
            let before: Vec<i128> = again
                .iter()
                .filter(|(first, last)| first < over && last > begun)
                .map(|(first, _)| first.cast_signed() - begun.cast_signed())
                .collect();
            let (least, most) = (before.iter().min(), before.iter().max());
            println!("{} at a switch, from {least:?} to {most:?} ms after it began", before.len());
        }
        let again = again.len();
        ensure!(again * AGAIN <= came, "{again} of {came} timers came again");
        Ok(())
    }

    /// Ends the load, and looks at everything that was acknowledged and at every failure.
    fn end(mut self) -> Result<()> {
        self.producer.kill()?;
        self.timer_producer.kill()?;
        for producer in [&self.producer, &self.timer_producer] {
            self.failures(&producer.output()?)?;
        }
        self.timers_come()?;
        self.load.verify(&self.group.name_server(), LookUp::Ids)?;
        self.held.verify(&self.group.name_server(), LookUp::Ids)?;
        // What is written last reaches all members.
        thread::sleep(Duration::from_secs(5));
        self.group.kill_all()?;
        let mut logs = Vec::new();
        for id in ["n0", "n1", "n2"] {
            logs.push((id, log_files::entries(&self.group.data(id)?)?));
        }
        let common = log_files::compare(&logs)?;
        println!("{common} entries are the same in all logs");
        ensure!(common >= self.load.len()?, "{common} entries are in all logs");
        Ok(())
    }
}

/// Makes a topic at the master.
fn make_topic(group: &MixedGroup, topic: &str, attributes: &str) -> Result<()> {
    let master = group.wait_master()?;
    let fields = json!({
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": attributes,
    });
    let answer = group.ask(&master, CREATE_TOPIC, &fields)?;
    ensure!(answer.code == 0, "{topic}: {answer:?}");
    Ok(())
}

/// A group of Java brokers of this version is taken over and given back.
fn there_and_back(name: &str, java: &'static str, by: HandOver) -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario(name, |folder| {
        let mut scene = Scene::new(folder, java)?;
        scene.replace_all(Product::Ours, by).context("taken over")?;
        scene.progress_is_kept().context("taken over")?;
        make_topic(&scene.group, TYPED, "+message.type=FIFO")?;
        scene.replace_all(Product::Apache(java), by).context("given back")?;
        scene.typed_is_kept().context("given back")?;
        scene.progress_is_kept().context("given back")?;
        scene.end()
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --long runs it"]
fn java_5_3_3_is_taken_over_and_given_back() -> Result<()> {
    there_and_back("takeover-5.3.3", APACHE_STORE, HandOver::Stop)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --long runs it"]
fn java_5_5_0_is_taken_over_and_given_back() -> Result<()> {
    there_and_back("takeover-5.5.0", APACHE, HandOver::Transfer)
}
