use super::*;

const NOISE: [u8; NOISE_INIT_BYTES] = [0xe1; NOISE_INIT_BYTES];
const INIT: Init<'_> = Init {
    sender: SessionIndex::new(0x00ab_cdef),
    versions: VersionRange { min: 1, max: 3 },
    noise: &NOISE,
    mac1: &[0x11; MAC_BYTES],
    mac2: &[0x22; MAC_BYTES],
};

fn init_bytes() -> Vec<u8> {
    let front = [0x10, 0xab, 0xcd, 0xef, 1, 3, 0, 0];
    let mut bytes = [&front[..], &NOISE, &[0x11; 16], &[0x22; 16]].concat();
    bytes.resize(INIT_BYTES, 0);
    bytes
}

fn response_bytes() -> Vec<u8> {
    let front = [0x11, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 2];
    [&front[..], &[0x66; NOISE_RESPONSE_BYTES + 5], &[0x11; 16]].concat()
}

fn finish_bytes() -> Vec<u8> {
    let front = [0x12, 0xab, 0xcd, 0xef];
    [&front[..], &[0x66; NOISE_FINISH_BYTES + 5], &[0x11; 16]].concat()
}

fn cookie_bytes() -> Vec<u8> {
    let front = [0x13, 0xab, 0xcd, 0xef];
    [&front[..], &[0xc0; 16], &[0; 16]].concat()
}

#[test]
fn messages_and_their_bytes_agree_both_ways() {
    assert_eq!(Init::parse(&init_bytes()), Ok(INIT));
    assert_eq!(INIT.to_bytes().as_slice(), init_bytes());

    let bytes = response_bytes();
    let response = Response::parse(&bytes).unwrap();
    assert_eq!(response.sender, SessionIndex::new(0xabcdef));
    assert_eq!(response.receiver, SessionIndex::new(0x012345));
    assert_eq!((response.version, response.noise.len()), (2, 109));
    assert_eq!(response.header(), bytes[..8]);
    assert_eq!(
        Response::of_header(&bytes[..8]),
        Ok((response.sender, response.version))
    );

    let bytes = finish_bytes();
    let finish = Finish::parse(&bytes).unwrap();
    assert_eq!(finish.receiver, SessionIndex::new(0xabcdef));
    assert_eq!(finish.noise.len(), 69);
    assert_eq!(finish.header(), bytes[..4]);

    let cookie = Cookie {
        receiver: SessionIndex::new(0xabcdef),
        cookie: [0xc0; 16],
    };
    assert_eq!(Cookie::parse(&cookie_bytes()), Ok(cookie));
    assert_eq!(cookie.to_bytes().as_slice(), cookie_bytes());
}

#[test]
fn every_truncation_is_short() {
    let (init, cookie) = (init_bytes(), cookie_bytes());
    for cut in 0..init.len() {
        assert_eq!(Init::parse(&init[..cut]), Err(Malformed::Short), "{cut}");
    }
    for cut in 0..cookie.len() {
        let parsed = Cookie::parse(&cookie[..cut]);
        assert_eq!(parsed, Err(Malformed::Short), "{cut}");
    }
    // Five bytes of the vectors take the place of a certificate, which may have any length.
    let (response, finish) = (response_bytes(), finish_bytes());
    for cut in 0..response.len() - 5 {
        let parsed = Response::parse(&response[..cut]);
        assert_eq!(parsed, Err(Malformed::Short), "{cut}");
    }
    for cut in 0..finish.len() - 5 {
        let parsed = Finish::parse(&finish[..cut]);
        assert_eq!(parsed, Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn too_long_is_refused() {
    let longer = |mut bytes: Vec<u8>, length| {
        bytes.resize(length, 0);
        bytes
    };
    let init = longer(init_bytes(), INIT_BYTES + 1);
    assert_eq!(Init::parse(&init), Err(Malformed::Length));
    let response = longer(response_bytes(), MAX_RESPONSE_BYTES + 1);
    assert_eq!(Response::parse(&response), Err(Malformed::Length));
    let finish = longer(finish_bytes(), MAX_FINISH_BYTES + 1);
    assert_eq!(Finish::parse(&finish), Err(Malformed::Length));
    let cookie = longer(cookie_bytes(), COOKIE_BYTES + 1);
    assert_eq!(Cookie::parse(&cookie), Err(Malformed::Length));
}

#[test]
fn other_kinds_versions_and_nonzero_padding_are_refused() {
    let mut bytes = init_bytes();
    for first in 0..=255 {
        bytes[0] = first;
        let expected = match first {
            0x10 => Ok(INIT),
            _ if first >> 4 == 1 => Err(Malformed::Kind),
            _ => Err(Malformed::Version),
        };
        assert_eq!(Init::parse(&bytes), expected, "{first:#x}");
    }
    bytes[0] = 0x10;
    for at in (6..8).chain(init::MAC2.end..INIT_BYTES) {
        bytes[at] = 1;
        assert_eq!(Init::parse(&bytes), Err(Malformed::Value), "{at}");
        bytes[at] = 0;
    }
    for (min, max) in [(0, 1), (2, 1)] {
        (bytes[4], bytes[5]) = (min, max);
        assert_eq!(Init::parse(&bytes), Err(Malformed::Value));
    }
}

#[test]
fn the_highest_common_version_is_chosen() {
    let range = |min, max| VersionRange { min, max };
    assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
    assert_eq!(range(2, 5).common(range(1, 3)), Some(3));
    assert_eq!(range(1, 2).common(range(3, 4)), None);
    assert_eq!(range(1, 1).common(range(1, 1)), Some(1));
    assert!(range(1, 3).contains(3) && !range(1, 3).contains(4));
}

/// Nobody gets more bytes out of a node than he sends, and all messages fit the smallest IPv6 MTU.
#[test]
fn sizes_are_as_the_header_says() {
    assert_eq!(INIT_BYTES, 1152);
    const { assert!(MAX_FINISH_BYTES <= INIT_BYTES && COOKIE_BYTES < INIT_BYTES) };
    const { assert!(INIT_BYTES + 40 + 8 <= 1280) };
}
