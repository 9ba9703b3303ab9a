import sys

from compliance.run import main

sys.exit(main())
