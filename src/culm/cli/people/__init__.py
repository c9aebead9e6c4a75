"""Other people: their names, invitations, what to follow of them, and what they may have."""
