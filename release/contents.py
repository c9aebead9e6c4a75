"""What a release is made of, as a CycloneDX document (an SBOM), from the files that lock it.

The document has three kinds of components. Python packages are what pip installs beside the wheel (``base.lock``).
Packages of npm are inside the wheel, in the bundle for browsers. Crates are inside the wheel of the native core. The
two last are what an installed Culm cannot say of itself, because compilers and bundlers leave no list.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from release import Refused
from release.tree import Tree

NAME = "culm-{version}.cdx.json"
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def document(tree: Tree, chosen: Collection[str]) -> str:
    """The list of components, the same for the same commit; ``Refused`` if it does not fit CycloneDX's schema."""
    culm = _component("pypi", "culm", tree.version, license_id="Apache-2.0")
    made = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"culm:{tree.commit}:{','.join(sorted(chosen))}"),
    )
    made.metadata.timestamp = datetime.fromtimestamp(tree.epoch, UTC)
    made.metadata.component = culm
    direct = _python(tree.folder)
    if "web" in chosen:
        direct += _npm(tree.folder)
    if "native" in chosen:
        core, crates = _cargo(tree.folder)
        direct.append(core)
        _add(made, core, crates)
    _add(made, culm, direct)
    text = str(JsonV1Dot6(made).output_as_string(indent=1)) + "\n"
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise Refused(f"the list of components does not fit the schema of CycloneDX 1.6: {wrong}")
    return text


def _add(made: Bom, whole: Component, found: Iterable[Component]) -> None:
    for component in found:
        made.components.add(component)
    made.register_dependency(whole, found)


def _component(kind: str, name: str, version: str, *, license_id: str | None = None) -> Component:
    group, _, short = name.rpartition("/")
    url = PackageURL(type=kind, namespace=group or None, name=short, version=version)
    return Component(
        type=ComponentType.LIBRARY,
        group=group or None,
        name=short,
        version=version,
        purl=url,
        bom_ref=url.to_string(),
        licenses=[LicenseExpression(license_id)] if license_id else [],
    )


def _python(folder: Path) -> list[Component]:
    """What pip installs with the wheel."""
    lock = (folder / "requirements" / "base.lock").read_text()
    return [_component("pypi", name, version) for name, version in _LOCKED.findall(lock)]


def _npm(folder: Path) -> list[Component]:
    """What is inside the bundle for browsers; packages that only build it are not."""
    lock = json.loads((folder / "web" / "package-lock.json").read_text())
    return [
        _component("npm", path.rpartition("node_modules/")[2], package["version"])
        for path, package in lock["packages"].items()
        if path and not package.get("dev")
    ]


def _cargo(folder: Path) -> tuple[Component, list[Component]]:
    """The native core, and the crates that it is compiled with, on whatever platform."""
    packages = tomllib.loads((folder / "native" / "Cargo.lock").read_text())["package"]
    (core,) = (package["version"] for package in packages if package["name"] == "culm-native")
    crates = [
        _component("cargo", package["name"], package["version"])
        for package in packages
        if package["name"] != "culm-native"
    ]
    return _component("pypi", "culm-native", core, license_id="Apache-2.0"), crates
