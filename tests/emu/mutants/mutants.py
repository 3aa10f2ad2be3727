#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py: does the emulator see a broken kernel? One fault at a time in a kernel's PTX, several
seeds; a mutant is caught when the program that uses it fails (a report, a hang or a wrong number).

    mutants.py --ptx build/src/cuda/gqa_decode_sm100_bf16_d128_g8.ptx [--seeds 5] [--jobs N]
               [--only KIND] [--sample N] [--csv FILE] -- COMMAND...

COMMAND runs the kernel through libcuda-emu.so and fails when anything is wrong. Faults are placed only
on instructions that COMMAND executes. For each mutant a line says whether a check named it ("reported"),
only the numbers were wrong ("wrong"), or nothing was seen ("survived", with its PTX line).
"""
import argparse
import concurrent.futures
import csv
import os
import random
import re
import subprocess
import sys
import tempfile

REG = r"(%\w+|\w+)"


def drop(line):
    return "// dropped: " + line


def replace_first(pattern, make):
    def edit(line):
        return re.sub(pattern, make, line, count=1)
    return edit


def wait_passes(line):
    """The predicate of a wait is true at once."""
    m = re.match(r"(\s*)(@!?\S+\s+)?mbarrier\.(?:try|test)_wait\S*\s+([%\w]+)\s*,", line)
    return f"{m[1]}{m[2] or ''}setp.eq.u32 {m[3]}, 0, 0;"


def operand(index, amount):
    """Adds amount to the index-th operand through a scratch register."""
    def edit(line):
        head, _, rest = line.strip().rstrip(";").partition(" ")
        guard = ""
        if head.startswith("@"):
            guard, (head, _, rest) = head + " ", rest.strip().partition(" ")
        parts = [p.strip() for p in re.split(r",(?![^{\[]*[}\]])", rest)]
        parts[index], old = "emumut", parts[index]
        return f"{{ .reg .b32 emumut; add.s32 emumut, {old}, {amount}; {guard}{head} {', '.join(parts)}; }}"
    return edit


def address(amount):
    def edit(line):
        return re.sub(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\w+))?\s*\]",
                      lambda m: f"[{m[1]}+{int(m[2] or '0', 0) + amount}]", line, count=1)
    return edit


# kind, pattern of the instruction, edit
KINDS = [
    ("wait dropped", r"mbarrier\.(try|test)_wait", wait_passes),
    ("wait of the other parity", r"mbarrier\.(try|test)_wait\.parity", operand(2, 1)),
    ("arrival dropped", r"mbarrier\.arrive(?!\.expect_tx)\S*\s", drop),
    ("expected bytes too many", r"mbarrier\.arrive\.expect_tx", operand(2, 16)),
    ("expected bytes too few", r"mbarrier\.arrive\.expect_tx", operand(2, -16)),
    ("barrier count too high", r"mbarrier\.init", operand(1, 1)),
    ("barrier count too low", r"mbarrier\.init", operand(1, -1)),
    ("init fence dropped", r"fence\.mbarrier_init", drop),
    ("proxy fence dropped", r"fence\.proxy\.async", drop),
    ("commit dropped", r"tcgen05\.commit", drop),
    ("tcgen05.fence dropped", r"tcgen05\.fence", drop),
    ("tcgen05.wait dropped", r"tcgen05\.wait", drop),
    ("dealloc dropped", r"tcgen05\.dealloc", drop),
    ("wrong quarter", r"tcgen05\.(ld|st)\.", address(0x200000)),
    ("wrong column", r"tcgen05\.(ld|st)\.", address(8)),
    ("wrong column of D", r"tcgen05\.mma", address(8)),
    ("instruction descriptor M 64", r"tcgen05\.mma", operand(3, -0x4000000)),
    ("instruction descriptor B major", r"tcgen05\.mma", operand(3, 0x10000)),
    ("product dropped", r"tcgen05\.mma", drop),
    ("bar count", r"bar(rier)?\.(cta\.)?(sync|arrive)\s+\S+,\s*\d+;", replace_first(r",\s*(\d+);", lambda m: f", {int(m[1]) + 32};")),
    ("bar dropped", r"bar(rier)?\.(cta\.)?(sync|arrive)\s", drop),
    ("bulk load dropped", r"cp\.async\.bulk(\.tensor)?\S*\.shared::(cta|cluster)\.global", drop),
    ("wgmma fence dropped", r"wgmma\.fence", drop),
    ("wgmma wait dropped", r"wgmma\.wait_group", drop),
    ("cp.async wait dropped", r"cp\.async\.wait_(group|all)", drop),
    ("bulk wait dropped", r"cp\.async\.bulk\.wait_group", drop),
    ("cluster barrier dropped", r"barrier\.cluster\.(arrive|wait)", drop),
    ("grid dependency dropped", r"griddepcontrol\.wait", drop),
]


def sites(lines, dead):
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0].strip()
        if not code or number in dead:
            continue
        for kind, pattern, edit in KINDS:
            if re.search(r"(^|[\s;{])" + pattern, code):
                yield kind, number, edit


def run(command, env, seconds):
    try:
        p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return p.returncode, p.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return "timeout", (e.stdout or b"").decode(errors="replace")


def executed(command, env, folder, seconds):
    """Lines of the kernel that do not run, and the output of the clean program."""
    path = os.path.join(folder, "coverage")
    code, out = run(command, dict(env, EMU_COVERAGE=path, EMU_NAME="ptx"), seconds)
    if code != 0:
        sys.exit(f"the program fails without a fault:\n{out[-2000:]}")
    with open(path) as f:
        return {int(m[1]) for m in re.finditer(r"^ptx:(\d+)(?: \(.*?\))?: not executed", f.read(), re.M)}


def judge(job):
    kind, number, text, args, env, folder = job
    path = os.path.join(folder, f"mutant-{number}-{abs(hash(kind)) % 10**8}.ptx")
    with open(path, "w") as f:
        f.write(text)
    verdict, said = "survived", ""
    for seed in range(1, args.seeds + 1):
        code, out = run(args.command, dict(env, EMU_REPLACE=path, EMU_SEED=str(seed)), args.seconds)
        report = re.search(r"^emu: .*", out, re.M)
        if code != 0 and report:
            verdict, said = "reported", report[0]
            break
        if code == "timeout":
            verdict, said = "hang", "no end"
            break
        if code != 0:
            verdict, said = "wrong", out.strip().splitlines()[-1] if out.strip() else ""
    os.remove(path)
    return kind, number, verdict, seed, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptx", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=0, help="at most this many mutants of a kind")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--least", type=float, default=95, help="per cent that must be caught: reported, or the program's own comparison fails")
    parser.add_argument("--csv")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    args.command = [c for c in args.command if c != "--"]
    env = dict(os.environ)
    with open(args.ptx) as f:
        lines = f.read().split("\n")
    with tempfile.TemporaryDirectory() as folder:
        dead = executed(args.command, env, folder, args.seconds)
        found = [s for s in sites(lines, dead) if args.only in s[0]]
        if args.sample:
            choice = random.Random(1)
            kinds = {k for k, _, _ in found}
            found = [s for k in sorted(kinds) for s in
                     choice.sample([t for t in found if t[0] == k], min(args.sample, sum(t[0] == k for t in found)))]
        jobs = [(k, n, "\n".join(lines[:n - 1] + [edit(lines[n - 1])] + lines[n:]), args, env, folder)
                for k, n, edit in found]
        print(f"{len(jobs)} mutants")
        results = []
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for r in pool.map(judge, jobs):
                results.append(r)
                if r[2] not in ("reported", "hang"):
                    print(f"{r[2]}: {r[0]}, line {r[1]}: {lines[r[1] - 1].strip()[:90]} {r[4][:120]}", flush=True)
    if args.csv:
        with open(args.csv, "w", newline="") as f:
            csv.writer(f).writerows([("kind", "line", "verdict", "seed", "said"), *results])
    named = ("reported", "hang")
    for kind in dict.fromkeys(r[0] for r in results):
        mine = [r for r in results if r[0] == kind]
        print(f"  {kind}: {sum(r[2] in named for r in mine)} reported, {sum(r[2] == 'wrong' for r in mine)} wrong, "
              f"of {len(mine)}")
    reported = sum(r[2] in named for r in results)
    wrong = sum(r[2] == "wrong" for r in results)
    share = 100 * (reported + wrong) / max(1, len(results))
    print(f"{len(results)} mutants: {reported} reported, {wrong} only wrong numbers, "
          f"{len(results) - reported - wrong} survived; {share:.1f} % caught")
    sys.exit(share < args.least or not results)


main()
