# What lies around the user's code. `after` puts the user's settings by and tells the end of the execution; `next` waits
# for the following one and has the settings brought back by commands that are evaluated in one string with the user's
# code: set -e, set -x or a DEBUG trap that came earlier would see commands of the driver.

__repltool_next() {
  __repltool_receive
  __repltool[line]=1 __repltool[source]=
  if [[ -n ${__repltool[back]}${__repltool[traps]}${__repltool[builtin]}${__repltool[flag]} ]] || __repltool_may_fail "${__repltool[code]}"; then
    __repltool_prepare
  fi
  __repltool[state]=running __repltool[flag]= __repltool[status]= __repltool[failed]= __repltool[ran]=
  builtin unset -v PROMPT_COMMAND
  [[ ${PS1@a} == *r* ]] || PS1=${__repltool[PS1]-}
  [[ ${FUNCNEST@a} == *r* ]] || FUNCNEST=${__repltool[FUNCNEST]-}
  exec 0<"$__repltool_home/loop.bash" 1>&240 2>&240
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
    __repltool_is_complete "$__r_code" && __r_code="{ $__r_code"$'\n}'
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

# Editing commands keeps PROMPT_COMMAND from being run, and with it the cycle.
declare -r __repltool_harmful='posix|vi|emacs|extdebug|nocasematch|localvar_inherit'

__repltool_after() {
  if [[ $- == *[aekuvxCET]* || :$SHELLOPTS:$BASHOPTS: == *:@($__repltool_harmful):* ]]; then
    __repltool_put_by_options
  else
    __repltool[back]= __repltool[flags]=
  fi
  __repltool[failing]=
  __repltool_put_by_variables
  __repltool_put_by_traps
  __repltool[state]=
  __repltool_report
}

__repltool_report() {
  builtin local __r_status __r_exception=null
  __r_status=${__repltool[status]:-${__repltool[failed]}}
  # Without descriptors for its redirections the code has not run at all.
  [[ -z ${__repltool[status]} || -n ${__repltool[ran]} ]] || __repltool_leave 70
  if [[ -z $__r_status || -z ${__repltool[status]} && $__r_status == 130 ]]; then
    __r_status=130 __r_exception='{"name":"Interrupted","message":"","traceback":["Interrupted"]}'
  elif ((__r_status == 2)) || [[ $__r_status == 1 && ${__repltool[code]} == *'=('* ]]; then # as bash ends at a syntax error
    __repltool_find_syntax_error __r_exception "${__repltool[source]:-${__repltool[code]}}"
  fi
  __repltool[exit]=$__r_status __repltool[code]= __repltool[source]=
  ((__r_status)) && __repltool_done false "$__r_exception" "$__r_status" || __repltool_done true null 0
}

# What the driver calls must be what it believes it is. Functions `builtin` and `exec` of the user's are taken away
# meanwhile: in POSIX mode no function hides `unset`.
__repltool_check_builtins() {
  [[ ${__repltool[n]@a} == A ]] || __repltool_leave 70
  __repltool[builtin]=
  __repltool_is_sound && builtin return
  builtin local __r_options __r_option
  __r_options=$BASHOPTS
  __repltool[builtin]=$(POSIXLY_CORRECT=1 && unset -f declare && declare -f builtin; declare -f exec)
  POSIXLY_CORRECT=1
  unset -f builtin exec
  builtin unset -v POSIXLY_CORRECT
  for __r_option in inherit_errexit expand_aliases; do
    [[ :$__r_options: == *:$__r_option:* ]] && builtin shopt -s "$__r_option" || builtin shopt -u "$__r_option"
  done
  __repltool_is_sound || __repltool_leave 70
}

__repltool_is_sound() {
  __repltool[probe]=
  builtin enable builtin compgen declare enable eval exec exit kill local printf read return set shopt source trap \
    ulimit unset
  builtin printf -v '__repltool[probe]' sound
  [[ ${__repltool[probe]} == sound ]] && ! builtin declare -F builtin && ! builtin declare -F exec
}

__repltool_put_by_options() {
  builtin local __r_name __r_back= __r_flags=
  builtin local -a __r_names
  __r_names=()
  for __r_name in nocasematch extdebug localvar_inherit; do
    [[ :$BASHOPTS: != *:$__r_name:* ]] || __r_names+=("$__r_name") __r_back+="\\builtin shopt -s $__r_name"$'\n'
  done
  ((!${#__r_names[@]})) || builtin shopt -u "${__r_names[@]}"
  for __r_name in posix vi emacs; do
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
  __repltool[back]=$__r_back __repltool[flags]=$__r_flags
}

__repltool_put_by_variables() {
  [[ ${PROMPT_COMMAND@a} != *r* ]] || __repltool_leave 70
  [[ ${PS1@a} == *r* ]] || __repltool[PS1]=${PS1-} PS1=
  if [[ -n ${PROMPT_COMMAND[@]+set} ]]; then
    builtin local REPLY
    builtin declare -p PROMPT_COMMAND >&246
    __repltool_take_back
    [[ $REPLY != *=* ]] || __repltool[back]+="PROMPT_COMMAND=${REPLY#*=}"$'\n'
    builtin unset -v PROMPT_COMMAND
  fi
  PROMPT_COMMAND=$__repltool_cycle
}

# What `end` has written: the traps that the user had.
__repltool_put_by_traps() {
  builtin local REPLY
  __repltool_take_back
  REPLY=${REPLY/"trap -- '\\__repltool_failed \"\$?\"' ERR"$'\n'}
  [[ -z $REPLY ]] || REPLY=$(__repltool_quote_traps)$'\n'
  __repltool[traps]=$REPLY
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
