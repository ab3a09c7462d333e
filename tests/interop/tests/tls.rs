//! Goal: the official Java client speaks TLS to our name server and broker with its own settings.
//! Method: certificates are made here; the client gets its system properties by the environment;
//! one standalone is permissive, the other enforcing with certificates of clients. A client that
//! trusts another authority, and a plain one, must not get through.
#![expect(clippy::unwrap_used, reason = "certificates of tests are sound")]
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use interop::{
    folder, libraries,
    node::Product,
    process::Process,
    suite::{Address, Suite},
    toolchain,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// How long a server may take until it serves.
const READY: Duration = Duration::from_secs(90);

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::create_dir_all(folder).context("a folder for certificates")?;
        let this = Self { issuer, folder: folder.to_path_buf() };
        this.write("ca.pem", &this.issuer.pem())?;
        Ok(this)
    }

    /// Signs a certificate for a name; the files are `<name>.pem` and `<name>.key`.
    fn sign(&self, name: &str) -> Result<()> {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.pem"), &certificate.pem())?;
        self.write(&format!("{name}.key"), &key.serialize_pem())
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let mut file = fs::File::create(self.folder.join(name)).context("a file of PEM")?;
        file.write_all(text.as_bytes()).context("writing PEM")
    }

    /// System properties of a Java client that trusts this authority and shows `client`.
    fn of_java(&self) -> Vec<String> {
        [
            ("tls.enable", "true".to_owned()),
            ("tls.test.mode.enable", "false".to_owned()),
            ("tls.client.authServer", "true".to_owned()),
            ("tls.client.trustCertPath", self.path("ca.pem")),
            ("tls.client.certPath", self.path("client.pem")),
            ("tls.client.keyPath", self.path("client.key")),
        ]
        .map(|(name, value)| format!("-D{name}={value}"))
        .into()
    }
}

/// A name server and a broker in one process, with TLS as `keys` say.
fn standalone(folder: &Path, keys: &[(&str, String)]) -> Result<(Process, Address)> {
    fs::create_dir_all(folder).context("the server's folder")?;
    let ready = folder.join("ready.txt");
    let mut command = Command::new(libraries::ledgermq()?);
    command.arg("standalone").arg("--data").arg(folder.join("data"));
    for flag in ["--broker-listen", "--namesrv-listen", "--http-listen"] {
        command.args([flag, "127.0.0.1:0"]);
    }
    command.arg("--ready-file").arg(&ready);
    for (key, value) in keys {
        command.args(["--set", &format!("{key}={value}")]);
    }
    let mut process = Process::start("standalone", &mut command, folder)?;
    process.ready(READY, || ready.exists())?;
    let text = fs::read_to_string(&ready).context("the addresses")?;
    let address = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(ToOwned::to_owned).with_context(|| format!("{name} in {text}"))
    };
    let address = Address { name_server: address("namesrv")?, broker: address("broker")? };
    Ok((process, address))
}

fn server_keys(authority: &Authority, mode: &str) -> Vec<(&'static str, String)> {
    vec![
        ("tls.server.mode", mode.to_owned()),
        ("tls.server.certPath", authority.path("127.0.0.1.pem")),
        ("tls.server.keyPath", authority.path("127.0.0.1.key")),
        ("tls.config.file", authority.path("none.properties")),
    ]
}

fn java() -> Result<Suite> {
    Suite::java("java-5.5.0", "5.5.0")
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_permissive_server_serves_java_clients_with_and_without_tls() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("tls-permissive", |folder| {
        let authority = Authority::new(&folder.join("tls"))?;
        authority.sign("127.0.0.1")?;
        authority.sign("client")?;
        let keys = server_keys(&authority, "permissive");
        let (mut server, address) = standalone(&folder.join("server"), &keys)?;
        let cases = ["send_sync", "push_concurrent", "big_and_compressed"];
        let secret = java()?.only(&cases).with_properties(&authority.of_java());
        secret.run(Product::Ours, &folder.join("tls-client"), &address)?;
        let plain = java()?.only(&["send_sync"]);
        plain.run(Product::Ours, &folder.join("plain-client"), &address)?;
        server.stop()?;
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn an_enforcing_server_wants_tls_and_a_certificate_of_java_clients() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("tls-enforcing", |folder| {
        let authority = Authority::new(&folder.join("tls"))?;
        let other = Authority::new(&folder.join("other"))?;
        authority.sign("127.0.0.1")?;
        authority.sign("client")?;
        other.sign("client")?;
        let mut keys = server_keys(&authority, "enforcing");
        keys.push(("tls.server.need.client.auth", "require".to_owned()));
        keys.push(("tls.server.trustCertPath", authority.path("ca.pem")));
        // The broker itself has to get to the name server.
        keys.push(("tls.enable", "true".to_owned()));
        keys.push(("tls.client.trustCertPath", authority.path("ca.pem")));
        keys.push(("tls.client.certPath", authority.path("client.pem")));
        keys.push(("tls.client.keyPath", authority.path("client.key")));
        let (mut server, address) = standalone(&folder.join("server"), &keys)?;
        let cases = ["send_sync", "push_concurrent", "pull_consumer"];
        let right = java()?.only(&cases).with_properties(&authority.of_java());
        right.run(Product::Ours, &folder.join("right"), &address)?;
        for (name, properties) in [("other", other.of_java()), ("plain", Vec::new())] {
            let client = java()?.only(&["send_sync"]).with_properties(&properties).quick();
            let outcome = client.run(Product::Ours, &folder.join(name), &address);
            ensure!(outcome.is_err(), "a {name} client got through");
        }
        server.stop()?;
        Ok(())
    })
}
