"""Commands that only read, with every option that is known to only read. What stands in no table is asked about.

Left out on purpose are the options that write (`sort -o`, `tree -o`), start programs (`sort --compress-program`,
`rg --pre`, `find -exec`), name files inside files (`--files0-from`) or follow links out of a folder (`grep -R`).
"""

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from tugline.rules.names import names

Operands = Literal["none", "text", "names", "content", "pattern"]
"""What the operands are: nothing allowed, plain text, paths looked at by name, paths read, a pattern and then paths."""


class Options(Struct, frozen=True):
    """The harmless options of one command."""

    flags: str = ""
    """Single letters without a value."""
    valued: str = ""
    """Single letters with a value."""
    paths: str = ""
    """Single letters whose value is a path that is read."""
    long: frozenset[str] = frozenset()
    long_optional: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    long_paths: frozenset[str] = frozenset()
    operands: Operands = "none"
    recursive: str = ""
    """Letters (or `*`: always) that make it read whole folders."""
    here: bool = False
    """Without a path it looks at the working directory."""
    numbers: bool = False
    """`-5` is an option."""
    abbreviates: bool = True
    """Long options may be shortened as GNU does."""
    globs: bool = False
    """No option of it does harm, so that a name that begins with a dash may turn up among its operands."""
    most: int = -1
    """The most operands that it takes without writing."""
    patterned: str = ""
    """Letters that give the pattern, so that no operand does."""
    patterned_long: frozenset[str] = frozenset()


def _options(spec: str, **more: object) -> Options:
    """`flags | valued letters | path letters | long | long= | long== | long path==`, blanks around the bars."""
    parts = [part.strip() for part in spec.split("|")] + [""] * 7
    words = [frozenset(part.split()) for part in parts[3:7]]
    fields: dict[str, object] = {
        "flags": parts[0],
        "valued": parts[1],
        "paths": parts[2],
        "long": words[0],
        "long_optional": words[1],
        "long_valued": words[2],
        "long_paths": words[3],
        **more,
    }
    return Options(**fields)  # type: ignore[arg-type]


