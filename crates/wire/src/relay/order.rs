//! The initiator of a transfer, and its purpose: the first node signs the order, and the nodes after it pass it on.
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
//! A later node sees only the part of the route below it. So each end has a mark of its own, which it finds among all
//! marks.

use super::{DIGEST_BYTES, HOPS_MAX, TRANSFER_BYTES};
use crate::bytes::{Reader, Writer};
use crate::certificate::{KEY_BYTES, MAX_CERTIFICATE_BYTES, SIGNATURE_BYTES};
use crate::{Full, Malformed};

/// The maximum length of an order: every node of the longest route is an end.
pub const ORDER_BYTES_MAX: usize =
    8 + KEY_BYTES + 1 + HOPS_MAX * DIGEST_BYTES + SIGNATURE_BYTES + MAX_CERTIFICATE_BYTES;
/// The maximum length of the signed text.
pub const ORDERED_BYTES_MAX: usize = TRANSFER_BYTES + 1 + 8 + KEY_BYTES + HOPS_MAX * DIGEST_BYTES;

/// The order that the first node has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<'a> {
    /// When it was signed, in seconds since 1970.
    pub unix_s: u64,
    /// The public half of a key for this transfer.
    pub key: [u8; KEY_BYTES],
    /// Marks of all ends: BLAKE3 digests of a node's address (32 bits), whether the data is discarded there (8 bits),
    /// and the path there.
    pub ends: &'a [[u8; DIGEST_BYTES]],
    /// The signature over [`Ordered::signed_part`].
    pub signature: [u8; SIGNATURE_BYTES],
    /// The certificate of the first node.
    pub certificate: &'a [u8],
}

impl<'a> Ordered<'a> {
    /// Reads an order that fills `bytes`.
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

    /// Writes the order. Returns its length.
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

    /// Returns what is signed: the transfer, its flags as [`super::Open::flags`] returns them, and everything except
    /// signature and certificate.
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
