"""A kilnd that serves the models of tests/clients/models.py, for tests of what Python makes of them."""

import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "clients")]

import support
import world

import kiln


def serve(*flags):
    """As support.Server, with its models loaded; stop() removes their folder, too."""
    folder = tempfile.mkdtemp()
    server = world.serving(pathlib.Path(folder), *flags)
    stop = server.stop

    def stop_and_remove():
        stop()
        shutil.rmtree(folder, ignore_errors=True)

    server.stop = stop_and_remove
    return server


class ServerTest(support.ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(*cls.FLAGS)
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)
