"""Archives whose bytes depend on names and contents alone, not on who makes them, when, or in which order."""

import gzip
import tarfile


def write(folder, archive, top, seconds):
    """Writes the folder as `archive`, a .tar.gz in which it is called `top` and everything is of the time `seconds`."""

    def add(tar, path, name):
        entry = tar.gettarinfo(path, name)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = seconds
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        if entry.isfile():
            with open(path, "rb") as content:
                tar.addfile(entry, content)
        else:
            tar.addfile(entry)

    with open(archive, "wb") as file, \
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=seconds, compresslevel=6) as packed, \
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as tar:
        add(tar, folder, top)
        for path in sorted(folder.rglob("*")):
            add(tar, path, f"{top}/{path.relative_to(folder)}")
