#!/usr/bin/env python3
"""chat_fixture.py TEMPLATE.jinja <REQUESTS.jsonl >CASES.jsonl - what a chat template makes of requests.

Each line of input is a JSON object with messages and optionally tools, enable_thinking and
add_generation_prompt. The line comes out again as it is, with one member more: "rendered", the text by
TEMPLATE.jinja, or "error", the words it refuses the request with. Needs jinja2; the environment is the
one that the transformers library renders chat templates with.
"""
import json
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = refuse
    with open(sys.argv[1], encoding="utf-8") as f:
        template = env.from_string(f.read())
    for line in sys.stdin:
        line = line.strip()
        request = json.loads(line)
        context = {k: request[k] for k in ("messages", "tools", "enable_thinking") if k in request}
        context["add_generation_prompt"] = request.get("add_generation_prompt", True)
        try:
            name, text = "rendered", template.render(**context)
        except Refused as e:
            name, text = "error", str(e)
        print(f'{line[:-1]}, "{name}": {json.dumps(text, ensure_ascii=False)}}}')


if __name__ == "__main__":
    main()
