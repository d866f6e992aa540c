//! Link state at the node: what it says of its own links, what it takes from others, and the
//! routes that follow.

use super::Node;
use crate::event::{Drop, Event};
use crate::hello;
use crate::link::{Link, LinkIndex};
use crate::link_state::{Claim, Judgement, MAX_ORIGINS, Origination, Reason, Verdict};
use crate::mtu;
use crate::route::Changed;
use crate::settings::{MetricOf, Sealing};
use base::token_bucket::TokenBucket;
use base::{Duration, Map, NodeAddr, Outbox, Time};
use core::cmp::Reverse;
use secure::{
    Certificate, CertificateError, Context, Identity, Network, Peer, Revocations, SuccessionError,
};
use wire::bytes::Writer;
use wire::link_state::{
    Bulk, LINKS_MAX, Link as Reported, OPTIONS_BYTES_MAX, write_alarms, write_bulk,
    write_capacities, write_endpoints, write_group_keys, write_group_tallies, write_hops,
    write_hosts, write_link_rates, write_offer, write_protections, write_seals, write_tallies,
    write_tunnels, write_usable, write_version,
};
use wire::record::{Acks, Key, RecordKind, Records};
use wire::{Availability, Endpoint, Latency, Loss};

/// The least time between two records of this node: several links that change at once are told
/// together, and a node with many unstable links does not flood the network.
const OWN_RECORD_SPACING: Duration = Duration::from_millis(50);

/// Records that this node makes because of alarms: so many at once, and one per second. Choice: all links of most nodes at
/// once; an alarm that comes then goes with the record of the next second.
pub(super) const ALARMS_AT_ONCE: f64 = 10.0;
pub(super) const ALARMS_PER_S: f64 = 1.0;

/// Records per second that are taken of one origin, signed by it or not one: an honest node makes 20 at most, and
/// as many of its groups.
const ORIGIN_RECORDS_PER_S: f64 = 40.0;
/// As many at once: all parts of its groups, and changes of many links.
const ORIGIN_RECORDS_BURST: f64 = 200.0;

/// How many records of each origin have come of late, and how many were too many: so that one member does
/// not keep all others busy.
#[derive(Debug, Default)]
pub(super) struct Origins(Map<NodeAddr, (TokenBucket, u64)>);

impl Origins {
    /// Takes a record that its origin has signed; false if there were too many.
    fn take(&mut self, now: Time, origin: NodeAddr) -> bool {
        if self.0.len() >= MAX_ORIGINS && !self.0.contains_key(&origin) {
            // Whoever has sent too many stays named.
            self.0.retain(|_, (_, dropped)| *dropped > 0);
        }
        let bucket = || TokenBucket::new(ORIGIN_RECORDS_PER_S, ORIGIN_RECORDS_BURST, now);
        let (bucket, dropped) = self.0.entry(origin).or_insert_with(|| (bucket(), 0));
        let takes = bucket.try_take(now, 1.0);
        *dropped += u64::from(!takes);
        takes
    }

    /// Who has sent too many, and how many were dropped.
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

/// Who may sign the records of one origin, as its verified certificate says.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    serial: u32,
    /// The root under which the certificate was signed.
    pub(super) root: u8,
    pub(super) key: [u8; 32],
    not_after_s: u64,
}

/// The signers of all origins whose certificates are in the database.
pub(super) type Signers = Map<NodeAddr, Signer>;

/// Proves records by the network's root keys and the certificates seen so far.
struct Proof<'a> {
    own: &'a Identity,
    network: &'a Network,
    signers: &'a Signers,
    unix_s: u64,
}

