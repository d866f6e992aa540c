//! The body of a groups record: the multicast and anycast groups of which a node has members, and
//! what it knows of how groups are to be carried. Signed by the node, flooded like its links.
//! [Brogle09 §II]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            origin                             |   0
//! +---------------------------------------------------------------+
//! |                        sequence number                        |   4
//! +-------------------------------+-------------------------------+
//! |          lifetime, s          |     certificate serial ..     |   8
//! +-------------------------------+---------------+---------------+
//! |     .. certificate serial     |     flags     |     part      |  12
//! +-+-------------+---------------+---------------+---------------+
//! |C|    type     |            length             | value ...     |  16, items
//! +-+-------------+-------------------------------+---------------+
//! |                     signature, 64 bytes                       |
//! +---------------------------------------------------------------+
//! ```
//!
//! A node has up to [`PARTS`] such records, each a [`RecordKind`] of its own, so that one join
//! renews 1200 bytes at most; the part stands in the body because the kind is not signed. Items
//! that are not known here are kept and flooded unchanged, unless they are critical (C): then the
//! record is not used.
//!
//! Item 1, members: n times the address of a group (4 bytes). Item 2, settings: n times
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                             group                             |
//! +---------------------------------------------------------------+
//! |                            version                            |  the highest counts, of whomever
//! +---------------+---------------+-------------------------------+
//! | wide  | tree  |     class     |         deadline, ms          |  tree: 0 link state, 1 Scribe
//! +---------------+---------------+-------------------------------+
//! |                          rate, kbit/s                         |  0 no requirement
//! +---------------------------------------------------------------+
//! ```
//!
//! Item 3, settings in full: n times the same, and behind each
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  ways, 1 or 2 |   delivery    |          release, ms          |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Delivery: 0 as each socket says, 1 as it comes, 2 in order, 3 as sent; release only of 3, 0 for as late
//! as repairs need. A setting that says nothing of these stands in item 2, so that nodes that do not know item 3 read it.
//!
//! Item 4, who may: n times
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                            group                             |
//! +---------------+---------------+---------------+---------------+
//! |R|S|   wide    |    senders    |   receivers   | length, word  |  R, S: who receives, who sends is limited
//! +---------------+---------------+---------------+---------------+
//! ```
//!
//! Each word names nodes (`overlay::groups::permits` says how), the senders' before the receivers'. Who is not
//! named may not; what several permits say of a group counts together, whoever says it.
//!
//! Item 5, ways: a byte for each setting of items 2 and 3, in their order: 1 one way, 2 targeted; what is missing or not
//! known says nothing. Two ways stand in item 3. A node that does not know item 5 reads the settings without it: one
//! way, as every node takes where nothing is said and nothing is to be protected.
//!
//! Item 6, aims: three bytes for each setting of items 2 and 3, in their order, as [`Aim`] has them; what is missing says nothing.
//! A node that does not know item 6 repairs packets to a group as its own settings say.
//!
//! A setting is for a group, or for all whose addresses begin with the same bits: `wide` (6 bits, above
//! two of `tree`) is how many of the last bits may differ, 0 for one group. The longest range counts.

use crate::bytes::{Reader, Writer};
use crate::control::CRITICAL;
use crate::data::Class;
use crate::ipc::Delivery;
use crate::record::{BODY_BYTES_MAX, Key, RecordKind, RecordSeq};
use crate::{Aim, Full, Malformed};
use base::{Duration, NodeAddr};

