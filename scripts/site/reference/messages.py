"""The page of the messages between programs, made of the .proto files and their comments. Pure."""

import re

HEAD = """# Messages

Made from `proto/swarmjob/v1`. [Wire format](wire_format.md) says how their bytes stand on a connection, and
[the rules of the protocol](protocol.md) what the programs do with them.
"""
OPENING = re.compile(r"(message|enum|service|oneof) (\w+) \{(.*)")
FIELD = re.compile(r"((?:repeated )?[\w.]+) (\w+) = (\d+);")
VALUE = re.compile(r"(\w+) = (\d+);")
CALL = re.compile(r"rpc (\w+)\((?:stream )?(\w+)\) returns \((?:stream )?(\w+)\);")
IGNORED = re.compile(r"(syntax|package|import|option) ?.*;|// ----.*|$")


def page(files):
    """Markdown for the texts of the files, by name. Raises ValueError for a line that it does not understand."""
    parts = {name: re.fullmatch(r"((?://[^\n]*\n)*)(.*)", text, re.DOTALL).groups() for name, text in files.items()}
    types = {name: _types(name, _statements(body)) for name, (_, body) in parts.items()}
    kinds = {each["title"]: each["kind"] for found in types.values() for each in found}
    return HEAD + "".join(f"\n## `{name}`\n\n{_words(head.splitlines())}\n\n" +
                          "\n".join(_section(kinds, **each) for each in types[name])
                          for name, (head, _) in parts.items())


def _statements(text):
    """The lines, with those that a "=" continues as one."""
    return re.sub(r"=\n\s*", "= ", text).splitlines()


def _types(name, lines):
    """Each type with its comment and rows, those inside another one after it."""
    comment, open_types, done = [], [], []
    for line in map(str.strip, lines):
        code, _, remark = line.partition("//")
        opening = OPENING.match(code)
        if line.startswith("//") and not line.startswith("// ----"):
            comment.append(line)
        elif opening:
            kind, title, rest = opening.groups()
            if kind != "oneof":
                done.append({"kind": kind, "title": title, "comment": _words(comment), "rows": []})
            open_types.append(done[-1])
            comment = []
            if rest.strip() == "}":
                open_types.pop()
        elif code.strip() == "}":
            open_types.pop()
        elif open_types and (row := _row(open_types[-1]["kind"], code.strip())):
            before = _words(comment)
            open_types[-1]["rows"].append(row + (" ".join(filter(None, (before, remark.strip()))),))
            comment = []
        elif IGNORED.fullmatch(line):
            comment = []
        else:
            raise ValueError(f"{name}: not understood: {line}")
    return done


def _row(kind, code):
    """(number, name, type) of a field, a value of an enum or a call; None for anything else."""
    if kind == "enum":
        found = VALUE.fullmatch(code)
        return found and (found[2], found[1], "")
    if kind == "service":
        found = CALL.fullmatch(code)
        return found and ("", found[1], f"{found[2]} → {found[3]}")
    found = FIELD.fullmatch(code)
    return found and (found[3], found[2], found[1])


def _section(kinds, kind, title, comment, rows):
    lines = [f"### {kind} `{title}`", ""]
    if comment:
        lines += [comment, ""]
    if not rows:
        return "\n".join(lines + ["It has no fields.", ""])
    lines += ["| number | name | type | meaning |", "|---|---|---|---|"]
    lines += [f"| {number} | `{name}` | {_linked(type_, kinds)} | {meaning} |" for number, name, type_, meaning in rows]
    return "\n".join(lines) + "\n"


def _linked(type_, kinds):
    """The type, with links to the sections of those on the page."""
    def link(word):
        name = word[0]
        return f"[{name}](#{kinds[name]}-{name.lower()})" if name in kinds else name
    return re.sub(r"\w+", link, type_)


def _words(lines):
    """The text of comment lines."""
    text = " ".join(line.strip().removeprefix("//").strip() for line in lines)
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
