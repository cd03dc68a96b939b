"""Makes a Python wheel that contains only the binary: wheel.py FILES VERSION LEVEL FOLDER.

`pip install` puts the binary into the `bin` folder of the environment. The tag names the oldest
glibc that the binary runs with (PEP 600). The wheel has no time of this machine.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

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


def metadata(version, readme):
    return (
        "Metadata-Version: 2.1\n"
        "Name: netarium\n"
        f"Version: {version}\n"
        "Summary: An Internet in a box: real programs on an emulated network, in user space\n"
        "Home-page: https://github.com/netarium/netarium\n"
        "License: MIT OR Apache-2.0\n"
        "Classifier: Operating System :: POSIX :: Linux\n"
        "Classifier: Topic :: System :: Networking\n"
        "Requires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n"
        f"\n{readme}"
    )


def main():
    files, version, level, out = sys.argv[1:]
    files, level, out = pathlib.Path(files), int(level), pathlib.Path(out)
    binary = files / "netarium"
    tags = platform_tag(binary)
    info = f"netarium-{version}.dist-info"
    tag_lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: netarium\nRoot-Is-Purelib: false\n{tag_lines}"
    readme = (files / "README.md").read_text(encoding="utf-8")
    content = [
        (f"netarium-{version}.data/scripts/netarium", binary.read_bytes(), 0o755),
        (f"{info}/METADATA", metadata(version, readme).encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
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
