"""`moorage completion`: scripts that complete commands, options and names; pure.

commands --> what each offers --> **script** of one shell

Names of models and runtimes come from the cluster, by a run of the tool itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from moorage_cli.command_line.arguments import COMMANDS
from moorage_cli.command_line.declared import PATH_METAVARS, Argument, Command

__all__ = [
    "NAMES",
    "SHELLS",
    "options_of",
    "positions_of",
    "script",
    "takes_file",
    "takes_value",
]

# The arguments of the tool that print the names for a positional argument.
NAMES: Mapping[str, str] = {
    "name": "status -o name",
    "names": "status -o name",
    "target": "status -o name",
    "runtime": "runtimes -o name",
}
_HELP = Argument("--help", action="store_true", help="show the help of the command")


def options_of(command: Command) -> list[Argument]:
    """The options of a command, with --help."""
    return [*(each for each in command.arguments if each.is_option), _HELP]


def positions_of(command: Command) -> list[Argument]:
    """The arguments of a command that are not options."""
    return [each for each in command.arguments if not each.is_option]


def takes_value(option: Argument) -> bool:
    """Whether a value follows an option."""
    return "action" not in option.options


def takes_file(argument: Argument) -> bool:
    """Whether the value of an argument is a path."""
    return argument.options.get("metavar") in PATH_METAVARS


def _words(command: Command, names: str) -> str:
    """The options and choices of a command, and the output of a run that prints names."""
    found = [name for each in options_of(command) for name in each.names]
    for each in positions_of(command):
        found += each.options.get("choices", ())
        if each.names[0] in NAMES:
            found.append(names.format(NAMES[each.names[0]]))
    return " ".join(found)


def _values() -> dict[tuple[str, ...], Sequence[str]]:
    """The values of each option.

    `-o` has different values in each command; all of them are offered.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for command in COMMANDS:
        for option in options_of(command):
            for choice in option.options.get("choices", ()):
                known = found.setdefault(option.names, [])
                known += [] if choice in known else [choice]
    return dict(sorted(found.items()))


# What follows an option whose value is a file, and one whose value can be anything.
_A_FILE: tuple[str, ...] = ("FILE",)
_ANYTHING: tuple[str, ...] = ("",)


def _followed() -> dict[tuple[str, ...], list[str]]:
    """What follows options, with the patterns of `COMMAND OPTION` that it follows.

    Most options have the same values in all commands; the pattern of these has no command.
    """
    uses: dict[str, dict[str, tuple[str, ...]]] = {}
    for command in COMMANDS:
        for option in options_of(command):
            choices = tuple(option.options.get("choices", ()))
            value = choices or (_A_FILE if takes_file(option) else _ANYTHING)
            for name in option.names:
                uses.setdefault(name, {})[command.name] = value if takes_value(option) else ()
    found: dict[tuple[str, ...], list[str]] = {}
    for name, values in sorted(uses.items()):
        is_same = len(set(values.values())) == 1
        patterns = {
            f'*" {name}"' if is_same else f'"{command} {name}"': value
            for command, value in values.items()
        }
        for pattern, value in patterns.items():
            if value:
                found.setdefault(value, []).append(pattern)
    return found


def _cases(choices: str, file: str, anything: str) -> str:
    """The cases of what follows an option, for bash and zsh; `choices` is a format."""
    actions = {_A_FILE: file, _ANYTHING: anything}
    return "".join(
        f"        {'|'.join(patterns)})\n"
        f"            {actions.get(value) or choices.format(' '.join(value))} ;;\n"
        for value, patterns in _followed().items()
    )


def _with_files() -> str:
    """The commands with a file as an argument that is not an option."""
    return "|".join(
        command.name
        for command in COMMANDS
        if any(takes_file(each) for each in positions_of(command))
    )


_BASH = """\
_moorage_names() {{
    local i value where=()
    for ((i = 2; i < COMP_CWORD - 1; i++)); do
        value=${{COMP_WORDS[i+1]}}
        [[ $value == "=" ]] && value=${{COMP_WORDS[i+2]}}
        case ${{COMP_WORDS[i]}} in
            -n|--namespace|--kubeconfig|--context)
                where+=("${{COMP_WORDS[i]}}" "${{value/#\\~/$HOME}}") ;;
        esac
    done
    moorage "$@" ${{where[@]+"${{where[@]}}"}} 2>/dev/null
}}
_moorage() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local words="" files="" found
    COMPREPLY=()
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    case "${{COMP_WORDS[1]}} $before" in
{values}\
        *)
            if [[ $COMP_CWORD -eq 1 ]]; then
                words="{commands}"
            else
                case ${{COMP_WORDS[1]}} in
{options}\
                esac
                case ${{COMP_WORDS[1]}} in
                    {files}) files=yes ;;
                esac
            fi ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ -n $files && $word != -* ]]; then
        # bash 3 has no compopt
        compopt -o filenames 2>/dev/null
        while IFS= read -r found; do
            COMPREPLY+=("$found")
        done < <(compgen -f -- "$word")
    fi
}}
complete -F _moorage moorage
"""


def _bash() -> str:
    names = "$(_moorage_names {})"
    options = "".join(
        f'                    {command.name}) words="{_words(command, names)}" ;;\n'
        for command in COMMANDS
    )
    commands = " ".join(command.name for command in COMMANDS)
    values = _cases('words="{}"', "files=yes", "return")
    return _BASH.format(values=values, commands=commands, options=options, files=_with_files())


