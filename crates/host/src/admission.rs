//! Hosts become nodes here: the issuer's books, and its answers to hosts that show an invitation.
//!
//! ```text
//!   sinew invite ──▶ invitations/HASH.json        sinew join TOKEN ═ TLS ═▶ relay's door ─▶ Admission
//!                         │ read                                                            │
//!                         └──────────────────────────────────────────────▶ members.json ◀───┘
//! ```
//! The books contain only the hash of an invitation's secret, so a reader of the books cannot join. The command writes
//! invitations and the node reads them. Only the node writes members, and it does so before it answers: a serial and an
//! address are assigned once, even if the node is interrupted in between. A host that asks again with the same key gets
//! the same certificate, so a lost answer costs nothing, and a token that is stolen after its last use is worthless.

mod books;
mod others;
#[cfg(test)]
mod tests;

pub(crate) use books::as_hex;
pub use books::{Books, BooksError, Invitation, Member, hash_of};
pub use others::Overlap;

use crate::relay::failure::FailureKind;
use crate::renewal::Place;
use base::NodeAddr;
use secure::{Certificate, Delegation, Issuer, Network, Newcomer, Revocations};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::Full;
use wire::bytes::{Reader, Writer};
use wire::certificate::{GroupRange, KEY_BYTES, is_like_address};
use wire::relay::join::{Issuers, Join, Joined, Neighbors};

/// Number of nodes that a newcomer is told about, in addition to the issuer. Choice: with the issuer it makes four
/// links, so that the failure of any two of them leaves it connected.
const INTRODUCED: usize = 3;
/// Size limit for these nodes in the answer: four with eight endpoints each.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// Number of members in the books. Choice: the addresses of a /22, which is more than one link-state network has.
const MEMBERS_MAX: usize = 1_024;

/// The admission of new nodes by this node.
#[derive(Debug)]
pub struct Admission {
    issuer: Issuer,
    /// The endpoints of this node.
    endpoints: Vec<String>,
    books: Mutex<Books>,
    /// One entry for each other issuer whose members this one renews.
    others: Vec<Admission>,
    /// Issuers that may renew the members of this one. Members of other issuers know theirs from their own issuer.
    renewed_by: Vec<Place>,
}

/// The answer to an admitted newcomer.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its certificate.
    pub certificate: Certificate,
    /// Nodes that it can dial, beginning with this one: address, name, endpoints.
    pub neighbors: Vec<(NodeAddr, String, Vec<String>)>,
    /// Other issuers that may renew the certificate.
    pub tells_of: Vec<Place>,
    /// True if it was issued before and is only sent again.
    pub is_repeated: bool,
}

/// Why a host is not admitted, and who has to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of failure, which says who has to act.
    pub kind: FailureKind,
    /// Why, and what to do.
    pub text: String,
}

impl Refused {
    fn forbidden(text: impl Into<String>) -> Refused {
        Refused {
            kind: FailureKind::Forbidden,
            text: text.into(),
        }
    }

    /// Creates a refusal that says that this issuer cannot do it, and another one may: the node then asks other
    /// issuers.
    pub(crate) fn unable(text: impl Into<String>) -> Refused {
        Refused {
            kind: FailureKind::Unusable,
            text: text.into(),
        }
    }
}

impl From<BooksError> for Refused {
    fn from(error: BooksError) -> Refused {
        Refused {
            kind: FailureKind::File,
            text: format!("the issuer's books: {error}"),
        }
    }
}

/// The node's knowledge of its network, in addition to the issuer's books.
pub trait Known {
    /// Returns true if another node has this name.
    fn has_name(&self, name: &str) -> bool;
    /// Returns true if another node has this address.
    fn has_address(&self, address: NodeAddr) -> bool;
    /// Returns true if the certificate was revoked.
    fn has_revoked(&self, certificate: &Certificate) -> bool;
}

/// Refuses a member if one of its certificates was revoked.
fn check_standing(member: &Member, known: &impl Known) -> Result<(), Refused> {
    let is_out = |text: &String| {
        Certificate::from_text(text).is_ok_and(|certificate| known.has_revoked(&certificate))
    };
    match member.certificates().iter().any(is_out) {
        false => Ok(()),
        true => Err(Refused::forbidden(
            "this key was revoked: to come back, delete node.key and join by a new token and name",
        )),
    }
}

