"""``python -m culm.cli``."""

import sys

from culm.cli.command import main

sys.exit(main())