/// What stands in front of the signed bytes when they are signed.
pub const SIGNATURE_CONTEXT: &[u8] = b"sinew groups 1";
/// Bytes of the signature.
pub const SIGNATURE_BYTES: usize = 64;
/// Bytes in front of the items.
pub const FIXED_BYTES: usize = 16;
/// Bytes in front of an item's value.
pub const ITEM_HEADER_BYTES: usize = 3;
/// Records of one node.
pub const PARTS: usize = 8;
/// Bytes of items in one record: 1200 - 16 - 64 = 1120.
pub const ITEMS_BYTES_MAX: usize = BODY_BYTES_MAX - FIXED_BYTES - SIGNATURE_BYTES;
/// Bytes of a group in an item of members.
pub const GROUP_BYTES: usize = 4;
/// Groups in one record without settings: (1120 - 3) / 4 = 279.
pub const GROUPS_MAX: usize = (ITEMS_BYTES_MAX - ITEM_HEADER_BYTES) / GROUP_BYTES;
/// Bytes of one setting.
pub const SETTING_BYTES: usize = 16;
/// Bytes of one setting in full.
pub const FULL_SETTING_BYTES: usize = SETTING_BYTES + 4;
/// The most bytes that one setting takes in items 2, 3 and 5: one says how many ways.
pub const SETTING_BYTES_MAX: usize = FULL_SETTING_BYTES + 1;
/// Settings in one record without members and aims, all of them in full and with ways: (1120 - 3 · 3) / 21 = 52.
pub const SETTINGS_MAX: usize = (ITEMS_BYTES_MAX - 3 * ITEM_HEADER_BYTES) / SETTING_BYTES_MAX;
/// The same where some have aims: (1120 - 4 · 3) / 24 = 46.
pub const SETTINGS_WITH_AIMS_MAX: usize =
    (ITEMS_BYTES_MAX - 4 * ITEM_HEADER_BYTES) / (SETTING_BYTES_MAX + Aim::BYTES);

const MEMBERS: u8 = 1;
const SETTINGS: u8 = 2;
const FULL_SETTINGS: u8 = 3;
const PERMITS: u8 = 4;
const WAYS: u8 = 5;
const AIMS: u8 = 6;

/// Bytes of a permit without its words.
pub const PERMIT_BYTES: usize = 7;
/// The longest word of a permit: a domain, and the sign that it is one.
pub const WORD_BYTES_MAX: usize = crate::certificate::MAX_DOMAIN_BYTES + 1;
const SENDING: u8 = 0x40;
const RECEIVING: u8 = 0x80;

/// Who builds the tree of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeBuilder {
    /// Every node, from the link state: shortest paths from each source.
    #[default]
    LinkState,
    /// Scribe: one shared tree along routes of Pastry, for very many groups. [Brogle09 §I]
    Scribe,
}

impl TreeBuilder {
    /// A short stable word.
    pub const fn label(self) -> &'static str {
        match self {
            TreeBuilder::LinkState => "link-state",
            TreeBuilder::Scribe => "scribe",
        }
    }
}

/// How many ways packets to a group take to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ways {
    /// Nothing is said: each node does as its own settings say.
    #[default]
    Auto,
    /// One, whatever happens.
    One,
    /// One, and a second one to each member that it leads to through trouble.
    Targeted,
    /// Two, as far apart as the network lets them be.
    Two,
}

impl Ways {
    /// All of them.
    pub const ALL: [Ways; 4] = [Ways::Auto, Ways::One, Ways::Targeted, Ways::Two];

    /// A short stable word.
    pub const fn label(self) -> &'static str {
        match self {
            Ways::Auto => "auto",
            Ways::One => "1",
            Ways::Targeted => "targeted",
            Ways::Two => "2",
        }
    }

    /// The one of a word.
    pub fn of_label(word: &str) -> Option<Ways> {
        Ways::ALL.into_iter().find(|ways| ways.label() == word)
    }

    /// As item 5 tells it.
    const fn code(self) -> u8 {
        match self {
            Ways::Auto | Ways::Two => 0,
            Ways::One => 1,
            Ways::Targeted => 2,
        }
    }

    /// What item 3 says, or else what item 5 does. What is not known says nothing.
    const fn or_code(self, code: u8) -> Ways {
        match (self, code) {
            (Ways::Auto, 1) => Ways::One,
            (Ways::Auto, 2) => Ways::Targeted,
            _ => self,
        }
    }
}

/// How a group is to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The group, or the first of a range of groups.
    pub group: NodeAddr,
    /// How many bits the groups of the range have in common, 4 to 32; 32 for one group.
    pub prefix: u8,
    /// The highest counts.
    pub version: u32,
    /// Who builds its tree.
    pub tree: TreeBuilder,
    /// The class of its packets.
    pub class: Class,
    /// How soon its packets must be there, in milliseconds; 0 if it does not matter.
    pub deadline_ms: u16,
    /// What its sources send together, in kbit/s; 0 if that is not known.
    pub rate_kbps: u32,
    /// How many ways its packets take to each member.
    pub ways: Ways,
    /// In which order and when packets reach its members; none if each socket says that itself.
    pub delivery: Option<Delivery>,
    /// What may stay lost of its packets, and what their repair may cost.
    pub aim: Aim,
}

