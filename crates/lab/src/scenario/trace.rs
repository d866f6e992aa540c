//! The file to which a simulation's packets are written: pcap by its name, JSON lines otherwise.

use sim::trace::{Packet, json_line, pcap};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

/// A trace that is written to a file through a buffer; [`TraceFile::finish`] returns whether everything was written.
#[derive(Debug, Clone)]
pub struct TraceFile(Rc<RefCell<Writer>>);

#[derive(Debug)]
struct Writer {
    file: BufWriter<File>,
    is_pcap: bool,
    packets: u64,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
    line: String,
    record: Vec<u8>,
}

impl TraceFile {
    /// Creates a file: pcap for tcpdump and Wireshark if the name ends in `.pcap`, else a JSON object per line.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(path: &Path) -> io::Result<TraceFile> {
        let mut file = BufWriter::new(File::create(path)?);
        let is_pcap = path.extension().is_some_and(|ending| ending == "pcap");
        if is_pcap {
            file.write_all(&pcap::header())?;
        }
        Ok(TraceFile(Rc::new(RefCell::new(Writer {
            file,
            is_pcap,
            packets: 0,
            failed: None,
            line: String::new(),
            record: Vec::new(),
        }))))
    }

    /// Returns the sink for [`super::Simulation::trace`].
    #[must_use]
    pub fn sink(&self) -> impl sim::Trace + 'static {
        let writer = self.0.clone();
        move |packet: &Packet<'_>| writer.borrow_mut().write(packet)
    }

    /// Ends the file, and returns how many lines or records it has.
    ///
    /// # Errors
    /// The first error: the file is then incomplete.
    pub fn finish(self) -> io::Result<u64> {
        let mut writer = self.0.borrow_mut();
        match writer.failed.take() {
            Some(error) => Err(error),
            None => writer.file.flush().map(|()| writer.packets),
        }
    }
}

impl Writer {
    fn write(&mut self, packet: &Packet<'_>) {
        if self.failed.is_some() {
            return;
        }
        let bytes = if self.is_pcap {
            self.record.clear();
            pcap::record(packet, &mut self.record);
            self.record.as_slice()
        } else {
            self.line.clear();
            json_line(packet, &mut self.line);
            self.line.as_bytes()
        };
        self.packets += u64::from(!bytes.is_empty());
        self.failed = self.file.write_all(bytes).err();
    }
}
