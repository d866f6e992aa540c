//! Certificates, requests and revocation lists as values: bytes that are known to be well formed.
//!
//! The bytes stay as they came, so a signature still fits after they have been stored and flooded;
//! the fields are read from them on demand. Well formed is not verified: see [`crate::Network`].

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
            /// The label of its text form.
            pub const LABEL: &'static str = $label;

            /// Takes bytes that are well formed from first to last.
            pub fn from_bytes(bytes: &[u8]) -> Result<$name, Malformed> {
                format::$format::parse(bytes)?;
                Ok($name { bytes: bytes.into() })
            }
            /// The bytes, as stored and sent.
            pub fn as_bytes(&self) -> &[u8] {
                &self.bytes
            }
            /// What the bytes say.
            pub fn fields(&self) -> format::$format<'_> {
                format::$format::parse(&self.bytes).expect("parsed when it was made")
            }
            /// The text form.
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
    /// Who a node is, said by the root key or an issuer. [`crate::Network::verify`] says whether it counts.
    Certificate, Certificate, "SINEW CERTIFICATE"
}
owned! {
    /// An issuer's right to sign certificates, said by the root key.
    Delegation, Delegation, "SINEW DELEGATION"
}
owned! {
    /// What a node asks to be called, signed by its own key.
    Request, Request, "SINEW CERTIFICATE REQUEST"
}
owned! {
    /// Serials of certificates that no longer count, signed by the root key.
    Revocations, Revocations, "SINEW REVOCATIONS"
}
