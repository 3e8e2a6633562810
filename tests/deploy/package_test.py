"""What `./dev package` makes of a tree: the same bytes twice, programs that run where they are unpacked, and a true list
of whose code is in them. Toys stand in for the programs."""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import toy

sys.path.insert(0, str(toy.ROOT / "deploy" / "package"))

from sbom import COMPILED_IN
from symbols import Needs


def output(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        files = toy.programs(cls.folder)
        toy.tree(cls.folder / "tree", files)
        cls.made = toy.packages(cls.folder / "tree", cls.folder / "out")
        cls.files = files

    def test_twice_is_the_same(self):
        # Made elsewhere, later, and by somebody with other habits.
        mask = os.umask(0o077)
        try:
            toy.tree(self.folder / "again", self.files)
            again = toy.packages(self.folder / "again", self.folder / "out2", TZ="Asia/Tokyo", LC_ALL="C")
        finally:
            os.umask(mask)
        self.assertEqual(again["SHA256SUMS"].read_text(), self.made["SHA256SUMS"].read_text())
        self.assertEqual(len(again["SHA256SUMS"].read_text().splitlines()), 5)
        subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=self.folder / "out", check=True)

    def test_the_deb(self):
        deb, root = self.made[".deb"], self.folder / "root"
        self.assertEqual(deb.name, "kiln_9.8.7_amd64.deb")
        subprocess.run(["dpkg-deb", "--extract", str(deb), str(root)], check=True)
        library = "=> %s/usr/lib/kiln/bin/../lib/libz.so.1" % root
        for program in ("kilnd", "kiln"):
            self.assertIn(library, output("ldd", (root / "usr/bin" / program).resolve()))
            self.assertRegex(output(root / "usr/bin" / program, "word"), r"^%s \d[\d.]+ word$" % program)
        self.assertRegex(output("dpkg-deb", "--field", deb, "Depends"),
                         r"^libc6 \(>= 2\.\d+\), libgcc-s1, libstdc\+\+6 \(>= \d+\)$")  # fmt: skip
        self.assertEqual(output("dpkg-deb", "--info", deb, "conffiles"), "/etc/kiln/kilnd.txtpb\n")
        self.assertTrue((root / "usr/lib/systemd/system/kilnd.service").is_file())
        # What goes before a port that strangers reach.
        self.assertIn("tune.bufsize", (root / "usr/share/doc/kiln/examples/haproxy.cfg").read_text())
        listed = output("dpkg-deb", "--contents", deb).splitlines()
        self.assertEqual({line.split()[1] for line in listed}, {"root/root"})
        self.assertEqual({line.split()[0] for line in listed}, {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"})
        for line in output("dpkg-deb", "--info", deb, "md5sums").splitlines():
            digest, path = line.split("  ")
            self.assertEqual(hashlib.md5((root / path).read_bytes()).hexdigest(), digest)

    def test_the_page_of_the_manual_is_the_help(self):
        root = self.folder / "manual"
        subprocess.run(["dpkg-deb", "--extract", str(self.made[".deb"]), str(root)], check=True)
        page = output("zcat", root / "usr/share/man/man8/kilnd.8.gz")
        self.assertIn("A toy.\n\\&.dot\n  \\-\\-flag C:\\ex\n", page)

    def test_the_wheel(self):
        wheel, site = self.made[".whl"], self.folder / "site"
        self.assertRegex(wheel.name, r"^kilnd-9\.8\.7-py3-none-manylinux_2_\d+_x86_64\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            rows = archive.read("kilnd-9.8.7.dist-info/RECORD").decode().splitlines()
            self.assertEqual([row.split(",")[0] for row in rows], archive.namelist())
            for row in rows[:-1]:
                name, digest, size = row.split(",")
                data = archive.read(name)
                wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), ("sha256=" + wanted, len(data)), name)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
        environment = {**os.environ, "PYTHONPATH": str(site)}
        for program in ("kilnd", "kiln"):
            self.assertRegex(output(site / "bin" / program, "word", env=environment), r"^%s \d[\d.]+ word$" % program)
        code = "import kilnd; print(kilnd.path('kilnd'))"
        self.assertEqual(output(sys.executable, "-c", code, env=environment), "%s\n" % (site / "kilnd/bin/kilnd"))

    def test_the_tarball(self):
        with tarfile.open(self.made[".tar.gz"]) as archive:
            archive.extractall(self.folder / "unpacked")
        (root,) = (self.folder / "unpacked").iterdir()
        self.assertEqual(root.name, "kiln-9.8.7")
        self.assertRegex(output(root / "bin/kiln", "word"), r"^kiln \d[\d.]+ word$")
        self.assertIn("tune.bufsize", (root / "haproxy.cfg").read_text())
        self.assertEqual((root / "sbom.spdx.json").read_bytes(), self.made[".spdx.json"].read_bytes())

    def test_the_image(self):
        with tarfile.open(self.made["-oci.tar"]) as archive:
            blobs = {member.name: archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()}
        for name, data in blobs.items():
            if name.startswith("blobs/"):
                self.assertEqual(name, "blobs/sha256/" + hashlib.sha256(data).hexdigest())
        read = lambda row: blobs["blobs/" + row["digest"].replace(":", "/")]  # noqa: E731
        manifest = json.loads(read(json.loads(blobs["index.json"])["manifests"][0]))
        config = json.loads(read(manifest["config"]))
        self.assertEqual((config["config"]["User"], config["config"]["Entrypoint"]), ("65532:65532", ["/usr/bin/kilnd"]))
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], "9.8.7")
        layer = gzip.decompress(read(manifest["layers"][0]))
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest()])
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            members = {member.name: member for member in archive.getmembers()}
            listed = json.loads(archive.extractfile("usr/share/doc/kiln/sbom.spdx.json").read())
        # Nothing that starts programs, nothing with another's rights, and of files only what the list has.
        programs = {name for name, member in members.items() if member.isfile() and member.mode & 0o111}
        self.assertEqual(programs, {row["fileName"][2:] for row in listed["files"]} - {"usr/lib/kiln/lib/libz.so.1"})
        self.assertEqual({name for name in programs if not re.search(r"\.so(\.|$)", name)},
                         {"usr/lib/kiln/bin/kilnd", "usr/lib/kiln/bin/kiln"})  # fmt: skip
        self.assertFalse([name for name, member in members.items() if member.mode & 0o6000])
        self.assertIn("SPDXRef-libc6", {row["SPDXID"] for row in listed["packages"]})

    def test_whose_code_it_is(self):
        said = json.loads(self.made[".spdx.json"].read_text())
        packages = {row["SPDXID"]: row for row in said["packages"]}
        files = {row["fileName"]: row for row in said["files"]}
        self.assertEqual(set(files), {"./bin/kilnd", "./bin/kiln", "./lib/libz.so.1"})
        for name, row in files.items():
            sums = {each["algorithm"]: each["checksumValue"] for each in row["checksums"]}
            self.assertEqual(sums["SHA256"], hashlib.sha256((self.folder / "tree" / name).read_bytes()).hexdigest())
        edges = [(row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"]) for row in said["relationships"]]
        self.assertIn((files["./lib/libz.so.1"]["SPDXID"], "GENERATED_FROM", "SPDXRef-zlib1g"), edges)
        zlib = packages["SPDXRef-zlib1g"]
        self.assertEqual(zlib["versionInfo"], output("dpkg-query", "--show", "--showformat", "${Version}", "zlib1g"))
        origin = output("dpkg-query", "--show", "--showformat", "${Origin}", "zlib1g")
        self.assertEqual(zlib["supplier"], "Organization: " + origin if origin else "NOASSERTION")
        linked = {end for begin, kind, end in edges if kind == "STATIC_LINK" and begin == "SPDXRef-kiln"}
        self.assertEqual(len(linked), sum(kind == "STATIC_LINK" for _, kind, _ in edges))
        self.assertLessEqual(linked, {"SPDXRef-" + name for name in COMPILED_IN})
        self.assertTrue(zlib["externalRefs"][0]["referenceLocator"].startswith("pkg:deb/debian/zlib1g@"))
        known = {"SPDXRef-DOCUMENT", *packages, *(row["SPDXID"] for row in said["files"])}
        self.assertLessEqual({end for edge in edges for end in (edge[0], edge[2])}, known)
        # And a licence for each.
        with tarfile.open(self.made[".tar.gz"]) as archive:
            papers = {match.group(1) for name in archive.getnames() for match in [re.search(r"/licences/([^/]+)$", name)] if match}
        self.assertEqual(papers - {"common"}, {row["name"] for row in packages.values()})

    def test_texts_that_licences_point_to_are_there(self):
        """In everything that is given away, under licences/common."""
        with zipfile.ZipFile(self.made[".whl"]) as archive:
            wheel = {name: archive.read(name) for name in archive.namelist()}
        deb = gzip.compress(subprocess.run(["dpkg-deb", "--fsys-tarfile", str(self.made[".deb"])], stdout=subprocess.PIPE,
                                           check=True).stdout, 0)  # fmt: skip
        tars = {"tarball": self.made[".tar.gz"].read_bytes(), "deb": deb, "image": self.layer()}
        everything = {"wheel": wheel}
        for kind, data in tars.items():
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                everything[kind] = {row.name: archive.extractfile(row).read() for row in archive.getmembers() if row.isfile()}
        for kind, files in everything.items():
            texts = {name.partition("licences/")[2]: data for name, data in files.items() if "/licences/" in name}
            pointed = {name.decode().rstrip(".") for text in texts.values()
                       for name in re.findall(rb"/usr/share/common-licenses/([\w.+-]+)", text)}  # fmt: skip
            with self.subTest(kind):
                self.assertLessEqual({"Apache-2.0", "GPL-2"} if kind == "image" else {"Apache-2.0"}, pointed)
                for name in pointed:
                    text = pathlib.Path("/usr/share/common-licenses", name).read_bytes()
                    self.assertEqual(texts["common/" + name], text, name)

    def layer(self):
        with tarfile.open(self.made["-oci.tar"]) as archive:
            return max((archive.extractfile(row).read() for row in archive.getmembers() if row.isfile()), key=len)


class Tree(unittest.TestCase):
    def test_a_library_of_nobody_s_is_named(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "own.c").write_text("int own(void) { return 0; }")
            (folder / "main.c").write_text("int own(void); int main() { return own(); }")
            subprocess.run(["gcc", "-shared", "own.c", "-o", "libown.so"], cwd=folder, check=True)
            subprocess.run(["gcc", "main.c", "-L.", "-lown", "-Wl,-rpath=" + name, "-o", "main"], cwd=folder, check=True)
            ran = subprocess.run([toy.ROOT / "deploy/tree.sh", folder / "tree", folder / "main"], stderr=subprocess.PIPE, text=True)
            self.assertEqual(ran.stderr, "tree: libown.so: no Debian package has %s/libown.so\n" % name)
            self.assertEqual((ran.returncode, (folder / "tree/packages").exists()), (1, False))


class Scripts(unittest.TestCase):
    """Of the .deb, with programs in place of systemd's that write down how they were called, and fail."""

    def ran(self, script, *words, programs=("systemctl", "deb-systemd-invoke")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for program in programs:
                (folder / program).write_text('#!/bin/sh\necho "${0##*/} $*"\nexit 1\n')
                (folder / program).chmod(0o755)
            # As on a machine that systemd runs, and which has nothing else.
            text = (toy.ROOT / "deploy/package/debian" / script).read_text().replace("/run/systemd/system", name)
            ran = subprocess.run(["/bin/sh", "-c", text, script, *words], env={"PATH": name}, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)  # fmt: skip
        return ran.returncode, ran.stdout.splitlines(), ran.stderr

    def test_a_service_that_does_not_restart_leaves_the_package_whole(self):
        said = "kiln: kilnd.service did not restart: systemctl status kilnd\n"
        called = ["systemctl daemon-reload", "deb-systemd-invoke try-restart kilnd.service"]
        self.assertEqual(self.ran("postinst", "configure", "0.14.0"), (0, called, said))
        called[1] = "systemctl try-restart kilnd.service"
        self.assertEqual(self.ran("postinst", "configure", "0.14.0", programs=["systemctl"]), (0, called, said))
        self.assertEqual(self.ran("postinst", "configure", ""), (0, ["systemctl daemon-reload"], ""))

    def test_nor_does_one_that_does_not_stop_keep_it(self):
        said = "kiln: kilnd.service did not stop: systemctl status kilnd\n"
        called = ["deb-systemd-invoke stop kilnd.service", "systemctl disable kilnd.service"]
        self.assertEqual(self.ran("prerm", "remove"), (0, called, said))
        self.assertEqual(self.ran("prerm", "upgrade", "0.15.0"), (0, [], ""))
        self.assertEqual(self.ran("postrm", "remove"), (0, ["systemctl daemon-reload"], ""))


class Tag(unittest.TestCase):
    def test_the_newer_of_both_libraries_decides(self):
        self.assertEqual(Needs((2, 36), (3, 4, 30)).tag(), "manylinux_2_36_x86_64")
        self.assertEqual(Needs((2, 28), (3, 4, 30)).tag(), "manylinux_2_35_x86_64")
        self.assertEqual(Needs((2, 28), (3, 4, 28)).tag(), "manylinux_2_31_x86_64")
        self.assertEqual(Needs((2, 36), (3, 4, 30)).gcc(), 12)

    def test_a_library_of_which_nothing_is_known_is_named(self):
        with self.assertRaisesRegex(SystemExit, "GLIBCXX_3.4.99 is newer than symbols.py knows"):
            Needs((2, 36), (3, 4, 99)).tag()


if __name__ == "__main__":
    unittest.main()
