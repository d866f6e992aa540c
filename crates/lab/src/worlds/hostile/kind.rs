//! The cause of a fault, as far as the member's deeds determine it, so that open faults of the engine, which affect
//! many worlds, do not hide others.

use super::scene::Scene;
use super::treason::Deed;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A black hole is still in use: by a group, because the sources do not ask its receivers what has arrived, or
    /// because the source had no other path for comparison.
    BlackHole,
    /// A member that announces other links than those by which it routes attracts packets into loops: the same
    /// comparison would detect it.
    Lies,
    /// Any other cause, which has no excuse.
    Fault,
}

impl Kind {
    /// Returns a short stable word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Kind::BlackHole => "black-hole",
            Kind::Lies => "lies",
            Kind::Fault => "fault",
        }
    }
}

impl Scene {
    /// Returns the cause of a flow's loss.
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