impl Proof<'_> {
    fn judge(&self, claim: &Claim<'_>) -> Judgement {
        let good = match claim {
            Claim::Certificate { body, .. } => match self.judge_certificate(body) {
                // The succession is on its way.
                Err(CertificateError::NewerRoot) => return Judgement::NoCertificate,
                Err(CertificateError::BadSignature) => return self.judge_nobodys(body),
                Ok(peer) if !self.is_foreign(&peer) => return self.rank(&peer),
                _ => false,
            },
            Claim::Revocations { root, .. } if *root > self.network.root_number() => {
                return Judgement::NoCertificate;
            }
            Claim::Revocations { root, list, .. } => {
                *root == self.network.root_number()
                    && Revocations::from_bytes(list)
                        // A copy, because only the node itself takes the list to heart.
                        .is_ok_and(|list| self.network.clone().apply(&list).is_ok())
            }
            Claim::Succession(succession) => match self.network.clone().succeed(succession) {
                Err(SuccessionError::Gap) => return Judgement::NoCertificate,
                Err(SuccessionError::Rival) => return Judgement::Rival(succession.number),
                judged => judged.is_ok(),
            },
            Claim::LinkState(state) => match self.signers.get(&state.origin) {
                // The certificate, or a renewed one, is on its way.
                None => return Judgement::NoCertificate,
                Some(signer) if signer.serial < state.certificate_serial => {
                    return Judgement::NoCertificate;
                }
                Some(signer) => {
                    let signed = (state.signed_bytes(), state.signature());
                    self.proves(signer, Context::LinkState, signed)
                }
            },
            Claim::Groups(groups) => match self.signers.get(&groups.origin) {
                None => return Judgement::NoCertificate,
                Some(signer) if signer.serial < groups.certificate_serial => {
                    return Judgement::NoCertificate;
                }
                Some(signer) => {
                    let signed = (groups.signed_bytes(), groups.signature());
                    self.proves(signer, Context::Groups, signed)
                }
            },
        };
        if good {
            Judgement::Good
        } else {
            Judgement::Refused
        }
    }

    /// No known root has signed it: another one of the same number may have.
    fn judge_nobodys(&self, certificate: &[u8]) -> Judgement {
        let certificate = Certificate::from_bytes(certificate);
        let rival = certificate.map(|certificate| self.network.rival_of(&certificate));
        match rival {
            Ok(Some(number)) => Judgement::Rival(number),
            _ => Judgement::Refused,
        }
    }

    /// It gives this node's own address to another key: a thief of the root has made it, and nobody speaks for this node
    /// here but itself.
    fn is_foreign(&self, peer: &Peer) -> bool {
        let key = self.own.certificate().fields().subject.signing_key;
        peer.address() == self.own.address() && *peer.signing_key() != key
    }

    fn rank(&self, peer: &Peer) -> Judgement {
        let signer = self.signers.get(&peer.address());
        match signer.is_some_and(|signer| peer.root() < signer.root) {
            true => Judgement::Outdated,
            false => Judgement::Certified(peer.root()),
        }
    }

    fn proves(&self, signer: &Signer, what: Context, signed: (&[u8], &[u8; 64])) -> bool {
        let (bytes, signature) = signed;
        self.unix_s <= signer.not_after_s
            && self.network.counts(signer.root, self.unix_s)
            && self.network.proves(&signer.key, what, bytes, signature)
    }

    /// Whose certificate it is, if it counts now.
    fn peer(&self, certificate: &[u8]) -> Option<Peer> {
        self.judge_certificate(certificate).ok()
    }

    fn judge_certificate(&self, certificate: &[u8]) -> Result<Peer, CertificateError> {
        let certificate = Certificate::from_bytes(certificate)?;
        match self.network.verify(&certificate, self.unix_s) {
            Err(CertificateError::NewerRoot) => self.judge_by_its_proof(&certificate),
            verified => verified,
        }
    }

    /// A certificate of the next root brings the proof of that along. One of a root behind the next waits: there is no
    /// signature to look at.
    fn judge_by_its_proof(&self, certificate: &Certificate) -> Result<Peer, CertificateError> {
        let fields = certificate.fields();
        let succession = fields.options.succession();
        let succession = succession.ok_or(CertificateError::NewerRoot)?;
        let mut network = self.network.clone();
        match network.succeed(&succession) {
            Ok(_) => network.verify(certificate, self.unix_s),
            Err(SuccessionError::Gap) => Err(CertificateError::NewerRoot),
            Err(_) => Err(CertificateError::BadSignature),
        }
    }
}

/// What a node tells of itself in its record.
struct Own<'a> {
    /// It answers how much of what was sealed for it has been opened.
    tallies: bool,
    /// It opens what is sealed for groups.
    group_keys: bool,
    /// It tells over which links packets to it are being lost.
    alarms: bool,
    endpoints: &'a [Endpoint],
    hosts: &'a [Endpoint],
    /// It offers itself as a neighbour, and keeps these links, by place.
    offer: Option<&'a [u8]>,
    bulk: Option<Bulk>,
    version: &'a str,
}

