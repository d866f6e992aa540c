//! The body of a groups record: the multicast and anycast groups of which a node has members, and the node's settings
//! for carrying groups. It is signed by the node, and flooded like its links. [Brogle09 §II]
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
//! A node has up to [`PARTS`] such records, each with its own [`RecordKind`], so that one join renews at most 1200
//! bytes. The body contains the part because the kind is not signed. Unknown items are kept and flooded unchanged,
//! unless they are critical (C): then the record is not used.
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
//! Item 3, full settings: n times the same, and after each
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  ways, 1 or 2 |   delivery    |          release, ms          |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Delivery: 0 as each socket sets it, 1 as it comes, 2 in order, 3 as sent. Release is only used with 3; 0 means as
//! late as repairs need. A setting without these values is in item 2, so that nodes that do not know item 3 read it.
//!
//! Item 4, permits: n times
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                            group                             |
//! +---------------+---------------+---------------+---------------+
//! |R|S|   wide    |    senders    |   receivers   | length, word  |  R, S: who receives, who sends is limited
//! +---------------+---------------+---------------+---------------+
//! ```
//!
//! Each word names nodes (`overlay::groups::permits` says how), the senders' words before the receivers'. A node that
//! is not named is not permitted. Several permits for a group are combined, whoever sets them.
//!
//! Item 5, ways: one byte for each setting of items 2 and 3, in their order: 1 one way, 2 targeted. A missing or
//! unknown value means that nothing is set. Two ways are in item 3. A node that does not know item 5 reads the settings
//! without it: one way, which every node uses if nothing is set and nothing must be protected.
//!
//! Item 6, aims: three bytes for each setting of items 2 and 3, in their order, in the format of [`Aim`]; a missing
//! value means that nothing is set. A node that does not know item 6 repairs packets to a group by its own settings.
//!
//! A setting applies to a group, or to all groups whose addresses begin with the same bits: `wide` (6 bits, above two
//! of `tree`) is how many of the last bits may differ, 0 for one group. The longest matching prefix takes precedence.

use crate::bytes::{Reader, Writer};
use crate::control::CRITICAL;
use crate::data::Class;
use crate::ipc::Delivery;
use crate::record::{BODY_BYTES_MAX, Key, RecordKind, RecordSeq};
use crate::{Aim, Full, Malformed};
use base::{Duration, NodeAddr};

/// The prefix of the signed bytes for signing.
pub const SIGNATURE_CONTEXT: &[u8] = b"sinew groups 1";
/// Number of bytes of the signature.
pub const SIGNATURE_BYTES: usize = 64;
/// Number of bytes in front of the items.
pub const FIXED_BYTES: usize = 16;
/// Number of bytes in front of an item's value.
pub const ITEM_HEADER_BYTES: usize = 3;
/// The maximum number of records of one node.
pub const PARTS: usize = 8;
/// The maximum number of bytes of items in one record: 1200 - 16 - 64 = 1120.
pub const ITEMS_BYTES_MAX: usize = BODY_BYTES_MAX - FIXED_BYTES - SIGNATURE_BYTES;
/// Number of bytes of a group in an item of members.
pub const GROUP_BYTES: usize = 4;
/// The maximum number of groups in one record without settings: (1120 - 3) / 4 = 279.
pub const GROUPS_MAX: usize = (ITEMS_BYTES_MAX - ITEM_HEADER_BYTES) / GROUP_BYTES;
/// Number of bytes of one setting.
pub const SETTING_BYTES: usize = 16;
/// Number of bytes of one full setting.
pub const FULL_SETTING_BYTES: usize = SETTING_BYTES + 4;
/// The maximum number of bytes of one setting in items 2, 3 and 5: one byte is the number of ways.
pub const SETTING_BYTES_MAX: usize = FULL_SETTING_BYTES + 1;
/// The maximum number of settings in one record without members and aims, all of them full and with ways: (1120 - 3 ·
/// 3) / 21 = 52.
pub const SETTINGS_MAX: usize = (ITEMS_BYTES_MAX - 3 * ITEM_HEADER_BYTES) / SETTING_BYTES_MAX;
/// The same if some settings have aims: (1120 - 4 · 3) / 24 = 46.
pub const SETTINGS_WITH_AIMS_MAX: usize =
    (ITEMS_BYTES_MAX - 4 * ITEM_HEADER_BYTES) / (SETTING_BYTES_MAX + Aim::BYTES);

