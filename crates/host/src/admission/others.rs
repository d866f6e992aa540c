//! Lets an issuer renew members of another issuer that cannot be reached.
//!
//! ```text
//!   root ── delegation ──▶ issuer A ── certificate ──▶ home ── Renew ──▶ A (cannot be reached)
//!    │                                                   └──── Renew ──▶ B
//!    └── delegation of A's addresses, with serials of its own ──▶ issuer B ── certificate ──▶ home
//! ```
//! B has a second delegation, in addition to the one by which it invites: with the addresses and limits of A, and with
//! serials that nobody else has. Therefore, a certificate that B signs by it is an ordinary certificate, which nodes of
//! every version check as usual, and the root has decided whose members B may renew. B admits nobody by that
//! delegation. It only renews what another issuer has certified, for the same key, name and address, and enters it in
//! separate books.
//!
//! Nodes trust the certificate with the highest serial. If an issuer's serials are lower than that of the certificate
//! that it is shown, no node would accept what it signs, so it refuses and says why.

#[cfg(test)]
mod tests;

use super::books::{Books, Member};
use super::{Admission, Admitted, Known, MEMBERS_MAX, Refused, check_standing};
use crate::relay::failure::FailureKind;
use base::NodeAddr;
use secure::{Certificate, Issuer, Network};
use wire::certificate::{Delegation, GroupRange, KEY_BYTES};

/// A member of another issuer is renewed when this part of the lifetime of its certificate is left. Choice: a node asks
/// its own issuer from the last third on, so no node has to ask another issuer earlier; and no node can accumulate
/// certificates by asking both.
const LEFT_PART: u64 = 3;
/// Largest number of a member's certificates in addition to the present one. Choice: two issuers that renew it in turn,
/// and an authority, create some. A node that renews as intended does not need more.
const EARLIER_MAX: usize = 16;

/// Two delegations of one issuer have addresses in common, so its books could assign one address twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "two delegations of this issuer have the address {0} in common: remove one from `[issuer] renews`, or make it again by \
     `sinew net delegate DIR NODE --renews ISSUER`"
)]
pub struct Overlap(pub NodeAddr);

impl Admission {
    /// Returns the same admission, which also renews members of other issuers by these delegations, each with books of
    /// its own.
    ///
    /// # Errors
    /// Returns an error with an address that two of the delegations have in common.
    pub fn renewing(mut self, others: Vec<(Issuer, Books)>) -> Result<Admission, Overlap> {
        for (issuer, books) in others {
            let (first, last) = issuer.delegation().fields().addresses;
            let mut before = core::iter::once(&self).chain(&self.others);
            let common = before.find_map(|it| {
                let (other_first, other_last) = it.delegation().fields().addresses;
                let first = first.max(other_first);
                (first <= last.min(other_last)).then_some(first)
            });
            if let Some(common) = common {
                return Err(Overlap(common));
            }
            let other = Admission::new(issuer, self.endpoints.clone(), books);
            self.others.push(other);
        }
        Ok(self)
    }

    /// Renews the certificate `shown`, which has been checked and has `key`. The node is a member of this issuer, or of
    /// another one whose members this one may renew.
    pub fn renew_shown(
        &self,
        now_s: u64,
        shown: &Certificate,
        key: &[u8; KEY_BYTES],
        network: &Network,
        known: &impl Known,
    ) -> Result<Admitted, Refused> {
        let address = shown.fields().subject.address;
        if self.note(now_s, shown, key, network, known)? {
            return self.renew(now_s, address, key, known);
        }
        check_shown(now_s, shown, key, network)?;
        let other = self.others.iter().find(|other| other.gives(address));
        let other = other.ok_or_else(|| {
            Refused::unable(
                "this node did not issue that certificate, and has no delegation by which it may renew it: ask the issuer \
                 that did, or see `sinew net delegate --renews`",
            )
        })?;
        other.renew_for_another(now_s, shown, network, known)
    }

    /// Returns true for an address of its delegation.
    fn gives(&self, address: NodeAddr) -> bool {
        let (first, last) = self.delegation().fields().addresses;
        (first..=last).contains(&address)
    }