_GREP = (
    "EFGPiyvwxcLloqsbHhnTZzrIUa | eABCm | f | extended-regexp fixed-strings basic-regexp perl-regexp ignore-case"
    " no-ignore-case invert-match word-regexp line-regexp count files-without-match files-with-matches only-matching"
    " quiet silent no-messages byte-offset with-filename no-filename line-number initial-tab null null-data recursive"
    " text line-buffered no-group-separator | color colour | regexp max-count after-context before-context context"
    " include exclude exclude-dir binary-files label group-separator | file exclude-from"
)
_RG = (
    "isSvwxcloqnNHIau.FPUp0b | egtTABCmdMjEr | f | ignore-case smart-case case-sensitive fixed-strings word-regexp"
    " line-regexp count count-matches files files-with-matches files-without-match only-matching quiet line-number"
    " no-line-number with-filename no-filename heading no-heading column no-column hidden no-hidden no-ignore"
    " no-ignore-vcs no-ignore-parent no-ignore-global no-ignore-dot no-ignore-exclude unrestricted text multiline"
    " multiline-dotall pcre2 null null-data stats json trim vimgrep pretty no-messages no-config passthru invert-match"
    " byte-offset type-list crlf no-require-git one-file-system line-buffered glob-case-insensitive"
    " no-context-separator max-columns-preview include-zero no-unicode | | regexp glob iglob type type-not"
    " after-context before-context context max-count max-depth max-columns max-filesize threads encoding replace sort"
    " sortr color colors context-separator engine path-separator | file ignore-file"
)
_LS = (
    "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 | ITw | | all almost-all author escape ignore-backups directory"
    " dereference dereference-command-line file-type group-directories-first human-readable inode kibibytes literal"
    " no-group numeric-uid-gid quote-name recursive reverse size full-time hide-control-chars show-control-chars si"
    " zero | color classify hyperlink | block-size format indicator-style ignore hide quoting-style sort time"
    " time-style tabsize width"
)
_SUM = "btz | | | binary text tag zero"
_TABLE: dict[str, Options] = {
    "ls": _options(_LS, operands="names", here=True, globs=True),
    "cat": _options(
        "AbeEnstTuv | | | show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        operands="content",
        globs=True,
    ),
    "head": _options(
        "qvz | cn | | quiet silent verbose zero-terminated | | bytes lines",
        operands="content",
        numbers=True,
        globs=True,
    ),
    "tail": _options(
        "qvz | cn | | quiet silent verbose zero-terminated | | bytes lines",
        operands="content",
        numbers=True,
        globs=True,
    ),
    "wc": _options(
        "clmLw | | | bytes chars lines max-line-length words | | total", operands="content", globs=True
    ),
    "tac": _options("br | s | | before regex | | separator", operands="content", globs=True),
    "rev": _options("", operands="content"),
    "nl": _options("p | bdfhilnsvw | | no-renumber | | body-numbering number-format number-width", operands="content"),
    "pwd": _options("LP | | | logical physical"),
    "grep": _options(_GREP, operands="pattern", recursive="r", numbers=True, globs=True, patterned="ef",
                     patterned_long=frozenset(["regexp", "file"])),
    "rg": _options(_RG, operands="pattern", recursive="*", here=True, abbreviates=False, patterned="ef",
                   patterned_long=frozenset(["regexp", "file", "files", "type-list"])),
    "diff": _options(
        "abBcdeEiNpqstTuwyn | UCWIFx | | ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change"
        " ignore-all-space ignore-blank-lines text brief report-identical-files side-by-side minimal expand-tabs"
        " initial-tab strip-trailing-cr show-c-function new-file left-column suppress-common-lines normal ed rcs"
        " | unified context color | width ignore-matching-lines label tabsize",
        operands="content",
    ),
    "cmp": _options("bls | in | | print-bytes verbose quiet silent | | bytes ignore-initial", operands="content"),
    "comm": _options("123iz | | | check-order nocheck-order total zero-terminated | | output-delimiter",
                     operands="content"),
    "stat": _options("Lft | c | | dereference file-system terse | | format printf cached",
                     operands="names", globs=True),
    "file": _options("bhikLNnpr0 | | | brief mime mime-type mime-encoding no-dereference dereference keep-going raw",
                     operands="content"),
    "du": _options(
        "0abchHklLmsSxD | dtB | | null all apparent-size bytes total human-readable si summarize separate-dirs"
        " one-file-system count-links inodes | time | max-depth threshold block-size exclude time-style",
        operands="names",
        here=True,
    ),
    "df": _options("ahHiklmPTv | txB | | all human-readable si inodes local portability print-type total | output"
                   " | type exclude-type block-size", operands="names"),
    "which": _options("as | | | all", operands="text"),
    "type": _options("afpPt", operands="text"),
    "sort": _options(
        "bdfghiMnrRuVcCsmz | ktS | | ignore-leading-blanks dictionary-order ignore-case general-numeric-sort"
        " ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse unique version-sort stable"
        " zero-terminated merge debug | check | key field-separator sort parallel batch-size buffer-size",
        operands="content",
    ),
    "uniq": _options("cdDuiz | fsw | | count repeated unique ignore-case zero-terminated | all-repeated group"
                     " | skip-fields skip-chars check-chars", operands="content", most=1),
    "cut": _options("nsz | bcdf | | complement only-delimited zero-terminated | | bytes characters delimiter fields"
                    " output-delimiter", operands="content"),
    "paste": _options("sz | d | | serial zero-terminated | | delimiters", operands="content"),
    "join": _options("iz | 12tjavoe | | ignore-case check-order nocheck-order header zero-terminated",
                     operands="content"),
    "fold": _options("bs | w | | bytes spaces | | width", operands="content"),
    "expand": _options("i | t | | initial | | tabs", operands="content"),
    "unexpand": _options("a | t | | all first-only | | tabs", operands="content"),
    "column": _options("txne | sco | | table fillrows | | separator output-separator columns", operands="content"),
    "tr": _options("cCdst | | | complement delete squeeze-repeats truncate-set1", operands="text"),
    "basename": _options("az | s | | multiple zero | | suffix", operands="text"),
    "dirname": _options("z | | | zero", operands="text"),
    "realpath": _options("eLmPqsz | | | canonicalize-existing canonicalize-missing logical physical quiet strip"
                         " no-symlinks zero | | | relative-to relative-base", operands="names"),
    "readlink": _options("femnqsvz | | | canonicalize canonicalize-existing canonicalize-missing no-newline quiet"
                         " silent verbose zero", operands="names"),
    "date": _options("uRI | d | | utc universal rfc-email debug resolution | iso-8601 | date rfc-3339",
                     operands="text"),
    "id": _options("agGnruz | | | group groups name real user zero", operands="text"),
    "whoami": _options(""),
    "groups": _options(""),
    "uname": _options("asnrvmpio | | | all kernel-name nodename kernel-release kernel-version machine processor"
                      " hardware-platform operating-system"),
    "hostname": _options("fsIid | | | fqdn long short all-ip-addresses ip-address domain"),
    "arch": _options(""),
    "nproc": _options(" | | | all | | ignore"),
    "uptime": _options("ps | | | pretty since"),
    "free": _options("bkmghtwl | | | bytes kibi mebi gibi kilo mega giga human total wide lohi"),
    "tree": _options(
        "adfxshugpDFqNCnJXrtcUv | LPI | | noreport dirsfirst gitignore prune du si filesfirst matchdirs ignore-case"
        " inodes device | | filelimit charset sort timefmt",
        operands="names",
        here=True,
        abbreviates=False,
    ),
    "true": _options("", operands="text"),
    "false": _options("", operands="text"),
    ":": _options("", operands="text"),
    "seq": _options("w | sf | | equal-width | | separator format", operands="text", numbers=True),
    "sha1sum": _options(_SUM, operands="content"),
    "sha224sum": _options(_SUM, operands="content"),
    "sha256sum": _options(_SUM, operands="content"),
    "sha384sum": _options(_SUM, operands="content"),
    "sha512sum": _options(_SUM, operands="content"),
    "md5sum": _options(_SUM, operands="content"),
    "b2sum": _options(_SUM + " | | length", operands="content"),
    "cksum": _options("", operands="content"),
    "base64": _options("di | w | | decode ignore-garbage | | wrap", operands="content", most=1),
    "od": _options("abcdfilosxv | ANtjwS | | output-duplicates traditional | width | address-radix format read-bytes"
                   " skip-bytes", operands="content"),
    "xxd": _options("upibe | lscg", operands="content", most=1, abbreviates=False),
    "hexdump": _options("Cbcdovx | ns | | canonical", operands="content", abbreviates=False),
    "strings": _options("af | nte | | all print-file-name | | bytes radix encoding", operands="content"),
    "jq": _options(
        "rcnsSeMCja | | | raw-output compact-output null-input slurp sort-keys exit-status monochrome-output"
        " color-output join-output ascii-output tab raw-input seq stream | | indent",
        operands="pattern",
        abbreviates=False,
    ),
    "lscpu": _options("eJ"),
    "tty": _options("s"),
    "locale": _options("a | | | all-locales"),
}  # fmt: skip
_TABLE["egrep"] = _TABLE["fgrep"] = _TABLE["grep"]

