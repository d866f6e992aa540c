//! Sums of multiples by vector instructions, which are chosen at run time. Plain code that is compiled for all machines
//! of an architecture is 5 to 10 times slower.
//!
//! ```text
//!   by_matrices   64 columns at a time: multiplying by c is linear over GF(2), one 8x8 matrix of bits       (GFNI, AVX-512)
//!   by_shuffles   32 columns at a time: c·x = table of the low four bits ⊕ table of the high four bits      (AVX2)
//! ```
//! Both return false if the machine has no such instructions, and have done nothing then. Up to [`WIDE`] blocks are
//! summed at a time, one after the other of each packet. So the work per packet is done once for all of these blocks,
//! and they follow each other in memory. The last block of columns reaches back over columns before it, so that it is a
//! whole block, too: copying a part of a block costs more than reading some columns again.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "no vector code for others yet")
)]

use super::{BLOCK, Packet, product};
use multiversion::multiversion;
use multiversion::target::match_target;

/// Number of blocks whose sums are held in registers.
const WIDE: usize = 4;

/// The words of a block.
type Words = [i64; BLOCK / 8];

/// Adds the sums of the packets, each times its coefficient, to `out`. Returns false if this machine cannot do it.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+gfni"))]
pub(super) fn by_matrices<const R: usize>(
    packets: &[Packet<'_, R>],
    out: &mut [&mut [u8]; R],
) -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vl+gfni" => {
            let longest = out.iter().map(|out| out.len()).max();
            for columns in columns(longest.unwrap_or_default()) {
                match columns.blocks {
                    4 => matrices::<R, 4>(packets, columns, out),
                    3 => matrices::<R, 3>(packets, columns, out),
                    2 => matrices::<R, 2>(packets, columns, out),
                    _ => matrices::<R, 1>(packets, columns, out),
                }
            }
            true
        },
        _ => {
            let _ = (packets, out);
            false
        },
    }
}

/// Adds one of the sums to `out` by look-ups of four bits. Returns false if this machine cannot do it.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn by_shuffles<const R: usize>(
    packets: &[Packet<'_, R>],
    row: usize,
    out: &mut [u8],
) -> bool {
    match_target! {
        "x86_64+avx2" => {
            for columns in columns(out.len()) {
                match columns.blocks {
                    4 => shuffles::<R, 4>(packets, row, columns, out),
                    3 => shuffles::<R, 3>(packets, row, columns, out),
                    2 => shuffles::<R, 2>(packets, row, columns, out),
                    _ => shuffles::<R, 1>(packets, row, columns, out),
                }
            }
            true
        },
        _ => {
            let _ = (packets, row, out);
            false
        },
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,gfni")]
fn matrices<const R: usize, const N: usize>(
    packets: &[Packet<'_, R>],
    columns: Columns,
    out: &mut [&mut [u8]; R],
) {
    use core::arch::x86_64::{
        _mm_cvtsi128_si64, _mm_extract_epi64, _mm512_extracti32x4_epi32,
        _mm512_gf2p8affine_epi64_epi8, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
        _mm512_xor_si512,
    };
    let mut rows = [[_mm512_setzero_si512(); N]; R];
    for (by, bytes) in packets {
        let blocks = words::<N>(bytes, columns.begin)
            .map(|[a, b, c, d, e, f, g, h]| _mm512_set_epi64(h, g, f, e, d, c, b, a));
        for (sums, by) in rows.iter_mut().zip(by) {
            let matrix = _mm512_set1_epi64(MATRICES[usize::from(*by)]);
            for (sum, block) in sums.iter_mut().zip(blocks) {
                let times = _mm512_gf2p8affine_epi64_epi8::<0>(block, matrix);
                *sum = _mm512_xor_si512(*sum, times);
            }
        }
    }
    for (sums, out) in rows.into_iter().zip(out) {
        let sums = sums.map(|sum| {
            let quarters = [
                _mm512_extracti32x4_epi32::<0>(sum),
                _mm512_extracti32x4_epi32::<1>(sum),
                _mm512_extracti32x4_epi32::<2>(sum),
                _mm512_extracti32x4_epi32::<3>(sum),
            ];
            let mut words: Words = [0; BLOCK / 8];
            for (words, quarter) in words.as_chunks_mut::<2>().0.iter_mut().zip(quarters) {
                *words = [_mm_cvtsi128_si64(quarter), _mm_extract_epi64::<1>(quarter)];
            }
            words
        });
        add(out, columns, &sums);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn shuffles<const R: usize, const N: usize>(
    packets: &[Packet<'_, R>],
    row: usize,
    columns: Columns,
    out: &mut [u8],
) {
    use core::arch::x86_64::{
        _mm256_and_si256, _mm256_extract_epi64, _mm256_set_epi64x, _mm256_set1_epi8,
        _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_xor_si256,
    };
    let four_bits = _mm256_set1_epi8(0xf);
    let mut sums = [[_mm256_setzero_si256(); 2]; N];
    for (by, bytes) in packets {
        let [[a, b], [c, d]] = NIBBLES[usize::from(by[row])];
        let of_low = _mm256_set_epi64x(b, a, b, a);
        let of_high = _mm256_set_epi64x(d, c, d, c);
        let blocks = words::<N>(bytes, columns.begin);
        let halves = blocks.as_flattened().as_chunks::<4>().0;
        for (sum, words) in sums.as_flattened_mut().iter_mut().zip(halves) {
            let [a, b, c, d] = *words;
            let half = _mm256_set_epi64x(d, c, b, a);
            let low = _mm256_and_si256(half, four_bits);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(half), four_bits);
            let low = _mm256_shuffle_epi8(of_low, low);
            let high = _mm256_shuffle_epi8(of_high, high);
            *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(low, high));
        }
    }
    let sums = sums.map(|[left, right]| {
        [
            _mm256_extract_epi64::<0>(left),
            _mm256_extract_epi64::<1>(left),
            _mm256_extract_epi64::<2>(left),
            _mm256_extract_epi64::<3>(left),
            _mm256_extract_epi64::<0>(right),
            _mm256_extract_epi64::<1>(right),
            _mm256_extract_epi64::<2>(right),
            _mm256_extract_epi64::<3>(right),
        ]
    });
    add(out, columns, &sums);
}

/// Columns that are summed at a time.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// The first column that was not summed before.
    at: usize,
    /// The first column of all. It comes earlier if the last block reaches back.
    begin: usize,
    blocks: usize,
}

fn columns(len: usize) -> impl Iterator<Item = Columns> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let at = next;
        let left = len.checked_sub(at).filter(|left| *left > 0)?;
        let blocks = (left / BLOCK).clamp(1, WIDE);
        next += blocks * BLOCK;
        Some(Columns {
            at,
            begin: at.min(len.saturating_sub(BLOCK)),
            blocks,
        })
    })
}

