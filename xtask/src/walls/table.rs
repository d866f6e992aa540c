//! The walls as data. A change here is a change of the architecture, and must be reviewed as one.

use Side::{Engine, Outer};
use Uses::{AllAbove, These};

/// The side of the sans-IO wall on which a crate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The crate has no socket, clock, thread, file, environment or global randomness.
    Engine,
    /// The crate makes the system calls.
    Outer,
}

/// The crates of the workspace on which a crate may depend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Uses {
    These(&'static [&'static str]),
    /// Everything in the rows above: arrows point down only.
    AllAbove,
}

/// How much `unsafe` a crate may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsafe {
    Forbidden,
    /// Denied at the root of the crate, allowed in these modules of `src/`.
    In(&'static [&'static str]),
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    uses: Uses,
    pub(crate) may_unsafe: Unsafe,
}

/// Every crate of the project, from the bottom of the architecture to the top.
pub(crate) const WALLS: &[Wall] = &[
    wall("base", Engine, These(&[])).with(Unsafe::In(&["pool", "slot"])),
    wall("wire", Engine, These(&["base"])),
    wall("graph", Engine, These(&["base"])),
    wall("congestion", Engine, These(&["base"])),
    wall("secure", Engine, These(&["base", "wire"])),
    wall(
        "overlay",
        Engine,
        These(&["base", "wire", "graph", "congestion", "secure"]),
    ),
    wall("scribe", Engine, These(&["base", "wire"])),
    wall("voice", Engine, These(&["base", "wire"])),
    wall("relay", Engine, These(&["base", "wire", "graph"])),
    // The simulator runs every engine.
    wall("sim", Engine, AllAbove),
    wall("net", Outer, These(&["base"])).with(Unsafe::Free),
    wall(
        "host",
        Outer,
        These(&[
            "base", "wire", "secure", "overlay", "scribe", "relay", "net",
        ]),
    ),
    // The encryption of datagrams of clients on other hosts is that of hops.
    wall("client", Outer, These(&["base", "wire", "secure", "net"])),
    // The C library has `unsafe` at its boundary, and in the few calls that keep a descriptor's number.
    wall("capi", Outer, These(&["base", "client"])).with(Unsafe::In(&["abi", "sys"])),
    wall(
        "gateway",
        Outer,
        These(&["base", "wire", "secure", "voice", "client", "net"]),
    ),
    wall("tools", Outer, AllAbove),
    wall("lab", Outer, AllAbove),
    wall("sinew", Outer, AllAbove),
    // The extension module of the Python package. PyO3's macros permit `unsafe` for the code that they generate.
    wall("python", Outer, AllAbove).with(Unsafe::In(&[])),
];

const fn wall(name: &'static str, side: Side, uses: Uses) -> Wall {
    Wall {
        name,
        side,
        uses,
        may_unsafe: Unsafe::Forbidden,
    }
}

impl Wall {
    const fn with(self, may_unsafe: Unsafe) -> Wall {
        Wall { may_unsafe, ..self }
    }

    pub(crate) fn of(name: &str) -> Option<&'static Wall> {
        WALLS.iter().find(|wall| wall.name == name)
    }

    /// Returns the crates that this one may name under `[dependencies]`.
    pub(crate) fn may_use(&self) -> Vec<&'static str> {
        match self.uses {
            These(names) => names.to_vec(),
            AllAbove => WALLS
                .iter()
                .map(|wall| wall.name)
                .take_while(|&name| name != self.name)
                .collect(),
        }
    }

    /// Returns the further crates that its tests may use: the simulator can run any engine.
    pub(crate) fn tests_may_use(&self) -> &'static [&'static str] {
        if self.side == Engine { &["sim"] } else { &[] }
    }
}

/// An external crate that an engine may use.
pub(crate) struct External {
    pub(crate) name: &'static str,
    /// The engines that may use it; empty for every engine.
    pub(crate) only: &'static [&'static str],
}

/// Each of them is pure in the way that the engines use it: it has no IO, no clock, and no entropy of its own.
pub(crate) const ENGINE_EXTERNALS: &[External] = &[
    external("blake3", &["relay"]), // without its readers of files and threads
    external("hashbrown", &["base"]), // without default features; base fixes the hasher
    external("chacha20", &["secure"]), // a seeded generator
    external("roxmltree", &["wire"]), // XML of routers, from bytes in memory
    external("multiversion", &["overlay"]), // its only IO is to ask which instructions the processor has
    external("serde", &[]),
    external("thiserror", &[]),
    external("zeroize", &["secure"]),
    external("ed25519-dalek", &["secure"]),
    external("ml-kem", &["secure"]), // without its `getrandom`
    external("ring", &["secure"]),   // AEAD only; its `SystemRandom` is banned by name
    external("curve25519-dalek", &["secure"]), // X25519: snow's own needs the ciphers that ring has already
    external("snow", &["secure"]),             // with a resolver whose entropy is injected
    external("hound", &["voice"]), // WAV over readers; opening by path is banned by name
    external("pesq", &["voice"]),
    external("rubato", &["voice"]),
];

const fn external(name: &'static str, only: &'static [&'static str]) -> External {
    External { name, only }
}

/// The further external crates that the tests of an engine may use.
pub(crate) const ENGINE_TEST_EXTERNALS: &[&str] = &["proptest", "serde_json"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_down_only() {
        for (at, wall) in WALLS.iter().enumerate() {
            for name in wall.may_use() {
                let place = WALLS.iter().position(|other| other.name == name);
                assert!(
                    place.is_some_and(|place| place < at),
                    "{} -> {name}",
                    wall.name
                );
            }
        }
    }

    #[test]
    fn no_engine_stands_on_an_outer_crate() {
        for wall in WALLS.iter().filter(|wall| wall.side == Engine) {
            for name in wall.may_use() {
                assert_eq!(
                    Wall::of(name).map(|other| other.side),
                    Some(Engine),
                    "{}",
                    wall.name
                );
            }
        }
    }

    #[test]
    fn external_crates_name_engines_that_exist() {
        for external in ENGINE_EXTERNALS {
            for name in external.only {
                let side = Wall::of(name).map(|wall| wall.side);
                assert_eq!(side, Some(Engine), "{}", external.name);
            }
        }
    }
}
