//! What is copied, read from this host: a file, a directory with all in it, or a stream.
//!
//! ```text
//!   Tree::open ─▶ next ─▶ (head, file to read) ...      in the order of the stream
//! ```
//! Names are taken in the order of their bytes, and a directory is gone into at once, so that a walk
//! over what has not changed comes by the same entries again. Links are copied as such.

use net::beneath::Directory;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wire::relay::entry::{Entry, EntryKind, NO_TIME, PATH_BYTES_MAX};

/// Permissions of what is copied from a stream.
const STREAM_MODE: u32 = 0o644;
/// Directories in each other that are open at the same time. Choice: far beyond what people make.
const DEPTH_MAX: usize = 256;

/// The head of an entry, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: EntryKind,
    mode: u32,
    mtime_s: i64,
    mtime_ns: u32,
    pub(super) size: u64,
    pub(super) path: Vec<u8>,
    target: Vec<u8>,
}

impl Head {
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            kind: self.kind,
            mode: self.mode,
            mtime_s: self.mtime_s,
            mtime_ns: self.mtime_ns,
            size: self.size,
            path: &self.path,
            target: &self.target,
        }
    }

    fn of(kind: EntryKind, metadata: &Metadata, path: Vec<u8>, target: Vec<u8>) -> Head {
        Head {
            kind,
            mode: metadata.mode() & 0o7777,
            mtime_s: metadata.mtime(),
            mtime_ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(NO_TIME),
            size: match kind {
                EntryKind::File => metadata.len(),
                _ => 0,
            },
            path,
            target,
        }
    }
}

/// Where the content of a file comes from.
pub(super) enum Content {
    File(File),
    Stream(Box<dyn Read + Send>),
}

/// Something to copy.
pub struct Tree {
    what: What,
}

enum What {
    /// What is called so in a directory.
    Named {
        parent: Directory,
        name: OsString,
    },
    Stream(Option<Box<dyn Read + Send>>),
}

/// An error, and what it happened to.
pub(super) type Located<T> = Result<T, (PathBuf, io::Error)>;

impl Tree {
    /// What is at a path of this host, which the one who asks may read as he is.
    pub fn open(path: &Path) -> io::Result<Tree> {
        // `.`, `..` and a link to a directory have a name of their own only behind this.
        let whole = path.canonicalize()?;
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the root directory has no name to be copied to",
            ));
        };
        Tree::named(Directory::open(parent)?, name)
    }

    /// What is called so in a directory.
    pub(super) fn named(parent: Directory, name: &OsStr) -> io::Result<Tree> {
        parent.look_at(name)?;
        let name = name.to_owned();
        Ok(Tree {
            what: What::Named { parent, name },
        })
    }

    /// A stream of bytes, as one file.
    pub fn stream(stream: Box<dyn Read + Send>) -> Tree {
        Tree {
            what: What::Stream(Some(stream)),
        }
    }

    /// It can be read again from the beginning.
    pub(super) fn can_rewind(&self) -> bool {
        matches!(self.what, What::Named { .. })
    }

    pub(super) fn walk(&mut self) -> Walker<'_> {
        Walker {
            tree: self,
            open: Vec::new(),
            begun: false,
            file: None,
        }
    }
}

/// A walk through what is to be copied.
pub(super) struct Walker<'a> {
    tree: &'a mut Tree,
    /// The directories that the walk is in.
    open: Vec<Level>,
    begun: bool,
    /// The file that was named last.
    file: Option<Content>,
}

struct Level {
    directory: Directory,
    path: Vec<u8>,
    /// What is left, last first, and what is a file of that.
    names: Vec<(OsString, bool)>,
}

impl Walker<'_> {
    /// The next entry.
    pub(super) fn next(&mut self) -> Located<Option<Head>> {
        self.file = None;
        if !self.begun {
            self.begun = true;
            return self.first().map(Some);
        }
        while let Some(level) = self.open.last_mut() {
            let Some((name, is_file)) = level.names.pop() else {
                self.open.pop();
                continue;
            };
            let mut path = level.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            if path.len() > PATH_BYTES_MAX {
                return Err((shown(&path), ErrorKind::InvalidFilename.into()));
            }
            let depth = self.open.len() - 1;
            return self.enter(depth, (&name, is_file), path).map(Some);
        }
        Ok(None)
    }

    /// The content of the file that was named last.
    pub(super) fn content(&mut self) -> Option<Content> {
        self.file.take()
    }

    fn first(&mut self) -> Located<Head> {
        match &mut self.tree.what {
            What::Stream(stream) => {
                self.file = stream.take().map(Content::Stream);
                Ok(Head {
                    kind: EntryKind::File,
                    mode: STREAM_MODE,
                    mtime_s: 0,
                    mtime_ns: NO_TIME,
                    size: 0,
                    path: Vec::new(),
                    target: Vec::new(),
                })
            }
            What::Named { parent, name } => {
                let name = name.clone();
                let (head, level, file) = visit(parent, (&name, false), Vec::new())?;
                self.open.extend(level);
                self.file = file.map(Content::File);
                Ok(head)
            }
        }
    }

    fn enter(&mut self, depth: usize, name: (&OsStr, bool), path: Vec<u8>) -> Located<Head> {
        if depth + 1 >= DEPTH_MAX {
            let text = format!("more than {DEPTH_MAX} directories in each other");
            return Err((shown(&path), io::Error::new(ErrorKind::InvalidInput, text)));
        }
        let (head, level, file) = visit(&self.open[depth].directory, name, path)?;
        self.open.extend(level);
        self.file = file.map(Content::File);
        Ok(head)
    }
}

