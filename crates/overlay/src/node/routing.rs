//! Link state at the node: the records that it makes about its own links, the records that it accepts from others, and
//! the routes that follow.

use super::Node;
use super::own_record::Own;
use super::receive::drop_one;
use crate::event::{Drop, Event};
use crate::hello;
use crate::link::{Link, LinkIndex};
use crate::link_state::{Claim, Judgement, MAX_ORIGINS, Origination, Reason, Verdict};
use crate::route::Changed;
use crate::settings::{MetricOf, Sealing};
use base::token_bucket::TokenBucket;
use base::{Map, NodeAddr, Outbox, Time, UnderlayAddr};
use core::cmp::Reverse;
use secure::{Context, Peer};
use wire::bytes::Writer;
use wire::link_state::{LINKS_MAX, Link as Reported, OPTIONS_BYTES_MAX, write_seals};
use wire::record::{Acks, Key, Record, RecordKind, Records};
use wire::{Availability, Latency, Loss};

/// Records per second that are accepted from one origin if they are signed by it: an honest node makes 20 at most, and
/// as many of its groups.
const ORIGIN_RECORDS_PER_S: f64 = 40.0;
/// Records at once: all parts of its groups, and changes of many links.
const ORIGIN_RECORDS_BURST: f64 = 200.0;

/// How many records of each origin have arrived recently, and how many were too many: so one member cannot keep all
/// others busy.
#[derive(Debug, Default)]
pub(super) struct Origins(Map<NodeAddr, (TokenBucket, u64)>);

impl Origins {
    /// Takes a record that its origin has signed. Returns false if there were too many.
    fn take(&mut self, now: Time, origin: NodeAddr) -> bool {
        if self.0.len() >= MAX_ORIGINS && !self.0.contains_key(&origin) {
            // An origin that has sent too many stays listed.
            self.0.retain(|_, (_, dropped)| *dropped > 0);
        }
        let bucket = || TokenBucket::new(ORIGIN_RECORDS_PER_S, ORIGIN_RECORDS_BURST, now);
        let (bucket, dropped) = self.0.entry(origin).or_insert_with(|| (bucket(), 0));
        let takes = bucket.try_take(now, 1.0);
        *dropped += u64::from(!takes);
        takes
    }

    /// Returns the origins that have sent too many records, and how many were dropped.
    pub(super) fn flooders(&self) -> Vec<(NodeAddr, u64)> {
        let all = self
            .0
            .iter()
            .map(|(origin, (_, dropped))| (*origin, *dropped));
        let mut flooders: Vec<_> = all.filter(|(_, dropped)| *dropped > 0).collect();
        flooders.sort_unstable_by_key(|&(origin, dropped)| (Reverse(dropped), origin));
        flooders
    }
}

impl Node {
    /// A link has come up or gone down: others are notified at once.
    pub(super) fn on_link_changed(
        &mut self,
        now: Time,
        index: LinkIndex,
        event: Option<hello::Event>,
    ) {
        if matches!(event, Some(hello::Event::Up | hello::Event::Down { .. })) {
            self.links.at_mut(index).since = now;
        }
        match event {
            Some(hello::Event::Up) => {
                self.flood.on_link_up(index, self.router.database());
                let link = self.links.at_mut(index);
                let cost = link.measured_cost(now);
                link.announce.on_link_up(now, cost);
                self.consider_lane(now, index);
                self.on_lane_changed(now, index, true);
            }
            Some(hello::Event::Down { tried, .. }) => {
                self.flood.on_link_down(index);
                let link = self.links.at_mut(index);
                match tried {
                    true => link.announce.on_silence(),
                    false => link.announce.on_link_down(),
                }
                self.on_lane_changed(now, index, false);
            }
            Some(hello::Event::GivenUp) => self.links.at_mut(index).announce.on_link_down(),
            None => {}
        }
        self.own_record.note();
        self.links.touch(index);
    }

    /// Takes in the present estimate of a link. Marks the own record as due if the estimate is to be announced.
    pub(super) fn consider_cost(&mut self, now: Time, index: LinkIndex) {
        let link = self.links.at_mut(index);
        link.note_room(now);
        let cost = link.measured_cost(now);
        self.own_record
            .note_if(link.announce.on_measure(now, cost).is_some());
        self.consider_lane(now, index);
    }

    /// The same for what is announced about the protection of the link's real-time lane. Nodes of the paper profile
    /// announce nothing about it.
    fn consider_lane(&mut self, now: Time, index: LinkIndex) {
        if self.settings.metric == MetricOf::Measured {
            let link = self.links.at_mut(index);
            let lane = link.lane(&self.settings.realtime.aims);
            let is_queued = link.loses_in_a_queue();
            self.own_record
                .note_if(link.announce.on_lane(now, lane, is_queued));
        }
    }

