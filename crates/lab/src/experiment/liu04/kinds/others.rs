//! The rates of other programs on the same link, if they are on the PATH: their server runs at the far host, and one
//! file is copied from the near one.

use super::trial::failed;
use crate::experiment::liu04::hosts::Site;
use crate::experiment::{CellError, Row};
use crate::files::Scratch;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The programs, in the order of the columns.
pub(super) const PROGRAMS: [&str; 4] = ["scp", "rsync", "rclone", "aria2c"];
const PORT: u16 = 8_730;
/// The time within which a server must answer.
const READY: Duration = Duration::from_secs(5);
/// A copy that takes longer than this multiple of the best placement's time is given up.
const PATIENCE: u32 = 6;
/// The options that keep ssh from asking.
const ASKS: [&str; 3] = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "BatchMode=yes",
];
const LOOK: Duration = Duration::from_millis(20);

/// Measures all programs that are installed. The row contains why one was left out.
pub(super) fn measure(
    site: &Site,
    to: usize,
    (file, bytes): (&Path, u64),
    span: Duration,
    row: &mut Row,
) -> Result<(), CellError> {
    let mut left_out = Vec::new();
    for program in PROGRAMS {
        let folder = Scratch::new("others").map_err(failed)?;
        let setup = Setup {
            folder: folder.path(),
            file,
            at: (site.address(to), PORT).into(),
        };
        match setup.commands(program) {
            Err(why) => left_out.push(format!("{program}: {why}")),
            Ok([server, client]) => {
                let inside = |words: &[String], host| inside(site, words, host);
                match copy(
                    inside(&server, to)?,
                    inside(&client, 0)?,
                    setup.at,
                    site,
                    span * PATIENCE,
                ) {
                    Ok(took) => {
                        let bps = bytes as f64 * 8.0 / took.as_secs_f64();
                        row.set(format!("{program}_bps"), bps);
                    }
                    Err(error) => left_out.push(format!("{program}: {error}")),
                }
            }
        }
    }
    row.words.insert("left_out".into(), left_out.join("; "));
    Ok(())
}

/// The parameters of the programs.
struct Setup<'a> {
    /// The folder into which the server puts the file, with the server's own files.
    folder: &'a Path,
    file: &'a Path,
    at: SocketAddr,
}

impl Setup<'_> {
    /// Returns the words of server and client, or why there are none.
    fn commands(&self, program: &str) -> Result<[Vec<String>; 2], String> {
        let found = |name: &str| find(name).ok_or_else(|| format!("{name} is not there"));
        let client = found(program)?;
        let [ip, port] = [self.at.ip().to_string(), self.at.port().to_string()];
        let (file, folder) = (shown(self.file), shown(self.folder));
        let put = |name: &str, text: String| {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(|error| error.to_string())?;
            Ok::<String, String>(shown(&path))
        };
        let words = match program {
            "scp" => {
                let server = found("sshd")?;
                let key = self.key(&found("ssh-keygen")?)?;
                let config = put(
                    "sshd",
                    format!(
                        "ListenAddress {ip}\nPort {port}\nHostKey {key}\nPidFile none\nStrictModes no\n\
                         AuthorizedKeysFile {key}.pub\nUsePAM no\nPermitRootLogin yes\n\
                         Subsystem sftp internal-sftp\n"
                    ),
                )?;
                let target = format!("{ip}:{folder}/copied");
                let mut words = vec![client.as_str(), "-q", "-P", &port, "-i", &key];
                for ask in ASKS {
                    words.extend(["-o", ask]);
                }
                words.extend([file.as_str(), &target]);
                [
                    strings(&[&server, "-D", "-e", "-f", &config]),
                    strings(&words),
                ]
            }
            "rsync" => {
                let config = put(
                    "rsyncd",
                    format!(
                        "use chroot = no\nuid = root\ngid = root\n[in]\npath = {folder}\nread only = no\n"
                    ),
                )?;
                let server = [
                    &client,
                    "--daemon",
                    "--no-detach",
                    "--config",
                    &config,
                    "--address",
                    &ip,
                    "--port",
                    &port,
                ];
                let target = format!("rsync://{ip}:{port}/in/copied");
                [
                    strings(&server),
                    strings(&[&client, "--whole-file", &file, &target]),
                ]
            }
            "rclone" => {
                let address = self.at.to_string();
                let url = format!("http://{address}");
                let server = [&client, "serve", "webdav", &folder, "--addr", &address];
                let words = [&client, "copyto", &file, ":webdav:copied", "--webdav-url"];
                [strings(&server), strings(&[&words[..], &[&url]].concat())]
            }
            _ => {
                // This program only fetches, in parts, which the far host's server must support.
                let server = found("rclone").map_err(|_| "rclone is not there to serve it")?;
                let (from, name) = (self.file.parent(), self.file.file_name());
                let from = from.map(shown).unwrap_or_default();
                let name = name.map(|name| name.to_string_lossy().into_owned());
                let address = self.at.to_string();
                let url = format!("http://{address}/{}", name.unwrap_or_default());
                let words = [&client, "-q", "-x8", "-s8", "-d", &folder, "-o", "copied"];
                [
                    strings(&[&server, "serve", "http", &from, "--addr", &address]),
                    strings(&[&words[..], &[&url]].concat()),
                ]
            }
        };
        Ok(words)
    }

    /// Makes one key for host and user.
    fn key(&self, keygen: &str) -> Result<String, String> {
        let key = shown(&self.folder.join("key"));
        let made = Command::new(keygen)
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
            .status();
        match made {
            Ok(status) if status.success() => Ok(key),
            Ok(status) => Err(format!("ssh-keygen: {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns how long the client takes.
fn copy(
    mut server: Command,
    mut client: Command,
    at: SocketAddr,
    site: &Site,
    patience: Duration,
) -> io::Result<Duration> {
    let _server = Running::begin(&mut server)?;
    let latest = Instant::now() + READY;
    let knock = || TcpStream::connect(at);
    while site.host(0).run(knock).map_err(io::Error::other)?.is_err() {
        if Instant::now() >= latest {
            return Err(io::Error::other("its server does not answer"));
        }
        sleep(LOOK);
    }
    let begun = Instant::now();
    let mut client = Running::begin(&mut client)?;
    loop {
        match client.child.try_wait()? {
            Some(status) => {
                client.is_over = true;
                return match status.success() {
                    true => Ok(begun.elapsed()),
                    false => Err(io::Error::other(status.to_string())),
                };
            }
            None if begun.elapsed() > patience => return Err(io::ErrorKind::TimedOut.into()),
            None => sleep(LOOK),
        }
    }
}

/// A process that is ended when this is dropped, with its group: a server of many clients has a process for each.
struct Running {
    child: Child,
    /// Whether it has ended by itself: its number may then belong to another process.
    is_over: bool,
}

impl Running {
    fn begin(command: &mut Command) -> io::Result<Running> {
        Ok(Running {
            child: command.spawn()?,
            is_over: false,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // This fails if all have already ended.
        let _ = net::signals::kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

fn inside(site: &Site, words: &[String], host: usize) -> Result<Command, CellError> {
    let mut command = site.host(host).command(&words[0]).map_err(failed)?;
    command
        .args(&words[1..])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// Finds a program. Servers may also be in a folder that only root searches.
fn find(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file()).map(|file| shown(&file))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
