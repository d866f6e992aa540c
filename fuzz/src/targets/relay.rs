//! Fuzz targets of `relay`: the data that a sink gets from any sender.

use relay::{Decoder, Event, Reassembly};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[("relay_stream", stream), ("relay_reassembly", reassembly)];

/// A stream gives the same result, however it is split.
fn stream(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let whole = read(stream, stream.len().max(1));
    assert_eq!(read(stream, usize::from(*cut).max(1)), whole);
}

/// Returns the number of entries, the bytes of content, and whether the end was read, or an error.
fn read(stream: &[u8], step: usize) -> (u64, usize, Result<bool, relay::StreamError>) {
    let mut decoder = Decoder::default();
    let mut bytes = 0;
    for mut piece in stream.chunks(step) {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(Event::Content(content))) => bytes += content.len(),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return (decoder.walk().entries(), bytes, Err(error)),
            }
        }
    }
    (decoder.walk().entries(), bytes, Ok(decoder.has_ended()))
}

/// Adds frames at any offsets. The output is in order, and its amount is bounded.
fn reassembly(data: &[u8]) {
    let mut r = Reassembly::new(1);
    for step in data.chunks_exact(4) {
        let offset = u64::from(u16::from_be_bytes([step[0], step[1]]));
        let before = r.next();
        match step[2] {
            0 => drop(r.on_end(offset)),
            1 => {
                let taken = r.take().map_or(0, |bytes| bytes.len() as u64);
                assert_eq!(r.next(), before + taken);
            }
            _ => drop(r.insert(offset, vec![0; usize::from(step[3]) + 1])),
        }
        assert!(r.held() as u64 <= relay::WINDOW_BYTES);
    }
}
