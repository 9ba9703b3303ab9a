"""How rows are measured, judged and told. It knows nothing of what they measure."""
