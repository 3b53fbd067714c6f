"""Says whether a llama-server runs on this machine's processor: it is started with a model and has to answer a prompt.

usage: computes.py LLAMA_SERVER MODEL

Exits with 0 if it answers, and else with 1, with the end of its output on standard error. Builds differ in the
instructions that they need, and one that the processor lacks ends a server only when it computes.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

START_SECONDS = 60  # on a busy machine
PROMPT = "one two three four five six seven eight nine ten " * 8


def answers(url: str, server: subprocess.Popen) -> bool:
    """Whether the server has answered a prompt."""
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        body = json.dumps({"prompt": PROMPT, "n_predict": 4}).encode()
        request = urllib.request.Request(url + "/completion", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
                return bool(json.load(response).get("content") is not None)
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)  # not there yet, or loading the model
    return False


def main() -> int:
    binary, model = sys.argv[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [binary, "-m", model, "-ngl", "0", "-t", "2", "-c", "256", "-np", "1", "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            if answers(f"http://127.0.0.1:{port}", server):
                return 0
        finally:
            server.kill()
        code = server.wait()
        output.seek(0)
        sys.stderr.buffer.write(output.read()[-2000:])
        print(f"\n{binary} does not compute here: exit status {code}", file=sys.stderr)
    return 1


sys.exit(main())