/// A view of a record's body. Everything but the signature itself has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    /// Whose groups these are.
    pub origin: NodeAddr,
    /// Which edition this is.
    pub seq: RecordSeq,
    /// For how long the record is valid, counted from its making.
    pub lifetime_s: u16,
    /// The certificate whose key has signed.
    pub certificate_serial: u32,
    /// Reserved: 0.
    pub flags: u8,
    /// Which of the node's records, below [`PARTS`].
    pub part: u8,
    body: &'a [u8],
    items: &'a [u8],
}

impl<'a> Groups<'a> {
    /// Reads the body of a record of this kind.
    pub fn parse(kind: RecordKind, body: &'a [u8]) -> Result<Groups<'a>, Malformed> {
        let unsigned = body
            .len()
            .checked_sub(SIGNATURE_BYTES)
            .ok_or(Malformed::Short)?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::Count);
        }
        let mut r = Reader::new(&body[..unsigned]);
        let groups = Groups {
            origin: NodeAddr(r.u32()?),
            seq: RecordSeq(r.u32()?),
            lifetime_s: r.u16()?,
            certificate_serial: r.u32()?,
            flags: r.u8()?,
            part: r.u8()?,
            body,
            items: r.rest(),
        };
        if RecordKind::groups(groups.part) != Some(kind) {
            return Err(Malformed::Value);
        }
        let mut r = Reader::new(groups.items);
        while !r.is_empty() {
            check(&Item::read(&mut r)?)?;
        }
        Ok(groups)
    }

    /// What the record is called.
    pub fn key(&self) -> Key {
        Key {
            kind: RecordKind::groups(self.part).expect("parse has seen a part that can be"),
            origin: self.origin,
            seq: self.seq,
        }
    }

    /// The groups of which the node has members.
    pub fn members(&self) -> impl Iterator<Item = NodeAddr> + Clone + use<'a> {
        let values = self.items().filter(|item| item.kind == MEMBERS);
        values.flat_map(|item| {
            let (groups, _) = item.value.as_chunks::<GROUP_BYTES>();
            groups
                .iter()
                .map(|&group| NodeAddr(u32::from_be_bytes(group)))
        })
    }

    /// How groups are to be carried.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + Clone + use<'a> {
        let settings = self.items().flat_map(|item| {
            let bytes = match item.kind {
                SETTINGS => SETTING_BYTES,
                FULL_SETTINGS => FULL_SETTING_BYTES,
                _ => return None.into_iter().flatten(),
            };
            let settings = item.value.chunks_exact(bytes);
            Some(settings.filter_map(|bytes| Setting::read(bytes).ok()))
                .into_iter()
                .flatten()
        });
        let ways = self.items().filter(|item| item.kind == WAYS);
        let ways = ways.flat_map(|item| item.value.iter().copied());
        let ways = ways.chain(core::iter::repeat(0));
        let aims = self.items().filter(|item| item.kind == AIMS);
        let aims = aims.flat_map(|item| item.value.chunks_exact(Aim::BYTES));
        let aims = aims.map(|bytes| Aim::read(&mut Reader::new(bytes)).unwrap_or_default());
        let aims = aims.chain(core::iter::repeat(Aim::default()));
        settings
            .zip(ways)
            .zip(aims)
            .map(|((setting, code), aim)| Setting {
                ways: setting.ways.or_code(code),
                aim,
                ..setting
            })
    }

    /// Who may send and receive.
    pub fn permits(&self) -> impl Iterator<Item = Permit<'a>> + Clone + use<'a> {
        let values = self.items().filter(|item| item.kind == PERMITS);
        values.flat_map(|item| {
            let mut r = Reader::new(item.value);
            core::iter::from_fn(move || Permit::read(&mut r).ok())
        })
    }

    fn items(&self) -> impl Iterator<Item = Item<'a>> + Clone + use<'a> {
        let mut r = Reader::new(self.items);
        core::iter::from_fn(move || Item::read(&mut r).ok())
    }

    /// The bytes that the origin has signed, after [`SIGNATURE_CONTEXT`].
    pub fn signed_bytes(&self) -> &'a [u8] {
        &self.body[..self.body.len() - SIGNATURE_BYTES]
    }

    /// The signature over them.
    pub fn signature(&self) -> &'a [u8; SIGNATURE_BYTES] {
        self.body
            .last_chunk()
            .expect("parse has seen the whole signature")
    }
}

