"""What is wrong with a text that should be YAML, in a line. Pure."""


def yaml_trouble(error: Exception) -> str:
    """Of what PyYAML raises: its own errors, with where it is, and those of Python for dates that are none, or for what
    is nested too deeply."""
    import yaml

    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    what = ", ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}: {what}" if mark is not None else what
