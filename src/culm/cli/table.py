"""The table of the commands: the words of each, what it does, and the module that has it.

Importing every command takes half a second of CPU, which is longer than most commands run. So the parser begins with
this table alone: it is enough for ``culm --help`` and for the suggestion behind a mistyped command.
``culm.cli.command`` imports a module when one of its commands is called, and only then adds the arguments.
"""

# By the name of the module in ``culm.cli``, in the order of ``culm --help``. A command that others begin with, such as
# "wire", is a group.
COMMANDS = {
    "welcome.demo": {
        "demo": "see what Culm does, in a minute: two nodes, a kill, a forgery, verdicts; leaves nothing behind",
    },
    "identity": {
        "init": "make a home: a store and an identity",
        "identity": "make, show and move identities",
        "identity new": "make an identity",
        "identity list": "list the identities",
        "identity show": "print an identity's public key",
        "identity export": "write an identity, its secret included, to a file",
        "identity import": "add an identity from a file",
    },
    "logs": {
        "append": "publish the next entry of one of your logs",
        "logs": "list the logs of the store",
        "show": "show a log's entries, or one entry",
        "verify": "check the whole store again: signatures, links, paths, payloads",
        "forget": "delete the payload of an entry, but keep the entry",
    },
    "sealing.group": {
        "group": "make and show lists of readers, for culm append --for",
        "group set": "publish a list of readers, in place of the list before",
        "group add": "publish the list of readers with some more",
        "group remove": "publish the list of readers without some",
        "group show": "list the readers of a group",
    },
    "tail": {
        "tail": "show the newest entries of a log as text, and each one that comes",
    },
    "exchange": {
        "export": "write logs to a file",
        "import": "add the entries of an exported file, of either format, to the store",
    },
    "proving": {
        "prove": "write a file that shows an entry, and the history it belongs to, to somebody without Culm's network",
        "check": "check such a file; needs neither a home nor a network",
    },
    "node": {
        "serve": "run a node: listen, stay connected to peers, and pass on new entries",
        "sync": "exchange everything with a peer, once",
        "fetch": "get single entries from a culm:// or intervals:// peer, also those whose payload you deleted",
    },
    "people.invite": {
        "invite": "print a URL that brings somebody to this node, and on a terminal its QR code",
    },
    "people.join": {
        "join": "take an invitation: make a home if there is none, follow, and receive what is shared",
    },
    "people.name": {
        "name": "list names of keys, give one, or take it away; every command takes and shows them",
    },
    "people.neighbours": {
        "neighbours": "list the nodes of the clump on the same network",
    },
    "people.following": {
        "follow": "ask peers for an author's logs, one log or a range of it, and for nothing that you do not follow",
        "unfollow": "stop asking for an author or a log; entries that the store has stay",
        "following": "list what you follow, with the entries and payloads that the store has of it",
    },
    "people.policy": {
        "share": "announce and send a log in a clump",
        "unshare": "never announce or send a log in a clump",
        "allow": "talk only to listed peers, or store only logs of listed authors",
        "block": "never talk to a peer, or never store an author's logs",
        "policy": "show the peers and authors that are allowed and blocked, and the logs that are not shared",
    },
    "config": {
        "config": "show each setting of a node, its value and its origin",
    },
    "backup": {
        "backup": "copy a whole home, with its identities; nodes can keep running",
        "restore": "make a new home from a backup",
    },
    "doctor": {
        "doctor": "check a home: store, identities, configuration, disk, clock; exit code 1 if there is a problem",
    },
    "reconcile": {
        "reconcile": "show, log by log, which entries and payloads one store has and another lacks",
    },
    "ranges": {
        "ranges": "show and combine Bamboo ranges",
        "ranges show": "show which entries of a log a range selects",
        "ranges merge": "compute one range that covers several",
        "ranges intersect": "compute what several ranges have in common",
        "ranges diff": "compute what a range selects beyond the ranges held",
    },
    "wire.decode": {
        "wire": "look into protocol messages, and check what a peer makes of them",
        "wire decode": "list the parts of a message; of a malformed one, the parts before the error",
    },
    "wire.check": {
        "wire check": "find out which items of a protocol a peer keeps to, item by item",
    },
    "spark": {
        "spark": "verify, compare, select and report on Spark",
        "spark verify": "verify every entry of many stores and files",
        "spark follow": "verify entries as they arrive, and tell which verdicts change",
        "spark forks": "find every fork, its proof, and how far each log is valid",
        "spark report": "make a page and tables of what culm spark verify found",
        "spark select": "select the entries of many requests at once",
        "spark fingerprint": "write the record index of a table of verdicts",
        "spark reconcile": "show which entries one table or record index has and another lacks",
        "spark plan": "plan which peer fetches what from which other, within their capacities",
    },
    "view": {
        "view": "look after the views of applications",
        "view rebuild": "make a view's rows anew, and say whether they are the same as before",
    },
    "shell.completion": {
        "completion": "print a script that has bash, zsh or fish complete commands and options",
    },
    "shell.manual": {
        "manual": "print the manual page, for man and for packagers",
    },
    "simulate": {
        "spark simulate": "the earlier name of culm simulate",
        "simulate": "simulate gossip among many nodes; several values make a sweep",
    },
}
GROUPS = frozenset(words.rpartition(" ")[0] for commands in COMMANDS.values() for words in commands) - {""}
# How ``culm --help`` arranges the commands: by what a person wants to do.
SECTIONS = {
    "a home, and your own logs": ("demo", "init", "identity", "append", "logs", "tail", "show", "verify", "forget"),
    "other people": (
        "invite",
        "join",
        "name",
        "neighbours",
        "serve",
        "sync",
        "fetch",
        "follow",
        "unfollow",
        "following",
    ),
    "who may have what": ("group", "share", "unshare", "allow", "block", "policy"),
    "files": ("export", "import", "prove", "check", "reconcile"),
    "keeping a home in order": ("config", "doctor", "backup", "restore", "completion", "manual"),
    "at scale, and for developers": ("spark", "simulate", "ranges", "view", "wire"),
}