VERSIONED = names(
    "python python3 node npm pip pip3 git gcc g++ cc c++ clang clang++ make cmake java javac perl php ruby docker "
    "rg jq curl wget bash sh zsh uv ruff mypy tsc bun deno sqlite3 psql grep sed awk gawk find tar vim rsync tree "
    "diff sort ls cat podman ninja gdb"
)
"""Programs that may be asked for their version: none of them obeys a file of the project for that."""


@lru_cache(maxsize=256)
def options_of(name: str) -> Options | None:
    """The table of a command; `None` where there is none."""
    return _TABLE.get(name)


FIND_PLAIN = names(
    "-print -print0 -ls -prune -quit -depth -d -mount -xdev -empty -true -false -not -and -or -a -o -nouser "
    "-nogroup -readable -writable -executable -daystart -noleaf -nowarn -warn -ignore_readdir_race ( ) ! ,"
)
FIND_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth "
    "-size -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -lname -ilname "
    "-fstype -used -printf"
)
FIND_PATHS = frozenset(["-newer", "-anewer", "-cnewer", "-samefile", "-newermt", "-newerat", "-newerct"])
FIND_RUNS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
FIND_WRITES = FIND_RUNS | frozenset(["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"])

_LOG = (
    "pPuswbRzimcCMtrE | nGSLU | | oneline graph stat shortstat numstat name-only name-status patch no-patch raw"
    " all branches tags remotes decorate no-decorate follow merges no-merges first-parent reverse topo-order"
    " date-order author-date-order abbrev-commit no-abbrev-commit cc summary patch-with-stat compact-summary"
    " ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol no-renames no-color no-ext-diff"
    " no-textconv text full-index binary check cherry-pick cherry-mark left-right left-only right-only boundary"
    " full-history simplify-merges simplify-by-decoration show-pulls ancestry-path no-prefix minimal patience"
    " histogram exit-code quiet cached staged merge-base pickaxe-all pickaxe-regex extended-regexp fixed-strings"
    " perl-regexp regexp-ignore-case invert-grep all-match relative-date no-notes full-diff no-mailmap use-mailmap"
    " root source objects count show-current no-index-version reflog walk-reflogs function-context no-walk"
    " | decorate abbrev color color-words word-diff find-renames find-copies stat dirstat unified relative"
    " ignore-submodules submodule notes color-moved diff-merges"
    " | max-count skip since after until before author committer grep date diff-filter unified diff-algorithm"
    " pretty format inter-hunk-context word-diff-regex glob exclude min-parents max-parents encoding branches tags"
    " remotes anchored src-prefix dst-prefix"
)


