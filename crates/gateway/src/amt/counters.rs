//! What a relay counts: its work, and what it refused, by reason.

/// Why something was refused. The order is that of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// Not an AMT message, or one that only relays send.
    Malformed,
    /// A MAC that was not given to this address.
    Mac,
    /// More questions than are answered.
    Flood,
    /// The maximum number of receivers has been reached.
    Full,
    /// The maximum number of receivers of one host has been reached.
    AddressFull,
    /// Incorrect IGMP or MLD.
    Igmp,
    /// A group that must not be relayed, or a join that names no source where it must.
    Group,
    /// More groups or sources than one receiver may have.
    TooMany,
    /// An incorrect packet of the overlay.
    Forged,
    /// A packet of the overlay that no receiver wants.
    NoMember,
    /// A datagram that this host could not send: its network had no room for several milliseconds, or refused it.
    NotSent,
}

impl Refused {
    /// All reasons, in the order of their counters.
    pub const ALL: [Refused; 11] = [
        Refused::Malformed,
        Refused::Mac,
        Refused::Flood,
        Refused::Full,
        Refused::AddressFull,
        Refused::Igmp,
        Refused::Group,
        Refused::TooMany,
        Refused::Forged,
        Refused::NoMember,
        Refused::NotSent,
    ];

    /// Returns the counter's name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Refused::Malformed => "malformed",
            Refused::Mac => "mac",
            Refused::Flood => "flood",
            Refused::Full => "full",
            Refused::AddressFull => "address_full",
            Refused::Igmp => "igmp",
            Refused::Group => "group",
            Refused::TooMany => "too_many",
            Refused::Forged => "forged",
            Refused::NoMember => "no_member",
            Refused::NotSent => "not_sent",
        }
    }
}

/// Counters of a relay's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of packets that came from the overlay.
    pub packets: u64,
    /// Number of copies that were sent to receivers.
    pub sent: u64,
    /// Number of bytes of these copies, with the header of AMT.
    pub sent_bytes: u64,
    /// Numbers of refusals, by reason.
    pub refused: [u64; Refused::ALL.len()],
}

impl Counters {
    pub(super) fn refuse(&mut self, why: Refused) {
        self.refused[why as usize] += 1;
    }
}
