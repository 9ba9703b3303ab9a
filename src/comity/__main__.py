"""`python -m comity` is `comity`."""

from comity.cli import main

main()
