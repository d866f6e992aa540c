//! `--manifest`: the digests of all that was copied, in the form of `b3sum`, for `b3sum --check`.

use super::progress::hex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What is read at once of a file that did not come, because it was there.
const READ_BYTES: usize = 256 * 1024;

/// Writes the digests of the files at or below `local`: as they came, and of those that were there
/// already as they are here.
pub(super) fn write(to: &Path, local: &Path, came: BTreeMap<Vec<u8>, [u8; 32]>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(to)?);
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
                rest.push(below);
            }
        } else if found.is_file() {
            // What cannot be read was left out of the copy, too.
            let digest = match came.get(&path) {
                Some(digest) => Some(*digest),
                None => digest(&whole).ok(),
            };
            all.extend(digest.map(|digest| (path, digest)));
        }
    }
    // A stream has no file here.
    for (path, digest) in came.into_iter().chain(all).collect::<BTreeMap<_, _>>() {
        let name = match path.is_empty() {
            true => local.file_name().map_or(&b"-"[..], OsStrExt::as_bytes),
            false => &path,
        };
        line(&mut out, &hex(&digest), name)?;
    }
    out.flush()
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

/// A name with a line's end or a backslash in it is written as b3sum does.
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
        let came = BTreeMap::from([(b"a".to_vec(), [7; 32])]);
        write(&dir.join("list"), &dir.join("top"), came).unwrap();
        let text = std::fs::read_to_string(dir.join("list")).unwrap();
        let empty = blake3::hash(b"").to_hex();
        let expected = format!("{}  a\n\\{empty}  sub/b\\nc\n", "07".repeat(32));
        assert_eq!(text, expected);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