/// The head of what has a name, and what is to be gone on with: its entries, or its content.
fn visit(
    parent: &Directory,
    (name, is_file): (&OsStr, bool),
    path: Vec<u8>,
) -> Located<(Head, Option<Level>, Option<File>)> {
    let at = |error| (shown_or(&path, name), error);
    if is_file {
        let (file, metadata) = parent.read_at(name).map_err(at)?;
        let head = Head::of(EntryKind::File, &metadata, path, Vec::new());
        return Ok((head, None, Some(file)));
    }
    let metadata = parent.look_at(name).map_err(at)?;
    if metadata.is_dir() {
        let directory = parent.enter(name).map_err(at)?;
        let names = sorted(&directory).map_err(at)?;
        let metadata = directory.as_file().and_then(|file| file.metadata());
        let metadata = metadata.map_err(at)?;
        let head = Head::of(EntryKind::Directory, &metadata, path.clone(), Vec::new());
        let level = Level {
            directory,
            path,
            names,
        };
        Ok((head, Some(level), None))
    } else if metadata.is_symlink() {
        let target = std::fs::read_link(parent.path().join(name)).map_err(at)?;
        let target = target.into_os_string().into_vec();
        Ok((
            Head::of(EntryKind::Link, &metadata, path, target),
            None,
            None,
        ))
    } else if metadata.is_file() {
        let (file, metadata) = parent.read_at(name).map_err(at)?;
        let head = Head::of(EntryKind::File, &metadata, path, Vec::new());
        Ok((head, None, Some(file)))
    } else {
        let text = "neither a file, nor a directory, nor a link: it cannot be copied";
        Err(at(io::Error::new(ErrorKind::InvalidInput, text)))
    }
}

/// Last first, with what the directory itself tells of what is a file.
fn sorted(directory: &Directory) -> io::Result<Vec<(OsString, bool)>> {
    let mut names = Vec::new();
    for entry in directory.list()? {
        let entry = entry?;
        names.push((entry.file_name(), entry.file_type()?.is_file()));
    }
    names.sort_unstable_by(|(a, _), (b, _)| b.as_bytes().cmp(a.as_bytes()));
    Ok(names)
}

fn shown(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

fn shown_or(path: &[u8], name: &OsStr) -> PathBuf {
    match path.is_empty() {
        true => PathBuf::from(name),
        false => shown(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_walk_is_in_order_and_the_same_again() {
        let dir = test_directory("tree");
        let top = dir.join("top");
        fs::create_dir_all(top.join("a/sub")).unwrap();
        fs::write(top.join("a/x"), "xx").unwrap();
        fs::write(top.join("a.b"), "").unwrap();
        symlink("../..", top.join("link")).unwrap();
        let mut tree = Tree::open(&top).unwrap();
        let mut seen = Vec::new();
        let mut walker = tree.walk();
        while let Some(head) = walker.next().unwrap() {
            let has_content = walker.content().is_some();
            assert_eq!(has_content, head.kind == EntryKind::File);
            seen.push(head);
        }
        let paths: Vec<&[u8]> = seen.iter().map(|head| &head.path[..]).collect();
        let expected = ["", "a", "a/sub", "a/x", "a.b", "link"].map(str::as_bytes);
        assert_eq!(paths, expected);
        assert_eq!((seen[3].size, &seen[5].target[..]), (2, &b"../.."[..]));
        let mut again = tree.walk();
        for head in &seen {
            assert_eq!(again.next().unwrap().as_ref(), Some(head));
        }
        assert_eq!(again.next().unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_stream_is_one_file() {
        let mut tree = Tree::stream(Box::new(&b"abc"[..]));
        assert!(!tree.can_rewind());
        let mut walker = tree.walk();
        let head = walker.next().unwrap().unwrap();
        assert_eq!((head.kind, head.mtime_ns), (EntryKind::File, NO_TIME));
        assert!(matches!(walker.content(), Some(Content::Stream(_))));
        assert_eq!(walker.next().unwrap(), None);
    }
}
