#!/bin/sh
# A real kube-apiserver from Debian's source of Kubernetes, for tests/cluster/test_kubernetes.py:
#   sh tests/cluster/build_api_server.sh .venv-kubernetes/bin/kube-apiserver
# Takes Debian with golang-go and golang-github-modern-go-reflect2-dev (the tests also etcd-server), minutes of CPU, and 2 GB of disk while it builds.
# Who has kube-apiserver and etcd of envtest puts them on PATH instead.
set -eu
target=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. /etc/os-release
apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" |
    sort -u | while read -r uri; do
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $VERSION_CODENAME main"
done > sources.list
mkdir -p lists/partial
own="-o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$work/lists"
# shellcheck disable=SC2086
apt-get $own -qq update
# shellcheck disable=SC2086
apt-get $own -qq source --download-only kubernetes

source=$work/go/src/k8s.io/kubernetes
mkdir -p "$source"
tar -xzf kubernetes_*.orig.tar.gz -C "$source" --strip-components=1
tar -xJf kubernetes_*.debian.tar.xz -C "$source"
cd "$source"
while read -r patch; do patch -s -p1 < "debian/patches/$patch"; done < debian/patches/series
# The one in that source breaks maps under Go from 1.18 on.
rm vendor/github.com/modern-go/reflect2/*.go
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go /usr/share/gocode/src/github.com/modern-go/reflect2/*.s \
    vendor/github.com/modern-go/reflect2/
export GOPATH="$work/go" GO111MODULE=off GOPROXY=off GOCACHE="$work/cache" CGO_ENABLED=0

# As the project's Makefile: descriptions of all types that say so.
inputs=$(grep -rl --include='*.go' --exclude='*_test.go' '+k8s:openapi-gen=true' staging/src/k8s.io pkg cmd |
    xargs -n1 dirname | sort -u | grep -vE 'testdata|/examples?/|sample-|code-generator' |
    sed -e 's#^staging/src/#vendor/#' -e 's#^#k8s.io/kubernetes/#' | paste -sd, -)
go run ./vendor/k8s.io/kube-openapi/cmd/openapi-gen --logtostderr -i "$inputs" \
    -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"

version=$(sed -n '1s/.*really\([0-9.]*\).*/\1/p' debian/changelog)
flags="-s -w"
for package in component-base/version client-go/pkg/version; do
    of="-X k8s.io/kubernetes/vendor/k8s.io/$package"
    flags="$flags $of.gitMajor=1 $of.gitMinor=$(echo "$version" | cut -d. -f2) $of.gitVersion=v$version"
done
go build -p "${JOBS:-2}" -ldflags "$flags" -o "$target" ./cmd/kube-apiserver
echo "kube-apiserver $version: $target"
