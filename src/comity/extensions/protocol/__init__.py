"""Personal, Relational, Torch and Intent of VCP 3.1 (vcp 6), and how their operations run.

Pure functions over frozen state: time, fresh ids and keys are arguments. A refusal is an `ExtensionError` and changes
nothing.
"""
