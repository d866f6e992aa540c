//! Links that the node makes automatically: which nodes it accepts as neighbours, which addresses it dials, and which
//! links it keeps.
//!
//! ```text
//!   neighbours ── "I see you there" ──▶ seen ──▶ the own record
//!   offers in records ──▶ find: chooses ─┐
//!   traffic ─────────────────────────────┴──▶ direct: dials where the other node says that it is
//! ```
//! The room reads the router and the links. Code that dials, and that begins and ends links, belongs to the node and is
//! in the files of this directory.

mod direct;
mod find;
mod seen;

use self::direct::Direct;
use self::find::Finding;
use self::seen::Sightings;
use super::router::Router;
use crate::link::Links;
use crate::settings::Settings;
use base::{NodeAddr, UnderlayAddr};

/// The rooms that this room reads.
type Known<'a> = (&'a Router, &'a Links);

/// The links that this node makes, or would make.
#[derive(Debug)]
pub(super) struct OwnLinks {
    own: NodeAddr,
    /// Settings: links for traffic, links that the node finds, and announcing the addresses of the own interfaces.
    direct_links: bool,
    find_links: bool,
    host_addresses: bool,
    /// Nodes that may become neighbours by dialling; `None` for every node of the network.
    accept: Option<Vec<NodeAddr>>,
    /// The addresses to which the host's sockets are bound, in their order.
    sockets: Vec<UnderlayAddr>,
    direct: Direct,
    sightings: Sightings,
    finding: Finding,
}

impl OwnLinks {
    pub(super) fn new(
        own: NodeAddr,
        accept: Option<Vec<NodeAddr>>,
        settings: &Settings,
    ) -> OwnLinks {
        OwnLinks {
            own,
            direct_links: settings.direct_links,
            find_links: settings.find_links,
            host_addresses: settings.host_addresses,
            accept,
            sockets: Vec::new(),
            direct: Direct::default(),
            sightings: Sightings::default(),
            finding: Finding::new(own),
        }
    }

    /// Returns true if the node makes links automatically.
    pub(super) fn makes_links(&self) -> bool {
        self.direct_links || self.find_links
    }

    /// Returns true if a node that dials may become a neighbour.
    ///
    /// Choice: without a list, a neighbour that the operator has removed is not accepted like any other node. It may
    /// not know of the removal, and it dials again because it was linked before. If the node makes links automatically,
    /// such links come and go anyway.
    pub(super) fn accepts(&self, peer: NodeAddr, was_taken_off: bool) -> bool {
        match &self.accept {
            Some(list) => list.contains(&peer),
            None => !was_taken_off || self.makes_links(),
        }
    }

    /// Returns true if the node may make links with this node.
    fn is_accepted(&self, of: NodeAddr) -> bool {
        self.accept.as_ref().is_none_or(|list| list.contains(&of))
    }

    /// Returns the addresses to which the host's sockets are bound, in their order.
    pub(super) fn sockets(&self) -> &[UnderlayAddr] {
        &self.sockets
    }

    pub(super) fn set_sockets(&mut self, own: Vec<UnderlayAddr>) {
        self.sockets = own;
    }
}
