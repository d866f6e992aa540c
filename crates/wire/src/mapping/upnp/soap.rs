//! SOAP, the protocol for calling the actions of a service and for returning their results.
//!
//! ```text
//! Envelope                             Envelope
//! '-- Body                             '-- Body
//!     '-- AddPortMapping                   |-- AddPortMappingResponse            done
//!         |-- NewExternalPort              |-- GetExternalIPAddressResponse
//!         |-- NewProtocol                  |   '-- NewExternalIPAddress
//!         '-- ...                          '-- Fault ... UPnPError, errorCode    not done
//! ```

use super::description::Control;
use super::{child_text, http, xml};
use crate::Malformed;
use core::net::{Ipv4Addr, SocketAddrV4};

/// The router has mapped the port to another host.
pub const CONFLICT: u16 = 718;
/// The router only maps ports without a time limit.
pub const ONLY_PERMANENT: u16 = 725;

/// An action of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Returns the router's outside address.
    Address,
    /// Maps this outside UDP port to the node, for `lease_s` seconds; 0 for no limit.
    Map {
        /// The router's port.
        external_port: u16,
        /// The node's address and port.
        own: SocketAddrV4,
        /// The duration in seconds.
        lease_s: u32,
    },
    /// Removes the mapping of an outside port.
    Unmap {
        /// The router's port.
        external_port: u16,
    },
}

impl Action {
    /// Returns the action's name.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Address => "GetExternalIPAddress",
            Action::Map { .. } => "AddPortMapping",
            Action::Unmap { .. } => "DeletePortMapping",
        }
    }

    /// Returns the request that calls the action, with its head.
    pub fn emit(self, control: &Control) -> Vec<u8> {
        let (service, name) = (control.kind.name(), self.name());
        let outside = |port: u16| {
            format!(
                "<NewRemoteHost></NewRemoteHost><NewExternalPort>{port}</NewExternalPort><NewProtocol>UDP</NewProtocol>"
            )
        };
        let arguments = match self {
            Action::Address => String::new(),
            Action::Unmap { external_port } => outside(external_port),
            Action::Map {
                external_port,
                own,
                lease_s,
            } => format!(
                "{}<NewInternalPort>{}</NewInternalPort><NewInternalClient>{}</NewInternalClient>\
                 <NewEnabled>1</NewEnabled><NewPortMappingDescription>sinew</NewPortMappingDescription>\
                 <NewLeaseDuration>{lease_s}</NewLeaseDuration>",
                outside(external_port),
                own.port(),
                own.ip()
            ),
        };
        let body = format!(
            "<?xml version=\"1.0\"?>\r\n\
             <s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             s:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\"><s:Body>\
             <u:{name} xmlns:u=\"{service}\">{arguments}</u:{name}></s:Body></s:Envelope>\r\n"
        );
        http::post(&control.url, &format!("{service}#{name}"), &body)
    }
}

/// The result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The action was successful.
    Done,
    /// The router's outside address; `None` while it has none.
    Address(Option<Ipv4Addr>),
    /// The action failed, for this reason.
    Fault(u16),
}

impl Outcome {
    /// Reads the body of the answer to `action`.
    pub fn parse(bytes: &[u8], action: Action) -> Result<Outcome, Malformed> {
        xml(bytes, |document| {
            let root = document.root_element();
            let of_name = |name: &str| root.descendants().find(|it| it.tag_name().name() == name);
            if let Some(fault) = of_name("Fault") {
                let error = of_name("UPnPError").unwrap_or(fault);
                let code = child_text(error, "errorCode").unwrap_or("0");
                return Ok(Outcome::Fault(code.parse().map_err(|_| Malformed::Value)?));
            }
            let answer = of_name(&format!("{}Response", action.name())).ok_or(Malformed::Kind)?;
            if action != Action::Address {
                return Ok(Outcome::Done);
            }
            let ip = child_text(answer, "NewExternalIPAddress").ok_or(Malformed::Short)?;
            if ip.is_empty() {
                return Ok(Outcome::Address(None));
            }
            let ip: Ipv4Addr = ip.parse().map_err(|_| Malformed::Value)?;
            Ok(Outcome::Address((!ip.is_unspecified()).then_some(ip)))
        })
    }
}

/// Returns the meaning of a fault code, for those that a user can act on. [WANIPConnection:1 §2.4.16, WANIPConnection:2
/// §2.5]
pub const fn reason(code: u16) -> &'static str {
    match code {
        401 | 602 => "it does not know the UPnP action",
        402 | 600 | 601 => "it does not understand the UPnP request",
        606 => "it does not allow that",
        CONFLICT => "the ports that were asked for belong to other hosts",
        724 => "it gives the same port outside only, and that belongs to another host",
        ONLY_PERMANENT => "it does not take the life time of the mapping",
        728 => "it has no room for another mapping",
        _ => "its UPnP service reports an error",
    }
}
