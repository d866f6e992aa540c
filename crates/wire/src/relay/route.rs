//! The route of a transfer from one node on: a tree of nodes. Each node has an address, a number of connections that
//! lead to it, and its treatment of the data. A relay passes on the part below it.
//!
//! ```text
//! +---------------+-----------------------------------------------+
//! |  flags        |  node, 32 bits, ...                           |   flags: bit 0 an end: a sink,
//! +---------------+---------------+-------------------------------+          or the source of a
//! |  ... node     |  stripes      |  length  |  endpoint ...      |          pull; bit 1 discard; bit 2
//! +---------------+---------------+-------------------------------+          as many stripes as help
//! |  length of the path, 16 bits  |  path ...                     |
//! +-------------------------------+-------------------------------+
//! |  length of what is below      |  hops, back to back ...       |
//! +-------------------------------+-------------------------------+
//! ```

use super::{DEPTH_MAX, HOPS_MAX, STRIPES_MAX, read_long, read_text, write_long, write_text};
use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::NodeAddr;

const FLAG_END: u8 = 1;
const FLAG_DISCARD: u8 = 2;
const FLAG_ADAPTS: u8 = 4;
/// The position of the number of stripes.
const STRIPES_AT: usize = 5;

/// The separator between the path of a sink and the name of the copied item at its source: if the path is a directory,
/// the item gets that name in it. At a source, the separator comes before each pattern of what is not copied.
pub const NAME_SEPARATOR: u8 = 0;

/// A node of a route, and the part below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop<'a> {
    /// The node.
    pub node: NodeAddr,
    /// Number of connections that lead to the node.
    pub stripes: u8,
    /// True if only as many of these connections are used as help.
    pub adapts: bool,
    /// The address at which the node is reached by TCP; empty if the node before it knows the address, because it is a
    /// neighbor.
    pub endpoint: &'a str,
    /// The path, if the data ends here (or begins here, when it is pulled).
    pub path: Option<&'a [u8]>,
    /// True if the data is discarded after it has been checked.
    pub discard: bool,
    below: &'a [u8],
    bytes: &'a [u8],
}

/// The fields of a hop for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRepr<'a> {
    /// The node.
    pub node: NodeAddr,
    /// Number of connections that lead to the node.
    pub stripes: u8,
    /// True if only as many of these connections are used as help.
    pub adapts: bool,
    /// The address at which the node is reached; empty for a neighbor.
    pub endpoint: &'a str,
    /// The path of an end.
    pub path: Option<&'a [u8]>,
    /// True to discard the data.
    pub discard: bool,
    /// The hops below it, as [`HopRepr::emit`] has written them.
    pub below: &'a [u8],
}

impl<'a> Hop<'a> {
    /// Reads a route that fills `bytes`, down to its last node.
    pub fn parse(bytes: &'a [u8]) -> Result<Hop<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        let mut left = HOPS_MAX;
        let hop = Hop::read(&mut r, DEPTH_MAX, &mut left)?;
        r.finish()?;
        Ok(hop)
    }

    fn read(r: &mut Reader<'a>, depth: usize, left: &mut usize) -> Result<Hop<'a>, Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::Count)?;
        *left = left.checked_sub(1).ok_or(Malformed::Count)?;
        let hop = Hop::read_one(r)?;
        let mut below = Reader::new(hop.below);
        while !below.is_empty() {
            Hop::read(&mut below, depth, left)?;
        }
        Ok(hop)
    }

    /// Reads one hop, and the bytes below it.
    fn read_one(r: &mut Reader<'a>) -> Result<Hop<'a>, Malformed> {
        let start = r.rest();
        let (flags, node, stripes) = (r.u8()?, NodeAddr(r.u32()?), r.u8()?);
        let endpoint = read_text(r)?;
        let path = read_long(r)?;
        let below = read_long(r)?;
        let is_end = flags & FLAG_END != 0;
        let discard = flags & FLAG_DISCARD != 0;
        if flags & !(FLAG_END | FLAG_DISCARD | FLAG_ADAPTS) != 0
            || (discard && !is_end)
            || (!is_end && !path.is_empty())
            || !node.is_node()
            || !(1..=STRIPES_MAX).contains(&stripes)
        {
            return Err(Malformed::Value);
        }
        // A node that neither keeps data nor passes it on must not be on the route.
        if !is_end && below.is_empty() {
            return Err(Malformed::Value);
        }
        let used = start.len() - r.rest().len();
        Ok(Hop {
            node,
            stripes,
            adapts: flags & FLAG_ADAPTS != 0,
            endpoint,
            path: is_end.then_some(path),
            discard,
            below,
            bytes: &start[..used],
        })
    }

    /// Returns the hops that this one leads to.
    pub fn below(&self) -> Hops<'a> {
        Hops {
            rest: Reader::new(self.below),
        }
    }

    /// Returns the bytes of this hop and of all hops below it.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the same hop with this number of connections that lead to it, written into `bytes`.
    pub fn with_stripes<'b>(
        &self,
        stripes: u8,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Hop<'b>, Malformed> {
        bytes.clear();
        bytes.extend_from_slice(self.bytes);
        if let Some(byte) = bytes.get_mut(STRIPES_AT) {
            *byte = stripes;
        }
        Hop::parse(bytes)
    }

    /// Returns how many nodes have an end here and below.
    pub fn ends(&self) -> usize {
        usize::from(self.path.is_some()) + self.below().map(|hop| hop.ends()).sum::<usize>()
    }
}

/// Hops at the same level of a tree.
#[derive(Clone, Debug)]
pub struct Hops<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for Hops<'a> {
    type Item = Hop<'a>;

    fn next(&mut self) -> Option<Hop<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // `Hop::parse` has already checked all hops.
        Hop::read_one(&mut self.rest).ok()
    }
}

impl HopRepr<'_> {
    /// Appends the hop.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let end = if self.path.is_some() { FLAG_END } else { 0 };
        let discard = if self.discard { FLAG_DISCARD } else { 0 };
        let adapts = if self.adapts { FLAG_ADAPTS } else { 0 };
        w.u8(end | discard | adapts)?;
        w.u32(self.node.0)?;
        w.u8(self.stripes)?;
        write_text(w, self.endpoint)?;
        write_long(w, self.path.unwrap_or(&[]))?;
        write_long(w, self.below)
    }
}
