"""What the sessions of all protocols share."""
