//! Arguments of `bench`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{message::duration, tls::TlsArgs};

/// Arguments of `ledgermq bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq bench produce -n 127.0.0.1:9876                          1 KiB bodies, 1,000 in flight
  ledgermq bench produce -n 127.0.0.1:9876 --style sync --senders 32 --body 128
  ledgermq bench consume -n 127.0.0.1:9876                          reads back what is there
  ledgermq bench consume -n 127.0.0.1:9876 --live --duration 30s    what comes meanwhile
  ledgermq bench pop -n 127.0.0.1:9876 --workers 64                 takes and acknowledges it
  ledgermq bench timers -n 127.0.0.1:9876 --waiting 800000 --due 200000 --rate 5000
  ledgermq bench light -n 127.0.0.1:9876 --queues 20000             needs enableLmq, enableMultiDispatch
  ledgermq bench e2e -n 127.0.0.1:9876 --rate 5000 --json
  ledgermq bench failover -n 127.0.0.1:9876 --duration 5m           while you end brokers

Ctrl-C ends a run with the figures so far. A run without one success fails.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,

    /// Name servers, `host:port;host:port`; there is no default, as a load must not reach the
    /// wrong cluster
    #[arg(short = 'n', long = "namesrv", global = true, value_name = "ADDRS")]
    pub(crate) namesrv: Option<String>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Print one JSON object for each measured window
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What is measured.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Send as fast as the answers come
    Produce(ProduceArgs),
    /// Read everything that topics hold, from the first offset
    Consume(BenchConsumeArgs),
    /// Take messages for a time and acknowledge each, until nothing is left or the time is over
    ///
    /// Latency counts from a pop until all that it gave is acknowledged.
    Pop(PopArgs),
    /// Send timers that wait far ahead, and others that come due at a rate
    ///
    /// Latency is how late a timer is received after its time. Without --due only the sends are
    /// measured.
    Timers(TimersArgs),
    /// Send messages that go into light queues too (INNER_MULTI_DISPATCH), and read each of these
    Light(LightArgs),
    /// Send at a fixed rate and measure until a waiting consumer has each message
    ///
    /// Latency counts from the time at which a message was due, so that a broker that falls
    /// behind cannot make the load easier.
    E2e(EndToEndArgs),
    /// Send at a rate while something else ends brokers, and report how long nothing was
    /// acknowledged
    ///
    /// A gap is a time without an acknowledgement. At the end the queues are read back: `lost` are
    /// acknowledged messages that are not there.
    Failover(FailoverArgs),
}

/// Which topics.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopicsArgs {
    /// The topic; with --topics N the topics are NAME-0 to NAME-(N-1)
    #[arg(long, value_name = "NAME", default_value = "ledgermq_bench")]
    pub(crate) topic: String,

    /// Number of topics, which take turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) topics: u32,
}

/// How long is measured.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeasureArgs {
    /// Time of one measured window
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,

    /// Load before the first window, which is not measured
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = span)]
    pub(crate) warmup: Duration,

    /// Measured windows, one after the other without a pause
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
}

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Each sender waits for the answer to its message
    Sync,
    /// Each sender keeps --window messages in flight
    Async,
    /// Each sender waits for the answer to its batch of --batch messages
    Batch,
    /// Nobody waits; what the broker stored is counted afterwards
    Oneway,
}

impl Style {
    /// Its word on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Batch => "batch",
            Self::Oneway => "oneway",
        }
    }
}

