//! The repository as text, for the rules.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Larger files are data, not prose or code.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Every file of the repository by its path from the root, with `/` between folders.
#[derive(Default)]
pub(crate) struct Tree {
    /// The text is `None` for data: not UTF-8, too large, or a fuzz corpus.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the files below `root`, except those that builds and runs generate (as in .gitignore).
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Tree {
        let files = files.map(|(path, text)| (path.to_owned(), Some(text.to_owned())));
        Tree {
            files: files.into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the text files, in the order of their paths.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns whether a file or a folder with this path exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.is_empty() || self.files.contains_key(path) || self.below(path).next().is_some()
    }

    /// Returns the paths of all files below a folder.
    pub(crate) fn below(&self, folder: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        self.files
            .range(prefix.clone()..)
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(&prefix))
    }

    /// Returns the folders of `crates/`, sorted.
    pub(crate) fn crates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .below("crates")
            .filter_map(|path| {
                path.strip_prefix("crates/")?
                    .split_once('/')
                    .map(|(name, _)| name)
            })
            .collect();
        names.dedup();
        names
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{prefix}{name}");
            if is_left_behind(&path) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let is_text =
                    !path.starts_with("fuzz/corpus/") && entry.metadata()?.len() <= TEXT_BYTES_MAX;
                let text = if is_text {
                    String::from_utf8(std::fs::read(entry.path())?).ok()
                } else {
                    None
                };
                self.files.insert(path, text);
            }
        }
        Ok(())
    }
}

/// Returns true for a path that .gitignore names, and for git's own: a folder, or a file in a
/// linked work tree.
fn is_left_behind(path: &str) -> bool {
    matches!(path, ".git" | "target" | "fuzz/target" | "fuzz/artifacts")
        || path.starts_with("sinew-demo")
        || path.starts_with("sinew-bench")
}
