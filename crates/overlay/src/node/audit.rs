//! Audits at the node: under which path packets are noted, and the exchange of questions and answers. [`crate::audit`]
//! draws the conclusions, and the sibling `divert` sends the packets that do not go by table.
//!
//! ```text
//!   seal_to ─▶ natural_way: by table, or of the stamp ─▶ divert ─▶ sealed ─▶ noted: counters, way
//!                                                                                     │ later
//!   decide_audit ◀── on_tally ◀══ answer ══ the other end ◀══ question ══ drive_audits ◀──'
//! ```

use super::Node;
use super::metric;
use super::receive::drop_one;
use super::send::message;
use super::stamped::is_flood;
use crate::aims::{FlowAims, asks_less};
use crate::audit::{By, Due, Finding, Journey, Promise, Sent, Suspect, Suspicion, WayId, Ways};
use crate::ends::is_own;
use crate::event::{Drop, Event};
use crate::link::{LinkIndex, Links};
use crate::route::Tables;
use crate::snapshot::{KnownDiversion, KnownSuspect, SuspectStatus};
use crate::stamps::Wish;
use base::{Burst, Duration, NodeAddr, Outbox, Time};
use graph::protection::left;
use graph::{LinkCost, Topology};
use wire::CLEAR_BYTES;
use wire::data::{Class, Header, LinkProtocol, Routing};
use wire::ipc::Scheme;
use wire::stamp::Stamp;
use wire::transport::{COUNTS_MAX, TALLY_BYTES_MAX, Tally};

/// A packet that has hardly more time than its path takes may be dropped because it is late. Such a loss is not held
/// against anybody.
const TIME_TO_SPARE: Duration = Duration::from_millis(20);
/// The same for a packet that may not take many more hops.
const TTL_TO_SPARE: u8 = 16;
/// The class of questions and answers. Choice: not the real-time lane, whose room is for calls; a lost question is
/// asked again.
const CLASS: Class = Class {
    link: LinkProtocol::BestEffort,
    routing: Routing::ExpectedLatency,
    priority: 6,
};
/// The stamp "over every link".
const FLOODING: [u8; 1] = [1];

impl Node {
    /// Returns the path that unsealed packets for `to` are about to take, if the path is audited.
    pub(super) fn natural_way(
        &mut self,
        now: Time,
        to: NodeAddr,
        packets: &Burst,
    ) -> Option<WayId> {
        if !self.settings.audit || !self.router.database().tallies(to) || !self.ends.has_session(to)
        {
            return None;
        }
        let header = Header::trusted(&packets.segment(0)[CLEAR_BYTES..]);
        let routing = header.class().routing;
        let (own, router, aims) = (self.addr, &self.router, &self.aims);
        let tables = router.tables();
        let audit = self.audits.of(now, to)?;
        let journey = Journey {
            ends: (own, to),
            topology: router.database().topology(),
            is_data: !is_own(&header),
        };
        let is_judged = || is_judged((tables, aims), to, &header);
        if routing == Routing::Stamped {
            let stamp = header.extension()?;
            return audit.by_stamp(now, stamp, journey, is_judged, || {
                single_path(stamp, own, to).filter(|path| has_relays(path))
            });
        }
        let metric = metric(routing)?;
        let generation = tables.followed()?;
        audit.by_table(now, (routing, generation), journey, is_judged, || {
            let path = router.path(metric, to)?;
            (has_relays(&path) && !tables.is_silent(metric, to)).then_some(path)
        })
    }

    /// Returns the note for packets that are about to be sealed. `way` is `None` if they are not judged.
    pub(super) fn note_of(&self, to: NodeAddr, way: Option<WayId>, packets: &Burst) -> Note {
        let header = Header::trusted(&packets.segment(0)[CLEAR_BYTES..]);
        let known = (self.router.tables(), &self.aims);
        Note {
            way: way.filter(|_| is_judged(known, to, &header)),
            link: header.class().link,
            is_data: !is_own(&header),
        }
    }

