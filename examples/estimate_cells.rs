//! For `scripts/fit_estimator.py`: how many pieces, bytes beyond the longest bucket and o200k tokens each cell of the
//! estimator's table has, in texts of 4 096 bytes and more of the files named on standard input.
//!
//! One line a text: file, bytes, characters, tokens, then class:bucket:pieces:bytes beyond:tokens for each cell.
#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool of the build, not of the library"
)]

use mt_context::tokens::{Encoding, estimate};
use std::collections::BTreeMap;

fn main() {
    for path in std::io::stdin().lines() {
        let path = path.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let mut end = rest.len().min(4096);
            while !rest.is_char_boundary(end) {
                end += 1;
            }
            // A degenerate text is one piece: measure it whole.
            let (sample, after) = if path.contains("degenerate") {
                (rest, "")
            } else {
                rest.split_at(end)
            };
            rest = after;
            let mut cells: BTreeMap<(usize, usize), [u64; 3]> = BTreeMap::new();
            estimate::each_piece(sample, |class, at, end| {
                let tokens = Encoding::O200kBase.count(&sample[at..end]).unwrap();
                // Pieces beyond the longest bucket are one cell more.
                let long = usize::from(end - at > estimate::LONGEST_BUCKET);
                let cell = cells
                    .entry((class, estimate::bucket(end - at) + long))
                    .or_default();
                cell[0] += 1;
                cell[1] += (end - at).saturating_sub(estimate::LONGEST_BUCKET) as u64;
                cell[2] += tokens;
            });
            let tokens: u64 = cells.values().map(|c| c[2]).sum();
            print!(
                "{path}\t{}\t{}\t{tokens}",
                sample.len(),
                sample.chars().count()
            );
            for ((class, bucket), [pieces, beyond, tokens]) in cells {
                print!("\t{class}:{bucket}:{pieces}:{beyond}:{tokens}");
            }
            println!();
        }
    }
}