/// What is told besides the costs of links, as far as there is room.
fn write_options(w: &mut Writer<'_>, now: Time, links: &[&Link], own: &Own<'_>) {
    const BOUNDED: &str = "it bounds itself to what is left";
    let told = || (0u8..).zip(links);
    let usable = told().map(|(i, link)| (i, link.path.mtu.usable()));
    let usable: Vec<_> = usable
        .filter(|(_, usable)| *usable < mtu::DEFAULT)
        .collect();
    let capacities = told().map(|(i, link)| (i, link.capacity_kbps));
    let capacities: Vec<_> = capacities.filter(|(_, kbps)| *kbps > 0).collect();
    let carried = told().filter_map(|(i, link)| Some((i, link.carried?.told(now)?)));
    let carried: Vec<_> = carried.collect();
    let hops: Vec<_> = told()
        .filter_map(|(i, link)| Some((i, link.hops?)))
        .collect();
    write_usable(w, &usable).expect(BOUNDED);
    if own.tallies {
        write_tallies(w).expect(BOUNDED);
    }
    if own.group_keys {
        write_group_keys(w).expect(BOUNDED);
    }
    // Whoever offers itself no more is in no ring: it goes before what may be missing.
    if let Some(kept) = own.offer {
        write_offer(w, kept).expect(BOUNDED);
    }
    if own.alarms {
        let alarms = told().filter(|(_, link)| link.tells_alarm(now));
        let alarms: Vec<u8> = alarms.map(|(i, _)| i).collect();
        write_alarms(w, &alarms).expect(BOUNDED);
    }
    write_endpoints(w, own.endpoints).expect(BOUNDED);
    write_capacities(w, &capacities).expect(BOUNDED);
    if own.tallies && own.group_keys {
        write_group_tallies(w).expect(BOUNDED);
    }
    if let Some(bulk) = own.bulk {
        write_bulk(w, bulk).expect(BOUNDED);
    }
    write_hosts(w, own.hosts).expect(BOUNDED);
    let protections = told().filter_map(|(i, link)| Some((i, link.protection()?)));
    let mut protections: Vec<_> = protections.collect();
    // It matters most where most is lost.
    protections.sort_by_key(|(i, _)| Reverse(links[usize::from(*i)].announced_loss()));
    write_protections(w, &protections).expect(BOUNDED);
    write_link_rates(w, &carried).expect(BOUNDED);
    write_hops(w, &hops).expect(BOUNDED);
    write_version(w, own.version).expect(BOUNDED);
    let tunnels = told().filter(|(_, link)| link.is_over_stream());
    let tunnels: Vec<u8> = tunnels.map(|(i, _)| i).collect();
    write_tunnels(w, &tunnels).expect(BOUNDED);
}

