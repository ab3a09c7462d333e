//! Configuration over the wire: what strangers try to set.

use broker::config::{BrokerConfig, Change, KEYS, KNOWN, REFUSALS};
use protocol::{
    Command,
    code::{request, response},
};

use crate::rig::Rig;

fn update(text: impl Into<Vec<u8>>) -> Command {
    Command::request(request::UPDATE_BROKER_CONFIG).with_body(text.into())
}

async fn configuration(rig: &Rig) -> String {
    let answer = rig.ask(Command::request(request::GET_BROKER_CONFIG)).await;
    String::from_utf8(answer.body.to_vec()).expect("text")
}

/// Processes that this one has started and not waited for.
fn children() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .collect()
}

/// A value that differs from what a key has, of its own type where that is simple.
fn other_value(name: &str, config: &BrokerConfig) -> String {
    let printed = config.print(broker::config::Printed::All);
    let value = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    match value {
        Some("true") => "false".to_owned(),
        Some("false") => "true".to_owned(),
        Some(value) if value.parse::<u64>().is_ok() => format!("{value}1"),
        _ => "/evil".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s_01_no_key_beyond_the_list_can_be_set_whatever_java_lets_through() {
    let rig = Rig::new("").await;
    let config = rig.broker.config();
    let fixed = KEYS.iter().filter(|key| key.change == Change::Fixed).map(|key| key.name);
    let names: Vec<&str> = fixed
        .chain(KNOWN.iter().map(|key| key.name))
        .chain(REFUSALS.iter().map(|key| key.name))
        .chain(["brokerConfigPath", "configBlackList", "rocketmqHome", "filterServerNums"])
        .collect();
    assert!(names.len() > 200, "{}", names.len());
    let before = configuration(&rig).await;
    let updates = names.iter().map(|name| update(format!("{name}={}", other_value(name, &config))));
    let answers = rig.ask_all(updates.collect()).await;
    for (name, answer) in names.iter().zip(answers) {
        // A value that the key could not have either is told as such.
        let refused = [response::NO_PERMISSION, response::SYSTEM_ERROR].contains(&answer.code);
        assert!(refused, "{name}: {answer:?}");
    }
    assert_eq!(configuration(&rig).await, before, "nothing has changed");
    rig.end().await;
}

/// The bodies that CVE-2023-33246 and CVE-2023-37582 are exploited with, and variations.
#[tokio::test(flavor = "multi_thread")]
async fn s_01_s_02_the_payloads_of_known_attacks_change_run_and_write_nothing() {
    let rig = Rig::new("").await;
    let before = configuration(&rig).await;
    let mark = std::env::temp_dir().join(format!("ledgermq-s01-{}", std::process::id()));
    let path = mark.display().to_string();
    let mut payloads = vec![
        format!(
            "filterServerNums=1\nnamesrvAddr=127.0.0.1:9876\nrocketmqHome=-c $@|sh . echo touch {path};"
        ),
        format!(
            "filterServerNums=1\nrocketmqHome=-c bash${{IFS}}-c${{IFS}}{{echo,dG91Y2g=}}|bash;{path}"
        ),
        format!("brokerConfigPath={path}\naaaPath=* * * * * root touch {path}"),
        format!("configStorePath={path}\nproductEnvName=test\\nvalue"),
        format!("storePathRootDir={path}"),
        format!("traceOn=false\nstorePathRootDir={path}"),
        format!("traceOn=false\\nrocketmqHome={path}"),
        format!("traceOn=false\r\nrocketmqHome={path}\r\n"),
        format!("messageDelayLevel=1s\ntls.config.file={path}"),
        format!("tls.server.keyPath={path}"),
        "traceOn=${jndi:ldap://127.0.0.1/x}".to_owned(),
        "\\u0074raceOn\\u003dfalse=1".to_owned(),
        "traceOn=false\n".repeat(2001),
    ];
    let many: String = (0..30_000).map(|n| format!("key{n}=value{n}\n")).collect();
    payloads.push(many);
    payloads.push(format!("{}=1", "k".repeat(1 << 20)));
    for payload in payloads {
        let answer = rig.ask(update(payload.clone())).await;
        assert_ne!(answer.code, response::SUCCESS, "{payload:.80}");
        let remark = answer.remark.unwrap_or_default();
        assert!(!remark.is_empty() && remark.len() < 1000, "{payload:.80}: {remark:.100}");
    }
    assert!(!rig.ask(update(vec![0xFF; 64])).await.remark.unwrap_or_default().is_empty());
    assert_eq!(configuration(&rig).await, before, "nothing has changed");
    assert!(!mark.exists(), "a file was written");
    assert_eq!(children(), "", "a process was started");
    rig.end().await;
}
