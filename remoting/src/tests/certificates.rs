//! Certificates for tests, made when they are needed.

use std::path::{Path, PathBuf};

use pkcs8::LineEnding;
use pkcs8::der::SecretDocument;
use pkcs8::pkcs5::pbes2;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;

use crate::{ClientAuth, TlsClientSettings, TlsMode, TlsServerSettings};

/// An authority with a folder for what it signs.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// Files of one certificate.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        let this = Self { issuer, folder };
        write(&this.trust(), &this.issuer.pem());
        this
    }

    /// The file of its own certificate.
    pub(super) fn trust(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a name or address.
    pub(super) fn sign(&self, name: &str) -> Files {
        self.sign_until(name, 2090)
    }

    /// One that ends with a year.
    pub(super) fn sign_until(&self, name: &str, year: i32) -> Files {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let name = format!("{name}-{year}");
        let files = Files {
            certificate: self.folder.path().join(format!("{name}.pem")),
            key: self.folder.path().join(format!("{name}.key")),
        };
        write(&files.certificate, &certificate.pem());
        write(&files.key, &key.serialize_pem());
        files
    }
}

impl Files {
    /// Puts others in the place of these, as a tool that renews certificates does.
    pub(super) fn replace_by(&self, other: &Self) {
        for (from, to) in [(&other.certificate, &self.certificate), (&other.key, &self.key)] {
            std::fs::copy(from, to).expect("copied");
        }
    }

    /// A copy of the key that has a password.
    pub(super) fn with_password(&self, password: &str) -> Self {
        let pem = std::fs::read_to_string(&self.key).expect("the key");
        let (_, plain) = SecretDocument::from_pem(&pem).expect("PEM");
        let (salt, vector) = ([7; 16], [9; 16]);
        let how = pbes2::Parameters::pbkdf2_sha256_aes256cbc(2048, &salt, &vector).expect("fits");
        let info = pkcs8::PrivateKeyInfo::try_from(plain.as_bytes()).expect("PKCS #8");
        let hidden = info.encrypt_with_params(how, password).expect("encrypted");
        let text = hidden.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).expect("PEM");
        let key = self.key.with_extension("hidden");
        write(&key, &text);
        Self { key, certificate: self.certificate.clone() }
    }
}

fn write(path: &Path, text: &str) {
    let mut file = std::fs::File::create(path).expect("a file");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
}

/// Settings of a server with a certificate.
pub(super) fn server(mode: TlsMode, files: &Files) -> TlsServerSettings {
    TlsServerSettings {
        mode,
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        look: std::time::Duration::from_millis(20),
        ..TlsServerSettings::default()
    }
}

/// The same where clients are asked for a certificate of an authority.
pub(super) fn asking(auth: ClientAuth, files: &Files, of: &Authority) -> TlsServerSettings {
    TlsServerSettings { client_auth: auth, trust: of.trust(), ..server(TlsMode::Enforcing, files) }
}

/// Settings of a client that trusts an authority.
pub(super) fn trusting(authority: &Authority) -> TlsClientSettings {
    TlsClientSettings { enabled: true, trust: authority.trust(), ..TlsClientSettings::default() }
}

/// The same with a certificate of its own.
pub(super) fn showing(authority: &Authority, files: &Files) -> TlsClientSettings {
    TlsClientSettings {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        ..trusting(authority)
    }
}
