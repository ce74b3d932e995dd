"""The policies over message lists: budget, invariants, tool results, microcompact.

Decisions are made in Rust (`mt_context._core`); these modules carry them out on the caller's own messages, be they
LangChain objects, OpenAI-style dicts or transcript records. None of them imports LangChain before it has to build one
of its messages.
"""
