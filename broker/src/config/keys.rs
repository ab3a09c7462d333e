//! The one table of configuration keys that have an effect.
//!
//! From it come the fields of [`BrokerConfig`], reading of broker.conf, printing, the answers to
//! GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG, and docs/config.md. Names are Java's
//! (`BrokerConfig`, `MessageStoreConfig`, `NettyServerConfig`, `DLedgerConfig`). Keys that Java
//! knows and that have no effect here are in `known.rs`.

use remoting::{ClientAuth, Secret, TlsMode, TlsSettings};

use super::value::{DelayLevels, FlushDiskType, Host, Hours, RequestMode, Value};

/// Whether a key can be changed while the broker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// UPDATE_BROKER_CONFIG takes it.
    Hot,
    /// A start reads it.
    Fixed,
}

/// One key of the table.
#[derive(Debug)]
pub struct Key {
    /// Java's spelling.
    pub name: &'static str,
    /// Heading in docs/config.md.
    pub section: &'static str,
    /// Unit of the value, or empty.
    pub unit: &'static str,
    /// What may be written.
    pub allowed: &'static str,
    /// Smallest and largest number, where the value is one.
    pub range: Option<(i128, i128)>,
    /// Whether it can be changed while the broker runs.
    pub change: Change,
    /// Whether `-m` prints it.
    pub important: bool,
    /// Meaning.
    pub doc: &'static str,
    pub(super) read: fn(&mut BrokerConfig, &str) -> bool,
    /// The value that a configuration has, as text.
    pub write: fn(&BrokerConfig) -> String,
    pub(super) number: fn(&BrokerConfig) -> Option<i128>,
}

macro_rules! change {
    (hot) => {
        Change::Hot
    };
    (fixed) => {
        Change::Fixed
    };
}

macro_rules! range {
    () => {
        None
    };
    ($low:literal $high:literal) => {
        Some(($low, $high))
    };
}

macro_rules! important {
    () => {
        false
    };
    (important) => {
        true
    };
}

macro_rules! keys {
    ($($section:literal {
        $($name:literal $field:ident: $type:ty = $default:expr, $unit:literal
          $([$low:literal, $high:literal])?, $change:ident $($important:ident)?, $doc:literal;)*
    })*) => {
        /// The effective configuration of a broker, one field for each key of the table.
        #[derive(Debug, Clone, PartialEq)]
        pub struct BrokerConfig {
            $($(
                #[doc = concat!("`", $name, "`: ", $doc)]
                pub $field: $type,
            )*)*
        }

        impl Default for BrokerConfig {
            fn default() -> Self {
                Self { $($($field: $default,)*)* }
            }
        }

        /// Every key that has an effect, in the order of docs/config.md.
        pub static KEYS: &[Key] = &[
            $($(
                Key {
                    name: $name,
                    section: $section,
                    unit: $unit,
                    allowed: <$type as Value>::ALLOWED,
                    range: range!($($low $high)?),
                    change: change!($change),
                    important: important!($($important)?),
                    doc: $doc,
                    read: |config, text| match <$type as Value>::read(text) {
                        Some(value) => {
                            config.$field = value;
                            true
                        }
                        None => false,
                    },
                    write: |config| Value::write(&config.$field),
                    number: |config| Value::number(&config.$field),
                },
            )*)*
        ];
    };
}

