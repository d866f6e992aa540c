//! `sinew cp`: files, directories and streams from one host to others, through relays.
//!
//! ```text
//!   sinew cp FILE NODE:PATH     here ─▶ own node ═▶ (relays) ═▶ NODE ─▶ PATH
//!   sinew cp NODE:PATH FILE     here ◀─ own node ◀═ (relays) ◀═ NODE ◀─ PATH
//! ```
//!
//! The bytes go from this process to the node that runs here, over its relay socket, and from node to
//! node over TCP; see `host::relay`. What an interrupted copy has left is gone on with when the same
//! command is run again.

mod progress;
mod route;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use clap::Args;
use host::relay::{Named, Order, Place, Tree};
use progress::Meter;
use route::{Ends, Route};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `sinew cp`.
#[derive(Debug, Args)]
pub struct Copy {
    /// What to copy, and where to: SRC… NODE:PATH…, or NODE:PATH… DST; `-` is standard input or
    /// output. A path with a colon in it is local if a slash comes before the colon: ./a:b. Several
    /// sources need a directory to go into
    #[arg(value_names = ["SRC", "DST"], num_args = 2.., required = true)]
    pub paths: Vec<String>,
    /// The nodes between, in order, from here to the node that is named; NODE@HOST:PORT for one that
    /// is no neighbour of the one before
    #[arg(
        long,
        value_name = "NODE,…",
        value_delimiter = ',',
        conflicts_with = "direct"
    )]
    pub via: Vec<String>,
    /// No relays: one segment, to a neighbour
    #[arg(long)]
    pub direct: bool,
    /// Connections side by side: one number for every segment, or one for each, in order
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = stripes)]
    pub stripes: Vec<u8>,
    /// The data is sealed already: between nodes it goes as it is
    #[arg(long)]
    pub plain: bool,
    /// Give way to everybody else: keep below the rate at which queues begin to grow
    #[arg(long = "background", alias = "scavenge")]
    pub scavenge: bool,
    /// The congestion control of the senders, by the kernel's name: reno, cubic, bbr
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Begin anew, whatever an earlier attempt has left
    #[arg(long)]
    pub fresh: bool,
    /// Throw the data away where it arrives, after it was checked: to measure
    #[arg(long)]
    pub discard: bool,
    /// The control socket of the node to go through; default: SINEW_NODE, else the only one below
    /// this directory or in /run/sinew
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print JSON when it is done
    #[arg(long)]
    pub json: bool,
}

fn stripes(text: &str) -> Result<u8, String> {
    let most = wire::relay::STRIPES_MAX;
    let count = text.parse().ok().filter(|n| (1..=most).contains(n));
    count.ok_or_else(|| format!("write 1 to {most}"))
}

/// A path of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Remote {
    node: String,
    path: String,
}

impl Remote {
    /// What goes there goes into a directory, which must be there: a slash at the end says so.
    fn into_directory(mut self) -> Remote {
        match self.path.as_str() {
            // A path without a root is below the first one.
            "" => self.path.push_str("./"),
            path if path.ends_with('/') => {}
            _ => self.path.push('/'),
        }
        self
    }
}

/// What is to be copied where.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Push(Vec<String>, Vec<Remote>),
    Pull(Vec<Remote>, String),
}

/// Copies.
pub fn run(args: &Copy) -> Outcome {
    let wanted = wanted(&args.paths)?;
    let mut control = Control::find(args.node.as_deref())?;
    let socket = control.path().with_extension(host::relay::SUFFIX);
    if !socket.exists() {
        return Err(Failure::failed(format_args!(
            "the node at {} serves no bulk data: see `[relay]` in its configuration",
            control.path().display()
        )));
    }
    let status = control.status()?;
    let names = Names::of(&status);
    let route = Route::new(&mut control, &status, &names, args)?;
    match wanted {
        Wanted::Push(sources, targets) => {
            let targets = match sources.len() {
                1 => targets,
                _ => targets.into_iter().map(Remote::into_directory).collect(),
            };
            for source in &sources {
                push(args, &route, &socket, &names, source, &targets)?;
            }
        }
        Wanted::Pull(sources, target) => {
            let is_place = !args.discard && target != "-";
            if sources.len() > 1 && is_place && !Path::new(&target).is_dir() {
                return Err(Failure::misused(format_args!(
                    "{target} is no directory, and {} sources need one: make it first",
                    sources.len()
                )));
            }
            for source in &sources {
                pull(args, &route, &socket, &names, source, &target)?;
            }
        }
    }
    Ok(())
}

