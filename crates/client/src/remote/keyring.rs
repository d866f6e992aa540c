//! The tokens for the nodes that a client may find, by the nodes' keys.

use super::place::{BadPlace, KEY_BYTES, Place, TOKEN_BYTES};
use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

/// Largest number of nodes in a keyring: more than a network has nodes with gates.
pub const KEYS_MAX: usize = 256;
/// Largest size of the file: 256 lines of some 250 characters, plus comments.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Name of the file in the directories of configuration.
const FILE: &str = "sinew/keys";

/// The keys of nodes, each with the token that lets the client in. A keyring does not contain addresses: a server must
/// prove that it has one of the keys before it gets a token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keyring(Vec<([u8; KEY_BYTES], [u8; TOKEN_BYTES])>);

/// A keyring is missing or invalid.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct BadKeyring {
    /// Its file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

impl Keyring {
    /// Loads the keyring in a file: the lines that `sinew net clients` has written for each node.
    pub fn load(path: &Path) -> Result<Keyring, BadKeyring> {
        let bad = |why: String| BadKeyring {
            path: path.to_owned(),
            why,
        };
        let about = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?;
        if about.len() > FILE_BYTES_MAX {
            return Err(bad(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        text.parse()
            .map_err(|error: BadPlace| bad(error.to_string()))
    }

    /// Loads the keyring of this user, or else of this host: `sinew/keys` in `$XDG_CONFIG_HOME` or `~/.config`, or in
    /// `/etc`.
    pub fn of_user() -> Result<Keyring, BadKeyring> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = || Some(PathBuf::from(variable("HOME")?).join(".config"));
        let own = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
        let system = Path::new("/etc").join(FILE);
        let own = own.map(|dir| dir.join(FILE)).filter(|path| path.exists());
        let path = own.unwrap_or(system);
        if !path.exists() {
            return Err(BadKeyring {
                path,
                why: "no such file: put there what `sinew net clients` has written for the \
                      nodes, one below the other"
                    .into(),
            });
        }
        Keyring::load(&path)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8; KEY_BYTES]> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn token(&self, key: &[u8; KEY_BYTES]) -> Option<&[u8; TOKEN_BYTES]> {
        let of = self.0.iter().find(|(own, _)| own == key);
        of.map(|(_, token)| token)
    }
}

impl From<&Place> for Keyring {
    fn from(place: &Place) -> Keyring {
        Keyring(vec![(place.key, place.token)])
    }
}

impl FromStr for Keyring {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Keyring, BadPlace> {
        let lines = text.lines().map(str::trim);
        let places = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut keyring = Keyring::default();
        for place in places {
            let Place { key, token, .. } = place.parse()?;
            if keyring.token(&key).is_none() {
                keyring.0.push((key, token));
            }
        }
        match keyring.0.len() {
            0 => Err(BadPlace("there is no key")),
            1..=KEYS_MAX => Ok(keyring),
            _ => Err(BadPlace("there are more than 256 keys")),
        }
    }
}

impl fmt::Debug for Keyring {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u8) -> Place {
        Place {
            endpoint: format!("10.0.0.{n}:7443"),
            token: [n; TOKEN_BYTES],
            key: [0xf0 | n; KEY_BYTES],
        }
    }

    #[test]
    fn files_of_several_nodes_make_one_keyring() {
        let text = format!("# ams\n{}\n\n# fra\n {} \n{0}\n", place(1), place(2));
        let keyring: Keyring = text.parse().unwrap();
        assert_eq!(keyring.keys().count(), 2);
        assert_eq!(keyring.token(&[0xf2; KEY_BYTES]), Some(&[2; TOKEN_BYTES]));
        assert_eq!(keyring.token(&[0xf3; KEY_BYTES]), None);
        assert_eq!(keyring.token(&[0; KEY_BYTES]), None);
        assert!(!format!("{keyring:?}").contains("02"), "{keyring:?}");
        for bad in ["", "# nothing\n", "ams.sock", "tls://a:1?token=00"] {
            assert!(bad.parse::<Keyring>().is_err(), "{bad}");
        }
    }
}
