//! Keys that Java knows and that have no effect here, each with its reason, and keys that are
//! refused at start with the way to do it here.

/// A key of Java's that has no effect here.
#[derive(Debug)]
pub struct Known {
    /// Java's spelling.
    pub name: &'static str,
    /// Java's default, as text.
    pub default: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

/// A key that stops the start where its value asks for a mode that does not exist here.
#[derive(Debug)]
pub struct Refusal {
    /// Java's spelling.
    pub name: &'static str,
    /// Whether a value asks for that mode.
    pub refuses: fn(&str) -> bool,
    /// How to do it here.
    pub instead: &'static str,
}

macro_rules! known {
    ($($reason:literal { $($name:literal = $default:literal),* $(,)? })*) => {
        /// Every key of Java's that has no effect here.
        pub static KNOWN: &[Known] = &[
            $($(Known { name: $name, default: $default, reason: $reason },)*)*
        ];
    };
}

known! {
    "the role follows from the election; a running broker tells it by GET_BROKER_CONFIG" {
        "brokerId" = "0", "brokerRole" = "ASYNC_MASTER",
    }
    "members of LedgerMQ always push in batches" {
        "enableBatchPush" = "false",
    }
    "followers of a group replicate the log itself" {
        "slaveTimeout" = "3000", "offsetCheckInSlave" = "false",
    }
    "the log lies in storePathRootDir/dledger-<dLegerSelfId>, as Java's DLedger has it" {
        "storePathCommitLog" = "", "storePathDLedgerCommitLog" = "",
        "readOnlyCommitLogStorePaths" = "", "storePathEpochFile" = "",
        "storePathBrokerIdentity" = "",
    }
    "this is replication between a fixed master and its slaves; a DLedger group elects its master" {
        "haSendHeartbeatInterval" = "5000", "haHousekeepingInterval" = "20000",
        "haTransferBatchSize" = "32768", "haMaxGapNotInSync" = "268435456",
        "totalReplicas" = "1", "inSyncReplicas" = "1", "minInSyncReplicas" = "1",
        "allAckInSyncStateSet" = "false", "enableAutoInSyncReplicas" = "false",
        "haMaxTimeSlaveNotCatchup" = "15000", "syncFromLastFile" = "false",
        "asyncLearner" = "false", "enableSlaveActingMaster" = "false",
        "enableRemoteEscape" = "false", "duplicationEnable" = "false",
        "compatibleWithOldNameSrv" = "true", "brokerHeartbeatInterval" = "1000",
        "brokerNotActiveTimeoutMillis" = "10000",
    }
    "this belongs to the controller, which a DLedger group does without" {
        "controllerAddr" = "", "fetchControllerAddrByDnsLookup" = "false",
        "syncBrokerMetadataPeriod" = "5000", "checkSyncStateSetPeriod" = "5000",
        "syncControllerMetadataPeriod" = "10000", "controllerHeartBeatTimeoutMills" = "10000",
        "brokerElectionPriority" = "2147483647",
    }
    "connections are served by one set of threads, one for each core" {
        "serverWorkerThreads" = "8", "serverSelectorThreads" = "3",
        "serverCallbackExecutorThreads" = "0", "serverOnewaySemaphoreValue" = "256",
        "serverAsyncSemaphoreValue" = "64", "useEpollNativeSelector" = "false",
        "clientWorkerThreads" = "4", "clientCallbackExecutorThreads" = "4",
        "clientOnewaySemaphoreValue" = "65535", "clientAsyncSemaphoreValue" = "65535",
        "sendMessageThreadPoolNums" = "4", "putMessageFutureThreadPoolNums" = "4",
        "ackMessageThreadPoolNums" = "16", "clientManageThreadPoolNums" = "32",
        "consumerManageThreadPoolNums" = "32", "heartbeatThreadPoolNums" = "4",
        "endTransactionThreadPoolNums" = "16", "litePullMessageThreadPoolNums" = "32",
        "replyThreadPoolQueueCapacity" = "10000", "sendThreadPoolQueueCapacity" = "10000",
        "clientManagerThreadPoolQueueCapacity" = "1000000",
        "consumerManagerThreadPoolQueueCapacity" = "1000000",
        "heartbeatThreadPoolQueueCapacity" = "50000", "endTransactionPoolQueueCapacity" = "100000",
        "waitTimeMillsInSendQueue" = "200", "brokerFastFailureEnable" = "true",
        "waitTimeMillsInPullQueue" = "5000", "waitTimeMillsInHeartbeatQueue" = "31000",
        "waitTimeMillsInTransactionQueue" = "3000", "useReentrantLockWhenPutMessage" = "true",
        "topicQueueLockNum" = "32",
    }
    "the system sizes socket buffers; idle and connect limits of outgoing connections are fixed" {
        "serverSocketSndBufSize" = "0", "serverSocketRcvBufSize" = "0",
        "clientSocketSndBufSize" = "0", "clientSocketRcvBufSize" = "0",
        "connectTimeoutMillis" = "3000", "clientChannelMaxIdleTimeSeconds" = "120",
        "clientCloseSocketIfTimeout" = "true", "serverPooledByteBufAllocatorEnable" = "true",
        "clientPooledByteBufAllocatorEnable" = "false",
    }
    "TLS is decided by tls.server.mode, and by tls.enable for name servers" {
        "useTLS" = "false", "tlsEnable" = "false",
    }
    "registration is always sent, whole and uncompressed" {
        "forceRegister" = "true", "compressedRegister" = "false",
        "enableSplitRegistration" = "false", "splitRegistrationSize" = "800",
        "enableSingleTopicRegister" = "false", "updateNameServerAddrPeriod" = "120000",
        "fetchNamesrvAddrByAddressServer" = "false", "namesrvDomain" = "",
        "useStaticBootstrap" = "false",
    }
    "bodies are written at once by positioned writes, and flushed by group commit" {
        "flushIntervalCommitLog" = "500", "flushCommitLogTimed" = "true",
        "flushCommitLogLeastPages" = "4", "flushCommitLogThoroughInterval" = "10000",
        "commitIntervalCommitLog" = "200", "commitCommitLogLeastPages" = "4",
        "commitCommitLogThoroughInterval" = "200", "syncFlushTimeout" = "5000",
        "putMessageTimeout" = "8000", "transientStorePoolEnable" = "false",
        "transientStorePoolSize" = "5", "fastFailIfNoBufferInStorePool" = "false",
        "warmMapedFileEnable" = "false", "osPageCacheBusyTimeOutMills" = "1000",
        "flushIntervalConsumeQueue" = "1000", "flushConsumeQueueLeastPages" = "2",
        "flushConsumeQueueThoroughInterval" = "60000", "maxAsyncPutMessageRequests" = "5000",
    }
    "consume queues and indexes are rebuilt from the log where they are not whole" {
        "checkCRCOnRecover" = "true", "recheckReputOffsetFromCq" = "false",
        "maxRecoveryCommitlogFiles" = "30", "recoverConcurrently" = "false",
        "messageIndexSafe" = "false", "forceVerifyPropCRC" = "false",
        "enabledAppendPropCRC" = "false", "readUnCommitted" = "false",
    }
    "the short record form is used wherever the topic's length allows it" {
        "autoMessageVersionOnTopicLen" = "true", "maxTopicLength" = "127",
    }
    "a file is deleted as soon as nobody reads it; a full disk refuses sends and is an error" {
        "deleteCommitLogFilesInterval" = "100", "deleteConsumeQueueFilesInterval" = "100",
        "destroyMapedFileIntervalForcibly" = "120000", "redeleteHangedFileInterval" = "120000",
        "deleteFileBatchMax" = "10",
    }
    "pulls read committed bytes from the ring of the newest messages, then from disk" {
        "maxConsumeQueueScan" = "20000",
        "transferMsgByHeap" = "true", "disableConsumeIfConsumerReadSlowly" = "false",
        "consumerFallbehindThreshold" = "17179869184", "maxMsgsNumBatch" = "64",
        "diskFallRecorded" = "true", "coldDataFlowControlEnable" = "false",
        "coldDataScanEnable" = "false", "coldCtrStrategyEnable" = "false",
        "usePIDColdCtrStrategy" = "true", "cgColdReadThreshold" = "3145728",
        "globalColdReadThreshold" = "104857600", "dataReadAheadEnable" = "true",
    }
    "an SQL92 expression is asked about each message; there are no bit maps beside the queues, and expressions follow from heartbeats" {
        "enableCalcFilterBitMap" = "false", "expectConsumerNumUseFilter" = "32",
        "maxErrorRateOfBloomFilter" = "20", "enableConsumeQueueExt" = "false",
        "mappedFileSizeConsumeQueueExt" = "50331648", "bitMapLengthConsumeQueueExt" = "64",
        "filterSupportRetry" = "false", "filterDataCleanTimeSpan" = "86400000",
    }
    "timers are exact to a second and have no files of their own: the consume queue of their topic is the index" {
        "timerPrecisionMs" = "1000", "timerFlushIntervalMs" = "1000",
        "mappedFileSizeTimerLog" = "104857600", "timerInterceptDelayLevel" = "false",
        "timerStopEnqueue" = "false", "timerSkipUnknownError" = "false",
    }
    "delayed messages are delivered by one task, level by level" {
        "enableScheduleAsyncDeliver" = "false", "delayOffsetUpdateVersionStep" = "200",
        "consumerOffsetUpdateVersionStep" = "500", "scheduleAsyncDeliverMaxPendingLimit" = "2000",
    }
    "each end of a transaction is recorded at once, in one batch with the message" {
        "transactionOpMsgMaxSize" = "4096", "transactionOpBatchInterval" = "3000",
    }
    "what was popped is written to the revive topic at once, and is looked at when its time is over" {
        "reviveQueueNum" = "8", "reviveInterval" = "1000", "reviveMaxSlow" = "3",
        "reviveScanTime" = "10000", "enableSkipLongAwaitingAck" = "false",
        "reviveAckWaitMs" = "180000", "skipWhenCKRePutReachMaxTimes" = "false",
        "enablePopLog" = "false", "enablePopBufferMerge" = "false",
        "popCkStayBufferTime" = "10000", "popCkStayBufferTimeOut" = "3000",
        "popCkMaxBufferSize" = "200000", "popCkOffsetMaxQueueSize" = "20000",
        "enablePopBatchAck" = "false", "appendAckAsync" = "false", "appendCkAsync" = "false",
        "popPollingMapSize" = "100000", "popPollingMapExpireTimeSeconds" = "600",
        "popLongPollingForceNotifyInterval" = "800", "enablePopMessageThreshold" = "false",
        "popInflightMessageThreshold" = "10000", "enableNotifyAfterPopOrderLockRelease" = "true",
        "popConsumerKVServiceEnable" = "false", "popConsumerKVServiceInit" = "false",
        "popConsumerFSServiceInit" = "true",
    }
    "topics with message.type=MIXED are not served here; making one is refused" {
        "enableMixedMessageType" = "false",
    }
    "topics of queue type BatchCQ and with cleanup.policy=COMPACTION are not served here; making one is refused" {
        "mapperFileSizeBatchConsumeQueue" = "13800000", "enableCompaction" = "true",
    }
    "metrics are served at the address of --http-listen" {
        "metricsExporterType" = "DISABLE", "metricsPromExporterPort" = "5557",
        "metricsPromExporterHost" = "", "metricsGrpcExporterTarget" = "",
        "enableDetailStat" = "true", "longPollingEnableStats" = "true",
    }
    "logs go to standard error; see --help for their form" {
        "isolateLogEnable" = "false", "rocketmqHome" = "", "brokerConfigPath" = "",
        "messageStorePlugIn" = "", "enableNetWorkFlowController" = "false",
    }
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// A broker that is open to everybody shall not look like one that is not.
const NO_ACCESS_CONTROL: &str = "access control does not exist here yet: keep strangers from the ports, or have certificates of clients checked (tls.server.mode=enforcing, tls.server.need.client.auth=require), and remove the key";

/// Keys that stop the start, by what their value asks for.
pub static REFUSALS: &[Refusal] = &[
    Refusal {
        name: "brokerRole",
        refuses: |text| text == "SLAVE",
        instead: "a DLedger group elects its master: remove brokerRole, and name the members in dLegerPeers",
    },
    Refusal {
        name: "haMasterAddress",
        refuses: |text| !text.is_empty(),
        instead: "members of a DLedger group find each other by dLegerPeers: remove haMasterAddress",
    },
    Refusal {
        name: "enableControllerMode",
        refuses: is_true,
        instead: "a DLedger group needs no controller: remove enableControllerMode, and name the members in dLegerPeers",
    },
    Refusal { name: "aclEnable", refuses: is_true, instead: NO_ACCESS_CONTROL },
    Refusal { name: "authenticationEnabled", refuses: is_true, instead: NO_ACCESS_CONTROL },
    Refusal { name: "authorizationEnabled", refuses: is_true, instead: NO_ACCESS_CONTROL },
    Refusal {
        name: "isInBrokerContainer",
        refuses: is_true,
        instead: "start one process for each broker",
    },
    Refusal {
        name: "brokerConfigPaths",
        refuses: |text| !text.is_empty(),
        instead: "this is a broker container's key: start one process for each broker, with -c for its file",
    },
    Refusal {
        name: "storeType",
        refuses: |text| text != "default",
        instead: "consume queues are files here (storeType=default): remove storeType",
    },
];
