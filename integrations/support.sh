#!/usr/bin/env bash
# Shared by the run scripts of the programs, which source it. Sources and builds go into
# build-integrations. A source that is there is not fetched again.

# shellcheck disable=SC2034  # for those who source this
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$tree/build-integrations

# skip REASON: ends the script in the way that says that it could not be run here.
skip() {
    echo "skipped: $*" >&2
    exit 77
}

# fetch PACKAGE FOLDER: upstream's part of Debian's source package, checked by apt-get, as a file in
# FOLDER. Only this call knows Debian's sources: the system's configuration stays as it is. The
# archive comes before those of updates: their index may name files that only the archive keeps.
# Errors of apt-get go to the standard error output.
fetch() (
    apt=$(mktemp -d)
    trap 'rm -rf "$apt"' EXIT
    apt-get indextargets --format "deb-src \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
        'Created-By: Packages' 'Origin: Debian' | LC_ALL=C sort -u -k3,3 -k2,2 >"$apt/sources.list"
    [ -s "$apt/sources.list" ] || { echo "apt-get knows no packages of Debian: apt-get update" >&2; exit 1; }
    sources=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
    mkdir -p "$apt/lists/partial"
    cd "$2" || exit
    { apt-get "${sources[@]}" update && apt-get "${sources[@]}" source --download-only --tar-only "$1"; } \
        >"$apt/said" 2>&1 || { grep '^[EW]:' "$apt/said" >&2; exit 1; }
)

# fetched PACKAGE: the file that has been fetched, the newest version of it; nothing if there is none.
fetched() { find "$work/sources" -name "$1_*.orig.tar.*z*" | sort -V | tail -n 1; }

# unpack_source PACKAGE FOLDER: makes FOLDER anew, with upstream's part of Debian's source package, and
# says its version. Skips where it cannot be had.
unpack_source() {
    local package=$1 folder=$2 archive
    mkdir -p "$work/sources"
    archive=$(fetched "$package")
    if [ -z "$archive" ]; then
        fetch "$package" "$work/sources" || skip "the source package of $package cannot be had from Debian"
        archive=$(fetched "$package")
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    tar -xf "$archive" -C "$folder" --strip-components=1
    archive=${archive##*/}
    echo "${archive%.orig.tar.*}"
}

# install_tvec: libtvec-c, optimized and static, into $work/tvec.
# Lines of source are kept (-g), so that instructions can be counted by the file that they come from.
install_tvec() {
    BUILD_DIR=$work/tvec-build "$tree/scripts/build/install" --prefix "$work/tvec" --libdir lib \
        -Ddefault_library=static -Ddebug=true -During=disabled >/dev/null
}

# tvec_flags [OPTION...]: what the C compiler needs to use it; OPTION --cflags, to compile, or --libs, to
# link (default: both).
tvec_flags() {
    [ $# -gt 0 ] || set -- --cflags --libs
    PKG_CONFIG_PATH=$work/tvec/lib/pkgconfig pkg-config --static "$@" tvec-c
}
