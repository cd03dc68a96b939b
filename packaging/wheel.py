"""Makes two Python wheels: wheel.py FILES VERSION LEVEL FOLDER.

The wheel `netarium` has the binary and the module. `pip install` puts the binary into the `bin`
folder of the environment. The tag names the oldest glibc that the binary runs with (PEP 600).
python/pyproject.toml has the name, the extras and the entry points; the description is README.md.

The wheel `netarium-papers` has the figures of papers, with their labs, for all platforms
(reproduce/pyproject.toml). The wheels have no time of this machine.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON, PAPERS = ROOT / "python", ROOT / "reproduce"

# Libraries that PEP 600 lets a wheel take from the system; others would have to be in the wheel.
SYSTEM_LIBRARIES = re.compile(
    r"(lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux(-x86-64|-aarch64)?\.so\.\d+)$"
)


def readelf(option, binary):
    command = ["readelf", "--wide", option, str(binary)]
    environment = {**os.environ, "LC_ALL": "C"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return result.stdout


def platform_tag(binary):
    machine = os.uname().machine
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", binary))
    if not needed:
        # A static binary: both tags, because pip on musl accepts no manylinux wheel.
        return f"manylinux2014_{machine}.musllinux_1_1_{machine}"
    foreign = [name for name in needed if not SYSTEM_LIBRARIES.match(name)]
    if foreign:
        sys.exit(f"wheel.py: {binary} needs {', '.join(foreign)}, which not all systems have")
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("--version-info", binary))
    major, minor = max((int(major), int(minor)) for major, minor in versions)
    # pip knows no older policy for this format of tags.
    major, minor = max((major, minor), (2, 17))
    return f"manylinux_{major}_{minor}_{machine}"


def read_project(folder, version):
    """The pyproject.toml of a folder, whose project must have this version."""
    path = folder / "pyproject.toml"
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        sys.exit(f"wheel.py: {path} is missing")
    project = found["project"]
    if project["version"] != version:
        sys.exit(f"wheel.py: {path} has version {project['version']}, the binary {version}")
    return found


def requirement(text, extra):
    """A requirement of an extra: `polars>=1; extra == 'frames'`."""
    name, _, marker = map(str.strip, text.partition(";"))
    marker = f"({marker}) and " if marker else ""
    return f"{name}; {marker}extra == '{extra}'"


def metadata(project, readme):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        *(f"Project-URL: {name}, {url}" for name, url in project["urls"].items()),
        f"License: {project['license']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project.get("dependencies", [])),
    ]
    for extra, needed in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {requirement(text, extra)}" for text in needed]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join([*lines, "", readme])


def entry_points(project):
    """The content of entry_points.txt; empty without entry points."""
    groups = dict(project.get("entry-points", {}))
    if scripts := project.get("scripts"):
        groups["console_scripts"] = scripts
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items()) + "\n"
        for group, points in groups.items()
    )


def module():
    """The files of the package `netarium`, each with its name in the wheel."""
    files = sorted(PYTHON.glob("netarium/**/*.py")) + sorted(PYTHON.glob("netarium/**/py.typed"))
    if not files:
        sys.exit(f"wheel.py: {PYTHON / 'netarium'} is missing: the wheel would have no module")
    return [(str(path.relative_to(PYTHON)), path.read_bytes(), 0o644) for path in files]


def papers(settings):
    """The files of the package `netarium_papers`, by the folders of its packages."""
    content = []
    for name, place in settings["package-dir"].items():
        patterns = settings["package-data"].get(name, ["*.py"])
        folder = PAPERS / place
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        for path in found:
            if path.is_file() and "__pycache__" not in path.parts:
                place = "/".join([*name.split("."), *path.relative_to(folder).parts])
                # Programs of labs are started by their path.
                mode = 0o755 if os.access(path, os.X_OK) else 0o644
                content.append((place, path.read_bytes(), mode))
    return content


def write_wheel(out, name, version, tags, content, level):
    """Writes a wheel of files (name, content, mode), and prints its path."""
    info = f"{name}-{version}.dist-info"
    record = ""
    for place, data, _ in content:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{place},sha256={digest},{len(data)}\n"
    content = [*content, (f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644)]
    stamp = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315_532_800))[:6]
    path = out / f"{name}-{version}-py3-none-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, data, mode in content:
            entry = zipfile.ZipInfo(place, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: installers read the file mode.
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, compresslevel=level)
    print(path)


def described(files, name, project, tags, readme, licences):
    """The files of the folder .dist-info, without RECORD."""
    info = f"{name}-{project['version']}.dist-info"
    tag_lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    is_pure = str(tags == "any").lower()
    wheel = f"Wheel-Version: 1.0\nGenerator: netarium\nRoot-Is-Purelib: {is_pure}\n{tag_lines}"
    content = [
        (f"{info}/METADATA", metadata(project, readme).encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
    if points := entry_points(project):
        content.append((f"{info}/entry_points.txt", points.encode(), 0o644))
    for licence in licences:
        data = (files / licence).read_bytes()
        content.append((f"{info}/licenses/{licence}", data, 0o644))
    return content


def main():
    files, version, level, out = sys.argv[1:]
    files, level, out = pathlib.Path(files), int(level), pathlib.Path(out)
    licences = ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"]

    binary = files / "netarium"
    project = read_project(PYTHON, version)["project"]
    tags = platform_tag(binary)
    readme = (files / "README.md").read_text(encoding="utf-8")
    script = (f"netarium-{version}.data/scripts/netarium", binary.read_bytes(), 0o755)
    rest = described(files, "netarium", project, tags, readme, [*licences, "THIRD-PARTY.txt"])
    write_wheel(out, "netarium", version, tags, [*module(), script, *rest], level)

    found = read_project(PAPERS, version)
    readme = f"{found['project']['description']}.\n\nStart with `netarium reproduce --list`.\n"
    rest = described(files, "netarium_papers", found["project"], "any", readme, licences)
    content = papers(found["tool"]["setuptools"]) + rest
    write_wheel(out, "netarium_papers", version, "any", content, level)


if __name__ == "__main__":
    main()
