//! Reads what is copied from this host: a file, a directory with its content, or a stream.
//!
//! ```text
//!   Tree::open ─▶ next ─▶ (head, file to read) ...      in the order of the stream
//! ```
//! Names are sorted by their bytes, and a directory is entered at once, so that a walk over an unchanged tree finds the
//! same entries in the same order. Links are copied as such.

use net::beneath::Directory;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use wire::relay::entry::{Entry, EntryKind, NO_TIME, PATH_BYTES_MAX, SPARSE, Total};

/// Permissions of what is copied from a stream.
const STREAM_MODE: u32 = 0o644;
/// Largest depth of nested directories that are open at the same time. Choice: far more than people create.
const DEPTH_MAX: usize = 256;

/// Number of files with several names of which the first name is remembered: 100 bytes and the path for each. Beyond
/// that, a file is copied once for each name.
const HARD_LINKS_MAX: usize = 1 << 20;

/// Number of entries that are counted before a copy begins: some 10 µs each. If there are more, the copy begins with an
/// unknown total.
const COUNTED_MAX: usize = 1 << 20;
/// After this many entries, the count checks whether the copy still continues: some 10 ms.
const ASKED_EVERY: usize = 1_000;

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
    /// When anything of it was last changed, in nanoseconds.
    pub(super) changed_ns: i128,
    /// When it was created. If the file system does not know that, when it was changed: that is later, and an old file
    /// that loses another name counts as changed.
    pub(super) made_ns: i128,
    /// True if it has holes.
    pub(super) is_sparse: bool,
    /// Disk space of its content, at most its length.
    pub(super) room: u64,
    /// True if it is a file with other names.
    pub(super) has_names: bool,
}

/// The result of a step of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Entry(Head),
    /// Something that is not copied: its path, and what is wrong with it, if it was not left out on purpose.
    Spared(Vec<u8>, String),
}

impl Head {
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            kind: self.kind,
            mode: match self.is_sparse {
                true => self.mode | SPARSE,
                false => self.mode,
            },
            mtime_s: self.mtime_s,
            mtime_ns: self.mtime_ns,
            size: self.size,
            path: &self.path,
            target: &self.target,
        }
    }

    /// Returns the target of a link.
    pub(super) fn target(&self) -> &[u8] {
        &self.target
    }

    /// Returns true if the file of this head still has this size and time.
    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        let now = Head::of(self.kind, metadata, Vec::new(), Vec::new());
        let of = |head: &Head| (head.size, head.mtime_s, head.mtime_ns, head.changed_ns);
        of(self) == of(&now)
    }

    fn of(kind: EntryKind, metadata: &Metadata, path: Vec<u8>, target: Vec<u8>) -> Head {
        let changed_ns =
            i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
        let made = metadata.created().ok();
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made_ns = made.and_then(|made| i128::try_from(made.as_nanos()).ok());
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
            changed_ns,
            made_ns: made_ns.unwrap_or(changed_ns),
            is_sparse: kind == EntryKind::File && taken(metadata) < metadata.len(),
            room: match kind {
                EntryKind::File => taken(metadata).min(metadata.len()),
                _ => 0,
            },
            has_names: kind == EntryKind::File && metadata.nlink() > 1,
        }
    }
}

/// Returns the disk space of a file.
pub(super) fn taken(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}

/// The source of a file's content.
pub(super) enum Content {
    File(File),
    Stream(Box<dyn Read + Send>),
}

/// Something to copy.
pub struct Tree {
    what: What,
    exclude: Vec<Vec<u8>>,
    /// If something cannot be read, only this is left out.
    spare: bool,
}

enum What {
    /// The file or directory with this name in a directory.
    Named {
        parent: Directory,
        name: OsString,
    },
    Stream(Option<Box<dyn Read + Send>>),
}

/// An error, and the path that it concerns.
pub(super) type Located<T> = Result<T, (PathBuf, io::Error)>;