    /// Notes the certificate of a member of this issuer. Returns true if the issuer can renew the member. Another
    /// issuer may have renewed it before: as long as that certificate is valid, the address of the member is not free,
    /// and to revoke the member, that certificate has to be revoked, too.
    fn note(
        &self,
        now_s: u64,
        shown: &Certificate,
        key: &[u8; KEY_BYTES],
        network: &Network,
        known: &impl Known,
    ) -> Result<bool, Refused> {
        let mut books = self.books();
        let Some(mut member) = at(&books, shown.fields().subject.address) else {
            return Ok(false);
        };
        if member.key != *key {
            return Ok(false);
        }
        check_standing(&member, known)?;
        let text = shown.to_text();
        if !member.certificates().contains(&text) && network.verify(shown, now_s).is_ok() {
            member.earlier.push(text);
            check_earlier(&mut member, now_s)?;
            books.correct(member)?;
        }
        self.check_serials(books.next_serial(), shown, network)?;
        Ok(true)
    }

    /// Refuses if the next certificate would have a lower serial than the present one, because no node would accept it.
    /// A newer root takes precedence over all serials.
    fn check_serials(&self, next: u32, shown: &Certificate, of: &Network) -> Result<(), Refused> {
        let root = of.root_of_delegation(self.delegation());
        if (root, next) > rank(shown, of) {
            return Ok(());
        }
        Err(Refused::unable(
            "a later delegation has renewed that certificate, and nodes take no lower serial: ask the issuer that has signed \
             it, or make the delegation of this one again by `sinew net delegate` and restart it",
        ))
    }

    /// Renews the certificate of a member of another issuer, by these books, which are kept for that issuer's members.
    fn renew_for_another(
        &self,
        now_s: u64,
        shown: &Certificate,
        network: &Network,
        known: &impl Known,
    ) -> Result<Admitted, Refused> {
        let own = self.delegation();
        if network.is_revoked(own.fields().serial) || now_s > super::ends_s(own, network) {
            return Err(Refused::unable(
                "the delegation by which this issuer renews such certificates has ended or was revoked: make it again by \
                 `sinew net delegate --renews`",
            ));
        }
        check_within(&own.fields(), shown)?;
        let subject = shown.fields().subject;
        let mut books = self.books();
        books.forget_expired(now_s);
        let before = at(&books, subject.address);
        if let Some(member) = &before {
            self.check_same(member, now_s, shown, known)?;
            if self.is_newest(member, now_s, shown, network) {
                return Ok(self.admitted(&books, member, true));
            }
        }
        self.check_serials(books.next_serial(), shown, network)?;
        self.check_due(now_s, shown, network)?;
        if before.is_none() && books.members().len() >= MEMBERS_MAX {
            return Err(Refused {
                kind: FailureKind::Busy,
                text: format!(
                    "this issuer renews {MEMBERS_MAX} members of the other one, as many as it keeps"
                ),
            });
        }
        let same = before.filter(|member| member.key == subject.signing_key);
        let earlier = same.map_or_else(Vec::new, |member| member.certificates());
        let mut member = as_member(shown, earlier);
        check_earlier(&mut member, now_s)?;
        let member = self.certify(&mut books, now_s, member)?;
        Ok(self.admitted(&books, &member, false))
    }

    /// Refuses a key if one of its certificates was revoked. Also refuses if another key has a valid certificate for
    /// this address.
    fn check_same(
        &self,
        member: &Member,
        now_s: u64,
        shown: &Certificate,
        known: &impl Known,
    ) -> Result<(), Refused> {
        let subject = shown.fields().subject;
        if member.key == subject.signing_key {
            return check_standing(member, known);
        }
        if member.ends_s() < now_s {
            return Ok(());
        }
        Err(Refused::forbidden(format!(
            "another key has a certificate for {} that has not ended: if that host is gone, revoke it (`sinew invite --show \
             {}`)",
            subject.address, member.name
        )))
    }

    /// Returns true if it was already renewed here and the answer was lost: then it gets the same certificate again.
    fn is_newest(&self, member: &Member, now_s: u64, shown: &Certificate, of: &Network) -> bool {
        let Ok(last) = Certificate::from_text(&member.certificate) else {
            return false;
        };
        rank(&last, of) >= rank(shown, of)
            && of.root_of(&last) >= of.root_of_delegation(self.delegation())
            && self.has_enough(member, now_s)
    }

