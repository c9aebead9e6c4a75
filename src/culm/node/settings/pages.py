"""What people read about the settings: the commented example file, and the tables of the docs page."""

from culm.node.settings.schema import SECTIONS, Key, Section


def example() -> str:
    """A file with every setting as a comment, with its default or an example value, to be uncommented where needed."""
    lines = [
        "# Culm's configuration: HOME/culm.toml, or --config FILE.",
        "# Every setting is listed with its default, or with an example if it has no default.",
    ]
    for section in SECTIONS:
        lines += ["", f"# {section.meaning[:1].upper()}{section.meaning[1:]}."]
        if section.name:
            lines.append(f"#{_header(section)}")
        for key in section.keys:
            line = f"#{key.name} = {_value(key)}"
            lines.append(f"{line:<44} # {key.meaning}")
    return "\n".join(lines) + "\n"


def _header(section: Section) -> str:
    return f"[[{section.name}]]" if section.is_list else f"[{section.name}]"


def _value(key: Key) -> str:
    return written(key, key.kind.read(key.sample) if key.default is None else key.default)


def written(key: Key, value: object) -> str:
    """A setting's value as TOML; the empty string for None."""
    return "" if value is None else key.kind.write(value)


def tables() -> str:
    """The settings as tables in Markdown, for ``docs/configuration.md``."""
    parts = []
    for section in SECTIONS:
        title = f"`{_header(section)}`: {section.meaning}" if section.name else f"At the top: {section.meaning}"
        rows = [
            f"| `{key.name}` | {key.kind.expected.replace('|', chr(92) + '|')} | {_default(key)} | {key.meaning} |"
            for key in section.keys
        ]
        parts.append("\n".join([f"### {title}", "", "| key | value | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _default(key: Key) -> str:
    return "none" if key.default is None else f"`{written(key, key.default)}`"
