"""What many commands say of their arguments. What a node is told stands in ``culm.cli.nodeoptions``.

*Names.* Wherever a key is expected, the name that the person has given it works, too. The names are in the home, and
which home is known only when the whole call is read, because ``--home`` may come last. So the type of such an argument
(``named``) makes a ``Named`` of a text that is no key, and ``look_up_names`` replaces it before the command runs.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError
from culm.wire.places import (
    author_text,
    is_name,
    parse_author,
    parse_log,
    parse_log_or_place,
    parse_number,
    parse_place,
)

if TYPE_CHECKING:
    from culm.node.home import Home


def home_option(arguments: argparse.Namespace) -> str:
    """How a command that is proposed has to begin to be about the same home: ``culm``, perhaps with an option."""
    return f"culm --home {quote(arguments.home)}" if arguments.home else "culm"


def number(name: str, least: int = 1) -> Callable[[str], int]:
    """The type of an argument that is a number, for ``add_argument``; ``name`` is what a message calls it."""
    return partial(parse_number, name=name, least=least)


def place(text: str) -> Any:  # noqa: ANN401 - a path, or a location of a package that is imported if it is needed
    """The type of an argument that is a folder, or the URI of one."""
    if "://" not in text:
        from pathlib import Path  # noqa: PLC0415 - few commands need it, and it takes a while to load

        return Path(text)
    from culm.spark.storage import target  # noqa: PLC0415 - Spark is an extra

    return target(text)


def folder(text: str) -> Any:  # noqa: ANN401 - a path, as ``place`` makes it
    """The type of an argument that is a folder of this machine or of a shared disk, and cannot be a URI."""
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is a URI; name a folder of this machine or of a shared disk")
    return place(text)


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Add options to a parser: by the name of each what ``add_argument`` takes."""
    for name, settings in options.items():
        parser.add_argument(name, **settings)


# -- names -----------------------------------------------------------------------------------------------------------


class Named(NamedTuple):
    """A text that has a name where a key is expected: ``before``, ``name``, ``rest``.

    ``parse`` makes the argument's value of the same text with a key. ``is_peer``: the text is a name alone, and stands
    for the address that the configuration has for this peer.
    """

    before: str
    name: str
    rest: str
    parse: Callable[[str], Any]
    is_peer: bool = False

    def text(self, key: bytes) -> str:
        """The text with a key in place of the name."""
        return self.before + author_text(key) + self.rest


def named(parse: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 - what ``parse`` makes, or a Named
    """The type of an argument that begins with a key or a name, as ``AUTHOR/LOG`` does; use it with ``partial``."""
    head = text.partition("/")[0].partition(" ")[0]  # Of AUTHOR/LOG, or of an interest: AUTHOR/LOG RANGE.
    return Named("", head, text[len(head) :], parse) if is_name(head) else parse(text)


def named_peer(parse: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 - what ``parse`` makes, or a Named
    """The type of an argument that is an address, or the name of a configured peer; use it with ``partial``."""
    if is_name(text):
        return Named("", text, "", parse, is_peer=True)
    scheme, _, rest = text.partition("://")
    name, at, place = rest.partition("@")
    return Named(f"{scheme}://", name, at + place, parse) if at and is_name(name) else parse(text)


author_type = partial(named, parse_author)
log_type = partial(named, parse_log)
place_type = partial(named, parse_place)
log_or_place_type = partial(named, parse_log_or_place)
text_type = partial(named, str)


def look_up_names(arguments: argparse.Namespace) -> None:
    """Replace each ``Named`` among the arguments by its meaning in their home; ``ConfigError`` if it has none."""
    for option, value in vars(arguments).items():
        if isinstance(value, Named):
            setattr(arguments, option, _meaning(arguments, value))
        elif isinstance(value, list) and any(isinstance(item, Named) for item in value):
            setattr(arguments, option, [_meaning(arguments, item) for item in value])


def _meaning(arguments: argparse.Namespace, item: Any) -> Any:  # noqa: ANN401 - a Named, or any other value
    if not isinstance(item, Named):
        return item
    from culm.node.home import Home  # noqa: PLC0415 - commands that name nobody, and have no home, do without

    home = Home.find(arguments.home)
    if item.is_peer and (url := _configured(arguments, home, item.name)) is not None:
        return item.parse(url)
    names = home.names()
    key = names.key(item.name)
    if key is None:
        _check_rest(item)
        from difflib import get_close_matches  # noqa: PLC0415 - only a mistyped name needs it

        near = get_close_matches(item.name, [name.text for name in names.of.values()], 1)
        hint = f"did you mean {near[0]}?" if near else "culm name lists the names that you have given"
        raise ConfigError(
            f"{item.name!r} is neither an author (43 base62 characters, or 64 hex digits) nor a name here; {hint}"
        )
    return _address_of(arguments, home, item, key) if item.is_peer else item.parse(item.text(key))


def _check_rest(item: Named) -> None:
    """``ConfigError``, with the text as it was given, if something else than an unknown name is wrong with it."""
    try:
        item.parse(item.name if item.is_peer else item.text(bytes(AUTHOR_BYTES)))
    except ConfigError:
        item.parse(item.before + item.name + item.rest)


def _configured(arguments: argparse.Namespace, home: "Home", name: str) -> str | None:
    """The address of the peer that the configuration calls so, whatever its protocol; None if there is none."""
    return next((str(peer.url) for peer in home.settings(arguments.config).peers if peer.name == name), None)


def _address_of(arguments: argparse.Namespace, home: "Home", item: Named, key: bytes) -> Any:  # noqa: ANN401 - as above
    urls = [str(peer.url) for peer in home.settings(arguments.config).peers if peer.url.key == key]
    if not urls:
        raise ConfigError(f"the configuration has no address of {item.name}; give one, as culm://{item.name}@HOST:PORT")
    return item.parse(urls[0])
