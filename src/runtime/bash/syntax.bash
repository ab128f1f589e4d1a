# Whether code is complete. Bash can parse without running only by defining a function; code with an unmatched `}` gets
# out of that, so it happens in a subshell in which nothing can be done: no command, no file, no time.

__repltool_is_complete() { # CODE
  __repltool_parse "$1"
  [[ ${__repltool[syntax]} == complete ]]
}

__repltool_parse() { # CODE: leaves `complete`, `incomplete` or `invalid`, and bash's message
  builtin local __r_text
  __repltool[syntax]=complete __repltool[message]=
  __repltool[wrapped]=$'function __repltool_defined { :\n'$1$'\n}'
  __r_text=$(__repltool_define 2>&1 0<&240)
  [[ $__r_text != $'\n0 defined' ]] || builtin return
  # Without the brace of ours what is unfinished is told as such.
  __repltool[wrapped]=${__repltool[wrapped]%$'\n}'}
  __r_text=$(__repltool_define 2>&1 0<&240)
  __repltool[syntax]=invalid
  [[ $__r_text != *'unexpected '@('end of file'|EOF)* || $__r_text == *' defined' ]] || __repltool[syntax]=incomplete
  while [[ $__r_text == *': warning: '*$'\n'* ]]; do
    __r_text=${__r_text#*$'\n'}
  done
  __r_text=${__r_text%%$'\n'*} __r_text=${__r_text#*: eval: }
  __repltool[message]=${__r_text:-"syntax error near unexpected token \`}'"}
}

__repltool_define() {
  builtin ulimit -S -t 1
  PATH=/nonexistent
  builtin set -r
  builtin enable -n : . '[' alias bg bind break caller cd command compgen complete compopt continue dirs disown echo \
    enable exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd pushd pwd \
    read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask \
    unalias unset wait
  builtin eval "${__repltool[wrapped]:LINENO=0,0}"
  builtin printf '\n%s ' "$?"
  builtin declare -F __repltool_defined >&240 && builtin printf defined
}

__repltool_find_syntax_error() { # VARIABLE CODE: an exception, if the code that has failed cannot be parsed
  builtin local LC_ALL=C __r_message
  builtin trap '' INT
  __repltool_is_complete "$2"
  builtin trap __repltool_note_interrupt INT
  [[ ${__repltool[syntax]} != complete ]] || builtin return
  __repltool_quote __r_message "${__repltool[message]:0:4096}"
  builtin printf -v "$1" %s "{\"name\":\"SyntaxError\",\"message\":$__r_message,\"traceback\":[$__r_message]}"
}
