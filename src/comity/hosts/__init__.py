"""Registering Comity with the programs that people talk to, and taking it back.

- `clients.toml` says where each program keeps its servers and what an entry looks like. It is data.
- `json_text`, `toml_text` and `yaml_text` change one key in a text and leave every other character alone.
- `plan` says what would change, `act` changes it, `records` remember how it was before.
"""