    /// Slow housekeeping: costs, refresh, ageing.
    pub(super) fn keep_records(&mut self, now: Time) {
        let mut is_news = false;
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            is_news |= link.look_for_trouble(now);
            link.overrun.look(now, link.history.stats().overrun);
            if self.links.at(index).is_up() {
                self.consider_cost(now, index);
            }
        }
        if is_news {
            self.own_record.alarm(now);
        }
        self.own_record
            .note_if(now >= self.router.database().refresh_at());
        self.router.database_mut().expire(now);
    }

    /// Announces news about the own links, and repairs the routes. Called once per flush.
    pub(super) fn update_routing(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if self.own_record.take_due(now) {
            self.originate_record(now);
        }
        let changed = self.router.update();
        if changed != Changed::Nothing {
            out.report(Event::RoutesChanged {
                reachable: self.router.tables().reachable() as u32,
                rerouted: changed == Changed::Hops,
            });
            self.streams.touch_if(|stream| {
                stream.on_route_change(now);
                true
            });
        }
        if self.reviewed != self.router.tables().followed() {
            self.reviewed = self.router.tables().followed();
            self.review_audits(now, out);
        }
        // What became due on any link is sent in this flush.
        while let Some(index) = self.flood.poll_ready() {
            self.links.touch(index);
        }
    }

    fn originate_record(&mut self, now: Time) {
        let (identity, network) = (self.handshakes.identity(), self.handshakes.network());
        let mut telling: Vec<(Reported, &Link)> = Vec::new();
        for (_, link) in self.links.iter().filter(|(_, link)| link.carries()) {
            if let Some(cost) = link.announce.announced() {
                let reported = Reported {
                    neighbor: link.peer,
                    latency: Latency::from_micros(cost.latency_us),
                    loss: Loss(cost.loss),
                    availability: Availability::of_price(cost.price_us),
                };
                telling.push((reported, link));
            }
        }
        telling.sort_by_key(|(_, link)| link.peer);
        telling.truncate(LINKS_MAX);
        let (reported, links): (Vec<Reported>, Vec<&Link>) = telling.into_iter().unzip();
        let mut options = [0; OPTIONS_BYTES_MAX];
        let mut writer = Writer::new(&mut options);
        if self.settings.sealing != Sealing::Off {
            write_seals(&mut writer, self.boot).expect("it is the first option");
        }
        let kept = (0u8..)
            .zip(&links)
            .filter(|(_, link)| self.own_links.keeps(link, &self.router));
        let kept: Vec<u8> = kept.map(|(place, _)| place).collect();
        let (endpoints, hosts) = self.own_links.announced();
        let own = Own {
            offer: self.settings.find_links.then_some(&kept),
            group_keys: self.settings.sealing != Sealing::Off,
            alarms: self.settings.alarms,
            tallies: self.settings.audit && self.settings.sealing != Sealing::Off,
            endpoints,
            hosts,
        };
        self.own_record.write(&mut writer, now, &links, &own);
        let options = writer.written();
        let certificate = identity.certificate();
        let root = self.trust.own_root().unwrap_or_default();
        let database = self.router.database_mut();
        let news = database
            .insert_certificate(now, root, certificate.as_bytes())
            .expect("a certificate that was read once can be read again");
        let what = Origination {
            links: &reported,
            strikes: match self.settings.metric {
                MetricOf::Paper => 0,
                MetricOf::Measured => self.settings.realtime.strikes,
            },
            certificate_serial: certificate.fields().serial,
            options,
        };
        let key = database
            .originate(now, what, |signed| {
                network.sign(identity, Context::LinkState, signed)
            })
            .expect("the longest record fits its buffer");
        // Records that an earlier start of this node has signed are recognised by the same certificate.
        let proof = self.trust.proof(now, &self.handshakes);
        if let Some(peer) = proof.peer(self.handshakes.identity().certificate().as_bytes()) {
            self.trust.enter(&peer, self.router.database_mut());
        }
        for key in news.into_iter().chain([key]) {
            self.flood.on_record_accepted(key, None);
        }
        for index in self.links.indices() {
            self.links.at_mut(index).on_alarm_told(now);
        }
    }

    pub(super) fn on_records(
        &mut self,
        now: Time,
        index: LinkIndex,
        records: &Records<'_>,
        out: &mut impl Outbox<Node>,
    ) {
        for record in records.iter() {
            let proof = self.trust.proof(now, &self.handshakes);
            let budget = &mut self.links.at_mut(index).verifications;
            let origins = &mut self.origins;
            let database = self.router.database_mut();
            let verdict = database.on_record(now, index, &record, |claim| {
                // Only records that an origin has signed count against it.
                match budget.spend(now, || proof.judge(claim)) {
                    Judgement::Good | Judgement::Certified(_)
                        if !origins.take(now, claim.key().origin) =>
                    {
                        Judgement::TooMany
                    }
                    other => other,
                }
            });
            if let Verdict::Own(_) | Verdict::Stale(_) = verdict {
                self.on_earlier_record(now, index, &record, out);
            }
            self.on_verdict(now, index, verdict, out);
        }
    }

    /// A record has arrived that is not later than the known one, or is in this node's name. If it is of another start
    /// of this node, but made since this start, another host uses the node's key.
    fn on_earlier_record(
        &mut self,
        now: Time,
        index: LinkIndex,
        record: &Record<'_>,
        out: &mut impl Outbox<Node>,
    ) {
        let Ok(claim) = Claim::parse(record.kind, record.body) else {
            return;
        };
        let Claim::LinkState(state) = &claim else {
            return;
        };
        let boot = state.seals().filter(|boot| *boot != self.boot);
        let (Some(boot), true) = (boot, state.origin == self.addr) else {
            return;
        };
        if !self.doubles.is_later(claim.key().seq) {
            return;
        }
        // Nobody has checked the signature of a record that is too old to be taken.
        let proof = self.trust.proof(now, &self.handshakes);
        let budget = &mut self.links.at_mut(index).verifications;
        if budget.spend(now, || proof.judge(&claim)) != Judgement::Good {
            return;
        }
        self.doubles.on_record(claim.key().seq);
        for boot in [self.boot, boot] {
            self.note_start(now, self.addr, (boot, None), out);
        }
    }

    /// Takes in which start of a neighbour, or of this node, is heard from.
    pub(super) fn note_start(
        &mut self,
        now: Time,
        node: NodeAddr,
        start: (u32, Option<UnderlayAddr>),
        out: &mut impl Outbox<Node>,
    ) {
        if self.doubles.note(now, node, start) {
            let is_own = node == self.addr;
            out.report(Event::Double { node, is_own });
        }
    }

    fn on_verdict(
        &mut self,
        now: Time,
        from: LinkIndex,
        verdict: Verdict,
        out: &mut impl Outbox<Node>,
    ) {
        self.flood.on_verdict(from, &verdict);
        match verdict {
            Verdict::Accepted(key) => self.on_accepted(now, key, out),
            Verdict::Own(_) => self.own_record.note(),
            Verdict::Dropped {
                reason: reason @ (Reason::Refused | Reason::Malformed(_) | Reason::Rival(_)),
                confirm,
            } => {
                let origin = confirm.map(|key| key.origin).unwrap_or_default();
                out.report(Event::RecordRefused { origin });
                if let Reason::Rival(number) = reason {
                    out.report(Event::RootRefused { number });
                }
            }
            Verdict::Dropped {
                reason: Reason::TooMany,
                ..
            } => drop_one(Drop::TooManyRecords, out),
            Verdict::Dropped { .. } | Verdict::Known(_) | Verdict::Pending | Verdict::Stale(_) => {}
        }
    }

    fn on_accepted(&mut self, now: Time, key: Key, out: &mut impl Outbox<Node>) {
        out.report(Event::RecordAccepted { origin: key.origin });
        match key.kind {
            RecordKind::CERTIFICATE => {
                let database = self.router.database();
                let certificate = database.certificate(key.origin).map(<[u8]>::to_vec);
                self.learn_root(now, certificate.as_deref(), out);
                let proof = self.trust.proof(now, &self.handshakes);
                if let Some(peer) = certificate.and_then(|bytes| proof.peer(&bytes)) {
                    self.trust.enter(&peer, self.router.database_mut());
                    self.retry_pending(now, out);
                }
            }
            RecordKind::REVOCATIONS | RecordKind::LATER_REVOCATIONS | RecordKind::SUCCESSION => {
                self.on_word_of_root(now, key, out);
            }
            RecordKind::LINK_STATE => {
                self.own_record
                    .note_if(self.router.database_mut().take_denial());
                let boot = self.router.database().boot_of(key.origin);
                if let Some(init) = self.ends.on_boot(now, key.origin, boot) {
                    self.send_handshake(now, key.origin, &init, out);
                }
                if boot.is_some() && self.ends.is_unknown(now, key.origin) {
                    self.prepare_soon(now);
                }
            }
            _ => {}
        }
    }

    /// Judges records that waited for the certificate that has just arrived. They are few, and each is checked once: no
    /// budget is charged for them.
    pub(super) fn retry_pending(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let proof = self.trust.proof(now, &self.handshakes);
        let database = self.router.database_mut();
        for (from, verdict) in database.retry_pending(now, |claim| proof.judge(claim)) {
            self.on_verdict(now, from, verdict, out);
        }
    }

    pub(super) fn on_record_acks(&mut self, now: Time, index: LinkIndex, acks: &Acks<'_>) {
        for key in acks.iter() {
            self.flood.on_ack(now, index, key);
        }
    }

    /// A certificate that a neighbour has shown also proves its records.
    pub(super) fn on_peer_certificate(
        &mut self,
        now: Time,
        peer: &Peer,
        out: &mut impl Outbox<Node>,
    ) {
        let body = peer.certificate().as_bytes();
        let database = self.router.database_mut();
        if let Ok(Some(key)) = database.insert_certificate(now, peer.root(), body) {
            self.trust.enter(peer, self.router.database_mut());
            self.flood.on_record_accepted(key, None);
            self.retry_pending(now, out);
        }
    }
}
