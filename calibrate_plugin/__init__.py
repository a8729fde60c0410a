"""Agreement between human annotators and LLM judges, across Label Studio, Langfuse and plain files."""
