//! The requests of clients and of the operator for groups: joins, settings and permits, and the limits of senders.

use super::Groups;
use crate::groups::{Change, Errand, Membership, Permit};
use crate::link_state::Database;
use crate::node::router::Router;
use crate::request::{Options, Reply, RequestError};
use base::token_bucket::TokenBucket;
use base::{ClientId, Duration, NodeAddr, Time, VirtualPort};
use secure::Identity;
use wire::certificate::GroupRange;
use wire::groups::{Setting, TreeBuilder, Ways};
use wire::ipc::Scheme;

/// The interval at which a client is notified that it sends to a group to which it may not send.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

/// How far a source may be ahead of its group's rate: an encoder's burst.
const POLICED_BURST: Duration = Duration::from_millis(250);

/// Number of clients for which the notification is remembered, and of groups for which dropped packets are counted; if
/// there are more, all are forgotten, and the clients are notified once more.
const REFUSING_MAX: usize = 1_024;

impl Groups {
    /// A client joins a group. Returns false if it is in the group at this port already.
    pub(in crate::node) fn join(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
        router: &mut Router,
    ) -> Result<bool, RequestError> {
        if !router.permits().may_receive(self.own, group) {
            return Err(RequestError::MayNotReceive { group });
        }
        let is_new = self
            .local
            .subscribers(group, port)
            .all(|known| known != client);
        let change = self
            .local
            .join(client, group, port, router.builder(group))?;
        self.on_own_change(group, change, router);
        Ok(is_new)
    }

    /// A client leaves a group.
    pub(in crate::node) fn leave(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
        router: &mut Router,
    ) -> Result<Reply, RequestError> {
        let change = self.local.leave(client, group, port);
        self.on_own_change(group, change, router);
        Ok(Reply::Left)
    }

    /// A client has gone, and with it its joins.
    pub(in crate::node) fn close(&mut self, client: ClientId, router: &mut Router) {
        for group in self.local.close(client) {
            self.on_own_change(group, Change::Left, router);
        }
    }

    fn on_own_change(&mut self, group: NodeAddr, change: Change, router: &mut Router) {
        if change != Change::Nothing && group.is_anycast() {
            router.touch();
        }
        if change == Change::Left {
            self.keys.received.leave(group);
            self.keys.waiting.leave(group);
        }
        if group.is_multicast() && router.builder(group) == TreeBuilder::Scribe {
            match change {
                Change::Entered => self.shared.ask(Errand::Join(group)),
                Change::Left => self.shared.ask(Errand::Leave(group)),
                Change::Nothing => {}
            }
        }
    }

    /// Returns true if places for groups have become free since a client's join was refused for lack of one.
    pub(in crate::node) fn take_has_places(&mut self) -> bool {
        self.local.take_has_places()
    }

    /// Sets how a group is to be carried, or withdraws this node's setting.
    pub(in crate::node) fn set(
        &mut self,
        unix_s: u64,
        (group, prefix): (NodeAddr, u8),
        setting: Option<Setting>,
        (identity, database): (&Identity, &Database),
    ) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(group) {
            return Err(RequestError::NotAGroup);
        }
        match setting {
            None => drop(self.local.unset(group, prefix)),
            Some(setting) => {
                check_may_set(identity, group, prefix)?;
                // Above every version that anybody has announced; of two operators, the later one wins.
                let known = database.membership().said_of(group, prefix);
                let above = known.map_or(0, |(_, known)| known.version.saturating_add(1));
                let version = above.max(unix_s as u32);
                self.local.set(Setting { version, ..setting })?;
            }
        }
        Ok(Reply::Done)
    }

    /// Sets who may send to a group and who may receive.
    pub(in crate::node) fn permit(
        &mut self,
        permit: Permit,
        identity: &Identity,
    ) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(permit.group) {
            return Err(RequestError::NotAGroup);
        }
        if !permit.is_open() {
            check_may_set(identity, permit.group, permit.prefix)?;
        }
        self.local.permit(permit)?;
        Ok(Reply::Done)
    }

    /// A client of this node has sent to a group to which it may not send. It is notified, but not for each packet.
    pub(in crate::node) fn refuse_sending(
        &mut self,
        now: Time,
        client: ClientId,
        group: NodeAddr,
    ) -> Result<(), RequestError> {
        if self.refused.len() >= REFUSING_MAX && !self.refused.contains_key(&group) {
            self.refused.clear();
        }
        *self.refused.entry(group).or_default() += 1;
        let again = self.refusing.get(&(client, group));
        if again.is_some_and(|again| now < *again) {
            return Ok(());
        }
        if self.refusing.len() >= REFUSING_MAX {
            self.refusing.clear();
        }
        self.refusing.insert((client, group), now + REFUSED_AGAIN);
        Err(RequestError::MayNotSend { group })
    }

    /// Returns the number of packets of this node's clients to a group that were dropped because the node may not send
    /// to it.
    pub(super) fn refused_packets(&self, group: NodeAddr) -> u64 {
        self.refused.get(&group).copied().unwrap_or(0)
    }

    /// Returns true if a source here may send this many bytes to a group now. Bytes above the group's rate would take
    /// what was promised to others.
    pub(in crate::node) fn police(
        &mut self,
        now: Time,
        group: NodeAddr,
        bytes: usize,
        router: &Router,
    ) -> bool {
        let setting = router.membership().setting(group);
        let Some(kbps) = setting
            .map(|setting| setting.rate_kbps)
            .filter(|kbps| *kbps > 0)
        else {
            return true;
        };
        let rate = f64::from(kbps) * 125.0;
        let burst = rate * POLICED_BURST.as_secs_f64();
        let new = || (kbps, TokenBucket::new(rate, burst, now));
        let policer = self.policers.entry(group).or_insert_with(new);
        if policer.0 != kbps {
            *policer = new();
        }
        policer.1.try_take(now, bytes as f64)
    }
}

/// Checks that this node's certificate covers the groups, because other nodes would ignore the announcement otherwise.
/// Withdrawing an announcement is always possible.
fn check_may_set(identity: &Identity, group: NodeAddr, prefix: u8) -> Result<(), RequestError> {
    let own = identity.certificate().fields();
    match GroupRange::new(group, prefix).is_ok_and(|range| own.may_set(range)) {
        true => Ok(()),
        false => Err(RequestError::MayNotSet { group, prefix }),
    }
}

/// Applies the settings of a group to the options of a sender.
pub(in crate::node) fn follow_setting(
    membership: &Membership,
    group: NodeAddr,
    options: &mut Options,
) {
    if let Some(setting) = membership.setting(group) {
        let scheme = match setting.ways {
            Ways::Two => Some(Scheme::Disjoint),
            Ways::Auto | Ways::One | Ways::Targeted => options.scheme,
        };
        options.class = setting.class;
        if let Some(scheme) = scheme {
            *options = options.routed_by(scheme);
        }
        options.aim = setting.aim.or(options.aim);
        if setting.deadline_ms > 0 {
            options.deadline = Some(Duration::from_millis(setting.deadline_ms.into()));
        }
    }
}
