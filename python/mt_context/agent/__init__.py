"""What stands in a LangGraph graph: the only modules that know its nodes."""
