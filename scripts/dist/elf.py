"""Which libraries, and which versions of them, a program or library asks for, by binutils' objdump."""

import dataclasses
import re
import subprocess

# The C library with its parts, and gcc's two libraries: every Debian and Ubuntu has them, and of the first a process
# can have one only, that of the loader.
SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so")


@dataclasses.dataclass(frozen=True)
class Elf:
    """What the dynamic section says."""
    needed: tuple  # names of libraries, as "libz.so.1"
    runpath: str  # "" if there is none; an RPATH, which the loader prefers to LD_LIBRARY_PATH, is no RUNPATH
    versions: tuple  # (library, version), as ("libc.so.6", "GLIBC_2.34")


def is_elf(path):
    """Whether the file is a program or a library."""
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def read(path):
    """What the file asks for. Raises CalledProcessError if objdump cannot read it."""
    text = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
    versions, library = [], ""
    for line in text.partition("Version References:")[2].splitlines():
        if begin := re.match(r"  required from (\S+):$", line):
            library = begin[1]
        elif version := re.match(r"    0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (\S+)$", line):
            versions.append((library, version[1]))
    return Elf(tuple(re.findall(r"^  NEEDED +(\S+)$", text, re.MULTILINE)),
               "".join(re.findall(r"^  RUNPATH +(\S+)$", text, re.MULTILINE)), tuple(versions))


def defined(path):
    """The versions of symbols that a library offers, as ["GLIBC_2.2.5", ...], and its own name."""
    text = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
    section = text.partition("Version definitions:")[2].partition("\n\n")[0]
    return re.findall(r"^\d+ 0x[0-9a-f]+ 0x[0-9a-f]+ (\S+)", section, re.MULTILINE)
