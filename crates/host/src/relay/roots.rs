//! Which paths of a host are served: those below configured directories, however they are reached.

use super::failure::{Failure, FailureKind};
use super::ordered::Beginner;
use super::place::{Named, Place, is_meant_as_directory};
use super::tree::Tree;
use base::NodeAddr;
use net::beneath::Directory;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use wire::relay::{NAME_SEPARATOR, Open};

/// Largest number of patterns for one transfer: each entry is compared with each of them.
const PATTERNS_MAX: usize = 256;

/// A directory that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its path.
    pub path: PathBuf,
    /// Other nodes may read what is in it.
    pub read: bool,
    /// Other nodes may write into it.
    pub write: bool,
    /// Files keep the owner that they have at the source, and the rights that follow from it.
    pub owners: bool,
    /// The nodes whose transfers may use it, in words as for [`super::Passes`]. The default is all nodes.
    pub from: Option<Vec<String>>,
}

/// The node that began a transfer; none if the operator of this node did.
pub(super) type Who<'a> = Option<&'a Beginner>;

impl Root {
    /// Creates a root that may be read and written.
    pub fn open(path: PathBuf) -> Root {
        Root {
            path,
            read: true,
            write: true,
            owners: false,
            from: None,
        }
    }
}

/// The use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Write(Keeping),
}

/// How a copy is to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keeping {
    /// Nothing may exist yet.
    pub(super) keep: bool,
    /// With its owner and extended attributes.
    pub(super) attributes: bool,
    /// Any relay on the way could have changed it.
    pub(super) plain: bool,
}

impl Keeping {
    /// Returns what `open` requests.
    pub(super) fn of(open: &Open<'_>) -> Keeping {
        Keeping {
            keep: open.keep,
            attributes: open.attributes,
            plain: open.plain,
        }
    }
}

/// The directories that are served.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    here: NodeAddr,
    roots: Vec<Root>,
}

impl Roots {
    pub(super) fn new(here: NodeAddr, roots: Vec<Root>) -> Roots {
        Roots { here, roots }
    }

    /// Returns the target of a copy to `path`, which may be followed by the name that it has at its source.
    pub(super) fn place(&self, path: &[u8], how: Keeping, who: Who<'_>) -> Result<Place, Failure> {
        let mut parts = path
            .splitn(2, |byte| *byte == NAME_SEPARATOR)
            .map(OsStr::from_bytes);
        let path = Path::new(parts.next().unwrap_or_default());
        let hint = parts.next();
        let shown = path.to_string_lossy();
        let (root, below, gives) = self.find(path, Use::Write(how), who)?;
        if is_meant_as_directory(path) && !is_directory(&root, &below) {
            let text = format!("`{shown}` is no directory here: make it first");
            return Err(Failure::new(self.here, FailureKind::NotFound, text));
        }
        let named = Named::below(&root, &below, hint);
        let named = named.map_err(|error| self.refused(&shown, &error))?;
        if how.keep && named.is_there() {
            return Err(named.kept(self.here));
        }
        Ok(Place::Named(named.hidden(!gives)))
    }

    /// Returns what is at `path`, which may be followed by patterns of what is left out.
    pub(super) fn tree(&self, path: &[u8], who: Who<'_>) -> Result<Tree, Failure> {
        let mut parts = path.split(|byte| *byte == NAME_SEPARATOR);
        let path = Path::new(OsStr::from_bytes(parts.next().unwrap_or_default()));
        let patterns: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if patterns.len() > PATTERNS_MAX {
            let text = format!("more than {PATTERNS_MAX} patterns of what is left out");
            return Err(Failure::new(self.here, FailureKind::Unusable, text));
        }
        let (root, below, _) = self.find(path, Use::Read, who)?;
        let opened = match below.file_name() {
            // The path is the root itself.
            None => {
                let text = "a whole root is not copied: name what is in it";
                return Err(Failure::new(self.here, FailureKind::Unusable, text));
            }
            Some(name) => root
                .below(below.parent().unwrap_or(Path::new("")))
                .and_then(|parent| Tree::named(parent, name)),
        };
        let tree = opened.map_err(|error| self.refused(&path.to_string_lossy(), &error))?;
        Ok(tree.without(patterns))
    }

    fn refused(&self, path: &str, error: &io::Error) -> Failure {
        Failure::file(self.here, format_args!("`{path}`"), error)
    }