#[derive(Clone, Copy)]
struct Item<'a> {
    kind: u8,
    value: &'a [u8],
}

impl<'a> Item<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Item<'a>, Malformed> {
        let kind = r.u8()?;
        let length = r.u16()?;
        let value = r.take(usize::from(length))?;
        Ok(Item { kind, value })
    }
}

fn check(item: &Item<'_>) -> Result<(), Malformed> {
    match item.kind {
        MEMBERS => {
            let (groups, rest) = item.value.as_chunks::<GROUP_BYTES>();
            let is_group = |group: &[u8; 4]| is_group(NodeAddr(u32::from_be_bytes(*group)));
            match (rest.is_empty(), groups.iter().all(is_group)) {
                (false, _) => Err(Malformed::Length),
                (true, false) => Err(Malformed::Value),
                (true, true) => Ok(()),
            }
        }
        SETTINGS | FULL_SETTINGS => {
            let mut settings = item.value.chunks_exact(match item.kind {
                SETTINGS => SETTING_BYTES,
                _ => FULL_SETTING_BYTES,
            });
            if !settings.remainder().is_empty() {
                return Err(Malformed::Length);
            }
            settings.try_for_each(|s| Setting::read(s).map(drop))
        }
        PERMITS => {
            let mut r = Reader::new(item.value);
            while !r.is_empty() {
                Permit::read(&mut r)?;
            }
            Ok(())
        }
        kind if kind & CRITICAL != 0 => Err(Malformed::Critical),
        _ => Ok(()),
    }
}

/// How many bits the groups of a range have in common; `wide` of the last ones may differ.
fn prefix_of(group: NodeAddr, wide: u8) -> Result<u8, Malformed> {
    let prefix = 32u8.checked_sub(wide).ok_or(Malformed::Value)?;
    match !is_group(group) || prefix < 4 || group.0 & !mask(prefix) != 0 {
        true => Err(Malformed::Value),
        false => Ok(prefix),
    }
}

/// The bits that the addresses of a range have in common.
pub const fn mask(prefix: u8) -> u32 {
    match prefix {
        0 => 0,
        prefix if prefix >= 32 => u32::MAX,
        prefix => u32::MAX << (32 - prefix),
    }
}

/// An address of class D or E.
pub const fn is_group(addr: NodeAddr) -> bool {
    addr.is_multicast() || addr.is_anycast()
}

impl Setting {
    /// One that says nothing but of which group it is: the default class, without a deadline.
    pub fn of(group: NodeAddr) -> Setting {
        Setting {
            group,
            prefix: 32,
            version: 0,
            tree: TreeBuilder::LinkState,
            class: Class::default(),
            deadline_ms: 0,
            rate_kbps: 0,
            ways: Ways::Auto,
            delivery: None,
            aim: Aim::default(),
        }
    }

    /// What it says of two ways or delivery stands in item 3.
    fn is_full(&self) -> bool {
        self.ways == Ways::Two || self.delivery.is_some()
    }