impl Tree {
    /// Opens a path of this host, with the rights of this process.
    pub fn open(path: &Path) -> io::Result<Tree> {
        // `.`, `..` and a link to a directory have a name of their own only after this.
        let whole = path.canonicalize()?;
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the root directory has no name to be copied to",
            ));
        };
        Tree::named(Directory::open(parent)?, name)
    }

    /// Opens a name in a directory.
    pub(super) fn named(parent: Directory, name: &OsStr) -> io::Result<Tree> {
        parent.look_at(name)?;
        let name = name.to_owned();
        Ok(Tree {
            what: What::Named { parent, name },
            exclude: Vec::new(),
            spare: false,
        })
    }

    /// Wraps a stream of bytes as one file.
    pub fn stream(stream: Box<dyn Read + Send>) -> Tree {
        Tree {
            what: What::Stream(Some(stream)),
            exclude: Vec::new(),
            spare: false,
        }
    }

    /// Leaves out what these patterns name: a name at any place, or, with a slash in it, a path from the top. `*`
    /// stands for any characters, `?` for one.
    #[must_use]
    pub fn without(self, patterns: Vec<Vec<u8>>) -> Tree {
        Tree {
            exclude: patterns,
            ..self
        }
    }

    /// Leaves out what cannot be read, if `spare` is set.
    #[must_use]
    pub(super) fn sparing(self, spare: bool) -> Tree {
        Tree { spare, ..self }
    }

    /// Returns true if it can be read again from the beginning.
    pub(super) fn can_rewind(&self) -> bool {
        matches!(self.what, What::Named { .. })
    }

    /// Returns the totals of all of it, if they can be known before it is read. The count stops when `is_over` returns
    /// true.
    pub(super) fn total(&mut self, is_over: impl Fn() -> bool) -> Option<Total> {
        if !self.can_rewind() {
            return None;
        }
        let mut total = Total::default();
        let mut walker = self.walk();
        for counted in 0..COUNTED_MAX {
            if counted % ASKED_EVERY == 0 && is_over() {
                return None;
            }
            // Errors are reported when the entry is copied.
            match walker.next().ok()? {
                None => return Some(total),
                Some(Found::Entry(head)) if head.kind == EntryKind::File => {
                    total.files += 1;
                    total.bytes = total.bytes.saturating_add(head.size);
                    total.room = total.room.saturating_add(head.room);
                }
                Some(_) => {}
            }
        }
        None
    }

    pub(super) fn walk(&mut self) -> Walker<'_> {
        Walker {
            tree: self,
            open: Vec::new(),
            begun: false,
            stream: None,
            last: None,
            is_file: false,
            links: HashMap::new(),
        }
    }
}

/// A walk through what is to be copied.
pub(super) struct Walker<'a> {
    tree: &'a mut Tree,
    /// The directories that the walk is in.
    open: Vec<Level>,
    begun: bool,
    stream: Option<Content>,
    /// The last entry, and the level of its directory, if it is in one.
    last: Option<(Option<usize>, OsString)>,
    /// The last entry is a file whose content was not taken.
    is_file: bool,
    /// The first names of files that have several, by device and inode.
    links: HashMap<(u64, u64), Vec<u8>>,
}

struct Level {
    directory: Directory,
    path: Vec<u8>,
    /// The remaining names, in reverse order.
    names: Vec<OsString>,
}

