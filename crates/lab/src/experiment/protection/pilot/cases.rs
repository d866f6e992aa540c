//! The cases of the pilot: paths that change, hours of steady losses, and cells whose misses are predicted.

use super::{BEGINNING_S, HOUR_S, STEP_END_S, STEP_S};
use crate::experiment::{Cell, CellError, Size};

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The path changes to this one.
    Step(&'static str),
    /// The same, but the plan cannot add anything: it is at its limit before.
    StepAtLimit(&'static str),
    Hour,
    Steady,
}

/// A cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) deadline_ms: u64,
    pub(super) calls: u64,
}

const fn case(
    kind: Kind,
    name: &'static str,
    path: &'static str,
    deadline_ms: u64,
    calls: u64,
) -> Case {
    Case {
        kind,
        name,
        path,
        deadline_ms,
        calls,
    }
}

pub(super) const CASES: &[Case] = &[
    case(
        Kind::Step("delay=50ms loss=5%"),
        "loss-on-20",
        "delay=50ms",
        110,
        20,
    ),
    case(
        Kind::Step("delay=50ms"),
        "loss-off-20",
        "delay=50ms loss=5%",
        110,
        20,
    ),
    case(
        Kind::Step("delay=50ms loss=5% burst=75%"),
        "burst-20",
        "delay=50ms loss=5%",
        110,
        20,
    ),
    case(
        Kind::Step("delay=80ms loss=5%"),
        "delay-20",
        "delay=20ms loss=5%",
        140,
        20,
    ),
    case(
        Kind::Step("delay=50ms loss=5%"),
        "loss-on-1",
        "delay=50ms",
        110,
        1,
    ),
    case(
        Kind::Step("delay=50ms"),
        "loss-off-1",
        "delay=50ms loss=5%",
        110,
        1,
    ),
    case(
        Kind::StepAtLimit("delay=50ms loss=5% burst=75%"),
        "burst-1",
        "delay=50ms loss=5%",
        110,
        1,
    ),
    case(
        Kind::Step("delay=80ms loss=5%"),
        "delay-1",
        "delay=20ms loss=5%",
        140,
        1,
    ),
    case(Kind::Hour, "hour-1", "delay=50ms loss=5%", 110, 1),
    case(
        Kind::Hour,
        "hour-burst-1",
        "delay=50ms loss=5% burst=50%",
        110,
        1,
    ),
    case(Kind::Hour, "hour-20", "delay=50ms loss=5%", 110, 20),
    case(
        Kind::Hour,
        "hour-burst-20",
        "delay=50ms loss=5% burst=50%",
        110,
        20,
    ),
    case(Kind::Steady, "T-30-1", "delay=30ms loss=5%", 90, 1),
    case(
        Kind::Steady,
        "T-50-burst-1",
        "delay=50ms loss=5% burst=50%",
        110,
        1,
    ),
    case(
        Kind::Steady,
        "T-110-1",
        "delay=110ms loss=5% burst=25%",
        150,
        1,
    ),
    case(
        Kind::Steady,
        "T-130-1",
        "delay=130ms loss=5% burst=25%",
        150,
        1,
    ),
    case(Kind::Steady, "T-80-10-1", "delay=80ms loss=10%", 140, 1),
    case(
        Kind::Steady,
        "T-46-20",
        "delay=46ms loss=5% burst=25%",
        150,
        20,
    ),
    case(Kind::Steady, "T-50-20", "delay=50ms loss=5%", 110, 20),
    case(
        Kind::Steady,
        "T-50-burst-20",
        "delay=50ms loss=5% burst=50%",
        110,
        20,
    ),
    case(
        Kind::Steady,
        "T-80-burst-20",
        "delay=80ms loss=5% burst=75%",
        140,
        20,
    ),
    case(
        Kind::Steady,
        "T-50-1-20",
        "delay=50ms loss=1% burst=50%",
        110,
        20,
    ),
    case(Kind::Steady, "T-50-10-20", "delay=50ms loss=10%", 110, 20),
    case(
        Kind::Steady,
        "T-130-20",
        "delay=130ms loss=5% burst=25%",
        150,
        20,
    ),
];

impl Case {
    pub(super) fn of(cell: &Cell) -> Result<Case, CellError> {
        let found = CASES.iter().find(|case| case.name == cell.key);
        found
            .copied()
            .ok_or_else(|| CellError(format!("no cell {}", cell.key)))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Step(_) | Kind::StepAtLimit(_) => "step",
            Kind::Hour => "hour",
            Kind::Steady => "steady",
        }
    }

    pub(super) fn seconds(&self, size: Size) -> u64 {
        match (self.kind, self.calls, size) {
            (Kind::Step(_) | Kind::StepAtLimit(_), ..) => STEP_END_S,
            (Kind::Hour, ..) => BEGINNING_S + HOUR_S,
            (Kind::Steady, 1, Size::Quick) => BEGINNING_S + 1_200,
            (Kind::Steady, _, Size::Quick) => BEGINNING_S + 120,
            (Kind::Steady, 1, Size::Full) => BEGINNING_S + 7_200,
            (Kind::Steady, _, Size::Full) => BEGINNING_S + 1_200,
        }
    }

    pub(super) fn scenario(&self, seconds: u64) -> String {
        let mut text = format!(
            "[scenario]\nname = \"pilot\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n\
             [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\na = \"a\"\nb = \"b\"\npath = \"{}\"\n\
             [[flow]]\nname = \"calls\"\nfrom = \"a\"\nto = \"b\"\ncount = {}\ndeadline = \"{}ms\"\n",
            self.path, self.calls, self.deadline_ms
        );
        if self.kind == Kind::Steady {
            text += &format!("[measure]\nfrom = \"{BEGINNING_S}s\"\n");
        }
        if let Kind::Step(path) | Kind::StepAtLimit(path) = self.kind {
            text += &format!(
                "[[fault]]\nat = \"{STEP_S}s\"\nkind = \"link-set\"\na = \"a\"\nb = \"b\"\npath = \"{path}\"\n"
            );
        }
        text
    }
}
