//! The two address families, and how each one reports what hosts want.

use super::emit::Speaker;
use super::message::RecordKind;
use super::{Query, emit, mld};
use base::Duration;
use core::fmt::{Debug, Display};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of a group or of a host, of one of the two families.
pub trait Address: Copy + Ord + Debug + Display + Into<IpAddr> + 'static {
    /// Length of an address in a message, in bytes.
    const BYTES: usize;
    /// The address that means none.
    const UNSPECIFIED: Self;

    /// Reads an address; missing bytes count as zero.
    fn read(bytes: &[u8]) -> Self;
    /// Writes a query as a whole frame.
    fn query(frame: &mut Vec<u8>, from: Speaker<Self>, query: &Query<'_, Self>);
    /// Writes a report with as many records as fit. Returns the number of records.
    fn report<'a>(
        frame: &mut Vec<u8>,
        from: Speaker<Self>,
        records: impl Iterator<Item = (RecordKind, Self, &'a [Self])>,
    ) -> usize;
    /// Writes a report of an older version, which is sent to the group itself.
    fn report_old(frame: &mut Vec<u8>, from: Speaker<Self>, version: u8, group: Self);
    /// Writes the announcement that a router is here.
    fn router_here(frame: &mut Vec<u8>, from: Speaker<Self>, interval: Duration);
}

impl Address for Ipv4Addr {
    const BYTES: usize = 4;
    const UNSPECIFIED: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

    fn read(bytes: &[u8]) -> Ipv4Addr {
        octets::<4>(bytes).into()
    }

    fn query(frame: &mut Vec<u8>, from: Speaker, query: &Query<'_>) {
        emit::query(frame, from, query);
    }

    fn report<'a>(
        frame: &mut Vec<u8>,
        from: Speaker,
        records: impl Iterator<Item = (RecordKind, Ipv4Addr, &'a [Ipv4Addr])>,
    ) -> usize {
        emit::report(frame, from, records)
    }

    fn report_old(frame: &mut Vec<u8>, from: Speaker, version: u8, group: Ipv4Addr) {
        emit::report_old(frame, from, version, group);
    }

    fn router_here(frame: &mut Vec<u8>, from: Speaker, interval: Duration) {
        emit::router_here(frame, from, interval);
    }
}

impl Address for Ipv6Addr {
    const BYTES: usize = 16;
    const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

    fn read(bytes: &[u8]) -> Ipv6Addr {
        octets::<16>(bytes).into()
    }

    fn query(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, query: &Query<'_, Ipv6Addr>) {
        mld::query(frame, from, query);
    }

    fn report<'a>(
        frame: &mut Vec<u8>,
        from: Speaker<Ipv6Addr>,
        records: impl Iterator<Item = (RecordKind, Ipv6Addr, &'a [Ipv6Addr])>,
    ) -> usize {
        mld::report(frame, from, records)
    }

    fn report_old(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, _: u8, group: Ipv6Addr) {
        mld::report_old(frame, from, group);
    }

    fn router_here(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, interval: Duration) {
        mld::router_here(frame, from, interval);
    }
}

fn octets<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}
