"""The command line for shells and packagers: completion, and the manual page. Both are made from the parsers."""
