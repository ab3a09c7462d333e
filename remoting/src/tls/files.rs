//! Certificates and keys from PEM files.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::Document;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::{Secret, TlsError};

/// Longest file that is read.
const LONGEST: u64 = 4 << 20;

/// A chain of certificates, the owner's first.
pub(super) fn chain(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(key, path)?;
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::content(key, path, error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::content(key, path, "no CERTIFICATE in this PEM file"));
    }
    Ok(chain)
}

/// The certificates that signatures are trusted of.
pub(super) fn trusted(key: &'static str, path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in chain(key, path)? {
        store.add(certificate).map_err(|error| TlsError::content(key, path, error.to_string()))?;
    }
    Ok(Arc::new(store))
}

/// A private key, decrypted where it is PKCS #8 with a password.
pub(super) fn private_key(
    key: &'static str,
    path: &Path,
    password: &Secret,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(key, path)?;
    warn_of_readers(key, path);
    let refused = |cause: String| TlsError::content(key, path, cause);
    let text_form = String::from_utf8_lossy(&text);
    if let Some(section) = section(&text_form, "ENCRYPTED PRIVATE KEY") {
        return decrypt(section, password).map_err(refused);
    }
    if text_form.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(refused(format!(
            "the key is encrypted in OpenSSL's old form; convert it: openssl pkcs8 -topk8 -v2 aes256 -in {} -out NEW",
            path.display()
        )));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| refused(error.to_string()))
}

/// The first section of a label, with its lines of begin and end.
fn section<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let from = text.find(&begin)?;
    let length = text.get(from..)?.find(&end)? + end.len();
    text.get(from..from + length)
}

fn decrypt(section: &str, password: &Secret) -> Result<PrivateKeyDer<'static>, String> {
    if password.is_empty() {
        return Err("the key is encrypted and keyPassword is not set".to_owned());
    }
    let (_, document) = Document::from_pem(section).map_err(|error| error.to_string())?;
    let info = EncryptedPrivateKeyInfo::try_from(document.as_bytes())
        .map_err(|error| format!("the encrypted key cannot be read: {error}"))?;
    let plain = info.decrypt(password.expose()).map_err(|error| {
        format!(
            "the key cannot be decrypted ({error}): the password is wrong, or the cipher is neither AES nor by PBES2; convert it: openssl pkcs8 -topk8 -v2 aes256"
        )
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec())))
}

fn read(key: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let unreadable =
        |cause| TlsError::Unreadable { key, path: path.to_owned(), cause: Arc::new(cause) };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > LONGEST {
        let cause = format!("a file of {length} bytes is no PEM file of keys or certificates");
        return Err(unreadable(io::Error::other(cause)));
    }
    std::fs::read(path).map(Zeroizing::new).map_err(unreadable)
}

/// A private key that every user of the host can read is no secret.
fn warn_of_readers(key: &'static str, path: &Path) {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => tracing::warn!(
            key,
            path = %path.display(),
            mode = format!("{:o}", metadata.mode() & 0o777),
            "other users can read this private key: chmod 600"
        ),
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "mode of a private key"),
    }
}
