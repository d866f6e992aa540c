//! Links that the node makes by itself: whom it takes as a neighbour, where it dials, and which links it keeps.
//!
//! ```text
//!   neighbours ── "I see you there" ──▶ seen ──▶ the own record
//!   offers in records ──▶ find: chooses ─┐
//!   traffic ─────────────────────────────┴──▶ direct: dials where the other node says that it is
//! ```
//! The room looks at the router and at the links. What dials, meets and parts is the node's, in the files of this
//! directory.

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

/// What the room looks at.
type Known<'a> = (&'a Router, &'a Links);

/// The links that this node makes, or would.
#[derive(Debug)]
pub(super) struct OwnLinks {
    own: NodeAddr,
    /// Settings: links for traffic, links that it finds, and addresses of the own interfaces told.
    direct_links: bool,
    find_links: bool,
    host_addresses: bool,
    /// Nodes that may become neighbours by dialling; `None` for every node of the network.
    accept: Option<Vec<NodeAddr>>,
    /// Where the host's sockets are bound, in their order.
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

    /// The node makes links by itself.
    pub(super) fn makes_links(&self) -> bool {
        self.direct_links || self.find_links
    }

    /// A node that dials may be a neighbour.
    ///
    /// Choice: one that the operator has taken off is not just anybody, where there is no list. It may not have heard of
    /// that, and it dials again where it was linked before. Direct links come and go.
    pub(super) fn accepts(&self, peer: NodeAddr, was_taken_off: bool) -> bool {
        match &self.accept {
            Some(list) => list.contains(&peer),
            None => !was_taken_off || self.makes_links(),
        }
    }

    /// A node is one of those with which the node may make links.
    fn is_accepted(&self, of: NodeAddr) -> bool {
        self.accept.as_ref().is_none_or(|list| list.contains(&of))
    }

    /// Where the host's sockets are bound, in their order.
    pub(super) fn sockets(&self) -> &[UnderlayAddr] {
        &self.sockets
    }

    pub(super) fn set_sockets(&mut self, own: Vec<UnderlayAddr>) {
        self.sockets = own;
    }
}
