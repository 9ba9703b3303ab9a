"""The skills: one package each, with its rules, its data files beside it and their sources named."""
