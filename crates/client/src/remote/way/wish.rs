//! Decides by the options of a socket whether its datagrams may go by UDP.

use wire::data::LinkProtocol;
use wire::ipc::{Delivery, Options};

/// The wish of a socket. Datagrams that may be lost and reordered go by UDP. Datagrams that must arrive, or must arrive
/// in order, stay in TLS, which loses nothing and keeps the order.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    granted: bool,
    asked: Option<bool>,
}

impl Default for Wish {
    fn default() -> Wish {
        let granted = may_go_by_udp(&Options::default());
        Wish {
            granted,
            asked: None,
        }
    }
}

impl Wish {
    /// Notes that the socket requests these options. If they forbid UDP, it is forbidden from now on.
    pub fn on_asked(&mut self, options: &Options) {
        self.asked = Some(self.asked != Some(false) && may_go_by_udp(options));
    }

    /// Notes that the node has granted them: what they permit is permitted.
    pub fn on_granted(&mut self) {
        self.granted = self.asked.take().unwrap_or(self.granted);
    }

    /// Returns true if datagrams may go by UDP.
    pub fn may(self) -> bool {
        self.granted && self.asked != Some(false)
    }
}

fn may_go_by_udp(options: &Options) -> bool {
    options.class.link != LinkProtocol::Reliable && options.delivery == Delivery::AsItComes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_arrive_or_keep_its_order_stays_in_tls() {
        let options = Options::default();
        let wish = |options: &Options| {
            let mut wish = Wish::default();
            wish.on_asked(options);
            wish.on_granted();
            wish.may()
        };
        assert!(Wish::default().may() && wish(&options));
        for delivery in [Delivery::InOrder, Delivery::AsSent(None)] {
            assert!(!wish(&Options {
                delivery,
                ..options
            }));
        }
        for (link, may) in [
            (LinkProtocol::RealTime, true),
            (LinkProtocol::Reliable, false),
        ] {
            let mut options = options;
            options.class.link = link;
            assert_eq!(wish(&options), may);
        }
    }

    #[test]
    fn it_is_forbidden_when_asked_and_permitted_when_granted() {
        let (free, mut bound) = (Options::default(), Options::default());
        bound.delivery = Delivery::InOrder;
        let mut wish = Wish::default();
        wish.on_asked(&bound);
        assert!(!wish.may());
        // With two requests at once, it is unknown which of them is granted before both are.
        wish.on_asked(&free);
        assert!(!wish.may());
        wish.on_granted();
        assert!(!wish.may());
        wish.on_asked(&free);
        assert!(!wish.may());
        wish.on_granted();
        assert!(wish.may());
        wish.on_granted();
        assert!(wish.may());
    }
}
