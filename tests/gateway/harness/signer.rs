//! Keys made for a test, in the forms that an issuer publishes, and tokens that they sign, whatever those say.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

/// A key pair, or a secret.
pub struct Signer {
    pub algorithm: Algorithm,
    key: EncodingKey,
    /// The public half, as the DER of a SubjectPublicKeyInfo; empty for a secret.
    spki: Vec<u8>,
    /// The private half, as PKCS #8; empty for a secret.
    pkcs8: Vec<u8>,
}

impl Signer {
    /// A new key for an algorithm with public keys.
    pub fn new(algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let (pkcs8, spki) = match algorithm {
            Algorithm::RS256 | Algorithm::PS256 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
                let private: Pkcs8V1Der<'_> = pair.as_der().expect("DER");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
                (private.as_ref().to_vec(), public.as_ref().to_vec())
            }
            Algorithm::ES256 => {
                let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let private = EcdsaKeyPair::generate_pkcs8(signing, &random).expect("a key");
                let pair = EcdsaKeyPair::from_pkcs8(signing, private.as_ref()).expect("a pair");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
                (private.as_ref().to_vec(), public.as_ref().to_vec())
            }
            Algorithm::EdDSA => {
                let private = Ed25519KeyPair::generate_pkcs8v1(&random).expect("a key");
                let pair = Ed25519KeyPair::from_pkcs8(private.as_ref()).expect("a pair");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
                (private.as_ref().to_vec(), public.as_ref().to_vec())
            }
            other => panic!("no key pairs for {other:?}"),
        };
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&pkcs8),
            Algorithm::EdDSA => EncodingKey::from_ed_der(&pkcs8),
            _ => EncodingKey::from_rsa_pem(pem("PRIVATE KEY", &pkcs8).as_bytes()).expect("a key"),
        };
        Self { algorithm, key, spki, pkcs8 }
    }

    /// Signs with this secret by HS256.
    pub fn secret(secret: &[u8]) -> Self {
        let key = EncodingKey::from_secret(secret).expect("a secret");
        Self { algorithm: Algorithm::HS256, key, spki: Vec::new(), pkcs8: Vec::new() }
    }

    /// The same key under the other algorithm of its kind.
    pub fn with(&self, algorithm: Algorithm) -> Self {
        Self { algorithm, key: self.key.clone(), spki: self.spki.clone(), pkcs8: self.pkcs8.clone() }
    }

    /// The public half under a name.
    pub fn jwk(&self, kid: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key");
        let mut jwk = serde_json::to_value(jwk).expect("JSON");
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// The public half as PEM.
    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &self.spki)
    }

    /// The private half as PEM.
    pub fn private_pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// A token with these claims, and this name of its key, if it has one.
    pub fn token(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = json!({"alg": name(self.algorithm), "typ": "JWT"});
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        self.sign(&header.to_string(), &claims.to_string())
    }

    /// A token of any two texts.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        self.sign_bytes(header.as_bytes(), claims.as_bytes())
    }

    /// A token of any bytes.
    pub fn sign_bytes(&self, header: &[u8], claims: &[u8]) -> String {
        let message = format!("{}.{}", base64url(header), base64url(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm).expect("a signature");
        format!("{message}.{signature}")
    }
}

/// A set of public keys.
pub fn jwks(keys: impl IntoIterator<Item = Value>) -> String {
    json!({"keys": keys.into_iter().collect::<Vec<_>>()}).to_string()
}

/// The name of an algorithm in a header.
pub fn name(algorithm: Algorithm) -> String {
    format!("{algorithm:?}")
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = base64url(der).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Base64 as tokens have it.
pub fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize] as char);
        }
    }
    text
}
