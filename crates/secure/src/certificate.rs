//! Certificates, requests and revocation lists as values: bytes that are known to be well-formed.
//!
//! The bytes stay unchanged, so a signature is still correct after they have been stored and flooded. The fields are
//! read from them on demand. Well-formed does not mean verified: see [`crate::Network`].

use crate::armour::{self, ArmourError};
use wire::Malformed;
use wire::certificate as format;

macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $format:ident, $label:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name {
            bytes: Box<[u8]>,
        }

        impl $name {
            /// The label of the text form.
            pub const LABEL: &'static str = $label;

            /// Takes bytes that are well-formed from first to last.
            pub fn from_bytes(bytes: &[u8]) -> Result<$name, Malformed> {
                format::$format::parse(bytes)?;
                Ok($name { bytes: bytes.into() })
            }
            /// Returns the bytes, as stored and sent.
            pub fn as_bytes(&self) -> &[u8] {
                &self.bytes
            }
            /// Returns the fields that the bytes contain.
            pub fn fields(&self) -> format::$format<'_> {
                format::$format::parse(&self.bytes).expect("parsed when it was made")
            }
            /// Returns the text form.
            pub fn to_text(&self) -> String {
                armour::write($name::LABEL, &self.bytes).as_str().to_owned()
            }
            /// Reads the text form.
            pub fn from_text(text: &str) -> Result<$name, ArmourError> {
                let bytes = armour::read($name::LABEL, text)?;
                $name::from_bytes(&bytes).map_err(|reason| ArmourError::Content {
                    label: $name::LABEL,
                    reason,
                })
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.fields().fmt(f)
            }
        }
    };
}

owned! {
    /// The identity of a node, certified by the root key or an issuer. [`crate::Network::verify`] decides whether it is
    /// valid.
    Certificate, Certificate, "SINEW CERTIFICATE"
}
owned! {
    /// An issuer's right to sign certificates, signed by the root key.
    Delegation, Delegation, "SINEW DELEGATION"
}
owned! {
    /// The identity that a node requests, signed by its own key.
    Request, Request, "SINEW CERTIFICATE REQUEST"
}
owned! {
    /// The serials of certificates that are no longer valid, signed by the root key.
    Revocations, Revocations, "SINEW REVOCATIONS"
}
