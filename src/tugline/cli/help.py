"""The help texts, kept by hand."""

MAIN = """\
tugline: an agent that works on your files with a language model.

  tugline -p "PROMPT"            answer on stdout; what is piped in is appended to the prompt
  tugline demo                   see it work, without a key
  tugline COMMAND --help         about a command

A prompt that is also the name of a command, or begins with a dash, follows `--`. One that begins with / and the name
of a slash command (/help lists them) is answered without the model.

Answer
  -p, --print                    one prompt without a terminal
      --output-format FORMAT     text (default), json (the result), stream-json (all that happens, line by line)
      --include-partial-messages with stream-json: also the pieces of a reply as they come
      --include-hook-events      with stream-json: also each hook, when it begins and what came of it
      --verbose                  with text: tell on stderr what goes on

Model
      --model MODEL              a model's name, an alias (haiku, sonnet, opus), or provider/name
      --fallback-model MODEL     used when the first one is overloaded
      --effort EFFORT            low, medium, high, xhigh, max
      --max-thinking-tokens N    tokens for thinking; 0 is off
      --max-turns N              at most so many requests for the prompt
      --max-budget-usd USD       stop when the session has cost so much

Permission
      --allowed-tools RULES      need no question, such as: Edit "Bash(npm test)" (also --allowedTools)
      --disallowed-tools RULES   are denied; a bare name is not offered at all (also --disallowedTools)
      --tools TOOLS              the built-in tools there are; "" for none, default for all
      --permission-mode MODE     default, acceptEdits, plan, auto, dontAsk, bypassPermissions
      --dangerously-skip-permissions   the same as --permission-mode bypassPermissions
      --add-dir FOLDER...        further folders to work in; may be repeated
      --trust                    the settings of this folder count in this run, also what they let run

Prompt and settings
      --system-prompt TEXT       in place of our own (also --system-prompt-file FILE)
      --append-system-prompt TEXT  after our own (also --append-system-prompt-file FILE)
      --settings FILE|JSON       further settings, stronger than the settings files
      --setting-sources LIST     which files count: user,project,local; empty for none
      --bare                     no memory files, hooks, MCP servers or skills; no progress on stderr

Session
  -c, --continue                 go on with the session of this project that was used last
  -r, --resume ID|WORDS          go on with that session: an id, or words of its name or first prompt
      --fork-session             with one of these: go on with a copy
      --session-id UUID          the id of the new session
  -n, --name NAME                give the session a name

Looking inside
      --debug                    write all that happens to a log file; show tracebacks
      --record FILE              save the model's replies as a script
      --replay FILE              let a script answer in place of a model
  -v, --version                  print the version
  -h, --help                     print this text

Commands
  demo                           a scripted model mends a small project with real tools
  config show [--origin] [--json]  the settings, and where each comes from
  config context [--json]        the files of instructions: what is loaded, what is left out, and why
  config schema                  the JSON schema of settings files
  doctor [--json]                what works on this machine, what does not, and the remedy
  sessions list|show|search|...  what was said before: list, read, search, export, name, archive, clean up
  trust [FOLDER]                 what of a folder's own settings counts: show it, and approve it
  policy explain 'Bash(git push)'  what the permission rules decide about a call, and why
  policy test FILE               run cases of what must be allowed, asked about, denied
  policy replay SESSION --settings NEW  which past calls other settings would decide differently
  policy check --jsonl           a verdict per row of stdin, for programs
  model-server SCRIPT            a scripted model behind HTTP, for tests of your own
  completion bash|zsh|fish       a completion script for a shell

Keys: ANTHROPIC_API_KEY, OPENAI_API_KEY; addresses: ANTHROPIC_BASE_URL, OPENAI_BASE_URL (with /v1).
Exit codes: 0 done, 1 failed, 2 wrong usage, 75 failed but worth trying again (overload, network),
129 the terminal was closed, 130 interrupted, 141 nobody read the output, 143 ended by SIGTERM.
"""

DEMO = """\
tugline demo [--keep]

A scripted model, reached over real HTTP, finds and mends a mistake in a small project with real tools.
No key is needed and nothing leaves this machine. It works on a copy in a temporary folder.

      --keep                     leave the copy in place
"""

CONFIG = """\
tugline config show [--origin] [--json] [--settings FILE|JSON] [--setting-sources LIST] [--trust]
tugline config context [--json] [--bare] [--settings FILE|JSON] [--setting-sources LIST] [--trust] [--add-dir FOLDER...]
tugline config schema

show: the settings that count here.
      --origin                   also where each comes from
      --json                     as JSON
context: the files of instructions (AGENTS.md, CLAUDE.md, rules): what is loaded at the start of a session, what later,
and what is left out and why.
      --json                     as JSON
schema: the JSON schema of a settings file.
"""

