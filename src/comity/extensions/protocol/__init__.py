"""The five extensions of VCP 3.1: Personal, Relational, Consensus, Torch and Intent (vcp 6).

Pure functions over frozen state. Time, fresh ids and keys are handed in; nothing here reads a clock, draws a
random number or stores anything. A refusal is an `ExtensionError`; the state that was handed in never changes.
"""
