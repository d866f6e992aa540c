//! `--manifest`: the digests of all that was copied, in the form of `b3sum`, for `b3sum --check`.
//!
//! ```text
//!   one source:       names as they are below the target       a   sub/b
//!   several sources:  as they are in the directory with all    top/a   top/sub/b   file
//! ```

use super::progress::hex;
use host::relay::tree::is_excluded;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes that are read at once from a file that was already at the target.
const READ_BYTES: usize = 256 * 1024;

type Digests = BTreeMap<Vec<u8>, [u8; 32]>;

/// The digests of everything copied so far.
#[derive(Debug)]
pub(super) struct Manifest {
    to: PathBuf,
    /// There are several sources: names begin with that of the source.
    is_of_several: bool,
    /// Patterns of files that are not copied.
    exclude: Vec<Vec<u8>>,
    digests: Mutex<Digests>,
}

impl Manifest {
    /// Starts an empty manifest, which will be written to `to`.
    pub(super) fn new(to: &Path, sources: usize, exclude: Vec<Vec<u8>>) -> Manifest {
        Manifest {
            to: to.to_owned(),
            is_of_several: sources > 1,
            exclude,
            digests: Mutex::default(),
        }
    }

    /// Adds a copied source. `came` has the digests of sent files, by their paths below `local`. `name` is the name of
    /// the source at the target.
    pub(super) fn add(&self, local: &Path, name: Option<&[u8]>, came: Digests) -> io::Result<()> {
        let found = digests(local, came, &self.exclude)?;
        let name = name.unwrap_or_default();
        let below = self.is_of_several && !name.is_empty();
        let named = found.into_iter().map(|(path, digest)| {
            let path = match (path.is_empty(), below) {
                (true, _) if name.is_empty() => b"-".to_vec(),
                (true, _) => name.to_vec(),
                (false, true) => [name, b"/", &path].concat(),
                (false, false) => path,
            };
            (path, digest)
        });
        let mut all = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(named);
        Ok(())
    }

    /// Returns true if nothing was copied yet.
    pub(super) fn is_empty(&self) -> bool {
        let all = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_empty()
    }

    /// Writes the manifest.
    pub(super) fn write(&self) -> io::Result<()> {
        let all = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = BufWriter::new(File::create(&self.to)?);
        for (name, digest) in all.iter() {
            line(&mut out, &hex(digest), name)?;
        }
        out.flush()
    }
}

/// Returns the digests of the files at or below `local`. Sent files have the digest from the transfer; files that were
/// already at the target have that of the local file.
fn digests(local: &Path, came: Digests, exclude: &[Vec<u8>]) -> io::Result<Digests> {
    let mut rest = vec![Vec::new()];
    let mut all = BTreeMap::new();
    while let Some(path) = rest.pop() {
        let whole = match path.is_empty() {
            true => local.to_owned(),
            false => local.join(OsString::from_vec(path.clone())),
        };
        let Ok(found) = whole.symlink_metadata() else {
            continue;
        };
        if found.is_dir() {
            for entry in whole.read_dir()? {
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(entry?.file_name().as_bytes());
                if !is_excluded(exclude, &below) {
                    rest.push(below);
                }
            }
        } else if found.is_file() {
            // The copy also left out files that cannot be read.
            let digest = match came.get(&path) {
                Some(digest) => Some(*digest),
                None => digest(&whole).ok(),
            };
            all.extend(digest.map(|digest| (path, digest)));
        }
    }
    // A stream has no file here.
    Ok(came.into_iter().chain(all).collect())
}

fn digest(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(*hasher.finalize().as_bytes()),
            len => hasher.update(&buffer[..len]),
        };
    }
}

/// Writes a line. A name with a line end or a backslash is escaped as `b3sum` does it.
fn line(out: &mut impl Write, digest: &str, name: &[u8]) -> io::Result<()> {
    let is_odd = name
        .iter()
        .any(|byte| matches!(byte, b'\n' | b'\r' | b'\\'));
    if is_odd {
        out.write_all(b"\\")?;
    }
    write!(out, "{digest}  ")?;
    for byte in name {
        match byte {
            b'\n' => out.write_all(b"\\n")?,
            b'\r' => out.write_all(b"\\r")?,
            b'\\' => out.write_all(b"\\\\")?,
            byte => out.write_all(&[*byte])?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_line_as_b3sum_writes_it() {
        let dir = crate::testing::directory("manifest");
        std::fs::create_dir_all(dir.join("top/sub")).unwrap();
        std::fs::write(dir.join("top/a"), "abc").unwrap();
        std::fs::write(dir.join("top/sub/b\nc"), "").unwrap();
        let empty = blake3::hash(b"").to_hex();
        let seven = "07".repeat(32);
        let came = || BTreeMap::from([(b"a".to_vec(), [7; 32])]);
        let list = dir.join("list");
        let text = |manifest: &Manifest| {
            manifest.write().unwrap();
            std::fs::read_to_string(&list).unwrap()
        };
        let one = Manifest::new(&list, 1, Vec::new());
        one.add(&dir.join("top"), Some(b"top"), came()).unwrap();
        assert_eq!(text(&one), format!("{seven}  a\n\\{empty}  sub/b\\nc\n"));
        let part = Manifest::new(&list, 1, vec![b"sub/".to_vec()]);
        part.add(&dir.join("top"), Some(b"top"), came()).unwrap();
        assert_eq!(text(&part), format!("{seven}  a\n"));
        let several = Manifest::new(&list, 2, Vec::new());
        several.add(&dir.join("top"), Some(b"top"), came()).unwrap();
        several
            .add(&dir.join("top/sub/b\nc"), Some(b"z"), BTreeMap::new())
            .unwrap();
        let expected = format!("{seven}  top/a\n\\{empty}  top/sub/b\\nc\n{empty}  z\n");
        assert_eq!(text(&several), expected);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
