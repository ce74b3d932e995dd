//! Bytes of unknown encoding as text for a preview: UTF-8, UTF-16, GBK and others; or an honest word that they are binary.
//!
//! The artifact keeps the bytes; this is only what the model sees.

use std::borrow::Cow;

/// How many bytes are looked at to name an encoding.
const SAMPLE: usize = 1 << 20;

/// What bytes turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Text, and the encoding's name if it is not UTF-8.
    Text(Cow<'a, str>, Option<&'static str>),
    /// Not text: what it seems to be.
    Binary(&'static str),
}

/// Decodes bytes as text if they are text.
pub fn decode(bytes: &[u8]) -> Decoded<'_> {
    if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        return Decoded::Text(String::from_utf8_lossy(rest), None);
    }
    if let Some((encoding, _)) = encoding_rs::Encoding::for_bom(bytes) {
        let (text, _, _) = encoding.decode(bytes);
        return Decoded::Text(text, Some(encoding.name()));
    }
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    if let Some(encoding) = utf16_without_bom(sample) {
        let (text, _) = encoding.decode_without_bom_handling(bytes);
        return Decoded::Text(text, Some(encoding.name()));
    }
    // A text may hold a stray NUL or a piece of binary; a binary is full of them, or says at once what it is.
    let zeros = sample.iter().filter(|b| **b == 0).count();
    if zeros.saturating_mul(20) > sample.len() || (zeros > 0 && magic(bytes) != BINARY) {
        return Decoded::Binary(magic(bytes));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Decoded::Text(Cow::Borrowed(text), None),
        Err(_) => decode_invalid(bytes, sample),
    }
}

fn decode_invalid<'a>(bytes: &'a [u8], sample: &[u8]) -> Decoded<'a> {
    let odd = sample
        .iter()
        .filter(|b| **b < 0x20 && !matches!(**b, b'\n' | b'\r' | b'\t' | 0x1b | 0x08 | 0x0c))
        .count();
    if odd.saturating_mul(10) > sample.len() {
        return Decoded::Binary(magic(bytes));
    }
    // Programs mix encodings (a compiler's GBK message about a UTF-8 path): by line, UTF-8 where it is, else GB18030 where it fits.
    let lines = || bytes.split_inclusive(|b| *b == b'\n');
    let broken = lines().filter(|l| std::str::from_utf8(l).is_err()).count();
    let utf8_with_letters = lines()
        .filter(|l| !l.is_ascii() && std::str::from_utf8(l).is_ok())
        .count();
    if utf8_with_letters == 0 {
        let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
        detector.feed(sample, true);
        let encoding = detector.guess(None, chardetng::Utf8Detection::Deny);
        let (text, errors) = encoding.decode_without_bom_handling(bytes);
        if !errors {
            return Decoded::Text(text, Some(encoding.name()));
        }
    }
    let mut out = String::with_capacity(bytes.len());
    let mut gbk = 0usize;
    for line in lines() {
        match std::str::from_utf8(line) {
            Ok(text) => out.push_str(text),
            Err(_) => {
                let (text, errors) = encoding_rs::GB18030.decode_without_bom_handling(line);
                if errors {
                    out.push_str(&String::from_utf8_lossy(line));
                } else {
                    gbk = gbk.saturating_add(1);
                    out.push_str(&text);
                }
            }
        }
    }
    let label = if gbk.saturating_mul(2) >= broken {
        "UTF-8 and GB18030 mixed"
    } else {
        "UTF-8 with damaged bytes"
    };
    Decoded::Text(Cow::Owned(out), Some(label))
}

/// UTF-16 shows as ASCII with a zero in every other byte.
fn utf16_without_bom(sample: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    if sample.len() < 16 {
        return None;
    }
    let mut even = 0usize;
    let mut odd = 0usize;
    for pair in sample.chunks_exact(2) {
        if let [a, b] = pair {
            even = even.saturating_add(usize::from(*a == 0 && *b != 0));
            odd = odd.saturating_add(usize::from(*b == 0 && *a != 0));
        }
    }
    let pairs = sample.len() / 2;
    // Binaries have zeros in both places.
    if odd.saturating_mul(10) > pairs.saturating_mul(7) && even.saturating_mul(20) < pairs {
        Some(encoding_rs::UTF_16LE)
    } else if even.saturating_mul(10) > pairs.saturating_mul(7) && odd.saturating_mul(20) < pairs {
        Some(encoding_rs::UTF_16BE)
    } else {
        None
    }
}

const BINARY: &str = "binary data";

/// What the first bytes say.
pub fn magic(bytes: &[u8]) -> &'static str {
    const KNOWN: [(&[u8], &str); 14] = [
        (b"\x7fELF", "an ELF binary"),
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"\xfd7zXZ", "xz data"),
        (b"BZh", "bzip2 data"),
        (b"SQLite format 3", "a SQLite database"),
        (b"!<arch>", "an ar archive"),
        (b"\xcf\xfa\xed\xfe", "a Mach-O binary"),
        (b"MZ", "a Windows executable"),
    ];
    KNOWN
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
        .map_or(BINARY, |(_, name)| *name)
}

/// Printable stretches of binary data, as `strings` finds them: at least six ASCII characters.
pub fn strings(bytes: &[u8], most: usize) -> Vec<&str> {
    bytes
        .split(|b| !(0x20..0x7f).contains(b))
        .filter(|run| run.len() >= 6)
        .filter_map(|run| std::str::from_utf8(run).ok())
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> (String, Option<&'static str>) {
        match decode(bytes) {
            Decoded::Text(text, name) => (text.into_owned(), name),
            Decoded::Binary(what) => panic!("binary: {what}"),
        }
    }

    #[test]
    fn each_encoding_is_read_as_what_it_is() {
        let chinese = "kernel.c:12: 错误：缺少分号，编译失败\n警告：未使用的变量\n".repeat(4);
        assert_eq!(text(chinese.as_bytes()), (chinese.clone(), None));
        let (gbk, _, _) = encoding_rs::GBK.encode(&chinese);
        assert_eq!(text(&gbk).0, chinese);
        let utf16: Vec<u8> = "make: all done\r\n"
            .repeat(9)
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(
            text(&utf16),
            ("make: all done\r\n".repeat(9), Some("UTF-16LE"))
        );
        let mixed = [chinese.as_bytes(), &gbk].concat();
        assert_eq!(
            text(&mixed),
            (chinese.repeat(2), Some("UTF-8 and GB18030 mixed"))
        );
    }

    #[test]
    fn binary_is_called_binary() {
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0".to_vec();
        elf.extend((0..4_000u32).flat_map(u32::to_le_bytes));
        assert_eq!(decode(&elf), Decoded::Binary("an ELF binary"));
        assert_eq!(
            strings(b"\0\x01libc.so.6\0ab\0main.c line\xff", 9),
            ["libc.so.6", "main.c line"]
        );
    }
}
