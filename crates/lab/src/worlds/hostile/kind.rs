//! What a fault comes from, as far as the deeds of the member tell: so that open faults of the engine, which many
//! worlds meet, hide no other.

use super::scene::Scene;
use super::treason::Deed;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A black hole is still in use: no node compares what it sends with what arrives at the other end.
    BlackHole,
    /// A member that tells of other links than those by which it routes draws packets into circles: the same
    /// comparison would find it.
    Lies,
    /// A group lost packets: relays know packets of groups by their numbers alone.
    GroupLoss,
    /// Something came to a member of a group that its source did not send so: groups have no keys.
    GroupPayload,
    /// Anything else, which nothing excuses.
    Fault,
}

impl Kind {
    /// A short stable word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Kind::BlackHole => "black-hole",
            Kind::Lies => "lies",
            Kind::GroupLoss => "group-loss",
            Kind::GroupPayload => "group-payload",
            Kind::Fault => "fault",
        }
    }
}

impl Scene {
    /// What the loss of a flow comes from.
    pub(super) fn kind_of_loss(&self, of_group: bool) -> Kind {
        let swallows = |deed: &Deed| matches!(deed, Deed::Swallow { .. } | Deed::Corrupt { .. });
        let lies = |deed: &Deed| {
            matches!(
                deed,
                Deed::LieAboutLinks | Deed::InventLinks | Deed::LieInHellos
            )
        };
        let forges = |deed: &Deed| matches!(deed, Deed::Forge { .. });
        match () {
            () if of_group && self.treason.has(forges) => Kind::GroupLoss,
            () if self.treason.has(swallows) => Kind::BlackHole,
            () if self.treason.has(lies) => Kind::Lies,
            () => Kind::Fault,
        }
    }
}
