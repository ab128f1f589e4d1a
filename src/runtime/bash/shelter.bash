# What lies around the user's code and is not always needed. `report` tells the end of an execution; `put_by` puts the
# user's settings by, when nobody waits any more; `prepare` has them brought back by commands that are evaluated in one
# string with the user's code: set -e, set -x or a DEBUG trap that came earlier would see commands of the driver.

# What the driver calls must be what it believes it is. For what a usual execution takes the cycle has seen to that.
__repltool_enable() {
  builtin enable compgen exec exit jobs kill set shopt source test ulimit unset
  [[ ${__repltool[failed]@a} == A ]] || __repltool_leave 70
}

__repltool_enter() { # The user's prompt stands again while the loop runs
  __repltool_enable
  exec 0<"$__repltool_home/loop.bash" 1>&240 2>&240
  builtin unset -v PROMPT_COMMAND
  [[ ${PS1@a} == *r* ]] || PS1=${__repltool[PS1]-}
  if [[ $__repltool_state == ended && :$BASHOPTS: == *:expand_aliases:* ]]; then
    builtin shopt -u expand_aliases
    __repltool_aliases=yes
  fi
}

# Whether the code is short and has one loop, and `break` and `continue` are only in that. FUNCNEST may be 1 by now.
__repltool_keeps_to_its_loop() {
  ((${#__repltool_code} < 4096)) || builtin return 1
  builtin local __r_body __r_word='@(break|continue)'
  __r_body=${__repltool_code#*[$' \t\n;']do[$' \t\n']}
  [[ ${__repltool_code%"$__r_body"} != *$__r_word* && $__r_body != *[$' \t\n;']done*[$' \t\n;']done* ]] &&
    [[ ${__r_body##*[$' \t\n;']done} != *$__r_word* ]]
}

# Begins an execution that is not to run in the loop. If one has run, it has left the loop.
__repltool_begin_plainly() {
  if [[ $__repltool_state == taken ]]; then
    __repltool_state=running __repltool_flag= __repltool_builtin=
    builtin trap - INT
  else
    builtin printf 'bash: break: only meaningful in a `for'\'', `while'\'', or `until'\'' loop\n' >&244
    ((0))
  fi
}

# Puts by what would not be as the driver needs it; what stood in the way of telling the end is away already.
__repltool_put_by() {
  __repltool_enable
  if [[ -n $__repltool_aliases ]]; then
    builtin shopt -s expand_aliases
    __repltool_aliases=
  fi
  [[ $SHELLOPTS:$BASHOPTS == $__repltool_usual ]] || __repltool_put_by_options
  [[ -z $__repltool_trapped ]] || __repltool_put_by_traps
}

__repltool_go_round() { # Makes the next prompt begin the cycle again, which tells the end of the execution
  __repltool_state=ended
  __repltool_enable
  [[ $SHELLOPTS:$BASHOPTS == $__repltool_usual ]] || __repltool_put_by_options
  if builtin declare -F exec; then
    builtin trap '' INT
    __repltool_reclaim_builtins
    builtin trap __repltool_note_interrupt INT
  fi
  [[ -z $__repltool_trapped ]] || __repltool_put_by_traps
  [[ ${PS1@a} == *r* ]] || __repltool[PS1]=${PS1-} PS1=
  [[ -z ${PROMPT_COMMAND[@]+set} ]] || __repltool_put_by_prompt_command
  PROMPT_COMMAND=$__repltool_cycle
}

__repltool_may_fail() { # CODE: whether it may run under `set -e` or `set -u`
  [[ $__repltool_flags == *[eu]* || $1 == *'set '*-*[eu]* || $1 == *errexit* || $1 == *nounset* ]]
}

# Joins what brings the settings back with the code.
__repltool_prepare() {
  __repltool_enable
  builtin local __r_code __r_back __r_traps
  __r_code=$__repltool_code __r_back=$__repltool_back __r_traps=$__repltool_traps
  if __repltool_may_fail "$__r_code"; then
    # As one command it ends as a whole at an unset variable; else the shell would go on with the next line.
    builtin trap '' INT
    __repltool_is_complete "$__r_code" && __r_code="{ $__r_code"$'\n}'
    builtin trap __repltool_note_interrupt INT
    if [[ $__r_traps != *' ERR'* ]]; then
      __repltool_failing=yes
      __r_back+=$'\\builtin trap -- \'\\__repltool_failed "$?"\' ERR\n\\builtin set -E\n'
    fi
  fi
  # A status that is not 0 would set off what is meant for failures of the user's code.
  [[ -n $__r_traps || $__repltool_flags == *e* ]] || __r_traps="\\__repltool_exit_code $__repltool_exit"$'\n'
  __r_back="{ $__r_back$__r_traps$__repltool_builtin"$'\n} 2>&240\n'
  [[ -z $__repltool_flag ]] || __r_back+=$'\\builtin kill -INT "$$"\n'
  __repltool[source]=$__repltool_code __repltool_code=$__r_back$__r_code
  __r_back=${__r_back//[!$'\n']}
  __repltool_line=$((1 - ${#__r_back}))
  # Last of all: a limit may be too low for the driver.
  [[ -z $__repltool_funcnest || ${FUNCNEST@a} == *r* ]] || FUNCNEST=$__repltool_funcnest
  __repltool_funcnest=
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
  [[ $__repltool_state == running ]]
}

# Tells the end of an execution that was not a usual one.
__repltool_report() {
  __repltool_enable
  __repltool_exit=0 __repltool[success]=true __repltool[exception]=null
  [[ $SHELLOPTS:$BASHOPTS == $__repltool_usual ]] || __repltool_put_by_options
  [[ $__repltool_status$__repltool_ran == 00 ]] || __repltool_explain_failure
  builtin local LC_ALL=C
  __repltool_done="{\"t\":\"done\",\"m\":$__repltool_next,\"n\":$__repltool_n,\
\"success\":${__repltool[success]},\"result\":null,\"result_text\":null,\"exception\":${__repltool[exception]},\
\"exit_code\":$__repltool_exit,\"truncated\":false,\"end_ns\":0}"
  __repltool_send "$__repltool_done"
  __repltool[failed]=
}

__repltool_explain_failure() {
  builtin local __r_status=${__repltool_status:-${__repltool[failed]}} __r_exception=null
  # Without descriptors for its redirections the code has not run at all.
  [[ -z $__repltool_status || -n $__repltool_ran ]] || __repltool_leave 70
  if [[ -z $__r_status || -z $__repltool_status && $__r_status == 130 ]]; then
    __r_status=130 __r_exception='{"name":"Interrupted","message":"","traceback":["Interrupted"]}'
  elif [[ $__r_status == 2 || $__r_status == 1 && $__repltool_code == *'=('* ]]; then
    # These are what bash ends with at a syntax error, but not only then.
    ((__repltool_line < 1)) || __repltool[source]=$__repltool_code
    __repltool_find_syntax_error __r_exception "${__repltool[source]}"
  fi
  [[ $__r_status == 0 ]] || __repltool[success]=false
  __repltool_exit=$__r_status __repltool[exception]=$__r_exception
}

# Takes functions `builtin` and `exec` of the user's away meanwhile: in POSIX mode no function hides `unset`.
__repltool_reclaim_builtins() {
  [[ -z $__repltool_builtin && ${__repltool[failed]@a} == A ]] || __repltool_leave 70
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
  builtin enable declare enable eval local printf read return trap
  __repltool_enable
  __repltool_builtin=${__repltool[defined]}
}

__repltool_put_by_options() {
  __repltool_enable
  builtin local __r_name __r_back __r_flags # without values: under `set -k` they would not be arguments
  builtin local -a __r_names
  __r_back=$__repltool_back __r_flags= __r_names=()
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
    # What was assigned under `set -a`.
    [[ $__r_flags != *a* ]] || builtin declare -g +x "${!__repltool_@}"
    [[ -z $__repltool_failing ]] || __r_flags=${__r_flags//E/}
    [[ -z $__r_flags ]] || __r_back+="\\builtin set -$__r_flags"$'\n'
  fi
  __repltool_back=$__r_back __repltool_flags+=$__r_flags
}

__repltool_put_by_prompt_command() {
  builtin local REPLY
  [[ ${PROMPT_COMMAND@a} != *r* ]] || __repltool_leave 70
  builtin declare -p PROMPT_COMMAND >&246
  __repltool_take_back
  [[ $REPLY != *=* ]] || __repltool_back+="PROMPT_COMMAND=${REPLY#*=}"$'\n'
  builtin unset -v PROMPT_COMMAND
}

__repltool_put_by_traps() {
  __repltool_enable
  builtin local REPLY
  __repltool_trapped=
  __repltool_take_back
  REPLY=${REPLY/"trap -- '\\__repltool_failed \"\$?\"' ERR"$'\n'}
  if [[ $REPLY == *@(SIGINT|ERR|RETURN|DEBUG)$'\n'* ]]; then
    builtin trap '' INT
    __repltool_traps=$(__repltool_quote_traps)$'\n'
    builtin trap __repltool_note_interrupt INT
  fi
}

# Writes the commands of REPLY so that no function `trap` of the user's comes between.
__repltool_quote_traps() {
  builtin unset -f trap
  trap() {
    [[ $3 != @(SIGINT|ERR|RETURN|DEBUG) ]] || builtin printf '\\builtin trap -- %q %s\n' "$2" "$3"
  }
  builtin eval "$REPLY"
}

# Reads what the driver has written to itself into REPLY.
__repltool_take_back() {
  builtin printf '\0' >&246
  builtin read -r -d '' -u 245
}
