//! A token: the addresses and keys of the issuer, and the secret that admits a host. It is one line of text.
//!
//! ```text
//!   sinew1-BASE64URL of:   root key 32 | issuer's signing key 32 | secret 16 | expires 8 (unix s)
//!                          | count 1, endpoints (length 1, text) | checksum 4 (BLAKE3 of all before)
//! ```
//! The root key binds the token to one network: the host refuses certificates of any other network, whoever answers.
//! The checksum detects copying errors; it is no protection against attackers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;
use wire::bytes::{Reader, Writer};
use wire::certificate::KEY_BYTES;
use wire::relay::join::{Endpoints, SECRET_BYTES};
use wire::{Full, Malformed};

/// The beginning of a token; the number is its version.
const PREFIX: &str = "sinew1-";
const CHECKSUM_BYTES: usize = 4;
/// Room for eight endpoints of any length.
const BYTES_MAX: usize = 4_096;

/// The data with which a host joins a network.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The root key of the network.
    pub root: [u8; KEY_BYTES],
    /// The signing key of the issuer.
    pub issuer: [u8; KEY_BYTES],
    /// The secret. The issuer knows only its hash.
    pub secret: [u8; SECRET_BYTES],
    /// The last second in which the token is valid.
    pub expires_s: u64,
    /// The endpoints of the issuer.
    pub endpoints: Vec<String>,
}

/// The text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// The beginning is wrong.
    #[error("a token begins with sinew1-: copy the line that `sinew invite` has printed, whole")]
    Prefix,
    /// The token has a newer form.
    #[error("this token is of a newer version: install the version that the issuer runs")]
    Version,
    /// A part is missing or changed.
    #[error("the token was cut or changed: copy the line that `sinew invite` has printed, whole")]
    Damaged,
}

impl From<Malformed> for BadToken {
    fn from(_: Malformed) -> BadToken {
        BadToken::Damaged
    }
}

impl Token {
    fn bytes(&self) -> Result<Vec<u8>, Full> {
        let mut room = vec![0; BYTES_MAX];
        let mut w = Writer::new(&mut room);
        w.put(&self.root)?;
        w.put(&self.issuer)?;
        w.put(&self.secret)?;
        w.u64(self.expires_s)?;
        Endpoints::emit(&self.endpoints, &mut w)?;
        let checksum = checksum(w.written());
        w.put(&checksum)?;
        Ok(w.written().to_vec())
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(bytes);
    *hash.as_bytes().first_chunk().expect("a hash is longer")
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration refuses more endpoints than a token can hold.
        let bytes = self.bytes().map_err(|Full| fmt::Error)?;
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(&bytes))
    }
}

/// The output does not contain the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("expires_s", &self.expires_s)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

impl FromStr for Token {
    type Err = BadToken;
    fn from_str(text: &str) -> Result<Token, BadToken> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix(PREFIX) else {
            let is_newer = text
                .strip_prefix("sinew")
                .and_then(|rest| rest.split_once('-'))
                .is_some_and(|(version, _)| version.parse::<u32>().is_ok());
            return Err(if is_newer {
                BadToken::Version
            } else {
                BadToken::Prefix
            });
        };
        let decoded = URL_SAFE_NO_PAD.decode(rest);
        let bytes = decoded.map_err(|_| BadToken::Damaged)?;
        let body = bytes.len().checked_sub(CHECKSUM_BYTES);
        let (body, sum) = bytes.split_at(body.ok_or(BadToken::Damaged)?);
        if checksum(body) != sum {
            return Err(BadToken::Damaged);
        }
        let mut r = Reader::new(body);
        let token = Token {
            root: r.array()?,
            issuer: r.array()?,
            secret: r.array()?,
            expires_s: r.u64()?,
            endpoints: Endpoints::parse(&mut r)?
                .iter()
                .map(str::to_owned)
                .collect(),
        };
        r.finish()?;
        Ok(token)
    }
}
