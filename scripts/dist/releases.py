"""On which releases of Debian and Ubuntu programs run, from the versions of symbols that they ask for."""

import re

# The newest versions of symbols that each release's glibc, libstdc++6 and libgcc-s1 define.
# Of Debian read from the libraries themselves, which tests/dist/tarball_test.py does again; of Ubuntu from the
# releases of glibc and gcc in it: 2.35 and 12, 2.39 and 14 (gcc's table is in libstdc++'s manual, "ABI Policy").
RELEASES = {
    "Debian 12": {"GLIBC": "2.36", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    "Debian 13": {"GLIBC": "2.41", "GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
    "Ubuntu 22.04": {"GLIBC": "2.35", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    "Ubuntu 24.04": {"GLIBC": "2.39", "GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
}


def numbers(version):
    """"2.36" as (2, 36), which compare as versions do."""
    return tuple(int(part) for part in version.split("."))


def newest(versions):
    """{"GLIBC": "2.36", ...}: the newest of each kind among names like "GLIBC_2.36". Other names say nothing."""
    found = {}
    for name in versions:
        match = re.fullmatch(r"([A-Z]+)_([0-9.]+)", name)
        if match and numbers(match[2]) > numbers(found.get(match[1], "0")):
            found[match[1]] = match[2]
    return found


def too_new(versions, release):
    """Those of the versions that the release lacks. A version without numbers, such as GLIBC_PRIVATE, is in none."""
    there = RELEASES[release]

    def lacking(name):
        match = re.fullmatch(r"([A-Z]+)_([0-9.]+)", name)
        return not match or match[1] not in there or numbers(match[2]) > numbers(there[match[1]])

    return sorted(filter(lacking, versions))
