#!/usr/bin/python3
"""Runs a command under a seccomp profile in the format of container engines (OCI).

usage: with_seccomp.py PROFILE.json COMMAND [ARGUMENTS...]
"""

import errno
import json
import os
import sys

import seccomp


def load(path):
    with open(path) as file:
        profile = json.load(file)
    if profile["defaultAction"] != "SCMP_ACT_ALLOW":
        sys.exit(f"{path}: only profiles that allow by default are understood here")
    filtering = seccomp.SyscallFilter(seccomp.ALLOW)
    # Without it, the capability to administer the system is needed.
    filtering.set_attr(seccomp.Attr.CTL_NNP, 0)
    for rule in profile["syscalls"]:
        if rule["action"] != "SCMP_ACT_ERRNO":
            sys.exit(f"{path}: the action {rule['action']} is not understood here")
        for name in rule["names"]:
            number = seccomp.resolve_syscall(seccomp.Arch(), name)
            # System calls of other architectures have no number here.
            if number >= 0:
                filtering.add_rule(seccomp.ERRNO(rule.get("errnoRet", errno.EPERM)), number)
    filtering.load()


load(sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])
