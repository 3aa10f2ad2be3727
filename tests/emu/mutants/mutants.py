#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py: does the emulator see a broken kernel? One fault at a time in a kernel's PTX, several
seeds, the scenarios of scenario.c that execute the line.

    scripts/mutants [--seeds 5] [--jobs N] [--sample N] [--only KIND] [--at PLACE] [--csv FILE] [KERNEL...]

KERNEL: sm100_bf16_d128_g8, helpers_sm100 (run with the decode kernel of its generation), ...; default:
the list below. A mutant is "reported" when a check or a hang report names it, "wrong" when only the
numbers are, "survived" when nothing is seen. equivalent.txt lists faults that change nothing that could be
seen, each with its reason: they are counted apart. The command fails when fewer than --least per cent of the
others are reported.
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

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", "build")
KERNELS = ["sm100_bf16_d128_g8", "sm100_e4m3_d128_g8", "sm90_bf16_d128_g8", "sm80_bf16_d128_g8",
           "helpers_sm100"]
# Whole tiles first: there the check of unread operands is on.
SCENARIOS = ["shares", "output", "partial", "cluster", "atomic", "shares-tails", "output-tails", "cluster-paged",
             "atomic-paged", "output-paged", "partial-paged", "partial-csr", "early", "early-paged", "early-idle", "grid", "grid-paged",
             "shares-many"]


# --- Faults ---

def drop(line):
    return "// dropped: " + line


def wait_passes(line):
    """The predicate of a wait is true at once."""
    m = re.match(r"(\s*)(@!?\S+\s+)?mbarrier\.(?:try|test)_wait\S*\s+([%\w]+)\s*,", line)
    return f"{m[1]}{m[2] or ''}setp.eq.u32 {m[3]}, 0, 0;"


def split_operands(line):
    head, _, rest = line.strip().rstrip(";").partition(" ")
    guard = ""
    if "\t" in head:
        head, _, rest = line.strip().rstrip(";").partition("\t")
    if head.startswith("@"):
        guard, (head, _, rest) = head + " ", re.sub(r"\s+", " ", rest.strip()).partition(" ")
    return guard, head, [p.strip() for p in re.split(r",(?![^{\[]*[}\]])", rest)]


def operand(index, amount, bits=32):
    """Adds amount to the index-th operand through a scratch register."""
    def edit(line):
        guard, head, parts = split_operands(line)
        parts[index], old = "emumut", parts[index]
        return (f"{{ .reg .b{bits} emumut; add.s{bits} emumut, {old}, {amount}; "
                f"{guard}{head} {', '.join(parts)}; }}")
    return edit


def address(amount):
    def edit(line):
        return re.sub(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\w+))?\s*\]",
                      lambda m: f"[{m[1]}+{int(m[2] or '0', 0) + amount}]", line, count=1)
    return edit


def replace_last_number(amount):
    def edit(line):
        return re.sub(r",\s*(\d+);", lambda m: f", {int(m[1]) + amount};", line, count=1)
    return edit


def leave(line):
    guard, _, _ = split_operands(line)
    return f"{guard}exit; // early exit: {line}"