_ZSH = """\
#compdef moorage
_moorage_names() {{
    local -a where
    local -i i
    for ((i = 3; i < CURRENT - 1; i++)); do
        case ${{words[i]}} in
            -n|--namespace|--kubeconfig|--context)
                where+=(${{words[i]}} ${{words[i+1]/#\\~/$HOME}}) ;;
        esac
    done
    moorage "$@" $where 2>/dev/null
}}
_moorage() {{
    local -a offered
    case "${{words[2]}} ${{words[CURRENT-1]}}" in
{values}\
    esac
    if (( CURRENT == 2 )); then
        offered=(
{commands}\
        )
        _describe command offered
        return
    fi
    case ${{words[2]}} in
{options}\
    esac
    _describe argument offered
    case ${{words[2]}} in
        {files}) [[ $PREFIX == -* ]] || _files ;;
    esac
}}
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
compdef _moorage moorage
"""


def _zsh() -> str:
    commands = "".join(f"            {_described(each.name, each.summary)}\n" for each in COMMANDS)
    options = "".join(_zsh_case(command) for command in COMMANDS)
    values = _cases("compadd -- {}; return", "_files; return", "return")
    return _ZSH.format(values=values, commands=commands, options=options, files=_with_files())


def _zsh_case(command: Command) -> str:
    lines = [
        _described(name, each.options["help"])
        for each in options_of(command)
        for name in each.names
    ]
    for each in positions_of(command):
        lines += each.options.get("choices", ())
        if each.names[0] in NAMES:
            lines.append(f'${{(f)"$(_moorage_names {NAMES[each.names[0]]})"}}')
    body = "".join(f"                {line}\n" for line in lines)
    return f"        {command.name}) offered=(\n{body}            ) ;;\n"


def _described(name: str, text: str) -> str:
    """A word with its description, for `_describe`."""
    return _quoted(f"{name}:{text}", _ZSH_APOSTROPHE)


# How each shell writes an apostrophe between apostrophes.
_ZSH_APOSTROPHE, _FISH_APOSTROPHE, _POWERSHELL_APOSTROPHE = r"'\''", r"\'", "''"


def _quoted(text: str, apostrophe: str) -> str:
    return "'" + text.replace("'", apostrophe) + "'"


def _fish() -> str:
    return "".join(f"{line}\n" for line in _fish_lines())


def _fish_lines() -> Iterator[str]:
    start = "complete -c moorage"
    yield f"{start} -f"
    for command in COMMANDS:
        summary = _quoted(command.summary, _FISH_APOSTROPHE)
        yield f"{start} -n __fish_use_subcommand -a {command.name} -d {summary}"
    for command in COMMANDS:
        seen = f"{start} -n '__fish_seen_subcommand_from {command.name}'"
        for option in options_of(command):
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            text = _quoted(option.options["help"], _FISH_APOSTROPHE)
            yield f"{seen} {names}{_fish_value(option)} -d {text}"
        for position in positions_of(command):
            if position.names[0] in NAMES:
                yield f"{seen} -a '(moorage {NAMES[position.names[0]]} 2>/dev/null)'"
            if position.options.get("choices"):
                yield f"{seen} -a '{' '.join(position.options['choices'])}'"
            if takes_file(position):
                yield f"{seen} -F"


def _fish_value(option: Argument) -> str:
    """The flags of an option with a value: any word, one of several, or a file."""
    if not takes_value(option):
        return ""
    choices = option.options.get("choices")
    if choices:
        return f" -x -a '{' '.join(choices)}'"
    return " -r -F" if takes_file(option) else " -x"


_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName moorage -ScriptBlock {{
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object {{ $_.ToString() }})
    $given = $words.Count
    if ($wordToComplete) {{ $given -= 1 }}
    $values = @{{
{values}\
    }}
    $commands = [ordered]@{{
{commands}\
    }}
    $options = @{{
{options}\
    }}
    $names = @{{
{names}\
    }}
    $before = $words[$given - 1]
    if ($values.ContainsKey($before)) {{
        $offered = $values[$before]
    }} elseif ($given -eq 1) {{
        $offered = $commands.Keys
    }} else {{
        $offered = @($options[$words[1]])
        if ($names.ContainsKey($words[1])) {{
            $offered += @(& moorage @($names[$words[1]]) 2>$null)
        }}
    }}
    $offered | Where-Object {{ $_ -like "$wordToComplete*" }} | ForEach-Object {{
        $text = if ($given -eq 1) {{ $commands[$_] }} else {{ $_ }}
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $text)
    }}
}}
"""


def _powershell() -> str:
    values = "".join(
        f"        '{name}' = {_list(values)}\n"
        for options, values in _values().items()
        for name in options
    )
    commands = "".join(
        f"        '{each.name}' = {_quoted(each.summary, _POWERSHELL_APOSTROPHE)}\n"
        for each in COMMANDS
    )
    options = "".join(
        f"        '{each.name}' = {_list(_words(each, '').split())}\n" for each in COMMANDS
    )
    names = "".join(
        f"        '{command.name}' = {_list(NAMES[each.names[0]].split())}\n"
        for command in COMMANDS
        for each in positions_of(command)
        if each.names[0] in NAMES
    )
    return _POWERSHELL.format(values=values, commands=commands, options=options, names=names)


def _list(words: Sequence[str]) -> str:
    return f"@({', '.join(_quoted(word, _POWERSHELL_APOSTROPHE) for word in words)})"


_SCRIPTS: Mapping[str, Callable[[], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
    "powershell": _powershell,
}
SHELLS = tuple(_SCRIPTS)


def script(shell: str) -> str:
    """The script for a shell, which that shell can run at its start."""
    return _SCRIPTS[shell]()
