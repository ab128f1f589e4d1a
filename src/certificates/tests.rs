use std::os::unix::fs::PermissionsExt as _;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

use super::*;

struct Made {
    certificate: String,
    key: String,
}

fn made(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Made {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    Made { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

fn files(chain: &str, key: &str, client_ca: Option<&str>) -> Files {
    let bytes = |pem: &str| Zeroizing::new(pem.as_bytes().to_vec());
    Files { chain: bytes(chain), key: bytes(key), client_ca: client_ca.map(bytes) }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn keys_of_three_kinds_serve_and_cover_their_names() {
    let algorithms = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384];
    let mut keys: Vec<KeyPair> = algorithms.iter().map(|it| KeyPair::generate_for(it).unwrap()).collect();
    keys.push(KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap());
    for key in keys {
        let names = ["repl.example".to_owned(), "*.wild.example".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let identity = files(&certificate.pem(), &key.serialize_pem(), None).parse().expect("they belong together");
        for (host, covered) in [
            ("repl.example", true),
            ("a.wild.example", true),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("other.example", false),
            ("no host", false),
        ] {
            assert_eq!(identity.covers(host), covered, "{host}");
        }
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (one, other) = (made(&["a.example"], |_| ()), made(&["a.example"], |_| ()));
    let error = files(&one.certificate, &other.key, None).parse().unwrap_err();
    assert!(matches!(error, CertificateError::Mismatch), "{error}");
    // In a chain it is the first that counts.
    let chain = format!("{}{}", one.certificate, other.certificate);
    assert_eq!(files(&chain, &one.key, None).parse().unwrap().certified.cert.len(), 2);
    assert!(files(&chain, &other.key, None).parse().is_err());
}

#[test]
fn what_is_no_certificate_or_no_key_is_told_by_its_setting() {
    let good = made(&["a.example"], |_| ());
    let broken = good.certificate.replacen("MII", "!!!", 1);
    let cut = good.certificate.lines().take(3).collect::<Vec<_>>().join("\n");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (chain, key, client_ca, told) in [
        ("", good.key.as_str(), None, "edge.tls_cert holds no certificate"),
        (&good.key, &good.key, None, "edge.tls_cert holds no certificate"),
        (&broken, &good.key, None, "edge.tls_cert is not valid PEM"),
        (&cut, &good.key, None, "edge.tls_cert is not valid PEM"),
        (&good.certificate, "", None, "edge.tls_key holds no private key"),
        (&good.certificate, &good.certificate, None, "edge.tls_key holds no private key"),
        (&good.certificate, encrypted, None, "without a password"),
        (&good.certificate, &good.key, Some(""), "edge.tls_client_ca holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key, None, "cannot be used"),
    ] {
        let error = files(chain, key, client_ca).parse().unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
        assert!(!error.contains(good.key.lines().nth(1).unwrap()), "no key is told");
    }
}

#[test]
fn the_time_of_a_certificate_is_that_of_its_whole_chain() {
    let leaf = made(&["a.example"], |it| {
        (it.not_before, it.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2028, 1, 1));
    });
    let authority = made(&[], |it| {
        (it.not_before, it.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2027, 1, 1));
    });
    let identity = files(&format!("{}{}", leaf.certificate, authority.certificate), &leaf.key, None).parse().unwrap();
    identity.judge(at("2026-06-01T00:00:00Z")).expect("it is good then");
    let early = identity.judge(at("2025-06-01T00:00:00Z")).unwrap_err().to_string();
    assert!(early.contains("2026-01-01T00:00:00Z"), "{early}");
    let late = identity.judge(at("2027-06-01T00:00:00Z")).unwrap_err().to_string();
    assert!(late.contains("expired at 2027-01-01T00:00:00Z"), "{late}");
    assert_eq!(identity.good_until(), at("2027-01-01T00:00:00Z"));
}

#[test]
fn authorities_of_clients_are_taken_whole() {
    let good = made(&["a.example"], |_| ());
    let authorities: String =
        (0..3).map(|_| made(&[], |it| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)).certificate).collect();
    let identity = files(&good.certificate, &good.key, Some(&authorities)).parse().unwrap();
    assert_eq!(identity.client_roots.map(|it| it.len()), Some(3));
}

#[test]
fn an_issued_certificate_is_as_good_as_one_of_its_own() {
    let (authority, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(params, authority);
    let leaf = CertificateParams::new(["b.example".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    assert!(files(&leaf.pem(), &key.serialize_pem(), None).parse().unwrap().covers("b.example"));
}

#[test]
fn files_that_others_may_change_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = made(&["a.example"], |_| ());
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, &good.certificate).unwrap();
    std::fs::write(&key, &good.key).unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let read = || Files::read(&chain, &key, None);
    set(&chain, 0o644);
    set(&key, 0o600);
    read().expect("both are closed").parse().expect("they belong together");
    for mode in [0o640, 0o604, 0o620] {
        set(&key, mode);
        assert!(matches!(read(), Err(CertificateError::File(KeyError::Open(_) | KeyError::Writable(_)))), "{mode:o}");
    }
    set(&key, 0o600);
    for mode in [0o664, 0o646] {
        set(&chain, mode);
        assert!(matches!(read(), Err(CertificateError::File(KeyError::Writable(_)))), "{mode:o}");
    }
    assert!(matches!(Files::read(folder.path(), &key, None), Err(CertificateError::File(KeyError::Kind(..)))));
    assert!(matches!(
        Files::read(&folder.path().join("none"), &key, None),
        Err(CertificateError::File(KeyError::Read { .. }))
    ));
}

#[test]
fn what_is_packed_is_taken_apart_again_and_nothing_else_is() {
    for client_ca in [None, Some("authorities")] {
        let sent = files("chain", &"k".repeat(70_000), client_ca);
        let packed = sent.pack();
        let got = Files::unpack(&packed).expect("it is whole");
        assert_eq!((&got.chain, &got.key, &got.client_ca), (&sent.chain, &sent.key, &sent.client_ca));
        for length in [0, 7, 8, packed.len() - 1] {
            let cut = Files::unpack(&packed[..length]);
            assert!(cut.is_none(), "{length} of {}", packed.len());
        }
        let longer = [&packed[..], b"x"].concat();
        assert!(Files::unpack(&longer).is_none());
    }
}
