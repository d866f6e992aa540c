//! Reading and writing numbers in network byte order, with bounds checks, without allocation.
//!
//! [`Reader`] takes from the front of a slice and returns [`Malformed::Short`] at its end. [`Writer`] appends to a
//! slice and returns [`Full`] at its end; what is already written stays unchanged.

use crate::{Full, Malformed};

/// A reader that takes fields from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }
    /// Returns the bytes that have not been taken yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// Returns true if no bytes are left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// Returns [`Malformed::Length`] if bytes are left over.
    pub const fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Length)
        }
    }
    /// Takes `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(front)
    }
    /// Takes an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*front)
    }
    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }
    /// Takes two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }
    /// Takes three bytes.
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        self.array()
            .map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }
    /// Takes four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }
    /// Takes eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }
}

/// A writer that appends fields to a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer from the start of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, len: 0 }
    }
    /// Returns the number of bytes that are written.
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Returns true if nothing is written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns how many bytes still fit.
    pub const fn room(&self) -> usize {
        self.buffer.len() - self.len
    }
    /// Returns the bytes that are written.
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
    /// Returns the bytes that are written, to change a field in place.
    pub fn written_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
    /// Appends bytes, all or none.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.len.checked_add(bytes.len()).ok_or(Full)?;
        self.buffer
            .get_mut(self.len..end)
            .ok_or(Full)?
            .copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> Result<(), Full> {
        self.put(&[value])
    }
    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }
    /// Appends the low three bytes of `value`.
    pub fn u24(&mut self, value: u32) -> Result<(), Full> {
        self.put(&value.to_be_bytes()[1..])
    }
    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }
    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: [u8; 20] = [
        1, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
        0x10, 0x11, 0x12, 0xff, 0xfe,
    ];

    fn read(bytes: &[u8]) -> Result<(), Malformed> {
        let mut r = Reader::new(bytes);
        assert_eq!(r.u8()?, 1);
        assert_eq!(r.u16()?, 0x0203);
        assert_eq!(r.u24()?, 0x040506);
        assert_eq!(r.u32()?, 0x0708_090a);
        assert_eq!(r.u64()?, 0x0b0c_0d0e_0f10_1112);
        assert_eq!(r.take(2)?, [0xff, 0xfe]);
        r.finish()
    }

    #[test]
    fn fields_are_taken_in_network_order_and_truncation_is_short() {
        assert_eq!(read(&VECTOR), Ok(()));
        for cut in 0..VECTOR.len() {
            assert_eq!(read(&VECTOR[..cut]), Err(Malformed::Short), "cut at {cut}");
        }
        let longer = [VECTOR.as_slice(), &[0]].concat();
        assert_eq!(read(&longer), Err(Malformed::Length));
    }

    fn write(buffer: &mut [u8]) -> Result<(), Full> {
        let mut w = Writer::new(buffer);
        w.u8(1)?;
        w.u16(0x0203)?;
        w.u24(0xaa04_0506)?;
        w.u32(0x0708_090a)?;
        w.u64(0x0b0c_0d0e_0f10_1112)?;
        w.put(&[0xff, 0xfe])
    }

    #[test]
    fn fields_are_written_in_network_order_and_a_small_buffer_is_full() {
        let mut buffer = [0xa5; VECTOR.len()];
        assert_eq!(write(&mut buffer), Ok(()));
        assert_eq!(buffer, VECTOR);
        for room in 0..VECTOR.len() {
            assert_eq!(write(&mut buffer[..room]), Err(Full), "room of {room}");
        }
    }
}
