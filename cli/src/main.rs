//! The `ledgermq` binary.
#![expect(clippy::print_stderr, reason = "the program tells its last error on standard error")]

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{CommandFactory, Parser};

mod admin;
mod args;
mod bench;
mod check_config;
mod config;
mod consume;
mod data_lock;
mod dledger_group;
mod figures;
mod forbid_exec;
mod listen;
mod logging;
mod open_files;
mod output;
mod page;
mod send;
mod serve;
mod server_commands;
mod standalone;
mod stop;
mod store_tool;

use args::{BoundsArgs, Cli, Command, JavaBrokerArgs, JavaNamesrvArgs, LogArgs};
use logging::LogLevel;

fn main() -> ExitCode {
    let (log, bounds, command) = command_line();
    match run(&log, bounds, command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough, as with `head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // With the alternate form each cause follows its effect on one line.
            eprintln!("ledgermq: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(log: &LogArgs, bounds: BoundsArgs, command: Command) -> anyhow::Result<()> {
    if let Command::Completions { shell } = command {
        let name = "ledgermq";
        clap_complete::generate(shell, &mut Cli::command(), name, &mut std::io::stdout().lock());
        return Ok(());
    }
    let serves = match &command {
        Command::Standalone(_) | Command::Broker(_) | Command::Namesrv(_) => true,
        Command::Dledger(args) => args.serves(),
        _ => false,
    };
    let level = LogLevel::install(log, if serves { "info" } else { "warn" })?;
    if serves {
        open_files::raise_limit();
    }
    if bounds.forbid_exec {
        forbid_exec::forbid()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("threads cannot be started")?;
    let result = runtime.block_on(dispatch(command, level));
    // A read of standard input that waits for the terminal must not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn dispatch(command: Command, level: LogLevel) -> anyhow::Result<()> {
    match command {
        Command::Send(args) => send::run(args).await,
        Command::Consume(args) => consume::run(args).await,
        Command::Admin(args) => admin::run(args).await,
        Command::Standalone(args) => standalone::run(args, level).await,
        Command::Broker(args) => server_commands::broker(args, level).await,
        Command::Namesrv(args) => server_commands::namesrv(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Dledger(args) => dledger_group::run(args).await,
        Command::Store(args) => tokio::task::block_in_place(|| store_tool::run(&args)),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Completions { .. } => Ok(()),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Reads the command line by the name the program was called by.
fn command_line() -> (LogArgs, BoundsArgs, Command) {
    match called_as().as_deref() {
        Some("mqbroker") => {
            let args = JavaBrokerArgs::parse();
            (args.log.clone(), args.bounds, Command::Broker(args.into_broker()))
        }
        Some("mqnamesrv") => {
            let args = JavaNamesrvArgs::parse();
            (args.log.clone(), args.bounds, Command::Namesrv(args.into_namesrv()))
        }
        _ => {
            let cli = Cli::parse();
            (cli.log, cli.bounds, cli.command)
        }
    }
}

/// The last part of the name the program was called by, without an extension such as `.sh`.
fn called_as() -> Option<String> {
    let name = std::env::args_os().next()?;
    Some(std::path::Path::new(&name).file_stem()?.to_string_lossy().into_owned())
}
