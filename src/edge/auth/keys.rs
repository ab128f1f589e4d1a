//! The keys that tokens may be signed with: one secret, one public key, or a set of public keys. Knows PEM and JWK; refuses
//! to know files and networks.
//!
//! A key checks the algorithms of its own kind and no others, so that a public key is never taken for a secret. What a
//! token says of its key is its name (`kid`) in this set; keys that a token brings along are not looked at.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use repltool_protocol::codec::shorten;
use serde_json::Value;

use super::{AuthError, MIN_SECRET_BYTES};
use crate::keys::KeyFile;

/// The most keys of a set.
pub const MAX_KEYS: usize = 100;
/// Every algorithm that this server knows, by its name in tokens and in the configuration.
pub(super) const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("HS256", Algorithm::HS256),
    ("RS256", Algorithm::RS256),
    ("PS256", Algorithm::PS256),
    ("ES256", Algorithm::ES256),
    ("EdDSA", Algorithm::EdDSA),
];
/// Sizes of RSA keys in bits: below it one can be broken, above it checking a signature takes too long.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Coordinates of P-256, and the key of Ed25519, in base64.
const BASE64_OF_32_BYTES: usize = 43;
/// Members of a JWK that only a private key has.
const PRIVATE_MEMBERS: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// Why there is no [`KeySet`].
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// Below [`MIN_SECRET_BYTES`].
    #[error("a signing secret has {0} bytes; at least {MIN_SECRET_BYTES} are needed")]
    Short(usize),
    /// The half of a key that signs.
    #[error("it holds a private key; this server needs the public half alone: `openssl pkey -in FILE -pubout`")]
    Private,
    /// A certificate is more than a key.
    #[error("it holds a certificate; take the key out of it: `openssl x509 -in FILE -noout -pubkey`")]
    Certificate,
    /// PEM has no names for keys.
    #[error("it holds several PEM keys; put them into one JWKS, each with a kid")]
    Several,
    /// No PEM and no JSON of the known forms.
    #[error("it holds neither a PEM public key (RSA, P-256 or Ed25519) nor a JWK or JWKS")]
    Unreadable,
    /// A secret among keys that are meant to be published.
    #[error("it holds a symmetric key (kty oct); give a secret by a file that holds the secret itself")]
    Symmetric,
    /// An RSA key that is too small or too large.
    #[error("it holds an RSA key of {0} bits; 2048 to 8192 are taken")]
    Bits(usize),
    /// One name for two keys.
    #[error("it holds two keys with the kid {0:?}")]
    Twice(String),
    /// Nothing in it is of use.
    #[error("it holds no key for a signature algorithm that is allowed here (auth.algorithms)")]
    Useless,
    /// Above [`MAX_KEYS`].
    #[error("it holds {0} keys; at most {MAX_KEYS} are taken")]
    Many(usize),
    /// The library refused.
    #[error("the key cannot be used")]
    Library(#[from] jsonwebtoken::errors::Error),
}

/// Tells a key from others, in this process. It says something of a secret, so it prints as `***`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyPrint(u64);

impl fmt::Debug for KeyPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The keys of a server. By default there are none yet, and no token can be checked.
#[derive(Debug, Default)]
pub struct KeySet(Vec<Key>);

/// One key, with the algorithms that it checks.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
    print: KeyPrint,
}

impl Key {
    fn new(id: Option<String>, algorithms: Vec<Algorithm>, decoding: DecodingKey) -> Self {
        let mut hasher = DefaultHasher::new();
        match decoding.kind() {
            DecodingKeyKind::SecretOrDer(bytes) => bytes.hash(&mut hasher),
            DecodingKeyKind::RsaModulusExponent { n, e } => (n, e).hash(&mut hasher),
        }
        Self { id, algorithms, decoding, print: KeyPrint(hasher.finish()) }
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }

    pub(super) fn print(&self) -> KeyPrint {
        self.print
    }
}

impl KeySet {
    /// The keys of a file, for these algorithms alone; without names it is those of the keys.
    ///
    /// # Errors
    /// [`KeySetError`], with what to do about it.
    pub fn new(file: &KeyFile, algorithms: &[String]) -> Result<Self, KeySetError> {
        let keys = match file {
            KeyFile::Secret(secret) => Self::secret(secret),
            KeyFile::Document(text) => Self::public(text),
        };
        keys?.only(algorithms)
    }

