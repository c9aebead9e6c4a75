"""``python -m culm.cli``."""

import sys

from culm.cli import main

sys.exit(main())
