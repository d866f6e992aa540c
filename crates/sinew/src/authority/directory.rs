//! The directory of a network, on the authority's machine.
//!
//! ```text
//!   network.key    0600   the root key, serials, revocations: keep it offline, back it up
//!   network.key.root-N    the root key of number N, which was replaced (0600)
//!   network.pub           the root public keys, which every node has
//!   network.toml          the register
//!   revocations           the signed list, once there is one
//!   issued/SERIAL.cert    every certificate ever issued; SERIAL.delegation for issuers
//!   NODE/                 what goes to the node's machine, whole
//!     node.key     0600   unless the key was made there
//!     node.cert   network.pub   node.toml   revocations   node.delegation, renews-ISSUER.delegation (issuers)
//! ```
//!
//! Commands hold the lock from reading to writing. They write the root key's file first, so that no serial is given
//! twice, even after an interruption.

use super::register::Register;
use crate::failure::Failure;
use crate::identity::{FileError, read, read_as, read_secret_as, write, write_secret};
use secure::{Authority, Certificate, Delegation, Revocations};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK: &str = "lock";
/// How often a command tries to take the lock, 100 ms apart: ten seconds, because a command takes milliseconds.
const LOCK_TRIES: usize = 100;

/// An opened network's directory.
#[derive(Debug)]
pub struct Directory {
    /// The path of the directory.
    pub path: PathBuf,
    /// The root key, and its state: serials and revocations.
    pub authority: Authority,
    /// The nodes of the network.
    pub register: Register,
    _lock: Lock,
}

impl Directory {
    /// Makes a new directory.
    pub fn create(path: &Path, register: Register) -> Result<Directory, Failure> {
        let fail = |error| FileError::Write {
            path: path.to_owned(),
            error,
        };
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .map_err(fail)?;
        let lock = Lock::take(path)?;
        // Check all files, because the root key may have been moved to a safer place.
        let files = ["network.key", "network.pub", "network.toml"];
        if files.iter().any(|file| path.join(file).exists()) {
            return Err(Failure::misused(format_args!(
                "{} holds a network already: choose another directory, or put its network.key back",
                path.display()
            )));
        }
        let entropy = entropy()?;
        let authority = Authority::generate(&entropy);
        let directory = Directory {
            path: path.to_owned(),
            authority,
            register,
            _lock: lock,
        };
        write(
            &path.join("network.pub"),
            &directory.authority.network().to_text(),
        )?;
        directory.save()?;
        Ok(directory)
    }

    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> Result<Directory, Failure> {
        let key = path.join("network.key");
        if !key.exists() {
            return Err(Failure::misused(format_args!(
                "{} holds no network (no network.key): make one with `sinew net init`",
                path.display()
            )));
        }
        let lock = Lock::take(path)?;
        let authority = read_secret_as(&key, Authority::from_text)?;
        let register = read_as(&path.join("network.toml"), |text| toml::from_str(text))?;
        Ok(Directory {
            path: path.to_owned(),
            authority,
            register,
            _lock: lock,
        })
    }

    /// Writes the root key with its counters, and the register.
    pub fn save(&self) -> Result<(), Failure> {
        self.save_key()?;
        self.save_register()
    }

    /// Writes the root key and its counters. If a command then writes certificates before the register, an interruption
    /// always leaves a usable directory.
    pub fn save_key(&self) -> Result<(), Failure> {
        let path = self.path.join("network.key");
        Ok(write_secret(&path, &self.authority.to_text())?)
    }

    /// Writes the register. The caller must have written the certificates that it names.
    pub fn save_register(&self) -> Result<(), Failure> {
        let text = toml::to_string(&self.register).map_err(Failure::failed)?;
        Ok(write(&self.path.join("network.toml"), &text)?)
    }

