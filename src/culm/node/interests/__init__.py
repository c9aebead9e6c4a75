"""The operator's choices: whom a node talks to, what it wants and shares, and what is missing of what it wants."""
