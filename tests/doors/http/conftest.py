"""What finds out whether people with other senses can use a page."""

import shutil
import subprocess
import tarfile
from hashlib import sha256

import pytest

AXE = "axe-core@4.14.0"
AXE_HASH = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The script of axe-core, fetched by npm and known by its hash."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not installed")
    fetched = subprocess.run(
        [npm, "pack", "--silent", AXE], check=False, cwd=folder, capture_output=True, text=True, timeout=120
    )
    if fetched.returncode:
        pytest.skip(f"npm cannot fetch {AXE}: {fetched.stderr.strip()}")
    (packed,) = folder.iterdir()
    assert sha256(packed.read_bytes()).hexdigest() == AXE_HASH
    with tarfile.open(packed) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()
