//! The addresses in a message, after its fields.

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::NodeAddr;
use core::fmt;

/// Addresses in a message, to be read or written.
#[derive(Clone, Copy)]
pub struct Addresses<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Wire(&'a [[u8; 4]]),
    Plain(&'a [NodeAddr]),
}

impl<'a> Addresses<'a> {
    /// Creates a list of these addresses.
    pub const fn new(addresses: &'a [NodeAddr]) -> Addresses<'a> {
        Addresses(Source::Plain(addresses))
    }
    /// Returns the number of addresses.
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Wire(bytes) => bytes.len(),
            Source::Plain(addresses) => addresses.len(),
        }
    }
    /// Returns true if there is no address.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the addresses one after the other.
    pub fn iter(&self) -> impl Iterator<Item = NodeAddr> + use<'a> {
        let (wire, plain) = match self.0 {
            Source::Wire(bytes) => (bytes, &[][..]),
            Source::Plain(addresses) => (&[][..], addresses),
        };
        let wire = wire.iter().map(|b| NodeAddr(u32::from_be_bytes(*b)));
        wire.chain(plain.iter().copied())
    }

    pub(super) fn read(r: Reader<'a>, least: usize) -> Result<Addresses<'a>, Malformed> {
        let (whole, rest) = r.rest().as_chunks();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        if whole.len() < least {
            return Err(Malformed::Short);
        }
        Ok(Addresses(Source::Wire(whole)))
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        self.iter().try_for_each(|address| w.u32(address.0))
    }
}

impl PartialEq for Addresses<'_> {
    fn eq(&self, other: &Addresses<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}
impl Eq for Addresses<'_> {}
impl fmt::Debug for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
