//! What is noted beside a copy while it runs, for the attempt after it: which file is being written,
//! and how much of what is there had been stored when it was looked at last.
//!
//! ```text
//!   "SNJ3" | the boot that wrote it, 16 bytes | stored until, 64 bits (ns since 1970)
//!          | begun anew at, 64 bits (the same), 0: it was not | a head, or nothing
//! ```
//! What is complete needs no note: it has its name, its size and its time from then on. Only where the
//! host has been started anew since, what was not stored by then is not believed. And where the copy has
//! begun anew, nothing is believed that was made before.

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
    has_current: bool,
}

/// What an earlier attempt has noted.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// What was changed later is not believed, in nanoseconds since 1970; none where all is.
    pub(super) believed_ns: Option<i128>,
    /// What was made no later is not believed, in nanoseconds since 1970: the copy has begun anew then.
    pub(super) anew_ns: Option<i128>,
    /// The head of the file that was being written.
    pub(super) current: Option<Vec<u8>>,
}

impl Journal {
    /// Reads what is there.
    pub(super) fn open(file: File) -> io::Result<(Journal, Past)> {
        let mut bytes = vec![0; FIXED_BYTES + HEAD_BYTES_MAX];
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
            past.current = entry(head).is_ok().then(|| head.to_vec());
        }
        let journal = Journal {
            file,
            boot,
            stored_ns: 0,
            anew_ns,
            has_current: past.current.is_some(),
        };
        Ok((journal, past))
    }

    /// The next attempt needs nothing that is noted.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_current && self.anew_ns == 0
    }

    /// The copy begins anew: nothing that was noted holds any more.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        self.write(None)?;
        // By the clock that what is written gets its time from.
        let now = self.file.metadata()?;
        let since = i128::from(now.ctime()) * 1_000_000_000 + i128::from(now.ctime_nsec());
        self.anew_ns = u64::try_from(since).unwrap_or(0).max(1);
        self.write(None)
    }

    /// What was there before `now` is stored.
    pub(super) fn on_stored(&mut self, now: SystemTime) -> io::Result<()> {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.stored_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.write(None)
    }

    /// A file is being written that is worth going on with.
    pub(super) fn begin(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.write(Some(entry))
    }

    /// It is whole, or gone.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.has_current {
            true => self.write(None),
            false => Ok(()),
        }
    }

    fn write(&mut self, current: Option<&Entry<'_>>) -> io::Result<()> {
        let mut bytes = vec![0; FIXED_BYTES + HEAD_BYTES_MAX];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..4 + BOOT_BYTES].copy_from_slice(&self.boot);
        let times = [self.stored_ns, self.anew_ns].map(u64::to_be_bytes);
        bytes[4 + BOOT_BYTES..FIXED_BYTES].copy_from_slice(times.as_flattened());
        let head = match current {
            Some(entry) => Item::Entry(*entry)
                .emit(&mut bytes[FIXED_BYTES..])
                .map_err(io::Error::other)?,
            None => 0,
        };
        self.has_current = current.is_some();
        bytes.truncate(FIXED_BYTES + head);
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(bytes.len() as u64)
    }
}

/// The file whose head these bytes are.
pub(super) fn entry(head: &[u8]) -> io::Result<Entry<'_>> {
    match Item::read(head) {
        Ok((Item::Entry(entry), _)) if entry.kind == EntryKind::File => Ok(entry),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Since when this host runs, as a name. Without one every attempt is taken for one of this run.
fn boot() -> [u8; BOOT_BYTES] {
    let told = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digest = blake3::hash(&told);
    let (first, _) = digest.as_bytes().split_at(BOOT_BYTES);
    first.try_into().expect("a digest is longer")
}
