"""Starts programs for a test, and ends them with it, however it ends, killed included. Slurm's daemons leave processes that
outlive them (slurmstepd and its tasks), which become this one's children, as those of orphans, so it finds them all.

    keeper.py FOLDER      its input has a line of JSON for each program: its words. When the input ends, so does everything,
                          and the folder goes

The output of program N is FOLDER/N.out; there is a file FOLDER/N.ended once it has ended."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import sys
import time

SET_CHILD_SUBREAPER = 36  # of prctl


def reap(programs, folder):
    """Also orphans that nobody here has started: as zombies they would seem to be alive. False where no child is left."""
    while True:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not process:
            return True
        if process in programs:
            (folder / ("%d.ended" % programs.index(process))).touch()


def descendants():
    """Their numbers, children before grandchildren."""
    children = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_bytes().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(file.parent.name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found[1:]


def end(programs, folder):
    # Until there is none: one may start another while this looks.
    while reap(programs, folder):
        for process in descendants():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    shutil.rmtree(folder)


def main(folder):
    programs = []
    for number in (signal.SIGINT, signal.SIGTERM):  # its input says when
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, lambda *_: reap(programs, folder))
    if ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    for line in sys.stdin:
        words = json.loads(line)
        output = folder / ("%d.out" % len(programs))
        files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                 (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT, 0o644),
                 (os.POSIX_SPAWN_DUP2, 1, 2)]  # fmt: skip
        # It may have ended before it has been noted.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        programs.append(os.posix_spawnp(words[0], words, os.environ, file_actions=files, setsigmask=()))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end(programs, folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