BAR = r"bar(rier)?\.(cta\.)?"
# kind, pattern of the instruction, edit; "@place" at the end of a pattern: only in code of places that match
KINDS = [
    ("wait dropped", r"mbarrier\.(try|test)_wait", wait_passes),
    ("wait of the other parity", r"mbarrier\.(try|test)_wait\.parity", operand(2, 1)),
    ("arrival dropped", r"mbarrier\.arrive(?!\.expect_tx)\S*\s", drop),
    ("early exit", r"mbarrier\.arrive(?!\.expect_tx)\S*\s", leave),
    ("expected bytes too many", r"mbarrier\.arrive\.expect_tx", operand(2, 16)),
    ("expected bytes too few", r"mbarrier\.arrive\.expect_tx", operand(2, -16)),
    ("expectation dropped", r"mbarrier\.arrive\.expect_tx", drop),
    ("barrier count too high", r"mbarrier\.init", operand(1, 1)),
    ("barrier count too low", r"mbarrier\.init", operand(1, -1)),
    ("barrier not initialised", r"mbarrier\.init", drop),
    ("ring modulus", r"setp\.(eq|ne)\.[su]32\s+%p\d+,\s*%r\d+,\s*([2-9]|\d\d);@pipe.cuh|decode_sm100.cuh:pipe_next", replace_last_number(1)),
    ("warp barrier dropped", r"bar\.warp\.sync", drop),
    ("init fence dropped", r"fence\.mbarrier_init", drop),
    ("proxy fence dropped", r"fence\.proxy\.async", drop),
    ("commit dropped", r"tcgen05\.commit", drop),
    ("tcgen05.fence dropped", r"tcgen05\.fence", drop),
    ("tcgen05.wait dropped", r"tcgen05\.wait", drop),
    ("alloc of half the columns", r"tcgen05\.alloc", operand(1, -32)),
    ("dealloc dropped", r"tcgen05\.dealloc", drop),
    ("wrong quarter", r"tcgen05\.(ld|st)\.", address(0x200000)),
    ("wrong column", r"tcgen05\.(ld|st)\.", address(8)),
    ("wrong column of D", r"tcgen05\.mma", address(8)),
    ("instruction descriptor M 64", r"tcgen05\.mma", operand(3, -0x4000000)),
    ("instruction descriptor B major", r"tcgen05\.mma", operand(3, 0x10000)),
    ("operand descriptor address", r"tcgen05\.mma", operand(1, 2, 64)),
    ("operand descriptor stride", r"tcgen05\.mma", operand(1, 1 << 35, 64)),
    ("operand descriptor swizzle", r"tcgen05\.mma", operand(1, 1 << 62, 64)),
    ("product dropped", r"tcgen05\.mma", drop),
    ("tensor store dropped", r"tcgen05\.st\.", drop),
    ("bar count", BAR + r"(sync|arrive)(\.aligned)?\s+\S+,\s*\S+;", operand(1, 32)),
    ("bar dropped", BAR + r"(sync|arrive)(\.aligned)?\s", drop),
    ("bulk load dropped", r"cp\.async\.bulk(\.tensor)?\S*\.shared::(cta|cluster)\.global", drop),
    ("remote store dropped", r"st\.async", drop),
    ("bulk reduction dropped", r"cp\.reduce\.async\.bulk", drop),
    ("cp.async wait dropped", r"cp\.async\.wait_(group|all)", drop),
    ("bulk wait dropped", r"cp\.async\.bulk\.wait_group", drop),
    ("cluster barrier dropped", r"barrier\.cluster\.(arrive|wait)", drop),
    ("grid dependency dropped", r"griddepcontrol\.wait", drop),
]


# --- Where a line comes from ---

def readable(mangled):
    """The last name of a mangled one."""
    rest, name = re.sub(r"^_ZN?", "", mangled), mangled
    while m := re.match(r"(\d+)", rest):
        name, rest = rest[m.end():m.end() + int(m[1])], rest[m.end() + int(m[1]):]
    return name


def function_names(text):
    """Label of an .info_string -> a readable name."""
    names = {}
    for m in re.finditer(r"^\$L__(info_string\d+):\n((?:\.b8 [\d,]+\n)+)", text, re.M):
        raw = bytes(int(x) for x in re.findall(r"\d+", m[2].replace(".b8", ""))).rstrip(b"\0").decode(errors="replace")
        names["$L__" + m[1]] = readable(raw)
    return names


class Places:
    """Of each line of a PTX file: "file:function < file:function ...", innermost first."""
    def __init__(self, text):
        self.files = {int(m[1]): os.path.basename(m[2]) for m in re.finditer(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)}
        names, callers, self.of = function_names(text), {}, []
        now = ""
        for line in text.split("\n"):
            m = re.match(r"\s*\.loc\s+(\d+) (\d+) (\d+)(?:, function_name (\S+), inlined_at (\d+ \d+ \d+))?", line)
            if m:
                where = f"{self.files.get(int(m[1]), '?')}:{names.get((m[4] or '').rstrip(','), 'kernel')}"
                now = where + (" < " + callers.get(m[5], "?") if m[5] else "")
                callers[f"{m[1]} {m[2]} {m[3]}"] = now
            self.of.append(now)

    def at(self, number):
        return self.of[number - 1]