    /// Asks the questions that are due.
    pub(super) fn drive_audits(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let (router, links) = (&self.router, &self.links);
        let way = |to: NodeAddr| {
            let latency = router.tables().latency(to).unwrap_or_default();
            (latency, has_room(links, router.first_link(links, to)))
        };
        for due in self.audits.due(now, way) {
            let Due { to, question, by } = due;
            let mut bytes = [0; TALLY_BYTES_MAX];
            let about = (question.number, question.session, question.first);
            let len = Tally::ask(about, &question.lengths, &mut bytes);
            let len = len.expect("a question fits the longest message");
            self.send_tally(now, (to, by), &bytes[..len], out);
            self.decide_audit(now, to, out);
        }
    }

    /// Chosen paths may have lost a link.
    pub(super) fn review_audits(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for to in self.audits.diverted() {
            self.decide_audit(now, to, out);
        }
    }

    pub(super) fn send_tally(
        &mut self,
        now: Time,
        (to, by): (NodeAddr, By),
        bytes: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        if !self.ends.has_session(to) {
            return;
        }
        let mut header = self.message_header(CLASS, to);
        let stamp = match by {
            By::Table => &[],
            By::Two => self.disjoint_stamp(now, to).unwrap_or_default(),
            By::All => &FLOODING,
        };
        if !stamp.is_empty() {
            (header.class.routing, header.has_extension) = (Routing::Stamped, true);
        }
        let packet = message(&header, (stamp, true), bytes, out);
        self.originate_made(now, &header, packet, out);
    }

    /// Returns a stamp with two paths to a node, for messages that must arrive even if one path drops packets.
    pub(super) fn disjoint_stamp(&mut self, now: Time, to: NodeAddr) -> Option<&[u8]> {
        let wish = Wish {
            to,
            scheme: Scheme::Disjoint,
            link: CLASS.link,
            deadline: None,
        };
        self.router.stamp(now, wish)
    }

    /// Handles a question or an answer of another end, after it was opened.
    pub(super) fn on_tally(&mut self, now: Time, packet: &[u8], out: &mut impl Outbox<Node>) {
        let header = Header::trusted(packet);
        let (source, routing) = (header.source(), header.class().routing);
        if !is_own(&header) || header.destination() != self.addr {
            return drop_one(Drop::Malformed, out);
        }
        match Tally::parse(header.payload()) {
            Err(_) => drop_one(Drop::Malformed, out),
            Ok(Tally::Asked {
                number,
                session,
                first,
                counts,
            }) => {
                if !self.settings.audit || !self.audits.budgets.take_answer(now, source) {
                    return drop_one(Drop::Unsupported, out);
                }
                let mut opened = [0; COUNTS_MAX];
                let told = self.ends.opened(source, (session, first), counts.iter());
                let mut at = first;
                let told = told.map_or(0, |told| {
                    let counted = told.zip(counts.iter()).zip(&mut opened);
                    let each = counted.map(|((count, length), place)| {
                        // A restored packet has not arrived.
                        let of = (session, at);
                        let restored = self.end_repairs.restored(source, of, length);
                        *place = count.saturating_sub(restored);
                        at = at.wrapping_add(length.into());
                    });
                    each.count()
                });
                let mut bytes = [0; TALLY_BYTES_MAX];
                let len = Tally::tell(number, &opened[..told], &mut bytes);
                let len = len.expect("an answer fits the longest message");
                // A question that arrived by several paths is answered by several paths.
                let by = match routing {
                    Routing::Stamped
                        if is_flood(&header) && self.audits.budgets.take_flood(now) =>
                    {
                        By::All
                    }
                    Routing::Stamped => By::Two,
                    _ => By::Table,
                };
                self.send_tally(now, (source, by), &bytes[..len], out);
            }
            Ok(Tally::AskedOfKey {
                number,
                name,
                first,
                counts,
            }) => {
                if !self.settings.audit || !self.audits.budgets.take_answer(now, source) {
                    return drop_one(Drop::Unsupported, out);
                }
                let to = (source, routing == Routing::Stamped);
                self.answer_of_key(now, to, (number, name, first), counts.iter(), out);
            }
            Ok(Tally::ToldOfKey { number, counts }) => {
                self.on_told_of_key(now, source, number, counts.iter(), out);
            }
            Ok(Tally::Told { number, counts }) => {
                let topology = self.router.database().topology();
                if let Some(audit) = self.audits.get_mut(source) {
                    audit.on_told(number, counts.iter(), |nodes, link| {
                        promise(topology, nodes, (link, None))
                    });
                }
                self.decide_audit(now, source, out);
            }
        }
    }

