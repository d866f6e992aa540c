//! The aims of a lane's protection, and the plan that results.

use super::super::Share;
use crate::flow::FlowKey;
use base::Duration;
use core::fmt;
use graph::protection::{ALL, TARGET};
use wire::Aim;

/// How the operator wants losses on real-time lanes to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protect {
    /// As much protection as the target needs.
    #[default]
    Auto,
    /// No protection.
    Off,
    /// Requests and answers.
    Requests,
    /// Requests, and repair up to the cap for all packets that requests cannot save, however few are lost.
    Hop,
    /// As [`Protect::Auto`] on the links, and repair between this node and the one where its packets leave the overlay.
    EndToEnd,
    /// As [`Protect::Auto`] on the links, and more paths where there is trouble.
    Paths,
}

impl Protect {
    /// Returns the name in files.
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

    /// All kinds of protection.
    pub const ALL: [Protect; 6] = [
        Protect::Auto,
        Protect::Off,
        Protect::Requests,
        Protect::Hop,
        Protect::EndToEnd,
        Protect::Paths,
    ];

    /// Returns the kind of protection with this name.
    pub fn of_label(label: &str) -> Option<Protect> {
        Protect::ALL
            .into_iter()
            .find(|protect| protect.label() == label)
    }

    /// Returns true if repair packets may be sent to a neighbour.
    pub const fn repairs(self) -> bool {
        !matches!(self, Protect::Off | Protect::Requests)
    }

    /// Returns true if the amount of repair depends on the losses.
    pub const fn chooses(self) -> bool {
        self.repairs() && !matches!(self, Protect::Hop)
    }
}

/// How many losses may be left, and how much repair may be added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// The kind of protection.
    pub protect: Protect,
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The maximum number of repair packets per packet, for a lane with several flows.
    pub most: f64,
    /// The same as [`Aims::most`], for a lane with a single flow.
    pub most_single: f64,
}

impl Aims {
    /// Returns the aims for a single flow whose sender wants something else: its own target, and its own maximum of
    /// repair, up to the maximum of any lane here.
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

    /// Returns how many repair packets per 16 packets of a single call a node with these aims announces for a link
    /// whose other end takes repair.
    ///
    /// Choice: a lane whose target leaves more losses than others expect is announced as one without repair.
    pub fn announced_16ths(&self) -> u8 {
        let is_expected = self.target <= 2.0 * TARGET as f64 / ALL as f64;
        let most = match self.protect.repairs() && is_expected {
            true => self.most_single,
            false => 0.0,
        };
        // The cast saturates.
        (most * 16.0) as u8
    }

    /// Returns the maximum number of repair packets per packet that any flow may have.
    pub(super) fn most_allowed(&self) -> f64 {
        self.most_single.max(self.most)
    }
}

impl Default for Aims {
    fn default() -> Aims {
        Aims {
            // Choice: automatic repair, since a long link gains nothing from requests and nobody looks for a
            // setting. It adds bytes only where requests come too late: at most half of a lane's, or as many as a
            // single call's. It adds none while the link has too little room.
            protect: Protect::Auto,
            target: 0.0005,
            most: 0.5,
            most_single: 1.0,
        }
    }
}

/// The reason why a lane is protected as it is, and not better.
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
    /// The link loses so much that repair packets would hardly help.
    Hopeless,
    /// The neighbour takes no repair packets: its version is older.
    Neighbour,
    /// Losses come, or came, from a queue.
    Queue,
    /// The configuration says so.
    Configured,
    /// The senders of all flows want no repair.
    Unwanted,
}

impl Reason {
    /// Returns the reason in words.
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

/// A plan, and its expected result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// The repair, if any is added.
    pub share: Option<Share>,
    /// Packets with less time than this left after their path are covered.
    pub cover_below: Duration,
    /// The share of packets that is expected to stay lost.
    pub predicted: f64,
    /// The same with requests alone.
    pub requests: f64,
    /// How much more time packets would need so that requests alone left no more than the target. `None` if no time
    /// is enough, or the present time is.
    pub requests_lack: Option<Duration>,
    /// Why the plan is no better.
    pub reason: Reason,
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The flow whose target that is; `None` if it is the node's own.
    pub target_of: Option<FlowKey>,
    /// The maximum number of repair packets per packet.
    pub most: f64,
}

impl Plan {
    /// Returns the plan without repair, for this reason.
    pub(super) fn rests(self, reason: Reason) -> Plan {
        Plan {
            share: None,
            predicted: self.requests,
            reason,
            ..self
        }
    }

    /// Returns the plan with this share of repair, which leaves `predicted` lost.
    pub(super) fn with(self, (share, predicted): (Share, f64), reason: Reason) -> Plan {
        Plan {
            share: Some(share),
            predicted,
            reason,
            ..self
        }
    }
}
