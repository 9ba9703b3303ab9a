"""Each workload beside its baseline, in one run: `python -m bench`, or `make bench`.

`harness/` knows how to measure and tell; `rows/` knows what is measured. A new row is a function in
`rows/` that opens its contenders, ours first, and one entry in `rows.ROWS`.
"""
