"""From start to end as whoever looks after the server sees it: the service manager, health checks, and the log."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import admin

import kiln


class Manager:
    """What systemd is to a service with Type=notify."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0kiln-life-test-%d-%d" % (os.getpid(), id(self)))
        self._socket.settimeout(60)
        self.environment = {"NOTIFY_SOCKET": "@" + self._socket.getsockname()[1:].decode()}

    def heard(self):
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def close(self):
        self._socket.close()


class LifeTest(unittest.TestCase):
    def start(self, *flags, **how):
        server = support.Server(*flags, **how)
        self.addCleanup(server.stop)
        return server

    def test_the_service_manager_hears_of_all(self):
        manager = Manager()
        self.addCleanup(manager.close)
        server = self.start("--drain_seconds=7", environment=manager.environment)
        ready = {"READY": "1", "STATUS": "serving on port %d" % server.port}
        self.assertEqual(manager.heard(), ready)
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.heard()
        self.assertEqual(reloading["RELOADING"], "1")
        self.assertGreater(int(reloading["MONOTONIC_USEC"]), 0)
        self.assertEqual(manager.heard(), ready)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(manager.heard(), {"STOPPING": "1", "STATUS": "draining", "EXTEND_TIMEOUT_USEC": "10000000"})
        self.assertEqual(server.process.wait(60), 0)

    def test_a_watchdog_is_fed(self):
        manager = Manager()
        self.addCleanup(manager.close)
        self.start(environment={**manager.environment, "WATCHDOG_USEC": "200000"})
        self.assertEqual(manager.heard()["READY"], "1")
        for _ in range(3):
            self.assertEqual(manager.heard(), {"WATCHDOG": "1"})

    def test_balancers_hear_of_the_end_before_the_port_closes(self):
        # A grace without end: it is cut short by the second signal.
        server = self.start("--drain_grace_seconds=3600", "--admin_listen=127.0.0.1:0")
        pages = admin.Admin(server)

        def ready():
            status, _ = pages.get("/readyz")
            self.assertIn(status, (200, 503))
            return status == 200

        self.assertTrue(support.eventually(ready))
        with kiln.connect(server.address) as client:
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(support.eventually(lambda: not ready()))
            with self.assertRaises(subprocess.CalledProcessError):
                support.cli("--server", server.address, "health")
            # It still serves clients that are connected, and new ones.
            self.assertEqual(client.arange(4).numpy().sum(), 6)
            self.assertEqual(support.connect_anew(server.address), 3)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 0)

    def test_the_log_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "port"
            process = subprocess.Popen([str(support.KILND), "--listen=127.0.0.1:0", "--log_format=json",
                                        "--port_file=%s" % file], stderr=subprocess.PIPE, text=True,
                                       env={"KILN_GPUS": "none", **os.environ})  # fmt: skip
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            events = []
            for line in process.stderr:
                events.append(json.loads(line))
                if events[-1]["event"] == "serving":
                    break
            self.assertTrue(support.eventually(file.exists))
            self.assertEqual(events[-1]["port"], int(file.read_text()))
            self.assertEqual(events[-1]["listen"], "127.0.0.1:0")
            device = next(event for event in events if event["event"] == "device")
            self.assertEqual(device["name"], "CPU:0")
            self.assertGreater(device["memory_bytes"], 0)
            self.assertIn("level", device)
            process.send_signal(signal.SIGTERM)
            ended = [json.loads(line)["event"] for line in process.stderr]
            self.assertEqual([event for event in ended if event in ("draining", "stopped")], ["draining", "stopped"])
            self.assertEqual(process.wait(60), 0)

    def test_check_config_looks_at_files(self):
        bad = subprocess.run([str(support.KILND), "--check_config", "--models=/nowhere/at/all"], capture_output=True,
                             text=True)  # fmt: skip
        self.assertEqual((bad.returncode, bad.stderr),
                         (2, "kilnd: models: /nowhere/at/all: there is no such folder\n"))  # fmt: skip
        self.assertEqual(bad.stdout, "")


if __name__ == "__main__":
    unittest.main()