impl Walker<'_> {
    /// Returns the next entry.
    pub(super) fn next(&mut self) -> Located<Option<Found>> {
        (self.stream, self.last, self.is_file) = (None, None, false);
        if !self.begun {
            self.begun = true;
            return self.first().map(|head| Some(Found::Entry(head)));
        }
        while let Some(level) = self.open.last_mut() {
            let Some(name) = level.names.pop() else {
                self.open.pop();
                continue;
            };
            let mut path = level.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            if self.tree.excludes(&path) {
                return Ok(Some(Found::Spared(path, String::new())));
            }
            let depth = self.open.len() - 1;
            return match self.enter(depth, &name, path.clone()) {
                Ok(head) => Ok(Some(Found::Entry(head))),
                Err((_, error)) if self.tree.spare => {
                    Ok(Some(Found::Spared(path, error.to_string())))
                }
                Err(error) => Err(error),
            };
        }
        Ok(None)
    }

    /// Opens the same as [`Walker::content`], which can still be called then. A stream cannot be opened in this way.
    pub(super) fn look(&mut self) -> io::Result<Option<Content>> {
        if self.stream.is_some() {
            return Ok(None);
        }
        let is_file = self.is_file;
        let content = self.content();
        self.is_file = is_file;
        content
    }

    /// Opens the content of the last file.
    pub(super) fn content(&mut self) -> io::Result<Option<Content>> {
        if let Some(stream) = self.stream.take() {
            return Ok(Some(stream));
        }
        let is_file = std::mem::take(&mut self.is_file);
        let Some((directory, name)) = self.seat().filter(|_| is_file) else {
            return Ok(None);
        };
        let (file, _) = directory.read_at(name)?;
        Ok(Some(Content::File(file)))
    }

    /// Returns the directory of the last entry, and its name in it. A stream has none.
    pub(super) fn seat(&self) -> Option<(&Directory, &OsStr)> {
        let (level, name) = self.last.as_ref()?;
        let directory = match (level, &self.tree.what) {
            (Some(depth), _) => &self.open[*depth].directory,
            (None, What::Named { parent, .. }) => parent,
            (None, What::Stream(_)) => return None,
        };
        Some((directory, name))
    }

    /// Notes that the file with this path cannot be read: its other names count as separate files.
    pub(super) fn forget(&mut self, path: &[u8]) {
        self.links.retain(|_, first| first != path);
    }

    fn first(&mut self) -> Located<Head> {
        match &mut self.tree.what {
            What::Stream(stream) => {
                self.stream = stream.take().map(Content::Stream);
                Ok(Head {
                    kind: EntryKind::File,
                    mode: STREAM_MODE,
                    mtime_s: 0,
                    mtime_ns: NO_TIME,
                    size: 0,
                    path: Vec::new(),
                    target: Vec::new(),
                    changed_ns: 0,
                    made_ns: 0,
                    is_sparse: false,
                    room: 0,
                    has_names: false,
                })
            }
            What::Named { parent, name } => {
                let name = name.clone();
                let (head, level) = visit(parent, &name, Vec::new(), &mut self.links)?;
                self.take(None, &head, level, &name);
                Ok(head)
            }
        }
    }

    fn enter(&mut self, depth: usize, name: &OsStr, path: Vec<u8>) -> Located<Head> {
        if path.len() > PATH_BYTES_MAX {
            return Err((shown(&path), ErrorKind::InvalidFilename.into()));
        }
        if depth + 1 >= DEPTH_MAX {
            let text = format!("more than {DEPTH_MAX} directories in each other");
            return Err((shown(&path), io::Error::new(ErrorKind::InvalidInput, text)));
        }
        let directory = &self.open[depth].directory;
        let (head, level) = visit(directory, name, path, &mut self.links)?;
        self.take(Some(depth), &head, level, name);
        Ok(head)
    }

    fn take(&mut self, depth: Option<usize>, head: &Head, level: Option<Level>, name: &OsStr) {
        self.open.extend(level);
        self.last = Some((depth, name.to_owned()));
        self.is_file = head.kind == EntryKind::File;
    }
}

impl Tree {
    fn excludes(&self, path: &[u8]) -> bool {
        is_excluded(&self.exclude, path)
    }
}

/// Returns true if one of these patterns leaves out a path relative to what is copied.
pub fn is_excluded(patterns: &[Vec<u8>], path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    patterns.iter().any(|pattern| {
        let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
        match pattern.strip_prefix(b"/") {
            Some(from_top) => matches(from_top, path),
            None if pattern.contains(&b'/') => matches(pattern, path),
            None => matches(pattern, name),
        }
    })
}