impl Node {
    /// A link has come up or gone down: others are told at once.
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
        self.own_record_due = true;
        self.links.touch(index);
    }

    /// Weighs the present estimate of a link; marks the own record as due when it is to be told.
    pub(super) fn consider_cost(&mut self, now: Time, index: LinkIndex) {
        let link = self.links.at_mut(index);
        link.note_room(now);
        let cost = link.measured_cost(now);
        self.own_record_due |= link.announce.on_measure(now, cost).is_some();
        self.consider_lane(now, index);
    }

    /// The same for what is told of the protection of its real-time lane. The papers' nodes tell nothing of it.
    fn consider_lane(&mut self, now: Time, index: LinkIndex) {
        if self.settings.metric == MetricOf::Measured {
            let link = self.links.at_mut(index);
            let lane = link.lane(&self.settings.realtime.aims);
            self.own_record_due |= link.announce.on_lane(now, lane);
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
            self.tell_alarm(now);
        }
        self.own_record_due |= now >= self.router.database().refresh_at();
        self.router.database_mut().expire(now);
    }

    /// A link to this node has begun to lose packets, or has ceased to: others are told, if they have not been told of too
    /// many others of late.
    pub(super) fn tell_alarm(&mut self, now: Time) {
        self.own_record_due |= self.settings.alarms && self.alarms_told.try_take(now, 1.0);
    }

    /// Says what is new of the own links, and repairs the routes. Called once per flush.
    pub(super) fn update_routing(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if self.own_record_due && now >= self.own_record_after {
            self.own_record_due = false;
            self.own_record_after = now + OWN_RECORD_SPACING;
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
        // What became due on any link goes out in this flush.
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
        let kept = (0u8..).zip(&links).filter(|(_, link)| self.keeps(link));
        let kept: Vec<u8> = kept.map(|(place, _)| place).collect();
        let own = Own {
            offer: self.settings.find_links.then_some(&kept),
            group_keys: self.settings.sealing != Sealing::Off,
            alarms: self.settings.alarms,
            tallies: self.settings.audit && self.settings.sealing != Sealing::Off,
            endpoints: self.sightings.announced(),
            hosts: self.sightings.announced_hosts(),
            bulk: self.bulk,
            version: self.version,
        };
        write_options(&mut writer, now, &links, &own);
        let options = writer.written();
        let certificate = identity.certificate();
        let root = self.trusted.own_root.unwrap_or_default();
        let news = self
            .router
            .database_mut()
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
        let key = self
            .router
            .database_mut()
            .originate(now, what, |signed| {
                network.sign(identity, Context::LinkState, signed)
            })
            .expect("the longest record fits its buffer");
        // What an earlier start of this node has signed is recognised by the same certificate.
        let unix_s = self.unix_s(now);
        let proof = Proof {
            own: self.handshakes.identity(),
            network: self.handshakes.network(),
            signers: &self.signers,
            unix_s,
        };
        if let Some(peer) = proof.peer(self.handshakes.identity().certificate().as_bytes()) {
            self.enter_signer(&peer);
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
            let unix_s = self.unix_s(now);
            let proof = Proof {
                own: self.handshakes.identity(),
                network: self.handshakes.network(),
                signers: &self.signers,
                unix_s,
            };
            let budget = &mut self.links.at_mut(index).verifications;
            let origins = &mut self.origins;
            let verdict = self
                .router
                .database_mut()
                .on_record(now, index, &record, |claim| {
                    // Only what an origin has signed counts against it.
                    match budget.spend(now, || proof.judge(claim)) {
                        Judgement::Good | Judgement::Certified(_)
                            if !origins.take(now, claim.key().origin) =>
                        {
                            Judgement::TooMany
                        }
                        other => other,
                    }
                });
            self.on_verdict(now, index, verdict, out);
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
            Verdict::Own(_) => self.own_record_due = true,
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
            } => self.drop_one(Drop::TooManyRecords, out),
            Verdict::Dropped { .. } | Verdict::Known(_) | Verdict::Pending | Verdict::Stale(_) => {}
        }
    }

    fn on_accepted(&mut self, now: Time, key: Key, out: &mut impl Outbox<Node>) {
        out.report(Event::RecordAccepted { origin: key.origin });
        match key.kind {
            RecordKind::CERTIFICATE => {
                let certificate = self
                    .router
                    .database()
                    .certificate(key.origin)
                    .map(<[u8]>::to_vec);
                self.learn_root(now, certificate.as_deref(), out);
                let unix_s = self.unix_s(now);
                let network = self.handshakes.network();
                let proof = Proof {
                    own: self.handshakes.identity(),
                    network,
                    signers: &self.signers,
                    unix_s,
                };
                if let Some(peer) = certificate.and_then(|bytes| proof.peer(&bytes)) {
                    self.enter_signer(&peer);
                    self.retry_pending(now, out);
                }
            }
            RecordKind::REVOCATIONS | RecordKind::LATER_REVOCATIONS | RecordKind::SUCCESSION => {
                self.on_word_of_root(now, key, out);
            }
            RecordKind::LINK_STATE => {
                self.own_record_due |= self.router.database_mut().take_denial();
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

    pub(super) fn enter_signer(&mut self, peer: &Peer) {
        let signer = Signer {
            serial: peer.serial(),
            root: peer.root(),
            key: *peer.signing_key(),
            not_after_s: peer.not_after_s(),
        };
        let before = self.signers.insert(peer.address(), signer);
        // Whoever spoke in its name under an older root has said nothing.
        if before.is_some_and(|it| it.root < peer.root() && it.key != *peer.signing_key()) {
            self.router.database_mut().forget_words_of(peer.address());
        }
        if self.signers.len() > MAX_ORIGINS {
            self.signers
                .retain(|origin, _| self.router.database().certificate(*origin).is_some());
        }
    }

    /// Records that waited for the certificate that has just come. They are few, and each is
    /// looked at once: nobody's budget pays for them.
    pub(super) fn retry_pending(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let unix_s = self.unix_s(now);
        let proof = Proof {
            own: self.handshakes.identity(),
            network: self.handshakes.network(),
            signers: &self.signers,
            unix_s,
        };
        let verdicts = self
            .router
            .database_mut()
            .retry_pending(now, |claim| proof.judge(claim));
        for (from, verdict) in verdicts {
            self.on_verdict(now, from, verdict, out);
        }
    }

    pub(super) fn on_record_acks(&mut self, now: Time, index: LinkIndex, acks: &Acks<'_>) {
        for key in acks.iter() {
            self.flood.on_ack(now, index, key);
        }
    }

    /// The certificate that a neighbour has shown serves for its records too.
    pub(super) fn on_peer_certificate(
        &mut self,
        now: Time,
        peer: &Peer,
        out: &mut impl Outbox<Node>,
    ) {
        let body = peer.certificate().as_bytes();
        if let Ok(Some(key)) = self
            .router
            .database_mut()
            .insert_certificate(now, peer.root(), body)
        {
            self.enter_signer(peer);
            self.flood.on_record_accepted(key, None);
            self.retry_pending(now, out);
        }
    }
}
