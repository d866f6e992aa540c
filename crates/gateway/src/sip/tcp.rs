//! Accepts TCP connections. Choice: connections are accepted here and then passed to the SIP stack, because the stack's
//! own listener is bound only later, and accepts all hosts.

use super::Counters;
use core::net::SocketAddr;
use core::time::Duration;
use rsipstack::sip::Transport;
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transport::tcp::TcpConnection;
use rsipstack::transport::{SipAddr, SipConnection};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections. The stack uses 128 KiB for each: 64 MiB.
const CONNECTIONS_MAX: usize = 512;
/// Maximum number of connections of one host.
const PER_HOST_MAX: usize = CONNECTIONS_MAX / 4;
/// The time after which an idle connection is closed. A phone keeps its connection alive with some message every two
/// minutes (RFC 5626 §4.4.1), and a PBX as often as it likes.
const IDLE: Duration = Duration::from_secs(600);
/// The pause after an error of the kernel, which lacks descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds the listener.
pub(super) async fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(at).await
}

/// Accepts connections forever.
pub(super) async fn serve(
    listener: TcpListener,
    at: SocketAddr,
    endpoint: EndpointInnerRef,
    counters: Arc<Counters>,
    stopped: CancellationToken,
) {
    endpoint.transport_layer.set_stream_idle_timeout(IDLE);
    let own = SipAddr {
        r#type: Some(Transport::Tcp),
        addr: at.into(),
    };
    let mut hosts = HashMap::<IpAddr, Vec<Weak<()>>>::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let of_host = hosts.entry(from.ip()).or_default();
        of_host.retain(|open| open.strong_count() > 0);
        let is_full = endpoint.transport_layer.connections_count() >= CONNECTIONS_MAX;
        if is_full || of_host.len() >= PER_HOST_MAX {
            counters.overload.add();
            continue;
        }
        // Signalling messages are short and urgent.
        let _ = stream.set_nodelay(true);
        let open = Arc::new(());
        let token = stopped.child_token();
        if let Ok(connection) = TcpConnection::from_stream(stream, own.clone(), Some(token.clone()))
        {
            of_host.push(Arc::downgrade(&open));
            let connection = SipConnection::Tcp(connection);
            endpoint.transport_layer.add_connection(connection);
            // The stack cancels the token of a connection that has ended.
            tokio::spawn(async move {
                token.cancelled().await;
                drop(open);
            });
        }
        if hosts.len() > CONNECTIONS_MAX {
            hosts.retain(|_, open| open.iter().any(|open| open.strong_count() > 0));
        }
    }
}
