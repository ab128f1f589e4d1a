# What lies around the user's code. `report` tells the end of the execution; `put_by` puts the user's settings by, when
# nobody waits any more; `next` waits for the following execution and has the settings brought back by commands that are
# evaluated in one string with the user's code: set -e, set -x or a DEBUG trap that came earlier would see commands of
# the driver.

__repltool_next() {
  exec 0<"$__repltool_home/loop.bash" 1>&240 2>&240
  builtin local __r_lasting
  builtin unset -v PROMPT_COMMAND
  [[ ${PS1@a} == *r* ]] || PS1=${__repltool[PS1]-}
  [[ -z ${__repltool[ack]} ]] || __repltool_forget "${__repltool[ack]}"
  __r_lasting=${__repltool[back]}${__repltool[traps]}${__repltool[builtin]}
  __repltool[line]=1 __repltool[source]= __repltool[status]= __repltool[failed]= __repltool[ran]=
  __repltool[next]=$((__repltool[m] + 1)) __repltool[success]=true __repltool[exception]=null
  __repltool_receive
  [[ -z $__r_lasting${__repltool[flag]} ]] || __repltool_prepare
  __repltool[state]=running __repltool[flag]= __repltool[builtin]=
  [[ ${FUNCNEST@a} == *r* ]] || FUNCNEST=${__repltool[FUNCNEST]-}
  builtin trap - INT
  builtin return "${__repltool[exit]}"
}

__repltool_may_fail() { # CODE: whether it may run under `set -e` or `set -u`
  [[ ${__repltool[flags]} == *[eu]* || $1 == *'set '*-*[eu]* || $1 == *errexit* || $1 == *nounset* ]]
}