/// Returns blocks of a packet, with zeros behind its end.
#[inline(always)]
fn words<const N: usize>(bytes: &[u8], at: usize) -> [Words; N] {
    let of = |blocks: &[[u8; BLOCK]; N]| {
        let mut words = [[0; BLOCK / 8]; N];
        for (words, block) in words.iter_mut().zip(blocks) {
            for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
                *word = i64::from_ne_bytes(*bytes);
            }
        }
        words
    };
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.as_chunks().0.first_chunk() {
        Some(blocks) => of(blocks),
        None => {
            let mut blocks = [[0; BLOCK]; N];
            let len = rest.len().min(N * BLOCK);
            blocks.as_flattened_mut()[..len].copy_from_slice(&rest[..len]);
            of(&blocks)
        }
    }
}

/// Adds the new columns of some blocks to a sum, which may be shorter.
#[inline(always)]
fn add(out: &mut [u8], Columns { at, begin, .. }: Columns, sums: &[Words]) {
    for (n, words) in sums.iter().enumerate() {
        let mut block = [0; BLOCK];
        for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        let to = out.get_mut(at + n * BLOCK..).unwrap_or_default();
        let new = to.iter_mut().zip(&block[at - begin..]);
        new.for_each(|(to, from)| *to ^= from);
    }
}

/// The matrices that multiply by each element, in the format of the instruction: row i of the matrix, which gives bit
/// i, is in byte 7 - i.
static MATRICES: [i64; 256] = {
    let mut all = [0; 256];
    let mut by = 0;
    while by < 256 {
        let (mut rows, mut i) = ([0u8; 8], 0);
        while i < 8 {
            let mut j = 0;
            while j < 8 {
                rows[7 - i] |= (product(by as u8, 1 << j) >> i & 1) << j;
                j += 1;
            }
            i += 1;
        }
        all[by] = i64::from_le_bytes(rows);
        by += 1;
    }
    all
};

/// The products of each element with the sixteen elements of the low four bits, and with those of the high four bits.
static NIBBLES: [[[i64; 2]; 2]; 256] = {
    let mut all = [[[0; 2]; 2]; 256];
    let mut by = 0;
    while by < 256 {
        let mut half = 0;
        while half < 4 {
            let (mut bytes, mut i) = ([0; 8], 0);
            while i < 8 {
                let nibble = (half % 2 * 8 + i) as u8;
                bytes[i] = product(by as u8, nibble << (half / 2 * 4));
                i += 1;
            }
            all[by][half / 2][half % 2] = i64::from_le_bytes(bytes);
            half += 1;
        }
        by += 1;
    }
    all
};
