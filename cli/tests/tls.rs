//! TLS as an operator sets it up: one certificate for name server and broker, and clients that are
//! told whom to trust.
#![allow(
    clippy::unwrap_used,
    reason = "these are parts of tests; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use process::{Server, ledgermq};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A password that must not be seen anywhere.
const PLANTED: &str = "planted-password-7f3a";

fn write(path: PathBuf, text: &str) -> String {
    let mut file = std::fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Files of an authority and of a certificate for 127.0.0.1 that it has signed.
struct Files {
    ca: String,
    certificate: String,
    key: String,
}

fn certificates(folder: &Path) -> Files {
    std::fs::create_dir_all(folder).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    Files {
        ca: write(folder.join("ca.pem"), &issuer.pem()),
        certificate: write(folder.join("server.pem"), &certificate.pem()),
        key: write(folder.join("server.key"), &key.serialize_pem()),
    }
}

fn with_keys(mut arguments: Vec<String>, keys: &[(&str, &str)]) -> Vec<String> {
    for (key, value) in keys {
        arguments.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    arguments
}

#[test]
fn s_11_an_enforcing_standalone_serves_clients_that_trust_it_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder.path().join("tls"));
    let other = certificates(&folder.path().join("other"));
    let keys = [
        ("tls.server.mode", "enforcing"),
        ("tls.server.certPath", files.certificate.as_str()),
        ("tls.server.keyPath", &files.key),
        ("tls.server.keyPassword", PLANTED),
        ("tls.enable", "true"),
        ("tls.client.trustCertPath", &files.ca),
        ("tls.client.keyPassword", PLANTED),
    ];
    let arguments = with_keys(Server::standalone_arguments(folder.path()), &keys);
    let arguments = [arguments, vec!["--log-level".to_owned(), "debug".to_owned()]].concat();
    let mut server = Server::start(folder.path(), &arguments);
    let trusting = ["--tls-ca", &files.ca];
    let with = |words: &[&str]| server.run(&[words, &trusting].concat());
    assert!(with(&["send", "T", "over TLS"]).contains("SEND_OK"));
    server.run_until(&["consume", "T", "--body", trusting[0], trusting[1]], |seen| {
        seen == "over TLS\n"
    });
    assert!(with(&["admin", "cluster"]).contains("broker-a"));
    let load = ["--duration", "300ms", "--json"];
    let sent = with(&[&["bench", "produce", "--warmup", "0"], &load[..]].concat());
    assert!(sent.contains("messagesInAll"), "{sent}");
    assert!(with(&["bench", "consume", "--json"]).contains("received"));
    with(&[&["bench", "e2e", "--rate", "50", "--warmup", "0"], &load[..]].concat());
    with(&["bench", "failover", "--rate", "50", "--duration", "1s", "--json"]);

    let namesrv = server.address("namesrv");
    let refused = |flags: &[&str]| {
        let words = [&["send", "T", "x", "--namesrv", &namesrv], flags].concat();
        let (succeeded, _, errors) = ledgermq(&words, "");
        assert!(!succeeded, "{flags:?}");
        errors
    };
    refused(&[]);
    let errors = refused(&["--tls-ca", &other.ca]);
    assert!(errors.contains("--tls-ca"), "{errors}");
    let errors = refused(&["--tls-ca", &files.ca, "--tls-server-name", "elsewhere.example"]);
    assert!(errors.contains("--tls-server-name"), "{errors}");

    // Requirement S-9: nothing tells a password, and no file keeps it.
    server.stop();
    let seen = [server.errors(), server.output()].concat();
    assert!(seen.contains("TLS is offered"), "{seen}");
    assert!(!seen.contains(PLANTED), "a password is in the log");
    let holding = files_with(PLANTED, folder.path());
    assert!(holding.is_empty(), "a password is in {holding:?}");
    let planted = write(folder.path().join("ledgermq-data").join("planted"), PLANTED);
    assert_eq!(files_with(PLANTED, folder.path()), [PathBuf::from(planted)]);
}

/// The files in a folder, and below it, whose first MiB holds a text; of a sparse file of the log
/// that is all that such a test writes.
fn files_with(text: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(text, &path));
            continue;
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).unwrap();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, 1 << 20), &mut bytes).unwrap();
        if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[test]
fn s_09_a_printed_configuration_has_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("tls.server.keyPassword={PLANTED}\ntls.client.keyPassword={PLANTED}\n");
    let file = write(folder.path().join("some.conf"), &text);
    for command in ["broker", "namesrv"] {
        let (succeeded, printed, errors) = ledgermq(&[command, "-c", &file, "-p"], "");
        assert!(succeeded, "{errors}");
        assert!(printed.contains("tls.server.keyPassword=******"), "{printed}");
        assert!(!printed.contains(PLANTED) && !errors.contains(PLANTED), "{command}");
    }
}

/// Told with the next step; a key that only its owner can read is nothing to tell of.
#[test]
fn s_09_a_private_key_that_others_can_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder.path().join("tls"));
    let keys = [
        ("tls.server.mode", "permissive"),
        ("tls.server.certPath", files.certificate.as_str()),
        ("tls.server.keyPath", &files.key),
    ];
    let arguments = with_keys(Server::standalone_arguments(folder.path()), &keys);
    for (mode, told) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        std::fs::set_permissions(&files.key, PermissionsExt::from_mode(mode)).unwrap();
        let mut server = Server::start(folder.path(), &arguments);
        server.stop();
        let errors = server.errors();
        let line = errors.lines().find(|line| line.contains("other users can read"));
        assert_eq!(line.is_some(), told, "mode {mode:o}: {errors}");
        if let Some(line) = line {
            let whole = ["chmod 600", &files.key, &format!("{mode:o}"), "tls.server.keyPath"];
            assert!(whole.iter().all(|part| line.contains(part)), "{line}");
        }
    }
}

#[test]
fn a_standalone_that_could_not_reach_itself_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder.path().join("tls"));
    let keys = [
        ("tls.server.mode", "enforcing"),
        ("tls.server.certPath", files.certificate.as_str()),
        ("tls.server.keyPath", &files.key),
    ];
    let arguments = with_keys(Server::standalone_arguments(folder.path()), &keys);
    let (succeeded, _, errors) = ledgermq(&arguments, "");
    assert!(!succeeded);
    assert!(errors.contains("tls.enable=true") && errors.contains("trustCertPath"), "{errors}");
}
