//! The cause of a fault, as far as the member's deeds determine it, so that a cause that affects many worlds does not
//! hide others.

use super::scene::Scene;
use super::treason::Deed;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A flow still uses a path through a black hole.
    BlackHole,
    /// A member announces other links than those by which it routes, and attracts packets into loops.
    Lies,
    /// Any other cause.
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
