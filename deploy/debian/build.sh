#!/bin/sh
# Builds the Debian package of all three programs for this machine's Debian: build.sh PIP_PYTHON OUT [EXTRAS].
# PIP_PYTHON: a Python with pip, whose index (or PIP_NO_INDEX and PIP_FIND_LINKS, a wheelhouse) has the packages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
pip="$1 -m pip --disable-pip-version-check --quiet"
out=$2
extras=${3-server,client,page}
command -v dpkg-deb >/dev/null || { echo "dpkg-deb is not installed: apt-get install dpkg-dev" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/tree
home=$tree/opt/roofline

# Not a Python of pyenv or conda: the package runs with Debian's.
/usr/bin/python3 -m venv --without-pip "$home"
rm "$home"/bin/[Aa]ctivate*
$pip wheel --no-deps --wheel-dir "$stage/wheel" "$root"
wheel=$(ls "$stage"/wheel/*.whl)
$pip --python "$home/bin/python" install --no-compile "$wheel${extras:+[$extras]}"
version=$("$home/bin/python" -c 'import roofline_agent; print(roofline_agent.__version__)')

man=$tree/usr/share/man/man1
install -d "$tree/usr/bin" "$man"
for program in roofline-agent roofline-server roofline-client; do
    "$home/bin/python" "$here/manuals.py" "$program" "$version" "$man"
    ln -s "../../opt/roofline/bin/$program" "$tree/usr/bin/$program"
done
# The environment was made here, and will be elsewhere.
grep -rlI "$home" "$home/bin" "$home/pyvenv.cfg" | xargs sed -i "s|$home|/opt/roofline|g"
find "$home" -name __pycache__ -prune -exec rm -r {} +
find "$home" -path "*roofline_profiler*/direct_url.json" -delete

install -D -m 0644 -t "$tree/lib/systemd/system" "$root"/deploy/systemd/*.service
install -D -m 0644 "$here/roofline.sysusers" "$tree/usr/lib/sysusers.d/roofline.conf"
install -D -m 0644 "$here/roofline.tmpfiles" "$tree/usr/lib/tmpfiles.d/roofline.conf"
doc=$tree/usr/share/doc/roofline
install -d "$doc"
cp -r "$root/deploy/README.md" "$root/deploy/profile.d" "$root/deploy/slurm" "$root/deploy/prometheus" \
    "$root/deploy/grafana" "$doc"
cp "$root/LICENSE" "$doc/copyright"

python=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
install -d "$tree/DEBIAN"
install -m 0755 "$here/postinst" "$here/prerm" "$here/postrm" "$tree/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" -e "s/@PYTHON@/$python/" \
    -e "s/@NEXT_PYTHON@/$next/" -e "s/@SIZE@/$(du -sk "$tree" | cut -f1)/" "$here/control.in" >"$tree/DEBIAN/control"
chmod -R go-w,a+rX "$tree"
mkdir -p "$out"
dpkg-deb --root-owner-group -Zzstd -z6 --build "$tree" "$out"
