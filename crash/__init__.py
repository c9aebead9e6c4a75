"""The program killed at random moments, and what is left looked at: ``python -m crash``, ``make crash``.

A *scene* (``crash.scenes``) is a home and the commands that are run in it, one after the other. Each runs as its user
would run it, as a program, and is killed with SIGKILL at a moment aimed to fall into its work; then the home is looked
at: it opens, ``culm doctor`` is content, everything holds together (``crash.invariants``), and whatever the program had
said it did is done. Beside the home as it is, copies of it are opened as a power cut would have left them
(``crash.powercut``).
"""
