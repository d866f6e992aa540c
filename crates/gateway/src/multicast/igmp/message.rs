//! Parses IGMP messages completely, so that no later check is needed. The types are also used for MLD.

use super::Address;
use crate::multicast::drops::Drop;
use crate::multicast::packet::sum;
use base::Duration;
use core::marker::PhantomData;
use core::net::Ipv4Addr;
use etherparse::IgmpSlice;
use etherparse::igmp::MaxResponseCode;

/// Length of a record before its group: kind, length of auxiliary data, and number of sources.
const RECORD_BYTES: usize = 4;

/// A message of a host or of a router.
#[derive(Clone, Debug)]
pub enum Message<'a, A = Ipv4Addr> {
    /// The query of a router.
    Query(Asked<'a, A>),
    /// A host of version 1 wants a group.
    ReportV1(A),
    /// A host of version 2 wants a group.
    ReportV2(A),
    /// A host of version 2 no longer wants a group.
    Leave(A),
    /// A host of version 3 reports what it wants.
    ReportV3(Records<'a, A>),
}

/// The query of a router.
#[derive(Clone, Debug)]
pub struct Asked<'a, A = Ipv4Addr> {
    /// The version of IGMP that the router speaks: 1, 2 or 3. For MLD, this is the corresponding version of IGMP, which
    /// is higher by one.
    pub version: u8,
    /// The group; `None` for all.
    pub group: Option<A>,
    /// The time within which hosts answer.
    pub max_response: Duration,
    /// Whether other routers need not lower their timers.
    pub suppress: bool,
    /// How often the router sends messages that may be lost; 0 if it does not specify this.
    pub robustness: u8,
    /// The time between general queries; zero if the router does not specify it.
    pub interval: Duration,
    /// The sources; empty for all.
    pub sources: Sources<'a, A>,
}

/// The records of a report, all of them complete.
#[derive(Clone, Debug)]
pub struct Records<'a, A = Ipv4Addr> {
    records: &'a [u8],
    count: u16,
    of: PhantomData<A>,
}

/// The report of a host of version 3 about one group.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a, A = Ipv4Addr> {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The group.
    pub group: A,
    /// The sources of the record.
    pub sources: Sources<'a, A>,
}

/// The meaning of a record. [RFC 3376 §4.2.12]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The host wants only these sources.
    IsInclude = 1,
    /// The host wants all sources except for these.
    IsExclude = 2,
    /// From now on, the host wants only these sources.
    ToInclude = 3,
    /// From now on, the host wants all sources except for these.
    ToExclude = 4,
    /// The host also wants these sources.
    Allow = 5,
    /// The host no longer wants these sources.
    Block = 6,
}

/// Addresses of sources.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a, A = Ipv4Addr>(&'a [u8], PhantomData<A>);

impl<A> Default for Sources<'_, A> {
    fn default() -> Self {
        Sources(&[], PhantomData)
    }
}

impl<'a> Message<'a> {
    /// Parses the content of an IP packet of protocol 2, without padding.
    ///
    /// # Errors
    /// The message is cut short, its checksum is wrong, or it is not about members.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Drop> {
        let slice = IgmpSlice::from_slice(bytes).map_err(|_| Drop::IgmpMalformed)?;
        if sum(bytes) != 0xffff {
            return Err(Drop::IgmpChecksum);
        }
        match slice {
            IgmpSlice::MembershipQuery(query) => {
                let tenths = query.max_response_time();
                Ok(Message::Query(Asked {
                    version: if tenths == 0 { 1 } else { 2 },
                    group: group_or_all(query.group_address().octets)?,
                    // For a router of version 1, the time is ten seconds. [RFC 2236 §4]
                    max_response: tenths_of_seconds(if tenths == 0 { 100 } else { tenths.into() }),
                    suppress: false,
                    robustness: 0,
                    interval: Duration::ZERO,
                    sources: Sources::default(),
                }))
            }
            IgmpSlice::MembershipQueryWithSources(query) => {
                let group = group_or_all(query.group_address().octets)?;
                let sources = Sources::of(query.source_addrs_bytes());
                if group.is_none() && !sources.is_empty() {
                    return Err(Drop::IgmpMalformed);
                }
                // The interval has the same coding, in seconds. [RFC 3376 §4.1.7]
                let interval = u64::from(MaxResponseCode(query.qqic()).as_10th_secs());
                Ok(Message::Query(Asked {
                    version: 3,
                    group,
                    max_response: tenths_of_seconds(
                        query.max_response_code().as_10th_secs().into(),
                    ),
                    suppress: query.s_flag(),
                    robustness: query.qrv().value(),
                    interval: Duration::from_secs(interval),
                    sources,
                }))
            }
            IgmpSlice::MembershipReportV1(report) => {
                group(report.group_address().octets).map(Message::ReportV1)
            }
            IgmpSlice::MembershipReportV2(report) => {
                group(report.group_address().octets).map(Message::ReportV2)
            }
            IgmpSlice::LeaveGroup(leave) => group(leave.group_address().octets).map(Message::Leave),
            IgmpSlice::MembershipReportV3(report) => {
                Records::checked(report.payload(), report.num_of_records()).map(Message::ReportV3)
            }
            IgmpSlice::Unknown(_) => Err(Drop::IgmpUnknown),
        }
    }
}

