//! The two namespaces, with a cable and an emulated link between them.

use crate::bench::BenchError;
use base::impair::Model;
use net::netns::Namespace;
use net::tap::ETHERNET_BYTES;
use net::udp;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use tools::emulate::bridge::Bridge;
use tools::emulate::end::{self, End};
use tools::emulate::{Options, Place};

/// The interface of the emulated link in both namespaces.
const INTERFACE: &str = "emu0";

/// The path of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Path {
    /// A pair of veth.
    Cable,
    /// The emulator.
    Emulated,
}

impl Path {
    /// Returns the addresses of the two ends.
    pub(in crate::bench) fn ends(self) -> [Ipv4Addr; 2] {
        let net = if self == Path::Cable { 8 } else { 9 };
        [1, 2].map(|end| Ipv4Addr::new(10, 9, net, end))
    }
}

/// The namespaces with the cable and the emulated link.
pub(in crate::bench) struct Link {
    spaces: [Namespace; 2],
    _ends: [End; 2],
    bridge: Bridge,
}

impl Link {
    pub(in crate::bench) fn new() -> Result<Link, BenchError> {
        let start = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
        net::netns::available().map_err(|why| start(&why))?;
        let spaces = [Namespace::new(), Namespace::new()];
        let [a, b] = spaces;
        let spaces = [a.map_err(|e| start(&e))?, b.map_err(|e| start(&e))?];
        spaces[0]
            .veth("cable", &spaces[1], "cable")
            .map_err(|e| start(&e))?;
        for (space, ip) in spaces.iter().zip(Path::Cable.ends()) {
            let address = format!("{ip}/24");
            let words = ["addr", "add", &address, "dev", "cable"];
            space.ip(&words).map_err(|e| start(&e))?;
            // Otherwise one connection would reuse what an earlier one learned about the path.
            let forget = space.sysctl("net/ipv4/tcp_no_metrics_save", "1");
            forget.map_err(|e| start(&e))?;
        }
        let file = |space: &Namespace| Place::Namespace(space.path().display().to_string());
        let options = Options {
            between: spaces.each_ref().map(file),
            models: [Model::default(), Model::default()],
            interface: INTERFACE.into(),
            addresses: Path::Emulated.ends().map(|ip| vec![format!("{ip}/24")]),
            mtu: 1_500,
            seed: 1,
            seconds: None,
        };
        let ends = end::open(&options).map_err(|e| start(&e))?;
        let taps = ends.each_ref().map(End::tap);
        Ok(Link {
            bridge: Bridge::start(taps, &options.models, options.seed)?,
            _ends: ends,
            spaces,
        })
    }

    /// Sets the model of the emulated link in both directions.
    pub(in crate::bench) fn set(&self, there: &str, back: &str) {
        for (way, text) in [there, back].into_iter().enumerate() {
            let model = text.parse().expect("the words are this benchmark's own");
            self.bridge.set_model(way, model);
        }
    }

    /// Returns sockets that send from the first namespace, and the socket in the second that receives.
    pub(in crate::bench) fn udp(
        &self,
        path: Path,
        sources: usize,
    ) -> Result<(Vec<UdpSocket>, UdpSocket), BenchError> {
        let [from, to] = path.ends();
        let drain = self.within(1, || UdpSocket::bind((to, 0)))?;
        drain.set_nonblocking(true)?;
        let at = drain.local_addr()?;
        let source = || {
            let socket = UdpSocket::bind((from, 0))?;
            socket.connect(at)?;
            Ok(socket)
        };
        let sources = self.within(0, || (0..sources).map(|_| source()).collect())?;
        Ok((sources, drain))
    }

    /// Returns a socket that sends, and one that counts. The calling thread enters the first namespace and stays there.
    pub(in crate::bench) fn counted(
        &self,
        path: Path,
    ) -> Result<(UdpSocket, udp::Socket), BenchError> {
        let [from, to] = path.ends();
        self.spaces[1].enter()?;
        let sink = udp::Socket::bind(SocketAddr::from((to, 0)), udp::Options::default())?;
        self.spaces[0].enter()?;
        let source = UdpSocket::bind((from, 0))?;
        source.connect(sink.local_addr()?)?;
        Ok((source, sink))
    }

    /// Opens a connection through the emulated link with this congestion control; returns `None` if the kernel does not
    /// have it.
    pub(in crate::bench) fn tcp(
        &self,
        control: &str,
    ) -> Result<Option<(TcpStream, TcpStream)>, BenchError> {
        let [_, to] = Path::Emulated.ends();
        let listener = self.within(1, || TcpListener::bind((to, 0)))?;
        let at = listener.local_addr()?;
        let source = self.within(0, || TcpStream::connect(at))?;
        let (sink, _) = listener.accept()?;
        // Only the handshake has been sent so far.
        let chosen = net::tcp::set_congestion_control(&source, control);
        Ok(chosen.is_ok().then_some((source, sink)))
    }

    /// Ends the emulator and returns its scheduling.
    pub(in crate::bench) fn stop(self) -> Result<String, BenchError> {
        Ok(self.bridge.stop()?.scheduling)
    }

    /// Returns one of the namespaces.
    pub(in crate::bench) fn space(&self, side: usize) -> &Namespace {
        &self.spaces[side]
    }

    /// Returns the bytes of IP packets that have come out of the emulated link in the second namespace.
    pub(in crate::bench) fn carried_bytes(&self) -> Result<u64, BenchError> {
        let text = self.within(1, || {
            let output = std::process::Command::new("ip")
                .args(["-s", "-j", "link", "show", INTERFACE])
                .output()?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })?;
        let links: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let came = |what: &str| links[0]["stats64"]["rx"][what].as_u64();
        let headers = came("packets").map(|packets| packets * ETHERNET_BYTES as u64);
        let bytes = came("bytes").zip(headers);
        bytes
            .map(|(all, headers)| all - headers.min(all))
            .ok_or_else(|| {
                BenchError::Start("`ip -s -j link` does not tell what came out of the link".into())
            })
    }

    fn within<T: Send>(
        &self,
        side: usize,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, BenchError> {
        let done = self.spaces[side].run(work);
        let done = done.map_err(|error| BenchError::Start(error.to_string()))?;
        Ok(done?)
    }
}
