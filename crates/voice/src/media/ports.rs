//! A range of ports, leased in pairs or singly.
//!
//! RTP takes an even port and RTCP the odd one after it (RFC 3550 §11); multiplexed they take one of
//! either kind. The search goes round the range, so a port that was given back rests until all
//! others were used: packets that still come to it meet no new call.

use core::ops::RangeInclusive;

/// Words of 64 ports each that hold all there are.
const WORDS: usize = 65_536 / 64;

/// The even ports of a word.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// How many ports one side of a stream needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// An even one and the next: RTP and RTCP.
    Pair,
    /// Any one: RTP and RTCP multiplexed.
    Single,
}

/// Ports that somebody has. To be given back with [`Ports::release`]; dropped, they stay taken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is never given back"]
pub struct Lease {
    rtp: u16,
    need: Need,
}

impl Lease {
    /// The port of RTP.
    #[must_use]
    pub fn rtp(&self) -> u16 {
        self.rtp
    }

    /// The port of RTCP: the next, or the same.
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

/// Why there is no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PortError {
    /// All are taken.
    #[error("no {need:?} of media ports is left of {first}-{last}: refuse with 486 or widen it")]
    Exhausted {
        /// What was wanted.
        need: Need,
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
    /// A range that holds no pair, or port 0.
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
    /// A bit for each port there is, set while it is free.
    free: Box<[u64; WORDS]>,
    count: usize,
    first: u16,
    last: u16,
    /// The port after the one leased last.
    cursor: u16,
}

impl Ports {
    /// All ports of the range are free.
    ///
    /// # Errors
    /// When it holds no pair, or port 0.
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

    /// Takes ports. Looks at 1025 words at most.
    ///
    /// # Errors
    /// When none are left.
    pub fn lease(&mut self, need: Need) -> Result<Lease, PortError> {
        let start = usize::from(self.cursor / 64);
        let from_cursor = u64::MAX << (self.cursor % 64);
        // The cursor's word comes twice: from the cursor on first, and whole at the end.
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

    /// Gives ports back.
    pub fn release(&mut self, lease: Lease) {
        let word = &mut self.free[usize::from(lease.rtp / 64)];
        debug_assert_eq!(*word & lease.mask(), 0, "a lease is given back once");
        *word |= lease.mask();
        self.count += lease.mask().count_ones() as usize;
    }

    /// Whether the port is of the range, free or not.
    #[must_use]
    pub fn covers(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Ports that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.count
    }

    /// Where in a word what is needed could begin.
    fn fitting(&self, word: usize, need: Need) -> u64 {
        let free = self.free[word];
        match need {
            // A pair never crosses words: they begin at even ports.
            Need::Pair => free & free >> 1 & EVEN,
            // Choice: the half of a broken pair first, in this word, so that pairs last.
            Need::Single => {
                let pairs = free & free >> 1 & EVEN;
                let broken = free & !(pairs | pairs << 1);
                if broken == 0 { free } else { broken }
            }
        }
    }
}
