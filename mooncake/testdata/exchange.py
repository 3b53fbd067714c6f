"""Puts and gets objects with the wheel's own client, one file an object.

exchange.py METADATA MASTER PLAN, where PLAN is a JSON file:
{"put": {key: file to read}, "get": {key: file to write}}
"""

import json
import sys

from mooncake.store import MooncakeDistributedStore

metadata, master, plan = sys.argv[1:]
with open(plan) as f:
    plan = json.load(f)

store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", metadata, 0, 64 << 20, "tcp", "", master)
assert code == 0, f"setup: {code}"
for key, path in plan["put"].items():
    with open(path, "rb") as f:
        code = store.put(key, f.read())
    assert code == 0, f"put {key}: {code}"
for key, path in plan["get"].items():
    value = store.get(key)
    assert value, f"get {key}: nothing"
    with open(path, "wb") as f:
        f.write(value)
store.close()
print("exchanged", len(plan["put"]), len(plan["get"]))
