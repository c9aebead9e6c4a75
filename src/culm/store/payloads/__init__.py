"""The bytes of payloads: where they lie (``pieces``, ``folder``), and how they come in (``sink``)."""