/// Returns the last second in which an issuer may certify by this delegation. If the root key that signed it was
/// replaced, it ends with the time of that key.
pub fn ends_s(delegation: &Delegation, network: &Network) -> u64 {
    let root = network.root_of_delegation(delegation);
    let until_s = root.and_then(|root| network.counts_until_s(root));
    let not_after_s = delegation.fields().not_after_s;
    not_after_s.min(until_s.unwrap_or(u64::MAX))
}

impl Admission {
    /// Admits what the issuer may sign, by these books. Other nodes reach this node at `endpoints`.
    pub fn new(issuer: Issuer, endpoints: Vec<String>, books: Books) -> Admission {
        Admission {
            issuer,
            endpoints,
            books: Mutex::new(books),
            others: Vec::new(),
            renewed_by: Vec::new(),
        }
    }

    /// Returns the same admission, which also tells its members about these other issuers.
    #[must_use]
    pub fn renewed_by(self, renewed_by: Vec<Place>) -> Admission {
        Admission { renewed_by, ..self }
    }

    /// Returns the delegation, which says what it may certify.
    pub fn delegation(&self) -> &Delegation {
        self.issuer.delegation()
    }

    /// Returns the same delegation, and those by which it renews members of other issuers.
    pub fn delegations(&self) -> impl Iterator<Item = &Delegation> {
        core::iter::once(self)
            .chain(&self.others)
            .map(Admission::delegation)
    }

    /// Returns the address of this node.
    pub fn own(&self) -> NodeAddr {
        self.issuer.identity().address()
    }

    /// Handles an invitation from a host that has proved to have `key`. `known` knows names and addresses of nodes that
    /// are not in the books, and revocations.
    pub fn join(
        &self,
        now_s: u64,
        ask: &Join<'_>,
        key: &[u8; KEY_BYTES],
        known: &impl Known,
    ) -> Result<Admitted, Refused> {
        let invitation = hash_of(&ask.secret);
        let mut books = self.books();
        let invited = books.invitation(&invitation)?.ok_or_else(|| {
            Refused::forbidden(
                "this token opens nothing here: it was withdrawn, or copied badly; ask for a new one",
            )
        })?;
        let mut members = books.members().iter();
        let earlier = members.find(|member| member.key == *key).cloned();
        if let Some(member) = earlier.as_ref().filter(|it| it.invitation == invitation) {
            if !self.is_outdated(member) {
                return Ok(self.admitted(&books, member, true));
            }
            check_standing(member, known)?;
            return self.certify_again(&mut books, now_s, member.clone());
        }
        if now_s > invited.expires_s {
            return Err(Refused::forbidden(
                "this token has expired: ask for a new one",
            ));
        }
        if books.uses(&invitation) >= invited.uses {
            return Err(Refused::forbidden(
                "this token has been used: ask for a new one",
            ));
        }
        let (name, address) = match &earlier {
            // The node has lost its certificate, or it has expired: the node keeps its name and address.
            Some(member) => {
                check_standing(member, known)?;
                (member.name.clone(), member.address)
            }
            None => {
                let name = invited.name.as_deref().unwrap_or(ask.name);
                (name.to_owned(), self.place(&mut books, now_s, name, known)?)
            }
        };
        // At joining, the node gets all that was promised or a refusal. At a renewal, it gets what the issuer may still
        // give.
        let delegation = self.issuer.delegation().fields();
        if let Some(tag) = invited.tags.iter().find(|tag| !delegation.permits_tag(tag)) {
            return Err(Refused::forbidden(format!(
                "the issuer may not give the tag `{tag}` of this token: restart its node if it has a new delegation"
            )));
        }
        let endpoints = ask.endpoints.iter().filter(|text| is_endpoint(text));
        let member = Member {
            name,
            address,
            key: *key,
            static_key: ask.static_key,
            domains: invited.domains,
            groups: invited.groups,
            tags: invited.tags,
            endpoints: endpoints.map(str::to_owned).collect(),
            invitation,
            // These fields are set when it is certified.
            serial: 0,
            not_after_s: 0,
            certificate: String::new(),
            earlier: earlier.as_ref().map_or_else(Vec::new, Member::certificates),
        };
        let member = self.certify(&mut books, now_s, member)?;
        Ok(self.admitted(&books, &member, false))
    }

