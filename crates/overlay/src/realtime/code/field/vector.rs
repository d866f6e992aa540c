//! Sums of multiples by vector instructions, chosen when the program runs: what the compiler makes of plain code for any
//! machine of an architecture is 5 to 10 times slower.
//!
//! ```text
//!   by_matrices   64 columns at a time: multiplying by c is linear over GF(2), one 8x8 matrix of bits       (GFNI, AVX-512)
//!   by_shuffles   32 columns at a time: c·x = table of the low four bits ⊕ table of the high four bits      (AVX2)
//! ```
//! Both say false where the machine has no such instructions, and have done nothing then. The last block of columns reaches
//! back over those before it, so that it is a whole one too: copying parts of blocks costs more than adding them again.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "no vector code for others yet")
)]

use super::{BLOCK, product};
use multiversion::multiversion;
use multiversion::target::match_target;

/// Adds the sum of the packets, each times its coefficient, to `out`. False if this machine cannot.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+gfni"))]
pub(super) fn by_matrices(packets: &[(u8, &[u8])], out: &mut [u8]) -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vl+gfni" => {
            use core::arch::x86_64::{
                _mm_cvtsi128_si64, _mm_extract_epi64, _mm512_extracti32x4_epi32, _mm512_gf2p8affine_epi64_epi8,
                _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_xor_si512,
            };
            for (at, begin) in blocks(out.len()) {
                let mut sum = _mm512_setzero_si512();
                for (by, bytes) in packets {
                    let [a, b, c, d, e, f, g, h] = words(bytes, begin);
                    let block = _mm512_set_epi64(h, g, f, e, d, c, b, a);
                    let matrix = _mm512_set1_epi64(MATRICES[usize::from(*by)]);
                    sum = _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(block, matrix));
                }
                let quarters = [
                    _mm512_extracti32x4_epi32::<0>(sum),
                    _mm512_extracti32x4_epi32::<1>(sum),
                    _mm512_extracti32x4_epi32::<2>(sum),
                    _mm512_extracti32x4_epi32::<3>(sum),
                ];
                let mut words = [0; BLOCK / 8];
                for (words, quarter) in words.as_chunks_mut::<2>().0.iter_mut().zip(quarters) {
                    *words = [_mm_cvtsi128_si64(quarter), _mm_extract_epi64::<1>(quarter)];
                }
                add(out, (at, begin), &words);
            }
            true
        },
        _ => {
            let _ = (packets, out);
            false
        },
    }
}

/// The same by look-ups of four bits.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn by_shuffles(packets: &[(u8, &[u8])], out: &mut [u8]) -> bool {
    match_target! {
        "x86_64+avx2" => {
            use core::arch::x86_64::{
                _mm256_and_si256, _mm256_extract_epi64, _mm256_set_epi64x, _mm256_set1_epi8, _mm256_setzero_si256,
                _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_xor_si256,
            };
            let four_bits = _mm256_set1_epi8(0xf);
            for (at, begin) in blocks(out.len()) {
                let mut sums = [_mm256_setzero_si256(); 2];
                for (by, bytes) in packets {
                    let [[a, b], [c, d]] = NIBBLES[usize::from(*by)];
                    let (of_low, of_high) = (_mm256_set_epi64x(b, a, b, a), _mm256_set_epi64x(d, c, d, c));
                    let block = words(bytes, begin);
                    for (sum, words) in sums.iter_mut().zip(block.as_chunks::<4>().0) {
                        let [a, b, c, d] = *words;
                        let half = _mm256_set_epi64x(d, c, b, a);
                        let low = _mm256_and_si256(half, four_bits);
                        let high = _mm256_and_si256(_mm256_srli_epi64::<4>(half), four_bits);
                        let low = _mm256_shuffle_epi8(of_low, low);
                        let high = _mm256_shuffle_epi8(of_high, high);
                        *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(low, high));
                    }
                }
                let [left, right] = sums;
                let words = [
                    _mm256_extract_epi64::<0>(left), _mm256_extract_epi64::<1>(left),
                    _mm256_extract_epi64::<2>(left), _mm256_extract_epi64::<3>(left),
                    _mm256_extract_epi64::<0>(right), _mm256_extract_epi64::<1>(right),
                    _mm256_extract_epi64::<2>(right), _mm256_extract_epi64::<3>(right),
                ];
                add(out, (at, begin), &words);
            }
            true
        },
        _ => {
            let _ = (packets, out);
            false
        },
    }
}

/// Where the blocks of so many columns begin: the columns that are new in each, and its own.
fn blocks(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let last = len.saturating_sub(BLOCK);
    (0..len).step_by(BLOCK).map(move |at| (at, at.min(last)))
}

/// A block of a packet, zeros behind its end.
#[inline(always)]
fn words(bytes: &[u8], at: usize) -> [i64; BLOCK / 8] {
    let of = |block: &[u8; BLOCK]| {
        let mut words = [0; BLOCK / 8];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = i64::from_ne_bytes(*bytes);
        }
        words
    };
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(block) => of(block),
        None => {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            of(&block)
        }
    }
}

/// Adds what is new of a block.
#[inline(always)]
fn add(out: &mut [u8], (at, begin): (usize, usize), words: &[i64; BLOCK / 8]) {
    let mut block = [0; BLOCK];
    for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    let new = out[at..].iter_mut().zip(&block[at - begin..]);
    new.for_each(|(to, from)| *to ^= from);
}

/// What multiplies by each element, as the instruction wants it: row i of the matrix, which gives bit i, in byte 7 - i.
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

/// The products of each element with the sixteen of the low four bits, and with those of the high ones.
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