# Joins what brings the settings back with the code.
__repltool_prepare() {
  builtin local __r_code __r_back __r_traps
  __r_code=${__repltool[code]} __r_back=${__repltool[back]} __r_traps=${__repltool[traps]}
  if __repltool_may_fail "$__r_code"; then
    # As one command it ends as a whole at an unset variable; else the shell would go on with the next line.
    builtin trap '' INT
    __repltool_is_complete "$__r_code" && __r_code="{ $__r_code"$'\n}'
    builtin trap __repltool_note_interrupt INT
    if [[ $__r_traps != *' ERR'* ]]; then
      __repltool[failing]=yes
      __r_back+=$'\\builtin trap -- \'\\__repltool_failed "$?"\' ERR\n\\builtin set -E\n'
    fi
  fi
  # A status that is not 0 would set off what is meant for failures of the user's code.
  [[ -n $__r_traps || ${__repltool[flags]} == *e* ]] || __r_traps="\\__repltool_exit_code ${__repltool[exit]}"$'\n'
  __r_back="{ $__r_back$__r_traps${__repltool[builtin]}"$'\n} 2>&240\n'
  [[ -z ${__repltool[flag]} ]] || __r_back+=$'\\builtin kill -INT "$$"\n'
  __repltool[source]=${__repltool[code]} __repltool[code]=$__r_back$__r_code
  __r_back=${__r_back//[!$'\n']}
  __repltool[line]=$((1 - ${#__r_back}))
}

__repltool_exit_code() { # STATUS: brings `$?` back
  builtin return "$1"
}

# Runs as ERR trap under set -e: ends the execution as SIGINT would, for the shell could only exit.
__repltool_failed() { # STATUS
  if [[ $- == *e* && $BASHPID == "$$" ]]; then
    __repltool[failed]=$1
    builtin trap -p INT >&246
    builtin trap - INT
    builtin kill -INT "$$"
  fi
}

__repltool_interrupted() { # Whether an execution was thrown away
  [[ ${__repltool[state]} == running ]]
}

__repltool_put_by() { # what can wait until the end has been told
  __repltool_shelter
  __repltool[failing]=
  [[ ${PS1@a} == *r* ]] || __repltool[PS1]=${PS1-} PS1=
  # What lies in the pipe are the traps that the user had.
  builtin read -t 0 -u 245 && __repltool_put_by_traps
  [[ -z ${PROMPT_COMMAND[@]+set} ]] || __repltool_put_by_prompt_command
  PROMPT_COMMAND=$__repltool_cycle
}

__repltool_shelter() {
  __repltool_check_builtins
  # `[[` would take ten times as long.
  builtin test "$SHELLOPTS:$BASHOPTS" = "$__repltool_usual" || __repltool_put_by_options
}

# Tells the end. At a usual one only those settings are put by before that could get in the way.
__repltool_report() {
  [[ ${__repltool[n]@a} == A ]] || __repltool_leave 70
  __repltool[back]= __repltool[flags]= __repltool[traps]= __repltool[state]= __repltool[exit]=0
  [[ $- != *[aekuvxCET]* ]] || __repltool_shelter
  if [[ ${__repltool[status]}${__repltool[ran]} != 00 ]]; then
    __repltool_shelter
    __repltool_explain_failure
    builtin local LC_ALL=C
  fi
  __repltool[done]="{\"t\":\"done\",\"m\":${__repltool[next]},\"n\":${__repltool[n]},\
\"success\":${__repltool[success]},\"result\":null,\"result_text\":null,\"exception\":${__repltool[exception]},\
\"exit_code\":${__repltool[exit]},\"truncated\":false,\"end_ns\":0}"
  builtin printf '%08d%s' "${#__repltool[done]}" "${__repltool[done]}" >&241 || __repltool_leave 76
  __repltool[last]=${__repltool[n]} __repltool[m]=${__repltool[next]} __repltool[code]= __repltool[source]=
  __repltool[kept${__repltool[m]}]=${__repltool[done]}
}

__repltool_explain_failure() {
  builtin local __r_status=${__repltool[status]:-${__repltool[failed]}} __r_exception=null
  # Without descriptors for its redirections the code has not run at all.
  [[ -z ${__repltool[status]} || -n ${__repltool[ran]} ]] || __repltool_leave 70
  if [[ -z $__r_status || -z ${__repltool[status]} && $__r_status == 130 ]]; then
    __r_status=130 __r_exception='{"name":"Interrupted","message":"","traceback":["Interrupted"]}'
  elif [[ $__r_status == 2 || $__r_status == 1 && ${__repltool[code]} == *'=('* ]]; then
    # These are what bash ends with at a syntax error, but not only then.
    __repltool_find_syntax_error __r_exception "${__repltool[source]:-${__repltool[code]}}"
  fi
  [[ $__r_status == 0 ]] || __repltool[success]=false
  __repltool[exit]=$__r_status __repltool[exception]=$__r_exception
}

# What the driver calls must be what it believes it is. For `builtin` and what a usual end takes `end` has seen to that.
__repltool_check_builtins() {
  builtin enable builtin compgen eval exec exit kill read return set shopt source test ulimit unset
  if builtin declare -F exec; then
    builtin trap '' INT
    __repltool_reclaim_builtins
    builtin trap __repltool_note_interrupt INT
  fi
}

# Takes functions `builtin` and `exec` of the user's away meanwhile: in POSIX mode no function hides `unset`.
__repltool_reclaim_builtins() {
  [[ -z ${__repltool[builtin]} && ${__repltool[n]@a} == A ]] || __repltool_leave 70
  __repltool[shopts]=:$BASHOPTS:
  __repltool[defined]=$(POSIXLY_CORRECT=1 && unset -f declare && declare -f builtin; declare -f exec)
  POSIXLY_CORRECT=1
  unset -f builtin exec
  builtin unset -v POSIXLY_CORRECT
  [[ ${__repltool[shopts]} == *:inherit_errexit:* ]] || builtin shopt -u inherit_errexit
  [[ ${__repltool[shopts]} == *:expand_aliases:* ]] || builtin shopt -u expand_aliases
  __repltool[probe]=
  builtin printf -v '__repltool[probe]' sound
  [[ ${__repltool[probe]} == sound ]] && ! builtin declare -F builtin || __repltool_leave 70
  builtin enable declare local printf trap
  __repltool[builtin]=${__repltool[defined]}
}

__repltool_put_by_options() {
  builtin local __r_name __r_back __r_flags # without values: under `set -k` they would not be arguments
  builtin local -a __r_names
  __r_back=${__repltool[back]} __r_flags= __r_names=()
  for __r_name in nocasematch extdebug localvar_inherit; do
    [[ :$BASHOPTS: != *:$__r_name:* ]] || __r_names+=("$__r_name") __r_back+="\\builtin shopt -s $__r_name"$'\n'
  done
  ((!${#__r_names[@]})) || builtin shopt -u "${__r_names[@]}"
  for __r_name in posix vi emacs; do # editing keeps bash from running PROMPT_COMMAND
    if [[ :$SHELLOPTS: == *:$__r_name:* ]]; then
      builtin set +o "$__r_name"
      __r_back+="\\builtin set -o $__r_name"$'\n'
    fi
  done
  for __r_name in a e k u v x C E T; do
    [[ $- != *$__r_name* ]] || __r_flags+=$__r_name
  done
  if [[ -n $__r_flags ]]; then
    builtin set "+$__r_flags"
    [[ -z ${__repltool[failing]} ]] || __r_flags=${__r_flags//E/}
    [[ -z $__r_flags ]] || __r_back+="\\builtin set -$__r_flags"$'\n'
  fi
  __repltool[back]=$__r_back __repltool[flags]+=$__r_flags
}

__repltool_put_by_prompt_command() {
  builtin local REPLY
  [[ ${PROMPT_COMMAND@a} != *r* ]] || __repltool_leave 70
  builtin declare -p PROMPT_COMMAND >&246
  __repltool_take_back
  [[ $REPLY != *=* ]] || __repltool[back]+="PROMPT_COMMAND=${REPLY#*=}"$'\n'
  builtin unset -v PROMPT_COMMAND
}

__repltool_put_by_traps() {
  builtin local REPLY
  __repltool_take_back
  REPLY=${REPLY/"trap -- '\\__repltool_failed \"\$?\"' ERR"$'\n'}
  if [[ -n $REPLY ]]; then
    builtin trap '' INT
    __repltool[traps]=$(__repltool_quote_traps)$'\n'
    builtin trap __repltool_note_interrupt INT
  fi
}

# Writes the commands of REPLY so that no function `trap` of the user's comes between.
__repltool_quote_traps() {
  builtin unset -f trap
  trap() {
    builtin printf '\\builtin trap -- %q %s\n' "$2" "$3"
  }
  builtin eval "$REPLY"
}

# Reads what the driver has written to itself into REPLY.
__repltool_take_back() {
  builtin printf '\0' >&246
  builtin read -r -d '' -u 245
}
