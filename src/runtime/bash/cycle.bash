# The cycle, as the shell runs it at each prompt: at the top level, never inside a function, so that `declare` means
# what it says. What a usual execution needs stands in one loop: bash copies a function whenever it is called and parses
# a string whenever it evaluates it, but what is in a loop it only runs. What is rare is in functions.
#
# A `break` or `continue` of the user's that is in no loop would be one of this loop. So code with such a word, unless
# it plainly stands in a loop of the code, runs after the loop, which ends with the execution as taken; the next prompt
# begins it again. Where the word was hidden, in a file that is sourced or a trap, the loop has ended with the execution as
# running, and the execution fails.
#
# `jobs` has the shell forget those that are over, as it would at a prompt.
#
# The last redirection of the code is of a descriptor that cannot be: it only notes that the others were done.
#
# While the loop is parsed no alias of the user's counts. What stands outside says `\builtin` and has no keywords.
# No comments below: the user may have said that `#` begins none.

\__repltool_enter
until [[ $__repltool_state == taken || $__repltool_state == running ]]; do
  if [[ $__repltool_state == ended ]]; then
    if [[ $__repltool_status$__repltool_ran == 00 && $- != *[aekuvxCET]* ]]; then
      __repltool_done='{"t":"done","m":'$__repltool_next',"n":'$__repltool_n',"success":true,"result":null' \
        __repltool_done+=',"result_text":null,"exception":null,"exit_code":0,"truncated":false,"end_ns":0}' __repltool_exit=0
      \builtin printf %08d%s "${#__repltool_done}" "$__repltool_done" >&241 || \__repltool_leave 76
    else
      \__repltool_report
    fi
    __repltool_m=$__repltool_next __repltool_last=$__repltool_n __repltool_state= __repltool_code=
    [[ $SHELLOPTS:$BASHOPTS == $__repltool_usual && -z $__repltool_trapped ]] || \__repltool_put_by
    [[ -z $! ]] || \builtin jobs
  fi
  [[ -z $__repltool_flag ]] || \builtin read -t 0 -u 241 || __repltool_flag=
  until \builtin read -r -N 8 -u 241 __repltool_frame; do
    (($? > 128)) || \__repltool_leave 0
  done
  __repltool_state=taken
  if [[ -z ${LC_ALL-} && $__repltool_frame == 000[0-9][0-9][0-9][0-9][0-9] ]]; then
    LC_CTYPE=C \builtin read -r -N "$__repltool_frame" -u 241 __repltool_frame || \__repltool_leave 0
  else
    [[ $__repltool_frame == 000[0-9][0-9][0-9][0-9][0-9] ]] || \__repltool_leave 76
    LC_ALL=C \builtin read -r -N "$__repltool_frame" -u 241 __repltool_frame || \__repltool_leave 0
  fi
  if [[ $__repltool_frame != '{"t":"exec","n":'* ]]; then
    \__repltool_serve "$__repltool_frame"
    __repltool_state=
  elif __repltool_wanted=${__repltool_frame:16:20} __repltool_wanted=${__repltool_wanted%%,*}
    ((__repltool_wanted <= __repltool_last)); then
    __repltool_state=
  else
    [[ $__repltool_frame == *\"none\"} ]] && __repltool_in=240 || __repltool_in=242
    __repltool_n=$__repltool_wanted __repltool_frame=${__repltool_frame:25+${#__repltool_wanted}} \
      __repltool_frame=${__repltool_frame%,\"stdin\":*} __repltool_frame=${__repltool_frame#*,} \
      __repltool_raw=${__repltool_frame%,\"ack\":*} __repltool_ack=${__repltool_frame:${#__repltool_raw}+7} \
      __repltool_line=1 __repltool_status= __repltool_ran= __repltool_failing= __repltool_next=$((__repltool_m + 1))
    ((__repltool_ack == __repltool_m && __repltool_low == __repltool_m && (__repltool_low = __repltool_next))) ||
      \__repltool_forget
    if [[ $__repltool_raw == '"code":"'* && $__repltool_raw != *\\* ]]; then
      __repltool_code=${__repltool_raw:8:${#__repltool_raw}-9}
    else
      \__repltool_code __repltool_code "$__repltool_n" "$__repltool_raw"
    fi
    [[ -z $__repltool_back$__repltool_traps$__repltool_builtin$__repltool_funcnest && -z $__repltool_flag \
      && $__repltool_exit == 0 && $__repltool_raw != *set* && $__repltool_raw != *errexit* ]] || \__repltool_prepare
    if [[ $__repltool_code != *break* && $__repltool_code != *continue* ]] || \__repltool_keeps_to_its_loop; then
      __repltool_state=running __repltool_flag= __repltool_builtin=
      \builtin trap - 2
      \builtin eval "${__repltool_code:LINENO=__repltool_line,0}" 0<&"$__repltool_in" 1>&243 \
        2>&244 2147483647>&"${__repltool_close:__repltool_ran=0}" && __repltool_status=0 || __repltool_status=$?
      [[ ${FUNCNEST:-100} == [1-9][0-9][0-9]* || ${FUNCNEST@a} == *r* ]] || __repltool_funcnest=$FUNCNEST FUNCNEST=
      @calm@
      __repltool_back= __repltool_traps= __repltool_flags= __repltool_state=ended
    fi
  fi
done
\__repltool_begin_plainly && \builtin eval "${__repltool_code:LINENO=__repltool_line,0}" 0<&"$__repltool_in" 1>&243 \
  2>&244 2147483647>&"${__repltool_close:__repltool_ran=0}" && __repltool_status=0 || __repltool_status=$?