/// Matches a pattern: `*` stands for any characters, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and the end of what it stands for.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, end)) = star else {
                    return false;
                };
                star = Some((at, end + 1));
                (p, t) = (at + 1, end + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// Returns the head of a name, and the directory to enter if it is one.
fn visit(
    parent: &Directory,
    name: &OsStr,
    path: Vec<u8>,
    links: &mut HashMap<(u64, u64), Vec<u8>>,
) -> Located<(Head, Option<Level>)> {
    let at = |error| (shown_or(&path, name), error);
    let metadata = parent.look_at(name).map_err(at)?;
    if metadata.is_dir() {
        let directory = parent.enter(name).map_err(at)?;
        let names = sorted(&directory).map_err(at)?;
        let head = Head::of(EntryKind::Directory, &metadata, path.clone(), Vec::new());
        let level = Level {
            directory,
            path,
            names,
        };
        Ok((head, Some(level)))
    } else if metadata.is_symlink() {
        let target = std::fs::read_link(parent.path().join(name)).map_err(at)?;
        let target = target.into_os_string().into_vec();
        Ok((Head::of(EntryKind::Link, &metadata, path, target), None))
    } else if metadata.is_file() {
        // If only this file is copied, nobody sees its other names.
        if metadata.nlink() > 1 && !path.is_empty() {
            let file = (metadata.dev(), metadata.ino());
            if let Some(first) = links.get(&file) {
                let head = Head::of(EntryKind::HardLink, &metadata, path, first.clone());
                return Ok((head, None));
            }
            if links.len() < HARD_LINKS_MAX {
                links.insert(file, path.clone());
            }
        }
        Ok((Head::of(EntryKind::File, &metadata, path, Vec::new()), None))
    } else {
        let text = "neither a file, nor a directory, nor a link: it cannot be copied";
        Err(at(io::Error::new(ErrorKind::InvalidInput, text)))
    }
}

/// Returns the names of a directory in reverse order.
fn sorted(directory: &Directory) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in directory.list()? {
        names.push(entry?.file_name());
    }
    names.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
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
        while let Some(Found::Entry(head)) = walker.next().unwrap() {
            let has_content = walker.content().unwrap().is_some();
            assert_eq!(has_content, head.kind == EntryKind::File);
            seen.push(head);
        }
        let paths: Vec<&[u8]> = seen.iter().map(|head| &head.path[..]).collect();
        let expected = ["", "a", "a/sub", "a/x", "a.b", "link"].map(str::as_bytes);
        assert_eq!(paths, expected);
        assert_eq!((seen[3].size, &seen[5].target[..]), (2, &b"../.."[..]));
        let mut again = tree.walk();
        for head in &seen {
            assert_eq!(again.next().unwrap(), Some(Found::Entry(head.clone())));
        }
        assert_eq!(again.next().unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn all_that_is_there_is_counted_unless_the_copy_ends_meanwhile() {
        let dir = test_directory("tree-total");
        let top = dir.join("top");
        fs::create_dir(&top).unwrap();
        for i in 0..2 * ASKED_EVERY {
            fs::write(top.join(i.to_string()), "x").unwrap();
        }
        let asked = std::cell::Cell::new(0);
        let ends_at = |nth: usize| {
            asked.set(0);
            let is_over = || asked.replace(asked.get() + 1) == nth;
            Tree::open(&top).unwrap().total(is_over)
        };
        let total = ends_at(usize::MAX).unwrap();
        assert_eq!((total.files, total.bytes, asked.get()), (2_000, 2_000, 3));
        assert_eq!((ends_at(1), asked.get()), (None, 2));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_stream_is_one_file() {
        let mut tree = Tree::stream(Box::new(&b"abc"[..]));
        assert!(!tree.can_rewind());
        let mut walker = tree.walk();
        let Some(Found::Entry(head)) = walker.next().unwrap() else {
            panic!("nothing");
        };
        assert_eq!((head.kind, head.mtime_ns), (EntryKind::File, NO_TIME));
        assert!(matches!(walker.content(), Ok(Some(Content::Stream(_)))));
        assert_eq!(walker.next().unwrap(), None);
    }

    #[test]
    fn other_names_of_a_file_and_what_is_left_out_are_told() {
        let dir = test_directory("tree-links");
        let top = dir.join("top");
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::write(top.join("a"), "x").unwrap();
        fs::hard_link(top.join("a"), top.join("sub/b")).unwrap();
        fs::write(top.join("sub/c.tmp"), "x").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(top.join("z")).unwrap();
        let tree = Tree::open(&top).unwrap().without(vec![b"*.tmp".to_vec()]);
        let mut tree = tree.sparing(true);
        let mut walker = tree.walk();
        let mut seen = Vec::new();
        while let Some(found) = walker.next().unwrap() {
            seen.push(match found {
                Found::Entry(head) => (head.path, head.kind, head.target, false),
                Found::Spared(path, why) => (path, EntryKind::File, Vec::new(), !why.is_empty()),
            });
        }
        let of = |path: &str, kind, target: &str, is_wrong| {
            (
                path.as_bytes().to_vec(),
                kind,
                target.as_bytes().to_vec(),
                is_wrong,
            )
        };
        let expected = [
            of("", EntryKind::Directory, "", false),
            of("a", EntryKind::File, "", false),
            of("sub", EntryKind::Directory, "", false),
            of("sub/b", EntryKind::HardLink, "a", false),
            of("sub/c.tmp", EntryKind::File, "", false),
            of("z", EntryKind::File, "", true),
        ];
        assert_eq!(seen, expected);
        let mut strict = Tree::open(&top).unwrap();
        let mut walker = strict.walk();
        assert!(std::iter::from_fn(|| walker.next().transpose()).any(|found| found.is_err()));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn patterns_match_names_and_paths() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*.o", "a.o", true),
            ("*.o", "a.oo", false),
            ("a?c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyyd", false),
            ("x", "xx", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
        let of = |pattern: &str| {
            let tree = Tree::stream(Box::new(&b""[..]));
            tree.without(vec![pattern.as_bytes().to_vec()])
        };
        let excludes = |pattern, path: &str| of(pattern).excludes(path.as_bytes());
        assert!(excludes("cache/", "a/cache") && excludes("/a/*", "a/cache"));
        assert!(!excludes("/cache", "a/cache") && excludes("a/c*", "a/cache"));
    }
}
