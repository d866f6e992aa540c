//! What a lane's protection aims at, and the plan that comes of it.

use super::super::Share;
use crate::flow::FlowKey;
use base::Duration;
use core::fmt;
use wire::Aim;

/// What the operator wants done about losses on real-time lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protect {
    /// What the target takes.
    #[default]
    Auto,
    /// Nothing at all.
    Off,
    /// Requests and answers.
    Requests,
    /// Requests, and repair up to the cap for all that they cannot save, whatever is lost.
    Hop,
    /// On the links as [`Protect::Auto`], and repair between this node and the one where its packets leave the overlay.
    EndToEnd,
    /// On the links as [`Protect::Auto`], and more paths where there is trouble.
    Paths,
}

impl Protect {
    /// The name in files.
    pub const fn label(self) -> &'static str {
        match self {
            Protect::Auto => "auto",
            Protect::Off => "off",
            Protect::Requests => "requests",
            Protect::Hop => "hop",
            Protect::EndToEnd => "end-to-end",
            Protect::Paths => "paths",
        }
    }

    /// All of them.
    pub const ALL: [Protect; 6] = [
        Protect::Auto,
        Protect::Off,
        Protect::Requests,
        Protect::Hop,
        Protect::EndToEnd,
        Protect::Paths,
    ];

    /// The one of a name.
    pub fn of_label(label: &str) -> Option<Protect> {
        Protect::ALL
            .into_iter()
            .find(|protect| protect.label() == label)
    }

    /// Repair packets may be sent to a neighbour.
    pub const fn repairs(self) -> bool {
        !matches!(self, Protect::Off | Protect::Requests)
    }

    /// What is added follows from what is lost.
    pub const fn chooses(self) -> bool {
        self.repairs() && !matches!(self, Protect::Hop)
    }
}

/// How much may be left, and how much may be added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// What to do.
    pub protect: Protect,
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The most repair packets per packet, of a lane with several flows and of one with a single one.
    pub most: f64,
    /// See [`Aims::most`].
    pub most_single: f64,
}

impl Aims {
    /// The same for a single flow whose sender wants something else: its own target, and what it may spend, up to the most of
    /// any lane here.
    pub fn wished(self, aim: Aim) -> Aims {
        let most = aim.most().map(|most| most.min(self.most_allowed()));
        Aims {
            protect: match most {
                Some(0.0) if self.protect.repairs() => Protect::Requests,
                _ => self.protect,
            },
            target: aim.target().unwrap_or(self.target),
            most_single: most.unwrap_or(self.most_single),
            ..self
        }
    }

    /// The most that any flow may spend.
    pub(super) fn most_allowed(&self) -> f64 {
        self.most_single.max(self.most)
    }
}

impl Default for Aims {
    fn default() -> Aims {
        Aims {
            // Choice: repair by itself, since a long link gains nothing from requests and nobody looks for a
            // setting. It adds bytes only where requests come too late, half of a lane's or all of a single call's at
            // most, and none while the link has too little room.
            protect: Protect::Auto,
            target: 0.0005,
            most: 0.5,
            most_single: 1.0,
        }
    }
}

/// Why a lane is protected as it is, and not better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nothing passes, or nothing is known yet.
    #[default]
    Idle,
    /// Hardly anything is lost.
    Clean,
    /// Requests leave no more than the target.
    RequestsDo,
    /// Repair leaves no more than the target.
    RepairDoes,
    /// More would exceed the cap.
    Cap,
    /// No packet has time for any repair.
    NoTime,
    /// So much is lost that repair packets would hardly help.
    Hopeless,
    /// The neighbour takes no repair packets: its version is older.
    Neighbour,
    /// Losses are, or were, a queue's.
    Queue,
    /// The configuration says so.
    Configured,
    /// The senders of all flows want none.
    Unwanted,
}

impl Reason {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Idle => "nothing passes",
            Reason::Clean => "hardly anything is lost",
            Reason::RequestsDo => "requests leave no more than the target",
            Reason::RepairDoes => "repair leaves no more than the target",
            Reason::Cap => "more would exceed the cap",
            Reason::NoTime => "deadlines leave no time for repair",
            Reason::Hopeless => "too much is lost",
            Reason::Neighbour => "the neighbour takes no repair packets",
            Reason::Queue => "losses are a queue's",
            Reason::Configured => "as configured",
            Reason::Unwanted => "the senders of its flows want no repair",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A plan, and what it is expected to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// Repair, if any is added.
    pub share: Option<Share>,
    /// Packets with less time left after their way are covered.
    pub cover_below: Duration,
    /// The share of packets that will stay lost.
    pub predicted: f64,
    /// The same with requests alone.
    pub requests: f64,
    /// With so much more time for its packets requests alone would leave no more than the target; none if they
    /// would never, or do already.
    pub requests_lack: Option<Duration>,
    /// Why no better.
    pub reason: Reason,
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The flow whose target that is; none if it is the node's own.
    pub target_of: Option<FlowKey>,
    /// The most repair packets per packet.
    pub most: f64,
}

impl Plan {
    /// Nothing is added to requests, for this reason.
    pub(super) fn rests(self, reason: Reason) -> Plan {
        Plan {
            share: None,
            predicted: self.requests,
            reason,
            ..self
        }
    }

    /// This share is added, which leaves so much.
    pub(super) fn with(self, (share, predicted): (Share, f64), reason: Reason) -> Plan {
        Plan {
            share: Some(share),
            predicted,
            reason,
            ..self
        }
    }
}
