//! Options of the level `SOL_SINEW`, with the numbers of sinew.h.

use crate::errno::Errno;
use client::{Aim, Delivery, LinkProtocol, Options, RouteBy, StreamControl};
use core::time::Duration;

/// The level of these options.
pub(crate) const SOL_SINEW: libc::c_int = 0x534e;
pub(crate) const LINK: libc::c_int = 1;
pub(crate) const ROUTING: libc::c_int = 2;
pub(crate) const PRIORITY: libc::c_int = 3;
pub(crate) const DEADLINE: libc::c_int = 4;
pub(crate) const DELIVERY: libc::c_int = 5;
pub(crate) const TTL: libc::c_int = 6;
pub(crate) const MAX_PAYLOAD: libc::c_int = 7;
pub(crate) const GIVE_UP: libc::c_int = 8;
pub(crate) const GIVEN_UP: libc::c_int = 9;
pub(crate) const MISSED: libc::c_int = 10;
pub(crate) const CONTROL: libc::c_int = 11;
pub(crate) const EARLY: libc::c_int = 12;
pub(crate) const TARGET: libc::c_int = 13;
pub(crate) const REPAIR: libc::c_int = 14;

const LINKS: [LinkProtocol; 3] = [
    LinkProtocol::BestEffort,
    LinkProtocol::RealTime,
    LinkProtocol::Reliable,
];
const DELIVERIES: [Delivery; 3] = [
    Delivery::AsItComes,
    Delivery::InOrder,
    Delivery::AsSent(None),
];