    /// Returns the root that contains a path, the path below it, and whether the root may be read. A relative path is
    /// below the first root.
    fn find(
        &self,
        asked: &Path,
        to: Use,
        who: Who<'_>,
    ) -> Result<(Directory, PathBuf, bool), Failure> {
        let forbidden = |text: String| Failure::new(self.here, FailureKind::Forbidden, text);
        let shown = asked.display();
        if asked.components().any(|part| part == Component::ParentDir) {
            return Err(forbidden(format!("`{shown}`: write it without `..`")));
        }
        let Some(first) = self.roots.first() else {
            let text = "this node keeps and gives no files: name directories in `[relay] roots` of \
                        its configuration";
            return Err(forbidden(text.to_owned()));
        };
        let found = match asked.is_absolute() {
            false => Some((first, asked)),
            true => {
                let below = |root: &Root| asked.strip_prefix(&root.path).map(Path::to_owned);
                let fitting = self.roots.iter().filter(|root| below(root).is_ok());
                let longest = fitting.max_by_key(|root| root.path.as_os_str().len());
                longest.and_then(|root| Some((root, asked.strip_prefix(&root.path).ok()?)))
            }
        };
        let Some((root, below)) = found else {
            return Err(forbidden(format!(
                "`{shown}` is in none of the directories that are served here (`[relay] roots`)"
            )));
        };
        let refusal = match to {
            Use::Read if !root.read => Some("gives nothing: it has `read = false`"),
            Use::Write(_) if !root.write => Some("keeps nothing: it has `write = false`"),
            Use::Write(how) if how.attributes && how.plain => Some(
                "takes no owners over from a copy that is not sealed: leave out --plain or --attributes",
            ),
            Use::Write(how) if how.attributes && !root.owners && who.is_some() => {
                Some("takes no owners over: leave out --attributes, or set `owners = true` for it")
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Err(forbidden(format!(
                "`{shown}`: the directory that it is in {refusal} in `[relay] roots`"
            )));
        }
        if let Some(from) = &root.from
            && let Some(beginner) = who
            && !beginner.is_among(from)
        {
            return Err(forbidden(format!(
                "`{shown}`: the directory that it is in is not for {}: add it to `from` in `[relay] roots`",
                beginner.name()
            )));
        }
        let opened = Directory::open(&root.path);
        let gives = root.read;
        let root = opened.map_err(|error| self.refused(&root.path.to_string_lossy(), &error))?;
        // This drops `.` and doubled slashes.
        let below = below
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        Ok((root, below.collect(), gives))
    }
}

/// Returns true for a directory. A root is a directory itself.
fn is_directory(root: &Directory, below: &Path) -> bool {
    below.as_os_str().is_empty() || root.look(below).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use secure::{Authority, Grants, Keys, Validity};
    use std::fs;
    use std::os::unix::fs::symlink;

    const VALID: Validity = Validity {
        not_before_s: 0,
        not_after_s: 1,
    };

    #[test]
    fn only_what_is_below_a_root_is_served() {
        let dir = test_directory("roots");
        let (a, b) = (dir.join("a"), dir.join("a/b"));
        fs::create_dir_all(&b).unwrap();
        fs::write(dir.join("secret"), "x").unwrap();
        fs::write(b.join("file"), "x").unwrap();
        symlink("../secret", a.join("out")).unwrap();
        symlink("..", a.join("up")).unwrap();
        symlink("b", a.join("in")).unwrap();
        let roots = [a.clone(), b.clone()].map(Root::open).to_vec();
        let roots = Roots::new(NodeAddr(1), roots);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        for good in ["b/file", "./b//file", "in/file", &text(&b.join("file"))] {
            roots.tree(good.as_bytes(), None).map(drop).unwrap();
            roots
                .place(good.as_bytes(), Keeping::default(), None)
                .map(drop)
                .unwrap();
        }
        // A link is copied as such, and where it leads does not matter.
        roots.tree(b"out", None).map(drop).unwrap();
        for bad in [
            "../secret",
            "b/../../secret",
            "up/secret",
            &text(&dir.join("secret")),
            "/etc/passwd",
        ] {
            let failure = roots.tree(bad.as_bytes(), None).map(drop).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Forbidden, "{bad}: {failure}");
            let failure = roots
                .place(bad.as_bytes(), Keeping::default(), None)
                .map(drop)
                .unwrap_err();
            assert_eq!(failure.kind, FailureKind::Forbidden, "{bad}: {failure}");
        }
        let missing = roots.tree(b"nothing", None).map(drop).unwrap_err();
        assert_eq!(missing.kind, FailureKind::NotFound);
        let none = Roots::new(NodeAddr(1), Vec::new());
        let failure = none
            .place(b"x", Keeping::default(), None)
            .map(drop)
            .unwrap_err();
        assert!(failure.text.contains("[relay] roots"), "{failure}");
        let keep = Keeping {
            keep: true,
            ..Keeping::default()
        };
        let kept = roots.place(b"b/file", keep, None).map(drop).unwrap_err();
        assert_eq!(kept.kind, FailureKind::Exists);
        roots.place(b"b/other", keep, None).map(drop).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_root_gives_or_keeps_as_it_is_told() {
        let dir = test_directory("roots-rights");
        let (given, kept) = (dir.join("given"), dir.join("kept"));
        for path in [&given, &kept] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("file"), "x").unwrap();
        }
        let root = |path: &Path, read: bool| Root {
            path: path.to_owned(),
            read,
            write: !read,
            owners: false,
            from: None,
        };
        let roots = Roots::new(NodeAddr(1), vec![root(&given, true), root(&kept, false)]);
        let path = |below: &Path| below.join("file").as_os_str().as_bytes().to_vec();
        roots.tree(&path(&given), None).map(drop).unwrap();
        roots
            .place(&path(&kept), Keeping::default(), None)
            .map(drop)
            .unwrap();
        let refused = [
            roots.tree(&path(&kept), None).map(drop).unwrap_err(),
            roots
                .place(&path(&given), Keeping::default(), None)
                .map(drop)
                .unwrap_err(),
        ];
        for failure in refused {
            assert_eq!(failure.kind, FailureKind::Forbidden, "{failure}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_root_is_for_those_whom_it_names() {
        let dir = test_directory("roots-from");
        fs::write(dir.join("file"), "x").unwrap();
        let from = |names: &[&str]| Root {
            from: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..Root::open(dir.clone())
        };
        let mut authority = Authority::generate(&[1; 32]);
        let id = authority.network().id();
        let keys = Keys::generate(&[2; 64]);
        let request = keys.request(id, NodeAddr(0x0a07_0002), "ams", &["a.example"]);
        let request = request.unwrap();
        let tagged = Grants {
            groups: &[],
            tags: &["backup"],
        };
        let ams = Beginner {
            certificate: authority.issue_with(&request, &tagged, VALID).unwrap(),
            key: [0; 32],
            good_until_s: 0,
        };
        let is_served = |names: &[&str], who: Who<'_>| {
            let roots = Roots::new(NodeAddr(1), vec![from(names)]);
            let (read, kept) = (
                roots.tree(b"file", who),
                roots.place(b"new", Keeping::default(), who),
            );
            assert_eq!(read.is_ok(), kept.is_ok());
            read.map(drop)
                .map_err(|failure| (failure.kind, failure.text))
        };
        for names in [
            &["fra", "AMS"][..],
            &["10.7.0.2"],
            &["fra", "@a.example"],
            &["tag:backup"],
        ] {
            assert_eq!(is_served(names, Some(&ams)), Ok(()), "{names:?}");
        }
        for names in [
            &[][..],
            &["fra", "10.7.0.20"],
            &["@example"],
            &["tag:web", "backup"],
        ] {
            let (kind, text) = is_served(names, Some(&ams)).unwrap_err();
            assert!(
                kind == FailureKind::Forbidden && text.contains("not for ams"),
                "{text}"
            );
            assert_eq!(is_served(names, None), Ok(()), "{names:?}");
        }
        let how = Keeping {
            attributes: true,
            ..Keeping::default()
        };
        let keeps = |owners, how, who: Who<'_>| {
            let root = Root {
                owners,
                ..Root::open(dir.clone())
            };
            let kept = Roots::new(NodeAddr(1), vec![root]).place(b"new", how, who);
            kept.map(drop).map_err(|failure| failure.kind)
        };
        assert_eq!(keeps(false, how, Some(&ams)), Err(FailureKind::Forbidden));
        assert_eq!(keeps(true, how, Some(&ams)), Ok(()));
        assert_eq!(keeps(false, how, None), Ok(()), "the operator may");
        let plain = Keeping { plain: true, ..how };
        assert_eq!(keeps(true, plain, None), Err(FailureKind::Forbidden));
        fs::remove_dir_all(dir).unwrap();
    }
}
