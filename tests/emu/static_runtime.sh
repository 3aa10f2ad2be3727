#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs with the static runtime in them, run with the emulator preloaded: one in C that has the
# names, and, where nvcc can link one, a real one.
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
here=$(dirname "$0")
lib=$build/libcuda-emu.so
skip() {
    echo "skipped: $1"
    skipped=$((skipped + 1))
}
passed=0 failed=0 skipped=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# expect NAME PROGRAM: exit status 0 with the emulator preloaded
expect() {
    if LD_PRELOAD=$lib "$2" >"$tmp/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1:"
        head -5 "$tmp/out"
    fi
}

if [ "$(uname -m)" != x86_64 ]; then
    skip "calls are redirected on x86-64 only"
elif nm -D "$lib" 2>/dev/null | grep -q __asan_init; then
    skip "a sanitizer's library cannot be preloaded"
else
    "${CC:-cc}" -O0 -w "$here/static_program.c" -o "$tmp/named" || exit 1
    expect "a program with the runtime's names" "$tmp/named"
    nvcc=${NVCC:-$(command -v nvcc || ls .cuda/nvidia/*/bin/nvcc 2>/dev/null)}
    if [ -z "$nvcc" ]; then
        skip "no nvcc to make a program with the static runtime"
    elif ! "$nvcc" -w -L"$(dirname "$nvcc")/../lib" "$here/static_runtime.cu" -o "$tmp/real" >"$tmp/log" 2>&1; then
        skip "nvcc cannot link the static runtime here: $(tail -1 "$tmp/log")"
    else
        chmod +x "$tmp/real" # a compiler cache may have forgotten it
        expect "a program of nvcc's" "$tmp/real"
    fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
