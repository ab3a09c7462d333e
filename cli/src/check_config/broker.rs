//! The checks of a broker's file.

use broker::config::{BrokerConfig, FlushDiskType, KeyKind, Printed, kind_of};
use protocol::properties_text::{self, Entry};

use super::{
    finding::Finding,
    keys::{self, Told},
    network, peers,
    report::Report,
    storage, thresholds,
};

/// Checks a broker.conf, and gives what it says.
pub(super) fn check(entries: &[Entry], report: &mut Report) -> BrokerConfig {
    let mut config = BrokerConfig::default();
    let lines = keys::check(entries, tell, |name, value| {
        config.set(name, value).map(drop).map_err(|error| error.to_string())
    });
    report.findings.extend(lines);
    config.complete();
    let set = |name: &str| entries.iter().any(|entry| entry.name == name);
    let members = peers::check(&config, &mut report.findings);
    if members > 1 && set("brokerIP1") {
        peers::loopback(&config, &mut report.findings);
    }
    durability(&config, set("flushDiskType"), members, report);
    creation(&config, &mut report.findings);
    retention(&config, &mut report.findings);
    network::check(&config, tls_is_enforced(&config), members, &mut report.findings);
    storage::check(&config, &mut report.findings);
    report.place(entries);
    report.thresholds = thresholds::of_broker(&config, entries);
    config
}

fn tell(name: &str, value: &str) -> Told {
    match kind_of(name) {
        KeyKind::Effective(_) | KeyKind::Refused(_) => Told::Known,
        // What says what holds anyway misleads nobody.
        KeyKind::Idle(known) if value == known.default => Told::Known,
        KeyKind::Idle(known) => Told::Idle(known.reason.to_owned()),
        KeyKind::Unknown { nearest } => Told::Unknown(nearest),
    }
}

/// What an acknowledged message has met.
fn durability(config: &BrokerConfig, is_set: bool, members: usize, report: &mut Report) {
    let group = match members {
        0 | 1 => "of a group of one node".to_owned(),
        members => format!("on {} of {members} nodes", members / 2 + 1),
    };
    let key = "flushDiskType";
    match config.flush_disk_type {
        FlushDiskType::Sync => {
            report.durability = format!("an acknowledged message is fsynced {group}");
            if !is_set {
                let text = "unset means SYNC_FLUSH here; Java's default is ASYNC_FLUSH";
                report.findings.push(Finding::note("unset-durability", key, text));
            }
        }
        FlushDiskType::Async => {
            report.durability = format!("an acknowledged message is in the page cache {group}");
            let lost = if members > 1 {
                "a power failure of that many at the same time loses what was not written back"
            } else {
                "a power failure loses what was not written back"
            };
            let text = format!("{}: {lost}; SYNC_FLUSH fsyncs first", report.durability);
            report.findings.push(Finding::warning("weak-durability", key, text));
        }
    }
}

/// What clients can make by naming it.
fn creation(config: &BrokerConfig, findings: &mut Vec<Finding>) {
    let key = "autoCreateTopicEnable";
    if config.auto_create_topic_enable {
        let text = "a producer makes a topic by naming it, also by a typing error; set it to false \
                    and make topics by `ledgermq admin topic create`";
        findings.push(Finding::warning("automatic-creation", key, text));
    }
    let key = "autoCreateSubscriptionGroup";
    if config.auto_create_subscription_group {
        let text = "a consumer makes a group by naming it";
        findings.push(Finding::note("automatic-creation", key, text));
    }
}

/// When messages go.
fn retention(config: &BrokerConfig, findings: &mut Vec<Finding>) {
    let hours = config.file_reserved_time;
    let key = "fileReservedTime";
    if hours < HOURS_FEW {
        let text = format!(
            "messages older than {hours} h are deleted whether or not they were consumed: a \
             consumer that stops for longer loses them"
        );
        findings.push(Finding::warning("short-retention", key, text));
    } else if hours > HOURS_MANY {
        let text = format!(
            "{hours} h is more than a year: the disk, not the age, will decide what is deleted"
        );
        findings.push(Finding::warning("long-retention", key, text));
    }
    let ratios = [
        ("diskMaxUsedSpaceRatio", config.disk_max_used_space_ratio),
        ("diskSpaceCleanForciblyRatio", config.disk_space_clean_forcibly_ratio),
        ("diskSpaceWarningLevelRatio", config.disk_space_warning_level_ratio),
    ];
    for ((low, low_value), (high, high_value)) in ratios.into_iter().zip(ratios.into_iter().skip(1))
    {
        if low_value >= high_value {
            let text = format!(
                "{high_value} % is not above {low}={low_value}: what should come first comes last"
            );
            findings.push(Finding::warning("order-of-ratios", high, text));
        }
    }
}

/// Whether clients must use TLS; judged by the printed configuration, so that it holds whatever
/// other keys TLS has.
fn tls_is_enforced(config: &BrokerConfig) -> bool {
    let printed = properties_text::parse(&config.print(Printed::All)).unwrap_or_default();
    printed.iter().any(|(name, value)| {
        name.to_ascii_lowercase().starts_with("tls") && value.eq_ignore_ascii_case("enforcing")
    })
}

/// Below this, a weekend without a consumer loses messages.
const HOURS_FEW: u32 = 24;
/// A year.
const HOURS_MANY: u32 = 8_784;