def _git(spec: str, operands: Operands = "content", **more: object) -> Options:
    return _options(spec, operands=operands, abbreviates=False, **more)


GIT: dict[str, Options] = {
    "status": _git("sbvuz | | | short branch long verbose show-stash null no-column ahead-behind no-ahead-behind"
                   " renames no-renames | porcelain untracked-files ignored column find-renames ignore-submodules"),
    "log": _git(_LOG, numbers=True),
    "diff": _git(_LOG, numbers=True),
    "show": _git(_LOG, numbers=True),
    "whatchanged": _git(_LOG, numbers=True),
    "shortlog": _git("nsce | | | numbered summary email committer | | group since until format"),
    "reflog": _git(_LOG, numbers=True),
    "rev-list": _git(_LOG, numbers=True),
    "diff-tree": _git("rtpsmczR | | | no-commit-id name-only name-status root patch stat numstat cc | | diff-filter"),
    "branch": _git("arvil | | | all remotes verbose list show-current ignore-case no-color no-column | color column"
                   " abbrev contains no-contains merged no-merged points-at | sort format", "none"),
    "tag": _git("li | | | list ignore-case no-column | column contains no-contains merged no-merged points-at"
                " | sort format", "none"),
    "rev-parse": _git("q | | | show-toplevel git-dir git-common-dir is-inside-work-tree is-inside-git-dir"
                      " is-bare-repository show-prefix show-cdup show-superproject-working-tree absolute-git-dir verify"
                      " quiet symbolic symbolic-full-name all branches tags remotes revs-only no-revs flags no-flags"
                      " is-shallow-repository show-object-format | abbrev-ref short | default"),
    "ls-files": _git("cdmokstzvf | x | | cached deleted modified others ignored stage unmerged killed full-name"
                     " exclude-standard error-unmatch eol deduplicate directory recurse-submodules no-empty-directory"
                     " | abbrev | exclude format"),
    "ls-tree": _git("drtlz | | | long name-only name-status object-only full-name full-tree | abbrev | format"),
    "blame": _git("bcflnpstewCM | L | | root show-stats show-name show-number show-email line-porcelain porcelain"
                  " incremental minimal color-lines color-by-age | abbrev | since date ignore-rev"),
    "describe": _git(" | | | all tags contains always long first-parent exact-match debug | abbrev dirty broken"
                     " | candidates match exclude"),
    "cat-file": _git("tspe"),
    "merge-base": _git("a | | | all octopus independent is-ancestor fork-point"),
    "name-rev": _git(" | | | tags all name-only no-undefined always | | refs exclude"),
    "for-each-ref": _git(" | | | ignore-case | contains merged no-merged points-at | count sort format exclude"),
    "show-ref": _git("dsqh | | | head heads tags branches dereference verify quiet exists | hash abbrev"),
    "check-ignore": _git("qvzn | | | quiet verbose non-matching no-index"),
    "check-attr": _git("az | | | all cached | | source"),
    "count-objects": _git("vH | | | verbose human-readable", "none"),
    "grep": _git("aiIwvhHFEPGlLcnpWqorz | eABCm | f | text ignore-case word-regexp invert-match full-name"
                 " extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches"
                 " name-only files-without-match null only-matching count heading break show-function function-context"
                 " cached no-color and or not all-match quiet untracked exclude-standard no-exclude-standard recursive"
                 " no-recursive | color | max-depth max-count after-context before-context context threads",
                 "pattern", recursive="*", here=True, patterned="e", numbers=True),
    "version": _git(" | | | build-options", "none"),
}  # fmt: skip
"""Sub-commands of git that only read, beside those that need a look at their operands."""
