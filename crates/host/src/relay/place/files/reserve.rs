//! Reserves disk space for a long file before its content arrives.
//!
//! ```text
//!   0 ═══ written ═══ at ──── reserved ──── until ┄┄┄┄┄ size
//! ```
//! A file system that allocates each page as it is written takes a third more time. If a copy ends early, the reserved
//! space stays with its part, at most [`STEP_BYTES`]: the next attempt truncates the part to what it continues from.

use super::LARGE_BYTES;
use std::fs::File;
use std::io;

/// Number of bytes that are reserved at once.
const STEP_BYTES: u64 = 32 << 20;

/// The state of a file's reservation.
#[derive(Debug)]
pub(super) struct Reserve {
    until: u64,
    size: u64,
}

impl Reserve {
    /// Creates it for a file that will have this many bytes and no holes. A short file reserves nothing.
    pub(super) fn of(size: u64) -> Reserve {
        let size = if size >= LARGE_BYTES { size } else { 0 };
        Reserve { until: 0, size }
    }

    /// Creates it for a file with holes, which would be filled.
    pub(super) fn none() -> Reserve {
        Reserve { until: 0, size: 0 }
    }

    /// Reserves space before this many bytes are written at a position. If nothing can be reserved, they are written
    /// all the same.
    pub(super) fn before(&mut self, file: &File, at: u64, len: u64) {
        if at + len <= self.until || self.until >= self.size {
            return;
        }
        let from = self.until.max(at);
        let until = self.size.min(at + len.max(STEP_BYTES));
        let is_reserved = from < until && net::file::reserve(file, from, until - from);
        self.until = if is_reserved { until } else { self.size };
    }

    /// Stops reserving, because a hole follows, although the file was announced without holes.
    pub(super) fn give_back(&mut self, file: &File, written: u64) -> io::Result<()> {
        self.size = 0;
        match std::mem::take(&mut self.until) {
            0 => Ok(()),
            _ => file.set_len(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_directory;
    use std::fs;
    use std::io::Write;

    #[test]
    fn what_is_reserved_changes_no_length_and_goes_no_further_than_the_file() {
        let dir = test_directory("place-reserve");
        let mut file = File::create(dir.join("part")).unwrap();
        let size = STEP_BYTES + LARGE_BYTES;
        let mut reserve = Reserve::of(size);
        for (at, until) in [(0, STEP_BYTES), (STEP_BYTES, size), (size, size)] {
            reserve.before(&file, at, 1);
            // If reserving fails, it is not tried again.
            assert!([until, size].contains(&reserve.until));
            assert_eq!(file.metadata().unwrap().len(), at.min(1));
            if at == 0 {
                file.write_all(b"x").unwrap();
            }
        }
        for mut none in [Reserve::none(), Reserve::of(LARGE_BYTES - 1)] {
            none.before(&file, 0, 1);
            assert_eq!(none.until, 0);
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
