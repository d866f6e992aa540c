//! What the service manager is told, as sd_notify(3) has it: one datagram with lines to the socket
//! that it names. Nothing happens where none does.

use net::clock::Clock;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's name.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The service manager.
#[derive(Debug, Default)]
pub struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// The one that has started this process, if it wants to be told.
    pub fn from_environment() -> Notify {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        Notify::to(name).unwrap_or_default()
    }

    fn to(name: Option<OsString>) -> io::Result<Notify> {
        let Some(name) = name else {
            return Ok(Notify(None));
        };
        // A name that begins with @ is no file.
        let addr = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        Ok(Notify(Some((UnixDatagram::unbound()?, addr))))
    }

    /// The node works: its sockets are open.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Its files are read again; [`Notify::ready`] follows.
    pub fn reloading(&self) {
        let now_us = Clock::monotonic_us();
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
    }

    /// How it goes, for people.
    pub fn status(&self, status: &str) {
        self.say(&format!("STATUS={status}\n"));
    }

    /// The end has begun.
    pub fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    fn say(&self, lines: &str) {
        if let Some((socket, addr)) = &self.0 {
            // A manager that has gone is told nothing.
            let _ = socket.send_to_addr(lines.as_bytes(), addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_by_a_file_or_an_abstract_name() {
        let dir = crate::files::test_directory("notify");
        let path = dir.join("notify");
        let abstract_name = format!("sinew-notify-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (manager, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into()),
            (
                UnixDatagram::bind_addr(&addr).unwrap(),
                OsString::from(format!("@{abstract_name}")),
            ),
        ] {
            let notify = Notify::to(Some(name)).unwrap();
            let heard = || {
                let mut buffer = [0; 256];
                let length = manager.recv(&mut buffer).unwrap();
                String::from_utf8(buffer[..length].to_vec()).unwrap()
            };
            notify.ready("2 of 2 links up");
            assert_eq!(heard(), "READY=1\nSTATUS=2 of 2 links up\n");
            notify.reloading();
            assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        }
        // Nobody listens any more, or ever did.
        Notify::to(Some(path.into())).unwrap().stopping();
        Notify::to(None).unwrap().stopping();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
