//! Network namespaces, for tests and the laboratory: whole networks inside one machine.
//!
//! ```text
//!   let (a, b) = (Namespace::new()?, Namespace::new()?);
//!   a.veth("to-b", &b, "to-a")?;
//!   a.ip(&["addr", "add", "10.0.0.1/24", "dev", "to-b"])?;   // and "link set ... up"
//!   a.run(|| Socket::bind(...))                               // in a thread inside
//! ```
//!
//! A namespace made here has no name: it lives as long as its descriptor, so nothing is left behind however the process
//! ends. Namespaces of others are opened by name. Interfaces are set up by the `ip` command. Needs root.

use crate::sys;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

/// A separate network: interfaces, addresses, routes, sockets. Loopback is up.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

/// Why there are no namespaces here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The system refuses to make one.
    #[error("network namespaces are not permitted ({0}); run as root")]
    NotPermitted(io::Error),
    /// The command that sets up interfaces is missing.
    #[error("the command `ip` does not run ({0}); install iproute2")]
    NoIpCommand(io::Error),
    /// Setting one up failed.
    #[error("a network namespace cannot be set up: {0}")]
    Broken(#[from] SetupError),
}

/// A step of setting up a namespace failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The system refused.
    #[error("{what}: {error}")]
    Io {
        /// The step that failed.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// `ip` or another command failed.
    #[error("`{command}`: {said}")]
    Command {
        /// The command, with arguments.
        command: String,
        /// The command's standard error output.
        said: String,
    },
}

/// Checks whether namespaces can be made here. A test that cannot have them reports this clearly and ends.
pub fn available() -> Result<(), Why> {
    let ip = Command::new("ip").arg("-V").stdout(Stdio::null()).status();
    match ip {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(Why::NoIpCommand(io::Error::other(status.to_string()))),
        Err(error) => return Err(Why::NoIpCommand(error)),
    }
    match Namespace::new() {
        Ok(_) => Ok(()),
        Err(SetupError::Io { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Why::NotPermitted(error))
        }
        Err(error) => Err(Why::Broken(error)),
    }
}

impl Namespace {
    /// Creates a new, empty network.
    pub fn new() -> Result<Namespace, SetupError> {
        // A separate thread leaves this network, and its other state ends with it.
        let made = thread::spawn(|| {
            // SAFETY: no pointers are involved; only this thread changes its network.
            sys::check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            fs::File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
        })
        .join();
        let fd = made
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
            .map_err(|error| SetupError::Io {
                what: "unshare(CLONE_NEWNET)".into(),
                error,
            })?;
        let namespace = Namespace { fd };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Opens an existing network: by the name that `ip netns add` gave it, or, if the name contains a slash, by a file
    /// such as `/proc/4711/ns/net`.
    pub fn open(name: &str) -> Result<Namespace, SetupError> {
        let path = match name.contains('/') {
            true => PathBuf::from(name),
            false => PathBuf::from("/run/netns").join(name),
        };
        let failed = |error| SetupError::Io {
            what: format!("the network namespace {}", path.display()),
            error,
        };
        let fd = OwnedFd::from(fs::File::open(&path).map_err(failed)?);
        let namespace = Namespace { fd };
        // A file of another kind is noticed here, not at its first use.
        namespace.run(|| ()).map_err(|error| match error {
            SetupError::Io { error, .. } => failed(error),
            other => other,
        })?;
        Ok(namespace)
    }

    /// Opens the network of the calling thread.
    pub fn here() -> Result<Namespace, SetupError> {
        Namespace::open("/proc/thread-self/ns/net")
    }

    /// Runs `work` in a thread inside, and returns its result. Sockets that it opens belong to this network for good,
    /// whichever thread uses them.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SetupError> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(self.fd.as_fd())?;
                Ok(work())
            });
            match inside.join() {
                Ok(result) => result.map_err(|error| SetupError::Io {
                    what: "setns".into(),
                    error,
                }),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Moves the calling thread into this network, for good.
    pub fn enter(&self) -> io::Result<()> {
        enter(self.fd.as_fd())
    }

    /// Creates a command that will run inside, even if this value is dropped by then.
    pub fn command(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new(program);
        let fd = self.fd.try_clone()?;
        // SAFETY: the closure makes one system call, which is async-signal-safe, and allocates
        // nothing. The descriptor is inherited by the fork, and closed only on exec.
        unsafe { command.pre_exec(move || enter(fd.as_fd())) };
        Ok(command)
    }

    /// Runs `ip` with these arguments inside.
    pub fn ip(&self, args: &[&str]) -> Result<(), SetupError> {
        self.does("ip", args)
    }

    fn does(&self, program: &str, args: &[&str]) -> Result<(), SetupError> {
        let mut command = self.command(program).map_err(|error| SetupError::Io {
            what: program.into(),
            error,
        })?;
        command.args(args);
        run(command)
    }

    /// Writes a setting of this network, such as `("net/ipv4/ip_forward", "1")`.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), SetupError> {
        let path = format!("/proc/sys/{name}");
        self.run(|| fs::write(&path, value))?
            .map_err(|error| SetupError::Io {
                what: path.clone(),
                error,
            })
    }

    /// Connects this network with another one by a pair of interfaces, both up, without addresses.
    pub fn veth(&self, name: &str, other: &Namespace, other_name: &str) -> Result<(), SetupError> {
        let at = other.path();
        let at = at.to_string_lossy();
        self.ip(&[
            "link", "add", name, "type", "veth", "peer", "name", other_name, "netns", &at,
        ])?;
        self.ip(&["link", "set", name, "up"])?;
        other.ip(&["link", "set", other_name, "up"])
    }

    /// Limits an interface to this rate, with a queue of this size, as a wire does.
    pub fn shape(&self, name: &str, rate_kbit: u64, queue_bytes: u64) -> Result<(), SetupError> {
        let (rate, queue) = (format!("{rate_kbit}kbit"), queue_bytes.to_string());
        self.does(
            "tc",
            &[
                "qdisc", "replace", "dev", name, "root", "tbf", "rate", &rate, "burst", "3200",
                "limit", &queue,
            ],
        )
    }

    /// Returns the path of a file by which other commands of this machine can name the network, while it lives.
    pub fn path(&self) -> PathBuf {
        let pid = std::process::id();
        PathBuf::from(format!("/proc/{pid}/fd/{}", self.fd.as_raw_fd()))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn enter(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are involved; "reassociate the calling thread with a namespace".
    sys::check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

fn run(mut command: Command) -> Result<(), SetupError> {
    let text = || {
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        words.join(" ".as_ref()).to_string_lossy().into_owned()
    };
    let name = text();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| SetupError::Io {
        what: name.clone(),
        error,
    })?;
    if output.status.success() {
        Ok(())
    } else {
        Err(SetupError::Command {
            command: name,
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}
