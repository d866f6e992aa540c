//! The arguments of `sinew cp`: what is copied, where, and how.

use super::progress::Meter;
use crate::failure::Failure;
use crate::quantity;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Arguments of `sinew cp`.
#[derive(Debug, Args)]
pub struct Copy {
    /// What to copy and where: SRC… NODE:PATH…, or NODE:PATH… DST. `-` is standard input or output. A
    /// path with a colon is local if a slash comes before the colon: ./a:b. Several sources need an
    /// existing directory as target
    #[arg(value_names = ["SRC", "DST"], num_args = 2.., required = true)]
    pub paths: Vec<OsString>,
    /// The relays, in order from here to the other node; write NODE@HOST:PORT for a node that is not a
    /// neighbour of the one before
    #[arg(
        long,
        value_name = "NODE,…",
        value_delimiter = ',',
        conflicts_with = "direct"
    )]
    pub via: Vec<String>,
    /// Use no relays: one segment, to a neighbour
    #[arg(long)]
    pub direct: bool,
    /// Parallel connections: one number for all segments, or one for each in order
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = stripes)]
    pub stripes: Vec<u8>,
    /// Do not encrypt the data from end to end, because it is encrypted already. Relays can then read it
    #[arg(long)]
    pub plain: bool,
    /// Give way to other traffic: stay below the rate at which queues grow
    #[arg(long = "background", alias = "scavenge")]
    pub scavenge: bool,
    /// First measure the rate of each path, which takes some seconds. Default: only before a large
    /// copy
    #[arg(long, conflicts_with_all = ["no_probe", "scavenge"])]
    pub probe: bool,
    /// Do not measure the paths first
    #[arg(long)]
    pub no_probe: bool,
    /// The congestion control of the senders, by the kernel's name: reno, cubic, bbr
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Start from the beginning, even if an earlier copy has left data
    #[arg(long)]
    pub fresh: bool,
    /// Compare the content of files, not their sizes and times: both ends read all files that are there.
    /// Files with the same content only get their times and permissions
    #[arg(long, conflicts_with = "fresh")]
    pub checksum: bool,
    /// Fail if the target exists, and leave it as it is
    #[arg(long)]
    pub no_clobber: bool,
    /// Keep owners, set-user-id, extended attributes and ACLs, too. The target must run as root, or the
    /// files must belong to its user; a root on another node needs `owners = true`
    #[arg(short = 'a', long, conflicts_with = "plain")]
    pub attributes: bool,
    /// Leave out files that cannot be read, list them at the end and exit with status 1
    #[arg(long)]
    pub skip_errors: bool,
    /// Leave out files with this name: * stands for any characters, ? for one. With a slash, it is a
    /// path relative to what is copied
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Remove files from the target's directory that the source does not have
    #[arg(long)]
    pub delete: bool,
    /// Copy nothing: print what would be copied and, with --delete, what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Write the BLAKE3 digest of every file to this file, in the format of b3sum
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// How long to keep trying after a failure, by another path if there is one; 0: fail at once.
    /// Default: one hour, but a copy that cannot begin fails at once
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    pub give_up: Option<base::Duration>,
    /// Discard the data where it arrives, after it is checked; for measurements
    #[arg(long)]
    pub discard: bool,
    /// The control socket of the node to go through; default: SINEW_NODE, else the only one below
    /// this directory or in /run/sinew
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Go on when this shell has ended; see `sinew transfers`
    #[arg(long)]
    pub detach: bool,
    /// With --detach: a command for the shell at the end. SINEW_TRANSFER_STATE is `done` or `failed`
    #[arg(long, value_name = "COMMAND", requires = "detach")]
    pub notify: Option<String>,
    /// Where its progress is written, for `sinew transfers`
    #[arg(skip)]
    pub(crate) told: Option<PathBuf>,
    /// Where it is noted which targets have begun, for the same copy in another process
    #[arg(skip)]
    pub(crate) begun: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print JSON when the copy is done or has failed
    #[arg(long)]
    pub json: bool,
}

impl Copy {
    /// Returns how many bytes may be sent over a segment to measure its rate, for a copy of [`Meter::to_come`] bytes.
    /// `None` if nothing is measured.
    pub(super) fn probe_bytes(&self, meter: &Meter) -> Option<u64> {
        let to_come = meter.to_come();
        let is_long = to_come.is_some_and(|bytes| bytes >= PROBED_BYTES);
        let share = to_come.map(|bytes| bytes / PROBE_SHARE);
        match (self.may_probe(meter), self.probe) {
            // Use as many as the nodes permit.
            (true, true) => Some(u64::MAX),
            (true, false) if is_long => share,
            _ => None,
        }
    }

    /// Returns true if the copy may still stop to measure segments first: if everything that the source has must be
    /// sent.
    pub(super) fn may_turn_to_probe(&self, meter: &Meter) -> bool {
        let is_long = meter.total().is_none_or(|bytes| bytes >= PROBED_BYTES);
        is_long && self.may_probe(meter)
    }

