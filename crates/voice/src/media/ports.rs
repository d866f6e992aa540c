//! A range of ports that are leased in pairs or singly.
//!
//! RTP uses an even port and RTCP the odd one after it (RFC 3550 §11); multiplexed, they use one port, even or odd. The
//! search goes round the range, so a port that was released rests until all others were used: packets that still arrive
//! at it do not reach a new call.

use core::ops::RangeInclusive;

/// Number of words of 64 ports each that cover all ports.
const WORDS: usize = 65_536 / 64;

/// The even ports of a word.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Number of ports that one side of a stream needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// An even port and the next one: for RTP and RTCP.
    Pair,
    /// Any one port: for multiplexed RTP and RTCP.
    Single,
}

/// Leased ports. Release them with [`Ports::release`]; if the lease is dropped, they stay taken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is never given back"]
pub struct Lease {
    rtp: u16,
    need: Need,
}

impl Lease {
    /// Returns the port of RTP.
    #[must_use]
    pub fn rtp(&self) -> u16 {
        self.rtp
    }

    /// Returns the port of RTCP: the next one, or the same.
    #[must_use]
    pub fn rtcp(&self) -> u16 {
        self.rtp + u16::from(self.need == Need::Pair)
    }

    fn mask(&self) -> u64 {
        let ports = match self.need {
            Need::Pair => 0b11,
            Need::Single => 1,
        };
        ports << (self.rtp % 64)
    }
}

/// Why no port is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PortError {
    /// All ports are taken.
    #[error("no {need:?} of media ports is left of {first}-{last}: refuse with 486 or widen it")]
    Exhausted {
        /// The ports that were needed.
        need: Need,
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
    /// The range holds no pair, or contains port 0.
    #[error(
        "ports {first}-{last} hold no pair of an even port and the next: give at least 2 from 1"
    )]
    Range {
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
}

/// The ports of a range.
#[derive(Debug)]
pub struct Ports {
    /// One bit for each port, set while the port is free.
    free: Box<[u64; WORDS]>,
    count: usize,
    first: u16,
    last: u16,
    /// The port after the last leased one.
    cursor: u16,
}

impl Ports {
    /// Creates a range of which all ports are free.
    ///
    /// # Errors
    /// Fails if the range holds no pair, or contains port 0.
    pub fn new(range: RangeInclusive<u16>) -> Result<Self, PortError> {
        let (first, last) = (*range.start(), *range.end());
        let even = u32::from(first) + u32::from(first % 2);
        if first == 0 || even + 1 > u32::from(last) {
            return Err(PortError::Range { first, last });
        }
        let mut free = Box::new([0; WORDS]);
        for port in range {
            free[usize::from(port / 64)] |= 1 << (port % 64);
        }
        Ok(Self {
            free,
            count: usize::from(last - first) + 1,
            first,
            last,
            cursor: first,
        })
    }

    /// Leases ports. It examines at most 1025 words.
    ///
    /// # Errors
    /// Fails if no ports are left.
    pub fn lease(&mut self, need: Need) -> Result<Lease, PortError> {
        let start = usize::from(self.cursor / 64);
        let from_cursor = u64::MAX << (self.cursor % 64);
        // The cursor's word comes twice: first from the cursor on, and whole at the end.
        let rtp = (0..=WORDS).find_map(|step| {
            let word = (start + step) % WORDS;
            let allowed = if step == 0 { from_cursor } else { u64::MAX };
            let fitting = self.fitting(word, need) & allowed;
            (fitting != 0).then(|| (word * 64) as u16 + fitting.trailing_zeros() as u16)
        });
        let Some(rtp) = rtp else {
            let (first, last) = (self.first, self.last);
            return Err(PortError::Exhausted { need, first, last });
        };
        let lease = Lease { rtp, need };
        self.free[usize::from(rtp / 64)] &= !lease.mask();
        self.count -= lease.mask().count_ones() as usize;
        self.cursor = lease.rtcp().wrapping_add(1);
        Ok(lease)
    }

    /// Releases ports.
    pub fn release(&mut self, lease: Lease) {
        let word = &mut self.free[usize::from(lease.rtp / 64)];
        debug_assert_eq!(*word & lease.mask(), 0, "a lease is given back once");
        *word |= lease.mask();
        self.count += lease.mask().count_ones() as usize;
    }

    /// Returns whether the port belongs to the range, free or not.
    #[must_use]
    pub fn covers(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns the number of free ports.
    #[must_use]
    pub fn free(&self) -> usize {
        self.count
    }

    /// Returns the positions in a word at which the needed ports could begin.
    fn fitting(&self, word: usize, need: Need) -> u64 {
        let free = self.free[word];
        match need {
            // A pair never crosses words, because it begins at an even port.
            Need::Pair => free & free >> 1 & EVEN,
            // Choice: within this word, use the remaining half of a broken pair first, so that pairs last longer.
            Need::Single => {
                let pairs = free & free >> 1 & EVEN;
                let broken = free & !(pairs | pairs << 1);
                if broken == 0 { free } else { broken }
            }
        }
    }
}