const MEMBERS: u8 = 1;
const SETTINGS: u8 = 2;
const FULL_SETTINGS: u8 = 3;
const PERMITS: u8 = 4;
const WAYS: u8 = 5;
const AIMS: u8 = 6;

/// Number of bytes of a permit without its words.
pub const PERMIT_BYTES: usize = 7;
/// The maximum length of a word of a permit: a domain, and the sign that marks it.
pub const WORD_BYTES_MAX: usize = crate::certificate::MAX_DOMAIN_BYTES + 1;
const SENDING: u8 = 0x40;
const RECEIVING: u8 = 0x80;

/// The builder of the tree of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeBuilder {
    /// Every node, from the link state: shortest paths from each source.
    #[default]
    LinkState,
    /// Scribe: one shared tree along routes of Pastry, for very many groups. [Brogle09 §I]
    Scribe,
}

impl TreeBuilder {
    /// Returns a short stable word.
    pub const fn label(self) -> &'static str {
        match self {
            TreeBuilder::LinkState => "link-state",
            TreeBuilder::Scribe => "scribe",
        }
    }
}

/// The number of ways of packets of a group to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ways {
    /// Nothing is set: each node uses its own settings.
    #[default]
    Auto,
    /// One way in all cases.
    One,
    /// One way, and a second one to each member whose way leads through trouble.
    Targeted,
    /// Two ways, as far apart as the network allows.
    Two,
}

impl Ways {
    /// All values.
    pub const ALL: [Ways; 4] = [Ways::Auto, Ways::One, Ways::Targeted, Ways::Two];

    /// Returns a short stable word.
    pub const fn label(self) -> &'static str {
        match self {
            Ways::Auto => "auto",
            Ways::One => "1",
            Ways::Targeted => "targeted",
            Ways::Two => "2",
        }
    }

    /// Returns the value with this word.
    pub fn of_label(word: &str) -> Option<Ways> {
        Ways::ALL.into_iter().find(|ways| ways.label() == word)
    }

    /// Returns the code in item 5.
    const fn code(self) -> u8 {
        match self {
            Ways::Auto | Ways::Two => 0,
            Ways::One => 1,
            Ways::Targeted => 2,
        }
    }

    /// Returns the value of item 3, or else that of item 5. An unknown code means that nothing is set.
    const fn or_code(self, code: u8) -> Ways {
        match (self, code) {
            (Ways::Auto, 1) => Ways::One,
            (Ways::Auto, 2) => Ways::Targeted,
            _ => self,
        }
    }
}

/// The settings for carrying a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The group, or the first of a range of groups.
    pub group: NodeAddr,
    /// Number of bits that the groups of the range share, 4 to 32; 32 for one group.
    pub prefix: u8,
    /// The version; the highest version takes precedence.
    pub version: u32,
    /// The builder of the group's tree.
    pub tree: TreeBuilder,
    /// The class of its packets.
    pub class: Class,
    /// The deadline of the group's packets, in milliseconds; 0 if there is none.
    pub deadline_ms: u16,
    /// The total rate of the group's sources, in kbit/s; 0 if it is not known.
    pub rate_kbps: u32,
    /// Number of ways of the group's packets to each member.
    pub ways: Ways,
    /// The order and time of the delivery of packets to members; `None` if each socket sets it.
    pub delivery: Option<Delivery>,
    /// The share of the group's packets that may stay lost, and the maximum cost of their repair.
    pub aim: Aim,
}