    fn read(bytes: &[u8]) -> Result<Setting, Malformed> {
        let mut r = Reader::new(bytes);
        let group = NodeAddr(r.u32()?);
        let version = r.u32()?;
        let wide_tree = r.u8()?;
        let prefix = prefix_of(group, wide_tree >> 2)?;
        let tree = match wide_tree & 3 {
            0 => TreeBuilder::LinkState,
            1 => TreeBuilder::Scribe,
            _ => return Err(Malformed::Value),
        };
        let class = Class::from_byte(r.u8()?)?;
        let deadline_ms = r.u16()?;
        let rate_kbps = r.u32()?;
        let (mut ways, mut delivery) = (Ways::Auto, None);
        if !r.is_empty() {
            ways = match r.u8()? {
                1 => Ways::Auto,
                2 => Ways::Two,
                _ => return Err(Malformed::Value),
            };
            delivery = match (r.u8()?, r.u16()?) {
                (0, 0) => None,
                (1, 0) => Some(Delivery::AsItComes),
                (2, 0) => Some(Delivery::InOrder),
                (3, 0) => Some(Delivery::AsSent(None)),
                (3, ms) => Some(Delivery::AsSent(Some(Duration::from_millis(ms.into())))),
                _ => return Err(Malformed::Value),
            };
        }
        Ok(Setting {
            group,
            prefix,
            version,
            tree,
            class,
            deadline_ms,
            rate_kbps,
            ways,
            delivery,
            aim: Aim::default(),
        })
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u32(self.group.0)?;
        w.u32(self.version)?;
        let tree = match self.tree {
            TreeBuilder::LinkState => 0,
            TreeBuilder::Scribe => 1,
        };
        w.u8((32 - self.prefix.clamp(4, 32)) << 2 | tree)?;
        w.u8(self.class.to_byte())?;
        w.u16(self.deadline_ms)?;
        w.u32(self.rate_kbps)?;
        if !self.is_full() {
            return Ok(());
        }
        w.u8(1 + u8::from(self.ways == Ways::Two))?;
        let (delivery, release) = match self.delivery {
            None => (0, None),
            Some(Delivery::AsItComes) => (1, None),
            Some(Delivery::InOrder) => (2, None),
            Some(Delivery::AsSent(release)) => (3, release),
        };
        w.u8(delivery)?;
        let ms = |release: Duration| release.as_micros() / 1_000;
        // A time that is shorter than the unit must not become "as late as repairs need".
        w.u16(release.map_or(0, |release| {
            u16::try_from(ms(release)).unwrap_or(u16::MAX).max(1)
        }))
    }
}

/// Who may send to a group, or to all of a range, and who may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit<'a> {
    /// The group, or the first of a range of groups.
    pub group: NodeAddr,
    /// How many bits the groups of the range have in common, 4 to 32; 32 for one group.
    pub prefix: u8,
    /// Who may send; none for everybody.
    pub send: Option<Words<'a>>,
    /// Who may receive; none for everybody.
    pub receive: Option<Words<'a>>,
}

/// Words that name nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The words, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut r = Reader::new(self.0);
        core::iter::from_fn(move || word(&mut r).ok())
    }

    fn read(r: &mut Reader<'a>, count: u8) -> Result<Words<'a>, Malformed> {
        let before = r.rest();
        for _ in 0..count {
            word(r)?;
        }
        Ok(Words(&before[..before.len() - r.rest().len()]))
    }
}

fn word<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = usize::from(r.u8()?);
    let word = core::str::from_utf8(r.take(length)?).map_err(|_| Malformed::Text)?;
    match word.is_empty() || word.len() > WORD_BYTES_MAX {
        true => Err(Malformed::Length),
        false => Ok(word),
    }
}

impl<'a> Permit<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Permit<'a>, Malformed> {
        let group = NodeAddr(r.u32()?);
        let limits = r.u8()?;
        let [senders, receivers] = r.array()?;
        let prefix = prefix_of(group, limits & 0x3f)?;
        let mut words = |is_limited: bool, count: u8| match (is_limited, count) {
            (false, 0) => Ok(None),
            (false, _) => Err(Malformed::Count),
            (true, count) => Words::read(r, count).map(Some),
        };
        Ok(Permit {
            group,
            prefix,
            send: words(limits & SENDING != 0, senders)?,
            receive: words(limits & RECEIVING != 0, receivers)?,
        })
    }

    /// Writes who may send to a range of groups and who may receive, as one of [`Repr::permits`].
    pub fn write<W: AsRef<str>>(
        w: &mut Writer<'_>,
        (group, prefix): (NodeAddr, u8),
        send: Option<&[W]>,
        receive: Option<&[W]>,
    ) -> Result<(), Full> {
        let flag = |words: Option<&[W]>, flag: u8| words.map_or(0, |_| flag);
        let words = |words: Option<&[W]>| u8::try_from(words.map_or(0, <[W]>::len));
        w.u32(group.0)?;
        w.u8((32 - prefix.clamp(4, 32)) | flag(send, SENDING) | flag(receive, RECEIVING))?;
        w.u8(words(send).map_err(|_| Full)?)?;
        w.u8(words(receive).map_err(|_| Full)?)?;
        for word in [send, receive].into_iter().flatten().flatten() {
            let word = word.as_ref();
            w.u8(u8::try_from(word.len()).map_err(|_| Full)?)?;
            w.put(word.as_bytes())?;
        }
        Ok(())
    }
}