    /// One secret, for HS256. Its copy is wiped in the end.
    ///
    /// # Errors
    /// [`KeySetError::Short`].
    pub fn secret(secret: &[u8]) -> Result<Self, KeySetError> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeySetError::Short(secret.len()));
        }
        Ok(Self(vec![Key::new(None, vec![Algorithm::HS256], DecodingKey::from_secret(secret)?)]))
    }

    /// Public keys: a PEM public key, a JWK or a JWKS. Keys of a set that are of other kinds or for other uses are left
    /// out, as RFC 7517 has it in section 5.
    ///
    /// # Errors
    /// [`KeySetError`], with what to do about it.
    pub fn public(text: &[u8]) -> Result<Self, KeySetError> {
        let text = str::from_utf8(text).map_err(|_| KeySetError::Unreadable)?.trim_start();
        if text.starts_with("-----BEGIN") {
            return Self::of(vec![jwk_of_pem(text)?]);
        }
        let mut document: Value = serde_json::from_str(text).map_err(|_| KeySetError::Unreadable)?;
        match document.get_mut("keys").map(Value::take) {
            Some(Value::Array(keys)) if keys.len() > MAX_KEYS => Err(KeySetError::Many(keys.len())),
            Some(Value::Array(keys)) => Self::of(keys),
            Some(_) => Err(KeySetError::Unreadable),
            None if document.get("kty").is_some() => Self::of(vec![document]),
            None => Err(KeySetError::Unreadable),
        }
    }

    fn of(documents: Vec<Value>) -> Result<Self, KeySetError> {
        let mut keys: Vec<Key> = Vec::new();
        for key in documents.into_iter().map(key_of_jwk) {
            let Some(key) = key? else { continue };
            let same = |other: &&Key| key.id.is_some() && other.id == key.id;
            if let Some(id) = keys.iter().find(same).and_then(|it| it.id.clone()) {
                return Err(KeySetError::Twice(shorten(id)));
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(KeySetError::Useless) } else { Ok(Self(keys)) }
    }

    fn only(mut self, names: &[String]) -> Result<Self, KeySetError> {
        if names.is_empty() {
            return Ok(self);
        }
        let allowed = |algorithm: &Algorithm| {
            ALGORITHMS.iter().any(|(name, known)| known == algorithm && names.iter().any(|it| it == name))
        };
        self.0.iter_mut().for_each(|key| key.algorithms.retain(allowed));
        self.0.retain(|key| !key.algorithms.is_empty());
        if self.0.is_empty() { Err(KeySetError::Useless) } else { Ok(self) }
    }

    /// The key that a token names: by `kid` among those that have a name, and the one that fits where there is no choice.
    pub(super) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Result<&Key, AuthError> {
        if self.is_empty() {
            return Err(AuthError::NoKeys);
        }
        let fitting: Vec<&Key> = self.0.iter().filter(|key| key.algorithms.contains(&algorithm)).collect();
        if fitting.is_empty() {
            return Err(AuthError::Algorithm);
        }
        let named = fitting.iter().find(|key| id.is_some() && key.id.as_deref() == id);
        if let Some(key) = named {
            return Ok(key);
        }
        // A key without a name goes by any.
        let mut rest = fitting.into_iter().filter(|key| id.is_none() || key.id.is_none());
        match (rest.next(), rest.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(AuthError::Key),
        }
    }

    /// Whether there are none yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key with this print is among them.
    pub(super) fn has(&self, print: KeyPrint) -> bool {
        self.0.iter().any(|key| key.print == print)
    }
}

/// The one public key of a PEM text, as the JWK that it would be.
fn jwk_of_pem(text: &str) -> Result<Value, KeySetError> {
    if text.contains("PRIVATE KEY-----") {
        return Err(KeySetError::Private);
    }
    if text.contains("CERTIFICATE-----") {
        return Err(KeySetError::Certificate);
    }
    if text.matches("-----BEGIN").count() > 1 {
        return Err(KeySetError::Several);
    }
    let pem = text.as_bytes();
    let key = DecodingKey::from_ec_pem(pem).or_else(|_| DecodingKey::from_ed_pem(pem));
    let key = key.or_else(|_| DecodingKey::from_rsa_pem(pem)).map_err(|_| KeySetError::Unreadable)?;
    let jwk = Jwk::from_decoding_key(&key, None).map_err(|_| KeySetError::Unreadable)?;
    serde_json::to_value(jwk).map_err(|_| KeySetError::Unreadable)
}

/// A key for signatures; none if it is for something else, or of a kind that this server does not know.
fn key_of_jwk(document: Value) -> Result<Option<Key>, KeySetError> {
    if document.get("kty").is_some_and(|kty| kty == "oct") {
        return Err(KeySetError::Symmetric);
    }
    if PRIVATE_MEMBERS.iter().any(|name| document.get(name).is_some()) {
        return Err(KeySetError::Private);
    }
    let jwk: Jwk = serde_json::from_value(document).map_err(|_| KeySetError::Unreadable)?;
    let algorithms = algorithms(&jwk);
    if algorithms.is_empty() {
        return Ok(None);
    }
    let decoding = DecodingKey::from_jwk(&jwk).map_err(|_| KeySetError::Unreadable)?;
    if let DecodingKeyKind::RsaModulusExponent { n, .. } = decoding.kind()
        && !RSA_BITS.contains(&bits(n))
    {
        return Err(KeySetError::Bits(bits(n)));
    }
    Ok(Some(Key::new(jwk.common.key_id, algorithms, decoding)))
}

/// What a key can check, if it is meant to check anything.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    let common = &jwk.common;
    let for_signatures = common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    let for_checking = common.key_operations.as_ref().is_none_or(|it| it.contains(&KeyOperations::Verify));
    if !for_signatures || !for_checking {
        return Vec::new();
    }
    let mut fitting = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![Algorithm::RS256, Algorithm::PS256],
        AlgorithmParameters::EllipticCurve(key)
            if key.curve == EllipticCurve::P256 && is_whole(&key.x) && is_whole(&key.y) =>
        {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 && is_whole(&key.x) => {
            vec![Algorithm::EdDSA]
        }
        _ => Vec::new(),
    };
    if let Some(named) = common.key_algorithm {
        fitting.retain(|algorithm| Algorithm::try_from(named).is_ok_and(|named| named == *algorithm));
    }
    fitting
}

fn is_whole(base64: &str) -> bool {
    base64.len() == BASE64_OF_32_BYTES
}

/// Bits of a number, its most significant byte first.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let first = number.get(zeros).map_or(0, |byte| 8 - byte.leading_zeros() as usize);
    (number.len().saturating_sub(zeros + 1)) * 8 + first
}

#[cfg(test)]
mod tests;
