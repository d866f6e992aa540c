//! Writes to systemd's journal through its own socket: one datagram with fields for each entry.
//!
//! ```text
//!   MESSAGE=ams: link to 10.7.0.2 is down: silence\n  PRIORITY=4\n  SINEW_EVENT=link-down\n …    KEY=value
//!   MESSAGE\n<length, 8 bytes, little endian>two\nlines\n                                       where a value has several lines
//! ```
//! The format is that of <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>. Entries that the socket does not accept go to
//! standard error: an entry that is too long, or any entry if there is no journal, as in a container.

use super::fields::Fields;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The environment variable in which systemd gives the device and inode of the stream that it has connected to standard
/// error.
const VARIABLE: &str = "JOURNAL_STREAM";

/// Returns the journal's socket, if the journal reads standard error. Otherwise somebody else is to see the lines
/// there.
pub(super) fn of_standard_error() -> Option<&'static Path> {
    let told = std::fs::metadata("/proc/self/fd/2").ok()?;
    let stream = std::env::var(VARIABLE).ok()?;
    (stream == format!("{}:{}", told.dev(), told.ino())).then_some(Path::new(SOCKET))
}

/// A connection to the journal.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    /// Connects to the journal at `path`. Returns none if there is no journal.
    pub(super) fn at(path: &Path) -> Option<Journal> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(path).ok()?;
        // If the journal cannot keep up, the node must not wait: the line goes to standard error then.
        socket.set_nonblocking(true).ok()?;
        Some(Journal(socket))
    }

    /// Writes one entry.
    pub(super) fn write(
        &self,
        (node, priority): (&str, u8),
        text: &str,
        fields: &Fields,
    ) -> io::Result<()> {
        let mut entry = Vec::new();
        let mut append = |key: &str, value: &str| {
            entry.extend(key.as_bytes());
            if value.contains('\n') {
                entry.push(b'\n');
                entry.extend((value.len() as u64).to_le_bytes());
            } else {
                entry.push(b'=');
            }
            entry.extend(value.as_bytes());
            entry.push(b'\n');
        };
        append("MESSAGE", &format!("{node}: {text}"));
        append("PRIORITY", &priority.to_string());
        append("SYSLOG_IDENTIFIER", "sinew");
        append("SINEW_NODE", node);
        for (key, value) in fields.iter() {
            append(&format!("SINEW_{}", key.to_ascii_uppercase()), value);
        }
        self.0.send(&entry).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_fields_and_a_value_of_several_lines_its_length() {
        let dir = crate::files::test_directory("journal");
        let path = dir.join("socket");
        assert!(Journal::at(&path).is_none(), "nobody is there");
        let there = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        let heard = || {
            let mut buffer = [0; 1_024];
            let length = there.recv(&mut buffer).unwrap();
            buffer[..length].to_vec()
        };
        let fields = Fields::event("link-down").with("why", "silence");
        journal.write(("ams", 4), "link is down", &fields).unwrap();
        assert_eq!(
            String::from_utf8(heard()).unwrap(),
            "MESSAGE=ams: link is down\nPRIORITY=4\nSYSLOG_IDENTIFIER=sinew\nSINEW_NODE=ams\n\
             SINEW_EVENT=link-down\nSINEW_WHY=silence\n"
        );
        journal
            .write(("ams", 6), "a\nb", &Fields::default())
            .unwrap();
        let start = b"MESSAGE\n\x08\0\0\0\0\0\0\0ams: a\nb\nPRIORITY=6\n";
        assert!(heard().starts_with(start));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
