"""Prints the licences of the crates that are linked into the binary, with their texts."""

import json
import pathlib
import re
import subprocess
import sys

NAMES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE|COPYRIGHT)", re.IGNORECASE)


def metadata():
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    target = re.search(r"^host: (.*)$", host, re.MULTILINE).group(1)
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def linked(data, name):
    """The packages that `name` depends on, without those for its tests and build scripts."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    queue = [key for key, package in packages.items() if package["name"] == name]
    found = set(queue)
    while queue:
        for dependency in nodes[queue.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                queue.append(dependency["pkg"])
    return sorted((packages[key] for key in found), key=lambda it: (it["name"], it["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and NAMES.match(path.name))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main():
    users = {}
    crates = [crate for crate in linked(metadata(), "netarium") if crate["source"]]
    print("The binary of Netarium contains these libraries:\n")
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        print(f"{name}: {crate['license'] or 'see the text'}")
        for text in texts(crate):
            # Copies of a licence often differ only in white space.
            users.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    for text, names in users.values():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")
    if not crates:
        sys.exit("licences.py: found no dependencies")


if __name__ == "__main__":
    main()
