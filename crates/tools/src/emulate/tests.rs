//! The emulated link between two networks made for the test. The tests need root; without root they
//! print a line and skip.

use super::bridge::Bridge;
use super::end::{self, End};
use super::{EmulateError, Options, Place, Report};
use base::impair::{Line, Model, Verdict};
use base::{Rng, Time};
use net::netns::{Namespace, available};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Two networks, and a link between them with an address at each end.
struct Pair {
    spaces: [Namespace; 2],
    options: Options,
    ends: [End; 2],
}

impl Pair {
    /// Returns `None` if this process cannot make network namespaces.
    fn new(test: &str, models: [&str; 2]) -> Option<Pair> {
        if let Err(why) = available() {
            eprintln!("SKIPPED {test}: {why}");
            return None;
        }
        let spaces = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let file = |space: &Namespace| Place::Namespace(space.path().display().to_string());
        let options = Options {
            between: spaces.each_ref().map(file),
            models: models.map(|model| model.parse().unwrap()),
            interface: "emu0".into(),
            addresses: [vec!["10.9.0.1/24".into()], vec!["10.9.0.2/24".into()]],
            mtu: 1_500,
            seed: 42,
            seconds: None,
        };
        let ends = end::open(&options).unwrap();
        Some(Pair {
            spaces,
            options,
            ends,
        })
    }

    fn bridge(&self) -> Bridge {
        let taps = self.ends.each_ref().map(End::tap);
        Bridge::start(taps, &self.options.models, self.options.seed).unwrap()
    }

    fn udp(&self) -> [UdpSocket; 2] {
        let bind = |side: usize, addr: &'static str| {
            let bound = self.spaces[side].run(|| UdpSocket::bind(addr).unwrap());
            let socket = bound.unwrap();
            // With the timeout, a lost packet fails the test instead of stopping it.
            socket
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            socket
        };
        let [a, b] = [bind(0, "10.9.0.1:4000"), bind(1, "10.9.0.2:4000")];
        a.connect("10.9.0.2:4000").unwrap();
        b.connect("10.9.0.1:4000").unwrap();
        [a, b]
    }
}

#[test]
fn fates_in_each_direction_are_those_of_the_model_with_the_same_seed() {
    const PACKETS: u8 = 200;
    let models = ["loss=20% burst=40%", "loss=10%"];
    let Some(pair) = Pair::new("fates_in_each_direction", models) else {
        return;
    };
    let mut rng = Rng::new(pair.options.seed);
    let expected = pair.options.models.each_ref().map(|model| {
        let mut line = Line::new(model.clone(), rng.fork());
        let survives = |n: &u8| matches!(line.push(Time::ZERO, 1, *n), Verdict::Deliver(_));
        (0..PACKETS).filter(survives).collect::<Vec<u8>>()
    });
    let bridge = pair.bridge();
    let sockets = pair.udp();
    for way in [0, 1] {
        let mut arrived = Vec::new();
        for n in 0..PACKETS {
            sockets[way].send(&[n]).unwrap();
            // The test sends the packets one after the other, so that no buffer can overflow on a
            // slow machine.
            if expected[way].contains(&n) {
                let mut buffer = [0; 8];
                assert_eq!(sockets[1 - way].recv(&mut buffer).unwrap(), 1);
                arrived.push(buffer[0]);
            }
        }
        assert_eq!(arrived, expected[way], "way {way}");
    }
    let overrun = pair.ends.each_ref().map(End::overrun);
    let report = Report::new(&pair.options, &bridge.stop().unwrap(), overrun);
    for (way, expected) in report.directions.iter().zip(&expected) {
        let (packets, bytes) = (u64::from(PACKETS), 29 * u64::from(PACKETS));
        assert_eq!((way.packets, way.bytes), (packets, bytes), "no noise");
        assert_eq!(way.delivered, expected.len() as u64);
        assert_eq!(way.lost, packets - way.delivered);
        assert_eq!((way.refused, way.overrun, way.under_way), (0, 0, 0));
        assert!(way.late_p50_us.is_some());
    }
    let table = report.to_string();
    assert!(table.contains("loss=20% burst=40%"), "{table}");
}

