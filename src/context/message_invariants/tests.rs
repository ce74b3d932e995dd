//! Properties over random histories: parallel calls, duplicated, empty and reused ids, interleaved users, chunks, thinking, media.

use super::{pairs::*, repair::*, split::*, validate::*};
use crate::context::message::*;
use proptest::prelude::*;
use std::sync::Arc;

fn user() -> Message {
    let mut m = Message::new(Role::User);
    m.tokens = 10;
    m
}

fn ai(ids: &[&str]) -> Message {
    let mut m = Message::new(Role::Assistant);
    m.tokens = 10;
    m.tool_calls = ids
        .iter()
        .map(|id| ToolCall {
            id: (*id).into(),
            name: "grep".into(),
            arguments_valid: true,
        })
        .collect();
    m
}

fn tool(id: &str) -> Message {
    let mut m = Message::new(Role::Tool);
    m.tokens = 10;
    m.tool_call_id = Some(id.into());
    m
}

fn rules(messages: &[Message], p: Provider) -> Vec<(usize, &'static str)> {
    validate_messages(messages, p)
        .into_iter()
        .map(|v| (v.index, v.rule.name()))
        .collect()
}

#[test]
fn each_rule_is_found_and_named() {
    let mut empty = ai(&[]);
    empty.content = Content::Missing;
    assert_eq!(
        rules(&[user(), ai(&["a"]), user()], Provider::OpenAi),
        [(1, "call_without_result")]
    );
    assert_eq!(
        rules(&[user(), tool("a")], Provider::OpenAi),
        [(1, "result_without_call")]
    );
    assert_eq!(
        rules(&[user(), ai(&["a"]), user(), tool("a")], Provider::OpenAi),
        [(3, "result_not_behind_call")]
    );
    assert_eq!(
        rules(
            &[user(), ai(&["a"]), tool("a"), tool("a")],
            Provider::OpenAi
        ),
        [(3, "duplicate_result")]
    );
    assert_eq!(
        rules(&[user(), empty], Provider::OpenAi),
        [(1, "missing_content")]
    );
    assert_eq!(
        rules(&[ai(&[]), user()], Provider::Anthropic),
        [(0, "first_not_user")]
    );
    assert_eq!(
        rules(&[user(), Message::new(Role::System)], Provider::Gemini),
        [(1, "system_not_first")]
    );
    assert_eq!(
        rules(&[user(), ai(&[]), ai(&["a"]), tool("a")], Provider::Gemini),
        [(2, "call_not_behind_user")]
    );
    assert_eq!(rules(&[], Provider::OpenAi), [(0, "empty_request")]);
    let twice = [user(), ai(&["a"]), tool("a"), user(), ai(&["a"]), tool("a")];
    assert_eq!(rules(&twice, Provider::OpenAi), []);
    assert_eq!(
        rules(&twice, Provider::Anthropic),
        [(4, "duplicate_call_id")]
    );
}

#[test]
fn deepseek_wants_reasoning_content_beside_calls_once_there_is_any() {
    let mut thought = ai(&["a"]);
    thought.has_reasoning = true;
    let history = [user(), thought, tool("a"), ai(&["b"]), tool("b")];
    assert_eq!(
        rules(&history, Provider::DeepSeek),
        [(3, "missing_reasoning_content")]
    );
    let mended = apply(&history, &repair_messages(&history, Provider::DeepSeek));
    assert!(mended[3].has_reasoning && rules(&mended, Provider::DeepSeek).is_empty());
}

#[test]
fn a_completed_result_wins_over_an_error_for_the_same_call() {
    let mut aborted = tool("a");
    aborted.is_error = true;
    let history = [user(), ai(&["a"]), aborted, tool("a")];
    assert_eq!(repair_messages(&history, Provider::OpenAi).dropped, [2]);
}

#[test]
fn an_old_unanswered_call_does_not_take_a_late_duplicate() {
    let history = [user(), ai(&["a"]), user(), ai(&["a"]), tool("a"), tool("a")];
    let pairs = pair(&history);
    assert_eq!(
        (pairs.call_of[4], pairs.duplicate_of[5]),
        (
            Some(CallRef {
                message: 3,
                call: 0
            }),
            Some(3)
        )
    );
}

#[test]
fn the_current_request_is_pinned_when_the_tail_cannot_hold_it() {
    let mut history = vec![user(), ai(&[]), user()];
    for i in 0..50 {
        let id = format!("c{i}");
        history.extend([ai(&[&id]), tool(&id)]);
    }
    let split = find_safe_split(&history, 100, 200).unwrap();
    assert_eq!((split.pinned.clone(), split.over), (vec![2], 0));
    assert!(split.kept_tokens >= 100 && split.kept_tokens <= 200);
}

#[test]
fn a_giant_group_stays_whole_and_says_by_how_much_it_is_over() {
    let mut big = tool("a");
    big.tokens = 5_000;
    let history = [user(), ai(&[]), user(), ai(&["a"]), big];
    let split = find_safe_split(&history, 100, 1_000).unwrap();
    assert_eq!((split.index, split.pinned, split.over), (3, vec![2], 4_010));
}

#[test]
fn nothing_before_the_tail_means_no_split() {
    assert_eq!(find_safe_split(&[user(), ai(&[])], 1_000, 2_000), None);
    assert_eq!(find_safe_split(&[], 1, 2), None);
}