    /// Returns the directory of a node.
    pub fn node(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Stores an issued certificate.
    pub fn keep(&self, certificate: &Certificate) -> Result<(), Failure> {
        let path = self.issued(certificate.fields().serial);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|error| FileError::Write {
                path: dir.to_owned(),
                error,
            })?;
        }
        Ok(write(&path, &certificate.to_text())?)
    }

    /// Returns the certificate with a serial.
    pub fn certificate(&self, serial: u32) -> Result<Certificate, Failure> {
        Ok(read_as(&self.issued(serial), Certificate::from_text)?)
    }

    /// Returns every certificate ever issued to a node with this name.
    pub fn certificates_of(&self, name: &str) -> Result<Vec<Certificate>, Failure> {
        let mut all = self.certificates()?;
        all.retain(|it| it.fields().subject.name == name);
        Ok(all)
    }

    /// Returns every certificate ever issued; an empty list if there is none.
    pub fn certificates(&self) -> Result<Vec<Certificate>, Failure> {
        let dir = self.path.join("issued");
        let fail = |error| FileError::Read {
            path: dir.clone(),
            error,
        };
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fail)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|e| e == "cert") {
                found.push(read_as(&path, Certificate::from_text)?);
            }
        }
        Ok(found)
    }

    /// Stores a delegation.
    pub fn keep_delegation(&self, delegation: &Delegation) -> Result<(), Failure> {
        let path = self.delegated(delegation.fields().serial);
        Ok(write(&path, &delegation.to_text())?)
    }

    /// Returns the delegation with a serial.
    pub fn delegation(&self, serial: u32) -> Result<Delegation, Failure> {
        Ok(read_as(&self.delegated(serial), Delegation::from_text)?)
    }

    /// Stores the present root key in a file of its own, before another key replaces it. Returns the path.
    pub fn keep_root(&self, number: u8) -> Result<PathBuf, Failure> {
        let path = self.path.join(format!("network.key.root-{number}"));
        write_secret(&path, &self.authority.to_text())?;
        Ok(path)
    }

    /// Writes the public keys and a list of revocations into the network's directory.
    pub fn publish(&self, list: &Revocations) -> Result<(), Failure> {
        let text = self.authority.network().to_text();
        write(&self.path.join("network.pub"), &text)?;
        Ok(write(&self.path.join("revocations"), &list.to_text())?)
    }

    /// Writes the public files into the directory of a node, if it exists.
    pub fn hand_public(&self, node: &str) -> Result<(), Failure> {
        self.hand(node, "network.pub", &self.authority.network().to_text())?;
        match self.revocations()? {
            Some(list) => self.hand(node, "revocations", &list),
            None => Ok(()),
        }
    }

    /// Writes a file into the directory of a node, if it exists.
    pub fn hand(&self, node: &str, file: &str, text: &str) -> Result<(), Failure> {
        let dir = self.node(node);
        match dir.is_dir() {
            true => Ok(write(&dir.join(file), text)?),
            false => Ok(()),
        }
    }

    /// Writes the list of revocations into the network's directory and into that of every node.
    pub fn spread(&self, list: &Revocations) -> Result<(), Failure> {
        let text = list.to_text();
        write(&self.path.join("revocations"), &text)?;
        for node in &self.register.nodes {
            self.hand(&node.name, "revocations", &text)?;
        }
        Ok(())
    }

    /// Returns the list of revocations as text, if there is one.
    pub fn revocations(&self) -> Result<Option<String>, Failure> {
        let path = self.path.join("revocations");
        Ok(if path.exists() {
            Some(read(&path)?)
        } else {
            None
        })
    }

    fn delegated(&self, serial: u32) -> PathBuf {
        self.issued(serial).with_extension("delegation")
    }

    fn issued(&self, serial: u32) -> PathBuf {
        self.path.join("issued").join(format!("{serial}.cert"))
    }
}

/// Returns random bytes.
pub fn entropy() -> Result<[u8; 32], Failure> {
    let fail = |error| Failure::failed(format_args!("the system gives no random numbers: {error}"));
    net::sched::entropy().map_err(fail)
}

/// A file that exists while a command runs. Rust's own file locks need a newer compiler than this project requires.
#[derive(Debug)]
struct Lock(PathBuf);

impl Lock {
    fn take(dir: &Path) -> Result<Lock, Failure> {
        let path = dir.join(LOCK);
        for _ in 0..LOCK_TRIES {
            match fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
            {
                Ok(mut file) => {
                    let lock = Lock(path.clone());
                    return match write!(file, "{}", std::process::id()) {
                        Ok(()) => Ok(lock),
                        Err(error) => Err(FileError::Write { path, error }.into()),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if is_abandoned(&path) {
                        let _ = fs::remove_file(&path);
                    } else {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
                Err(error) => return Err(FileError::Write { path, error }.into()),
            }
        }
        Err(Failure::failed(format_args!(
            "another command is at work in {}: wait for it, or remove {}",
            dir.display(),
            path.display()
        )))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns true if the process that took the lock has gone.
fn is_abandoned(path: &Path) -> bool {
    let owner = fs::read_to_string(path)
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}