#[test]
fn a_stream_of_the_kernel_arrives_whole_over_a_bad_link() {
    const BYTES: usize = 300_000;
    let link = "loss=2% delay=1ms jitter=1ms duplicate=1% rate=50mbit queue=20";
    let Some(pair) = Pair::new("a_stream_of_the_kernel_arrives_whole", [link, link]) else {
        return;
    };
    let bridge = pair.bridge();
    let listen = || TcpListener::bind("10.9.0.2:4000").unwrap();
    let listener = pair.spaces[1].run(listen).unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|i| (i / 7 + i) as u8).collect();
    let arrived = std::thread::scope(|scope| {
        scope.spawn(|| {
            let connect = || TcpStream::connect("10.9.0.2:4000").unwrap();
            let mut stream = pair.spaces[0].run(connect).unwrap();
            stream.write_all(&sent).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut arrived = Vec::new();
        stream.read_to_end(&mut arrived).unwrap();
        arrived
    });
    assert!(arrived == sent, "{} of {BYTES} bytes", arrived.len());
    let carried = bridge.stop().unwrap();
    assert!(carried.ways[0].counts.lost > 0, "nothing was repeated");
    assert!(carried.ways[0].bytes_in > BYTES as u64);
}

#[test]
fn a_link_that_goes_down_carries_nothing_until_it_is_up() {
    let Some(pair) = Pair::new("a_link_that_goes_down", ["clean", "clean"]) else {
        return;
    };
    let bridge = pair.bridge();
    let [a, b] = pair.udp();
    b.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut buffer = [0; 8];
    let mut passes = || {
        a.send(b"x").unwrap();
        b.recv(&mut buffer).is_ok()
    };
    let clean: Model = "clean".parse().unwrap();
    bridge.set_model(0, clean.clone().with_outage(true));
    // Packets pass until the thread has seen the order; after that, none passes. The second order
    // lets all pass again.
    assert!((0..100).any(|_| !passes()));
    bridge.set_model(0, clean);
    assert!((0..100).any(|_| passes()));
}

#[test]
fn an_interface_that_goes_away_ends_the_bridge() {
    let Some(pair) = Pair::new("an_interface_that_goes_away", ["clean", "clean"]) else {
        return;
    };
    let bridge = pair.bridge();
    pair.spaces[0].ip(&["link", "del", "emu0"]).unwrap();
    while bridge.is_running() {
        std::thread::yield_now();
    }
    assert!(bridge.stop().is_err());
}

#[test]
fn what_cannot_be_is_refused_with_a_word_of_what_can() {
    let good = Options {
        between: [
            Place::Namespace("there-is-no-such-namespace".into()),
            Place::Device("emu7".into()),
        ],
        models: ["clean".parse().unwrap(), "clean".parse().unwrap()],
        interface: "emu0".into(),
        addresses: [vec!["10.9.0.1/24".into()], vec!["fd00::1/64".into()]],
        mtu: 1_500,
        seed: 1,
        seconds: Some(1.0),
    };
    assert!(good.check().is_ok());
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = good.clone();
        change(&mut options);
        match options.check() {
            Err(EmulateError::Option(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&|o| o.interface = "a b".into()).contains("1 to 15"));
    assert!(refused(&|o| o.mtu = 67).contains("68"));
    assert!(refused(&|o| o.seconds = Some(f64::NAN)).contains("seconds"));
    for address in [
        "10.9.0.1",
        "10.9.0.1/33",
        "10.9.0/24",
        "x/24",
        "fd00::1/129",
    ] {
        let text = refused(&|o| o.addresses[0] = vec![address.into()]);
        assert!(text.contains("10.9.0.1/24"), "{text}");
    }
    let twice = Options {
        between: [Place::Device("emu7".into()), Place::Device("emu7".into())],
        ..good.clone()
    };
    assert!(matches!(end::open(&twice), Err(EmulateError::Option(_))));
    let error = end::open(&good).err().unwrap().to_string();
    assert!(error.contains("ip netns add"), "{error}");
}
