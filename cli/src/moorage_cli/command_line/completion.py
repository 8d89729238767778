"""`moorage completion`: scripts that complete commands, options and model names; pure."""

from collections.abc import Mapping

from moorage_cli.command_line.arguments import COMMANDS, Command

__all__ = ["script"]

_BASH = """\
_moorage() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=""
    case $before in
{values}\
    esac
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    if [[ $COMP_CWORD -eq 1 ]]; then
        words="{commands}"
    else
        case ${{COMP_WORDS[1]}} in
{options}\
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case ${{COMP_WORDS[1]}} in
        run|deploy|infer|lint|convert)
            [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- "$word")) ;;
    esac
}}
complete -F _moorage moorage
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_NAMES: Mapping[tuple[str, ...], str] = {
    ("name",): "$(moorage status -o name 2>/dev/null)",
    ("runtime",): "$(moorage runtimes -o name 2>/dev/null)",
}


def script(shell: str) -> str:
    """The script for bash, or for zsh, which runs the bash script."""
    values = "".join(
        f'        {names}) words="{words}" ;;\n' for names, words in sorted(_values().items())
    )
    options = "".join(
        f'            {command.name}) words="{_words(command)}" ;;\n' for command in COMMANDS
    )
    commands = " ".join(command.name for command in COMMANDS)
    text = _BASH.format(values=values, options=options, commands=commands)
    return f"{_ZSH}{text}" if shell == "zsh" else text


def _values() -> dict[str, str]:
    """The values of each option, by its names as a pattern of `case`.

    `-o` has different values in each command; all of them are offered.
    """
    found: dict[str, list[str]] = {}
    for command in COMMANDS:
        for argument in command.arguments:
            choices = argument.options.get("choices", ()) if argument.is_option else ()
            known = found.setdefault("|".join(argument.names), []) if choices else []
            known += [choice for choice in choices if choice not in known]
    return {names: " ".join(words) for names, words in found.items()}


def _words(command: Command) -> str:
    words = [name for each in command.arguments if each.is_option for name in each.names]
    for argument in command.arguments:
        if argument.names in _NAMES:
            words.append(_NAMES[argument.names])
        elif not argument.is_option:
            words += argument.options.get("choices", ())
    return " ".join([*words, "--help"])