DOCTOR = """\
tugline doctor [--json] [--settings FILE|JSON] [--setting-sources LIST] [--trust]

Looks at folders, settings, providers, programs, the terminal and the sandbox, each for real and within some seconds.
Providers are connected to and asked nothing, so that it costs nothing.

      --json                     as JSON
Exit codes: 0 all that is set up works, 1 something does not.
"""

SESSIONS = """\
tugline sessions list [--all] [--archived] [--limit N] [--json]
tugline sessions show SESSION [--full] [--json] [--record N | --call ID]
tugline sessions search WORDS [--all] [--archived] [--limit N] [--json]
tugline sessions export SESSION [--format markdown|json|html] [-o FILE]
tugline sessions rename SESSION "NAME"
tugline sessions archive SESSION
tugline sessions unarchive SESSION
tugline sessions changes SESSION [--json]
tugline sessions compactions SESSION [--full] [--json]
tugline sessions gc [--older-than AGE] [--larger-than SIZE] [--keep-size SIZE] [--remove] [--all] [--archived]
                    [--dry-run] [--yes]

SESSION is an id, at least four characters of its beginning, a name, or words of the name or of the first prompt.

list: the sessions of this project, the last used first: id, age, size, cost, branch, name, first prompt.
search: where all of the words stand together, in names, prompts and replies; exit code 1 if nowhere.
      --all                      of all projects
      --archived                 those that were put aside; search: those too
      --limit N                  at most so many (list: 50, search: 200); 0: all
      --json                     one JSON object per line
show: what was said, turn by turn; through $PAGER on a terminal.
      --full                     also whole results, thinking, what only the model was told, and what /rewind took out
      --record N                 one record of the transcript, such as #12 of a search
      --call ID                  one call with its whole result, also where the model is not shown it any more
export: as a document, without anything that looks like a key. HTML is one page that loads and runs nothing.
      --format FORMAT            default: as the file's name ends, else markdown
  -o, --output FILE              a new file or a folder; - for stdout. Default: a file named after the session, here
gc: archive what was not used for a time (AGE: 30d, 12h, 6w, 1y) or is large (SIZE: 50MB, 2GB). Never one in use.
      --remove                   delete for good, with all that belongs to it; asks first
      --keep-size SIZE           with --remove: the longest unused ones until the rest takes no more than SIZE
      --archived                 with --remove: archived ones too
      --dry-run                  show what would be done, and do nothing
      --yes                      do not ask
"""

TRUST = """\
tugline trust [FOLDER] [--yes]
tugline trust --diff [FOLDER]
tugline trust --remove [FOLDER]
tugline trust --list

What a folder's own files say could run code or send your keys elsewhere: hooks, servers, variables, allow rules,
addresses, models. None of it counts until you have approved it, item by item as it is now; what changes later does not
count until you approve it again. Shows what there is, and asks; the answer is No unless you say yes.

      --yes                      approve what is shown, for scripts
      --diff                     what is new or has changed since
      --remove                   trust the folder no more
      --list                     the trusted folders
"""

POLICY = """\
tugline policy explain CALL [--json] [flags that are settings]
tugline policy test FILE [flags that are settings]
tugline policy replay SESSION --settings FILE|JSON
tugline policy check --jsonl

Nothing is executed, and nobody is asked.

explain: the steps of the decision in their order, up to the one that decides.
      CALL                       'Bash(git push --force)', Edit '{"file_path": "a.py"}', or {"tool": …, "input": …}
test: cases in YAML or JSON: lists of calls under allow, ask and deny; under match and no-match, rules with lists of
calls. With rules (allow, ask, deny) and mode in the file, these count in place of the settings'. Exit code 1 if a case
does not hold.
replay: the calls of a session (its id, words of its name, or its file), judged by the settings as they are and by NEW.
check: reads rows {"id", "tool", "input", "cwd", "home", "mode", "rules": {"allow": [], "deny": [], "ask": []},
"sandbox"} from stdin and writes {"id", "decision": "allow|ask|deny", "reason"} for each. Reads no settings.

Flags that are settings: --settings, --setting-sources, --trust, --permission-mode, --allowed-tools, --disallowed-tools,
--add-dir.
"""

COMPLETION = """\
tugline completion bash|zsh|fish

Prints a completion script. For example: tugline completion bash > ~/.local/share/bash-completion/completions/tugline
"""