fn id() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        4 => prop::sample::select(vec!["c0", "c1", "c2", "c3"]).prop_map(Arc::from),
        1 => Just(Arc::from("")),
        1 => Just(Arc::from("functions.read:0")),
        1 => Just(Arc::from("x".repeat(300).as_str())),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        any::<bool>().prop_map(|blank| Block::Text { blank }),
        any::<bool>().prop_map(|signed| Block::Thinking { signed }),
        Just(Block::Media),
        Just(Block::Server),
        Just(Block::Other),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        6 => Just(Content::Text { blank: false }),
        1 => Just(Content::Text { blank: true }),
        1 => Just(Content::Missing),
        1 => Just(Content::Invalid),
        4 => prop::collection::vec(block(), 0..4).prop_map(Content::Blocks),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![
        1 => Just(Role::System),
        4 => Just(Role::User),
        8 => Just(Role::Assistant),
        10 => Just(Role::Tool),
        1 => Just(Role::Other)
    ];
    let calls = prop::collection::vec(
        (
            id(),
            prop_oneof![3 => Just("grep"), 1 => Just("a b!")],
            any::<bool>(),
        ),
        0..4,
    );
    let origin = prop_oneof![20 => Just(Origin::Plain), 1 => Just(Origin::Boundary), 1 => Just(Origin::Summary)];
    (
        role,
        content(),
        calls,
        id(),
        prop::option::of(id()),
        origin,
        any::<[bool; 3]>(),
        0u64..3_000,
    )
        .prop_map(
            |(role, content, calls, tool_id, id, origin, [error, reasoning, signature], tokens)| {
                let mut m = Message::new(role);
                m.content = content;
                m.id = id;
                m.tokens = tokens;
                m.is_error = error;
                match role {
                    Role::Assistant => {
                        m.tool_calls = calls
                            .into_iter()
                            .map(|(id, name, ok)| ToolCall {
                                id,
                                name: name.into(),
                                arguments_valid: ok,
                            })
                            .collect();
                        m.has_reasoning = reasoning && error;
                        m.has_thought_signature = signature && error && !m.tool_calls.is_empty();
                    }
                    Role::Tool => m.tool_call_id = Some(tool_id),
                    Role::User => m.origin = origin,
                    Role::System | Role::Other => {}
                }
                m
            },
        )
}

/// No tool message without its call, no call without its result, on either side of the cut that the other side holds.
fn parts_a_pair(messages: &[Message], cut: usize) -> bool {
    pair(messages)
        .call_of
        .iter()
        .enumerate()
        .any(|(i, call)| call.is_some_and(|c| (c.message < cut) != (i < cut)))
}

fn cases() -> ProptestConfig {
    let slow = std::env::var_os("MT_CONTEXT_SLOW").is_some();
    ProptestConfig {
        cases: if slow { 100_000 } else { 2_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_repaired_history_is_valid_and_is_repaired_to_itself(history in prop::collection::vec(message(), 0..24)) {
        for provider in Provider::ALL {
            let mended = apply(&history, &repair_messages(&history, provider));
            prop_assert_eq!(rules(&mended, provider), vec![], "{} {:#?}", provider.name(), mended);
            prop_assert!(repair_messages(&mended, provider).is_noop(), "{}", provider.name());
        }
    }

    #[test]
    fn a_valid_history_is_not_touched(history in prop::collection::vec(message(), 0..12)) {
        for provider in Provider::ALL {
            if validate_messages(&history, provider).is_empty() {
                prop_assert!(repair_messages(&history, provider).is_noop());
            }
        }
    }

    #[test]
    fn no_result_of_a_call_and_no_user_text_is_lost_by_a_repair(history in prop::collection::vec(message(), 0..24)) {
        let pairs = pair(&history);
        for provider in Provider::ALL {
            for i in repair_messages(&history, provider).dropped {
                let m = &history[i];
                prop_assert!(pairs.call_of[i].is_none());
                let says_something = match &m.content {
                    Content::Text { blank } => !*blank,
                    Content::Blocks(b) => b.iter().any(|b| matches!(b, Block::Text { blank: false } | Block::Media)),
                    _ => false,
                };
                prop_assert!(m.role == Role::Tool || !says_something);
            }
        }
    }

    #[test]
    fn any_split_is_legal(history in prop::collection::vec(message(), 0..40), min in 0u64..5_000, extra in 0u64..5_000) {
        if let Some(split) = find_safe_split(&history, min, min + extra) {
            prop_assert!(!parts_a_pair(&history, split.index));
            prop_assert!(split.index > find_compaction_working_start(&history) && split.index <= history.len());
            let last_user = history.iter().rposition(Message::is_user_request).filter(|u| *u >= find_compaction_working_start(&history));
            prop_assert!(last_user.is_none_or(|u| u >= split.index || split.pinned == [u]));
            prop_assert_eq!(split.kept_tokens, history[split.index..].iter().map(|m| m.tokens).sum::<u64>());
        }
    }

    #[test]
    fn adjusted_indexes_part_no_pair(history in prop::collection::vec(message(), 0..40), at in 0usize..45) {
        let i = adjust_index_to_preserve_tool_pairs(&history, at);
        prop_assert!(i <= at);
        prop_assert!(i >= history.len() || !parts_a_pair(&history, i));
        prop_assert_eq!(adjust_index_to_preserve_tool_pairs(&history, i), i);
    }
}
