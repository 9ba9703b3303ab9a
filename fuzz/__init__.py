"""Garbage for the parsers: `python -m fuzz --seconds 60 [target ...]`, or `make fuzz`.

A target is a module in `fuzz/targets` with three names: `EXAMPLES`, a list of bytes that lead the fuzzer
to the interesting places, `LONGEST`, how many bytes it may make of them, and `check(data)`, which raises
when something that must always hold does not. To add one, add the module; nothing else has to know of it.

What is found is kept in `build/fuzz`; `python -m fuzz.child TARGET FILE` runs it again.
"""
