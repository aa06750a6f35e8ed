"""The page of a SwarmJob's fields, made of its schema. Pure."""

HEAD = """# Fields of a SwarmJob

Made from the schema in [`crds/swarmjob.yaml`]({source}), which the API server applies; `kubectl explain swarmjob.spec`
shows the same. [The job](swarmjob.md) explains what the fields do together. In a path, `[]` is an element of a list,
and `{{}}` a value of a map.

"""


def page(schema, source):
    """Markdown for an openAPIV3Schema, whose file has the place `source` in the site."""
    parts = ("spec", "status")
    return HEAD.format(source=source) + "\n".join(
        section for part in parts for section in _sections(schema["properties"][part], part))


def _sections(node, path):
    """A section for each object below the node that has fields."""
    fields = node.get("properties", {})
    if fields:
        yield _section(node, path, fields)
        for name, field in fields.items():
            yield from _sections(field, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(key), dict):
            yield from _sections(node[key], path + mark)


def _section(node, path, fields):
    lines = [f"{'##' if path.count('.') < 2 else '###'} `{path}`", ""]
    if "description" in node:
        lines += [_prose(node["description"]), ""]
    rows = [(f"`{name}`", _type(field), _default(field, name in node.get("required", [])), _meaning(field))
            for name, field in fields.items()]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    rules = [_prose(rule["message"]) for rule in node.get("x-kubernetes-validations", [])]
    if rules:
        lines += ["", "Rules:", ""] + [f"- {rule}" for rule in rules]
    return "\n".join(lines) + "\n"


def _type(field):
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field.get("type") == "array":
        return f"list of {field['items'].get('type', 'any')}s"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    return field.get("type", "any")


def _default(field, required):
    if required:
        return "required"
    if "default" not in field or isinstance(field["default"], dict):
        return ""
    value = field["default"]
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(field):
    """The description, and what the schema allows."""
    said = [_prose(field.get("description", ""))]
    if "enum" in field:
        said.append("One of " + ", ".join(f"`{value}`" for value in field["enum"]) + ".")
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        said.append(f"From {low} to {high}.")
    elif low is not None:
        said.append(f"At least {low}.")
    elif high is not None:
        said.append(f"At most {high}.")
    return " ".join(filter(None, said))


def _prose(text):
    """The text without what Markdown would take as its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