def sites(lines, places, live):
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0].strip()
        if not code or number not in live:
            continue
        for kind, pattern, edit in KINDS:
            pattern, _, place = pattern.partition("@")
            if re.search(r"(^|[\s;{])" + pattern, code) and re.match(place, places.at(number)):
                yield kind, number, edit


# --- Running ---

def run(kernel, scenario, seeds, env, seconds):
    command = [f"{BUILD}/emu-scenario", "--seeds", seeds, "gqa_decode_" + kernel, scenario]
    try:
        p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return p.returncode, p.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return "timeout", (e.stdout or b"").decode(errors="replace")


def lines_of(lines, entry):
    """Numbers of the lines of an entry."""
    at = [n for n, line in enumerate(lines, 1) if ".entry" in line] + [len(lines) + 1]
    start = next(n for n in at if re.search(rf"\.entry {entry}\b", lines[n - 1]))
    return set(range(start, at[at.index(start) + 1]))


def executed(kernel, scenario, entry, env, folder, seconds, lines):
    """Lines of the module that run; empty when the kernel cannot do the scenario."""
    path = os.path.join(folder, "coverage")
    if os.path.exists(path):
        os.remove(path)
    code, out = run(kernel, scenario, "1", dict(env, EMU_COVERAGE=path, EMU_NAME="ptx"), seconds)
    if code == 3:
        return set()
    if code != 0:
        sys.exit(f"{kernel}, {scenario} fails without a fault:\n{out[-2000:]}")
    live, dead = set(), set()
    with open(path) as f:
        for line in f:
            m = re.match(r"ptx:(\d+)(?: \(.*?\))?: not executed", line)
            if m:
                dead.add(int(m[1]))
            elif re.match(r"\w+: \d+ of", line):
                if line.startswith(entry):
                    live |= lines - dead
                dead = set()
    return live


def judge(job):
    """The verdict on a mutant; on a barrier that no use needs, "unused"."""
    kernel, kind, number, text, scenarios, args, env, folder, gone = job
    result = try_all(kernel, kind, number, text, scenarios, args, env, folder)
    if gone and result[3] == "survived" and try_all(kernel, kind, number, gone, scenarios, args, env, folder)[3] == "survived":
        return (*result[:3], "unused", "")
    return result


def try_all(kernel, kind, number, text, scenarios, args, env, folder):
    path = os.path.join(folder, f"mutant-{number}-{abs(hash((kernel, kind))) % 10**8}.ptx")
    with open(path, "w") as f:
        f.write(text)
    verdict, said = "survived", ""
    for scenario in scenarios:
        code, out = run(kernel, scenario, f"1..{args.seeds}", dict(env, EMU_REPLACE=path), args.seconds)
        report = re.search(r"^emu: .*", out, re.M)
        if code == "timeout" or (code != 0 and report):
            verdict, said = "reported", f"{scenario}: {report[0] if report else 'no end'}"
            break
        if code != 0:
            verdict, said = "wrong", f"{scenario}: {out.strip().splitlines()[0] if out.strip() else code}"
    os.remove(path)
    return kernel, kind, number, verdict, said


