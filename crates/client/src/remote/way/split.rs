//! Splits messages of several datagrams into pieces that fit into one datagram of a way.
//!
//! A socket with a range of ports receives all available datagrams in one message, and sends in the same way. With much
//! traffic such a message would never fit, so it is split between its datagrams: each piece is such a message again.

use super::length::fits;
use wire::ipc::{
    BATCH_HEADER_BYTES, INCOMING_HEADER_BYTES, OUTGOING_HEADER_BYTES, Reply, Request, kind,
};

/// Passes on `message` whole if it fits into a datagram of `longest` bytes or cannot be split. Otherwise it passes on
/// pieces, in order. Each comes with the number of its datagrams. A piece of several datagrams fits; a piece of one may
/// be too long. `scratch` holds the piece that is being assembled.
pub fn split<E>(
    message: &[u8],
    is_raw: bool,
    longest: usize,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8], u64) -> Result<(), E>,
) -> Result<(), E> {
    let header = match message.first().filter(|_| !is_raw) {
        Some(&kind::SEND_FROM) if matches!(Request::parse(message), Ok(Request::SendFrom(_))) => {
            OUTGOING_HEADER_BYTES
        }
        Some(&kind::DATAGRAMS) if matches!(Reply::parse(message), Ok(Reply::Datagrams(_))) => {
            INCOMING_HEADER_BYTES
        }
        _ => return each(message, 1),
    };
    let (front, mut rest) = message.split_at(BATCH_HEADER_BYTES);
    let is_whole = fits(message.len(), longest);
    let mut count = 0;
    scratch.clear();
    scratch.extend_from_slice(front);
    // Each begins with the length of its payload; it was checked that all of them are complete.
    while let Some(len) = rest.first_chunk::<2>() {
        let len = header + usize::from(u16::from_be_bytes(*len));
        let (datagram, behind) = rest.split_at(len.min(rest.len()));
        if !is_whole && count > 0 && !fits(scratch.len() + datagram.len(), longest) {
            each(scratch, count)?;
            scratch.truncate(BATCH_HEADER_BYTES);
            count = 0;
        }
        if !is_whole {
            scratch.extend_from_slice(datagram);
        }
        count += 1;
        rest = behind;
    }
    match is_whole {
        true => each(message, count),
        false => each(scratch, count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{NodeAddr, VirtualPort};
    use core::convert::Infallible;
    use wire::ipc::{Datagram, Destination, MESSAGE_BYTES_MAX, Ports};

    fn pieces(message: &[u8], is_raw: bool, longest: usize) -> Vec<(Vec<u8>, u64)> {
        let mut pieces = Vec::new();
        let Ok(()) = split(message, is_raw, longest, &mut Vec::new(), |piece, count| {
            pieces.push((piece.to_vec(), count));
            Ok::<(), Infallible>(())
        });
        pieces
    }

    fn outgoing(lens: &[usize]) -> Vec<u8> {
        let mut message = vec![kind::SEND_FROM, 0];
        for (i, &len) in lens.iter().enumerate() {
            let ports = Ports {
                from: VirtualPort(i as u16),
                to: Destination {
                    node: NodeAddr(7),
                    port: VirtualPort(9),
                },
            };
            message.extend(ports.header(len));
            message.extend(std::iter::repeat_n(i as u8, len));
        }
        message
    }

    fn incoming(lens: &[usize]) -> Vec<u8> {
        let mut message = vec![kind::DATAGRAMS, 0];
        for (i, &len) in lens.iter().enumerate() {
            let from = Datagram {
                source: NodeAddr(7),
                source_port: VirtualPort(9),
                recovered: false,
                remaining: wire::data::Remaining(0),
                group: (i % 2 == 1).then_some(NodeAddr(8)),
            };
            message.extend_from_slice(&from.header_for(VirtualPort(i as u16), len));
            message.extend(std::iter::repeat_n(i as u8, len));
        }
        message
    }

    #[test]
    fn a_busy_turn_is_cut_between_its_datagrams() {
        let longest = 1_452;
        // Twenty packets of voice, and of video; one that is too long; and only a few.
        for lens in [
            &[172; 20][..],
            &[1_316; 12],
            &[172, 1_500, 172, 172, 65_000],
            &[10, 20],
            &[0; 64],
        ] {
            for message in [outgoing(lens), incoming(lens)] {
                let pieces = pieces(&message, false, longest);
                let counts: u64 = pieces.iter().map(|(_, count)| count).sum();
                assert_eq!(counts, lens.len() as u64);
                let mut joined = message[..2].to_vec();
                for (piece, count) in &pieces {
                    assert_eq!(piece[..2], message[..2]);
                    assert!(fits(piece.len(), longest) || *count == 1, "{count}");
                    let is_understood = match piece[0] {
                        kind::SEND_FROM => Request::parse(piece).is_ok(),
                        _ => Reply::parse(piece).is_ok(),
                    };
                    assert!(is_understood);
                    joined.extend_from_slice(&piece[2..]);
                }
                assert_eq!(joined, message);
                // There are no more pieces than necessary.
                assert!(pieces.len() <= message.len() / 700 + 2, "{}", pieces.len());
            }
        }
    }

    #[test]
    fn all_else_stays_whole() {
        let long = outgoing(&[1_000; 9]);
        for (message, is_raw) in [
            (&[][..], false),
            (&[kind::BIND, 0, 1], false),
            (&[kind::SEND_TO; 2_000], false),
            (&[kind::SEND_FROM, 0, 0xff, 0xff], false),
            (&long, true),
        ] {
            let whole = vec![(message.to_vec(), 1)];
            assert_eq!(pieces(message, is_raw, 600), whole);
        }
        assert_eq!(pieces(&long, false, MESSAGE_BYTES_MAX)[0].1, 9);
    }
}