/// A view of a record's body. Everything but the signature itself has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    /// The node whose groups these are.
    pub origin: NodeAddr,
    /// The version of the record.
    pub seq: RecordSeq,
    /// How long the record is valid, from its making.
    pub lifetime_s: u16,
    /// The serial of the certificate whose key has signed.
    pub certificate_serial: u32,
    /// Reserved: 0.
    pub flags: u8,
    /// The number of the part among the node's records, below [`PARTS`].
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

    /// Returns the record's key.
    pub fn key(&self) -> Key {
        Key {
            kind: RecordKind::groups(self.part).expect("parse has seen a part that can be"),
            origin: self.origin,
            seq: self.seq,
        }
    }

    /// Returns the groups of which the node has members.
    pub fn members(&self) -> impl Iterator<Item = NodeAddr> + Clone + use<'a> {
        let values = self.items().filter(|item| item.kind == MEMBERS);
        values.flat_map(|item| {
            let (groups, _) = item.value.as_chunks::<GROUP_BYTES>();
            groups
                .iter()
                .map(|&group| NodeAddr(u32::from_be_bytes(group)))
        })
    }

    /// Returns the settings for carrying groups.
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

    /// Returns the permits to send and receive.
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

    /// Returns the bytes that the origin has signed, after [`SIGNATURE_CONTEXT`].
    pub fn signed_bytes(&self) -> &'a [u8] {
        &self.body[..self.body.len() - SIGNATURE_BYTES]
    }

    /// Returns the signature over the signed bytes.
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

/// Returns the number of bits that the groups of a range share; `wide` of the last bits may differ.
fn prefix_of(group: NodeAddr, wide: u8) -> Result<u8, Malformed> {
    let prefix = 32u8.checked_sub(wide).ok_or(Malformed::Value)?;
    match !is_group(group) || prefix < 4 || group.0 & !mask(prefix) != 0 {
        true => Err(Malformed::Value),
        false => Ok(prefix),
    }
}

/// Returns the bits that the addresses of a range share.
pub const fn mask(prefix: u8) -> u32 {
    match prefix {
        0 => 0,
        prefix if prefix >= 32 => u32::MAX,
        prefix => u32::MAX << (32 - prefix),
    }
}

/// Returns true for an address of class D or E.
pub const fn is_group(addr: NodeAddr) -> bool {
    addr.is_multicast() || addr.is_anycast()
}

impl Setting {
    /// Returns a setting that contains only its group: the default class, without a deadline.
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

    /// Returns true if the setting has two ways or a delivery, which item 3 contains.
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

/// The nodes that may send to a group, or to all groups of a range, and those that may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit<'a> {
    /// The group, or the first of a range of groups.
    pub group: NodeAddr,
    /// Number of bits that the groups of the range share, 4 to 32; 32 for one group.
    pub prefix: u8,
    /// The nodes that may send; `None` for all nodes.
    pub send: Option<Words<'a>>,
    /// The nodes that may receive; `None` for all nodes.
    pub receive: Option<Words<'a>>,
}

/// The words that name nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// Returns the words, in order.
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

    /// Writes the permits to send and receive for a range of groups, as one of [`Repr::permits`].
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

/// A body for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The node whose groups these are.
    pub origin: NodeAddr,
    /// The version of the record.
    pub seq: RecordSeq,
    /// How long the record is valid.
    pub lifetime_s: u16,
    /// The serial of the certificate whose key signs.
    pub certificate_serial: u32,
    /// The number of the part among the node's records.
    pub part: u8,
    /// The groups of which the node has members.
    pub members: &'a [NodeAddr],
    /// The settings for carrying groups.
    pub settings: &'a [Setting],
    /// The permits to send and receive, as [`Permit::write`] has written them.
    pub permits: &'a [u8],
}

impl Repr<'_> {
    /// Returns the maximum number of settings that fit together, and the bytes that are then left for the value of item
    /// 4; `None` if these are too many. Each setting counts with its maximum length, so that a change of one without an
    /// aim never lacks room.
    pub fn room_beside(settings: &[Setting]) -> (usize, Option<usize>) {
        let (most, items, each) = match settings.iter().any(|setting| setting.aim.is_said()) {
            false => (SETTINGS_MAX, 3, SETTING_BYTES_MAX),
            true => (SETTINGS_WITH_AIMS_MAX, 4, SETTING_BYTES_MAX + Aim::BYTES),
        };
        let taken = (items + 1) * ITEM_HEADER_BYTES + settings.len() * each;
        (most, ITEMS_BYTES_MAX.checked_sub(taken))
    }

    /// Writes the body at the front of `body` and returns its length. `sign` gets the bytes to be signed, without
    /// [`SIGNATURE_CONTEXT`].
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
        // This is the order of items 2 and 3.
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
