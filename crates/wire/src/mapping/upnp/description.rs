//! The description of a router: the services in it that map ports.
//!
//! ```text
//! root
//! |-- URLBase                                     what addresses are relative to, in old ones
//! '-- device: InternetGatewayDevice
//!     '-- deviceList, device: WANDevice
//!         '-- deviceList, device: WANConnectionDevice
//!             '-- serviceList, service
//!                 |-- serviceType                 urn:schemas-upnp-org:service:WANIPConnection:1
//!                 '-- controlURL                  /ctl/IPConn
//! ```

use super::{Url, child_text, xml};
use crate::Malformed;

/// The maximum number of services that are examined. Choice: one for each uplink of a home router, by IP and by PPP.
const SERVICES_MAX: usize = 8;

/// The kind of uplink on which a service maps ports. The actions of all kinds are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// WANIPConnection of version 2.
    Ip2,
    /// WANIPConnection of version 1.
    Ip1,
    /// WANPPPConnection.
    Ppp1,
}

impl Kind {
    /// All kinds, the preferred one first.
    pub const ALL: [Kind; 3] = [Kind::Ip2, Kind::Ip1, Kind::Ppp1];

    /// Returns the name of the service type.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Ip2 => "urn:schemas-upnp-org:service:WANIPConnection:2",
            Kind::Ip1 => "urn:schemas-upnp-org:service:WANIPConnection:1",
            Kind::Ppp1 => "urn:schemas-upnp-org:service:WANPPPConnection:1",
        }
    }
}

/// A service that maps ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The kind of the service.
    pub kind: Kind,
    /// The location for requests.
    pub url: Url,
}

/// Returns the services that map ports in the description that came from `location`, the preferred one first. A service
/// with an unreadable address is left out, and an unreadable base is ignored: many routers have mistakes in values that
/// they do not need themselves.
pub fn controls(bytes: &[u8], location: &Url) -> Result<Vec<Control>, Malformed> {
    xml(bytes, |document| {
        let root = document.root_element();
        let base = child_text(root, "URLBase").filter(|it| !it.is_empty());
        let base = base.and_then(|it| location.join(it).ok());
        let base = base.unwrap_or_else(|| location.clone());
        let mut found = Vec::new();
        for service in root
            .descendants()
            .filter(|it| it.tag_name().name() == "service")
        {
            let name = child_text(service, "serviceType").unwrap_or_default();
            let Some(kind) = Kind::ALL.into_iter().find(|it| it.name() == name) else {
                continue;
            };
            let at = child_text(service, "controlURL").filter(|it| !it.is_empty());
            let Some(url) = at.and_then(|it| base.join(it).ok()) else {
                continue;
            };
            if found.len() == SERVICES_MAX {
                return Err(Malformed::Count);
            }
            found.push(Control { kind, url });
        }
        found.sort_by_key(|it| it.kind);
        Ok(found)
    })
}
