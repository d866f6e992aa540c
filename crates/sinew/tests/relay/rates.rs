//! The rate of copies, next to a bare proxy in the same run. Run the test with `--ignored
//! --nocapture`. The result is meaningful in a release build on a quiet machine.

use crate::chain::Chain;
use net::splice::Pipe;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

const BYTES: u64 = 2_000_000_000;
const SMALL_FILES: usize = 20_000;

/// Moves [`BYTES`] bytes over TCP through a proxy that only splices. Returns the rate in Mbit/s.
fn bare_splice() -> f64 {
    let (last, middle) = ("127.0.0.1:0", "127.0.0.1:0");
    let sink = TcpListener::bind(last).unwrap();
    let proxy = TcpListener::bind(middle).unwrap();
    let (to_sink, to_proxy) = (sink.local_addr().unwrap(), proxy.local_addr().unwrap());
    let sinking = thread::spawn(move || {
        let (mut stream, _) = sink.accept().unwrap();
        let mut bytes = vec![0; 256 * 1024];
        let mut total = 0;
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            total += len as u64;
        }
        total
    });
    thread::spawn(move || {
        let (from, _) = proxy.accept().unwrap();
        let to = TcpStream::connect(to_sink).unwrap();
        let mut pipe = Pipe::new().unwrap();
        while pipe.fill(&from).unwrap() > 0 {
            pipe.drain(&to).unwrap();
        }
    });
    let begun = Instant::now();
    let mut stream = TcpStream::connect(to_proxy).unwrap();
    let bytes = vec![0; 256 * 1024];
    let mut left = BYTES;
    while left > 0 {
        let len = bytes.len().min(left as usize);
        stream.write_all(&bytes[..len]).unwrap();
        left -= len as u64;
    }
    drop(stream);
    assert_eq!(sinking.join().unwrap(), BYTES);
    BYTES as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a measurement"]
fn beside_a_bare_proxy() {
    let chain = Chain::new("cp-rates", 3);
    // The file contains data, because holes are not sent.
    let data = fs::File::create(chain.world.dir.join("data"));
    std::io::copy(&mut std::io::repeat(7).take(BYTES), &mut data.unwrap()).unwrap();
    let bare = bare_splice();
    println!("bare splice proxy, no digest: {bare:.0} Mbit/s");
    for options in ["--plain", "", "--plain --stripes 2,3"] {
        let done = chain.cp(&format!("data lon:x --discard --via fra {options}"));
        let rate = done["rate_bps"].as_f64().unwrap() / 1e6;
        println!(
            "cp over one relay {options:12}: {rate:.0} Mbit/s, {:.2} of bare",
            rate / bare
        );
    }
    let tree = chain.world.dir.join("many");
    fs::create_dir(&tree).unwrap();
    for i in 0..SMALL_FILES {
        fs::write(tree.join(format!("f{i:06}")), [7; 1_000]).unwrap();
    }
    let begun = Instant::now();
    chain.cp("many lon:many");
    let files = SMALL_FILES as f64 / begun.elapsed().as_secs_f64();
    println!("{files:.0} small files per second");
    let begun = Instant::now();
    let words = "tar cf - many | $0 cp - lon:tar --node net/ams && tar xf lon-data/tar -C fra-data";
    let status = std::process::Command::new("sh")
        .current_dir(&chain.world.dir)
        .args(["-c", words, env!("CARGO_BIN_EXE_sinew")])
        .status();
    assert!(status.unwrap().success());
    let tar = SMALL_FILES as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{tar:.0} by tar over the same nodes; {:.2} of that",
        files / tar
    );
}