def equivalents():
    out = []
    with open(os.path.join(HERE, "equivalent.txt")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                kernel, kind, place, why = [x.strip() for x in line.split(" | ")]
                out.append((re.compile(kernel), re.compile(kind), re.compile(place), why))
    return out


class Kernel:
    def __init__(self, name, args, env, folder):
        self.name = name
        module = name if name.startswith("helpers") else "decode_" + name
        self.run_as = f"{name.split('_')[1]}_bf16_d128_g8" if name.startswith("helpers") else name
        with open(f"{BUILD}/src/cuda/gqa_{module}.ptx") as f:
            self.text = f.read()
        self.lines = self.text.split("\n")
        self.places = Places(self.text)
        entry = "gqa_combine" if name.startswith("helpers") else "gqa_decode_" + name
        own = lines_of(self.lines, entry)
        self.live = {s: executed(self.run_as, s, entry, env, folder, args.seconds, own)
                     for s in SCENARIOS}

    def jobs(self, args, env, folder):
        found = [s for s in sites(self.lines, self.places, set().union(*self.live.values()))
                 if args.only in s[0] and args.at in self.places.at(s[1])]
        if args.sample:
            choice = random.Random(1)
            found = [s for kind in dict.fromkeys(f[0] for f in found) for s in
                     choice.sample([t for t in found if t[0] == kind],
                                   min(args.sample, sum(t[0] == kind for t in found)))]
        for kind, n, edit in found:
            text = "\n".join(self.lines[:n - 1] + [edit(self.lines[n - 1])] + self.lines[n:])
            gone = None
            if kind.startswith("barrier "):  # what every use of it would stumble over
                gone = "\n".join(self.lines[:n - 1] + [drop(self.lines[n - 1])] + self.lines[n:])
            yield (self.run_as, kind, n, text, [s for s in SCENARIOS if n in self.live[s]], args, env, folder, gone)


# --- What came of it ---

def show(kernel, result, excuses):
    _, kind, number, verdict, said = result
    place = kernel.places.at(number)
    why = next((w for k, d, p, w in excuses if k.fullmatch(kernel.name) and d.fullmatch(kind) and p.search(place)), None)
    if verdict == "unused":
        why = "without its initialisation nothing is reported either: nothing uses this barrier"
    if verdict != "reported" and why:
        verdict = "equivalent"
    if verdict != "reported":
        print(f"{verdict}: {kernel.name}, {kind}, line {number}, {place}: {kernel.lines[number - 1].strip()[:70]} "
              f"{why or said[:100]}", flush=True)
    return kernel.name, kind, number, verdict, place, said


def summary(rows, least):
    for kind in dict.fromkeys(r[1] for r in rows):
        mine = [r[3] for r in rows if r[1] == kind]
        print(f"  {kind}: " + ", ".join(f"{mine.count(v)} {v}" for v in dict.fromkeys(mine)))
    count = {v: sum(r[3] == v for r in rows) for v in ("reported", "wrong", "survived", "equivalent")}
    judged = len(rows) - count["equivalent"]
    share = 100 * count["reported"] / max(1, judged)
    print(f"{len(rows)} mutants, {count['equivalent']} of them equivalent; of the other {judged}: {count['reported']} "
          f"reported ({share:.1f} %), {count['wrong']} only wrong numbers, {count['survived']} survived")
    return judged > 0 and share >= least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--at", default="", help="places (file:function < ...) that contain this")
    parser.add_argument("--sample", type=int, default=6, help="at most this many mutants of a kind and kernel; 0: all")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--least", type=float, default=95, help="per cent that must be reported")
    parser.add_argument("--csv")
    parser.add_argument("kernels", nargs="*", default=KERNELS)
    args = parser.parse_args()
    env = dict(os.environ, GQA_CUDA_EMU=f"{BUILD}/libcuda-emu.so", EMU_MAX_STEPS="3000000")
    rows, excuses = [], equivalents()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name in args.kernels or KERNELS:
            kernel = Kernel(name, args, env, folder)
            jobs = list(kernel.jobs(args, env, folder))
            print(f"{name}: {len(jobs)} mutants", flush=True)
            rows += [show(kernel, r, excuses) for r in pool.map(judge, jobs)]
    if args.csv:
        with open(args.csv, "w", newline="") as f:
            csv.writer(f).writerows([("kernel", "kind", "line", "verdict", "place", "said"), *rows])
    sys.exit(not summary(rows, args.least))


main()
