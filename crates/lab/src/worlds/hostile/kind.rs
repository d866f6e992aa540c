//! What a fault comes from, as far as the deeds of the member tell: so that open faults of the engine, which many
//! worlds meet, hide no other.

use super::scene::Scene;
use super::treason::Deed;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A black hole is still in use: by a group, whose receivers nobody asks what has arrived, or because the source
    /// had no other path to compare with.
    BlackHole,
    /// A member that tells of other links than those by which it routes draws packets into circles: the same
    /// comparison would find it.
    Lies,
    /// Anything else, which nothing excuses.
    Fault,
}

impl Kind {
    /// A short stable word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Kind::BlackHole => "black-hole",
            Kind::Lies => "lies",
            Kind::Fault => "fault",
        }
    }
}

impl Scene {
    /// What the loss of a flow comes from.
    pub(super) fn kind_of_loss(&self) -> Kind {
        let swallows = |deed: &Deed| matches!(deed, Deed::Swallow { .. } | Deed::Corrupt { .. });
        let lies = |deed: &Deed| {
            matches!(
                deed,
                Deed::LieAboutLinks | Deed::InventLinks | Deed::LieInHellos
            )
        };
        match () {
            () if self.treason.has(swallows) => Kind::BlackHole,
            () if self.treason.has(lies) => Kind::Lies,
            () => Kind::Fault,
        }
    }
}
