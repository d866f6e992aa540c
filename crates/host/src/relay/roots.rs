//! Which paths of a host are served: those below configured directories, whatever leads there.

use super::failure::{Failure, FailureKind};
use super::place::{Named, Place, is_meant_as_directory};
use super::tree::Tree;
use base::NodeAddr;
use net::beneath::Directory;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use wire::relay::NAME_SEPARATOR;

/// The directories that are served.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    here: NodeAddr,
    roots: Vec<PathBuf>,
}

impl Roots {
    pub(super) fn new(here: NodeAddr, roots: Vec<PathBuf>) -> Roots {
        Roots { here, roots }
    }

    /// Where a copy to `path` goes, behind which may be the name that it has at its source.
    pub(super) fn place(&self, path: &str) -> Result<Place, Failure> {
        let (path, hint) = match path.split_once(NAME_SEPARATOR) {
            Some((path, hint)) => (path, Some(OsStr::new(hint))),
            None => (path, None),
        };
        let (root, below) = self.find(path)?;
        if is_meant_as_directory(Path::new(path)) && !is_directory(&root, &below) {
            let text = format!("`{path}` is no directory here: make it first");
            return Err(Failure::new(self.here, FailureKind::NotFound, text));
        }
        let named = Named::below(&root, &below, hint);
        named
            .map(Place::Named)
            .map_err(|error| self.refused(path, &error))
    }

    /// What is at `path`.
    pub(super) fn tree(&self, path: &str) -> Result<Tree, Failure> {
        let (root, below) = self.find(path)?;
        let opened = match below.file_name() {
            // The root itself.
            None => {
                let text = "a whole root is not copied: name what is in it";
                return Err(Failure::new(self.here, FailureKind::Unusable, text));
            }
            Some(name) => root
                .below(below.parent().unwrap_or(Path::new("")))
                .and_then(|parent| Tree::named(parent, name)),
        };
        opened.map_err(|error| self.refused(path, &error))
    }

    fn refused(&self, path: &str, error: &io::Error) -> Failure {
        Failure::file(self.here, format_args!("`{path}`"), error)
    }

    /// The root that a path is below, and the way from there. A relative path is below the first.
    fn find(&self, path: &str) -> Result<(Directory, PathBuf), Failure> {
        let forbidden = |text: String| Failure::new(self.here, FailureKind::Forbidden, text);
        let asked = Path::new(path);
        if asked.components().any(|part| part == Component::ParentDir) {
            return Err(forbidden(format!("`{path}`: write it without `..`")));
        }
        let Some(first) = self.roots.first() else {
            let text = "this node keeps and gives no files: name directories in `[relay] roots` of \
                        its configuration";
            return Err(forbidden(text.to_owned()));
        };
        let found = match asked.is_absolute() {
            false => Some((first, asked)),
            true => {
                let below = |root| asked.strip_prefix(root).ok().map(|below| (root, below));
                let mut fitting: Vec<_> = self.roots.iter().filter_map(below).collect();
                fitting.sort_by_key(|(root, _)| root.as_os_str().len());
                fitting.pop()
            }
        };
        let Some((root, below)) = found else {
            return Err(forbidden(format!(
                "`{path}` is in none of the directories that are served here (`[relay] roots`)"
            )));
        };
        let opened = Directory::open(root);
        let root = opened.map_err(|error| self.refused(&root.to_string_lossy(), &error))?;
        // Without `.` and doubled slashes.
        let below = below
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        Ok((root, below.collect()))
    }
}

/// A root is one itself.
fn is_directory(root: &Directory, below: &Path) -> bool {
    below.as_os_str().is_empty() || root.look(below).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use std::fs;
    use std::os::unix::fs::symlink;

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
        let roots = Roots::new(NodeAddr(1), vec![a.clone(), b.clone()]);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        for good in ["b/file", "./b//file", "in/file", &text(&b.join("file"))] {
            roots.tree(good).map(drop).unwrap();
            roots.place(good).map(drop).unwrap();
        }
        // A link is copied as such, and where it leads is nobody's business.
        roots.tree("out").map(drop).unwrap();
        for bad in [
            "../secret",
            "b/../../secret",
            "up/secret",
            &text(&dir.join("secret")),
            "/etc/passwd",
        ] {
            let failure = roots.tree(bad).map(drop).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Forbidden, "{bad}: {failure}");
            let failure = roots.place(bad).map(drop).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Forbidden, "{bad}: {failure}");
        }
        let missing = roots.tree("nothing").map(drop).unwrap_err();
        assert_eq!(missing.kind, FailureKind::NotFound);
        let none = Roots::new(NodeAddr(1), Vec::new());
        let failure = none.place("x").map(drop).unwrap_err();
        assert!(failure.text.contains("[relay] roots"), "{failure}");
        fs::remove_dir_all(dir).unwrap();
    }
}
