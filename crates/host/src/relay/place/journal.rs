//! The journal beside a copy, for the next attempt: which file is being written, and which data had been stored at the
//! last sync.
//!
//! ```text
//!   "SNJ3" | the boot that wrote it, 16 bytes | stored until, 64 bits (ns since 1970)
//!          | begun anew at, 64 bits (the same), 0: it was not | a head, or nothing | Compare, or nothing
//! ```
//! A complete file needs no entry: from then on it has its name, its size and its time. But if the host was restarted
//! since, data that was not stored by then is not trusted. If the copy has begun anew, nothing that was made before is
//! trusted. Compare behind a head says that this file was compared with the existing one, which changed meanwhile, so
//! it is not compared again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::relay::entry::{Entry, EntryKind, HEAD_BYTES_MAX, Item};

const MAGIC: [u8; 4] = *b"SNJ3";
const FIXED_BYTES: usize = 4 + BOOT_BYTES + 8 + 8;
const BOOT_BYTES: usize = 16;

/// The journal of one copy.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    boot: [u8; BOOT_BYTES],
    stored_ns: u64,
    anew_ns: u64,
    /// The head of the file that is being written, if that is worth continuing.
    current: Option<Vec<u8>>,
}

/// The records of an earlier attempt.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Data changed after this time is not trusted, in nanoseconds since 1970; none if all is trusted.
    pub(super) believed_ns: Option<i128>,
    /// Data made before or at this time is not trusted, in nanoseconds since 1970, because the copy began anew then.
    pub(super) anew_ns: Option<i128>,
    /// The head of the file that was being written.
    pub(super) current: Option<Vec<u8>>,
    /// The existing file under that file's path changed while it was compared.
    pub(super) has_changed: bool,
}

impl Past {
    /// Returns true if the existing file with this path is to be compared.
    pub(super) fn compares(&self, path: &[u8]) -> bool {
        let current = self.current.as_deref().filter(|_| self.has_changed);
        let entry = current.and_then(|head| entry(head).ok());
        entry.is_none_or(|entry| entry.path != path)
    }
}

impl Journal {
    /// Reads the journal.
    pub(super) fn open(file: File) -> io::Result<(Journal, Past)> {
        let mut bytes = vec![0; FIXED_BYTES + 2 * HEAD_BYTES_MAX];
        let len = file.read_at(&mut bytes, 0)?;
        let boot = boot();
        let mut past = Past {
            believed_ns: Some(0),
            ..Past::default()
        };
        let mut anew_ns = 0;
        if let Some((fixed, head)) = bytes[..len].split_first_chunk::<FIXED_BYTES>()
            && fixed[..4] == MAGIC
        {
            let (of, times) = fixed[4..].split_at(BOOT_BYTES);
            let (stored, anew) = times.split_at(8);
            let [stored, anew] = [stored, anew].map(|t| t.try_into().map_or(0, u64::from_be_bytes));
            past.believed_ns = (of != boot).then_some(stored.into());
            past.anew_ns = (anew > 0).then_some(anew.into());
            anew_ns = anew;
            if let Ok((Item::Entry(_), len)) = Item::read(head)
                && entry(head).is_ok()
            {
                let (head, mark) = head.split_at(len);
                past.current = Some(head.to_vec());
                past.has_changed = matches!(Item::read(mark), Ok((Item::Compare, _)));
            }
        }
        let journal = Journal {
            file,
            boot,
            stored_ns: 0,
            anew_ns,
            current: past.current.clone(),
        };
        Ok((journal, past))
    }

    /// Returns true if the next attempt needs none of the records.
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.anew_ns == 0
    }

    /// Records that the copy begins anew: nothing that was recorded is valid any longer.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        self.current = None;
        self.write(false)?;
        // Take the time from the clock that sets the times of written files.
        let now = self.file.metadata()?;
        let since = i128::from(now.ctime()) * 1_000_000_000 + i128::from(now.ctime_nsec());
        self.anew_ns = u64::try_from(since).unwrap_or(0).max(1);
        self.write(false)
    }

    /// Records that what existed before `now` is stored.
    pub(super) fn on_stored(&mut self, now: SystemTime) -> io::Result<()> {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.stored_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.current = None;
        self.write(false)
    }

    /// Records that a file is being written that is worth continuing.
    pub(super) fn begin(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let mut head = vec![0; HEAD_BYTES_MAX];
        let len = Item::Entry(*entry).emit(&mut head);
        head.truncate(len.map_err(io::Error::other)?);
        self.current = Some(head);
        self.write(false)
    }

    /// Records that the existing file under its path has changed while it was compared.
    pub(super) fn on_changed(&mut self) -> io::Result<()> {
        self.write(self.current.is_some())
    }

    /// Records that the file is complete, or gone.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.current.take() {
            Some(_) => self.write(false),
            None => Ok(()),
        }
    }

    fn write(&mut self, has_changed: bool) -> io::Result<()> {
        let mut bytes = vec![0; FIXED_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..4 + BOOT_BYTES].copy_from_slice(&self.boot);
        let times = [self.stored_ns, self.anew_ns].map(u64::to_be_bytes);
        bytes[4 + BOOT_BYTES..FIXED_BYTES].copy_from_slice(times.as_flattened());
        bytes.extend(self.current.iter().flatten());
        if has_changed {
            let mut mark = [0; HEAD_BYTES_MAX];
            let len = Item::Compare.emit(&mut mark).map_err(io::Error::other)?;
            bytes.extend(&mark[..len]);
        }
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(bytes.len() as u64)
    }
}

/// Parses the file entry in a head.
pub(super) fn entry(head: &[u8]) -> io::Result<Entry<'_>> {
    match Item::read(head) {
        Ok((Item::Entry(entry), _)) if entry.kind == EntryKind::File => Ok(entry),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns an id of the host's present boot. If the system has none, every attempt counts as one of the present boot.
fn boot() -> [u8; BOOT_BYTES] {
    let told = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digest = blake3::hash(&told);
    let (first, _) = digest.as_bytes().split_at(BOOT_BYTES);
    first.try_into().expect("a digest is longer")
}
