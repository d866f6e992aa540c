//! The cost of a certificate that claims to be of an unknown root: anybody can make it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::NodeAddr;
use secure::{Authority, Certificate, CertificateError, Keys, Memo, Network, Validity};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOW_S: u64 = 1_790_000_000;
const YEAR: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 365 * 86_400,
};

/// A memo that remembers nothing, and counts the signatures that were verified.
#[derive(Debug, Default)]
struct Looks(AtomicUsize);

impl Memo for Looks {
    fn recall(&self, _: &[u8; 32], verify: &mut dyn FnMut() -> bool) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        verify()
    }
}

/// Returns a certificate by the root with this number, of a network whose first root is always the same.
fn certificate(root: u8) -> (Network, Certificate) {
    let mut authority = Authority::generate(&[1; 32]);
    for n in 0..root {
        authority.rotate(&[2 + n; 32], NOW_S + 100, NOW_S).unwrap();
    }
    let id = authority.network().id();
    let keys = Keys::generate(&[100; 64]);
    let request = keys.request(id, NodeAddr(0x0a07_0001), "ams", &[]);
    let certificate = authority.issue(&request.unwrap(), YEAR).unwrap();
    (authority.network(), certificate)
}

#[test]
fn a_certificate_of_an_unknown_root_costs_no_look_at_a_signature() {
    let looks = Arc::new(Looks::default());
    for known in 0..3 {
        let network = certificate(known).0.with_memo(looks.clone());
        for of in known + 1..4 {
            let mut bytes = certificate(of).1.as_bytes().to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            for certificate in [certificate(of).1, Certificate::from_bytes(&bytes).unwrap()] {
                let verified = network.verify(&certificate, NOW_S);
                assert_eq!(verified, Err(CertificateError::NewerRoot));
            }
            assert_eq!(looks.0.load(Ordering::Relaxed), 0, "{known} {of}");
        }
        // A signature of a known root is verified.
        assert!(network.verify(&certificate(known).1, NOW_S).is_ok());
        assert_eq!(looks.0.swap(0, Ordering::Relaxed), 1);
    }
}