    /// Refuses a certificate with time left, in which its own issuer may come back, unless it is of an older root than
    /// this delegation.
    fn check_due(&self, now_s: u64, shown: &Certificate, network: &Network) -> Result<(), Refused> {
        let fields = shown.fields();
        let left_s = fields.not_after_s.saturating_sub(now_s);
        let lifetime_s = fields.not_after_s - fields.not_before_s;
        let is_outdated = network.root_of(shown) < network.root_of_delegation(self.delegation());
        if left_s <= lifetime_s / LEFT_PART || is_outdated {
            return Ok(());
        }
        Err(Refused::forbidden(format!(
            "that certificate has {left_s} s left: another issuer renews it in the last third of its time only"
        )))
    }
}

/// Forgets expired certificates, and refuses a member that has too many others besides its present certificate.
fn check_earlier(member: &mut Member, now_s: u64) -> Result<(), Refused> {
    member.forget_ended(now_s);
    match member.earlier.len() <= EARLIER_MAX {
        true => Ok(()),
        false => Err(Refused::forbidden(
            "this node has too many certificates that have not ended: wait until some have",
        )),
    }
}

fn at(books: &Books, address: NodeAddr) -> Option<Member> {
    let mut members = books.members().iter();
    members.find(|member| member.address == address).cloned()
}

/// Returns the rank of a certificate. If a node has two certificates, the one with the higher rank is used.
fn rank(certificate: &Certificate, of: &Network) -> (Option<u8>, u32) {
    (of.root_of(certificate), certificate.fields().serial)
}

/// Refuses a certificate that is not valid now, belongs to another node, or was not signed by an issuer.
fn check_shown(
    now_s: u64,
    shown: &Certificate,
    key: &[u8; KEY_BYTES],
    network: &Network,
) -> Result<(), Refused> {
    let judged = network.verify(shown, now_s);
    let peer = judged
        .map_err(|why| Refused::forbidden(format!("that certificate is not renewed: {why}")))?;
    if peer.signing_key() != key {
        return Err(Refused::forbidden(
            "that certificate is of another key: show the one of this host",
        ));
    }
    match shown.fields().options.delegation() {
        Some(_) => Ok(()),
        None => Err(Refused::forbidden(
            "the root key has certified this node, and no issuer: renew it by `sinew net renew`",
        )),
    }
}

/// Refuses what this delegation does not permit. Nothing is left out silently, because a node without its domains or
/// tags would look as if it worked.
fn check_within(own: &Delegation<'_>, shown: &Certificate) -> Result<(), Refused> {
    let fields = shown.fields();
    let subject = fields.subject;
    let refused = |what: &str| {
        Err(Refused::forbidden(format!(
            "the delegation by which this issuer renews such certificates does not permit {what}: make it again by `sinew \
             net delegate --renews`"
        )))
    };
    if !subject.name.ends_with(own.names) {
        return refused(&format!("the name `{}`", subject.name));
    }
    if let Some(domain) = subject.domains.iter().find(|it| !own.permits(it)) {
        return refused(&format!("the domain `{domain}`"));
    }
    if let Some(tag) = fields.options.tags().iter().find(|it| !own.permits_tag(it)) {
        return refused(&format!("the tag `{tag}`"));
    }
    let bound = own.bound();
    let is_given = |range: &GroupRange| bound.as_ref().is_none_or(|it| it.covers(*range));
    match fields.groups().iter().find(|range| !is_given(range)) {
        Some(range) => refused(&format!("to set the groups {range}")),
        None => Ok(()),
    }
}

/// Creates the entry for the books, as the certificate says.
fn as_member(shown: &Certificate, mut earlier: Vec<String>) -> Member {
    let fields = shown.fields();
    let subject = fields.subject;
    let text = shown.to_text();
    if !earlier.contains(&text) {
        earlier.push(text);
    }
    Member {
        name: subject.name.to_owned(),
        address: subject.address,
        key: subject.signing_key,
        static_key: subject.static_key,
        domains: subject.domains.iter().map(str::to_owned).collect(),
        groups: fields.groups(),
        tags: fields.options.tags().iter().map(str::to_owned).collect(),
        endpoints: Vec::new(),
        invitation: String::new(),
        // These fields are set when it is certified.
        serial: 0,
        not_after_s: 0,
        certificate: String::new(),
        earlier,
    }
}