    /// Renews the certificate of a node that was admitted here and has proved its identity. If more than half of the
    /// lifetime of its present certificate is left, or the next one would expire no later, the node gets the present
    /// one again, so that nobody can accumulate certificates. This does not hold if the issuer has since received a
    /// delegation of a newer root.
    pub fn renew(
        &self,
        now_s: u64,
        address: NodeAddr,
        key: &[u8; KEY_BYTES],
        known: &impl Known,
    ) -> Result<Admitted, Refused> {
        let mut books = self.books();
        let mut members = books.members().iter();
        let found = members.find(|member| member.address == address && member.key == *key);
        let member = found.cloned().ok_or_else(|| {
            Refused::forbidden("this node did not issue that certificate: ask the one that did")
        })?;
        check_standing(&member, known)?;
        if self.has_enough(&member, now_s) && !self.is_outdated(&member) {
            return Ok(self.admitted(&books, &member, true));
        }
        self.certify_again(&mut books, now_s, member)
    }

    /// Returns true if more than half of the lifetime of its certificate is left, or if the certificate expires no
    /// earlier than the next one would, because the delegation ends.
    fn has_enough(&self, member: &Member, now_s: u64) -> bool {
        let lifetime_s = u64::from(self.delegation().fields().lifetime_s);
        let next_s = self.issuer.validity(now_s).not_after_s;
        let gains_nothing = (now_s..=member.not_after_s).contains(&next_s);
        member.not_after_s > now_s + lifetime_s / 2 || gains_nothing
    }

    /// Returns true if its certificate is of an older root than this issuer's delegation.
    fn is_outdated(&self, member: &Member) -> bool {
        let present = Certificate::from_text(&member.certificate);
        present.is_ok_and(|present| self.issuer.outdates(&present))
    }

    fn certify_again(
        &self,
        books: &mut Books,
        now_s: u64,
        member: Member,
    ) -> Result<Admitted, Refused> {
        let member = Member {
            earlier: member.certificates(),
            ..member
        };
        let member = self.certify(books, now_s, member)?;
        Ok(self.admitted(books, &member, false))
    }

    /// Assigns an address to a newcomer of this name.
    fn place(
        &self,
        books: &mut Books,
        now_s: u64,
        name: &str,
        known: &impl Known,
    ) -> Result<NodeAddr, Refused> {
        if !is_host_name(name) {
            return Err(Refused::forbidden(
                "not a name for a node: use letters, digits, `-`, `_` and `.`, and no address, as --name",
            ));
        }
        books.forget_expired(now_s);
        if books.members().len() >= MEMBERS_MAX {
            return Err(Refused {
                kind: FailureKind::Busy,
                text: format!("this issuer has {MEMBERS_MAX} members, as many as it keeps"),
            });
        }
        // Names that differ only in capitals are the same name for the DNS and for people.
        let is_same = |other: &str| other.eq_ignore_ascii_case(name);
        if books.members().iter().any(|member| is_same(&member.name))
            || is_same(self.issuer.identity().name())
            || known.has_name(name)
        {
            return Err(Refused::forbidden(format!(
                "another node is called `{name}`: choose a name by --name"
            )));
        }
        let (first, last) = self.issuer.delegation().fields().addresses;
        let is_free = |address: &NodeAddr| {
            *address != self.own()
                && !books
                    .members()
                    .iter()
                    .any(|member| member.address == *address)
                && !known.has_address(*address)
        };
        let mut addresses = (first.0..=last.0).map(NodeAddr);
        addresses.find(is_free).ok_or_else(|| Refused {
            kind: FailureKind::Busy,
            text: format!("no overlay address is left between {first} and {last}"),
        })
    }

    /// Signs a certificate, and stores it before it is sent to anybody.
    fn certify(
        &self,
        books: &mut Books,
        now_s: u64,
        mut member: Member,
    ) -> Result<Member, Refused> {
        let serial = books.next_serial();
        let domains: Vec<&str> = member.domains.iter().map(String::as_str).collect();
        // A new delegation may permit it to give less.
        let delegation = self.issuer.delegation().fields();
        let bound = delegation.bound();
        let is_given = |range: &GroupRange| bound.as_ref().is_none_or(|it| it.covers(*range));
        let groups: Vec<GroupRange> = member.groups.iter().copied().filter(is_given).collect();
        let tags = member.tags.iter().map(String::as_str);
        let tags: Vec<&str> = tags.filter(|tag| delegation.permits_tag(tag)).collect();
        let newcomer = Newcomer {
            address: member.address,
            name: &member.name,
            static_key: member.static_key,
            signing_key: member.key,
            domains: &domains,
            groups: &groups,
            tags: &tags,
        };
        let validity = self.issuer.validity(now_s);
        let issued = self.issuer.issue(&newcomer, serial, validity);
        let is_over = now_s > delegation.not_after_s || serial > delegation.serials.1;
        let certificate = issued.map_err(|why| match is_over {
            true => Refused::unable(why.to_string()),
            false => Refused::forbidden(why.to_string()),
        })?;
        member.serial = serial;
        member.forget_ended(now_s);
        member.not_after_s = validity.not_after_s;
        member.certificate = certificate.to_text();
        books.enter(member.clone())?;
        Ok(member)
    }

