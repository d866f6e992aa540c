//! Single datagrams whose answer is sent from the address at which they arrived. This is for callers that share one
//! socket of the standard library among several threads.

use super::local::{self, Locals};
use super::outgoing::Control;
use crate::addr::{Family, NAME_BYTES, Name};
use crate::sys;
use std::io;
use std::mem;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

/// The two addresses between which datagrams are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address of the other host.
    pub far: SocketAddr,
    /// The address of this host, if it has several; mapped if it is IPv4.
    own: Option<[u8; 16]>,
}

impl Ends {
    /// Creates ends with this far address; the kernel chooses the own one.
    pub fn to(far: SocketAddr) -> Ends {
        Ends { far, own: None }
    }

    /// Makes `recv` report the own address, if the socket is bound to all addresses of the host.
    pub fn observe(socket: &UdpSocket) -> io::Result<()> {
        let bound = socket.local_addr()?;
        let family = match bound {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(_) => Family::V6 { scope: 0 },
        };
        Locals::observe(socket.as_fd(), family, bound)
    }

    /// Receives one datagram, if there is one. A datagram that is longer than `room` is truncated.
    pub fn recv(socket: &UdpSocket, room: &mut [u8]) -> io::Result<(usize, Ends)> {
        let (mut name, mut control) = (Name::EMPTY, Control::EMPTY);
        let mut iovec = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        // SAFETY: all zero is a valid `msghdr`: no buffers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = NAME_BYTES;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        (header.msg_control, header.msg_controllen) = control.room();
        // SAFETY: the header points to a name, a buffer and room for control messages, each with its
        // true length and used by nobody else meanwhile.
        let len = sys::check_len(unsafe {
            libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT)
        })?;
        let far = name.std().ok_or(io::ErrorKind::InvalidData)?;
        let own = own(&header).filter(|ip| {
            // For these addresses the kernel needs an interface, too, and chooses correctly by that itself.
            let ip = Ipv6Addr::from(*ip);
            !(ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified())
        });
        Ok((len, Ends { far, own }))
    }

    /// Sends one datagram.
    pub fn send(&self, socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
        let (mut name, name_len) = Name::of(self.far);
        let mut control = Control::EMPTY;
        if let Some(ip) = self.own {
            match Ipv6Addr::from(ip).to_ipv4_mapped() {
                Some(_) => control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, local::to_v4(ip)),
                None => control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, local::to_v6(ip)),
            }
        }
        // This is sound because sendmsg does not write through the pointer.
        let mut iovec = libc::iovec {
            iov_base: datagram.as_ptr().cast_mut().cast(),
            iov_len: datagram.len(),
        };
        // SAFETY: all zero is a valid `msghdr`: no buffers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = name_len;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        (header.msg_control, header.msg_controllen) = control.written();
        // SAFETY: as above; the kernel only reads.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        sys::check_len(sent).map(drop)
    }
}

/// Returns the address at which a datagram arrived, as the kernel reports it.
fn own(header: &libc::msghdr) -> Option<[u8; 16]> {
    let mut own = None;
    // SAFETY: "CMSG_FIRSTHDR returns a pointer to the first cmsghdr in the ancillary data buffer ... or
    // NULL if there isn't enough space"; CMSG_NXTHDR likewise. The kernel wrote the buffer and
    // `msg_controllen`.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    own = Some(local::of_v4(
                        data.cast::<libc::in_pktinfo>().read_unaligned(),
                    ));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    own = Some(info.ipi6_addr.s6_addr);
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_leaves_from_the_address_that_was_asked() {
        // An IPv4 socket, and an IPv6 socket that supports IPv4: each is asked at an address that the kernel would not
        // have chosen.
        for at in ["0.0.0.0:0", "[::]:0"] {
            let gate = UdpSocket::bind(at).unwrap();
            Ends::observe(&gate).unwrap();
            let port = gate.local_addr().unwrap().port();
            for asked in [[127, 0, 0, 1], [127, 0, 9, 9], [127, 1, 2, 3]] {
                let asked = SocketAddr::from((asked, port));
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(b"probe", asked).unwrap();
                let mut room = [0; 8];
                let (len, ends) = Ends::recv(&gate, &mut room).unwrap();
                assert_eq!(
                    (&room[..len], ends.far.port()),
                    (&b"probe"[..], client.local_addr().unwrap().port())
                );
                ends.send(&gate, b"answer").unwrap();
                let (len, from) = client.recv_from(&mut room).unwrap();
                assert_eq!((&room[..len], from), (&b"answer"[..], asked));
            }
        }
        // A socket with one address needs nothing, and IPv6 has a control message of its own.
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let (gate, client) = (UdpSocket::bind(at).unwrap(), UdpSocket::bind(at).unwrap());
            Ends::observe(&gate).unwrap();
            let asked = gate.local_addr().unwrap();
            client.send_to(&[7; 20], asked).unwrap();
            let (len, ends) = Ends::recv(&gate, &mut [0; 8]).unwrap();
            assert_eq!((len, ends), (8, Ends::to(client.local_addr().unwrap())));
            ends.send(&gate, b"").unwrap();
            assert_eq!(client.recv_from(&mut [0; 8]).unwrap(), (0, asked));
            assert_eq!(
                Ends::recv(&gate, &mut [0; 8]).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
        }
    }
}