impl<'a, A: Address> Records<'a, A> {
    /// Parses the `count` records of a report.
    ///
    /// # Errors
    /// A record is cut short.
    pub(in crate::multicast) fn checked(records: &'a [u8], count: u16) -> Result<Self, Drop> {
        let of = PhantomData;
        let this = Records { records, count, of };
        match this.raw().count() == usize::from(count) {
            true => Ok(this),
            false => Err(Drop::IgmpMalformed),
        }
    }

    /// Returns the records in their order. It leaves out records of an unknown kind, and records whose address is not a
    /// group. [RFC 3376 §4.2.12]
    pub fn iter(&self) -> impl Iterator<Item = Record<'a, A>> + use<'a, A> {
        self.raw().filter_map(|(kind, group, sources)| {
            let mut kinds = RecordKind::ALL.into_iter();
            Some(Record {
                kind: kinds.find(|&known| known as u8 == kind)?,
                group: Some(group).filter(|&group| group.into().is_multicast())?,
                sources: Sources::of(sources),
            })
        })
    }

    /// Returns each record's kind, group and sources, up to the first incomplete record.
    fn raw(&self) -> impl Iterator<Item = (u8, A, &'a [u8])> + use<'a, A> {
        let mut rest = self.records;
        (0..self.count).map_while(move |_| {
            let (&[kind, words, high, low], after) = rest.split_first_chunk::<RECORD_BYTES>()?;
            let (group, after) = after.split_at_checked(A::BYTES)?;
            let count = usize::from(u16::from_be_bytes([high, low]));
            let (sources, after) = after.split_at_checked(count * A::BYTES)?;
            rest = after.split_at_checked(usize::from(words) * 4)?.1;
            Some((kind, A::read(group), sources))
        })
    }
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [RecordKind; 6] = [
        RecordKind::IsInclude,
        RecordKind::IsExclude,
        RecordKind::ToInclude,
        RecordKind::ToExclude,
        RecordKind::Allow,
        RecordKind::Block,
    ];
}

impl<'a, A: Address> Sources<'a, A> {
    /// Wraps addresses that follow one another in the message.
    pub(in crate::multicast) fn of(bytes: &'a [u8]) -> Self {
        Sources(bytes, PhantomData)
    }

    /// Returns the number of sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / A::BYTES
    }

    /// Returns whether there are no sources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the addresses in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = A> + use<'a, A> {
        self.0.chunks_exact(A::BYTES).map(A::read)
    }
}

fn group(octets: [u8; 4]) -> Result<Ipv4Addr, Drop> {
    let group = Ipv4Addr::from(octets);
    group
        .is_multicast()
        .then_some(group)
        .ok_or(Drop::IgmpMalformed)
}

fn group_or_all(octets: [u8; 4]) -> Result<Option<Ipv4Addr>, Drop> {
    match octets {
        [0, 0, 0, 0] => Ok(None),
        octets => group(octets).map(Some),
    }
}

fn tenths_of_seconds(tenths: u64) -> Duration {
    Duration::from_millis(tenths * 100)
}

#[cfg(test)]
mod tests {
    use super::super::emit;
    use super::*;

    /// The message that Linux 6 sends to 224.0.0.22 on a join of 239.1.1.1: one record that excludes nothing.
    const JOIN: [u8; 16] = [0x22, 0, 0xe9, 0xfb, 0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 1, 1];

    fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        emit::put_checksum(&mut bytes);
        bytes
    }

    fn records(bytes: &[u8]) -> Vec<(RecordKind, Ipv4Addr, Vec<Ipv4Addr>)> {
        let Ok(Message::ReportV3(records)) = Message::parse(bytes) else {
            panic!("not a report: {bytes:x?}");
        };
        let each = records.iter();
        each.map(|r| (r.kind, r.group, r.sources.iter().collect()))
            .collect()
    }

    #[test]
    fn a_join_of_a_host_is_read() {
        let group = Ipv4Addr::new(239, 1, 1, 1);
        assert_eq!(records(&JOIN), [(RecordKind::ToExclude, group, vec![])]);
        let v2 = with_checksum(vec![0x16, 0, 0, 0, 239, 1, 1, 1]);
        assert!(matches!(Message::parse(&v2), Ok(Message::ReportV2(g)) if g == group));
        let v1 = with_checksum(vec![0x12, 0, 0, 0, 239, 1, 1, 1]);
        assert!(matches!(Message::parse(&v1), Ok(Message::ReportV1(g)) if g == group));
        let leave = with_checksum(vec![0x17, 0, 0, 0, 239, 1, 1, 1]);
        assert!(matches!(Message::parse(&leave), Ok(Message::Leave(g)) if g == group));
    }

    #[test]
    fn queries_of_all_versions_are_read() {
        let v1 = with_checksum(vec![0x11, 0, 0, 0, 0, 0, 0, 0]);
        let Ok(Message::Query(asked)) = Message::parse(&v1) else {
            panic!("a query");
        };
        assert_eq!((asked.version, asked.group), (1, None));
        assert_eq!(asked.max_response, Duration::from_secs(10));
        let v3 = with_checksum(vec![
            0x11, 0x8a, 0, 0, 232, 1, 1, 1, 0x0a, 125, 0, 1, 10, 0, 0, 9,
        ]);
        let Ok(Message::Query(asked)) = Message::parse(&v3) else {
            panic!("a query");
        };
        assert_eq!(
            (asked.version, asked.robustness, asked.suppress),
            (3, 2, true)
        );
        // The value is (0xa | 0x10) << 3, in tenths.
        assert_eq!(asked.max_response, Duration::from_millis(20_800));
        assert_eq!(asked.interval, Duration::from_secs(125));
        assert!(asked.sources.iter().eq([Ipv4Addr::new(10, 0, 0, 9)]));
    }

    #[test]
    fn what_is_cut_at_any_length_is_refused() {
        let two = with_checksum(
            [
                &[0x22, 0, 0, 0, 0, 0, 0, 2][..],
                &[1, 0, 0, 2, 232, 1, 1, 1, 10, 0, 0, 1, 10, 0, 0, 2],
                &[5, 1, 0, 1, 232, 1, 1, 2, 10, 0, 0, 1, 9, 9, 9, 9],
            ]
            .concat(),
        );
        assert_eq!(records(&two).len(), 2);
        for len in 0..two.len() {
            // Incomplete messages with a correct checksum are rejected as well.
            let mut cut = two[..len].to_vec();
            assert!(Message::parse(&cut).is_err(), "{len}");
            if len >= 8 {
                emit::put_checksum(&mut cut);
                assert!(
                    matches!(Message::parse(&cut), Err(Drop::IgmpMalformed)),
                    "{len}"
                );
            }
        }
    }

    #[test]
    fn a_wrong_checksum_an_unknown_kind_and_no_group_are_refused_by_name() {
        for at in 0..JOIN.len() {
            let mut changed = JOIN;
            changed[at] ^= 0x40;
            let refused = Message::parse(&changed).unwrap_err();
            assert!(
                matches!(refused, Drop::IgmpChecksum | Drop::IgmpMalformed),
                "{at}"
            );
        }
        let pim = with_checksum(vec![0x14, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::parse(&pim).unwrap_err(), Drop::IgmpUnknown);
        let host = with_checksum(vec![0x16, 0, 0, 0, 10, 1, 1, 1]);
        assert_eq!(Message::parse(&host).unwrap_err(), Drop::IgmpMalformed);
        // An unknown record is left out; the other records are valid.
        let mixed = with_checksum(vec![
            0x22, 0, 0, 0, 0, 0, 0, 2, 7, 0, 0, 0, 239, 1, 1, 1, 4, 0, 0, 0, 239, 1, 1, 2,
        ]);
        assert_eq!(records(&mixed).len(), 1);
    }
}
