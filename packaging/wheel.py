"""Makes a Python wheel of the binary and the module: wheel.py FILES VERSION LEVEL FOLDER.

`pip install` puts the binary into the `bin` folder of the environment. The tag names the oldest
glibc that the binary runs with (PEP 600). python/pyproject.toml has the name, the extras and the
entry points; the description is README.md. The wheel has no time of this machine.
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

PYTHON = pathlib.Path(__file__).resolve().parent.parent / "python"

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


def read_project(version):
    """The table [project] of python/pyproject.toml, which must have this version."""
    path = PYTHON / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    except FileNotFoundError:
        sys.exit(f"wheel.py: {path} is missing")
    if project["version"] != version:
        sys.exit(f"wheel.py: {path} has version {project['version']}, the binary {version}")
    return project


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
    for extra, needed in project["optional-dependencies"].items():
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


def main():
    files, version, level, out = sys.argv[1:]
    files, level, out = pathlib.Path(files), int(level), pathlib.Path(out)
    binary = files / "netarium"
    project = read_project(version)
    tags = platform_tag(binary)
    info = f"netarium-{version}.dist-info"
    tag_lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: netarium\nRoot-Is-Purelib: false\n{tag_lines}"
    readme = (files / "README.md").read_text(encoding="utf-8")
    content = [
        *module(),
        (f"netarium-{version}.data/scripts/netarium", binary.read_bytes(), 0o755),
        (f"{info}/METADATA", metadata(project, readme).encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
    if points := entry_points(project):
        content.append((f"{info}/entry_points.txt", points.encode(), 0o644))
    for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt"]:
        content.append((f"{info}/licenses/{name}", (files / name).read_bytes(), 0o644))
    record = ""
    for name, data, _ in content:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    content.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))

    stamp = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315_532_800))[:6]
    path = out / f"netarium-{version}-py3-none-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in content:
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: installers read the file mode.
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, compresslevel=level)
    print(path)


if __name__ == "__main__":
    main()
