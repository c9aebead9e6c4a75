"""The node: asyncio around the protocols, and what an operator decides."""

import logging

from culm.node.settings.logformat import tell_fields

logging.getLogger(__name__).addFilter(tell_fields)