/// Returns the options with one of them changed.
pub(crate) fn set(
    options: Options,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<Options, Errno> {
    let mut changed = options;
    if name == REPAIR && value == -1 {
        changed.aim = Aim::new(options.aim.target(), None).unwrap_or_default();
        return Ok(changed);
    }
    let place = usize::try_from(value).map_err(|_| libc::EINVAL)?;
    match name {
        LINK => changed.link = *LINKS.get(place).ok_or(libc::EINVAL)?,
        ROUTING => changed.routing = *RouteBy::ALL.get(place).ok_or(libc::EINVAL)?,
        PRIORITY if value <= 7 => changed.priority = value as u8,
        DEADLINE => {
            changed.deadline = (value != 0).then(|| Duration::from_micros(place as u64));
        }
        GIVE_UP => {
            changed.give_up = (value != 0).then(|| Duration::from_millis(place as u64));
        }
        CONTROL => {
            let byte = u8::try_from(value).map_err(|_| libc::EINVAL)?;
            changed.control = StreamControl::from_byte(byte).map_err(|_| libc::EINVAL)?;
        }
        EARLY if value <= 1 => changed.early = value == 1,
        DELIVERY => changed.delivery = *DELIVERIES.get(place).ok_or(libc::EINVAL)?,
        TARGET => {
            let target = (place > 0).then_some(f64::from(value) / 1e6);
            changed.aim = Aim::new(target, options.aim.most()).map_err(|_| libc::EINVAL)?;
        }
        REPAIR => {
            let most = Some(f64::from(value) / 100.0);
            changed.aim = Aim::new(options.aim.target(), most).map_err(|_| libc::EINVAL)?;
        }
        TTL if (1..=63).contains(&value) => changed.ttl = value as u8,
        PRIORITY | TTL | EARLY => return Err(libc::EINVAL),
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(changed)
}

/// Returns the value of one option.
pub(crate) fn value(options: Options, name: libc::c_int) -> Result<libc::c_int, Errno> {
    let place = |place: Option<usize>| place.map_or(Err(libc::EINVAL), |p| Ok(p as libc::c_int));
    match name {
        LINK => place(LINKS.iter().position(|l| *l == options.link)),
        ROUTING => place(RouteBy::ALL.iter().position(|r| *r == options.routing)),
        PRIORITY => Ok(options.priority.into()),
        DEADLINE => Ok(options.deadline.map_or(0, |deadline| {
            libc::c_int::try_from(deadline.as_micros()).unwrap_or(libc::c_int::MAX)
        })),
        GIVE_UP => Ok(options.give_up.map_or(0, |give_up| {
            libc::c_int::try_from(give_up.as_millis()).unwrap_or(libc::c_int::MAX)
        })),
        CONTROL => Ok(StreamControl::to_byte(options.control).into()),
        EARLY => Ok(options.early.into()),
        DELIVERY => place(DELIVERIES.iter().position(|d| *d == options.delivery)),
        TTL => Ok(options.ttl.into()),
        TARGET => Ok(options
            .aim
            .target()
            .map_or(0, |share| (share * 1e6).round() as _)),
        REPAIR => Ok(options
            .aim
            .most()
            .map_or(-1, |most| (most * 100.0).round() as _)),
        _ => Err(libc::ENOPROTOOPT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Routing;

    #[test]
    fn every_value_comes_back_and_nonsense_is_refused() {
        let plain = Options::best_effort();
        for (name, most) in [
            (LINK, 2),
            (ROUTING, 8),
            (PRIORITY, 7),
            (DEADLINE, 1_000_000),
            (GIVE_UP, 86_400_000),
            (DELIVERY, 2),
            (CONTROL, 2),
            (EARLY, 1),
            (TTL, 63),
            (TARGET, 65_535),
            (REPAIR, 254),
        ] {
            for chosen in [1, most] {
                let options = set(plain, name, chosen).unwrap();
                assert_eq!(value(options, name), Ok(chosen), "{name}");
            }
            if name != DEADLINE && name != GIVE_UP {
                assert_eq!(set(plain, name, most + 1), Err(libc::EINVAL), "{name}");
            }
            if name != REPAIR {
                assert_eq!(set(plain, name, -1), Err(libc::EINVAL), "{name}");
            }
        }
        let none = set(plain, REPAIR, 0).unwrap();
        assert_eq!(
            value(none, REPAIR),
            Ok(0),
            "to want no repair is not to say nothing"
        );
        assert_eq!(value(plain, REPAIR), Ok(-1));
        assert_eq!(set(none, REPAIR, -1), Ok(plain));
        assert_eq!(set(plain, 99, 1), Err(libc::ENOPROTOOPT));
        let routed = set(plain, ROUTING, 3).unwrap().routing;
        assert_eq!(routed, RouteBy::Table(Routing::ExpectedLatency));
    }

    #[test]
    fn the_header_has_these_numbers() {
        let header = include_str!("../include/sinew.h");
        let number = |name: &str| {
            let line = header
                .lines()
                .find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            let text = line.unwrap_or_else(|| panic!("{name} is not in sinew.h"));
            match text.strip_prefix("0x") {
                Some(hex) => libc::c_int::from_str_radix(hex, 16).unwrap(),
                None => text.parse().unwrap(),
            }
        };
        for (name, value) in [
            ("SOL_SINEW", SOL_SINEW),
            ("SINEW_LINK", LINK),
            ("SINEW_ROUTING", ROUTING),
            ("SINEW_PRIORITY", PRIORITY),
            ("SINEW_DEADLINE", DEADLINE),
            ("SINEW_DELIVERY", DELIVERY),
            ("SINEW_TTL", TTL),
            ("SINEW_GIVE_UP", GIVE_UP),
            ("SINEW_CONTROL", CONTROL),
            ("SINEW_EARLY", EARLY),
            ("SINEW_TARGET", TARGET),
            ("SINEW_REPAIR", REPAIR),
            ("SINEW_MAX_PAYLOAD", MAX_PAYLOAD),
            ("SINEW_GIVEN_UP", GIVEN_UP),
            ("SINEW_MISSED", MISSED),
            ("SINEW_LINK_BEST_EFFORT", 0),
            ("SINEW_LINK_REAL_TIME", 1),
            ("SINEW_LINK_RELIABLE", 2),
            ("SINEW_DELIVERY_AS_IT_COMES", 0),
            ("SINEW_DELIVERY_IN_ORDER", 1),
            ("SINEW_DELIVERY_AS_SENT", 2),
        ] {
            assert_eq!(number(name), value, "{name}");
        }
        for (place, by) in RouteBy::ALL.iter().enumerate() {
            let label = by.label().to_uppercase().replace('-', "_");
            assert_eq!(number(&format!("SINEW_ROUTING_{label}")), place as i32);
        }
    }
}
