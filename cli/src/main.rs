//! The `ledgermq` binary.
#![expect(clippy::print_stderr, reason = "the program tells its last error on standard error")]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod args;
mod figures;
mod logging;
mod page;
mod stop;

use args::{Cli, Command, JavaBrokerArgs, JavaNamesrvArgs, LogArgs};

fn main() -> ExitCode {
    let (_, command) = command_line();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With the alternate form each cause follows its effect on one line.
            eprintln!("ledgermq: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "ledgermq",
                &mut std::io::stdout().lock(),
            );
            Ok(())
        }
        _ => anyhow::bail!("this command has no implementation yet"),
    }
}

/// Reads the command line by the name the program was called by.
fn command_line() -> (LogArgs, Command) {
    match called_as().as_deref() {
        Some("mqbroker") => {
            let args = JavaBrokerArgs::parse();
            (args.log.clone(), Command::Broker(args.into_broker()))
        }
        Some("mqnamesrv") => {
            let args = JavaNamesrvArgs::parse();
            (args.log.clone(), Command::Namesrv(args.into_namesrv()))
        }
        _ => {
            let cli = Cli::parse();
            (cli.log, cli.command)
        }
    }
}

/// The last part of the name the program was called by, without an extension such as `.sh`.
fn called_as() -> Option<String> {
    let name = std::env::args_os().next()?;
    Some(std::path::Path::new(&name).file_stem()?.to_string_lossy().into_owned())
}