fn push(
    args: &Copy,
    route: &Route,
    socket: &Path,
    names: &Names,
    source: &str,
    targets: &[Remote],
) -> Outcome {
    let (tree, name, total) = match source {
        "-" => (Tree::stream(Box::new(io::stdin())), None, None),
        path => {
            let tree = Tree::open(Path::new(path)).map_err(|error| unread(path, &error))?;
            (tree, named(path), size(Path::new(path)))
        }
    };
    let mut ends = Ends::new();
    for target in targets {
        let node = names.address(&target.node)?;
        let mut path = target.path.clone();
        if let Some(name) = &name {
            path.push(wire::relay::NAME_SEPARATOR);
            path.push_str(name);
        }
        if ends.insert(node, path).is_some() {
            return Err(Failure::misused(format_args!(
                "two copies to node {} at once: run them one after the other",
                target.node
            )));
        }
    }
    let planned = route.to(&ends)?;
    let order = order(args, route, socket, planned.bytes);
    let meter = Meter::new(args, names, planned.predicted, total);
    let done = host::relay::push(&order, tree, &|progress| meter.on(progress));
    let words: Vec<String> = targets
        .iter()
        .map(|t| format!("{}:{}", t.node, t.path))
        .collect();
    meter.finish("to", &words, done.map_err(|failure| told(names, &failure))?)
}

fn pull(
    args: &Copy,
    route: &Route,
    socket: &Path,
    names: &Names,
    source: &Remote,
    target: &str,
) -> Outcome {
    let node = names.address(&source.node)?;
    let name = Path::new(&source.path).file_name();
    let place = match target {
        "-" => Place::Stream(Box::new(io::stdout())),
        _ if args.discard => Place::Discard,
        path => {
            let named = Named::at(Path::new(path), name);
            Place::Named(named.map_err(|error| unread(path, &error))?)
        }
    };
    let ends = Ends::from([(node, source.path.clone())]);
    let planned = route.to(&ends)?;
    let order = order(args, route, socket, planned.bytes);
    let meter = Meter::new(args, names, planned.predicted, None);
    let done = host::relay::pull(&order, place, &|progress| meter.on(progress));
    let words = [format!("{}:{}", source.node, source.path)];
    meter.finish(
        "from",
        &words,
        done.map_err(|failure| told(names, &failure))?,
    )
}

fn order(args: &Copy, route: &Route, socket: &Path, bytes: Vec<u8>) -> Order {
    Order {
        socket: socket.to_owned(),
        node: route.own(),
        route: bytes,
        plain: args.plain,
        scavenge: args.scavenge,
        fresh: args.fresh,
        congestion: args.congestion.clone().unwrap_or_default(),
    }
}

/// Bytes of a file, or of all files in a directory: for a share of the whole. Unknown beyond so many
/// that counting them would delay the copy.
fn size(path: &Path) -> Option<u64> {
    let (mut total, mut entries) = (0, 0);
    let mut rest = vec![path.canonicalize().ok()?];
    while let Some(path) = rest.pop() {
        let metadata = path.symlink_metadata().ok()?;
        entries += 1;
        if entries > COUNTED_MAX {
            return None;
        }
        match metadata.is_dir() {
            true => rest.extend(path.read_dir().ok()?.flatten().map(|entry| entry.path())),
            false if metadata.is_file() => total += metadata.len(),
            false => {}
        }
    }
    Some(total)
}

/// Entries that are counted before a copy begins: some 10 µs each, a tenth of a second for all.
const COUNTED_MAX: usize = 10_000;

/// The name that a copy of `path` has in a directory.
fn named(path: &str) -> Option<String> {
    let whole = Path::new(path).canonicalize().ok()?;
    whole.file_name().and_then(OsStr::to_str).map(str::to_owned)
}

fn unread(path: &str, error: &io::Error) -> Failure {
    Failure::failed(format_args!("{path}: {error}"))
}

fn told(names: &Names, failure: &host::relay::Failure) -> Failure {
    let node = failure.node.to_string();
    Failure::failed(format_args!("{}: {}", names.name(&node), failure.text))
}

fn remote(word: &str) -> Option<Remote> {
    let (node, path) = word.split_once(':')?;
    if node.is_empty() || node.contains('/') {
        return None;
    }
    Some(Remote {
        node: node.to_owned(),
        path: path.to_owned(),
    })
}

fn wanted(words: &[String]) -> Result<Wanted, Failure> {
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

    #[test]
    fn what_comes_first_says_which_way_it_goes() {
        let parse = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            wanted(&words)
        };
        let remote = |node: &str, path: &str| Remote {
            node: node.to_owned(),
            path: path.to_owned(),
        };
        let list = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
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
                "-".to_owned()
            )
        );
        for bad in ["a b", "fra:a lon:b", "a fra:b c", "fra:a b c"] {
            assert!(matches!(parse(bad), Err(Failure::Misused(_))), "{bad}");
        }
    }

    #[test]
    fn the_size_of_a_directory_is_that_of_its_files() {
        let dir = crate::testing::directory("cp-size");
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::fs::write(dir.join("a/x"), [0; 100]).unwrap();
        std::fs::write(dir.join("a/b/y"), [0; 23]).unwrap();
        assert_eq!(size(&dir), Some(123));
        assert_eq!(size(&dir.join("a/b/y")), Some(23));
        assert_eq!(size(&dir.join("nothing")), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn several_sources_go_into_a_directory() {
        let path = |path: &str| {
            let (node, path) = ("d".to_owned(), path.to_owned());
            Remote { node, path }.into_directory().path
        };
        assert_eq!(
            [path("collect"), path("/srv/a/"), path("")],
            ["collect/", "/srv/a/", "./"]
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