    pub(super) fn decide_audit(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let (own, topology) = (self.addr, self.router.database().topology());
        let audit = self.audits.get_mut(to);
        let Some(finding) = audit.and_then(|audit| audit.decide(now, topology, (own, to))) else {
            return;
        };
        let per_mille = |loss: f64| (loss * 1000.0).round() as u16;
        match finding {
            Finding::Bad { loss } => {
                self.audits.count_finding();
                let lost = per_mille(loss);
                out.report(Event::PathBad { to, lost });
            }
            Finding::Suspects { suspects, loss } => {
                let (lost, among) = (per_mille(loss), suspects.len() as u16);
                for suspect in suspects {
                    out.report(Event::Suspected {
                        suspect,
                        to,
                        lost,
                        among,
                    });
                }
            }
            Finding::Cleared { suspects } => {
                for suspect in suspects {
                    out.report(Event::Unsuspected { suspect, to });
                }
            }
        }
    }

    /// Returns the paths that packets take instead of going by table.
    pub(super) fn diversions(&self, now: Time) -> Vec<KnownDiversion> {
        let diversion = |(to, ways): (NodeAddr, &Ways)| {
            let way = ways.settled_on()?.iter().map(NodeAddr::to_string);
            let suspects = ways.suspicions().map(|s| known(now, s));
            Some(KnownDiversion {
                to: to.to_string(),
                way: way.collect(),
                suspects: suspects.collect(),
            })
        };
        self.audits.suspected().filter_map(diversion).collect()
    }

    /// Returns the suspects, and the destinations of their paths.
    pub(super) fn suspect_statuses(&self, now: Time) -> Vec<SuspectStatus> {
        let all = self.audits.suspected();
        let all = all.flat_map(|(to, ways)| ways.suspicions().map(move |s| (to, s)));
        let status = |(to, s): (NodeAddr, &Suspicion)| SuspectStatus {
            suspect: known(now, s),
            path_to: to.to_string(),
            among: s.among,
            strikes: s.strikes,
            for_s: now.since(s.since).as_secs_f64(),
        };
        all.map(status).collect()
    }
}

/// Returns a suspicion in the form of the snapshot.
fn known(now: Time, suspicion: &Suspicion) -> KnownSuspect {
    let (node, link_to) = match suspicion.suspect {
        Suspect::Node(node) => (node, None),
        Suspect::Link(from, to) => (from, Some(to)),
    };
    KnownSuspect {
        node: node.to_string(),
        link_to: link_to.map(|to| to.to_string()),
        lost: suspicion.loss,
        retry_in_s: suspicion.until.since(now).as_secs_f64(),
    }
}

/// The note about packets when they are sealed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    way: Option<WayId>,
    link: LinkProtocol,
    is_data: bool,
}

impl Note {
    /// Returns the note with the counters that the packets got.
    pub(super) fn sealed(
        self,
        (session, first): (wire::link::SessionIndex, u64),
        count: u32,
    ) -> Sent {
        Sent {
            session,
            first,
            count,
            way: self.way,
            link: self.link,
            is_data: self.is_data,
        }
    }
}

/// Returns true if a link has room for redundant packets.
pub(super) fn has_room(links: &Links, link: Option<LinkIndex>) -> bool {
    link.is_none_or(|link| links.at(link).takes_redundancy())
}

/// Returns the time that a packet must have left for its loss to count, on a path of this latency.
pub(super) fn in_time(latency: Duration) -> Duration {
    latency + latency.div(2) + TIME_TO_SPARE
}

