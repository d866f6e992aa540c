//! Reads files into buffers that were not cleared first, and reserves space for what will be written.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Appends at most `most` bytes to `into`, until that many are read or the file ends. Returns how many.
///
/// One system call reads everything that the page cache has of a file, while the standard library reads eight kilobytes
/// first, and then twice as many each time.
///
/// # Errors
/// Returns the kernel's error. Bytes that were read before are kept.
pub fn append(file: impl AsFd, most: u64, into: &mut Vec<u8>) -> io::Result<usize> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let begin = into.len();
    into.try_reserve(most)?;
    while into.len() - begin < most {
        let left = most - (into.len() - begin);
        let room = &mut into.spare_capacity_mut()[..left];
        // SAFETY: "read() attempts to read up to count bytes from file descriptor fd into the buffer starting at
        // buf": the kernel only writes there, and no more than the room that is borrowed meanwhile.
        let result = unsafe {
            libc::read(
                file.as_fd().as_raw_fd(),
                room.as_mut_ptr().cast(),
                room.len(),
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        let read = result.cast_unsigned();
        if read == 0 {
            break;
        }
        // SAFETY: "On success, the number of bytes read is returned": this many behind its length are written now,
        // and they are within what was reserved.
        unsafe { into.set_len(into.len() + read) };
    }
    Ok(into.len() - begin)
}

/// Reserves disk space for this many bytes of a file from an offset on, without changing its length. Returns false if
/// nothing was reserved.
///
/// Choice: only on ext4, which otherwise allocates page by page. Other file systems need no help, store compressed or
/// shared data elsewhere, or use memory.
pub fn reserve(file: impl AsFd, offset: u64, len: u64) -> bool {
    let fd = file.as_fd().as_raw_fd();
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
        return false;
    };
    // SAFETY: all zero is a valid `statfs`, which the call fills.
    let mut told: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while it is borrowed, and `told` lives as long as the call.
    if unsafe { libc::fstatfs(fd, &raw mut told) } != 0
        || i128::from(told.f_type) != i128::from(libc::EXT4_SUPER_MAGIC)
    {
        return false;
    }
    // SAFETY: the descriptor is open while it is borrowed; the call takes no memory of this process.
    unsafe { libc::fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, offset, len) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_there_is_read_behind_what_was_there() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"one two").unwrap();
        let mut into = b"zero ".to_vec();
        assert_eq!(append(&far, 3, &mut into).unwrap(), 3);
        assert_eq!(into, b"zero one");
        assert_eq!(append(&far, 0, &mut into).unwrap(), 0);
        // It reads to the end, which comes later.
        let later = std::thread::spawn(move || near.write_all(b" three"));
        assert_eq!(append(&far, 1_000, &mut into).unwrap(), 10);
        later.join().unwrap().unwrap();
        assert_eq!(into, b"zero one two three");
        far.set_nonblocking(true).unwrap();
        assert_eq!(append(&far, 1_000, &mut into).unwrap(), 0, "it has ended");
    }
}
