use super::*;
use crate::tokens::Encoding;

/// Byte-pair merging as it is defined: merge the leftmost pair of lowest rank until none is left.
fn by_definition(vocab: &Vocab, piece: &[u8]) -> u32 {
    let mut parts: Vec<usize> = (0..=piece.len()).collect();
    while let Some((_, i)) = (0..parts.len().saturating_sub(2))
        .map(|i| (vocab.rank(piece, parts[i], parts[i + 2]), i))
        .filter(|&(rank, _)| rank != NONE)
        .min()
    {
        parts.remove(i + 1);
    }
    parts.len() as u32 - 1
}

fn buffer(piece: &[u8]) -> [u8; SHORT + PADDING] {
    let mut buffer = [0; SHORT + PADDING];
    buffer[..piece.len()].copy_from_slice(piece);
    buffer
}

fn random_piece(seed: &mut u32, alphabet: &[u8], len: usize) -> Vec<u8> {
    (0..len)
        .map(|_| {
            *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            alphabet[(*seed >> 8) as usize % alphabet.len()]
        })
        .collect()
}

#[test]
fn short_and_long_merges_do_what_merging_is_defined_to_do() {
    let mut scratch = Scratch::default();
    let mut seed = 1;
    let all: Vec<u8> = (0..=255).collect();
    let alphabets: [&[u8]; 7] = [
        b"a",
        b"ab",
        b" \t",
        b"etaoinshr",
        b"=-_.",
        b"\xE4\xB8\xAD\xE7\x9A\x84",
        &all,
    ];
    for encoding in [Encoding::O200kBase, Encoding::Cl100kBase, Encoding::Qwen2] {
        let vocab = encoding.vocab().unwrap();
        for alphabet in alphabets {
            for len in (2..=SHORT).chain([65, 100, 257]) {
                let piece = random_piece(&mut seed, alphabet, len);
                let expected = by_definition(vocab, &piece);
                assert_eq!(
                    long(vocab, &piece, &mut scratch),
                    expected,
                    "long {encoding:?} {piece:?}"
                );
                if len <= SHORT {
                    assert_eq!(
                        short(vocab, &buffer(&piece), len),
                        expected,
                        "short {encoding:?} {piece:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn steps_of_a_merge_grow_with_the_length_not_with_its_square() {
    let vocab = Encoding::O200kBase.vocab().unwrap();
    let mut seed = 2;
    let all: Vec<u8> = (0..=255).collect();
    let alphabets: [&[u8]; 6] = [b"a", b"ab", b" ", b"etaoinshrdlu", b"!#$%&()*+-/=", &all];
    for alphabet in alphabets {
        let mut steps = |len: usize| {
            let piece = random_piece(&mut seed, alphabet, len);
            let mut scratch = Scratch::default();
            long(vocab, &piece, &mut scratch);
            scratch.steps
        };
        let (once, eightfold) = (steps(20_000), steps(160_000));
        assert!(
            once > 0 || alphabet.len() == 256,
            "{alphabet:?}: the steps are not counted"
        );
        // Eight times the length: eight times the steps, and at most a third more for the queue.
        assert!(
            eightfold <= once * 32 / 3 + 1_000,
            "{alphabet:?}: {once} then {eightfold}"
        );
        assert!(
            eightfold <= 160_000 * 12,
            "{alphabet:?}: {eightfold} steps for 160 000 bytes"
        );
    }
}

#[test]
fn a_queue_gives_the_lowest_rank_and_within_it_the_leftmost() {
    let mut queue = RadixQueue::default();
    queue.clear();
    for (rank, at) in [(7, 3), (5, 9), (7, 1), (5, 2)] {
        queue.push(rank, at);
    }
    assert_eq!((queue.pop(), queue.pop()), (Some((5, 2)), Some((5, 9))));
    // Later pairs may rank below the last one taken.
    queue.push(4, 8);
    queue.push(5, 1);
    queue.push(1_000_000, 0);
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(rest, [(4, 8), (5, 1), (7, 1), (7, 3), (1_000_000, 0)]);
}
