//! Whether the datagrams of a socket may go by UDP, as its options say.

use wire::data::LinkProtocol;
use wire::ipc::{Delivery, Options};

/// What a socket wants: by UDP what may be lost and may overtake; what is to arrive, or in order, stays in
/// TLS, which loses nothing and keeps the order.
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
    /// The socket asks for these options. What they forbid is forbidden from here on.
    pub fn on_asked(&mut self, options: &Options) {
        self.asked = Some(self.asked != Some(false) && may_go_by_udp(options));
    }

    /// The node has granted them: what they permit is permitted.
    pub fn on_granted(&mut self) {
        self.granted = self.asked.take().unwrap_or(self.granted);
    }

    /// Datagrams may go by UDP.
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
        // Two at once: which of them is granted is not known before both are.
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