/// A body to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Whose groups these are.
    pub origin: NodeAddr,
    /// Which edition this is.
    pub seq: RecordSeq,
    /// For how long the record is valid.
    pub lifetime_s: u16,
    /// The certificate whose key signs.
    pub certificate_serial: u32,
    /// Which of the node's records.
    pub part: u8,
    /// The groups of which the node has members.
    pub members: &'a [NodeAddr],
    /// How groups are to be carried.
    pub settings: &'a [Setting],
    /// Who may send and receive, as [`Permit::write`] has written it.
    pub permits: &'a [u8],
}

impl Repr<'_> {
    /// How many settings may stand beside each other, and the bytes that are then left for the value of item 4: none if these
    /// are too many. Each counts as long as it can become, so that changing one without an aim never lacks room.
    pub fn room_beside(settings: &[Setting]) -> (usize, Option<usize>) {
        let (most, items, each) = match settings.iter().any(|setting| setting.aim.is_said()) {
            false => (SETTINGS_MAX, 3, SETTING_BYTES_MAX),
            true => (SETTINGS_WITH_AIMS_MAX, 4, SETTING_BYTES_MAX + Aim::BYTES),
        };
        let taken = (items + 1) * ITEM_HEADER_BYTES + settings.len() * each;
        (most, ITEMS_BYTES_MAX.checked_sub(taken))
    }

    /// Writes the body at the front of `body` and returns its length. `sign` is given the bytes to
    /// be signed, without [`SIGNATURE_CONTEXT`].
    pub fn emit(
        &self,
        body: &mut [u8],
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<usize, Full> {
        let mut w = Writer::new(body);
        w.u32(self.origin.0)?;
        w.u32(self.seq.0)?;
        w.u16(self.lifetime_s)?;
        w.u32(self.certificate_serial)?;
        w.put(&[0, self.part])?;
        if !self.members.is_empty() {
            w.u8(MEMBERS)?;
            w.u16(length(self.members.len() * GROUP_BYTES)?)?;
            for group in self.members {
                w.u32(group.0)?;
            }
        }
        for (kind, bytes) in [
            (SETTINGS, SETTING_BYTES),
            (FULL_SETTINGS, FULL_SETTING_BYTES),
        ] {
            let is_full = kind == FULL_SETTINGS;
            let settings = self.settings.iter().filter(|s| s.is_full() == is_full);
            let count = settings.clone().count();
            if count > 0 {
                w.u8(kind)?;
                w.u16(length(count * bytes)?)?;
                settings
                    .into_iter()
                    .try_for_each(|setting| setting.write(&mut w))?;
            }
        }
        // In the order of items 2 and 3.
        let settings = [false, true].into_iter().flat_map(|is_full| {
            let settings = self.settings.iter();
            settings.filter(move |s| s.is_full() == is_full)
        });
        let ways = settings.clone().map(|setting| setting.ways.code());
        let says = ways.clone().enumerate().filter(|(_, code)| *code != 0);
        if let Some((last, _)) = says.last() {
            w.u8(WAYS)?;
            w.u16(length(last + 1)?)?;
            ways.take(last + 1).try_for_each(|code| w.u8(code))?;
        }
        let aims = settings.map(|setting| setting.aim);
        let says = aims.clone().enumerate().filter(|(_, aim)| aim.is_said());
        if let Some((last, _)) = says.last() {
            w.u8(AIMS)?;
            w.u16(length((last + 1) * Aim::BYTES)?)?;
            aims.take(last + 1)
                .try_for_each(|aim| w.put(&aim.to_bytes()))?;
        }
        if !self.permits.is_empty() {
            w.u8(PERMITS)?;
            w.u16(length(self.permits.len())?)?;
            w.put(self.permits)?;
        }
        if w.len() > BODY_BYTES_MAX - SIGNATURE_BYTES {
            return Err(Full);
        }
        let signature = sign(w.written());
        w.put(&signature)?;
        Ok(w.len())
    }
}

fn length(bytes: usize) -> Result<u16, Full> {
    u16::try_from(bytes).map_err(|_| Full)
}

#[cfg(test)]
mod tests;
