"""The operator's choices: whom a node talks to, what it wants and gives, and what of that is missing."""
