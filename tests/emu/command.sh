#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ptx-emu from the outside: answers, reports, exit statuses, forms, coverage.
cd "$(dirname "$0")/ptx" || exit 1
build=${BUILD:-build}
case $build in /*) ;; *) build=../../../$build ;; esac
emu=$build/ptx-emu
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# expect STATUS PATTERN ARGUMENT...: exit status, and a line of the output that matches
expect() {
    status=$1 pattern=$2
    shift 2
    "$emu" "$@" >"$tmp/out" 2>&1
    got=$?
    if [ "$got" -eq "$status" ] && grep -Eq -- "$pattern" "$tmp/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED ptx-emu $*: status $got, expected $status and '$pattern'; it said:"
        head -5 "$tmp/out"
    fi
}

run="axpy.ptx --grid 2 --block 4 --arg u32:6 --arg f32:2 --arg f32[6]=iota --arg f32[6]=0.5"
expect 0 '^argument 3: 0.5 2.5 4.5 6.5 8.5 10.5$' $run --print 3
expect 0 '^argument 3: 0.5 2.5$' $run --print 3:2 --part sm_100a
expect 0 '^warp instructions: [1-9]' $run --stats
expect 0 '^warp instructions: [1-9]' $run --stats --lenient shipped,race
expect 2 "there is no check 'foo'" $run --lenient race,foo
expect 0 '^5 of 5 seeds clean$' $run --seeds 5 --policy starve
expect 0 '^axpy: 18 of 18 instructions executed, 1 of 1 executed branches went both ways$' $run --coverage -
expect 0 'axpy.ptx:14: never taken: bra$' axpy.ptx --block 4 --arg u32:4 --arg f32:2 --arg 'f32[4]' --arg 'f32[4]' --coverage -
expect 0 '^fma.rn.f32$' $run --forms -
expect 0 '^fma .*PTX ISA: fma' ops
expect 0 '^usage' --help
# What is no number is not read as one.
expect 2 "'x' is no number" $run --seeds x
expect 2 "'' is no number" $run --grid 1,
expect 2 "at most three numbers" $run --grid 1,1,1,1
expect 2 "'-1' is no number" $run --block -1
expect 2 "'4294967296' is too large" $run --smem 4294967296
expect 2 "'x' is no number" $run --print 3:x
expect 2 'TYPE.COUNT. or TYPE' axpy.ptx --arg u32:4 --arg f32:2 --arg 'f32[4' --arg 'f32[4]'
expect 2 "'1.5' is no number" axpy.ptx --arg u32:1.5 --arg f32:2 --arg 'f32[4]' --arg 'f32[4]'
expect 2 "'300' does not fit in u8" axpy.ptx --arg u8:300 --arg f32:2 --arg 'f32[4]' --arg 'f32[4]'
expect 2 "'two' is no number" axpy.ptx --arg u32:1 --arg f32:two --arg 'f32[4]' --arg 'f32[4]'

# CTA n waits for CTA n - 1; one fits at a time. Started by number it always ends, otherwise in few seeds.
chain="chain.ptx --grid 6 --block 32 --arg u32[6] --slots 1"
expect 0 '^20 of 20 seeds clean$' $chain --in-order --seeds 20
expect 1 '^[01] of 3 seeds clean$' $chain --max-steps 100000 --seeds 3

# Wrong programs and command lines.
expect 1 'outside every allocation' axpy.ptx --block 8 --arg u32:8 --arg f32:2 --arg 'f32[8]' --arg 'f32[4]'
expect 1 'launch is refused' $run --smem 999999
expect 2 '4 parameters, 1 --arg' axpy.ptx --arg u32:1
expect 2 'is 4 bytes|has 8 bytes' axpy.ptx --arg u64:6 --arg f32:2 --arg 'f32[6]' --arg 'f32[6]'
expect 2 'no kernel named like' $run --kernel gemm
expect 2 'is no option' $run --frobnicate
expect 2 "no check 'speed'" $run --lenient speed
expect 2 "part 'sm_7' is not known" $run --part sm_7
expect 2 'cannot be read' /nonexistent.ptx
printf '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nfrob.s32 1;\n}\n' >"$tmp/bad.ptx"
expect 2 'frob' "$tmp/bad.ptx"

# The difference of two lists.
"$emu" $run --forms "$tmp/a" >/dev/null
grep -v '^fma' "$tmp/a" >"$tmp/b"
expect 0 '^fma.rn.f32$' forms "$tmp/a" --minus "$tmp/b"
"$emu" forms "$tmp/b" --minus "$tmp/a" >"$tmp/none" && [ ! -s "$tmp/none" ] && passed=$((passed + 1)) || failed=$((failed + 1))

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