/// Returns what the links of a path promise to packets of a link protocol that have `slack` more time than the path
/// takes. `None` if a link does not exist or its other end is not heard: then there is no promise.
pub(super) fn promise(
    topology: &Topology,
    nodes: &[NodeAddr],
    (link, slack): (LinkProtocol, Option<Duration>),
) -> Option<Promise> {
    let link_of = |hop: &[NodeAddr]| {
        let (from, to) = (topology.index(hop[0])?, topology.index(hop[1])?);
        let cost = topology.link(from, to)?.link;
        (!cost.is_silent()).then_some(cost)
    };
    let links = nodes.windows(2).map(link_of);
    let links: Vec<LinkCost> = links.collect::<Option<_>>()?;
    let latency_us: u64 = links.iter().map(|cost| u64::from(cost.latency_us)).sum();
    let parameters = topology.parameters();
    // If the time is not known: as much as a call has, or the time from which a loss counts at all.
    let usual_us = u64::from(parameters.late_us).saturating_sub(latency_us);
    let least = in_time(Duration::from_micros(latency_us)).as_micros() - latency_us;
    let mut arrives = 1.0;
    for cost in links {
        // A packet that a link repairs arrives later; half of the link's latency is subtracted as a margin.
        let slack_us = match slack {
            Some(slack) => slack
                .as_micros()
                .saturating_sub(u64::from(cost.latency_us) / 2),
            None => usual_us.max(least),
        };
        arrives *= 1.0
            - match link {
                LinkProtocol::BestEffort => cost.loss_share(),
                LinkProtocol::RealTime => left(cost, slack_us, parameters).share(),
                LinkProtocol::Reliable => 0.0,
            };
    }
    Some(Promise {
        loss: 1.0 - arrives,
    })
}

/// Returns true if a reliable lane on the path may give up the packet because it would be late, which is not that
/// node's fault.
pub(super) fn may_be_given_up<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::Reliable && !header.remaining().is_none()
}

/// Returns true if the loss of such a packet counts against the path.
fn is_judged<B: AsRef<[u8]>>(
    (tables, aims): (&Tables, &FlowAims),
    to: NodeAddr,
    header: &Header<B>,
) -> bool {
    let latency = tables.latency(to).unwrap_or_default();
    let left = header.remaining().duration();
    let has_time = left.is_none_or(|left| left >= in_time(latency));
    let may_be_late = !has_time || header.ttl() < TTL_TO_SPARE;
    let aim = aims.of_packet(header);
    let may_be_lost = aim.is_some_and(|(_, aim)| asks_less(aim)) || may_be_given_up(header);
    !may_be_late && !may_be_lost
}

/// Returns true if another node on the path could drop packets. On a single link, its own ends know what it loses.
pub(super) fn has_relays(path: &[NodeAddr]) -> bool {
    path.len() > 2
}

/// Returns the path of a stamp, if the stamp is one path.
fn single_path(stamp: &[u8], own: NodeAddr, to: NodeAddr) -> Option<Vec<NodeAddr>> {
    let Ok(Stamp::Subgraph(graph)) = Stamp::parse(stamp) else {
        return None;
    };
    let mut path = vec![own];
    while let Some(last) = path.last().filter(|last| **last != to) {
        let mut next = graph.next(*last);
        let (Some(only), None) = (next.next(), next.next()) else {
            return None;
        };
        path.push(only);
    }
    (path.len() == graph.nodes().len()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::metric::Repair;
    use graph::protection::Lane;

    /// Returns what two links of 50 ms that lose 5 % promise to packets with this slack.
    fn promised(repair_16ths: u8, slack_ms: Option<u64>) -> f64 {
        let link = LinkCost::new(50_000, 0.05);
        let lane = Lane {
            run_256ths: 341,
            repair_16ths,
        };
        let repair = Repair::new(5, link.loss, link.loss).with_lane(Some(lane));
        let repair = Some(repair);
        let link = LinkCost { repair, ..link };
        let path = [1, 2, 3].map(NodeAddr);
        let both = path
            .windows(2)
            .flat_map(|hop| [(hop[0], hop[1], link), (hop[1], hop[0], link)]);
        let topology = Topology::from_links(crate::Settings::modern().parameters(), both);
        let slack = slack_ms.map(Duration::from_millis);
        promise(&topology, &path, (LinkProtocol::RealTime, slack))
            .unwrap()
            .loss
    }

    /// If repair did not count, a relay behind long links could drop as much as the links lose.
    #[test]
    fn a_path_promises_what_protection_leaves_in_the_time_that_there_is() {
        let raw = 1.0 - 0.95 * 0.95;
        assert!((promised(0, Some(100)) - raw).abs() < 1e-3);
        assert!(
            promised(16, Some(100)) < 0.0015,
            "{}",
            promised(16, Some(100))
        );
        assert!(promised(16, None) < 0.0015);
        assert!(
            (promised(16, Some(25)) - raw).abs() < 1e-3,
            "no time for repair"
        );
    }
}
