"""The first bytes on the link: a constant program that receives the agent and starts it.

The host runs `sh -c <constant> ` around `python3 -c <constant>`: no shell ever sees a value. What
varies (which interpreter, which root, the agent itself) follows on standard input.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib

# Runs under any Python 3, so that an old one can say so itself. Reads are exact and unbuffered:
# the bytes behind the agent belong to the agent.
_RECEIVER = """
import sys, os
if sys.version_info < (3, 8):
    sys.stderr.write("orch: the agent needs Python 3.8, this is %s\\n" % sys.version.split()[0])
    sys.exit(97)
import atexit, errno, hashlib, io, json, shutil, struct, tempfile, zipfile
def take(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece:
            sys.stderr.write("orch: the stream ended before the agent was here\\n")
            sys.exit(98)
        data += piece
    return data
head = json.loads(take(struct.unpack("!I", take(4))[0]).decode("utf-8"))
body = take(head["size"])
if body and hashlib.sha256(body).hexdigest() != head["sha256"]:
    sys.stderr.write("orch: the agent arrived damaged: does a start-up file read the input?\\n")
    sys.exit(99)
top = os.path.join(os.path.abspath(os.path.expanduser(head["root"])), "agents")
home = os.path.join(top, head["name"])
def unpacked(folder):
    fresh = tempfile.mkdtemp(prefix=".part-", dir=folder)
    try:
        zipfile.ZipFile(io.BytesIO(body)).extractall(fresh)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return fresh
def install():
    os.makedirs(top, mode=0o700, exist_ok=True)
    fresh = unpacked(top)
    try:
        if os.path.isdir(home):
            torso = tempfile.mkdtemp(prefix=".part-", dir=top)
            os.rename(home, torso)
            shutil.rmtree(torso, ignore_errors=True)
        os.rename(fresh, home)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
def whole():
    modules = [name for _, _, names in os.walk(home) for name in names if name.endswith(".py")]
    return os.path.isdir(home) and len(modules) >= head["files"]
if not whole():
    if not body:
        sys.stderr.write("orch: the agent is not here any more\\n")
        sys.exit(95)
    try:
        install()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            sys.stderr.write("orch: %s: %s\\n" % (error.filename or top, error.strerror))
            sys.exit(94)
        # A full disk must not lock out the visit that makes room on it.
        home = unpacked(None)
        atexit.register(shutil.rmtree, home, True)
sys.path.insert(0, home)
from orchestrator.agent.main import main
main()
"""

_PACKED = base64.b64encode(zlib.compress(_RECEIVER.encode("ascii"), 9)).decode("ascii")

PYTHON_CODE = f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{_PACKED}")))'

# `read` takes one byte at a time from a pipe, so it leaves the rest of the stream alone.
_SHELL_CODE = (
    (
        "IFS= read -r p || exit 96; "
        'case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
        f'exec "$p" -c "{PYTHON_CODE}"'
    )
    .replace('b64decode("', 'b64decode(\\"')
    .replace('")))"', '\\")))"')
)

ARGV = ("sh", "-c", _SHELL_CODE)
"""What a carrier that takes an argument list runs on the host."""

COMMAND = f"sh -c '{_SHELL_CODE}'"
"""The same for a carrier that takes one string for a login shell; it holds no single quote."""

assert "'" not in _SHELL_CODE, "the command must survive one pair of single quotes"

NO_ROOT = 94
AGENT_GONE = 95

EXIT_CODES = {
    NO_ROOT: "nothing can be written below its `root:`",
    AGENT_GONE: "the agent that was there is gone",
    96: "the link closed before the host said anything",
    97: "its python3 is older than 3.8",
    98: "the stream ended before the agent was there",
    99: "the agent arrived damaged: a start-up file of the login shell may read standard input",
    126: "its interpreter may not be executed",
    127: "it has no such interpreter",
}


def opening(
    agent: bytes, *, name: str, root: str, interpreter: str | None, files: int = 0
) -> bytes:
    """Everything before the first frame.

    Args:
        agent: the zip of the agent; empty where the host is known to have it.
        name: the directory it is unpacked into, which names its content.
        root: the directory on the host, `~` allowed.
        interpreter: the one the shell is to start; None where no shell is in between.
        files: how many modules it has; with fewer there, a cleaner of old files went over it.
    """
    head = json.dumps(
        {
            "size": len(agent),
            "sha256": hashlib.sha256(agent).hexdigest(),
            "name": name,
            "files": files,
            "root": root,
        }
    ).encode("utf-8")
    first_line = b"" if interpreter is None else interpreter.encode("utf-8") + b"\n"
    return first_line + struct.pack("!I", len(head)) + head + agent
