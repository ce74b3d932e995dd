"""Context management for long-running LangGraph agents."""