    fn admitted(&self, books: &Books, member: &Member, is_repeated: bool) -> Admitted {
        let own = self.issuer.identity();
        let mut neighbors = vec![(own.address(), own.name().to_owned(), self.endpoints.clone())];
        // Choose other neighbours than for the newcomer before, so that newcomers do not all dial the same ones.
        let others: Vec<&Member> = books
            .members()
            .iter()
            .filter(|other| other.address != member.address && !other.endpoints.is_empty())
            .filter(|other| other.not_after_s >= member.not_before_s())
            .collect();
        let from = member.serial as usize % others.len().max(1);
        let introduced = others.iter().cycle().skip(from);
        for other in introduced.take(INTRODUCED.min(others.len())) {
            neighbors.push((other.address, other.name.clone(), other.endpoints.clone()));
        }
        Admitted {
            certificate: Certificate::from_text(&member.certificate)
                .expect("the books hold what was signed here"),
            neighbors,
            tells_of: self.renewed_by.clone(),
            is_repeated,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a name may appear in configurations, in the DNS and in file names. Other nodes get a newcomer's
/// name, and it must not look like an address where nodes are named.
fn is_host_name(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(is_part)
        && !is_like_address(name)
}

/// Returns true if the text looks like a host and port. The nodes that dial it check it completely.
pub(crate) fn is_endpoint(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-_.:[]%".contains(&b);
    text.contains(':') && text.bytes().all(is_part)
}

/// Passes to `send` what the issuer's members are told about other issuers.
pub(crate) fn tell_of(
    issuers: &[Place],
    send: impl FnOnce(Issuers<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let issuers = issuers.iter();
    let issuers: Vec<_> = issuers
        .map(|it| (it.key, it.endpoints.as_slice()))
        .collect();
    let mut room = vec![0; ANSWER_BYTES_MAX];
    let mut w = Writer::new(&mut room);
    let too_long = |Full| io::Error::from(io::ErrorKind::InvalidInput);
    Issuers::emit(&issuers, &mut w).map_err(too_long)?;
    let issuers = Issuers::parse(Reader::new(w.written()));
    send(issuers.map_err(io::Error::other)?)
}

/// Passes to `send` the answer for an admitted host, with the roots that the issuer trusts.
pub(crate) fn answer(
    admitted: &Admitted,
    (trust, is_renewal): (&Network, bool),
    send: impl FnOnce(Joined<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let too_long = |Full| io::Error::from(io::ErrorKind::InvalidInput);
    let nodes = admitted.neighbors.iter();
    let nodes: Vec<(NodeAddr, &str, &[String])> = nodes
        .map(|(address, name, endpoints)| (*address, name.as_str(), endpoints.as_slice()))
        .collect();
    let mut room = vec![0; ANSWER_BYTES_MAX];
    let mut w = Writer::new(&mut room);
    Neighbors::emit(&nodes, &mut w).map_err(too_long)?;
    let neighbors = Neighbors::parse(&mut Reader::new(w.written()));
    // A token names the first root, so a node that joins needs the later roots to check what it gets. A node that
    // renews knows them, or gets them with a certificate of a newer root. Older versions could not parse them.
    let is_of_first = trust.root_of(&admitted.certificate) == Some(0);
    let chain = match is_renewal && is_of_first {
        true => Vec::new(),
        false => trust.chain_bytes(),
    };
    send(Joined {
        certificate: admitted.certificate.as_bytes(),
        revocations: trust.revocations().map_or(&[], Revocations::as_bytes),
        neighbors: neighbors.map_err(io::Error::other)?,
        chain: &chain,
    })
}
