//! The address of a node on another host, its token, and the key to trust: one line of text.

use core::fmt;
use core::str::FromStr;
use std::path::Path;

/// Size of a token, which nobody can guess.
pub const TOKEN_BYTES: usize = 32;
/// Size of a node's key.
pub use net::raw_key::KEY_BYTES;
/// The prefix of the text.
const SCHEME: &str = "tls://";

/// A gate of a node: `tls://HOST:PORT?token=HEX&key=HEX`. It is secret, because its token is.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// Host name or address, and port.
    pub endpoint: String,
    /// The token that lets the client in.
    pub token: [u8; TOKEN_BYTES],
    /// The node's public key.
    pub key: [u8; KEY_BYTES],
}

/// The text is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: write tls://HOST:PORT?token=..&key=.., or the file that `sinew net clients` has written"
)]
pub struct BadPlace(pub(super) &'static str);

impl Place {
    /// Returns true for a text that is meant as a place.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Loads the place in a file that `sinew net clients` has written.
    pub fn load(path: &Path) -> Option<Result<Place, BadPlace>> {
        /// A line of this kind has some 180 characters.
        const MAX_BYTES: u64 = 4_096;
        if std::fs::metadata(path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| !line.starts_with('#'))?;
        Place::is_meant(line).then(|| line.trim().parse())
    }
}

impl FromStr for Place {
    type Err = BadPlace;
    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let rest = text.strip_prefix(SCHEME);
        let rest = rest.ok_or(BadPlace("it does not begin with tls://"))?;
        let (endpoint, query) = rest.split_once('?').unwrap_or((rest, ""));
        let port = endpoint.rsplit_once(':').map(|(_, port)| port);
        if port
            .and_then(|port| port.parse::<u16>().ok())
            .is_none_or(|port| port == 0)
        {
            return Err(BadPlace("it has no port"));
        }
        let (mut token, mut key) = (None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("token", hex)) => token = Some(hex.to_owned()),
                Some(("token_file", path)) => {
                    let text = std::fs::read_to_string(path);
                    let text = text.map_err(|_| BadPlace("its token file cannot be read"))?;
                    token = Some(text.trim().to_owned());
                }
                Some(("key", hex)) => key = Some(hex),
                _ => {
                    return Err(BadPlace(
                        "it has something beside token, token_file and key",
                    ));
                }
            }
        }
        let token = token.ok_or(BadPlace("it has no token"))?;
        let key = key.ok_or(BadPlace("it has no key"))?;
        Ok(Place {
            endpoint: endpoint.to_owned(),
            token: from_hex(&token).ok_or(BadPlace("its token is not 64 hexadecimal digits"))?,
            key: from_hex(key).ok_or(BadPlace("its key is not 64 hexadecimal digits"))?,
        })
    }
}

impl fmt::Display for Place {
    /// Writes the whole line, including the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}?token=", self.endpoint)?;
        self.token
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("&key=")?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Place {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({SCHEME}{})", self.endpoint)
    }
}

/// Parses bytes from hexadecimal digits.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip_and_what_is_wrong_is_said() {
        let place = Place {
            endpoint: "10.0.0.1:7443".into(),
            token: [0xab; 32],
            key: [0x01; 32],
        };
        let text = place.to_string();
        assert!(text.starts_with("tls://10.0.0.1:7443?token=abab"), "{text}");
        assert_eq!(text.parse(), Ok(place.clone()));
        assert!(!format!("{place:?}").contains("abab"), "{place:?}");
        for (bad, why) in [
            (text.replace("tls", "tcp"), "tls://"),
            (text.replace(":7443", ""), "no port"),
            (text.replace(":7443", ":0"), "no port"),
            (text.replace("&key", "&pin"), "something"),
            (text.replace("token=ab", "token=zz"), "64 hex"),
            (text.replace("&key=01", "&key="), "64 hex"),
            ("tls://a:1".to_owned(), "no token"),
            ("tls://a:1?token=ab".to_owned(), "no key"),
            (
                "tls://a:1?token_file=/nonexistent".to_owned(),
                "cannot be read",
            ),
        ] {
            let error = bad.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
