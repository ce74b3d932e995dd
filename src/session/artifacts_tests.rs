use super::super::disk::{RealDir, read_full};
use super::super::read_range::{From, read_range};
use super::super::search::search;
use super::*;
use proptest::prelude::*;
use std::path::PathBuf;

fn store(name: &str) -> (ArtifactStore, PathBuf) {
    let path = std::env::temp_dir().join(format!(
        "mt_context-{}-artifacts-{name}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&path);
    (
        ArtifactStore::new(Arc::new(RealDir::open(&path).unwrap())),
        path,
    )
}

fn content(store: &ArtifactStore, path: &str) -> Vec<u8> {
    let file = store.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    read_full(&*file, &mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_repeated_id_gets_a_name_of_its_own_and_nothing_is_overwritten() {
    let (store, _) = store("repeat");
    let paths: Vec<String> = (0..3)
        .map(|i| {
            store
                .write(b"call_0", format!("{i}").as_bytes(), true, ".txt")
                .unwrap()
                .relative_path
        })
        .collect();
    assert_eq!(
        paths,
        [
            "tool-results/call_0.txt",
            "tool-results/call_0.2.txt",
            "tool-results/call_0.3.txt"
        ]
    );
    assert_eq!(content(&store, &paths[0]), b"0");
    assert_eq!(store.list().unwrap().len(), 3);
}

#[test]
fn threads_that_write_one_id_all_keep_theirs() {
    let (store, _) = store("threads");
    let mut paths: Vec<(String, usize)> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..16usize)
            .map(|i| {
                let store = &store;
                scope.spawn(move || {
                    (
                        store
                            .write(b"x", i.to_string().as_bytes(), true, ".txt")
                            .unwrap()
                            .relative_path,
                        i,
                    )
                })
            })
            .collect();
        spawned.into_iter().map(|s| s.join().unwrap()).collect()
    });
    assert!(
        paths
            .iter()
            .all(|(path, i)| content(&store, path) == i.to_string().as_bytes())
    );
    paths.sort();
    paths.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(paths.len(), 16);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test takes its link away")]
fn a_link_in_the_place_of_the_directory_or_of_a_file_is_not_followed() {
    let (store, path) = store("links");
    let outside = path.with_extension("outside");
    let _ = std::fs::remove_dir_all(&outside);
    std::fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("tool-results")).unwrap();
    assert!(store.write(b"a", b"secret", true, ".txt").is_err());
    std::fs::remove_dir_all(path.join("tool-results"))
        .or_else(|_| std::fs::remove_file(path.join("tool-results")))
        .unwrap();
    store.write(b"a", b"1", true, ".txt").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", path.join("tool-results/b.txt")).unwrap();
    assert!(store.open("tool-results/b.txt").is_err());
    assert_eq!(
        store.write(b"b", b"2", true, ".txt").unwrap().relative_path,
        "tool-results/b.2.txt"
    );
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_result_above_the_limit_is_cut_between_characters() {
    let (store, _) = store("limit");
    let limit = MAX_ARTIFACT_BYTES as usize;
    let text = "矩".repeat(limit / 3 + 10);
    let written = store.write(b"big", text.as_bytes(), true, ".txt").unwrap();
    assert!(
        written.truncated
            && written.size_bytes <= MAX_ARTIFACT_BYTES
            && written.size_bytes > MAX_ARTIFACT_BYTES - 3
    );
    assert!(String::from_utf8(content(&store, &written.relative_path)).is_ok());
    let bytes = store
        .write(b"bytes", &vec![0x80; limit + 5], false, ".bin")
        .unwrap();
    assert_eq!(
        (bytes.size_bytes, bytes.truncated),
        (MAX_ARTIFACT_BYTES, true)
    );
}

#[test]
fn a_search_tells_lines_and_is_bounded() {
    let (store, _) = store("search");
    let text: String = (1..=5_000)
        .map(|i| {
            if i % 100 == 0 {
                format!("{i}: Error: 失败 {i}\n")
            } else {
                format!("{i}: fine\n")
            }
        })
        .collect();
    let path = store
        .write(b"log", text.as_bytes(), true, ".txt")
        .unwrap()
        .relative_path;
    let file = store.open(&path).unwrap();
    let found = search(&*file, r"error: 失败 \d+00\b", true, true, 3, 200).unwrap();
    assert_eq!(
        (found.total, found.more, found.hits[2].line),
        (50, true, 300)
    );
    assert_eq!(
        search(&*file, "fine", false, false, 9, 200).unwrap().total,
        4_950
    );
    let wrong = search(&*file, "(", true, false, 9, 200).unwrap_err();
    assert!(wrong.to_string().contains("pattern"), "{wrong}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn successive_reads_give_the_whole_file(
        lines in prop::collection::vec("[a-zé矩👍]{0,30}", 0..60), long in 0usize..3_000, max_lines in 1u64..9, max_chars in 1usize..400, end in any::<bool>()
    ) {
        let (store, _) = store("reads");
        let mut text = lines.join("\n") + &"长".repeat(long);
        if end { text.push('\n'); }
        let path = store.write(b"f", text.as_bytes(), true, ".txt").unwrap().relative_path;
        let file = store.open(&path).unwrap();
        let (mut read, mut from) = (Vec::new(), From::Line(1));
        loop {
            let part = read_range(&*file, from, max_lines, max_chars).unwrap();
            let shown = String::from_utf8(part.bytes.clone());
            prop_assert!(shown.is_ok_and(|s| s.chars().count() <= max_chars));
            read.extend_from_slice(&part.bytes);
            if part.next_byte >= part.size { break; }
            from = part.next_line.map_or(From::Byte(part.next_byte), From::Line);
        }
        prop_assert_eq!(read, text.as_bytes());
    }

    #[test]
    fn a_line_is_found_wherever_it_is(count in 1u64..12_000, line in 1u64..12_500) {
        let (store, _) = store("lines");
        let text: String = (1..=count).map(|i| format!("{i}\n")).collect();
        let path = store.write(b"f", text.as_bytes(), true, ".txt").unwrap().relative_path;
        let file = store.open(&path).unwrap();
        for _ in 0..2 {
            let part = read_range(&*file, From::Line(line), 1, 100).unwrap();
            if line <= count {
                prop_assert_eq!(part.bytes, format!("{line}\n").into_bytes());
            } else {
                prop_assert_eq!((part.bytes.len(), part.total_lines), (0, Some(count)));
            }
        }
    }
}