    fn may_probe(&self, meter: &Meter) -> bool {
        !self.no_probe && !self.scavenge && !self.dry_run && !meter.has_probed()
    }
}

/// Copies of this size take some time: 100 s at 20 Mbit/s, 2 s at 1 Gbit/s.
const PROBED_BYTES: u64 = 256 << 20;
/// A measurement of a segment sends at most the bytes of the copy divided by this number.
const PROBE_SHARE: u64 = 8;

fn stripes(text: &str) -> Result<u8, String> {
    let most = wire::relay::STRIPES_MAX;
    let count = text.parse().ok().filter(|n| (1..=most).contains(n));
    count.ok_or_else(|| format!("write 1 to {most}"))
}

/// A path of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) node: String,
    pub(super) path: Vec<u8>,
}

impl Remote {
    /// Appends a slash to the path: it must then be an existing directory, and the copy goes into it.
    pub(super) fn into_directory(mut self) -> Remote {
        match &self.path[..] {
            // A path without a root is below the first root.
            b"" => self.path.extend(b"./"),
            path if path.ends_with(b"/") => {}
            _ => self.path.push(b'/'),
        }
        self
    }

    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.node, String::from_utf8_lossy(&self.path))
    }
}

/// The sources and the targets of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Push(Vec<OsString>, Vec<Remote>),
    Pull(Vec<Remote>, OsString),
}

impl Wanted {
    /// Returns the number of sources.
    pub(super) fn sources(&self) -> usize {
        match self {
            Wanted::Push(sources, _) => sources.len(),
            Wanted::Pull(sources, _) => sources.len(),
        }
    }
}

/// Reads a word that names a path of a node.
pub(super) fn remote(word: &OsStr) -> Option<Remote> {
    let bytes = word.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let node = std::str::from_utf8(&bytes[..colon]).ok()?;
    if node.is_empty() || node.contains('/') {
        return None;
    }
    Some(Remote {
        node: node.to_owned(),
        path: bytes[colon + 1..].to_vec(),
    })
}

/// Reads the sources and the targets.
pub(super) fn wanted(words: &[OsString]) -> Result<Wanted, Failure> {
    let remotes: Vec<Option<Remote>> = words.iter().map(|word| remote(word)).collect();
    let first = remotes.iter().position(Option::is_some);
    let misused = || {
        Failure::misused(
            "write local paths and then NODE:PATH, or NODE:PATH and then one local path; from one \
             node to another: run it on one of them",
        )
    };
    match first {
        // NODE:PATH… DST
        Some(0) => {
            let mut sources = remotes;
            match (sources.pop(), words.last()) {
                (Some(None), Some(target)) => {
                    let sources: Option<Vec<Remote>> = sources.into_iter().collect();
                    Ok(Wanted::Pull(sources.ok_or_else(misused)?, target.clone()))
                }
                _ => Err(misused()),
            }
        }
        Some(first) => {
            let targets: Option<Vec<Remote>> = remotes.into_iter().skip(first).collect();
            Ok(Wanted::Push(
                words[..first].to_vec(),
                targets.ok_or_else(misused)?,
            ))
        }
        None => Err(misused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn what_comes_first_says_which_way_it_goes() {
        let parse = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            wanted(&words)
        };
        let remote = |node: &str, path: &str| Remote {
            node: node.to_owned(),
            path: path.as_bytes().to_vec(),
        };
        let list = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            parse("a ./b:c fra:/d lon:e").unwrap(),
            Wanted::Push(
                list(&["a", "./b:c"]),
                vec![remote("fra", "/d"), remote("lon", "e")]
            )
        );
        assert_eq!(
            parse("fra:/d 10.7.0.3:e -").unwrap(),
            Wanted::Pull(
                vec![remote("fra", "/d"), remote("10.7.0.3", "e")],
                "-".into()
            )
        );
        for bad in ["a b", "fra:a lon:b", "a fra:b c", "fra:a b c"] {
            assert!(matches!(parse(bad), Err(Failure::Misused(_))), "{bad}");
        }
    }

    #[test]
    fn a_path_is_any_bytes() {
        let word = OsString::from_vec(b"fra:/d/\xff\xfe".to_vec());
        assert_eq!(remote(&word).unwrap().path, b"/d/\xff\xfe");
    }

    #[test]
    fn several_sources_go_into_a_directory() {
        let path = |path: &str| {
            let (node, path) = ("d".to_owned(), path.as_bytes().to_vec());
            Remote { node, path }.into_directory().path
        };
        assert_eq!(
            [path("collect"), path("/srv/a/"), path("")],
            [&b"collect/"[..], b"/srv/a/", b"./"]
        );
    }

    #[test]
    fn stripes_are_counted_within_their_limits() {
        assert_eq!((stripes("1"), stripes("32")), (Ok(1), Ok(32)));
        for bad in ["0", "33", "x"] {
            assert!(stripes(bad).is_err(), "{bad}");
        }
    }
}