/// Arguments of `ledgermq bench produce`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    pub(crate) topics: TopicsArgs,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Queues on each broker of a topic that this command makes [default: 8]; one that exists must
    /// have as many if this is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub(crate) queues: Option<i32>,

    /// How messages are sent
    #[arg(long, value_name = "STYLE", default_value = "async")]
    pub(crate) style: Style,

    /// Senders that work at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) senders: u32,

    /// Connections to each broker, among which the senders are shared out
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connections: u32,

    /// Messages in flight of each sender of style async
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) window: u32,

    /// Messages of one request of style batch
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,

    /// Bytes of a body; bodies are random and never compressed
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) body: u32,

    /// End after this many messages, those of the warm-up included, if the time is not over before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: Option<u64>,

    /// Time that a send may take; nothing is sent twice
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Arguments of `ledgermq bench consume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchConsumeArgs {
    #[command(flatten)]
    pub(crate) topics: TopicsArgs,

    /// Read what comes from now on instead of what is there, for --duration; latency is then the
    /// age of a message
    #[arg(long)]
    pub(crate) live: bool,

    /// Messages of one pull; brokers may give fewer
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) pull: u16,

    /// Queues that are read at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) parallel: u16,

    /// Time at most, even if the end is not reached
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,

    /// How often everything is read
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
}

/// Arguments of `ledgermq bench pop`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PopArgs {
    #[command(flatten)]
    pub(crate) topics: TopicsArgs,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Consumer group; a new one begins with the first message
    #[arg(long, value_name = "NAME", default_value = "ledgermq_bench_pop")]
    pub(crate) group: String,

    /// Workers that pop and acknowledge at the same time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: u32,

    /// Connections to each broker, among which the workers are shared out
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connections: u32,

    /// Messages of one pop; brokers may give fewer
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) batch: u16,

    /// For how long messages are taken
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) invisible: Duration,
}

/// Arguments of `ledgermq bench timers`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TimersArgs {
    /// The topic that they are delivered to
    #[arg(long, value_name = "NAME", default_value = "ledgermq_bench_timers")]
    pub(crate) topic: String,

    /// Timers that are sent first and wait far ahead
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) waiting: u32,

    /// How far ahead the first of them is due
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = duration)]
    pub(crate) ahead: Duration,

    /// Timers that come due in this run
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) due: u32,

    /// Timers that are due in a second, of both kinds
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,

    /// Time for sending those that come due in this run, before the first of them is due
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) lead: Duration,

    /// Bytes of a body, at least the 16 of its time
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub(crate) body: u32,

    /// Sends in flight
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=2_048))]
    pub(crate) window: u32,

    /// Time that a send may take; nothing is sent twice
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Arguments of `ledgermq bench light`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LightArgs {
    /// The topic of the messages; the queues are `%LMQ%NAME-0` and so on
    #[arg(long, value_name = "NAME", default_value = "ledgermq_bench_light")]
    pub(crate) topic: String,

    /// Light queues
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) queues: u32,

    /// Light queues that one message goes into
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) fan_out: u32,

    /// Messages of each queue
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) each: u32,

    /// Bytes of a body, at least the 16 of its number
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub(crate) body: u32,

    /// Sends in flight
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=2_048))]
    pub(crate) window: u32,

    /// Queues that are read at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) parallel: u16,

    /// Time at most for sending, and again for reading
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) duration: Duration,

    /// Time that a send may take; nothing is sent twice
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Arguments of `ledgermq bench e2e`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndToEndArgs {
    #[command(flatten)]
    pub(crate) topics: TopicsArgs,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Queues on each broker of a topic that this command makes [default: 8]; one that exists must
    /// have as many if this is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub(crate) queues: Option<i32>,

    /// Messages a second
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,

    /// Bytes of a body, at least the 16 of its time stamp
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..=4_194_304))]
    pub(crate) body: u32,

    /// Messages in flight at most; messages that are due then wait, which their latency shows
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) window: u32,

    /// Time that a send may take; nothing is sent twice
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Arguments of `ledgermq bench failover`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FailoverArgs {
    #[command(flatten)]
    pub(crate) topics: TopicsArgs,

    /// Queues on each broker of a topic that this command makes [default: 8]; one that exists must
    /// have as many if this is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub(crate) queues: Option<i32>,

    /// Time of the run
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,

    /// Messages a second; 0: as many as the window lets through
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) rate: u32,

    /// Messages in flight at most
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) window: u32,

    /// Bytes of a body, at least the 16 of its number
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    pub(crate) body: u32,

    /// Least time without an acknowledgement that is a gap
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    pub(crate) gap: Duration,

    /// How often a failed message is sent again, where there is time
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub(crate) retries: u32,

    /// Time that a send may take, repeats included
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// Age at which a route is asked for again; a failure makes it doubtful at once
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) route_age: Duration,

    /// Time at most for reading back at the end; 0: nothing is read back
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    pub(crate) verify: Duration,
}

/// A span as [`duration`], or none: `0`.
fn span(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { duration(text) }
}