keys! {
    "DLedger" {
        "enableDLegerCommitLog" enable_dleger_commit_log: bool = false, "", fixed,
            "The commit log is always a DLedger log here. Without this key, or with false, the broker is a group of one node and says so at start.";
        "dLegerGroup" dleger_group: String = String::new(), "", fixed important,
            "Name of the group; empty: the value of brokerName.";
        "dLegerPeers" dleger_peers: String = String::new(), "", fixed important,
            "Members as id-host:port, separated by ';'. The id is the text before the first '-', the port the text after the last ':'. Empty: a group of this node alone. Several members need enableDLegerCommitLog=true.";
        "dLegerSelfId" dleger_self_id: String = "n0".to_owned(), "", fixed important,
            "Id of this node: one character and a number. The broker id of a slave is that number plus one; a master has id 0.";
        "preferredLeaderId" preferred_leader_id: String = String::new(), "", fixed important,
            "Ids of members, separated by ';', that are to lead where they have all that the leader has and their disk is well.";
        "countJavaAcks" count_java_acks: bool = true, "", fixed,
            "LedgerMQ only. Under SYNC_FLUSH, whether the acknowledgement of a Java member counts, though it does not wait for its disk: it does while a Java group is taken over node by node.";
        "pendingAppendBytes" pending_append_bytes: u64 = 67_108_864, "bytes" [1048576, 1_099_511_627_776], fixed,
            "LedgerMQ only. Bytes of messages that may wait for the log's writer, at most an eighth of the memory of the host or of its control group; beyond them a send is answered SYSTEM_BUSY.";
        "appendTimeoutMillis" append_timeout_millis: u64 = 2_500, "ms" [100, 600000], fixed,
            "LedgerMQ only. How long a send may wait for its commit before it is answered FLUSH_DISK_TIMEOUT, or in a group of several FLUSH_SLAVE_TIMEOUT; below the clients' own 3 s.";
        "hotRingBytes" hot_ring_bytes: u64 = 33_554_432, "bytes" [65536, 17_179_869_184], fixed,
            "LedgerMQ only. Bytes of the newest messages kept in memory for consumers that keep up, at most a sixteenth of the memory of the host or of its control group.";
    }
    "Identity and network" {
        "brokerClusterName" broker_cluster_name: String = "DefaultCluster".to_owned(), "", fixed important,
            "Cluster in whose route the broker appears.";
        "brokerName" broker_name: String = String::new(), "", fixed important,
            "Name of the broker group in routes; empty: the host name.";
        "namesrvAddr" namesrv_addr: String = String::new(), "", hot important,
            "Name servers as host:port, separated by ';'.";
        "brokerIP1" broker_ip1: Host = Host::default(), "", fixed important,
            "Address that clients connect to and that message ids carry; empty: the address of the route to other hosts.";
        "brokerIP2" broker_ip2: Host = Host::default(), "", fixed,
            "Address registered for replication; empty: the value of brokerIP1.";
        "listenPort" listen_port: u16 = 10_911, "" [0, 65535], fixed important,
            "Port for clients. The fast port, which serves all but pulls, is two below it. 0: a free port is chosen.";
        "haListenPort" ha_listen_port: u16 = 10_912, "" [0, 65535], fixed,
            "Port that registration names for replication. Nothing listens there: members of a group use the port in dLegerPeers.";
        "bindAddress" bind_address: Host = Host("0.0.0.0".to_owned()), "", fixed,
            "Address that the listeners bind.";
        "serverChannelMaxIdleTimeSeconds" server_channel_max_idle_time_seconds: u64 = 120, "s" [1, 86400], fixed,
            "A connection without traffic for this long is closed.";
        "serverSocketBacklog" server_socket_backlog: u32 = 1_024, "connections" [1, 65535], fixed,
            "Connections that may wait to be accepted.";
        "maxConnections" max_connections: u32 = 65_535, "connections" [1, 1000000], fixed,
            "LedgerMQ only. Open connections of one listener; further ones are closed at once. Where the process may open fewer files, that decides.";
        "maxConnectionsOfAddress" max_connections_of_address: u32 = 16_384, "connections" [1, 1000000], fixed,
            "LedgerMQ only. Open connections of one address (of one /64 network with IPv6) at one listener.";
        "reservedConnections" reserved_connections: u32 = 64, "connections" [0, 10000], fixed,
            "LedgerMQ only. Connections beyond both bounds for loopback and for the hosts of dLegerPeers and namesrvAddr that are addresses.";
        "networkMemoryBytes" network_memory_bytes: u64 = 0, "bytes" [0, 1_099_511_627_776], fixed,
            "LedgerMQ only. Bytes that all connections together may hold in unfinished frames, requests in flight and unread answers; beyond it requests with a body are answered SYSTEM_BUSY and the greediest connection is closed. 0: a quarter of the memory of the host or of its control group.";
        "updateConfigFromAnywhere" update_config_from_anywhere: bool = false, "", fixed,
            "LedgerMQ only. Whether updateBrokerConfig is taken from other hosts; else only over loopback.";
    }
    "TLS" {
        "tls.server.mode" tls_server_mode: TlsMode = TlsMode::Permissive, "", fixed,
            "disabled: TLS is refused. permissive: plain and TLS on the same port; without tls.server.certPath plain only. enforcing: plain is refused. In Java these keys are system properties.";
        "tls.server.certPath" tls_server_cert_path: String = String::new(), "", fixed,
            "Certificate chain of the broker, PEM. Certificate, key and trusted certificates are read again when the files change; open connections go on.";
        "tls.server.keyPath" tls_server_key_path: String = String::new(), "", fixed,
            "Its private key, PEM: PKCS #8 (also encrypted, by PBES2 and AES), PKCS #1 or SEC 1.";
        "tls.server.keyPassword" tls_server_key_password: Secret = Secret::default(), "", fixed,
            "Password of an encrypted key. It is never printed.";
        "tls.server.need.client.auth" tls_server_need_client_auth: ClientAuth = ClientAuth::None, "", fixed,
            "Whether clients show a certificate; those of tls.server.trustCertPath must have signed it.";
        "tls.server.authClient" tls_server_auth_client: bool = true, "", fixed,
            "false, which is Java's default and means that any certificate will do, is refused together with need.client.auth.";
        "tls.server.trustCertPath" tls_server_trust_cert_path: String = String::new(), "", fixed,
            "Certificates that sign those of clients, PEM.";
        "tls.test.mode.enable" tls_test_mode_enable: bool = false, "", fixed,
            "The broker makes up a certificate, and nobody is verified. Java's default is true.";
        "tlsHandshakeTimeoutMillis" tls_handshake_timeout_millis: u64 = 10_000, "ms" [100, 600000], fixed,
            "LedgerMQ only. Time from a connection to the end of its handshake, or to its first byte where TLS is offered.";
        "tls.enable" tls_enable: bool = false, "", fixed,
            "Whether the broker speaks TLS to name servers.";
        "tls.client.trustCertPath" tls_client_trust_cert_path: String = String::new(), "", fixed,
            "Certificates that sign those of name servers, PEM; empty: those that the system trusts.";
        "tls.client.certPath" tls_client_cert_path: String = String::new(), "", fixed,
            "Certificate that the broker shows to name servers, PEM.";
        "tls.client.keyPath" tls_client_key_path: String = String::new(), "", fixed,
            "Its private key.";
        "tls.client.keyPassword" tls_client_key_password: Secret = Secret::default(), "", fixed,
            "Password of that key. It is never printed.";
        "tls.client.authServer" tls_client_auth_server: bool = true, "", fixed,
            "Whether name servers are verified. Java's default is false.";
        "tls.client.serverName" tls_client_server_name: String = String::new(), "", fixed,
            "LedgerMQ only. Name that certificates of name servers must have; empty: the host of namesrvAddr.";
        "tls.config.file" tls_config_file: String = TlsSettings::FILE.to_owned(), "", fixed,
            "Java's file of the keys above; where it exists, its keys come before those of broker.conf.";
    }
    "Registration" {
        "registerNameServerPeriod" register_name_server_period: u64 = 30_000, "ms" [10000, 60000], fixed,
            "Time between two registrations at each name server.";
        "registerBrokerTimeoutMills" register_broker_timeout_mills: u64 = 24_000, "ms" [100, 600000], fixed,
            "How long one registration may take.";
    }
    "Topics and groups" {
        "brokerPermission" broker_permission: i32 = 6, "" [0, 7], hot important,
            "Sum of 4 (read) and 2 (write). Without 4 pulls are refused, without 2 sends to order topics and send-backs.";
        "autoCreateTopicEnable" auto_create_topic_enable: bool = true, "", fixed important,
            "Whether TBW102 exists, the template for a topic that a producer names first.";
        "defaultTopicQueueNums" default_topic_queue_nums: u32 = 8, "queues" [1, 1024], fixed,
            "Queues of TBW102, the most that an automatically created topic gets.";
        "clusterTopicEnable" cluster_topic_enable: bool = true, "", fixed,
            "Whether the topic named as the cluster may be written and read.";
        "brokerTopicEnable" broker_topic_enable: bool = true, "", fixed,
            "Whether the topic named as the broker may be written and read.";
        "autoCreateSubscriptionGroup" auto_create_subscription_group: bool = true, "", hot important,
            "Whether a consumer group comes into being when a client names it.";
        "traceTopicEnable" trace_topic_enable: bool = false, "", fixed,
            "Whether the topic of message traces exists from the start.";
        "msgTraceTopicName" msg_trace_topic_name: String = "RMQ_SYS_TRACE_TOPIC".to_owned(), "", fixed,
            "Name of that topic.";
        "maxTopics" max_topics: u32 = 100_000, "topics" [64, 10000000], hot,
            "LedgerMQ only. Automatic creation of topics stops at this number; updateTopic goes on.";
        "maxSubscriptionGroups" max_subscription_groups: u32 = 100_000, "groups" [64, 10000000], hot,
            "LedgerMQ only. Automatic creation of consumer groups stops at this number; updateSubGroup goes on.";
        "rejectPullConsumerEnable" reject_pull_consumer_enable: bool = false, "", hot,
            "Whether consumers that heartbeat as CONSUME_ACTIVELY are ignored.";
        "enablePropertyFilter" enable_property_filter: bool = false, "", hot,
            "Whether consumers may filter by an SQL92 expression over the properties of messages.";
    }
    "Messages" {
        "maxMessageSize" max_message_size: u32 = 4_194_304, "bytes" [1, 4194304], hot important,
            "Longest body of a message. An entry of the log holds 4 MiB with properties and headers.";
        "regionId" region_id: String = "DefaultRegion".to_owned(), "", fixed,
            "Text that every message carries as MSG_REGION.";
        "traceOn" trace_on: bool = true, "", hot,
            "Whether clients with tracing on may trace messages of this broker.";
    }
    "Store" {
        "storePathRootDir" store_path_root_dir: String = String::new(), "", fixed important,
            "Folder of all data; empty: $HOME/store. The log lies in its `dledger-<dLegerSelfId>`.";
        "mappedFileSizeCommitLog" mapped_file_size_commit_log: u64 = 1_073_741_824, "bytes" [65536, 1_073_741_824], fixed,
            "Length of one data file of the log. All members of a group must have the same.";
        "mappedFileSizeConsumeQueue" mapped_file_size_consume_queue: u64 = 6_000_000, "bytes" [20, 1_073_741_820], fixed,
            "Length of one consume queue file; rounded up to whole units of 20 bytes.";
        "maxHashSlotNum" max_hash_slot_num: u32 = 5_000_000, "slots" [16, 100000000], fixed,
            "Slots of one key index file.";
        "maxIndexNum" max_index_num: u32 = 20_000_000, "entries" [16, 400000000], fixed,
            "Entries of one key index file.";
        "messageIndexEnable" message_index_enable: bool = true, "", fixed,
            "Whether messages can be found by key and unique id.";
        "flushDiskType" flush_disk_type: FlushDiskType = FlushDiskType::Sync, "", fixed important,
            "What acknowledged means: SYNC_FLUSH = fsynced on a majority of the group, ASYNC_FLUSH = in the page cache of a majority. Unset means SYNC_FLUSH here; Java's default is the other one, and its DLedger ignores the key.";
        "fileReservedTime" file_reserved_time: u32 = 72, "hours" [1, 1000000], fixed important,
            "Age at which a data file of the log is deleted.";
        "deleteWhen" delete_when: Hours = Hours::of(4), "", fixed important,
            "Hours of the day (local time, 00 to 23, separated by ';') at which old files are deleted.";
        "diskMaxUsedSpaceRatio" disk_max_used_space_ratio: u32 = 75, "%" [10, 95], fixed,
            "Above this use of the disk old files are deleted at any hour.";
        "diskSpaceCleanForciblyRatio" disk_space_clean_forcibly_ratio: u32 = 85, "%" [20, 99], fixed,
            "Above this use of the disk the oldest files are deleted even before their time.";
        "cleanFileForciblyEnable" clean_file_forcibly_enable: bool = true, "", fixed,
            "Whether files may be deleted before their time.";
        "accessMessageInMemoryMaxRatio" access_message_in_memory_max_ratio: u32 = 40, "%" [1, 95], fixed,
            "A message within this share of the machine's memory from the log's end counts as in memory: it decides the limits of a pull, and where a new consumer starts on a young queue.";
        "diskSpaceWarningLevelRatio" disk_space_warning_level_ratio: u32 = 90, "%" [35, 99], hot,
            "Above this use of the disk sends are refused.";
        "cleanResourceInterval" clean_resource_interval: u64 = 10_000, "ms" [100, 86400000], fixed,
            "Time between two looks for files to delete.";
    }
    "Pull" {
        "maxTransferBytesOnMessageInMemory" max_transfer_bytes_on_message_in_memory: u32 = 262_144, "bytes" [1, 134217728], fixed,
            "Bytes of one pull from memory; the first message is always given.";
        "maxTransferCountOnMessageInMemory" max_transfer_count_on_message_in_memory: u32 = 32, "messages" [1, 100000], fixed,
            "Messages of one pull from memory.";
        "maxTransferBytesOnMessageInDisk" max_transfer_bytes_on_message_in_disk: u32 = 65_536, "bytes" [1, 134217728], fixed,
            "Bytes of one pull from disk; the first message is always given.";
        "maxTransferCountOnMessageInDisk" max_transfer_count_on_message_in_disk: u32 = 8, "messages" [1, 100000], fixed,
            "Messages of one pull from disk.";
        "longPollingEnable" long_polling_enable: bool = true, "", hot,
            "Whether a pull that finds nothing waits as long as the client asks; else it waits shortPollingTimeMills.";
        "shortPollingTimeMills" short_polling_time_mills: u64 = 1_000, "ms" [1, 600000], hot,
            "How long a pull waits where longPollingEnable is false.";
        "slaveReadEnable" slave_read_enable: bool = false, "", hot,
            "Whether a slave serves pulls of what is committed, and a master sends consumers that lag to one that lives.";
        "litePullMessageEnable" lite_pull_message_enable: bool = true, "", hot,
            "Whether code 361 is served.";
        "maxHeldPulls" max_held_pulls: u32 = 100_000, "pulls" [1, 10000000], fixed,
            "LedgerMQ only. Pulls that wait for messages at a time; a further one is answered at once that nothing was found.";
        "useServerSideResetOffset" use_server_side_reset_offset: bool = true, "", hot,
            "Whether resetOffsetByTime is done by the broker at the next pull, else by a push to the consumers.";
        "defaultQueryMaxNum" default_query_max_num: u32 = 32, "messages" [1, 1000], hot,
            "Messages of one query by unique id.";
    }
    "Pop" {
        "popPollingSize" pop_polling_size: u32 = 1_024, "pops" [1, 1000000], hot,
            "Pops of one group that wait for messages of one queue, or of all, of a topic; a further one is answered POLLING_FULL.";
        "maxPopPollingSize" max_pop_polling_size: u32 = 100_000, "pops" [1, 10000000], hot,
            "Pops that wait for messages at a time; a further one is answered POLLING_FULL.";
        "popFromRetryProbability" pop_from_retry_probability: u32 = 20, "%" [0, 100], hot,
            "Share of pops that look at messages which come again before those that are new; the others look at them last.";
        "popFromRetryProbabilityForPriority" pop_from_retry_probability_for_priority: u32 = 0, "%" [0, 100], hot,
            "The same for pops that go by priority: with 0 what comes again is the least urgent, with 100 the most urgent.";
        "priorityOrderAsc" priority_order_asc: bool = true, "", hot,
            "Whether of the queues of a topic with `message.type=PRIORITY` the one with the largest number is the most urgent, as a priority is the number of a queue; else queue 0 is.";
        "useSeparateRetryQueue" use_separate_retry_queue: bool = false, "", hot,
            "Whether popped messages that come again keep the number of their queue, and so their priority; else all are in queue 0.";
        "enableRetryTopicV2" enable_retry_topic_v2: bool = false, "", hot,
            "Whether messages that were not acknowledged in time go to `%RETRY%GROUP+TOPIC` in place of `%RETRY%GROUP_TOPIC`.";
        "retrieveMessageFromPopRetryTopicV1" retrieve_message_from_pop_retry_topic_v1: bool = true, "", hot,
            "Whether with enableRetryTopicV2 pops still look at `%RETRY%GROUP_TOPIC` too.";
        "popResponseReturnActualRetryTopic" pop_response_return_actual_retry_topic: bool = false, "", hot,
            "Whether a message that comes again names its retry topic in place of the topic that is popped.";
        "initPopOffsetByCheckMsgInMem" init_pop_offset_by_check_msg_in_mem: bool = true, "", hot,
            "Whether a group that wants to begin with the newest message gets all of a young queue.";
        "maxOpenCheckPoints" max_open_check_points: u32 = 1_000_000, "pops" [1000, 100000000], hot,
            "LedgerMQ only. Pops whose messages are not all acknowledged, at a time; a further one is answered SYSTEM_BUSY. Each takes about 500 bytes of memory.";
    }
    "Delay" {
        "messageDelayLevel" message_delay_level: DelayLevels = DelayLevels::default(), "", fixed,
            "Delays of levels 1, 2 and so on. After a change of the table, messages that wait keep their time where their level got longer; where it got shorter, they come after its new delay from the start on. Levels that are no more are delivered, too, their messages at the latest after the delay of the last level. It may be changed member by member: how long a message waits stands with it.";
        "flushDelayOffsetInterval" flush_delay_offset_interval: u64 = 1_000, "ms" [10, 600000], fixed,
            "Time after which the delivery of delayed messages looks at its queues at the latest. Progress is in the log, behind the messages it accounts for.";
    }
    "Timers" {
        "timerWheelEnable" timer_wheel_enable: bool = true, "", hot,
            "Whether messages may ask for a time of delivery; those that were taken are delivered in any case.";
        "timerMaxDelaySec" timer_max_delay_sec: u32 = 259_200, "s" [1, 315360000], hot,
            "How far ahead that time may be.";
        "timerRollWindowSlot" timer_roll_window_slot: u32 = 172_800, "s" [1, 315360000], hot,
            "A message that waits for longer is put into the log again, and where fileReservedTime is shorter than twice that already after half of it, so that its file can be deleted.";
        "recallMessageEnable" recall_message_enable: bool = false, "", hot,
            "Whether producers may take such messages back (request 370).";
    }
    "Transactions" {
        "transactionTimeOut" transaction_time_out: u64 = 6_000, "ms" [0, 86400000], hot important,
            "Age from which a half message is asked about, where its producer does not say another one by CHECK_IMMUNITY_TIME_IN_SECONDS.";
        "transactionCheckInterval" transaction_check_interval: u64 = 30_000, "ms" [10, 86400000], hot important,
            "Time between two turns in which producers are asked about half messages.";
        "transactionCheckMax" transaction_check_max: u32 = 15, "questions" [0, 1000000], hot important,
            "Questions about one half message; then it goes to TRANS_CHECK_MAX_TIME_TOPIC. So does one that is older than fileReservedTime.";
        "rejectTransactionMessage" reject_transaction_message: bool = false, "", hot,
            "Whether half messages are refused.";
    }
    "Light queues" {
        "enableLmq" enable_lmq: bool = false, "", fixed,
            "Whether a queue named `%LMQ%...` is read, and written, as a topic of one queue. Alike in all members of a group.";
        "enableMultiDispatch" enable_multi_dispatch: bool = false, "", fixed,
            "Whether a message enters the queues that its property INNER_MULTI_DISPATCH names too. Without it such a message is refused, where Java stores it and forgets the queues.";
        "maxLmqConsumeQueueNum" max_lmq_consume_queue_num: u32 = 20_000, "queues" [1, 10000000], hot,
            "Light queues that sends make at most.";
    }
    "Request and reply" {
        "storeReplyMessageEnable" store_reply_message_enable: bool = true, "", hot,
            "Whether a reply that the broker brings to its requester is stored in `<brokerClusterName>_REPLY_TOPIC` too.";
    }
    "Consumers" {
        "flushConsumerOffsetInterval" flush_consumer_offset_interval: u64 = 5_000, "ms" [10, 600000], fixed,
            "Time between two writes of the JSON files in config/, which follow the journal in the log: no acknowledged offset or topic is lost between two of them.";
        "enableBroadcastOffsetStore" enable_broadcast_offset_store: bool = true, "", hot,
            "Whether the broker remembers where members of broadcasting groups pull, so that one that comes by a proxy, or leaves it, goes on where it was, and a new one behind a proxy begins with the one that is furthest behind. Single members are in the master's memory, the least offsets in the log under the group `GROUP@broadcast`: after a change of the master a member that a proxy knows nothing of begins there, and may get messages again.";
        "broadcastOffsetExpireSecond" broadcast_offset_expire_second: u64 = 120, "s" [1, 86400], hot,
            "How long a member of a broadcasting group is remembered that is not online and does not pull.";
        "broadcastOffsetExpireMaxSecond" broadcast_offset_expire_max_second: u64 = 300, "s" [1, 86400], hot,
            "The same for one that is online.";
        "channelExpiredTimeout" channel_expired_timeout: u64 = 120_000, "ms" [1000, 86400000], fixed,
            "A client without a heartbeat for this long is forgotten.";
        "serverLoadBalancerEnable" server_load_balancer_enable: bool = true, "", hot,
            "Whether the broker shares the queues of a topic among the consumers that ask it which to consume (request 400); else each is told all.";
        "defaultMessageRequestMode" default_message_request_mode: RequestMode = RequestMode::Pull, "", hot,
            "How such a group consumes a topic where setConsumeMode has not said it.";
        "defaultPopShareQueueNum" default_pop_share_queue_num: i32 = -1, "consumers" [-1, 1000000], hot,
            "With POP by default, the queues of how many others a consumer shares; none or less: all consumers share all queues.";
        "loadBalancePollNameServerInterval" load_balance_poll_name_server_interval: u64 = 30_000, "ms" [10, 600000], hot,
            "Time after which a name server is asked again where the queues of a topic are.";
    }
    "Bounds on work" {
        "adminBrokerThreadPoolNums" admin_broker_thread_pool_nums: u32 = 16, "requests" [1, 1024], fixed,
            "Administrative requests that run at a time.";
        "adminThreadPoolQueueCapacity" admin_thread_pool_queue_capacity: u32 = 10_000, "requests" [1, 10000000], fixed,
            "Administrative requests that may wait; a further one is answered SYSTEM_BUSY.";
        "pullMessageThreadPoolNums" pull_message_thread_pool_nums: u32 = 32, "requests" [1, 1024], fixed,
            "Pulls that read from disk at a time.";
        "pullThreadPoolQueueCapacity" pull_thread_pool_queue_capacity: u32 = 100_000, "requests" [1, 10000000], fixed,
            "Pulls that may wait to read from disk; a further one is answered SYSTEM_BUSY.";
        "queryMessageThreadPoolNums" query_message_thread_pool_nums: u32 = 12, "requests" [1, 1024], fixed,
            "Queries by key, id or time that run at a time.";
        "queryThreadPoolQueueCapacity" query_thread_pool_queue_capacity: u32 = 20_000, "requests" [1, 10000000], fixed,
            "Queries that may wait; a further one is answered SYSTEM_BUSY.";
    }
}
