//! Appends messages to a control datagram.

use super::nack::{RANGE_BYTES, range};
use super::{Hello, MESSAGE_HEADER_BYTES, TailProbe, kind};
use crate::Full;
use crate::bytes::Writer;

/// Fills the plaintext of one control datagram. A message that does not fit is refused with
/// [`Full`] and leaves what is written untouched.
#[derive(Debug)]
pub struct Builder<'a> {
    writer: Writer<'a>,
}

impl<'a> Builder<'a> {
    /// A builder from the start of `plaintext`.
    pub const fn new(plaintext: &'a mut [u8]) -> Builder<'a> {
        Builder {
            writer: Writer::new(plaintext),
        }
    }

    /// Bytes written so far: the length of the plaintext.
    pub const fn len(&self) -> usize {
        self.writer.len()
    }

    /// Nothing is written.
    pub const fn is_empty(&self) -> bool {
        self.writer.is_empty()
    }

    /// How many bytes still fit.
    pub const fn room(&self) -> usize {
        self.writer.room()
    }

    /// Appends a [`Hello`].
    pub fn hello(&mut self, hello: &Hello) -> Result<(), Full> {
        self.message(kind::HELLO, &hello.to_bytes())
    }

    /// Appends a [`TailProbe`].
    pub fn tail_probe(&mut self, probe: TailProbe) -> Result<(), Full> {
        self.message(kind::TAIL_PROBE, &probe.to_bytes())
    }

    /// Appends a [`super::Nack`] of the lane numbers `missing`, in rising order, and returns how
    /// many of them it names: all, or as many from the front as there is room for. [`Full`] when
    /// not even the first fits.
    pub fn nack(&mut self, strike: u8, missing: &[u64]) -> Result<usize, Full> {
        if missing.is_empty() {
            return Ok(0);
        }
        let room = self.room().min(usize::from(u16::MAX));
        let ranges_max = room.saturating_sub(MESSAGE_HEADER_BYTES + 1) / RANGE_BYTES;
        if ranges_max == 0 {
            return Err(Full);
        }
        let at = self.open(kind::NACK)?;
        self.writer.u8(strike)?;
        let mut named = 0;
        for _ in 0..ranges_max {
            if named == missing.len() {
                break;
            }
            let (bytes, covered) = range(&missing[named..]);
            self.writer.put(&bytes)?;
            named += covered;
        }
        self.close(at);
        Ok(named)
    }

    /// Appends a message of any kind.
    pub fn message(&mut self, kind: u8, body: &[u8]) -> Result<(), Full> {
        let length = u16::try_from(body.len()).map_err(|_| Full)?;
        if self.room() < MESSAGE_HEADER_BYTES + body.len() {
            return Err(Full);
        }
        self.writer.u8(kind)?;
        self.writer.u16(length)?;
        self.writer.put(body)
    }

    /// Begins a message whose length is not known yet; returns where it begins.
    fn open(&mut self, kind: u8) -> Result<usize, Full> {
        let at = self.len();
        self.message(kind, &[])?;
        Ok(at)
    }

    /// Sets the length of the message that begins at `at` and ends here.
    fn close(&mut self, at: usize) {
        let written = self.writer.written_mut();
        let length = written.len() - at - MESSAGE_HEADER_BYTES;
        written[at + 1..at + 3].copy_from_slice(&(length as u16).to_be_bytes());
    }
}
