//! The way of a transfer from one node on: a tree of nodes, each with how it is reached, how many
//! connections lead to it, and what it does with the data. A relay passes on what is below it.
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
/// Where the number of stripes stands.
const STRIPES_AT: usize = 5;

/// What stands between the path of a sink and the name that what is copied has at its source: if the
/// path is a directory, it gets that name in there. At a source it stands before each pattern of what is not copied.
pub const NAME_SEPARATOR: u8 = 0;

/// A node of a route, and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop<'a> {
    /// The node.
    pub node: NodeAddr,
    /// How many connections lead to it.
    pub stripes: u8,
    /// Of these as many are used as help.
    pub adapts: bool,
    /// Where it is reached by TCP; empty if the node before it knows, because it is a neighbour.
    pub endpoint: &'a str,
    /// The data ends here (or begins, when it is pulled): the path.
    pub path: Option<&'a [u8]>,
    /// What comes is thrown away, after it has been checked.
    pub discard: bool,
    below: &'a [u8],
    bytes: &'a [u8],
}

/// The fields of a hop that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRepr<'a> {
    /// The node.
    pub node: NodeAddr,
    /// How many connections lead to it.
    pub stripes: u8,
    /// Of these as many are used as help.
    pub adapts: bool,
    /// Where it is reached; empty for a neighbour.
    pub endpoint: &'a str,
    /// The path of an end.
    pub path: Option<&'a [u8]>,
    /// Throw away what comes.
    pub discard: bool,
    /// Hops below it, as [`HopRepr::emit`] has written them.
    pub below: &'a [u8],
}

impl<'a> Hop<'a> {
    /// Reads a route that is all of `bytes`, down to its last node.
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

    /// One hop, and what is below it as it stands.
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
        // Who neither keeps data nor passes it on has no part in it.
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

    /// The hops that this one leads to.
    pub fn below(&self) -> Hops<'a> {
        Hops {
            rest: Reader::new(self.below),
        }
    }

    /// This hop and all below it, as they stand.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The same hop with so many connections that lead to it, written into `bytes`.
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

    /// How many nodes have an end here and below.
    pub fn ends(&self) -> usize {
        usize::from(self.path.is_some()) + self.below().map(|hop| hop.ends()).sum::<usize>()
    }
}

/// Hops at the same place of a tree.
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
        // `Hop::parse` has read them all.
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
