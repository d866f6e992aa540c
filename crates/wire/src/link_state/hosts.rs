//! The addresses of the origin's host on its own interfaces.

use super::{LinkState, Opt, write_option};
use crate::bytes::Writer;
use crate::{Endpoint, Full};

/// The option with the addresses of its own interfaces at which the origin listens: `n` of IPv4, and then those of
/// IPv6, at most [`HOSTS_MAX`] together. Nodes that want a link to the origin may dial those that are public. They may
/// dial the others if they are seen at the same address as the origin, because then both are behind the same router.
/// The option uses the room that the options before [`super::OPTION_PROTECTION`] leave.
///
/// ```text
/// +---------------+---------------+---------------+-----------------------------------------+----------
/// | 0 0 0 1 0 0 1 1 | 1 + 6 n + 18 m |      n      | address (4 bytes), port (2 bytes), n times | Endpoint, m times
/// +---------------+---------------+---------------+-----------------------------------------+----------
/// ```
pub const OPTION_HOSTS: u8 = 19;
/// The maximum number of own addresses in a record. Choice: a cable, a radio network and IPv6.
pub const HOSTS_MAX: usize = 3;
/// Number of bytes of an IPv4 address and a port.
const IPV4_BYTES: usize = 6;

impl<'a> LinkState<'a> {
    /// Returns the addresses of its own interfaces at which the origin listens. Addresses that no other host can dial
    /// are skipped.
    pub fn hosts(&self) -> impl Iterator<Item = Endpoint> + Clone + use<'a> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_HOSTS);
        let value = told.map_or(&[][..], |option| option.value);
        let (count, rest) = value.split_first().map_or((0, value), |(n, rest)| {
            (usize::from(*n).saturating_mul(IPV4_BYTES), rest)
        });
        let (of_ipv4, of_ipv6) = rest.split_at_checked(count).unwrap_or_default();
        let (of_ipv4, of_ipv6) = (of_ipv4.as_chunks().0, of_ipv6.as_chunks().0);
        let of_ipv4 = of_ipv4.iter().map(|&[a, b, c, d, high, low]| {
            Endpoint::of_ipv4([a, b, c, d], u16::from_be_bytes([high, low]))
        });
        let all = of_ipv4.chain(of_ipv6.iter().map(Endpoint::from_bytes));
        all.filter(|host| host.is_dialable() && !host.is_link_local())
            .take(HOSTS_MAX)
    }
}

/// Appends [`OPTION_HOSTS`] for the first [`HOSTS_MAX`] of these, as far as there is room. Appends nothing if there are
/// none.
pub fn write_hosts(w: &mut Writer<'_>, hosts: &[Endpoint]) -> Result<(), Full> {
    let mut room = w.room().saturating_sub(3);
    let (mut of_ipv4, mut of_ipv6) = (Vec::new(), Vec::new());
    for host in hosts.iter().take(HOSTS_MAX) {
        let (to, bytes) = match host.ipv4() {
            Some(_) => (&mut of_ipv4, IPV4_BYTES),
            None => (&mut of_ipv6, Endpoint::BYTES),
        };
        if let Some(left) = room.checked_sub(bytes) {
            room = left;
            to.extend_from_slice(&host.to_bytes()[Endpoint::BYTES - bytes..]);
        }
    }
    if of_ipv4.is_empty() && of_ipv6.is_empty() {
        return Ok(());
    }
    let mut value = vec![(of_ipv4.len() / IPV4_BYTES) as u8];
    value.extend(of_ipv4);
    value.extend(of_ipv6);
    let (kind, value) = (OPTION_HOSTS, &value[..]);
    write_option(w, Opt { kind, value })
}
