"""Write the golden files anew: `python -m tests.golden`. Read the difference before it is committed."""

from tests.golden.files import GOLDEN, write

for name in GOLDEN:
    print(f"{name}: {'changed' if write(name) else 'as it was'}")
