"""How well the skills do, measured: `python -m evals`, or `make evals`.

`tables/` knows what is measured; a new table is a function there that returns `Table`s, and one entry in
`tables.TABLES`. The sets of texts live beside it and are no part of the package.
"""
