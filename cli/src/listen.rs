//! Listening, and telling where.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
};

use anyhow::Context;
use tokio::net::TcpListener;

/// Listens at an address; an error names the address and the flag that changes it.
pub(crate) async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| refused(address, flag, error))
}

/// The error of an address that cannot be listened at.
pub(crate) fn refused(address: SocketAddr, flag: &str, error: io::Error) -> anyhow::Error {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another process listens there; stop it, or choose another address by"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 belong to root; choose another address by"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; choose another by"
        }
        _ => "choose another address by",
    };
    anyhow::Error::new(error).context(format!("cannot listen at {address}: {why} {flag}"))
}

/// Writes `name=address` lines to a file that appears complete: scripts and tests wait for it.
pub(crate) fn write_ready_file(path: &Path, lines: &[(&str, String)]) -> anyhow::Result<()> {
    let failed = || format!("--ready-file {} cannot be written", path.display());
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&draft)
        .with_context(failed)?;
    for (name, value) in lines {
        writeln!(file, "{name}={value}").with_context(failed)?;
    }
    drop(file);
    rename(Path::new(&draft), path).with_context(failed)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file is no part of the store and need not survive a crash; it must only appear \
              complete"
)]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_names_address_and_flag() {
        let first = bind("127.0.0.1:0".parse().unwrap(), "--http-listen").await.unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address, "--http-listen").await.unwrap_err().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("another address by --http-listen"), "{error}");
    }

    #[test]
    fn a_ready_file_has_a_line_for_each_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        write_ready_file(&path, &[("broker", "127.0.0.1:1".to_owned())]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "broker=127.0.0.1:1\n");
        let error = write_ready_file(&folder.path().join("no/ready"), &[]).unwrap_err();
        assert!(error.to_string().contains("--ready-file"), "{error}");
    }
}
