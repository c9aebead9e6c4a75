"""``culm wire``: what messages contain (``decode``), and what a peer makes of them (``check``)."""
