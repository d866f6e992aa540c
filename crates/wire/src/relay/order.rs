//! Who has begun a transfer, and what for: the first node signs it, and those behind pass it on.
//!
//! ```text
//! +---------------------------------------------------------------+
//! |  seconds since 1970, 64 bits                                  |
//! +---------------------------------------------------------------+
//! |  key of X25519 for this transfer, 32 bytes                    |
//! +---------------+-----------------------------------------------+
//! |  count        |  marks of the ends, 32 bytes each ...         |
//! +---------------+-----------------------------------------------+
//! |  signature, 64 bytes                                          |
//! +---------------------------------------------------------------+
//! |  certificate of the first node (the rest)                     |
//! +---------------------------------------------------------------+
//! ```
//! A node behind sees of the route only what is below it. So each end has a mark of its own, and finds
//! it among all.

use super::{DIGEST_BYTES, HOPS_MAX, TRANSFER_BYTES};
use crate::bytes::{Reader, Writer};
use crate::certificate::{KEY_BYTES, MAX_CERTIFICATE_BYTES, SIGNATURE_BYTES};
use crate::{Full, Malformed};

/// The longest: every node of the longest route is an end.
pub const ORDER_BYTES_MAX: usize =
    8 + KEY_BYTES + 1 + HOPS_MAX * DIGEST_BYTES + SIGNATURE_BYTES + MAX_CERTIFICATE_BYTES;
/// The longest text that is signed.
pub const ORDERED_BYTES_MAX: usize = TRANSFER_BYTES + 1 + 8 + KEY_BYTES + HOPS_MAX * DIGEST_BYTES;

/// What the first node has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<'a> {
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// The public half of a key for this transfer.
    pub key: [u8; KEY_BYTES],
    /// Marks of all ends: BLAKE3 digests of a node's address (32 bits), whether the data is discarded there (8 bits),
    /// and the path there.
    pub ends: &'a [[u8; DIGEST_BYTES]],
    /// Over [`Ordered::signed_part`].
    pub signature: [u8; SIGNATURE_BYTES],
    /// Of the first node.
    pub certificate: &'a [u8],
}

impl<'a> Ordered<'a> {
    /// Reads one that is all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Ordered<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        let (unix_s, key) = (r.u64()?, r.array()?);
        let count = usize::from(r.u8()?);
        if !(1..=HOPS_MAX).contains(&count) {
            return Err(Malformed::Count);
        }
        let ends = r.take(count * DIGEST_BYTES)?;
        let signature = r.array()?;
        let certificate = r.rest();
        if certificate.len() > MAX_CERTIFICATE_BYTES {
            return Err(Malformed::Length);
        }
        Ok(Ordered {
            unix_s,
            key,
            ends: ends.as_chunks().0,
            signature,
            certificate,
        })
    }

    /// Writes it, and says how long it is.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        w.u64(self.unix_s)?;
        w.put(&self.key)?;
        w.u8(u8::try_from(self.ends.len()).map_err(|_| Full)?)?;
        w.put(self.ends.as_flattened())?;
        w.put(&self.signature)?;
        w.put(self.certificate)?;
        Ok(w.len())
    }

    /// What is signed: the transfer, its flags as [`super::Open::flags`] gives them, and all but signature and
    /// certificate.
    pub fn signed_part(
        &self,
        (transfer, flags): (&[u8; TRANSFER_BYTES], u16),
        buffer: &mut [u8],
    ) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        w.put(transfer)?;
        w.u16(flags)?;
        w.u64(self.unix_s)?;
        w.put(&self.key)?;
        w.put(self.ends.as_flattened())?;
        Ok(w.len())
    }
}
